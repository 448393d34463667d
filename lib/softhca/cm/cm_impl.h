/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the files of this folder share: identifiers, files, events, and the one lock of all of them.
 *
 *   ucma.c        decodes commands, answers          ucma_cmd.c   one function for each command
 *   ucma_event.c  files, events, GET_EVENT           cm_addr.c    bind, ports, resolve, multicast
 *   cm_id.c       identifiers: connect to disconnect
 *   cm.c          the lock, tables, what leaves, time
 *   cm_rx.c       messages that arrive
 *   cm_res.c      identifiers as netlink lists them
 *   cm_fsm.c      the states of a connection       cm_mad.c       the wire format
 *
 * Everything here: with the manager's lock held, unless it says otherwise. Commands hold it with
 * all signals blocked, so that no handler interrupts a thread that has it (exit() in a handler
 * would wait for itself).
 */
#ifndef SPW_SOFTHCA_CM_CM_IMPL_H
#define SPW_SOFTHCA_CM_CM_IMPL_H

#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
#include <signal.h>

#include "softhca/cm/cm.h"
#include "softhca/cm/cm_fsm.h"
#include "softhca/cm/ucma.h"
#include "softhca/kernel/events.h"
#include "softhca/kernel/nldev/nl_row.h"
#include "softhca/nic/nic.h"

union cm_addr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* As enum rdma_cm_state of Linux. */
enum cm_id_state {
	CM_ID_IDLE,
	CM_ID_ADDR_BOUND,
	CM_ID_ADDR_QUERY,
	CM_ID_ADDR_RESOLVED,
	CM_ID_ROUTE_RESOLVED,
	CM_ID_CONNECT,
	CM_ID_DISCONNECT,
	CM_ID_LISTEN
};

struct cm_id {
	struct cm_id *next;
	struct ucma_file *file; /* NULL: destroyed, and its connection is still in TIMEWAIT */
	uint32_t handle;
	uint64_t uid;      /* 0: a request that has not been accepted: it has no events */
	uint32_t reported; /* events that GET_EVENT returned for it */
	uint32_t backlog;  /* requests that may still be queued */
	enum cm_id_state state;
	uint32_t ps;
	uint8_t qp_type; /* IB_UVERBS_QPT_* */
	union cm_addr src, dst;
	struct hca_dev *dev; /* NULL: not bound to one */
	uint8_t sgid_index, dgid[16];
	uint64_t resolve_due_ms;
	bool reuse, afonly, has_cm, removed;
	bool unfetched;           /* of a request whose event is queued: commands do not find it */
	uint8_t tos, ack_timeout; /* ack_timeout 0: not set */
	uint32_t qpn, psn, qkey;
	int claim1; /* descriptor + 1 by which the machine's other processes know of a listener */
	struct cm_fsm fsm;
};

/* A group that an identifier joined. */
struct cm_mcast {
	struct cm_mcast *next;
	struct cm_id *id;
	uint32_t handle, reported;
	uint64_t uid;
	union cm_addr addr;
};

struct ucma_event {
	struct ucma_event *next;
	struct cm_id *id;       /* whose it is, and in whose file */
	struct cm_id *conn;     /* of a request: the new identifier */
	struct cm_mcast *mcast; /* or NULL */
	struct rdma_ucm_event_resp resp;
};

struct ucma_file {
	struct hca_evq q; /* one byte an event: the descriptor polls */
	struct ucma_event *events, **tail;
	uint32_t event_cnt;
};

/* ---- cm.c ---- */

#define CM_ID_LOG2     16u
#define CM_BACKLOG_MAX 1024u /* Linux net.rdma_ucm.max_backlog */

struct cm_all {
	struct hca_dev *devs;
	uint32_t dev_cnt;
	struct hca_tbl ids, mcasts; /* by handle */
	struct cm_id *list;
	struct cm_mcast *groups;
	uint32_t operand; /* local_id ^ operand is a handle: processes of a machine differ */
	uint64_t tid;
};
extern struct cm_all cm_all;

/* Not held before: takes the lock, with all signals blocked. */
void cm_enter(sigset_t *old_out);
void cm_exit(const sigset_t *old);

/* Returns: NULL: no memory, or CM_ID_LOG2 of them. */
struct cm_id *cm_id_new(struct ucma_file *file, uint64_t uid, uint32_t ps, uint8_t qp_type);
/* Its connection ends with a last message; the memory goes when TIMEWAIT is over. */
void cm_id_drop(struct cm_id *id);
/* Errors: -ENOENT, -EINVAL (of another file), -EIO (its device has left). */
int cm_id_find(struct ucma_file *file, uint32_t handle, struct cm_id **id_out);
/* Sends what a step yields; event and msg (or NULL) go to the identifier's file. */
void cm_id_step(struct cm_id *id, const struct cm_step *step, const struct cm_msg *msg);
void cm_id_send(struct cm_id *id, const struct cm_msg *msg);

