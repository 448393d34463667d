/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Completions of a rail: acknowledged WQEs, grants and ends of messages that the peer wrote. What
 * the peer wrote is checked against what it may write now; anything else ends the connection.
 * Called by the turn of a connection (engine.c), and by fail.c for the last completions of a rail.
 *
 *   acknowledged    sent[sq_ci ..] ─► chunk, flag, probe ─► is its message done? (xfer_msg_check)
 *   immediate       GRANT ─► tx slot ARRIVED ─► sends that wait
 *                   FIN   ─► rx slot: all rails of the message? ─► its part is done
 *                   PROBE ─► rail.c
 *   error           the rail fails (fail.c), or the request alone, or the connection
 */
#include <errno.h>
#include <string.h>

#include "xfer/connection.h"

/* ---- acknowledged ---- */

/* The message's place is free; the request stays until the caller has tested it. */
static void msg_done(struct xfer_msg *msg)
{
	struct spw_xfer_conn *conn = msg->req->conn;

	if (msg->kind == XFER_MSG_SEND) {
		if (conn->tx[msg->slot].msg == msg)
			conn->tx[msg->slot].msg = NULL;
		conn->send_cnt--;
	} else {
		conn->access_cnt--;
	}
	msg->in_use = false;
	xfer_req_part(msg->req, 0, msg->req->piece ? msg->req->bytes[0] : msg->bytes,
		      msg->too_long ? -EMSGSIZE : 0);
}

/* While a rail is not settled no message is done: the receiver may still ask for its end again. */
void xfer_msg_check(struct xfer_msg *msg)
{
	struct spw_xfer_conn *conn;

	if (!msg->in_use || !msg->posted || msg->open || msg->orphans || msg->end_due)
		return;
	conn = msg->req->conn;
	if (conn->waiting || (msg->kind == XFER_MSG_SEND && conn->tx[msg->slot].msg == msg &&
			      conn->refin >> msg->slot & 1u))
		return;
	msg_done(msg);
}

static void sent_acked(struct xfer_rail *rail, const struct xfer_sent *s)
{
	struct xfer_msg *msg = s->msg;

	if (s->kind == XFER_SENT_FLAG && msg)
		xfer_flag_acked(rail, s);
	if (s->kind == XFER_SENT_CHUNK) {
		rail->out_bytes -= s->run.len;
		rail->stat.tx_bytes += s->run.len;
		rail->stat.tx_chunks++;
		if (msg && msg->req->piece)
			msg->req->bytes[0] += s->run.len;
	} else if (s->kind == XFER_SENT_PROBE && rail->state == XFER_PROBING) {
		xfer_rail_proved(rail);
	}
	if (msg && !--msg->open)
		xfer_msg_check(msg);
}

/* Returns: false: the device reported a WQE that was not posted, which must not happen. A
 * completion acknowledges all WQEs before it, since only some are signaled. */
static bool take_acked(struct xfer_rail *rail, uint32_t end)
{
	uint32_t cnt = (uint16_t)(end - rail->sq_ci);

	if (!spw_in_1_to(cnt, rail->sq_pi - rail->sq_ci))
		return false;
	for (; cnt; cnt--, rail->sq_ci++)
		sent_acked(rail, &rail->sent[rail->sq_ci % XFER_SQ_CNT]);
	return true;
}

/* ---- grants ---- */

static bool grant_is_sound(const struct xfer_tx_slot *s)
{
	return s->room <= SPW_XFER_BYTES_MAX && s->addr <= UINT64_MAX - s->room;
}

/* A slot is granted again only after its message was complete at the receiver, which says more than
 * the acknowledgements that are still to come. The mailbox is the peer's to write at any time: each
 * value is read once, and then checked. */
static void take_grant(struct spw_xfer_conn *conn, struct xfer_imm imm)
{
	const struct xfer_grant *g = &conn->box->in[imm.slot];
	struct xfer_tx_slot *s = &conn->tx[imm.slot];
	const uint32_t seq = spw_be32_to_cpu(g->seq);

	if (seq == s->seq && xfer_lap_of(seq) == imm.lap)
		return; /* written again after a rail failed */
	if (seq != s->seq + XFER_SLOT_CNT || xfer_lap_of(seq) != imm.lap ||
	    !(s->state == XFER_TX_FREE || s->state == XFER_TX_ENDED)) {
		xfer_conn_breach(conn, "a grant out of order");
		return;
	}
	if (s->msg)
		s->msg->landed = true;
	conn->refin &= ~(1ull << imm.slot);
	s->state = XFER_TX_ARRIVED;
	s->seq = seq;
	s->tag = spw_be32_to_cpu(g->tag);
	s->generation = spw_be32_to_cpu(g->generation);
	s->addr = spw_be64_to_cpu(g->addr);
	s->room = spw_be64_to_cpu(g->bytes);
	s->msg = NULL;
	for (uint32_t i = 0; i < SPW_XFER_RAIL_MAX; i++)
		s->rkey[i] = spw_be32_to_cpu(g->rkey[i]);
	if (!grant_is_sound(s))
		xfer_conn_breach(conn, "a grant of impossible size");
	else
		xfer_engine_match(conn);
}

/* ---- ends of messages ---- */

