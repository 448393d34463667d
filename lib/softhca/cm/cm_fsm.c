/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The states of one connection (cm_fsm.h). cm.c finds the connection that a message is for, sends
 * what comes out of here, and passes events on to ucma_event.c.
 *
 *   active                     passive
 *   IDLE                       IDLE
 *    | connect    REQ ------>   | a request: event, the program decides
 *   REQ_SENT                   REQ_RCVD
 *    |            <------ REP   | accept
 *   REP_RCVD: event            REP_SENT
 *    | confirm    RTU ------>   |
 *   ESTABLISHED                ESTABLISHED: event
 *    | disconnect DREQ ----->   |
 *   DREQ_SENT                  DREQ_RCVD: event
 *    |            <----- DREP   | disconnect
 *   TIMEWAIT --> IDLE          TIMEWAIT --> IDLE
 *
 * How long each side waits for an answer, and what then, after the last resend:
 *
 *   REQ       2 * packet life + 4.1 s            UNREACHABLE, -ETIMEDOUT; IDLE
 *   REP       what the REQ says, 4.1 s           UNREACHABLE, -ETIMEDOUT; IDLE
 *   DREQ      as its side's REQ or REP           DISCONNECTED, -ETIMEDOUT; TIMEWAIT
 *   SIDR_REQ  4.1 s                              UNREACHABLE, -ETIMEDOUT; IDLE
 *   TIMEWAIT  the ACK timeout, once              TIMEWAIT_EXIT; IDLE
 *
 * An MRA prolongs one of these waits by what it names: up to 65 s from Linux.
 *
 * REQ, REP, DREQ and SIDR_REQ are sent again until they are answered, max_retries times; all else
 * only as the answer to a repeated message. What to know before changing it: one input yields at
 * most one message and one event.
 */
#include "softhca/cm/cm_fsm.h"

#include <errno.h>
#include <string.h>

#define MRA_TIMEOUT      24u /* Linux core/cma.c, CMA_CM_MRA_SETTING */
#define RESPONSE_TIMEOUT 20u /* CMA_CM_RESPONSE_TIMEOUT */
#define RETRIES          15u /* CMA_MAX_CM_RETRIES */

/* 4.096 us << n, rounded as cm.c does (cm_convert_to_ms). */
static uint32_t fsm_ms(uint32_t n)
{
	return 1u << (n > 8 ? n - 8 : 0);
}

uint32_t cm_ack_timeout(uint32_t ack_delay, uint32_t packet_life)
{
	uint32_t t = packet_life + 1;

	t = t >= ack_delay ? t + (ack_delay >= t - 1) : ack_delay + (t >= ack_delay - 1);
	return SPW_MIN(t, 31u);
}

static void step_begin(struct cm_step *s)
{
	s->sends = false;
	s->event = CM_EV_NONE;
	s->status = 0;
}

static void step_event(struct cm_step *s, enum cm_event event, int32_t status)
{
	s->event = event;
	s->status = status;
}

/* A message of this connection: all but what its kind has besides. */
static struct cm_msg *step_message(struct cm_step *s, const struct cm_fsm *f, uint32_t attr)
{
	memset(&s->msg, 0, sizeof(s->msg));
	s->msg.attr = attr;
	s->msg.tid = f->tid;
	s->msg.local_id = f->local_id;
	s->msg.remote_id = f->remote_id;
	s->sends = true;
	return &s->msg;
}

/* Sends f->out, now and until it is answered. */
static void fsm_post(struct cm_fsm *f, enum cm_state state, uint64_t now_ms, struct cm_step *s)
{
	f->state = state;
	f->retries_left = f->max_retries;
	f->due_ms = now_ms + f->timeout_ms;
	s->msg = f->out;
	s->sends = true;
}

/* Nothing is awaited in this state. */
static void fsm_rest(struct cm_fsm *f, enum cm_state state)
{
	f->state = state;
	f->due_ms = CM_NEVER;
}

