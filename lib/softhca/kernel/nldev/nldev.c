/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * NETLINK_RDMA: sockets, questions and errors. nldev.h has the picture.
 *
 *   nldev_send: copy in --> each message --> real device? relay : command --> queue --> pump
 *
 * One lock for all sockets, with all signals blocked (hca_quiet.h). Device locks are taken inside
 * it.
 */
#include "softhca/kernel/nldev/nldev.h"

#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/spw_netlink.h"
#include "softhca/hca_quiet.h"
#include "softhca/hca_real.h"
#include "softhca/kernel/ctl.h"
#include "softhca/kernel/events.h"
#include "softhca/kernel/nldev/nl_impl.h"

#define QUESTION_BYTES (64u << 10)

static struct nl_file *nl_files;
static pthread_mutex_t nl_mutex = PTHREAD_MUTEX_INITIALIZER;

/* With the lock. */
static struct nl_file *nl_find(int fd)
{
	struct nl_file *f = nl_files;

	while (f && f->fd != fd)
		f = f->next;
	return f;
}

/* ---- parts of answers ---- */

struct hca_dev *nl_device(const struct nl_call *c)
{
	const uint32_t i = c->req.arg[NL_DEV] - nl_first_index(c->file);

	if (!nl_has(&c->req, NL_DEV) || i >= c->file->dev_cnt || hca_is_gone(&c->file->devs[i]))
		return NULL;
	return &c->file->devs[i];
}

void nl_put_device(struct nl_call *c, const struct hca_dev *dev)
{
	nl_u32(&c->out, RDMA_NLDEV_ATTR_DEV_INDEX, nl_first_index(c->file) + dev->idx);
	nl_str(&c->out, RDMA_NLDEV_ATTR_DEV_NAME, dev->id.name);
}

void nl_answer(struct nl_call *c, uint16_t op, uint16_t flags)
{
	nl_begin(&c->out, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, op), flags);
}

int nl_one(struct nl_call *c, const struct hca_dev *dev, nl_fill_fn *fill)
{
	if (!dev)
		return -EINVAL;
	fill(c, dev, 0);
	return 0;
}

int nl_dump_one(struct nl_call *c, const struct hca_dev *dev, nl_fill_fn *fill)
{
	if (!dev)
		return -EINVAL;
	fill(c, dev, NLM_F_MULTI);
	if (nl_end(&c->out))
		return 0;
	nl_flush(&c->out);
	fill(c, dev, NLM_F_MULTI);
	return nl_end(&c->out) ? 0 : -EMSGSIZE;
}

int nl_dump_all(struct nl_call *c, nl_fill_fn *fill)
{
	int rc = 0;

	for (uint32_t i = 0; i < c->file->dev_cnt && !rc; i++)
		if (!hca_is_gone(&c->file->devs[i]))
			rc = nl_dump_one(c, &c->file->devs[i], fill);
	return rc;
}

/* ---- queue to socket ---- */

/* Binds a socket that has no port yet, as the kernel does with the first message. Returns: 0: it
 * has none. */
static uint32_t nl_port(int fd)
{
	struct sockaddr_nl a = {.nl_family = AF_NETLINK};
	socklen_t bytes = sizeof(a);

	if (getsockname(fd, (struct sockaddr *)&a, &bytes) || a.nl_pid)
		return a.nl_pid;
	bind(fd, (struct sockaddr *)&a, sizeof(a));
	bytes = sizeof(a);
	return getsockname(fd, (struct sockaddr *)&a, &bytes) ? 0 : a.nl_pid;
}

/* What the socket's buffer does not take stays in the queue. A lost answer is an overrun, which the
 * application gets as ENOBUFS from its next receive on a card's machine; here it waits in vain. */
static void nl_pump(struct nl_file *f)
{
	const struct sockaddr_nl to = {.nl_family = AF_NETLINK, .nl_pid = nl_port(f->fd)};
	const void *data;
	uint32_t bytes;

	while (to.nl_pid && (data = nl_queue_first(&f->queue, &bytes))) {
		if (sendto(f->own_fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL,
			   (const struct sockaddr *)&to, sizeof(to)) < 0 &&
		    (errno == EAGAIN || errno == EINTR))
			return;
		nl_queue_took(&f->queue);
	}
}

