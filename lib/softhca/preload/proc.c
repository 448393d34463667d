/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The library in a process: load, first use, fork, exit; and the table of open device
 * files.
 *
 *   load (constructor)   parse the options; nothing is created yet
 *   first use            proc_get: devices, their cables, the private folder with /sys and /dev
 *   fork                 the child forgets all of it, without touching what is the parent's
 *   exit (destructor)    folder and cables go; memory is left to the kernel
 *
 * Many programs under with-softhca (shells, scripts) never look for a device and pay for a parse
 * only.
 *
 *   dev_file   open: refs 1 --> each command: +1 ... -1 --> close: closed, -1 --> 0: context closed
 *
 * What to know before changing it: `mutex` guards `files` and the first use, and is taken before a
 * device lock, never after one. fork() takes it, so that no child inherits a list that another
 * thread was changing. proc_exit() may run in a signal handler and does not take it.
 */
#include "softhca/preload/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "softhca/cm/ucma.h"
#include "softhca/hca_real.h"
#include "softhca/kernel/ctl.h"
#include "softhca/kernel/devx_events.h"
#include "softhca/kernel/ethtool.h"
#include "softhca/kernel/events.h"
#include "softhca/kernel/nldev/nldev.h"
#include "softhca/nic/nic.h"

#define ENV_OPTIONS "SPW_SOFTHCA"
#define ENV_STRICT  "SPW_SOFTHCA_STRICT"

enum { NOT_YET, READY, FAILED };

/* One open device file, of a device or of rdma_cm. It lives until the descriptor is closed and no
 * command runs in it. */
struct dev_file {
	struct dev_file *next;
	struct hca_ctx *ctx;   /* or NULL */
	struct ucma_file *cma; /* or NULL */
	int fd;
	uint32_t refs;
	bool closed;
};

/* The process has one of each. `state` is of the devices, `cfg_state` of the options, `owner` the
 * process that loaded the library, or the child that forked from it. */
static struct proc self;
static struct dev_file *files;
static uint32_t state, cfg_state;
static pid_t owner;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static __thread bool inside; /* this thread creates the devices: paths it opens are real */

/* Messages of the library: to stderr, past the streams of stdio, whose locks this thread may
 * hold. */
static void proc_to_stderr(enum spw_log_level level, const char *text, void *arg)
{
	char line[1200];
	int n = snprintf(line, sizeof(line), "softhca: %s\n", text);

	(void)arg;
	if (level != SPW_LOG_INFO && n > 0)
		real_write(STDERR_FILENO, line, SPW_MIN((size_t)n, sizeof(line) - 1));
}

/* ---- fork: the child has no NIC thread, no cable port and no device file ---- */

static void fork_prepare(void)
{
	pthread_mutex_lock(&mutex);
}

static void fork_parent(void)
{
	pthread_mutex_unlock(&mutex);
}

static void fork_child(void)
{
	if (state == READY)
		nic_forked();
	ucma_forked();
	nldev_forked();
	/* `files` and self.devs are copies of the parent's objects: forgotten, not freed. */
	hca_marks_clear();
	files = NULL;
	self.devs = NULL;
	self.tree.root[0] = 0;
	state = cfg_state == FAILED ? FAILED : NOT_YET;
	owner = getpid();
	pthread_mutex_init(&mutex, NULL);
}

/* ---- load, first use, exit ---- */

void proc_load(void)
{
	const uint32_t real_uverbs = sysfs_real_uverbs(); /* before paths are emulated */
	const char *strict = getenv(ENV_STRICT);

	nic_mask_save();
	owner = getpid();
	spw_log_sink_set(proc_to_stderr, NULL);
	pthread_atfork(fork_prepare, fork_parent, fork_child);
	cfg_state = hca_cfg_parse(getenv(ENV_OPTIONS), &self.cfg) ? FAILED : READY;
	self.cfg.uverbs_first = real_uverbs;
	snprintf(self.cfg.strict_log, sizeof(self.cfg.strict_log), "%s", strict ? strict : "");
	if (cfg_state == FAILED)
		spw_warn("%s; there are no devices", spw_err_text());
}

const struct hca_cfg *proc_cfg(void)
{
	return cfg_state == READY ? &self.cfg : NULL;
}

struct proc *proc_ready(void)
{
	return spw_thr_load_acq(&state) == READY ? &self : NULL; /* [PR3 acquire, pairs with PR1] */
}

/* A failure leaves nothing behind: the next program that starts finds no folder and no port
 * taken. */
