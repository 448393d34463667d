/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 */
#include "softhca/proc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "softhca/ctl.h"
#include "softhca/events.h"
#include "softhca/nic.h"
#include "softhca/real.h"

#define ENV_OPTIONS "SPW_SOFTHCA"

enum { NOT_YET, READY, FAILED };

/* One open device file; refs keep a context alive while a command is in it. */
struct dev_file {
	struct dev_file *next;
	struct hca_ctx *ctx;
	int fd;
	uint32_t refs;
	bool closed;
};

static struct proc self;
static struct dev_file *files;
static uint32_t state, cfg_state;
static pid_t owner;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static __thread bool inside; /* this thread is making the devices: what it opens is real */

static void to_stderr(enum spw_log_level level, const char *text, void *arg)
{
	char line[1200];
	int n = snprintf(line, sizeof(line), "softhca: %s\n", text);

	(void)arg;
	if (level != SPW_LOG_INFO && n > 0)
		real_write(STDERR_FILENO, line, SPW_MIN((size_t)n, sizeof(line) - 1));
}

/* ---- fork: the child has no NIC thread, no cable port and no device file ---------------------------- */

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
	/* What is in `files` and self.devs belongs to the parent; a child that wants a device makes its own. */
	hca_marks_clear();
	files = NULL;
	self.devs = NULL;
	self.tree.root[0] = 0;
	state = cfg_state == FAILED ? FAILED : NOT_YET;
	owner = getpid();
	pthread_mutex_init(&mutex, NULL);
}

/* ---- making and unmaking --------------------------------------------------------------------------- */

void proc_load(void)
{
	const uint32_t real_uverbs = sysfs_real_uverbs(); /* while nothing is emulated yet */

	nic_mask_save();
	owner = getpid();
	spw_log_sink_set(to_stderr, NULL);
	pthread_atfork(fork_prepare, fork_parent, fork_child);
	cfg_state = hca_cfg_parse(getenv(ENV_OPTIONS), &self.cfg) ? FAILED : READY;
	self.cfg.uverbs_first = real_uverbs;
	if (cfg_state == FAILED)
		spw_warn("%s; there are no devices", spw_err_text());
}

const struct hca_cfg *proc_cfg(void)
{
	return cfg_state == READY ? &self.cfg : NULL;
}

struct proc *proc_ready(void)
{
	return spw_thr_load_acq(&state) == READY ? &self : NULL;
}

static int make(void)
{
	int rc = hca_devs_open(&self.cfg, &self.devs);

	if (rc)
		return rc;
	rc = tree_make(&self.tree);
	if (!rc)
		rc = sysfs_build(&self.tree, self.devs, self.cfg.dev_cnt);
	if (rc) {
		tree_remove(&self.tree);
		hca_devs_close(self.devs, self.cfg.dev_cnt);
		self.devs = NULL;
	}
	return rc;
}

struct proc *proc_get(void)
{
	uint32_t s = spw_thr_load_acq(&state);
	int keep = errno;

	if (s == READY)
		return &self;
	if (s == FAILED || inside || cfg_state != READY)
		return NULL;
	pthread_mutex_lock(&mutex);
	inside = true;
	if (state == NOT_YET) {
		s = make() ? FAILED : READY;
		if (s == FAILED)
			spw_warn("%s; there are no devices", spw_err_text());
		/* Whoever sees READY sees the devices: pairs with the acquire above. */
		spw_thr_store_rel(&state, s);
	}
	inside = false;
	pthread_mutex_unlock(&mutex);
	errno = keep;
	return state == READY ? &self : NULL;
}

void proc_exit(void)
{
	if (getpid() != owner || state != READY)
		return;
	pthread_mutex_lock(&mutex);
	state = FAILED;
	inside = true;
	tree_remove(&self.tree);
	hca_devs_close(self.devs, self.cfg.dev_cnt);
	files = NULL;
	hca_marks_clear();
	pthread_mutex_unlock(&mutex);
}

/* ---- device files ---------------------------------------------------------------------------------- */

bool proc_fd_marked(int fd)
{
	return hca_mark_get(fd);
}

int proc_cdev_open(uint32_t dev_idx)
{
	struct proc *p = proc_get();
	struct dev_file *f;
	int rc;

	if (!p || dev_idx >= p->cfg.dev_cnt) {
		errno = ENXIO;
		return -1;
	}
	f = calloc(1, sizeof(*f));
	rc = f ? hca_ctx_open(&p->devs[dev_idx], &f->ctx) : -ENOMEM;
	if (rc) {
		free(f);
		errno = -rc;
		return -1;
	}
	f->fd = f->ctx->fd;
	f->refs = 1;
	pthread_mutex_lock(&mutex);
	f->next = files;
	files = f;
	hca_mark_set(f->fd);
	pthread_mutex_unlock(&mutex);
	return f->fd;
}

struct hca_ctx *proc_ctx_get(int fd)
{
	struct dev_file *f;

	pthread_mutex_lock(&mutex);
	for (f = files; f && (f->closed || f->fd != fd); f = f->next)
		;
	if (f)
		f->refs++;
	pthread_mutex_unlock(&mutex);
	return f ? f->ctx : NULL;
}

/* The last one out closes the context. */
static void file_put(struct dev_file *file, bool closing)
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
	if (last) {
		hca_ctx_close(file->ctx);
		free(file);
	}
}

void proc_ctx_put(struct hca_ctx *ctx)
{
	struct dev_file *f;

	pthread_mutex_lock(&mutex);
	for (f = files; f && f->ctx != ctx; f = f->next)
		;
	pthread_mutex_unlock(&mutex);
	if (f)
		file_put(f, false);
}

static void channel_closing(int fd)
{
	bool found = false;

	pthread_mutex_lock(&mutex);
	for (struct dev_file *f = files; f && !found; f = f->next) {
		hca_lock(f->ctx->dev);
		found = hca_channel_fd_closed(f->ctx, fd);
		hca_unlock(f->ctx->dev);
	}
	pthread_mutex_unlock(&mutex);
}

void proc_fd_closing(int fd)
{
	struct dev_file *f;

	hca_mark_clear(fd);
	pthread_mutex_lock(&mutex);
	for (f = files; f && (f->closed || f->fd != fd); f = f->next)
		;
	pthread_mutex_unlock(&mutex);
	if (f)
		file_put(f, true);
	else
		channel_closing(fd);
}
