/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Messages that arrive: whose are they? cm.c calls cm_rx_message with the lock held.
 *
 *   REQ        the connection that it began already | a stale one with its QP | a listener: a new
 *              identifier, whose event is queued | nobody: REJ
 *   SIDR_REQ   the same for datagram services
 *   others     the connection whose number they name | nobody: a DREQ is answered
 *
 * What nobody wants is answered as Linux answers it:
 *
 *   REQ without a listener         REJ 8 (no such service)
 *   REQ without the header, or of a transport that the listener has not    REJ 28
 *   REQ while the backlog is full  nothing: the peer asks again
 *   REQ of a QP that is connected  REJ 10 (stale), and the old connection ends
 *   SIDR_REQ without a listener    SIDR_REP 1 (unsupported)
 *   DREQ of an unknown connection  DREP, if the QP is this process's
 *   anything else                  nothing
 *
 * What to know before changing it: peers are strangers. What they can make grow is bounded by the
 * backlog of a listener, and what they get for nothing is one answer for one message.
 *
 * Processes of one machine share its MAC and all get its QP 1's datagrams; a message is for the one
 * that knows its connection, and a QP's number names the process that owns it.
 *
 * Source: Linux drivers/infiniband/core/cm.c (cm_req_handler, cm_match_req, cm_dreq_handler),
 * core/cma.c (cma_ib_req_handler).
 */
#include <stdlib.h>
#include <string.h>

#include "base/spw_monotonic.h"
#include "softhca/cm/cm_impl.h"

#define QPN_PORT(q)  ((q) >> 16)
#define TRANSPORT_UC 1u

static void rx_reject(const struct cm_arrival *a, uint32_t reason)
{
	const struct cm_msg no = {.attr = CM_REJ,
				  .tid = a->m.tid,
				  .remote_id = a->m.local_id,
				  .answers = CM_ANSWERS_REQ,
				  .reason = reason};

	cm_answer(a->dev, a->sgid_index, a->from, &no);
}

/* The connection that a request began, or an older one that has the peer's QP still. */
static struct cm_id *rx_known(const struct cm_arrival *a, bool by_qpn)
{
	for (struct cm_id *id = cm_all.list; id; id = id->next) {
		const struct cm_fsm *f = &id->fsm;

		if (id->dev != a->dev || !id->has_cm || f->state == CM_IDLE ||
		    memcmp(f->remote_guid, a->m.guid, sizeof(f->remote_guid)) != 0)
			continue;
		if (by_qpn ? f->remote_qpn == a->m.qpn && id->qp_type != IB_UVERBS_QPT_UD
			   : f->remote_id == a->m.local_id)
			return id;
	}
	return NULL;
}

/* A peer that uses a QP again has lost the old connection, which ends here too. */
static bool rx_is_stale(const struct cm_arrival *a, uint64_t now_ms)
{
	struct cm_id *old = rx_known(a, true);
	struct cm_step step;

	if (!old)
		return false;
	rx_reject(a, CM_REJ_STALE);
	if (!cm_fsm_disconnect(&old->fsm, now_ms, &step))
		cm_id_step(old, &step, NULL);
	return true;
}

/* The header of addresses comes before the program's private data, and is not shown. */
static struct ucma_event *rx_request_event(struct cm_id *listener, struct cm_id *id,
					   const struct cm_msg *m)
{
	struct ucma_event *e = ucma_event_new(listener, CM_EV_CONNECT_REQUEST, 0);
	const uint8_t *priv = m->priv + CM_ADDR_HDR_BYTES;
	const uint32_t bytes = cm_mad_priv_bytes(m->attr) - CM_ADDR_HDR_BYTES;

	if (!e)
		return NULL;
	e->conn = id;
	e->resp.id = id->handle;
	if (id->qp_type == IB_UVERBS_QPT_UD) {
		e->resp.param.ud.private_data_len = (uint8_t)bytes;
		memcpy(e->resp.param.ud.private_data, priv, bytes);
		return e;
	}
	cm_event_conn(&e->resp.param.conn, m, CM_ADDR_HDR_BYTES);
	return e;
}

/* It belongs to the listener's file, and without a uid to nobody yet: it has no events before it is
 * accepted. */
static struct cm_id *rx_request_id(const struct cm_arrival *a, const struct cm_id *listener)
{
	struct cm_id *id = cm_id_new(listener->file, 0, listener->ps, listener->qp_type);

	if (!id)
		return NULL;
	id->state = CM_ID_CONNECT;
	id->dev = a->dev;
	id->sgid_index = a->sgid_index;
	memcpy(id->dgid, a->m.attr == CM_REQ ? a->m.sgid : a->from, 16);
	id->tos = a->m.attr == CM_REQ ? (uint8_t)a->m.tclass : listener->tos;
	id->has_cm = id->unfetched = true;
	(void)cm_addr_parse(a->m.priv, a->m.service_id, &id->src, &id->dst);
	cm_fsm_accept_req(&id->fsm, &a->m);
	return id;
}

