/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The control socket: a stream of lines, one command each, one answer line each. Its thread sleeps in
 * poll() and takes the device lock for a command, like any other. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "softhca/nic_impl.h"
#include "softhca/nic_run.h"

struct control {
	struct nic_dev *nd;
	pthread_t thread;
	int fd, stop_fd[2];
	char path[108];
};

/* ---- commands ---------------------------------------------------------------------------------------- */

static int cmd_time(const char *arg, uint64_t now_ns, uint64_t *until_out)
{
	const int64_t ns = fault_time_ns(arg);

	if (ns < 0)
		return spw_err(EINVAL, "\"%s\" is no time; use ns, us, ms or s", arg);
	*until_out = now_ns + (uint64_t)ns;
	return 0;
}

static int cmd_link_down(struct nic_dev *nd, const char *arg)
{
	const int rc = cmd_time(arg, nd->now_ns, &nd->fault->link_down_until_ns);

	if (rc)
		return rc;
	nd->fault->on = true;
	nic_link_set(nd, false);
	return 0;
}

static int cmd_rnr(struct nic_dev *nd, const char *arg)
{
	return cmd_time(arg, nd->now_ns, &nd->fault->rnr_until_ns);
}

static int cmd_cq_overrun(struct nic_dev *nd, const char *arg)
{
	struct hca_cq *cq = hca_tbl_get(&nd->dev->cqs, (uint32_t)strtoul(arg, NULL, 0));

	if (!cq || !cq->nic)
		return spw_err(ENOENT, "no CQ %s", arg);
	cq_overrun(cq->nic);
	return 0;
}

static int cmd_qp_error(struct nic_dev *nd, const char *arg)
{
	struct hca_qp *qp = hca_qp_get(nd->dev, (uint32_t)strtoul(arg, NULL, 0));

	if (!qp || !qp->nic)
		return spw_err(ENOENT, "no QP %s", arg);
	qp_to_err(qp->nic);
	hca_event_qp(qp, HCA_EVENT_QP_FATAL);
	return 0;
}

static int cmd_mr_revoke(struct nic_dev *nd, const char *arg)
{
	struct hca_mr *mr = hca_mr_get(nd->dev, (uint32_t)strtoul(arg, NULL, 0));

	if (!mr)
		return spw_err(ENOENT, "no region with key %s", arg);
	mr->revoked = true;
	return 0;
}

static int cmd_kill(struct nic_dev *nd, const char *arg)
{
	(void)nd, (void)arg;
	return raise(SIGKILL);
}

/* Nothing arrives any more, every command fails with EIO, and the application is told. */
static int cmd_remove(struct nic_dev *nd, const char *arg)
{
	(void)arg;
	nd->rx_credit = 0;
	nd->fault->removed = true;
	hca_event_port(nd->dev, HCA_EVENT_DEVICE_FATAL);
	return 0;
}

static int cmd_hold(struct nic_dev *nd, const char *arg)
{
	(void)arg;
	nd->rx_credit = 0;
	return 0;
}

/* "release": go on as ever; "release=N": take N frames, then hold again. */
static int cmd_release(struct nic_dev *nd, const char *arg)
{
	nd->rx_credit = *arg ? (uint32_t)strtoul(arg, NULL, 0) : UINT32_MAX;
	return 0;
}

static int cmd_fault(struct nic_dev *nd, const char *arg)
{
	return fault_set(nd->fault, arg);
}

static int cmd_trace(struct nic_dev *nd, const char *arg)
{
	if (nd->trace) {
		spw_pcapng_close(nd->trace);
		nd->trace = NULL;
	}
	nd->icrc_always = nd->fault->icrc;
	if (!*arg || strcmp(arg, "off") == 0)
		return 0;
	nd->icrc_always = true;
	return trace_open(arg, nd->dev->id.name, &nd->trace);
}