/* Until no packet of the connection can be on its way any more. */
static void fsm_timewait(struct cm_fsm *f, uint64_t now_ms)
{
	f->state = CM_TIMEWAIT;
	f->due_ms = now_ms + fsm_ms(f->ack_timeout);
}

/* ---- commands ---- */

/* The caller's message, with what names the connection. */
static void fsm_ready(struct cm_fsm *f, const struct cm_msg *m, uint32_t attr)
{
	f->out = *m;
	f->out.attr = attr;
	f->out.tid = f->tid;
	f->out.local_id = f->local_id;
	f->out.remote_id = f->remote_id;
}

/* The first timeout covers the way of the request and of its answer. */
int cm_fsm_connect(struct cm_fsm *f, const struct cm_msg *req, uint64_t now_ms, struct cm_step *s)
{
	step_begin(s);
	if (f->state != CM_IDLE)
		return -EINVAL;
	fsm_ready(f, req, CM_REQ);
	f->out.remote_id = 0;
	f->out.remote_timeout = f->out.local_timeout = RESPONSE_TIMEOUT;
	f->out.max_retries = f->max_retries = RETRIES;
	f->service_id = req->service_id;
	f->local_qpn = req->qpn;
	f->rq_psn = req->psn;
	f->responder_resources = req->responder_resources;
	f->initiator_depth = req->initiator_depth;
	f->retry_cnt = req->retry_cnt;
	f->path_mtu = req->path_mtu;
	f->timeout_ms = 2 * fsm_ms(f->ack_timeout - 1) + fsm_ms(RESPONSE_TIMEOUT);
	fsm_post(f, CM_REQ_SENT, now_ms, s);
	return 0;
}

void cm_fsm_accept_req(struct cm_fsm *f, const struct cm_msg *m)
{
	f->tid = m->tid;
	f->remote_id = m->local_id;
	f->service_id = m->service_id;
	memcpy(f->remote_guid, m->guid, sizeof(f->remote_guid));
	f->remote_qpn = m->qpn;
	f->sq_psn = m->psn;
	f->responder_resources = m->initiator_depth;
	f->initiator_depth = m->responder_resources;
	f->retry_cnt = m->retry_cnt;
	f->rnr_retry = m->rnr_retry;
	f->path_mtu = m->path_mtu;
	f->ack_timeout = SPW_MAX(m->ack_timeout, 1u);
	f->timeout_ms = fsm_ms(m->local_timeout);
	f->max_retries = m->max_retries;
	fsm_rest(f, m->attr == CM_REQ ? CM_REQ_RCVD : CM_SIDR_REQ_RCVD);
}

int cm_fsm_accept(struct cm_fsm *f, const struct cm_msg *rep, uint64_t now_ms, struct cm_step *s)
{
	step_begin(s);
	if (f->state != CM_REQ_RCVD)
		return -EINVAL;
	fsm_ready(f, rep, CM_REP);
	f->local_qpn = rep->qpn;
	f->rq_psn = rep->psn;
	f->responder_resources = rep->responder_resources;
	f->initiator_depth = rep->initiator_depth;
	fsm_post(f, CM_REP_SENT, now_ms, s);
	return 0;
}

int cm_fsm_confirm(struct cm_fsm *f, struct cm_step *s)
{
	step_begin(s);
	if (f->state != CM_REP_RCVD)
		return -EINVAL;
	fsm_rest(f, CM_ESTABLISHED);
	f->out = *step_message(s, f, CM_RTU); /* for a repeated REP */
	return 0;
}

int cm_fsm_comm_est(struct cm_fsm *f, struct cm_step *s)
{
	step_begin(s);
	if (f->state == CM_ESTABLISHED)
		return -EISCONN;
	if (f->state != CM_REP_SENT && f->state != CM_MRA_REP_RCVD)
		return -EINVAL;
	fsm_rest(f, CM_ESTABLISHED);
	step_event(s, CM_EV_ESTABLISHED, 0);
	return 0;
}

