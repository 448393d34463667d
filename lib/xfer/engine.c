/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What goes over which rail, and when. A connection has one list of messages whose chunks are being
 * posted; share.c decides which rail gets how much.
 *
 *   send:  WRITE chunk ... WRITE chunk, then on each rail that was used
 *          WRITE_IMM of 0 bytes (FIN); with one chunk a rail, the chunks are the WRITE_IMMs
 *   put:   WRITE chunk ..., then on each rail that was used an atomic on its flag word: no other
 *          message that a reader of memory sees comes after WRITEs (IBTA volume 1, o9-20). A few
 *          bytes that end where the flag words begin are one WRITE with them (joined) if the
 *          peer's device stores that in order
 *   get:   READ chunk ...
 *   list:  as a put without flag, or a get, with pieces that need not be neighbours (access.c)
 *   recv:  WRITE_IMM of the grant into the sender's mailbox
 *
 * One doorbell per rail and turn. RC keeps the order of a QP, so what ends a message on a rail
 * is executed after its chunks on that rail.
 *
 * What a put of 8 bytes waits for, from left to right; a joined one is a single WQE, which
 * BlueFlame takes to the card with the doorbell:
 *
 *   chunk, flag   put │ doorbell │ NIC reads 2 WQEs │ packet ─► bytes │ packet ─► swap │ poll
 *   joined        put │ WQE in the doorbell │ packet ─► bytes, flag │ poll
 *
 * Called by message.c and window.c (a request begins), take.c (grants), rail.c and fail.c (also by
 * way of conn->work), and the turns of test and progress. What has no room now stays where it is:
 * work is set by the next completion, and the pump tries again.
 */
#include <string.h>

#include "xfer/connection.h"
#include "xfer/endpoint.h"

#define SIGNAL_BYTES 16384u /* chunks from here on have completions of their own */
#define SIGNAL_WQES  32u    /* of smaller ones every so many-th, so that room comes in time */

/* ---- one WQE ---- */

SPW_INLINE struct xfer_sent *next_sent(struct xfer_rail *rail)
{
	return &rail->sent[rail->sq_pi % XFER_SQ_CNT];
}

/* The caller has checked that there is room (xfer_rail_room). It goes out with the next doorbell.
 */
void xfer_rail_post(struct xfer_rail *rail, const struct xfer_wr *wr, const struct xfer_sent *sent)
{
	struct xfer_sent *s = next_sent(rail);

	*s = *sent;
	rail->ops->post(rail, wr);
	rail->sq_pi++;
	rail->rang = false;
	if (s->msg)
		s->msg->open++;
}

/* Posts a WQE that carries bytes of a message. */
static void post_bytes(struct xfer_rail *rail, const struct xfer_wr *wr,
		       const struct xfer_sent *sent)
{
	rail->out_bytes += sent->run.len;
	sent->msg->used |= (uint8_t)(1u << rail->idx);
	sent->msg->req->stamps.rails |= (uint8_t)(1u << rail->idx);
	xfer_rail_post(rail, wr, sent);
}

/* fin: this chunk carries the end of the message, as an immediate. */
static void post_chunk(struct xfer_rail *rail, struct xfer_msg *msg, struct xfer_run run,
		       const struct xfer_imm *fin)
{
	const bool read = msg->kind == XFER_MSG_GET;
	const struct xfer_ends at = xfer_run_ends(msg, &run);
	const struct xfer_wr wr = {
		.op = read  ? XFER_OP_READ
		      : fin ? XFER_OP_WRITE_IMM
			    : XFER_OP_WRITE,
		.signal = run.len >= SIGNAL_BYTES || !((rail->sq_pi + 1) % SIGNAL_WQES),
		.in_wqe = !read && run.len && run.len <= XFER_INLINE_MAX &&
			  at.mem->req.kind == SPW_XFER_HOST,
		.bytes = run.len,
		.lkey = run.len ? at.mem->mr[rail->dev_idx]->lkey : 0,
		.rkey = at.rkey[rail->peer_idx],
		.imm = fin ? xfer_imm_put(*fin) : 0,
		.laddr = at.laddr,
		.raddr = at.raddr,
	};
	const struct xfer_sent sent = {.msg = msg, .run = run, .kind = XFER_SENT_CHUNK};

	post_bytes(rail, &wr, &sent);
}