static void status_text(const struct nic_dev *nd, char *answer, size_t bytes)
{
	const struct fault *f = nd->fault;
	char credit[16] = "all";

	if (nd->rx_credit != UINT32_MAX)
		snprintf(credit, sizeof(credit), "%u", nd->rx_credit);
	snprintf(answer, bytes,
		 "ok credit=%s link=%u rx=%llu tx=%llu lost=%llu dup=%llu reordered=%llu corrupted=%llu delayed=%llu\n",
		 credit, nd->dev->link_up, (unsigned long long)nd->dev->cnt.port_rcv_packets,
		 (unsigned long long)nd->dev->cnt.port_xmit_packets, (unsigned long long)f->hit_cnt[0],
		 (unsigned long long)f->hit_cnt[1], (unsigned long long)f->hit_cnt[2],
		 (unsigned long long)f->hit_cnt[3], (unsigned long long)f->hit_cnt[4]);
}

/* Numbers of all objects of one table: " cq=1,2". */
static size_t list_numbers(const struct hca_tbl *t, const char *what, uint32_t (*number)(const void *obj), char *text, size_t bytes)
{
	size_t n = 0;

	for (uint32_t i = 0; i < t->cap && n < bytes; i++)
		if (t->slot[i])
			n += (size_t)snprintf(text + n, bytes - n, "%s%s%s%u", n ? "," : " ", n ? "" : what, n ? "" : "=",
					      number(t->slot[i]));
	return SPW_MIN(n, bytes - 1);
}

static uint32_t cq_number(const void *obj)
{
	return ((const struct hca_cq *)obj)->cqn;
}

static uint32_t qp_number(const void *obj)
{
	return ((const struct hca_qp *)obj)->qpn;
}

static uint32_t mr_number(const void *obj)
{
	return ((const struct hca_mr *)obj)->key;
}

/* "ok cq=1,2 qp=65538 mr=513": what cq-overrun, qp-error and mr-revoke can name. */
static void objects_text(const struct nic_dev *nd, char *answer, size_t bytes)
{
	size_t n = (size_t)snprintf(answer, bytes, "ok");

	n += list_numbers(&nd->dev->cqs, "cq", cq_number, answer + n, bytes - n);
	n += list_numbers(&nd->dev->qps, "qp", qp_number, answer + n, bytes - n);
	n += list_numbers(&nd->dev->mrs, "mr", mr_number, answer + n, bytes - n);
	answer[SPW_MIN(n, bytes - 2)] = '\n';
	answer[SPW_MIN(n, bytes - 2) + 1] = '\0';
}

static void thread_text(const struct nic_dev *nd, char *answer, size_t bytes)
{
	struct nic_thread_stat t;

	(void)nd;
	nic_thread_stat(&t);
	snprintf(answer, bytes, "ok naps=%llu switches=%llu lost_us=%llu other_us=%llu\n", (unsigned long long)t.naps,
		 (unsigned long long)t.switches, (unsigned long long)t.lost_ns / 1000, (unsigned long long)t.other_ns / 1000);
}

int control_exec(struct nic_dev *nd, const char *line, char *answer, size_t bytes)
{
	static const struct {
		const char *name;
		int (*exec)(struct nic_dev *, const char *); /* NULL: only a question */
		void (*text)(const struct nic_dev *, char *, size_t);
	} cmds[] = {
		{"link-down", cmd_link_down, status_text}, {"rnr", cmd_rnr, status_text}, {"cq-overrun", cmd_cq_overrun, status_text},
		{"qp-error", cmd_qp_error, status_text}, {"mr-revoke", cmd_mr_revoke, status_text}, {"kill", cmd_kill, status_text},
		{"remove", cmd_remove, status_text}, {"hold", cmd_hold, status_text}, {"release", cmd_release, status_text}, {"fault", cmd_fault, status_text},
		{"trace", cmd_trace, status_text}, {"status", NULL, status_text}, {"objects", NULL, objects_text},
		{"thread", NULL, thread_text},
	};
	const size_t n = strcspn(line, "= \n");
	char arg[256];

	snprintf(arg, sizeof(arg), "%s", line[n] && line[n] != '\n' ? line + n + 1 : "");
	arg[strcspn(arg, "\r\n")] = '\0';
	for (unsigned i = 0; i < SPW_ARRAY_CNT(cmds); i++) {
		int rc;

		if (strlen(cmds[i].name) != n || strncmp(line, cmds[i].name, n) != 0)
			continue;
		spw_err_clear();
		rc = cmds[i].exec ? cmds[i].exec(nd, arg) : 0;
		if (rc)
			snprintf(answer, bytes, "error %s\n", spw_err_text());
		else
			cmds[i].text(nd, answer, bytes);
		return rc;
	}
	snprintf(answer, bytes, "error no command \"%.*s\"\n", (int)SPW_MIN(n, (size_t)32), line);
	return -EINVAL;
}