/* What the REJ answers is what the peer sent last. */
int cm_fsm_reject(struct cm_fsm *f, uint32_t reason, const uint8_t *priv, uint64_t now_ms,
		  struct cm_step *s)
{
	struct cm_msg *m;

	step_begin(s);
	if (f->state < CM_REQ_SENT || f->state > CM_MRA_REP_RCVD)
		return -EINVAL;
	m = step_message(s, f, CM_REJ);
	m->reason = reason;
	m->answers = f->state == CM_REQ_RCVD   ? CM_ANSWERS_REQ
		     : f->state == CM_REP_RCVD ? CM_ANSWERS_REP
					       : CM_ANSWERS_OTHER;
	if (priv)
		memcpy(m->priv, priv, sizeof(m->priv));
	if (f->state == CM_REP_SENT || f->state == CM_MRA_REP_RCVD)
		fsm_timewait(f, now_ms);
	else
		fsm_rest(f, CM_IDLE);
	return 0;
}

/* Begins the end, or answers the peer's beginning of it. */
int cm_fsm_disconnect(struct cm_fsm *f, uint64_t now_ms, struct cm_step *s)
{
	step_begin(s);
	if (f->state == CM_DREQ_RCVD) {
		step_message(s, f, CM_DREP);
		fsm_timewait(f, now_ms);
		return 0;
	}
	if (f->state != CM_ESTABLISHED)
		return -EINVAL;
	f->out = *step_message(s, f, CM_DREQ);
	f->out.qpn = f->remote_qpn;
	fsm_post(f, CM_DREQ_SENT, now_ms, s);
	return 0;
}

int cm_fsm_sidr_ask(struct cm_fsm *f, const struct cm_msg *req, uint64_t now_ms, struct cm_step *s)
{
	step_begin(s);
	if (f->state != CM_IDLE)
		return -EINVAL;
	fsm_ready(f, req, CM_SIDR_REQ);
	f->service_id = req->service_id;
	f->timeout_ms = fsm_ms(RESPONSE_TIMEOUT);
	f->max_retries = RETRIES;
	fsm_post(f, CM_SIDR_REQ_SENT, now_ms, s);
	return 0;
}

/* The request's number goes back where it came. */
int cm_fsm_sidr_answer(struct cm_fsm *f, const struct cm_msg *rep, struct cm_step *s)
{
	step_begin(s);
	if (f->state != CM_SIDR_REQ_RCVD)
		return -EINVAL;
	s->msg = *rep;
	s->msg.attr = CM_SIDR_REP;
	s->msg.tid = f->tid;
	s->msg.local_id = f->remote_id;
	s->msg.service_id = f->service_id;
	s->sends = true;
	fsm_rest(f, CM_IDLE);
	return 0;
}

void cm_fsm_close(struct cm_fsm *f, uint64_t now_ms, struct cm_step *s)
{
	const struct cm_msg refusal = {.reason = CM_SIDR_REJECTED};

	step_begin(s);
	switch (f->state) {
	case CM_REQ_SENT:
	case CM_MRA_REQ_RCVD:
		/* The peer's number is not known: it finds the connection by ours. */
		cm_fsm_reject(f, CM_REJ_TIMEOUT, NULL, now_ms, s);
		memcpy(s->msg.guid, f->out.guid, sizeof(s->msg.guid));
		s->msg.info_bytes = sizeof(s->msg.guid);
		break;
	case CM_REQ_RCVD:
	case CM_REP_SENT:
	case CM_REP_RCVD:
	case CM_MRA_REP_RCVD:
		cm_fsm_reject(f, CM_REJ_CONSUMER, NULL, now_ms, s);
		break;
	case CM_ESTABLISHED:
	case CM_DREQ_RCVD:
		cm_fsm_disconnect(f, now_ms, s);
		fsm_timewait(f, now_ms);
		break;
	case CM_DREQ_SENT:
		fsm_timewait(f, now_ms);
		break;
	case CM_SIDR_REQ_RCVD:
		cm_fsm_sidr_answer(f, &refusal, s);
		break;
	case CM_SIDR_REQ_SENT:
		fsm_rest(f, CM_IDLE);
		break;
	default:
		break;
	}
}