static int proc_make(void)
{
	int rc = hca_devs_open(&self.cfg, &self.devs);

	if (rc)
		return rc;
	rc = tree_make(&self.tree);
	nl_machine_folder(self.tree.root);
	if (!rc)
		rc = sysfs_build(&self.tree, self.devs, self.cfg.dev_cnt);
	if (rc) {
		tree_remove(&self.tree);
		hca_devs_close(self.devs, self.cfg.dev_cnt);
		self.devs = NULL;
	}
	return rc;
}

/* Double-checked: all calls but the first take no lock. errno stays as it was, since open() and
 * stat() of other files pass here. */
struct proc *proc_get(void)
{
	uint32_t s = spw_thr_load_acq(&state); /* [PR2 acquire, pairs with PR1] */
	int keep = errno;

	if (s == READY)
		return &self;
	if (s == FAILED || inside || cfg_state != READY)
		return NULL;
	pthread_mutex_lock(&mutex);
	inside = true;
	if (state == NOT_YET) {
		s = proc_make() ? FAILED : READY;
		if (s == FAILED)
			spw_warn("%s; there are no devices", spw_err_text());
		/* [PR1 release, pairs with PR2 and PR3: a reader of READY sees the devices] */
		spw_thr_store_rel(&state, s);
	}
	inside = false;
	pthread_mutex_unlock(&mutex);
	errno = keep;
	return state == READY ? &self : NULL;
}

void proc_exit(void)
{
	uint32_t ready = READY;

	/* Without the mutex: exit() may have been called in a signal handler that interrupted this
	 * thread while it held the mutex. */
	if (getpid() != owner || !spw_thr_cas(&state, &ready, FAILED))
		return;
	hca_marks_clear();
	tree_remove(&self.tree);
	hca_devs_leave(self.devs, self.cfg.dev_cnt);
}

/* ---- device files ---- */

bool proc_fd_marked(int fd)
{
	return hca_mark_get(fd) != HCA_MARK_NONE;
}

static void proc_file_close(struct dev_file *f)
{
	if (f->ctx)
		hca_ctx_close(f->ctx);
	else
		ucma_close(f->cma);
	free(f);
}

static int proc_file_open(struct proc *p, uint32_t dev_idx, struct dev_file *f)
{
	int rc;

	if (dev_idx == PROC_CMA)
		return ucma_open(p->devs, p->cfg.dev_cnt, &f->cma, &f->fd);
	rc = hca_ctx_open(&p->devs[dev_idx], &f->ctx);
	if (!rc)
		f->fd = f->ctx->fd;
	return rc;
}

/* The descriptor is a memfd of the context (kernel/uar.c), which mmap() then works on by itself, or
 * a pipe of rdma_cm. The mark comes last: only a file that is open in full has one. */
int proc_cdev_open(uint32_t dev_idx, int flags)
{
	struct proc *p = proc_get();
	struct dev_file *f;
	int rc;

	if (!p || (dev_idx >= p->cfg.dev_cnt && dev_idx != PROC_CMA)) {
		errno = ENXIO;
		return -1;
	}
	/* Without the mutex, which every command of another thread needs. */
	f = calloc(1, sizeof(*f));
	rc = f ? proc_file_open(p, dev_idx, f) : -ENOMEM;
	if (rc) {
		free(f);
		errno = -rc;
		return -1;
	}
	f->refs = 1;
	rc = hca_mark_set(f->fd, HCA_MARK_FILE);
	if (rc) {
		real_close(f->fd);
		proc_file_close(f);
		errno = -rc;
		return -1;
	}
	if (flags & O_NONBLOCK)
		fcntl(f->fd, F_SETFL, O_RDWR | O_NONBLOCK);
	nl_machine_serve(p->devs, p->cfg.dev_cnt, p->tree.root);
	pthread_mutex_lock(&mutex);
	f->next = files;
	files = f;
	pthread_mutex_unlock(&mutex);
	return f->fd;
}

/* A descriptor that was closed is not found, though its file may live on in a command. With the
 * mutex. */
static struct dev_file *proc_file_of(int fd)
{
	struct dev_file *f = files;

	while (f && (f->closed || f->fd != fd))
		f = f->next;
	return f;
}

struct hca_ctx *proc_ctx_get(int fd)
{
	struct dev_file *f;

	pthread_mutex_lock(&mutex);
	f = proc_file_of(fd);
	if (f && f->ctx)
		f->refs++;
	pthread_mutex_unlock(&mutex);
	return f ? f->ctx : NULL;
}

