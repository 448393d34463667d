/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Queue pairs of the processes under NCCL, by the kernel's netlink of RDMA, as iproute2's "rdma
 * resource show qp" does. The kernel shows no process of another PID namespace. The software
 * ConnectX answers too, about the processes of its machine.
 *
 *   ask NLDEV_GET         ─► index and name of each device
 *   ask NLDEV_RES_QP_GET  ─► of each device: entries with numbers, state and process
 *
 * Source: Linux include/uapi/rdma/rdma_netlink.h, drivers/infiniband/core/nldev.c. A recorded host
 * has a file "qp": "DEVICE QPN PEER_QPN STATE PID" a line.
 *
 * An answer is one or more datagrams of several messages each; NLMSG_DONE ends it. Lengths are
 * checked although the kernel wrote them: tests give the parser any bytes.
 */
#include <errno.h>
#include <inttypes.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/spw_netlink.h"
#include "hang/read/read_impl.h"

#define DEVICES_MAX  64u
#define ANSWER_BYTES (64u << 10) /* the kernel's messages of a dump are shorter */
#define WAIT_MS      200

/* ---- attributes ---- */

/* Attributes in [at, at + bytes): calls fn with each whole one. */
static void read_qp_each(const uint8_t *at, size_t bytes,
			 void (*fn)(uint16_t type, const uint8_t *value, size_t bytes, void *arg),
			 void *arg)
{
	struct spw_netlink_attr attr;

	while (spw_netlink_next(&at, &bytes, &attr))
		fn(attr.type, attr.value, attr.bytes, arg);
}

/* Not known: it has another size. */
static struct spw_hang_num read_qp_number(const uint8_t *value, size_t bytes)
{
	uint32_t word;

	if (bytes == 1)
		return spw_hang_num(value[0]);
	if (bytes != sizeof(word))
		return (struct spw_hang_num){0};
	memcpy(&word, value, sizeof(word));
	return spw_hang_num(word);
}

