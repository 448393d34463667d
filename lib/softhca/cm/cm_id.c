/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Commands on identifiers once they have an address: route, listen, connect, accept, reject,
 * disconnect, options, and the attributes with which librdmacm modifies the QP.
 *
 * ucma.c calls these with the lock held; what they send leaves by cm.c. What to know before
 * changing it: librdmacm drives the QP. An active side gets CONNECT_RESPONSE, asks for the
 * attributes of RTR and RTS, modifies, and then accepts without parameters, which sends the RTU.
 *
 * States of an identifier (enum cm_id_state), and the commands that they allow:
 *
 *   IDLE            bind, resolve, listen; options
 *   ADDR_BOUND      resolve, listen, join; options
 *   ADDR_QUERY      none: an event ends it
 *   ADDR_RESOLVED   route, join
 *   ROUTE_RESOLVED  connect
 *   CONNECT         accept, reject, disconnect, notify, QP attributes
 *   DISCONNECT      disconnect, without effect
 *   LISTEN          none
 *
 * Any state: query, migrate, destroy.
 *
 * Source: Linux drivers/infiniband/core/cma.c (states, limits, default values), core/cm.c
 * (cm_init_qp_*_attr).
 */
#include <errno.h>
#include <string.h>

#include "base/spw_monotonic.h"
#include "softhca/cm/cm_impl.h"
#include "softhca/kernel/cmd.h"
#include "softhca/kernel/ctl.h"

#define PACKET_LIFE 16u /* CMA_IBOE_PACKET_LIFETIME */
#define ACK_DELAY   16u /* local_ca_ack_delay of query_device */
#define PKEY        0xffffu
#define HOP_LIMIT   64u
#define RETRY_MAX   7u
#define SELECT_EQ   2u
#define OPTION_MAX  31u /* of ACK_TIMEOUT: a field of 5 bits */

static uint32_t id_packet_life(const struct cm_id *id)
{
	return id->ack_timeout ? id->ack_timeout - 1u : PACKET_LIFE;
}

/* IB encodings; source: <rdma/ib_verbs.h> of Linux, enum ib_rate. */
static uint8_t path_rate(const struct hca_dev *dev)
{
	static const struct {
		uint32_t mbps;
		uint8_t rate;
	} rates[] = {{10000, 3},   {25000, 15},  {40000, 7},  {50000, 20},
		     {100000, 16}, {200000, 17}, {400000, 21}};

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(rates); i++)
		if (rates[i].mbps == hca_speed_mbps(dev))
			return rates[i].rate;
	return 3;
}

/* With a route; before that only the GIDs are known. */
void cm_id_path(const struct cm_id *id, struct ib_user_path_rec *p)
{
	const uint32_t flow = 0;

	*p = (struct ib_user_path_rec){.pkey = htons(PKEY)};
	cm_addr_gid(&id->dst, p->dgid);
	cm_addr_gid(&id->src, p->sgid);
	if (id->state < CM_ID_ROUTE_RESOLVED || id->state == CM_ID_LISTEN)
		return;
	p->flow_label = htonl(flow);
	p->reversible = 1;
	p->mtu = port_ib_mtu(id->dev->mtu_bytes);
	p->hop_limit = HOP_LIMIT;
	p->traffic_class = id->tos;
	p->numb_path = 1;
	p->mtu_selector = p->rate_selector = p->packet_life_time_selector = SELECT_EQ;
	p->rate = path_rate(id->dev);
	p->packet_life_time = (uint8_t)id_packet_life(id);
}

void cm_id_ah(const struct cm_id *id, struct ib_uverbs_ah_attr *ah)
{
	*ah = (struct ib_uverbs_ah_attr){.grh.sgid_index = id->sgid_index,
					 .grh.hop_limit = HOP_LIMIT,
					 .grh.traffic_class = id->tos,
					 .is_global = 1,
					 .port_num = 1};
	memcpy(ah->grh.dgid, id->dgid, 16);
}

static void id_event(struct cm_id *id, enum cm_event event)
{
	struct ucma_event *e = ucma_event_new(id, event, 0);

	if (e)
		(void)ucma_event_put(e);
}

/* On Ethernet a resolved address is a route. */
int cm_id_route(struct cm_id *id)
{
	if (id->state != CM_ID_ADDR_RESOLVED)
		return -EINVAL;
	id->state = CM_ID_ROUTE_RESOLVED;
	id_event(id, CM_EV_ROUTE_RESOLVED);
	return 0;
}