/* The length by what the end says. Returns: false: it cannot be right. */
static bool fin_bytes(const struct spw_xfer_conn *conn, struct xfer_rx_slot *r, struct xfer_imm imm,
		      uint32_t cqe_bytes)
{
	switch (imm.size) {
	case XFER_SIZE_FULL:
		r->bytes = r->room;
		break;
	case XFER_SIZE_CHUNK:
		r->bytes = cqe_bytes;
		break;
	case XFER_SIZE_RECORD:
		r->bytes = spw_be64_to_cpu(conn->box->size[imm.slot]);
		break;
	case XFER_SIZE_TOO_LONG:
		r->bytes = 0;
		break;
	default:
		return false;
	}
	return r->bytes <= r->room;
}

/* The message is complete when all rails of its mask have ended it; only then is its length read.
 */
static void take_fin(struct xfer_rail *rail, struct xfer_imm imm, uint32_t cqe_bytes)
{
	struct spw_xfer_conn *conn = rail->conn;
	struct xfer_rx_slot *r = &conn->rx[imm.slot];
	const uint8_t bit = (uint8_t)(1u << rail->idx);

	if (imm.rails & conn->rx_lost[imm.generation])
		return; /* the sender writes it again (fail.c) */
	if (!r->open || imm.lap != xfer_lap_of(r->seq) || !(imm.rails & bit) || r->got & bit ||
	    (r->got && (imm.rails != r->rails || imm.size != r->size)) ||
	    imm.rails >> conn->rail_cnt) {
		xfer_conn_breach(conn, "an end of a message that was not under way");
		return;
	}
	r->rails = imm.rails;
	r->size = imm.size;
	r->got |= bit;
	if (r->got != r->rails)
		return;
	if (!fin_bytes(conn, r, imm, cqe_bytes)) {
		xfer_conn_breach(conn, "a message longer than its grant");
		return;
	}
	r->open = false;
	r->got = 0;
	r->req->stamps.rails |= r->rails;
	xfer_req_part(r->req, r->part, r->bytes, imm.size == XFER_SIZE_TOO_LONG ? -EMSGSIZE : 0);
}

/* Each immediate has used a receive, whatever it says. */
static void take_imm(struct xfer_rail *rail, const struct xfer_done *d)
{
	const struct xfer_imm imm = xfer_imm_get(d->imm);

	rail->rq_used++;
	switch (imm.kind) {
	case XFER_IMM_GRANT:
		take_grant(rail->conn, imm);
		break;
	case XFER_IMM_FIN:
		take_fin(rail, imm, d->bytes);
		break;
	case XFER_IMM_PROBE:
		xfer_rail_probed(rail);
		break;
	default:
		xfer_conn_breach(rail->conn, "an immediate of no kind");
	}
}

/* ---- errors ---- */

/* The request is wrong, not the rail. */
static bool is_refusal(uint32_t status)
{
	return status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR ||
	       status == IBV_WC_REM_OP_ERR || status == IBV_WC_LOC_PROT_ERR ||
	       status == IBV_WC_LOC_LEN_ERR || status == IBV_WC_LOC_QP_OP_ERR;
}

/* A WQE that no rail can carry: trying it on the next would only take that one down too. An access
 * fails alone; a send ends the connection, since its receive would wait for ever. */
static void take_refused(struct xfer_rail *rail, const struct xfer_done *d)
{
	const struct xfer_sent *s = &rail->sent[(d->end - 1u) % XFER_SQ_CNT];
	const char *what = ibv_wc_status_str((enum ibv_wc_status)d->status);

	if (s->msg && s->msg->kind != XFER_MSG_SEND) {
		if (!s->msg->req->error)
			s->msg->req->bad_piece = s->run.piece;
		s->msg->req->error = s->msg->req->error ? s->msg->req->error : -EREMOTEIO;
		s->msg->landed = true; /* its orphans are dropped */
	} else if (d->status == IBV_WC_REM_ACCESS_ERR) {
		xfer_conn_breach(rail->conn, "it granted memory that its NIC refuses");
	} else {
		xfer_conn_fail(rail->conn, EIO, "a request was refused: %s", what);
	}
}

/* ---- one poll ---- */

/* The whole batch is taken before the rail fails: what succeeded counts. */
uint32_t xfer_rail_take(struct xfer_rail *rail)
{
	struct spw_xfer_conn *conn = rail->conn;
	struct xfer_done done[XFER_POLL_MAX];
	const struct xfer_done *bad = NULL;
	uint32_t n = rail->ops->poll(rail, done, XFER_POLL_MAX);

	for (uint32_t i = 0; i < n && conn->state != XFER_CONN_FAILED; i++) {
		const struct xfer_done *d = &done[i];

		if (spw_unlikely(!d->ok))
			bad = bad ? bad : d;
		else if (!d->is_send)
			take_imm(rail, d);
		else if (spw_unlikely(!take_acked(rail, d->end)))
			bad = bad ? bad : d;
	}
	if (!n || conn->state == XFER_CONN_FAILED)
		return n;
	conn->work = true;
	if (spw_unlikely(bad && bad->is_send && is_refusal(bad->status)))
		take_refused(rail, bad); /* also if the peer's word that it is down came first */
	if (spw_unlikely(bad && rail->state != XFER_DOWN)) {
		xfer_rail_fail(rail, "%s", ibv_wc_status_str((enum ibv_wc_status)bad->status));
	} else if (rail->rq_used >= rail->ops->refill_min && rail->state != XFER_DOWN) {
		rail->ops->refill(rail, rail->rq_used);
		rail->rq_used = 0;
	}
	return n;
}