/* ---- the end of a message ---- */

/* The receiver knows the length by the grant, by the one chunk, or by a record in its mailbox: the
 * first of these that fits costs least. */
static struct xfer_imm fin_of(const struct spw_xfer_conn *conn, uint32_t slot, uint8_t rails,
			      bool one_chunk)
{
	const struct xfer_tx_slot *s = &conn->tx[slot];
	const enum xfer_size size = s->bytes > s->room    ? XFER_SIZE_TOO_LONG
				    : s->bytes == s->room ? XFER_SIZE_FULL
				    : one_chunk           ? XFER_SIZE_CHUNK
							  : XFER_SIZE_RECORD;

	return (struct xfer_imm){.kind = XFER_IMM_FIN,
				 .slot = (uint8_t)slot,
				 .rails = rails,
				 .generation = (uint8_t)conn->tx_generation,
				 .size = (uint8_t)size,
				 .lap = xfer_lap_of(s->seq)};
}

bool xfer_rails_have_room(const struct spw_xfer_conn *conn, uint8_t rails, uint32_t cnt)
{
	for (uint32_t i = 0; i < conn->rail_cnt; i++)
		if (rails >> i & 1u && xfer_rail_room(conn->rail[i]) < cnt)
			return false;
	return true;
}

/* The value stays where it is until the doorbell. */
static void post_size(struct xfer_rail *rail, struct xfer_msg *msg, uint32_t slot)
{
	const struct xfer_sent sent = {
		.msg = msg,
		.kind = XFER_SENT_SIZE,
		.value = (SPW_FORCE uint64_t)spw_cpu_to_be64(rail->conn->tx[slot].bytes)};
	const struct xfer_wr wr = {.op = XFER_OP_WRITE,
				   .in_wqe = true,
				   .bytes = sizeof(spw_be64),
				   .rkey = rail->theirs.rkey,
				   .laddr = (uintptr_t)&next_sent(rail)->value,
				   .raddr = rail->conn->their_box +
					    offsetof(struct xfer_box, size) +
					    slot * sizeof(spw_be64)};

	xfer_rail_post(rail, &wr, &sent);
}

/* FINs of a slot on these rails; msg may be done already (NULL). Returns: false: no room yet. */
static bool post_fins(struct spw_xfer_conn *conn, uint32_t slot, struct xfer_msg *msg,
		      uint8_t rails)
{
	const struct xfer_imm fin = fin_of(conn, slot, rails, false);
	bool record = fin.size == XFER_SIZE_RECORD;

	if (!xfer_rails_have_room(conn, rails, 2))
		return false;
	conn->tx[slot].end_rails = rails;
	for (uint32_t i = 0; i < conn->rail_cnt; i++) {
		struct xfer_rail *rail = conn->rail[i];
		const struct xfer_wr wr = {.op = XFER_OP_WRITE_IMM,
					   .raddr = conn->their_box,
					   .rkey = rail->theirs.rkey,
					   .imm = xfer_imm_put(fin)};
		const struct xfer_sent sent = {
			.msg = msg, .kind = XFER_SENT_FIN, .slot = (uint8_t)slot};

		if (!(rails >> i & 1u))
			continue;
		if (record)
			post_size(rail, msg, slot);
		record = false;
		xfer_rail_post(rail, &wr, &sent);
	}
	return true;
}

/* The rails that carried the message; of one without chunks, or whose rails are gone, any one. */
static uint8_t end_rails(const struct spw_xfer_conn *conn, const struct xfer_msg *msg)
{
	const uint8_t used = msg->used & conn->up;

	return used ? used : (uint8_t)(conn->up & -conn->up);
}

/* All chunks are posted. Returns: false: the end cannot be posted yet. While a failed rail is not
 * settled its chunks may still have to be written again. */