/* Without an address: all of them, and a port of the system's choice. */
int cm_id_listen(struct cm_id *id, uint32_t backlog)
{
	const union cm_addr any = {.sa.sa_family = AF_INET};
	int rc = id->state == CM_ID_IDLE ? cm_addr_bind(id, &any) : 0;

	if (rc)
		return rc;
	if (id->state != CM_ID_ADDR_BOUND)
		return -EINVAL;
	rc = cm_addr_listen(id);
	if (rc)
		return rc;
	id->backlog = backlog && backlog < CM_BACKLOG_MAX ? backlog : CM_BACKLOG_MAX;
	id->state = CM_ID_LISTEN;
	return 0;
}

/* What both a request and its reply say of the QP. */
static void id_param(struct cm_msg *m, const struct rdma_ucm_conn_param *p)
{
	m->responder_resources = p->responder_resources;
	m->initiator_depth = p->initiator_depth;
	m->flow_control = p->flow_control != 0;
	m->rnr_retry = SPW_MIN((uint32_t)p->rnr_retry_count, RETRY_MAX);
	m->srq = p->srq != 0;
	m->pkey = PKEY;
}

/* The longest private data depends on the kind of message; part of a request's is the header. */
static int id_private(struct cm_msg *m, uint32_t attr, const uint8_t *data, uint32_t bytes,
		      uint32_t at)
{
	if (at + bytes > cm_mad_priv_bytes(attr))
		return -EINVAL;
	if (bytes) /* else data may be NULL */
		memcpy(m->priv + at, data, bytes);
	return 0;
}

/* The path's MTU and time-outs are this side's: the peer takes them over. */
static int connect_rc(struct cm_id *id, const struct rdma_ucm_conn_param *p, struct cm_msg *m)
{
	struct cm_step step;
	int rc;

	id_param(m, p);
	m->qpn = p->qp_num;
	m->psn = id->psn;
	m->retry_cnt = SPW_MIN((uint32_t)p->retry_count, RETRY_MAX);
	m->path_mtu = port_ib_mtu(id->dev->mtu_bytes);
	m->ack_timeout = cm_ack_timeout(ACK_DELAY, id_packet_life(id));
	m->tclass = id->tos;
	m->hop_limit = HOP_LIMIT;
	m->rate = path_rate(id->dev);
	hca_node_guid(id->dev, m->guid);
	cm_addr_gid(&id->src, m->sgid);
	memcpy(m->dgid, id->dgid, 16);
	id->fsm.ack_timeout = id_packet_life(id) + 1;
	rc = cm_fsm_connect(&id->fsm, m, spw_monotonic_ms(), &step);
	if (rc)
		return rc;
	id->has_cm = true;
	id->state = CM_ID_CONNECT;
	cm_id_step(id, &step, NULL);
	return 0;
}

/* A datagram service is asked for its QP; a connection is requested. Either way an error leaves the
 * route as it was. */
int cm_id_connect(struct cm_id *id, const struct rdma_ucm_conn_param *p)
{
	const bool ud = id->qp_type == IB_UVERBS_QPT_UD;
	struct cm_msg m = {.service_id = cm_addr_service(id, &id->dst), .pkey = PKEY};
	struct cm_step step;
	int rc;

	if (id->state != CM_ID_ROUTE_RESOLVED)
		return -EINVAL;
	cm_addr_build(id, m.priv);
	rc = id_private(&m, ud ? CM_SIDR_REQ : CM_REQ, p->private_data, p->private_data_len,
			CM_ADDR_HDR_BYTES);
	if (rc)
		return rc;
	id->qpn = p->qp_num;
	if (!ud)
		return connect_rc(id, p, &m);
	rc = cm_fsm_sidr_ask(&id->fsm, &m, spw_monotonic_ms(), &step);
	if (rc)
		return rc;
	id->has_cm = true;
	id->state = CM_ID_CONNECT;
	cm_id_step(id, &step, NULL);
	return 0;
}

/* The second of the two calls that librdmacm makes of one command: without parameters it says that
 * an active side's QP is ready. */