static const char *const qp_state[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

/* Attributes that are not named here are skipped: a newer kernel has more. */
static void read_qp_field(uint16_t type, const uint8_t *value, size_t bytes, void *arg)
{
	struct spw_hang_qp_row *row = arg;
	const struct spw_hang_num number = read_qp_number(value, bytes);

	if (type == RDMA_NLDEV_ATTR_RES_LQPN)
		row->qpn = number;
	else if (type == RDMA_NLDEV_ATTR_RES_RQPN)
		row->peer_qpn = number;
	else if (type == RDMA_NLDEV_ATTR_RES_PID)
		row->pid = number;
	else if (type == RDMA_NLDEV_ATTR_RES_STATE && number.known &&
		 number.value < (int64_t)SPW_ARRAY_CNT(qp_state))
		snprintf(row->state, sizeof(row->state), "%s", qp_state[number.value]);
}

/* Only queue pairs of the processes in the snapshot. */
static void read_qp_add(struct hang_read *r, const struct spw_hang_qp_row *found)
{
	struct spw_hang_qp_row *row;

	for (uint32_t i = 0; found->qpn.known && found->pid.known && i < r->snap->proc_cnt; i++)
		if (r->snap->proc[i].pid.value == found->pid.value) {
			row = spw_hang_row_add(r->snap, SPW_HANG_TABLE_qp);
			if (row)
				*row = *found;
			return;
		}
}

/* ---- messages ---- */

/* What a walk over attributes carries along. */
struct answer {
	struct hang_read *r;
	const char *device; /* of queue pairs; NULL: devices are read */
	uint32_t device_cnt, idx[DEVICES_MAX];
	char name[DEVICES_MAX][24];
};

static void read_qp_entry(uint16_t type, const uint8_t *value, size_t bytes, void *arg)
{
	struct answer *a = arg;
	struct spw_hang_qp_row row = {.device = ""};

	if (type != RDMA_NLDEV_ATTR_RES_QP_ENTRY)
		return;
	snprintf(row.device, sizeof(row.device), "%.23s", a->device);
	read_qp_each(value, bytes, read_qp_field, &row);
	read_qp_add(a->r, &row);
}

static void read_qp_table(uint16_t type, const uint8_t *value, size_t bytes, void *arg)
{
	if (type == RDMA_NLDEV_ATTR_RES_QP)
		read_qp_each(value, bytes, read_qp_entry, arg);
}

/* The place is the caller's to count: index and name come in two calls. */
static void read_qp_device(uint16_t type, const uint8_t *value, size_t bytes, void *arg)
{
	struct answer *a = arg;

	if (type == RDMA_NLDEV_ATTR_DEV_INDEX && read_qp_number(value, bytes).known)
		a->idx[a->device_cnt] = (uint32_t)read_qp_number(value, bytes).value;
	else if (type == RDMA_NLDEV_ATTR_DEV_NAME)
		snprintf(a->name[a->device_cnt], sizeof(a->name[0]), "%.*s",
			 (int)strnlen((const char *)value, SPW_MIN(bytes, sizeof(a->name[0]) - 1)),
			 (const char *)value);
}

/* Returns: 1: more messages follow; 0: that was the last; -errno of the kernel. */
static int read_qp_message(const struct nlmsghdr *head, const uint8_t *body, size_t bytes,
			   struct answer *a)
{
	int error = 0;

	if (head->nlmsg_type == NLMSG_ERROR && bytes >= sizeof(error)) {
		memcpy(&error, body, sizeof(error));
		return error < 0 ? error : 0;
	}
	if (head->nlmsg_type == NLMSG_DONE || head->nlmsg_type == NLMSG_ERROR)
		return 0;
	if (a->device) {
		read_qp_each(body, bytes, read_qp_table, a);
	} else if (a->device_cnt < DEVICES_MAX) {
		read_qp_each(body, bytes, read_qp_device, a);
		a->device_cnt += a->name[a->device_cnt][0] != '\0';
	}
	return 1;
}

/* A datagram that is cut is an error: what is missing of it could be the queue pair in error. */
static int read_qp_messages(const uint8_t *at, size_t bytes, struct answer *a)
{
	const uint8_t *msg;
	struct nlmsghdr head;
	int rc = 1;

	while (rc > 0 && spw_netlink_message(&at, &bytes, &head, &msg))
		rc = read_qp_message(&head, msg + NLMSG_HDRLEN,
				     head.nlmsg_len - (size_t)NLMSG_HDRLEN, a);
	return rc > 0 && bytes >= NLMSG_HDRLEN ? -EPROTO : rc;
}

int hang_qp_messages(struct hang_read *r, const char *device, const void *messages, size_t bytes)
{
	struct answer a = {.r = r, .device = device};

	return read_qp_messages(messages, bytes, &a);
}

/* ---- the kernel ---- */

/* One question, and all messages of its answer. */
static int read_qp_ask(int fd, uint32_t command, const uint32_t *idx, struct answer *a)
{
	struct {
		struct nlmsghdr head;
		struct nlattr attr;
		uint32_t idx;
	} ask = {.head = {.nlmsg_len = idx ? sizeof(ask) : NLMSG_HDRLEN,
			  .nlmsg_type = (uint16_t)RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command),
			  .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		 .attr = {.nla_len = NLA_HDRLEN + 4, .nla_type = RDMA_NLDEV_ATTR_DEV_INDEX},
		 .idx = idx ? *idx : 0};
	uint8_t *answer = malloc(ANSWER_BYTES);
	ssize_t n;
	int rc = answer && send(fd, &ask, ask.head.nlmsg_len, 0) > 0 ? 1 : -EIO;

	while (rc > 0) {
		n = recv(fd, answer, ANSWER_BYTES, 0);
		rc = n > 0 ? read_qp_messages(answer, (size_t)n, a) : n < 0 ? -errno : -EIO;
	}
	free(answer);
	return rc;
}

/* Needs no privilege; the kernel leaves out what this user may not see. The time limit is for a
 * kernel that does not answer at all. */
static int read_qp_kernel(struct hang_read *r)
{
	const struct timeval wait = {.tv_usec = WAIT_MS * 1000};
	struct answer a = {.r = r};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA), rc;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	rc = read_qp_ask(fd, RDMA_NLDEV_CMD_GET, NULL, &a);
	for (uint32_t i = 0; rc == 0 && i < a.device_cnt; i++) {
		a.device = a.name[i];
		rc = read_qp_ask(fd, RDMA_NLDEV_CMD_RES_QP_GET, &a.idx[i], &a);
	}
	close(fd);
	return rc;
}

static void read_qp_line(struct hang_read *r, const char *line)
{
	struct spw_hang_qp_row row = {.device = ""};
	long long qpn, peer, pid;

	if (sscanf(line, "%23s %lld %lld %7s %lld", row.device, &qpn, &peer, row.state, &pid) != 5)
		return;
	row.qpn = spw_hang_num(qpn);
	row.peer_qpn = spw_hang_num(peer);
	row.pid = spw_hang_num(pid);
	read_qp_add(r, &row);
}

static int read_qp_recorded(struct hang_read *r)
{
	char *text = malloc(ANSWER_BYTES), *line, *rest = text;
	ssize_t n = text ? hang_bytes(r, text, ANSWER_BYTES, "qp") : -ENOMEM;

	while (n >= 0 && (line = strsep(&rest, "\n")))
		read_qp_line(r, line);
	free(text);
	return n < 0 ? (int)n : 0;
}

void hang_qps_read(struct hang_read *r)
{
	int rc = hang_is_live(r) ? read_qp_kernel(r) : read_qp_recorded(r);

	if (rc < 0)
		snprintf(r->snap->why[SPW_HANG_SOURCE_qp], sizeof(r->snap->why[0]),
			 "the kernel gives none: %s", strerror(-rc));
}