/* ---- commands ---- */

/* Refused as by a driver that has not the operation behind it. */
static int nl_unsupported(struct nl_call *c)
{
	(void)c;
	return -EOPNOTSUPP;
}

/* Only soft devices can be made and removed so, and these are none. */
static int nl_no_link(struct nl_call *c)
{
	(void)c;
	return -EINVAL;
}

#define ADMIN  1u /* CAP_NET_ADMIN */
#define STRICT 2u /* attributes are checked as newer commands check them */

static const struct nl_cmd {
	int (*one)(struct nl_call *c);
	int (*dump)(struct nl_call *c);
	uint8_t flags;
} cmds[] = {
	[RDMA_NLDEV_CMD_GET] = {nl_get, nl_get_dump, 0},
	[RDMA_NLDEV_CMD_SET] = {nl_set, NULL, ADMIN},
	[RDMA_NLDEV_CMD_NEWLINK] = {nl_no_link, NULL, ADMIN},
	[RDMA_NLDEV_CMD_DELLINK] = {nl_no_link, NULL, ADMIN},
	[RDMA_NLDEV_CMD_PORT_GET] = {nl_port_get, nl_port_get_dump, 0},
	[RDMA_NLDEV_CMD_SYS_GET] = {nl_sys_get, NULL, STRICT},
	[RDMA_NLDEV_CMD_SYS_SET] = {nl_unsupported, NULL, ADMIN | STRICT},
	[RDMA_NLDEV_CMD_RES_GET] = {nl_res_get, nl_res_get_dump, 0},
	[RDMA_NLDEV_CMD_RES_QP_GET] = {nl_res_one, nl_res_dump, 0},
	[RDMA_NLDEV_CMD_RES_CM_ID_GET] = {nl_res_one, nl_res_dump, 0},
	[RDMA_NLDEV_CMD_RES_CQ_GET] = {nl_res_one, nl_res_dump, 0},
	[RDMA_NLDEV_CMD_RES_MR_GET] = {nl_res_one, nl_res_dump, 0},
	[RDMA_NLDEV_CMD_RES_PD_GET] = {nl_res_one, nl_res_dump, 0},
	[RDMA_NLDEV_CMD_RES_CTX_GET] = {nl_res_one, nl_res_dump, 0},
	[RDMA_NLDEV_CMD_RES_SRQ_GET] = {nl_res_one, nl_res_dump, 0},
	[RDMA_NLDEV_CMD_GET_CHARDEV] = {nl_chardev, NULL, STRICT},
	[RDMA_NLDEV_CMD_STAT_SET] = {nl_stat_set, NULL, ADMIN | STRICT},
	[RDMA_NLDEV_CMD_STAT_GET] = {nl_stat_get, nl_stat_get_dump, STRICT},
	[RDMA_NLDEV_CMD_STAT_DEL] = {nl_stat_del, NULL, ADMIN | STRICT},
	[RDMA_NLDEV_CMD_RES_QP_GET_RAW] = {nl_unsupported, nl_unsupported, ADMIN},
	[RDMA_NLDEV_CMD_RES_CQ_GET_RAW] = {nl_unsupported, nl_unsupported, ADMIN},
	[RDMA_NLDEV_CMD_RES_MR_GET_RAW] = {nl_unsupported, nl_unsupported, ADMIN},
	[RDMA_NLDEV_CMD_STAT_GET_STATUS] = {nl_stat_status, NULL, STRICT},
};

/* An acknowledgement, or an error: the question comes back with the latter, whole if it was one. */
static void nl_ack(struct nl_call *c, const uint8_t *msg, int rc)
{
	const struct nlmsghdr *h = &c->req.head;
	const uint32_t whole = rc && !c->file->short_ack ? h->nlmsg_len : NLMSG_HDRLEN;
	const uint32_t bytes = NLMSG_HDRLEN + (uint32_t)sizeof(rc) + whole;
	const struct nlmsghdr head = {.nlmsg_len = bytes,
				      .nlmsg_type = NLMSG_ERROR,
				      .nlmsg_flags = rc && !c->file->short_ack ? 0 : NLM_F_CAPPED,
				      .nlmsg_seq = h->nlmsg_seq,
				      .nlmsg_pid = c->out.portid};
	uint8_t *at = calloc(1, NLMSG_ALIGN(bytes));

	if (at) {
		memcpy(at, &head, sizeof(head));
		memcpy(at + NLMSG_HDRLEN, &rc, sizeof(rc));
		memcpy(at + NLMSG_HDRLEN + sizeof(rc), msg, whole);
		nl_queue_put(&c->file->queue, at, NLMSG_ALIGN(bytes));
	}
	free(at);
}