/* A listener without room for one more says nothing: the peer asks again (cm.c, cm_destroy_id with
 * -ENOMEM). */
static void rx_request(const struct cm_arrival *a, struct cm_id *listener)
{
	struct cm_id *id = listener->backlog ? rx_request_id(a, listener) : NULL;
	struct ucma_event *e = id ? rx_request_event(listener, id, &a->m) : NULL;

	if (e && ucma_event_put(e)) {
		listener->backlog--;
		return;
	}
	if (id)
		cm_id_free(id);
}

static void rx_req(const struct cm_arrival *a, uint64_t now_ms)
{
	struct cm_id *known = rx_known(a, false), *listener;
	union cm_addr src, dst;
	struct cm_step step;

	if (known) {
		cm_fsm_rx(&known->fsm, &a->m, now_ms, &step);
		cm_id_step(known, &step, &a->m);
		return;
	}
	if (rx_is_stale(a, now_ms))
		return;
	if (!cm_addr_parse(a->m.priv, a->m.service_id, &src, &dst)) {
		rx_reject(a, CM_REJ_CONSUMER);
		return;
	}
	listener = cm_addr_listener(a->dev, a->m.service_id, &src);
	if (listener && (listener->qp_type == IB_UVERBS_QPT_UD || a->m.transport > TRANSPORT_UC))
		rx_reject(a, CM_REJ_CONSUMER);
	else if (listener)
		rx_request(a, listener);
	else if (!cm_addr_is_taken(a->m.service_id, &src))
		rx_reject(a, CM_REJ_NO_SERVICE);
}

/* Until it is answered, a question that comes again is the same one. */
static struct cm_id *rx_sidr_known(const struct cm_arrival *a)
{
	for (struct cm_id *id = cm_all.list; id; id = id->next)
		if (id->fsm.state == CM_SIDR_REQ_RCVD && id->dev == a->dev &&
		    id->fsm.remote_id == a->m.local_id && memcmp(id->dgid, a->from, 16) == 0)
			return id;
	return NULL;
}

static void rx_sidr_req(const struct cm_arrival *a)
{
	struct cm_msg no = {.attr = CM_SIDR_REP,
			    .tid = a->m.tid,
			    .local_id = a->m.local_id,
			    .service_id = a->m.service_id,
			    .reason = CM_SIDR_UNSUPPORTED};
	struct cm_id *listener;
	union cm_addr src, dst;

	if (rx_sidr_known(a))
		return;
	if (!cm_addr_parse(a->m.priv, a->m.service_id, &src, &dst)) {
		no.reason = CM_SIDR_REJECTED;
		cm_answer(a->dev, a->sgid_index, a->from, &no);
		return;
	}
	listener = cm_addr_listener(a->dev, a->m.service_id, &src);
	if (listener && listener->qp_type == IB_UVERBS_QPT_UD)
		rx_request(a, listener);
	else if (listener || !cm_addr_is_taken(a->m.service_id, &src))
		cm_answer(a->dev, a->sgid_index, a->from, &no);
}

/* A DREQ of a connection that is gone is answered, or its sender would repeat it; by the process
 * whose QP it names. */
static void rx_stray(const struct cm_arrival *a)
{
	const struct cm_msg drep = {.attr = CM_DREP,
				    .tid = a->m.tid,
				    .local_id = a->m.remote_id,
				    .remote_id = a->m.local_id};

	if (a->m.attr == CM_DREQ && QPN_PORT(a->m.qpn) == a->dev->cable_port)
		cm_answer(a->dev, a->sgid_index, a->from, &drep);
}

/* An asker that gave up before it learnt our number names itself by its own, and its device. */
static struct cm_id *rx_find(const struct cm_arrival *a)
{
	const uint32_t own = a->m.attr == CM_SIDR_REP ? a->m.local_id : a->m.remote_id;
	struct cm_id *id;

	if (a->m.attr == CM_REJ && a->m.reason == CM_REJ_TIMEOUT && a->m.info_bytes)
		return rx_known(a, false);
	id = hca_tbl_get(&cm_all.ids, own ^ cm_all.operand);
	return id && id->has_cm && id->dev == a->dev ? id : NULL;
}

void cm_rx_message(const struct cm_arrival *a)
{
	const uint64_t now_ms = spw_monotonic_ms();
	struct cm_step step;
	struct cm_id *id;

	if (a->m.attr == CM_REQ) {
		rx_req(a, now_ms);
		return;
	}
	if (a->m.attr == CM_SIDR_REQ) {
		rx_sidr_req(a);
		return;
	}
	id = rx_find(a);
	if (!id) {
		rx_stray(a);
		return;
	}
	cm_fsm_rx(&id->fsm, &a->m, now_ms, &step);
	cm_id_step(id, &step, &a->m);
	if (!id->file && id->fsm.state != CM_TIMEWAIT)
		cm_id_free(id);
}