int nic_fault_of(struct hca_dev *dev, const char *command)
{
	return dev->nic && command ? fault_fail(dev->nic->fault, command) : 0;
}

void nic_control(struct hca_dev *dev, const char *line, char *answer, size_t answer_bytes)
{
	hca_lock(dev);
	dev->nic->now_ns = nic_now_ns();
	control_exec(dev->nic, line, answer, answer_bytes);
	cable_tx_flush(dev->nic->cable);
	hca_unlock(dev);
}

/* ---- the socket -------------------------------------------------------------------------------------- */

/* 0: there is something to read; else end. */
static int wait_for(const struct control *c, int fd)
{
	struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = c->stop_fd[0], .events = POLLIN}};

	while (poll(p, 2, -1) < 0)
		if (errno != EINTR)
			return -1;
	return p[1].revents ? -1 : 0;
}

static void serve(struct control *c, int fd)
{
	char line[512], answer[4096];
	size_t fill = 0;

	while (wait_for(c, fd) == 0) {
		const ssize_t n = recv(fd, line + fill, sizeof(line) - 1 - fill, 0);
		char *nl;

		if (n <= 0)
			return;
		fill += (size_t)n;
		line[fill] = '\0';
		while ((nl = strchr(line, '\n'))) {
			*nl = '\0';
			nic_control(c->nd->dev, line, answer, sizeof(answer));
			if (send(fd, answer, strlen(answer), MSG_NOSIGNAL) < 0)
				return;
			fill -= (size_t)(nl + 1 - line);
			memmove(line, nl + 1, fill + 1);
		}
		if (fill == sizeof(line) - 1)
			return; /* no command is so long */
	}
}

static void *control_main(void *arg)
{
	struct control *c = arg;

	while (wait_for(c, c->fd) == 0) {
		const int fd = accept4(c->fd, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			continue;
		serve(c, fd);
		close(fd);
	}
	return NULL;
}

static int bind_at(struct control *c, const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	if (strlen(path) >= sizeof(a.sun_path))
		return spw_err(EINVAL, "control socket %s: longer than %zu characters", path, sizeof(a.sun_path) - 1);
	strcpy(a.sun_path, path);
	strcpy(c->path, path);
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->fd < 0)
		return spw_err(errno, "control socket %s: %s", path, strerror(errno));
	if (bind(c->fd, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(c->fd, 4) == 0)
		return 0;
	c->path[0] = '\0';
	return spw_err(errno, "control socket %s: %s", path, strerror(errno));
}

/* PATH for the first device of the first process, PATH.DEVICE.PID for others. */
int control_open(struct nic_dev *nd, const char *path)
{
	struct control *c = calloc(1, sizeof(*c));
	char other[160];
	sigset_t all, old;
	int rc;

	if (!c)
		return spw_err(ENOMEM, "control socket: no memory");
	c->nd = nd;
	c->fd = c->stop_fd[0] = c->stop_fd[1] = -1;
	nd->control = c;
	rc = bind_at(c, path);
	if (rc == -EADDRINUSE) {
		close(c->fd);
		snprintf(other, sizeof(other), "%.100s.%s.%d", path, nd->dev->id.name, (int)getpid());
		rc = bind_at(c, other);
	}
	if (!rc && pipe(c->stop_fd))
		rc = spw_err(errno, "control socket %s: %s", path, strerror(errno));
	if (rc)
		return rc;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&c->thread, NULL, control_main, c);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc) {
		close(c->stop_fd[1]);
		c->stop_fd[1] = -1;
		return spw_err(rc, "control socket %s: no thread", path);
	}
	return 0;
}

void control_close(struct nic_dev *nd)
{
	struct control *c = nd->control;

	if (!c)
		return;
	if (c->stop_fd[1] >= 0) {
		close(c->stop_fd[1]);
		pthread_join(c->thread, NULL);
		close(c->stop_fd[0]);
	}
	if (c->fd >= 0)
		close(c->fd);
	if (c->path[0])
		unlink(c->path);
	free(c);
	nd->control = NULL;
}