/* The end of a dump has its error, and is no acknowledgement. */
static void nl_done(struct nl_call *c, int rc)
{
	nl_flush(&c->out);
	nl_begin(&c->out, NLMSG_DONE, NLM_F_MULTI);
	memcpy(c->out.buf + c->out.used, &rc, sizeof(rc));
	c->out.used += sizeof(rc);
	nl_end(&c->out);
	nl_flush(&c->out);
}

/* Does another device answer, and this one not at all? */
static bool nl_is_foreign(const struct nl_call *c, const uint8_t *body, size_t bytes)
{
	const uint32_t first = nl_first_index(c->file);
	struct nl_req req = {0};

	if (c->file->real_fd < 0)
		return false;
	if (RDMA_NL_GET_CLIENT(c->req.head.nlmsg_type) != RDMA_NL_NLDEV ||
	    c->op == RDMA_NLDEV_CMD_NEWLINK)
		return true;
	return nl_parse(body, bytes, false, &req) == 0 && nl_has(&req, NL_DEV) &&
	       req.arg[NL_DEV] < first;
}

/* Returns: 0 or -errno for the acknowledgement; -EINTR: a dump, which has none. */
static int nl_command(struct nl_call *c, const uint8_t *msg)
{
	const struct nl_cmd *cmd = c->op < SPW_ARRAY_CNT(cmds) ? &cmds[c->op] : NULL;
	const uint8_t *body = msg + NLMSG_HDRLEN;
	const size_t bytes = c->req.head.nlmsg_len - (size_t)NLMSG_HDRLEN;
	const bool dump = c->req.head.nlmsg_flags & NLM_F_DUMP;
	int rc;

	if (RDMA_NL_GET_CLIENT(c->req.head.nlmsg_type) != RDMA_NL_NLDEV || !cmd || !cmd->one)
		return -EINVAL;
	if (cmd->flags & ADMIN && !hca_capable(CAP_NET_ADMIN))
		return -EPERM;
	if (dump && !cmd->dump)
		return -EINVAL;
	if (dump && c->file->queue.used)
		return -EBUSY; /* the last one has not been received */
	rc = nl_parse(body, bytes, cmd->flags & STRICT, &c->req);
	if (dump) {
		if (!rc && (c->op == RDMA_NLDEV_CMD_GET || c->op == RDMA_NLDEV_CMD_RES_GET))
			nl_real_relay(c->file, msg, c->req.head.nlmsg_len, c->out.portid, true);
		nl_done(c, rc ? rc : cmd->dump(c));
		return -EINTR;
	}
	rc = rc ? rc : cmd->one(c);
	if (!rc && !nl_end(&c->out))
		rc = -EMSGSIZE;
	if (!rc)
		nl_flush(&c->out);
	return rc;
}

/* What is no request is only acknowledged, as are control messages. */
static void nl_message(struct nl_file *f, const uint8_t *msg, const struct nlmsghdr *head,
		       uint32_t portid)
{
	struct nl_call *c = calloc(1, sizeof(*c));
	int rc = 0;

	if (!c)
		return;
	c->file = f;
	c->req.head = *head;
	c->op = RDMA_NL_GET_OP(head->nlmsg_type);
	c->out = (struct nl_out){.queue = &f->queue, .portid = portid, .seq = head->nlmsg_seq};
	if (nl_is_foreign(c, msg + NLMSG_HDRLEN, head->nlmsg_len - (size_t)NLMSG_HDRLEN)) {
		nl_real_relay(f, msg, head->nlmsg_len, portid, false);
		rc = -EINTR;
	} else if (head->nlmsg_flags & NLM_F_REQUEST && head->nlmsg_type >= NLMSG_MIN_TYPE) {
		rc = nl_command(c, msg);
	}
	if (rc != -EINTR && (rc || head->nlmsg_flags & NLM_F_ACK))
		nl_ack(c, msg, rc);
	nl_rows_free(&c->rows);
	free(c);
}