static int accept_rc(struct cm_id *id, const struct rdma_ucm_conn_param *p, struct cm_step *step)
{
	struct cm_msg m = {.ack_delay = ACK_DELAY};
	int rc;

	if (!p)
		return cm_fsm_confirm(&id->fsm, step);
	rc = id_private(&m, CM_REP, p->private_data, p->private_data_len, 0);
	if (rc)
		return rc;
	id->qpn = p->qp_num;
	id_param(&m, p);
	m.qpn = p->qp_num;
	m.psn = id->psn;
	hca_node_guid(id->dev, m.guid);
	return cm_fsm_accept(&id->fsm, &m, spw_monotonic_ms(), step);
}

/* Yes, with the QP that serves it, or no. */
static int answer_sidr(struct cm_id *id, uint32_t status, const uint8_t *data, uint32_t bytes,
		       struct cm_step *step)
{
	struct cm_msg m = {.reason = status};
	int rc = id_private(&m, CM_SIDR_REP, data, bytes, 0);

	if (rc)
		return rc;
	if (status == CM_SIDR_SUCCESS) {
		m.qpn = id->qpn;
		m.qkey = id->qkey;
	}
	return cm_fsm_sidr_answer(&id->fsm, &m, step);
}

/* What cannot be accepted is rejected, and the caller gets the error. */
int cm_id_accept(struct cm_id *id, const struct rdma_ucm_conn_param *p)
{
	struct cm_step step;
	int rc;

	if (id->state != CM_ID_CONNECT)
		return -EINVAL;
	if (id->qp_type != IB_UVERBS_QPT_UD) {
		rc = accept_rc(id, p, &step);
	} else {
		id->qpn = p ? p->qp_num : id->qpn;
		rc = answer_sidr(id, CM_SIDR_SUCCESS, p ? p->private_data : NULL,
				 p ? p->private_data_len : 0, &step);
	}
	if (rc) {
		if (!cm_fsm_reject(&id->fsm, CM_REJ_CONSUMER, NULL, spw_monotonic_ms(), &step))
			cm_id_step(id, &step, NULL);
		return rc;
	}
	cm_id_step(id, &step, NULL);
	return 0;
}

/* Linux lets programs choose between two reasons only. */
int cm_id_reject(struct cm_id *id, const struct rdma_ucm_reject *r)
{
	const uint32_t reason = r->reason ? r->reason : CM_REJ_CONSUMER;
	struct cm_msg m = {0};
	struct cm_step step;
	int rc;

	if (reason != CM_REJ_CONSUMER && reason != CM_REJ_VENDOR_OPTION)
		return -EINVAL;
	if (!id->has_cm)
		return -EINVAL;
	if (id->qp_type == IB_UVERBS_QPT_UD) {
		rc = answer_sidr(id, CM_SIDR_REJECTED, r->private_data, r->private_data_len, &step);
	} else {
		rc = id_private(&m, CM_REJ, r->private_data, r->private_data_len, 0);
		if (!rc)
			rc = cm_fsm_reject(&id->fsm, reason, m.priv, spw_monotonic_ms(), &step);
	}
	if (!rc)
		cm_id_step(id, &step, NULL);
	return rc;
}

/* A connection that has ended already is no error. */
int cm_id_disconnect(struct cm_id *id)
{
	struct cm_step step;

	if (!id->has_cm)
		return -EINVAL;
	if (!cm_fsm_disconnect(&id->fsm, spw_monotonic_ms(), &step))
		cm_id_step(id, &step, NULL);
	return 0;
}

int cm_id_notify(struct cm_id *id, uint32_t event)
{
	struct cm_step step;
	int rc;

	if (!id->has_cm || event != HCA_EVENT_COMM_EST)
		return -EINVAL;
	rc = cm_fsm_comm_est(&id->fsm, &step);
	if (!rc)
		cm_id_step(id, &step, NULL);
	return rc;
}

/* ---- QP attributes ---- */

/* Before there is a connection, and of every UD QP: the same for each state, as Linux has it
 * (cma_ib_init_qp_attr). */
static int attr_unconnected(const struct cm_id *id, struct ib_uverbs_qp_attr *a)
{
	a->port_num = 1;
	a->qp_attr_mask = QPA_STATE | QPA_PKEY | QPA_PORT;
	if (id->qp_type == IB_UVERBS_QPT_UD) {
		a->qkey = id->qkey;
		a->qp_attr_mask |= QPA_QKEY;
	} else {
		a->qp_attr_mask |= QPA_ACCESS;
	}
	return 0;
}

