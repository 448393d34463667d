/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The flags of puts. Each is written by an atomic behind the put's WRITEs on the same rail: no
 * other message that a reader of memory finds comes after WRITEs (IBTA volume 1, o9-20).
 *
 * The atomic is a compare and swap, which can be repeated when a rail has failed: from what the
 * word is taken to hold, which is what the last put with its flag at this place wrote there, else
 * 0. If it held something else, that is known now, and the flag is due again:
 *
 *   post: swap (known ─► flag) ── found known, or the flag ──► done
 *     ▲                        └─ found something else: known = that; due ─┐
 *     └──────────────────── repair (engine.c) ◄────────────────────────────┘
 */
#include <string.h>

#include "xfer/connection.h"

#define PLACE_BYTES 32u

/* Fibonacci hashing (Knuth, The Art of Computer Programming 6.4). Of two places with one hash the
 * later one stays: the other's next flag takes a round trip more. */
uint64_t *xfer_flag_words(struct spw_xfer_conn *conn, uint64_t flag_raddr)
{
	const uint64_t hash = flag_raddr / PLACE_BYTES * 0x9e3779b97f4a7c15ull;
	struct xfer_place *p = &conn->place[hash >> (64 - XFER_PLACE_LOG2)];

	if (p->raddr != flag_raddr)
		*p = (struct xfer_place){.raddr = flag_raddr};
	return p->word;
}

static void post_flag(struct xfer_rail *rail, struct xfer_msg *msg, uint64_t word)
{
	struct xfer_box *box = rail->conn->box;
	const struct xfer_sent sent = {
		.msg = msg, .kind = XFER_SENT_FLAG, .value = word, .compare = msg->was[rail->idx]};
	const struct xfer_wr wr = {
		.op = XFER_OP_SWAP,
		.bytes = XFER_FLAG_BYTES,
		.lkey = rail->conn->box_out[rail->dev_idx]->lkey,
		.rkey = msg->rkey[rail->peer_idx],
		.laddr = (uintptr_t)&box->found[rail->idx][rail->sq_pi % XFER_SQ_CNT],
		.raddr = msg->flag_raddr + rail->idx * XFER_FLAG_BYTES,
		.compare = sent.compare,
		.swap = word};

	xfer_rail_post(rail, &wr, &sent);
}

bool xfer_flags_post(struct spw_xfer_conn *conn, struct xfer_msg *msg, uint8_t rails)
{
	uint64_t *words = xfer_flag_words(conn, msg->flag_raddr);

	if (!xfer_rails_have_room(conn, rails, 1))
		return false;
	if (!msg->end_due) /* the first time */
		memcpy(msg->was, words, sizeof(msg->was));
	for (uint32_t i = 0; i < conn->rail_cnt; i++) {
		if (!(rails >> i & 1u))
			continue;
		words[i] = msg->flag << 4 | rails;
		post_flag(conn->rail[i], msg, words[i]);
	}
	return true;
}

void xfer_flag_acked(struct xfer_rail *rail, const struct xfer_sent *s)
{
	struct spw_xfer_conn *conn = rail->conn;
	const uint64_t found = conn->box->found[rail->idx][rail->sq_ci % XFER_SQ_CNT];

	if (found == s->compare || found == s->value) {
		s->msg->was[rail->idx] = s->value;
		return;
	}
	s->msg->was[rail->idx] = found;
	s->msg->end_due = conn->repair = true;
}