struct ucma_file *proc_cma_get(int fd)
{
	struct dev_file *f;

	pthread_mutex_lock(&mutex);
	f = proc_file_of(fd);
	if (f && f->cma)
		f->refs++;
	pthread_mutex_unlock(&mutex);
	return f ? f->cma : NULL;
}

int proc_fd_dev(int fd)
{
	struct dev_file *f;
	int idx = -1;

	if (!proc_fd_marked(fd))
		return -1;
	pthread_mutex_lock(&mutex);
	f = proc_file_of(fd);
	if (f)
		idx = (int)(f->ctx ? f->ctx->dev->idx : PROC_CMA);
	pthread_mutex_unlock(&mutex);
	return idx;
}

/* Drops one reference; the last one closes the context. */
static void proc_file_put(struct dev_file *file, bool closing)
{
	struct dev_file **at;
	bool last;

	pthread_mutex_lock(&mutex);
	file->closed |= closing;
	last = --file->refs == 0;
	for (at = &files; last && *at; at = &(*at)->next) {
		if (*at == file) {
			*at = file->next;
			break;
		}
	}
	pthread_mutex_unlock(&mutex);
	if (last) /* Outside the mutex: this takes the device lock, and waits for the NIC. */
		proc_file_close(file);
}

void proc_ctx_put(struct hca_ctx *ctx)
{
	struct dev_file *f;

	pthread_mutex_lock(&mutex);
	for (f = files; f && f->ctx != ctx; f = f->next)
		;
	pthread_mutex_unlock(&mutex);
	if (f)
		proc_file_put(f, false);
}

void proc_cma_put(struct ucma_file *cma)
{
	struct dev_file *f;

	pthread_mutex_lock(&mutex);
	for (f = files; f && f->cma != cma; f = f->next)
		;
	pthread_mutex_unlock(&mutex);
	if (f)
		proc_file_put(f, false);
}

/* These live in their devices, since they outlive their contexts. */
struct devx_file *proc_events_get(int fd)
{
	struct devx_file *f = NULL;

	if (hca_mark_get(fd) != HCA_MARK_EVENTS)
		return NULL;
	for (uint32_t i = 0; i < self.cfg.dev_cnt && !f; i++)
		f = devx_file_get(&self.devs[i], fd);
	return f;
}

/* A completion or event channel: any context may have opened it, so all are asked. */
static void channel_closing(int fd)
{
	bool found = false;

	pthread_mutex_lock(&mutex);
	for (struct dev_file *f = files; f && !found; f = f->next) {
		if (!f->ctx)
			continue;
		hca_lock(f->ctx->dev);
		found = hca_channel_fd_closed(f->ctx, fd);
		hca_unlock(f->ctx->dev);
	}
	pthread_mutex_unlock(&mutex);
}

/* Device file or channel? The table of files decides. The mark goes first, so that the number may
 * be reused as soon as it is closed. */
void proc_fd_closing(int fd)
{
	const enum hca_mark mark = hca_mark_get(fd);
	struct dev_file *f;

	hca_mark_clear(fd);
	if (mark == HCA_MARK_NETLINK) {
		nldev_close(fd);
		return;
	}
	if (mark == HCA_MARK_EVENTS) {
		for (uint32_t i = 0; i < self.cfg.dev_cnt; i++)
			if (devx_file_closed(&self.devs[i], fd))
				return;
	}
	pthread_mutex_lock(&mutex);
	f = proc_file_of(fd);
	pthread_mutex_unlock(&mutex);
	if (f)
		proc_file_put(f, true);
	else
		channel_closing(fd);
}

/* ---- network interfaces ---- */

/* By the name in the options, without making the devices for an interface that is not ours. */
bool proc_ethtool(const struct ifreq *ifr, int *rc_out)
{
	const struct hca_cfg *cfg = proc_cfg();

	for (uint32_t i = 0; cfg && i < cfg->dev_cnt; i++) {
		const struct proc *p;

		if (!cfg->dev[i].netdev[0] ||
		    strncmp(cfg->dev[i].netdev, ifr->ifr_name, IFNAMSIZ) != 0)
			continue;
		p = proc_get();
		*rc_out = p ? hca_ethtool(&p->devs[i], ifr->ifr_data) : -EOPNOTSUPP;
		return *rc_out != -EOPNOTSUPP;
	}
	return false;
}