/* ---- messages ---- */

/* A request that came again: its answer is on the way, or takes its time. */
static void fsm_rx_req(struct cm_fsm *f, struct cm_step *s)
{
	struct cm_msg *m;

	if (f->state == CM_REQ_RCVD) {
		m = step_message(s, f, CM_MRA);
		m->answers = CM_ANSWERS_REQ;
		m->service_timeout = MRA_TIMEOUT;
	} else if (f->state == CM_TIMEWAIT) {
		m = step_message(s, f, CM_REJ);
		m->answers = CM_ANSWERS_REQ;
		m->reason = CM_REJ_STALE;
	}
}

/* The QP of this side can be made ready: that is the program's part. A repeated REP says that the
 * RTU has been lost. */
static void fsm_rx_rep(struct cm_fsm *f, const struct cm_msg *m, struct cm_step *s)
{
	if (f->state == CM_ESTABLISHED && f->out.attr == CM_RTU && f->remote_id == m->local_id) {
		s->msg = f->out;
		s->sends = true;
		return;
	}
	if (f->state != CM_REQ_SENT && f->state != CM_MRA_REQ_RCVD)
		return;
	f->remote_id = m->local_id;
	memcpy(f->remote_guid, m->guid, sizeof(f->remote_guid));
	f->remote_qpn = m->qpn;
	f->sq_psn = m->psn;
	f->responder_resources = m->initiator_depth;
	f->initiator_depth = m->responder_resources;
	f->rnr_retry = m->rnr_retry;
	f->ack_timeout = cm_ack_timeout(m->ack_delay, f->ack_timeout - 1);
	fsm_rest(f, CM_REP_RCVD);
	step_event(s, CM_EV_CONNECT_RESPONSE, 0);
}

/* The peer needs longer: this wait ends later, and no resend is used up. */
static void fsm_rx_mra(struct cm_fsm *f, const struct cm_msg *m, uint64_t now_ms)
{
	const uint64_t due_ms = now_ms + fsm_ms(m->service_timeout) + fsm_ms(f->ack_timeout);

	if (f->state == CM_REQ_SENT && m->answers == CM_ANSWERS_REQ)
		f->state = CM_MRA_REQ_RCVD;
	else if (f->state == CM_REP_SENT && m->answers == CM_ANSWERS_REP)
		f->state = CM_MRA_REP_RCVD;
	else
		return;
	f->due_ms = due_ms;
}

/* A refusal ends whatever there was. */
static void fsm_rx_rej(struct cm_fsm *f, const struct cm_msg *m, uint64_t now_ms, struct cm_step *s)
{
	switch (f->state) {
	case CM_REQ_SENT:
	case CM_MRA_REQ_RCVD:
	case CM_REP_SENT:
	case CM_MRA_REP_RCVD:
	case CM_REQ_RCVD:
		if (m->reason == CM_REJ_STALE)
			fsm_timewait(f, now_ms);
		else
			fsm_rest(f, CM_IDLE);
		break;
	case CM_DREQ_SENT:
	case CM_REP_RCVD:
	case CM_ESTABLISHED:
		fsm_timewait(f, now_ms);
		break;
	default:
		return;
	}
	step_event(s, CM_EV_REJECTED, (int32_t)m->reason);
}