/* What a REQ, REP or REJ says, for an event; skip: bytes of its private data that are not the
 * program's. */
void cm_event_conn(struct rdma_ucm_conn_param *p, const struct cm_msg *m, uint32_t skip);

/* An answer to a message that has no connection here. */
void cm_answer(struct hca_dev *dev, uint8_t sgid_index, const uint8_t dgid[16],
	       const struct cm_msg *msg);
/* Without a word to its peer. */
void cm_id_free(struct cm_id *id);

/* ---- cm_rx.c ---- */

/* One datagram with what is known of its way. */
struct cm_arrival {
	struct hca_dev *dev;
	const uint8_t *from;
	uint8_t sgid_index;
	struct cm_msg m;
};
void cm_rx_message(const struct cm_arrival *a);

/* ---- cm_id.c ---- */

int cm_id_listen(struct cm_id *id, uint32_t backlog);
int cm_id_route(struct cm_id *id);
int cm_id_connect(struct cm_id *id, const struct rdma_ucm_conn_param *param);
/* param NULL: after a response. */
int cm_id_accept(struct cm_id *id, const struct rdma_ucm_conn_param *param);
int cm_id_reject(struct cm_id *id, const struct rdma_ucm_reject *req);
int cm_id_disconnect(struct cm_id *id);
int cm_id_notify(struct cm_id *id, uint32_t event);
int cm_id_qp_attr(struct cm_id *id, uint32_t state, struct ib_uverbs_qp_attr *attr_out);
int cm_id_option(struct cm_id *id, uint32_t level, uint32_t name, const void *value,
		 uint32_t bytes);
void cm_id_path(const struct cm_id *id, struct ib_user_path_rec *path_out);
void cm_id_ah(const struct cm_id *id, struct ib_uverbs_ah_attr *ah_out);

/* ---- cm_addr.c ---- */

/* Returns: 16, 28, 48 (AF_IB); 0: another family. */
uint32_t cm_addr_bytes(uint32_t family);
bool cm_addr_is_any(const union cm_addr *a);
in_port_t *cm_addr_port(union cm_addr *a);
int cm_addr_bind(struct cm_id *id, const union cm_addr *src);
/* For rdma_listen: the port may not be shared from now on, with other processes of the machine
 * neither. */
int cm_addr_listen(struct cm_id *id);
/* src NULL: any. Errors are of the arguments; all else is an event. */
int cm_addr_resolve(struct cm_id *id, const union cm_addr *src, const union cm_addr *dst,
		    uint32_t timeout_ms);
/* The identifier waits for a neighbour: asks again, with the device lock held. */
void cm_addr_retry(struct cm_id *id, uint64_t now_ms);
/* Returns: the listener of a service on the device, for packets to `to`; NULL: none. */
struct cm_id *cm_addr_listener(const struct hca_dev *dev, uint64_t service_id,
			       const union cm_addr *to);
/* Returns: does another process of this machine listen? Processes of a machine share its MAC and
 * its datagrams, and the one that listens answers. */
bool cm_addr_is_taken(uint64_t service_id, const union cm_addr *to);
/* Purpose: addresses of a request from its private data. Returns: false: it has none. */
bool cm_addr_parse(const uint8_t *priv, uint64_t service_id, union cm_addr *src_out,
		   union cm_addr *dst_out);
#define CM_ADDR_HDR_BYTES 36u
void cm_addr_build(struct cm_id *id, uint8_t *priv);
uint64_t cm_addr_service(struct cm_id *id, union cm_addr *a);
void cm_addr_gid(const union cm_addr *a, uint8_t gid_out[16]);
int cm_addr_join(struct cm_id *id, const union cm_addr *group, uint64_t uid,
		 struct cm_mcast **mcast_out);
void cm_addr_leave(struct cm_mcast *m);

/* ---- cm_res.c ---- */

/* Not held: takes the lock. */
void cm_res_rows(struct nl_rows *rows);

/* ---- ucma_event.c ---- */

/* Returns: false: no memory, or not wanted (the backlog is full): the event does not exist. */
bool ucma_event_put(struct ucma_event *e);
struct ucma_event *ucma_event_new(struct cm_id *id, enum cm_event type, int32_t status);
/* Drops events that match; a request's new identifier is dropped with it. */
void ucma_event_purge(struct ucma_file *file, const struct cm_id *id, const struct cm_mcast *m);
void ucma_event_move(struct cm_id *id, struct ucma_file *to);
/* Not held: waits. Returns: 0 with the lock held and *event_out taken out; -errno without. */
int ucma_event_get(struct ucma_file *file, sigset_t *old_out, struct ucma_event **event_out);
int ucma_file_open(struct ucma_file **file_out);
void ucma_file_close(struct ucma_file *file);

#endif