/* A message that is cut ends the datagram. */
void nl_question(struct nl_file *f, const uint8_t *at, size_t bytes, uint32_t portid)
{
	const uint8_t *msg;
	struct nlmsghdr head;

	while (spw_netlink_message(&at, &bytes, &head, &msg)) {
		nl_message(f, msg, &head, portid);
		nl_pump(f);
	}
}

/* ---- sockets ---- */

static bool nl_cap_ack(int fd)
{
	int on = 0;
	socklen_t bytes = sizeof(on);

	return getsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &on, &bytes) == 0 && on;
}

/* Copies the pieces together. Errors: -EFAULT, -EMSGSIZE, -ENOMEM. */
static int64_t nl_gather(const struct iovec *iov, size_t cnt, uint8_t **msg_out)
{
	size_t bytes = 0, at = 0;
	uint8_t *msg;

	for (size_t i = 0; i < cnt; i++) {
		if (iov[i].iov_len > QUESTION_BYTES - bytes)
			return -EMSGSIZE;
		bytes += iov[i].iov_len;
	}
	msg = malloc(bytes + 1);
	if (!msg)
		return -ENOMEM;
	for (size_t i = 0; i < cnt; i++) {
		if (hca_umem_read(msg + at, (uint64_t)(uintptr_t)iov[i].iov_base, iov[i].iov_len)) {
			free(msg);
			return -EFAULT;
		}
		at += iov[i].iov_len;
	}
	*msg_out = msg;
	return (int64_t)bytes;
}

int nldev_open(struct hca_dev *devs, uint32_t cnt, int fd, int real_fd)
{
	struct nl_file *f = calloc(1, sizeof(*f));
	sigset_t old;
	int rc = f ? 0 : -ENOMEM;

	if (f) {
		*f = (struct nl_file){.devs = devs, .dev_cnt = cnt, .fd = fd, .real_fd = real_fd};
		f->own_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK);
		rc = f->own_fd < 0 ? -errno : hca_mark_set(fd, HCA_MARK_NETLINK);
	}
	if (rc) {
		real_close(f ? f->own_fd : -1);
		real_close(real_fd);
		free(f);
		return rc;
	}
	hca_quiet_lock(&nl_mutex, &old);
	f->next = nl_files;
	nl_files = f;
	hca_quiet_unlock(&nl_mutex, &old);
	return 0;
}

int64_t nldev_send(int fd, const struct iovec *iov, size_t cnt)
{
	uint8_t *msg = NULL;
	int64_t bytes = nl_gather(iov, cnt, &msg);
	struct nl_file *f;
	sigset_t old;

	if (bytes < 0)
		return bytes;
	hca_quiet_lock(&nl_mutex, &old);
	f = nl_find(fd);
	if (f) {
		f->short_ack = nl_cap_ack(fd);
		nl_question(f, msg, (size_t)bytes, nl_port(fd));
	}
	hca_quiet_unlock(&nl_mutex, &old);
	free(msg);
	return f ? bytes : -EBADF;
}

void nldev_pump(int fd)
{
	struct nl_file *f;
	sigset_t old;
	int keep = errno;

	hca_quiet_lock(&nl_mutex, &old);
	f = nl_find(fd);
	if (f)
		nl_pump(f);
	hca_quiet_unlock(&nl_mutex, &old);
	errno = keep;
}

void nldev_close(int fd)
{
	struct nl_file *f;
	sigset_t old;

	hca_quiet_lock(&nl_mutex, &old);
	f = nl_find(fd);
	HCA_UNLINK(nl_files, f, next);
	hca_quiet_unlock(&nl_mutex, &old);
	if (!f)
		return;
	real_close(f->own_fd);
	real_close(f->real_fd);
	nl_queue_clear(&f->queue);
	free(f);
}

/* The memory of the parent's files is forgotten: another thread of it may have been at work. */
void nldev_forked(void)
{
	nl_files = NULL;
	pthread_mutex_init(&nl_mutex, NULL);
	nl_machine_forked();
}