static bool post_end(struct spw_xfer_conn *conn, struct xfer_msg *msg)
{
	if (msg->orphans || msg->lost || !conn->up)
		return false;
	switch (msg->kind) {
	case XFER_MSG_SEND:
		if (!post_fins(conn, msg->slot, msg, end_rails(conn, msg)))
			return false;
		conn->tx[msg->slot].state = XFER_TX_ENDED;
		break;
	case XFER_MSG_PUT:
		if (msg->flag && !xfer_flags_post(conn, msg, end_rails(conn, msg)))
			return false;
		break;
	case XFER_MSG_GET:
		break;
	}
	msg->posted = true;
	msg->end_due = false;
	xfer_req_posted(msg->req);
	return true;
}

/* ---- chunks ---- */

/* A message of one chunk a rail, each of which carries the end. Returns: false: no rail may take a
 * share now. */
static bool post_at_once(struct spw_xfer_conn *conn, struct xfer_msg *msg)
{
	uint32_t share[SPW_XFER_RAIL_MAX];
	const uint8_t rails = xfer_shares(conn, msg->bytes, share);
	struct xfer_imm fin;
	bool record;

	if (!rails)
		return false;
	fin = fin_of(conn, msg->slot, rails, !(rails & (rails - 1u)));
	record = fin.size == XFER_SIZE_RECORD;
	for (uint32_t i = 0; i < conn->rail_cnt; i++) {
		if (!(rails >> i & 1u))
			continue;
		if (record)
			post_size(conn->rail[i], msg, msg->slot);
		record = false;
		post_chunk(conn->rail[i], msg,
			   (struct xfer_run){.offset = msg->at, .len = share[i]}, &fin);
		msg->at += share[i];
	}
	msg->posted = true;
	xfer_req_posted(msg->req);
	conn->tx[msg->slot].state = XFER_TX_ENDED;
	conn->tx[msg->slot].end_rails = rails;
	return true;
}

/* The bytes of a put and its flag, over the rail whose flag word comes first. If that rail fails
 * the bytes are a chunk without acknowledgement, and the flag is due: they are written again apart.
 */
static void post_joined(struct xfer_rail *rail, struct xfer_msg *msg)
{
	const uint32_t len = (uint32_t)msg->bytes;
	const uint64_t word = msg->flag << 4 | 1u << rail->idx;
	const struct xfer_wr wr = {.op = XFER_OP_WRITE,
				   .in_wqe = true,
				   .bytes = len + XFER_FLAG_BYTES,
				   .rkey = msg->rkey[rail->peer_idx],
				   .laddr = (uintptr_t)msg->join,
				   .raddr = msg->raddr};
	const struct xfer_sent sent = {.msg = msg, .run.len = len, .kind = XFER_SENT_CHUNK};

	memcpy(msg->join, (const void *)(uintptr_t)msg->laddr, len);
	memcpy(msg->join + len, &word, sizeof(word));
	post_bytes(rail, &wr, &sent);
	xfer_flag_words(rail->conn, msg->flag_raddr)[rail->idx] = word;
	msg->at = len;
	msg->posted = true; /* without a stamp: it was just started */
}

/* Returns: true if all of the message is posted. */
static bool post_msg(struct spw_xfer_conn *conn, struct xfer_msg *msg)
{
	struct xfer_rail *rail;

	if (spw_unlikely(msg->landed)) {
		msg->at = msg->bytes;
		msg->posted = true;
		return true;
	}
	if (msg->joined && xfer_may_take(conn->rail[0])) {
		post_joined(conn->rail[0], msg);
		return true;
	}
	if (msg->too_long)
		msg->at = msg->bytes; /* only its end is sent, which says so */
	else if (msg->kind == XFER_MSG_SEND && !msg->at && msg->bytes && !msg->lost &&
		 xfer_goes_at_once(conn, msg->bytes))
		return post_at_once(conn, msg);
	while (msg->at < msg->bytes) {
		struct xfer_run run = {.offset = msg->at};

		rail = xfer_pick(conn);
		if (!rail)
			return false;
		if (msg->req->piece)
			xfer_list_next(conn, msg, &run);
		else
			run.len = xfer_chunk_bytes(conn, msg);
		post_chunk(rail, msg, run, NULL);
		msg->at += run.len;
	}
	return post_end(conn, msg);
}