/* The number of the QP is a check that the connection is meant, and not its predecessor. */
static void fsm_rx_dreq(struct cm_fsm *f, const struct cm_msg *m, struct cm_step *s)
{
	if (m->qpn != f->local_qpn)
		return;
	switch (f->state) {
	case CM_REP_SENT:
	case CM_MRA_REP_RCVD:
	case CM_ESTABLISHED:
	case CM_DREQ_SENT:
		f->tid = m->tid;
		fsm_rest(f, CM_DREQ_RCVD);
		step_event(s, CM_EV_DISCONNECTED, 0);
		break;
	case CM_TIMEWAIT:
		step_message(s, f, CM_DREP)->tid = m->tid;
		break;
	default:
		break;
	}
}

/* One answer is all there is: a datagram service has no connection. */
static void fsm_rx_sidr_rep(struct cm_fsm *f, const struct cm_msg *m, struct cm_step *s)
{
	if (f->state != CM_SIDR_REQ_SENT)
		return;
	f->remote_qpn = m->qpn;
	fsm_rest(f, CM_IDLE);
	if (m->reason == CM_SIDR_SUCCESS)
		step_event(s, CM_EV_ESTABLISHED, 0);
	else
		step_event(s, CM_EV_UNREACHABLE, (int32_t)m->reason);
}

/* From the peer's number on, messages of others that guess ours are ignored. */
static bool fsm_rx_is_from_peer(const struct cm_fsm *f, const struct cm_msg *m)
{
	if (m->attr == CM_SIDR_REP || m->attr == CM_REP || m->attr == CM_REQ)
		return true;
	return !f->remote_id || f->remote_id == m->local_id || (m->attr == CM_REJ && !m->local_id);
}

void cm_fsm_rx(struct cm_fsm *f, const struct cm_msg *m, uint64_t now_ms, struct cm_step *s)
{
	step_begin(s);
	if (!fsm_rx_is_from_peer(f, m))
		return;
	switch ((enum cm_attr)m->attr) {
	case CM_REQ:
		fsm_rx_req(f, s);
		break;
	case CM_MRA:
		fsm_rx_mra(f, m, now_ms);
		break;
	case CM_REJ:
		fsm_rx_rej(f, m, now_ms, s);
		break;
	case CM_REP:
		fsm_rx_rep(f, m, s);
		break;
	case CM_RTU:
		cm_fsm_comm_est(f, s);
		break;
	case CM_DREQ:
		fsm_rx_dreq(f, m, s);
		break;
	case CM_DREP:
		if (f->state == CM_DREQ_SENT || f->state == CM_DREQ_RCVD) {
			fsm_timewait(f, now_ms);
			step_event(s, CM_EV_DISCONNECTED, 0);
		}
		break;
	case CM_SIDR_REP:
		fsm_rx_sidr_rep(f, m, s);
		break;
	default: /* a SIDR_REQ again: its answer is to come */
		break;
	}
}

/* ---- time ---- */

/* The last wait ended without an answer. */
static void fsm_give_up(struct cm_fsm *f, uint64_t now_ms, struct cm_step *s)
{
	const enum cm_state was = f->state;

	if (was == CM_DREQ_SENT) {
		fsm_timewait(f, now_ms);
		step_event(s, CM_EV_DISCONNECTED, -ETIMEDOUT);
		return;
	}
	fsm_rest(f, CM_IDLE);
	step_event(s, CM_EV_UNREACHABLE, -ETIMEDOUT);
}

void cm_fsm_tick(struct cm_fsm *f, uint64_t now_ms, struct cm_step *s)
{
	step_begin(s);
	if (now_ms < f->due_ms)
		return;
	if (f->state == CM_TIMEWAIT) {
		fsm_rest(f, CM_IDLE);
		step_event(s, CM_EV_TIMEWAIT_EXIT, 0);
	} else if (!f->retries_left) {
		fsm_give_up(f, now_ms, s);
	} else {
		f->retries_left--;
		f->due_ms = now_ms + f->timeout_ms;
		s->msg = f->out;
		s->sends = true;
	}
}
