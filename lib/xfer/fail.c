/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A rail fails, and nothing is lost and nothing arrives twice.
 *
 *   side A                                     side B
 *   an error, or the link is down
 *   takes its completions, destroys its QP
 *   DOWN: what A has not received   ───────►   takes its completions, destroys its QP
 *                                   ◄───────   DOWN: what B has not received
 *   settled                                    settled
 *
 * Each side sends DOWN once for each QP, after its QP is gone: what the other side knows of can
 * no longer change memory over this rail. Then, as a sender:
 *
 *   - Chunks without acknowledgement are orphans: they are written again over other rails. They may
 *     have landed; the same bytes are written again.
 *   - A message that the receiver holds for complete is complete. Its orphans are dropped: its
 *     buffer may be in use again.
 *   - Of every other message whose ends name the rail they are written again on all rails that are
 *     up, after its orphans.
 *
 * As a receiver, saying DOWN begins a new generation: ends of those before no longer count if they
 * name the rail. So a message that used it becomes complete only by ends that were written after
 * the orphans, never by an old one that overtook them; and one that did not needs nothing more of a
 * sender that may have no call left to make. Grants state the generation; a sender that reads a
 * newer one than it knows of leaves the grant until the DOWN frame arrives.
 *
 * With one rail left out the others go on meanwhile; they stop for none of this.
 *
 * Called by take.c (an error of a completion), endpoint.c (an event of the device), rail.c (an
 * attempt that failed) and conn.c (the peer's DOWN). Nothing here frees a rail: round.c may pair it
 * anew.
 */
#include <stdarg.h>
#include <stdio.h>

#include "base/spw_log.h"
#include "peer/spw_peer_qp.h"
#include "xfer/connection.h"
#include "xfer/endpoint.h"
#include "xfer/round.h"

/* ---- what the rail leaves ---- */

/* The ring has room: engine.c posts no more than what fits if every rail fails. */
static void leave_chunk(struct xfer_rail *rail, const struct xfer_sent *s)
{
	struct spw_xfer_conn *conn = rail->conn;

	conn->orphan[conn->orphan_pi++ % XFER_ORPHAN_MAX] =
		(struct xfer_orphan){.msg = s->msg, .run = s->run};
	s->msg->orphans++;
	rail->stat.resent_chunks++;
	conn->x->stat.resent_chunks++;
}

/* The receiver of a put has no slots to report, so its flag is written again. */
static void fail_leave(struct xfer_rail *rail, const struct xfer_sent *s)
{
	struct spw_xfer_conn *conn = rail->conn;

	if (s->msg)
		s->msg->open--;
	switch (s->kind) {
	case XFER_SENT_CHUNK:
		leave_chunk(rail, s);
		if (s->msg->kind == XFER_MSG_PUT && s->msg->posted)
			s->msg->end_due = true;
		break;
	case XFER_SENT_FLAG:
		s->msg->end_due = true;
		break;
	case XFER_SENT_GRANT:
		conn->regrant |= 1ull << s->slot;
		break;
	default: /* ends of sends follow from what the receiver says */
		break;
	}
}

/* Messages that used the rail do not end before the peer has taken it out of service, too. */
static void fail_lose(struct xfer_msg *msg, uint8_t bit)
{
	if (!msg->in_use || !(msg->used & bit))
		return;
	msg->used &= (uint8_t)~bit;
	msg->lost |= bit;
}

/* ---- down ---- */

/* As a receiver: no end of the generations so far counts that names the rail. */
static void fail_generation(struct spw_xfer_conn *conn, uint8_t bit)
{
	for (uint32_t i = 0; i < XFER_GENERATIONS; i++)
		conn->rx_lost[i] |= bit;
	conn->rx_lost[++conn->rx_generation % XFER_GENERATIONS] = 0;
	for (uint32_t i = 0; i < XFER_SLOT_CNT; i++)
		if (conn->rx[i].rails & bit)
			conn->rx[i].got = 0;
}

static void say_down(struct xfer_rail *rail)
{
	struct spw_xfer_conn *conn = rail->conn;
	struct xfer_frame f = {.type = XFER_FRAME_DOWN,
			       .down = {.rail = rail->idx,
					.qp_generation = rail->qp_generation,
					.generation = conn->rx_generation}};

	for (uint32_t i = 0; i < XFER_SLOT_CNT; i++)
		f.down.open[i] = conn->rx[i].open ? conn->rx[i].seq : XFER_NO_SEQ;
	xfer_conn_send(conn, &f);
}

/* An attempt that failed is reported by xfer_round_report, once all have been made. */
static void fail_report(struct xfer_rail *rail, bool was_up)
{
	struct spw_xfer_conn *conn = rail->conn;

	if (!was_up) {
		xfer_pairs_failed(&conn->pairs, rail->dev_idx, rail->peer_idx);
		return;
	}
	rail->stat.outages++;
	conn->x->stat.outages++;
	spw_log_limited(&conn->x->limit, SPW_LOG_WARN, "xfer: %s: rail %u (%s) failed: %s",
			conn->text, rail->idx, rail->stat.device, rail->stat.why);
}

/* Completions that the flush of the QP leaves are taken first: what they acknowledge is no orphan.
 */
void xfer_rail_fail(struct xfer_rail *rail, const char *fmt, ...)
{
	struct spw_xfer_conn *conn = rail->conn;
	const bool was_up = rail->state == XFER_UP;
	va_list args;

	if (rail->state == XFER_OFF || rail->state == XFER_DOWN || conn->state == XFER_CONN_FAILED)
		return;
	va_start(args, fmt);
	vsnprintf(rail->stat.why, sizeof(rail->stat.why), fmt, args);
	va_end(args);
	fail_report(rail, was_up);
	rail->state = XFER_DOWN;
	conn->up &= (uint8_t) ~(1u << rail->idx);
	if (was_up)
		rail->down_ns = xfer_now_ns();
	rail->tried = true;
	if (rail->qp && !rail->resolve && !peer_qp_error(rail->qp))
		while (conn->state != XFER_CONN_FAILED && xfer_rail_take(rail))
			;
	if (conn->state == XFER_CONN_FAILED)
		return; /* the peer broke the protocol in what was taken */
	xfer_rail_destroy(rail);
	for (; rail->sq_ci != rail->sq_pi; rail->sq_ci++)
		fail_leave(rail, &rail->sent[rail->sq_ci % XFER_SQ_CNT]);
	for (uint32_t i = 0; i < SPW_XFER_REQ_MAX; i++) {
		fail_lose(&conn->send[i], (uint8_t)(1u << rail->idx));
		fail_lose(&conn->access[i], (uint8_t)(1u << rail->idx));
	}
	rail->out_bytes = 0;
	conn->waiting++;
	conn->repair = true;
	conn->work = true;
	fail_generation(conn, (uint8_t)(1u << rail->idx));
	say_down(rail);
}

/* ---- what the peer says ---- */

/* The peer has failed the rail, or answers our DOWN: in both cases it is OFF afterwards. */
void xfer_rail_on_down(struct xfer_rail *rail, const struct xfer_frame *frame, uint64_t now_ms)
{
	struct spw_xfer_conn *conn = rail->conn;

	if (frame->down.qp_generation != rail->qp_generation || rail->peer_down ||
	    rail->state == XFER_OFF) {
		xfer_conn_breach(conn, "a rail is down that was not up");
		return;
	}
	rail->peer_down = true;
	xfer_rail_fail(rail, "the peer took it out of service: its log says why");
	if (conn->state == XFER_CONN_FAILED)
		return;
	xfer_conn_learn(conn, frame);
	if (conn->state == XFER_CONN_FAILED)
		return;
	rail->state = XFER_OFF;
	xfer_round_ended(rail, true, now_ms);
	xfer_rail_settled(rail);
}

/* A slot of the sender's side, and what the receiver says of it. Ends that do not name the rail
 * count still. */
static void learn_slot(struct spw_xfer_conn *conn, uint32_t slot, uint32_t open, uint8_t bit)
{
	struct xfer_tx_slot *s = &conn->tx[slot];

	if (s->state != XFER_TX_TAKEN && s->state != XFER_TX_ENDED)
		return;
	if (open != s->seq) {
		conn->refin &= ~(1ull << slot);
		if (s->msg)
			s->msg->landed = true;
	} else if (s->state == XFER_TX_ENDED && s->end_rails & bit) {
		conn->refin |= 1ull << slot;
	}
}

/* Generations count DOWN frames, of which TCP loses none. */
void xfer_conn_learn(struct spw_xfer_conn *conn, const struct xfer_frame *frame)
{
	if (frame->down.generation != conn->tx_generation + 1) {
		xfer_conn_breach(conn, "a generation was left out");
		return;
	}
	conn->tx_generation = frame->down.generation;
	for (uint32_t i = 0; i < XFER_SLOT_CNT; i++)
		learn_slot(conn, i, frame->down.open[i], (uint8_t)(1u << frame->down.rail));
}

/* Sends that were complete at the receiver may be done now. */
void xfer_rail_settled(struct xfer_rail *rail)
{
	struct spw_xfer_conn *conn = rail->conn;
	const uint8_t keep = (uint8_t) ~(1u << rail->idx);

	conn->waiting--;
	conn->work = true;
	xfer_engine_match(conn);
	for (uint32_t i = 0; i < SPW_XFER_REQ_MAX; i++) {
		conn->send[i].lost &= keep;
		conn->access[i].lost &= keep;
		xfer_msg_check(&conn->send[i]);
		xfer_msg_check(&conn->access[i]);
	}
}