/* A rail may fail, rejoin and fail again while the peer has not settled another one: no more is
 * posted than there is room for if all of it becomes an orphan. */
static bool orphans_have_room(const struct spw_xfer_conn *conn)
{
	return conn->orphan_pi - conn->orphan_ci <= XFER_ORPHAN_MAX / 2;
}

/* In the order in which they became active: one that cannot go on holds up those behind it, but for
 * a list, which may be long: the others have the next room. */
static void post_active(struct spw_xfer_conn *conn)
{
	if (spw_unlikely(!orphans_have_room(conn)))
		return;
	while (conn->active.first) {
		struct xfer_msg *msg = conn->active.first;
		const bool all = post_msg(conn, msg);

		if (!all && (!msg->req->piece || !msg->next))
			return;
		conn->active.first = msg->next;
		if (!all) {
			xfer_queue_add(&conn->active, msg);
			return;
		}
		xfer_msg_check(msg); /* a put without bytes and flag */
	}
}

/* ---- grants ---- */

/* A grant is read from the mailbox by the NIC, so it stays there until its slot is granted again.
 */
static bool post_grant(struct spw_xfer_conn *conn, uint32_t slot)
{
	struct xfer_rail *rail = xfer_pick_for_control(conn);

	if (!rail)
		return false;
	const struct xfer_wr wr = {
		.op = XFER_OP_WRITE_IMM,
		.bytes = XFER_GRANT_BYTES,
		.laddr = (uintptr_t)&conn->box->out[slot],
		.lkey = conn->box_out[rail->dev_idx]->lkey,
		.raddr = conn->their_box + offsetof(struct xfer_box, in) + slot * XFER_GRANT_BYTES,
		.rkey = rail->theirs.rkey,
		.imm = xfer_imm_put((struct xfer_imm){.kind = XFER_IMM_GRANT,
						      .slot = (uint8_t)slot,
						      .lap = xfer_lap_of(conn->rx[slot].seq)}),
	};
	const struct xfer_sent sent = {.kind = XFER_SENT_GRANT, .slot = (uint8_t)slot};

	xfer_rail_post(rail, &wr, &sent);
	return true;
}

/* In the order of their numbers; over several rails they may arrive in another. */
static void post_grants(struct spw_xfer_conn *conn)
{
	while (conn->rx_posted != conn->rx_next && post_grant(conn, xfer_slot_of(conn->rx_posted)))
		conn->rx_posted++;
}

/* ---- after a rail failed ---- */

static bool post_orphans(struct spw_xfer_conn *conn)
{
	while (conn->orphan_ci != conn->orphan_pi) {
		const struct xfer_orphan *o = &conn->orphan[conn->orphan_ci % XFER_ORPHAN_MAX];
		struct xfer_rail *rail = xfer_pick(conn);

		if (!o->msg->landed && !rail)
			return false;
		if (!o->msg->landed)
			post_chunk(rail, o->msg, o->run, NULL);
		o->msg->orphans--;
		conn->orphan_ci++;
		xfer_msg_check(o->msg);
	}
	return true;
}

/* Ends that the receiver did not have when it sent DOWN. On all rails that are up (fail.c). */
static bool post_refins(struct spw_xfer_conn *conn)
{
	for (uint64_t left = conn->refin; left; left &= left - 1) {
		const uint32_t slot = (uint32_t)__builtin_ctzll(left);

		if (!post_fins(conn, slot, conn->tx[slot].msg, conn->up))
			return false;
		conn->refin &= ~(1ull << slot);
	}
	return true;
}

/* A slot whose message has come meanwhile needs no grant. */
static bool post_regrants(struct spw_xfer_conn *conn)
{
	for (uint64_t left = conn->regrant; left; left &= left - 1) {
		const uint32_t slot = (uint32_t)__builtin_ctzll(left);

		if (conn->rx[slot].open && !post_grant(conn, slot))
			return false;
		conn->regrant &= ~(1ull << slot);
	}
	return true;
}

