/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/xfer: requests, and the messages, slots and orphans behind them.
 * Thread of all functions: the endpoint's owner.
 */
#ifndef SPW_XFER_MESSAGE_H
#define SPW_XFER_MESSAGE_H

#include "time/spw_time.h"
#include "xfer/rail.h"

/* Twice what all send queues hold: with half of it free chunks may be posted (engine.c). */
#define XFER_ORPHAN_MAX (2u * SPW_XFER_RAIL_MAX * XFER_SQ_CNT)

struct spw_xfer_mem;

enum xfer_msg_kind { XFER_MSG_SEND, XFER_MSG_PUT, XFER_MSG_GET };

/* A send, put or get under way. */
struct xfer_msg {
	struct xfer_msg *next; /* in the list of those that wait, or are being posted */
	struct spw_xfer_req *req;
	enum xfer_msg_kind kind;
	uint8_t slot;        /* SEND: of its grant */
	uint8_t used;        /* rails that carried chunks */
	uint8_t lost;        /* of them those that failed and are not settled */
	bool in_use, posted; /* posted: all chunks, and the end */
	bool end_due;        /* PUT: the flag must be written (again) */
	bool landed;         /* nothing of it is to be posted any more: the receiver has it, or
			      * refused it */
	bool too_long;       /* SEND: longer than its receive */
	bool joined;         /* PUT: its bytes and its flag may be one WRITE */
	uint32_t open;       /* WQEs not acknowledged */
	uint32_t orphans;    /* chunks of failed rails, not posted again yet */
	struct spw_xfer_mem *mem;
	uint64_t laddr, raddr, bytes, at; /* at: posted up to here */
	uint32_t piece_at;                /* of a list: the next piece, */
	uint64_t piece_offset;            /* and how much of it is posted */
	uint32_t rkey[SPW_XFER_RAIL_MAX]; /* by device of the peer, as all keys of it */
	uint32_t tag;
	uint64_t flag, flag_raddr;       /* PUT; flag 0: none */
	uint64_t was[SPW_XFER_RAIL_MAX]; /* what its words are taken to hold */
	uint8_t join[XFER_INLINE_MAX];   /* both, until the doorbell */
};

struct xfer_orphan {
	struct xfer_msg *msg;
	struct xfer_run run;
};

/* Sender's view of a slot: a grant of the peer. */
enum xfer_tx_state { XFER_TX_FREE, XFER_TX_ARRIVED, XFER_TX_GRANTED, XFER_TX_TAKEN, XFER_TX_ENDED };
struct xfer_tx_slot {
	enum xfer_tx_state state;
	uint32_t seq, tag, generation;
	uint32_t rkey[SPW_XFER_RAIL_MAX];
	uint64_t addr, room;
	uint64_t bytes;       /* of the message that took it */
	uint8_t end_rails;    /* that its ends name, once they are posted */
	struct xfer_msg *msg; /* NULL: none, or it is done */
};

/* Receiver's view of a slot: a grant of ours. */
struct xfer_rx_slot {
	bool open;
	uint8_t part;       /* of req */
	uint8_t got, rails; /* ends that arrived in this generation, and those that there will be */
	uint8_t size;       /* enum xfer_size of them */
	uint32_t seq;
	uint64_t room, bytes;
	struct spw_xfer_req *req;
};

enum xfer_req_kind { XFER_REQ_SEND, XFER_REQ_RECV, XFER_REQ_ACCESS, XFER_REQ_FLUSH };

struct spw_xfer_req {
	struct spw_xfer_req *next_free;
	struct spw_xfer_conn *conn;
	enum xfer_req_kind kind;
	bool in_use, is_put;
	uint8_t part_cnt, left; /* left: parts that are not done */
	int error;
	struct spw_xfer_mem *mem[SPW_XFER_PART_MAX];
	uint64_t bytes[SPW_XFER_PART_MAX];
	struct spw_xfer_stamps stamps;
	struct xfer_msg *msg;               /* ACCESS */
	const struct spw_xfer_piece *piece; /* ACCESS: of a list, the caller's; NULL: none */
	uint32_t piece_cnt;
	uint32_t bad_piece;                   /* where it was refused */
	uint8_t flush_devs;                   /* FLUSH: devices that read, */
	uint32_t flush_at[SPW_XFER_RAIL_MAX]; /* and the last read of each that counts */
};

struct xfer_queue {
	struct xfer_msg *first, *last;
};

SPW_INLINE void xfer_queue_add(struct xfer_queue *q, struct xfer_msg *msg)
{
	msg->next = NULL;
	if (q->first)
		q->last->next = msg;
	else
		q->first = msg;
	q->last = msg;
}

/* Where the bytes of a chunk lie, at both ends. */
struct xfer_ends {
	const struct spw_xfer_mem *mem;
	uint64_t laddr, raddr;
	const uint32_t *rkey; /* by device of the peer */
};

/* ---- access.c ---- */

/* Of a list. */
struct xfer_ends xfer_list_ends(const struct spw_xfer_req *req, const struct xfer_run *run);

/* The next chunk of a list, which is not posted to its end, and moves behind it. */
void xfer_list_next(const struct spw_xfer_conn *conn, struct xfer_msg *msg,
		    struct xfer_run *run_out);
/* Counts a list as a user of its memories and windows: by 1, and by -1 when it has ended. */
void xfer_list_use(const struct spw_xfer_req *req, int by);

/* ---- message.c ---- */

/* Returns: NULL: all are in use. */
struct spw_xfer_req *xfer_req_take(struct spw_xfer_conn *conn, enum xfer_req_kind kind);
void xfer_req_give(struct spw_xfer_req *req);
/* A free one of SPW_XFER_REQ_MAX messages; NULL: there is none. */
struct xfer_msg *xfer_msg_free(struct xfer_msg *msg);
/* One part of a request is done. */
void xfer_req_part(struct spw_xfer_req *req, uint32_t part, uint64_t bytes, int error);
SPW_INLINE struct xfer_ends xfer_run_ends(const struct xfer_msg *msg, const struct xfer_run *run)
{
	if (msg->req->piece)
		return xfer_list_ends(msg->req, run);
	return (struct xfer_ends){msg->mem, msg->laddr + run->offset, msg->raddr + run->offset,
				  msg->rkey};
}
/* All of a message was handed to the NICs, for the first time. */
SPW_INLINE void xfer_req_posted(struct spw_xfer_req *req)
{
	if (!req->stamps.posted)
		req->stamps.posted = spw_tsc_now();
}

/* ---- take.c ---- */

/* A message may be done: then its request is. */
void xfer_msg_check(struct xfer_msg *msg);

/* ---- flush.c ---- */

/* Whether its reads are done. */
void xfer_flush_check(struct spw_xfer_req *req);

#endif
