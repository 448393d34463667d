/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The states of one connection of the communication manager: what a command, a message or the time
 * makes of it. No I/O, no clock and no lock: the caller passes the time, sends what comes out, and
 * holds the lock of cm.c.
 * Source: InfiniBand Architecture Specification 1.3, 12.9 (states, figures 134 and 135); what a
 * state answers, times and numbers of resends: Linux drivers/infiniband/core/cm.c.
 */
#ifndef SPW_SOFTHCA_CM_FSM_H
#define SPW_SOFTHCA_CM_FSM_H

#include "softhca/cm/cm_mad.h"

#define CM_NEVER UINT64_MAX

/* The values of enum rdma_cm_event_type of librdmacm. */
enum cm_event {
	CM_EV_ADDR_RESOLVED,
	CM_EV_ADDR_ERROR,
	CM_EV_ROUTE_RESOLVED,
	CM_EV_ROUTE_ERROR,
	CM_EV_CONNECT_REQUEST,
	CM_EV_CONNECT_RESPONSE,
	CM_EV_CONNECT_ERROR,
	CM_EV_UNREACHABLE,
	CM_EV_REJECTED,
	CM_EV_ESTABLISHED,
	CM_EV_DISCONNECTED,
	CM_EV_DEVICE_REMOVAL,
	CM_EV_MULTICAST_JOIN,
	CM_EV_MULTICAST_ERROR,
	CM_EV_ADDR_CHANGE,
	CM_EV_TIMEWAIT_EXIT,
	CM_EV_NONE
};

enum cm_state {
	CM_IDLE,
	CM_REQ_SENT,
	CM_REQ_RCVD, /* a repeated REQ will be answered by an MRA */
	CM_MRA_REQ_RCVD,
	CM_REP_SENT,
	CM_REP_RCVD,
	CM_MRA_REP_RCVD,
	CM_ESTABLISHED,
	CM_DREQ_SENT,
	CM_DREQ_RCVD,
	CM_TIMEWAIT,
	CM_SIDR_REQ_SENT,
	CM_SIDR_REQ_RCVD
};

struct cm_fsm {
	enum cm_state state;
	uint32_t local_id, remote_id;
	uint64_t tid, service_id;
	uint8_t remote_guid[8];
	uint32_t local_qpn, remote_qpn;
	uint32_t rq_psn, sq_psn;
	uint32_t responder_resources, initiator_depth, retry_cnt, rnr_retry, path_mtu;
	uint32_t ack_timeout;             /* of the QP: 4.096 us << n */
	uint32_t timeout_ms, max_retries; /* of messages */
	uint32_t retries_left;
	uint64_t due_ms;   /* the next resend, or the end of TIMEWAIT; CM_NEVER: none */
	struct cm_msg out; /* the last message that may have to be sent again */
};

/* What came of one input. */
struct cm_step {
	bool sends; /* msg */
	struct cm_msg msg;
	enum cm_event event; /* CM_EV_NONE: none */
	int32_t status;      /* of the event: -errno, or a reason of REJ or SIDR_REP */
};

/* ---- commands: 0 or -EINVAL; what the caller passes of msg is what its kind has and this header
 * does not (service_id, qpn, psn, path, private data) ---- */

int cm_fsm_connect(struct cm_fsm *f, const struct cm_msg *req, uint64_t now_ms,
		   struct cm_step *step);
int cm_fsm_accept(struct cm_fsm *f, const struct cm_msg *rep, uint64_t now_ms,
		  struct cm_step *step);
/* After a REP: the QP is ready, an RTU goes out. */
int cm_fsm_confirm(struct cm_fsm *f, struct cm_step *step);
/* priv: CM_PRIV_BYTES or NULL. */
int cm_fsm_reject(struct cm_fsm *f, uint32_t reason, const uint8_t *priv, uint64_t now_ms,
		  struct cm_step *step);
int cm_fsm_disconnect(struct cm_fsm *f, uint64_t now_ms, struct cm_step *step);
int cm_fsm_sidr_ask(struct cm_fsm *f, const struct cm_msg *req, uint64_t now_ms,
		    struct cm_step *step);
int cm_fsm_sidr_answer(struct cm_fsm *f, const struct cm_msg *rep, struct cm_step *step);
/* The QP received a message before the RTU. Errors: -EISCONN, -EINVAL. */
int cm_fsm_comm_est(struct cm_fsm *f, struct cm_step *step);
/* The owner goes: the peer gets one last message, and nothing is sent again. Afterwards the state
 * is CM_IDLE, or CM_TIMEWAIT until cm_fsm_tick ends it. */
void cm_fsm_close(struct cm_fsm *f, uint64_t now_ms, struct cm_step *step);

/* ---- messages and time ---- */

/* Purpose: the first message of a passive side. f is new, with its local_id. */
void cm_fsm_accept_req(struct cm_fsm *f, const struct cm_msg *req);
/* Purpose: any other message whose remote_id is f's local_id, or a REQ of f's peer again. */
void cm_fsm_rx(struct cm_fsm *f, const struct cm_msg *m, uint64_t now_ms, struct cm_step *step);
/* Purpose: what is due at now_ms. */
void cm_fsm_tick(struct cm_fsm *f, uint64_t now_ms, struct cm_step *step);

/* Returns: the ACK timeout of a path; source: cm.c, cm_ack_timeout. Pure. */
uint32_t cm_ack_timeout(uint32_t ack_delay, uint32_t packet_life);

#endif