/* Rights follow from what was negotiated: no READs without resources for them. */
static void attr_init(const struct cm_fsm *f, struct ib_uverbs_qp_attr *a)
{
	a->port_num = 1;
	a->qp_access_flags = IB_UVERBS_ACCESS_REMOTE_WRITE;
	if (f->responder_resources)
		a->qp_access_flags |= IB_UVERBS_ACCESS_REMOTE_READ | IB_UVERBS_ACCESS_REMOTE_ATOMIC;
	a->qp_attr_mask = QPA_STATE | QPA_ACCESS | QPA_PKEY | QPA_PORT;
}

/* The peer's QP, by the path of the request: MTU and GIDs are the active side's. */
static void attr_rtr(const struct cm_id *id, struct ib_uverbs_qp_attr *a)
{
	const struct cm_fsm *f = &id->fsm;

	cm_id_ah(id, &a->ah_attr);
	a->path_mtu = f->path_mtu;
	a->dest_qp_num = f->remote_qpn;
	a->rq_psn = id->psn;
	a->qp_attr_mask = QPA_STATE | QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN;
	if (id->qp_type != IB_UVERBS_QPT_RC)
		return;
	a->max_dest_rd_atomic = (uint8_t)f->responder_resources;
	a->qp_attr_mask |= QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER;
}

static void attr_rts(const struct cm_id *id, struct ib_uverbs_qp_attr *a)
{
	const struct cm_fsm *f = &id->fsm;

	a->sq_psn = f->sq_psn;
	a->qp_attr_mask = QPA_STATE | QPA_SQ_PSN;
	if (id->qp_type != IB_UVERBS_QPT_RC)
		return;
	a->timeout = (uint8_t)f->ack_timeout;
	a->retry_cnt = (uint8_t)f->retry_cnt;
	a->rnr_retry = (uint8_t)f->rnr_retry;
	a->max_rd_atomic = (uint8_t)f->initiator_depth;
	a->qp_attr_mask |= QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_MAX_RD_ATOMIC;
}

/* A responder's QP is made ready before it accepts. */
int cm_id_qp_attr(struct cm_id *id, uint32_t state, struct ib_uverbs_qp_attr *a)
{
	const struct cm_fsm *f = &id->fsm;
	const bool answered = f->state >= CM_REQ_RCVD && f->state <= CM_ESTABLISHED &&
			      f->state != CM_MRA_REQ_RCVD;

	*a = (struct ib_uverbs_qp_attr){.qp_state = state};
	if (!id->dev || state > HCA_QPS_ERR)
		return -EINVAL;
	if (!id->has_cm || id->qp_type == IB_UVERBS_QPT_UD)
		return attr_unconnected(id, a);
	if (state == HCA_QPS_INIT && f->state >= CM_REQ_SENT && f->state <= CM_ESTABLISHED)
		attr_init(f, a);
	else if (state == HCA_QPS_RTR && answered)
		attr_rtr(id, a);
	else if (state == HCA_QPS_RTS && answered)
		attr_rts(id, a);
	else
		return -EINVAL;
	return 0;
}

/* ---- options ---- */

/* How a port is shared is decided before it is used. */
static int option_flag(struct cm_id *id, bool *flag, const void *value, uint32_t bytes)
{
	int v;

	if (bytes != sizeof(v))
		return -EINVAL;
	if (id->state != CM_ID_IDLE && id->state != CM_ID_ADDR_BOUND)
		return -EINVAL;
	memcpy(&v, value, sizeof(v));
	*flag = v != 0;
	return 0;
}

int cm_id_option(struct cm_id *id, uint32_t level, uint32_t name, const void *value, uint32_t bytes)
{
	uint8_t byte;

	if (level != RDMA_OPTION_ID)
		return -ENOSYS; /* paths are those of Ethernet */
	if (name == RDMA_OPTION_ID_REUSEADDR)
		return option_flag(id, &id->reuse, value, bytes);
	if (name == RDMA_OPTION_ID_AFONLY)
		return option_flag(id, &id->afonly, value, bytes);
	if (name != RDMA_OPTION_ID_TOS && name != RDMA_OPTION_ID_ACK_TIMEOUT)
		return -ENOSYS;
	if (bytes != sizeof(byte))
		return -EINVAL;
	memcpy(&byte, value, sizeof(byte));
	if (name == RDMA_OPTION_ID_TOS) {
		id->tos = byte;
		return 0;
	}
	if (id->qp_type == IB_UVERBS_QPT_UD || byte > OPTION_MAX)
		return -EINVAL;
	id->ack_timeout = byte;
	return 0;
}
