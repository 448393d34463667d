/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Netlink messages of NETLINK_RDMA: questions taken apart, answers put together.
 *
 *   nl_begin --> nl_u32 ... nl_nest ... nl_nest_end --> nl_end      one message, and again
 *   nl_flush                                                        all of them are one datagram
 *
 * A datagram has at most NL_DATAGRAM_BYTES, as the kernel's, so it fits into the 4 KiB that
 * programs receive into; what does not fit sets `full`. Sources: Linux
 * include/uapi/linux/netlink.h, lib/nlattr.c (which lengths are refused). Thread: one at a time.
 */
#ifndef SPW_SOFTHCA_NL_MSG_H
#define SPW_SOFTHCA_NL_MSG_H

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include "base/spw_types.h"

#define NL_DATAGRAM_BYTES 3776u /* NLMSG_GOODSIZE on pages of 4 KiB */

/* Datagrams on their way to the application: each a u32 length and its bytes, one after the other.
 */
struct nl_queue {
	uint8_t *buf;          /* from malloc */
	size_t used, room, at; /* at: the first that has not left */
};

/* Purpose: appends a datagram; without memory it is lost. */
void nl_queue_put(struct nl_queue *q, const void *data, uint32_t bytes);
void nl_queue_clear(struct nl_queue *q);
/* Returns: the first datagram; NULL: there is none. nl_queue_took: it has left. */
const void *nl_queue_first(const struct nl_queue *q, uint32_t *bytes_out);
void nl_queue_took(struct nl_queue *q);

struct nl_out {
	struct nl_queue *queue;
	uint32_t portid, seq; /* of whom it answers */
	uint32_t used;        /* bytes of the datagram */
	uint32_t msg;         /* where its last message begins */
	bool full;            /* the message did not fit */
	uint8_t buf[NL_DATAGRAM_BYTES];
};

void nl_begin(struct nl_out *o, uint16_t type, uint16_t flags);
void nl_put(struct nl_out *o, uint16_t attr, const void *value, uint32_t bytes);
void nl_u8(struct nl_out *o, uint16_t attr, uint8_t value);
void nl_u32(struct nl_out *o, uint16_t attr, uint32_t value);
void nl_u64(struct nl_out *o, uint16_t attr, uint64_t value);
void nl_str(struct nl_out *o, uint16_t attr, const char *text);
/* Returns: for nl_nest_end. */
uint32_t nl_nest(struct nl_out *o, uint16_t attr);
void nl_nest_end(struct nl_out *o, uint32_t at);
/* Purpose: ends the message. Returns: false: it did not fit, and is taken back. */
bool nl_end(struct nl_out *o);
void nl_flush(struct nl_out *o);

/* ---- questions ---- */

/* The attributes that commands read. */
enum nl_arg {
	NL_DEV,
	NL_PORT,
	NL_LQPN,
	NL_CQN,
	NL_MRN,
	NL_PDN,
	NL_CTXN,
	NL_SRQN,
	NL_CM_IDN,
	NL_STAT_RES,
	NL_STAT_MODE,
	NL_COUNTER_ID,
	NL_ARGS
};

struct nl_req {
	struct nlmsghdr head;
	uint32_t have;             /* bits 1 << enum nl_arg */
	uint32_t arg[NL_ARGS];     /* meaningful if `have` has the bit */
	bool renames, moves, dims; /* DEV_NAME, NET_NS_FD, DEV_DIM */
	char chardev[32];          /* CHARDEV_TYPE; "": none */
};

/* Purpose: the attributes of a message. strict: as nlmsg_parse, which newer commands use, else as
 *          nlmsg_parse_deprecated.
 * Errors:  -EINVAL. Thread: any; pure. */
int nl_parse(const uint8_t *at, size_t bytes, bool strict, struct nl_req *req_out);

SPW_INLINE bool nl_has(const struct nl_req *req, enum nl_arg arg)
{
	return req->have >> arg & 1;
}

#endif