static bool post_flags_again(struct spw_xfer_conn *conn)
{
	for (uint32_t i = 0; i < SPW_XFER_REQ_MAX; i++) {
		struct xfer_msg *msg = &conn->access[i];

		if (!msg->in_use || !msg->end_due || !msg->posted)
			continue;
		if (msg->landed)
			msg->end_due = false;
		else if (!post_end(conn, msg))
			return false;
		xfer_msg_check(msg);
	}
	return true;
}

/* Repeated until everything that failed rails left is posted. */
static SPW_COLD void engine_repair(struct spw_xfer_conn *conn)
{
	if (conn->waiting)
		return;
	conn->repair = !(post_orphans(conn) && post_regrants(conn) && post_refins(conn) &&
			 post_flags_again(conn));
}

/* ---- turns ---- */

/* What failed rails left comes first. */
void xfer_engine_pump(struct spw_xfer_conn *conn)
{
	conn->work = false;
	if (!conn->up)
		return;
	if (spw_unlikely(conn->repair))
		engine_repair(conn);
	post_grants(conn);
	post_active(conn);
	for (uint32_t i = 0; i < conn->rail_cnt; i++) {
		struct xfer_rail *rail = conn->rail[i];

		if (rail->rang || !rail->qp)
			continue;
		rail->rang = true;
		if (spw_unlikely(!rail->ops->ring(rail)))
			xfer_rail_fail(rail, "the device takes no more requests");
	}
}

/* The oldest grant with this tag that has no message. */
static struct xfer_tx_slot *find_grant(struct spw_xfer_conn *conn, uint32_t tag)
{
	while (conn->match_lo != conn->grant_next &&
	       conn->tx[xfer_slot_of(conn->match_lo)].state != XFER_TX_GRANTED)
		conn->match_lo++;
	for (uint32_t seq = conn->match_lo; seq != conn->grant_next; seq++) {
		struct xfer_tx_slot *s = &conn->tx[xfer_slot_of(seq)];

		if (s->state == XFER_TX_GRANTED && s->seq == seq && s->tag == tag)
			return s;
	}
	return NULL;
}

/* A message longer than its grant takes the slot, too: both sides report it. */
static void start_send(struct spw_xfer_conn *conn, struct xfer_msg *msg, struct xfer_tx_slot *s)
{
	s->state = XFER_TX_TAKEN;
	s->msg = msg;
	s->bytes = msg->bytes;
	msg->req->stamps.granted = spw_tsc_now();
	msg->too_long = msg->bytes > s->room;
	msg->slot = (uint8_t)xfer_slot_of(s->seq);
	msg->raddr = s->addr;
	memcpy(msg->rkey, s->rkey, sizeof(msg->rkey));
	xfer_queue_add(&conn->active, msg);
	conn->work = true;
}

/* Sends of one tag get the grants of that tag in the order of both. */
static void match_pending(struct spw_xfer_conn *conn)
{
	struct xfer_queue left = {0};
	struct xfer_msg *msg = conn->pending.first, *next;

	for (; msg; msg = next) {
		struct xfer_tx_slot *s = find_grant(conn, msg->tag);

		next = msg->next;
		if (s)
			start_send(conn, msg, s);
		else
			xfer_queue_add(&left, msg);
	}
	conn->pending = left;
}

/* Grants arrive over several rails, in any order, and are accepted in the order of their numbers.
 */
void xfer_engine_match(struct spw_xfer_conn *conn)
{
	for (;; conn->grant_next++) {
		struct xfer_tx_slot *s = &conn->tx[xfer_slot_of(conn->grant_next)];

		if (s->state != XFER_TX_ARRIVED || s->seq != conn->grant_next ||
		    (int32_t)(s->generation - conn->tx_generation) > 0)
			break;
		s->state = XFER_TX_GRANTED;
	}
	if (conn->pending.first)
		match_pending(conn);
}

/* A rail may fail while it is polled: it has no QP then, and engine_repair posts what it left. */
uint32_t xfer_conn_progress(struct spw_xfer_conn *conn)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < conn->rail_cnt; i++)
		if (conn->rail[i]->qp)
			n += xfer_rail_take(conn->rail[i]);
	if (conn->work && conn->state != XFER_CONN_FAILED)
		xfer_engine_pump(conn);
	return n;
}
