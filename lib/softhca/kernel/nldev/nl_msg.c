/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Netlink messages: see nl_msg.h. The bytes of a question are the program's, any bytes; nothing of
 * them is used before its length was compared.
 */
#include "softhca/kernel/nldev/nl_msg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_netlink.h"

/* ---- datagrams that wait ---- */

void nl_queue_put(struct nl_queue *q, const void *data, uint32_t bytes)
{
	const size_t need = q->used + sizeof(bytes) + bytes;

	if (need > q->room) {
		const size_t room = SPW_MAX(need, q->room * 2);
		uint8_t *buf = realloc(q->buf, room);

		if (!buf)
			return;
		q->buf = buf;
		q->room = room;
	}
	memcpy(q->buf + q->used, &bytes, sizeof(bytes));
	memcpy(q->buf + q->used + sizeof(bytes), data, bytes);
	q->used = need;
}

void nl_queue_clear(struct nl_queue *q)
{
	free(q->buf);
	*q = (struct nl_queue){0};
}

const void *nl_queue_first(const struct nl_queue *q, uint32_t *bytes_out)
{
	if (q->at == q->used)
		return NULL;
	memcpy(bytes_out, q->buf + q->at, sizeof(*bytes_out));
	return q->buf + q->at + sizeof(*bytes_out);
}

void nl_queue_took(struct nl_queue *q)
{
	uint32_t bytes = 0;

	if (!nl_queue_first(q, &bytes))
		return;
	q->at += sizeof(bytes) + bytes;
	if (q->at == q->used)
		nl_queue_clear(q);
}

/* ---- answers ---- */

/* Room for `bytes` more, aligned and zeroed. Returns: NULL: none. */
static uint8_t *nl_take(struct nl_out *o, uint32_t bytes)
{
	uint8_t *at = o->buf + o->used;

	if (NLMSG_ALIGN(bytes) > sizeof(o->buf) - o->used) {
		o->full = true;
		return NULL;
	}
	memset(at, 0, NLMSG_ALIGN(bytes));
	o->used += NLMSG_ALIGN(bytes);
	return at;
}

void nl_begin(struct nl_out *o, uint16_t type, uint16_t flags)
{
	const struct nlmsghdr head = {.nlmsg_type = type,
				      .nlmsg_flags = flags,
				      .nlmsg_seq = o->seq,
				      .nlmsg_pid = o->portid};
	uint8_t *at;

	o->msg = o->used;
	o->full = false;
	at = nl_take(o, sizeof(head));
	if (at)
		memcpy(at, &head, sizeof(head));
}

void nl_put(struct nl_out *o, uint16_t attr, const void *value, uint32_t bytes)
{
	const struct nlattr head = {.nla_type = attr, .nla_len = (uint16_t)(NLA_HDRLEN + bytes)};
	uint8_t *at = nl_take(o, NLA_HDRLEN + bytes);

	if (!at)
		return;
	memcpy(at, &head, sizeof(head));
	memcpy(at + NLA_HDRLEN, value, bytes);
}

void nl_u8(struct nl_out *o, uint16_t attr, uint8_t value)
{
	nl_put(o, attr, &value, sizeof(value));
}

void nl_u32(struct nl_out *o, uint16_t attr, uint32_t value)
{
	nl_put(o, attr, &value, sizeof(value));
}

void nl_u64(struct nl_out *o, uint16_t attr, uint64_t value)
{
	nl_put(o, attr, &value, sizeof(value));
}

void nl_str(struct nl_out *o, uint16_t attr, const char *text)
{
	nl_put(o, attr, text, (uint32_t)strlen(text) + 1);
}

uint32_t nl_nest(struct nl_out *o, uint16_t attr)
{
	const uint32_t at = o->used;

	nl_put(o, attr, "", 0);
	return at;
}

void nl_nest_end(struct nl_out *o, uint32_t at)
{
	const uint16_t bytes = (uint16_t)(o->used - at);

	if (!o->full)
		memcpy(o->buf + at, &bytes, sizeof(bytes)); /* nla_len is its first field */
}

bool nl_end(struct nl_out *o)
{
	const uint32_t bytes = o->used - o->msg;

	if (o->full)
		o->used = o->msg;
	else
		memcpy(o->buf + o->msg, &bytes, sizeof(bytes)); /* nlmsg_len is its first field */
	return !o->full;
}

void nl_flush(struct nl_out *o)
{
	if (o->used)
		nl_queue_put(o->queue, o->buf, o->used);
	o->used = 0;
}

/* ---- questions ---- */

static const uint16_t arg_attr[NL_ARGS] = {
	[NL_DEV] = RDMA_NLDEV_ATTR_DEV_INDEX,
	[NL_PORT] = RDMA_NLDEV_ATTR_PORT_INDEX,
	[NL_LQPN] = RDMA_NLDEV_ATTR_RES_LQPN,
	[NL_CQN] = RDMA_NLDEV_ATTR_RES_CQN,
	[NL_MRN] = RDMA_NLDEV_ATTR_RES_MRN,
	[NL_PDN] = RDMA_NLDEV_ATTR_RES_PDN,
	[NL_CTXN] = RDMA_NLDEV_ATTR_RES_CTXN,
	[NL_SRQN] = RDMA_NLDEV_ATTR_RES_SRQN,
	[NL_CM_IDN] = RDMA_NLDEV_ATTR_RES_CM_IDN,
	[NL_STAT_RES] = RDMA_NLDEV_ATTR_STAT_RES,
	[NL_STAT_MODE] = RDMA_NLDEV_ATTR_STAT_MODE,
	[NL_COUNTER_ID] = RDMA_NLDEV_ATTR_STAT_COUNTER_ID,
};

/* A number that is too long is accepted by old commands, and its first bytes count. */
static int nl_parse_number(const struct spw_netlink_attr *attr, bool strict, struct nl_req *req)
{
	uint32_t value;

	for (uint32_t i = 0; i < NL_ARGS; i++) {
		if (arg_attr[i] != attr->type)
			continue;
		if (attr->bytes < sizeof(value) || (strict && attr->bytes != sizeof(value)))
			return -EINVAL;
		memcpy(&value, attr->value, sizeof(value));
		req->arg[i] = value;
		req->have |= 1u << i;
	}
	return 0;
}

/* The kernel's room for this text is its attribute's, RDMA_NLDEV_ATTR_CHARDEV_TYPE_SIZE. */
static int nl_parse_chardev(const struct spw_netlink_attr *attr, struct nl_req *req)
{
	if (!attr->bytes || attr->bytes > sizeof(req->chardev) ||
	    !memchr(attr->value, 0, attr->bytes))
		return -EINVAL;
	memcpy(req->chardev, attr->value, attr->bytes);
	return 0;
}

int nl_parse(const uint8_t *at, size_t bytes, bool strict, struct nl_req *req_out)
{
	struct spw_netlink_attr attr;
	int rc = 0;

	while (!rc && spw_netlink_next(&at, &bytes, &attr)) {
		if (strict && (!attr.type || attr.type >= RDMA_NLDEV_ATTR_MAX))
			return -EINVAL;
		req_out->renames |= attr.type == RDMA_NLDEV_ATTR_DEV_NAME;
		req_out->moves |= attr.type == RDMA_NLDEV_NET_NS_FD;
		req_out->dims |= attr.type == RDMA_NLDEV_ATTR_DEV_DIM;
		if (attr.type == RDMA_NLDEV_ATTR_CHARDEV_TYPE)
			rc = nl_parse_chardev(&attr, req_out);
		else
			rc = nl_parse_number(&attr, strict, req_out);
	}
	return !rc && strict && bytes ? -EINVAL : rc;
}
