/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The commands of rdma_cm, one function each. ucma.c has copied the structure in, and copies
 * out_bytes of the answer out; the lock is held. Returns: 0 or -errno.
 */
#ifndef SPW_SOFTHCA_CM_UCMA_IMPL_H
#define SPW_SOFTHCA_CM_UCMA_IMPL_H

#include "softhca/cm/cm_impl.h"

#define VALUE_BYTES 8u /* of the options that exist */

struct ucma_call {
	struct ucma_file *file, *other; /* other: MIGRATE_ID's */
	uint32_t out_room;
	uint32_t out_bytes; /* by the command */
	union {
		struct rdma_ucm_create_id create;
		struct rdma_ucm_destroy_id destroy;
		struct rdma_ucm_bind_ip bind_ip;
		struct rdma_ucm_bind bind;
		struct rdma_ucm_resolve_ip resolve_ip;
		struct rdma_ucm_resolve_addr resolve_addr;
		struct rdma_ucm_resolve_route route;
		struct rdma_ucm_query query;
		struct rdma_ucm_connect connect;
		struct rdma_ucm_listen listen;
		struct rdma_ucm_accept accept;
		struct rdma_ucm_reject reject;
		struct rdma_ucm_disconnect disconnect;
		struct rdma_ucm_init_qp_attr qp_attr;
		struct rdma_ucm_get_event event;
		struct rdma_ucm_set_option option;
		struct rdma_ucm_notify notify;
		struct rdma_ucm_join_ip_mcast join_ip;
		struct rdma_ucm_join_mcast join;
		struct rdma_ucm_migrate_id migrate;
	} in;
	uint8_t value[VALUE_BYTES]; /* SET_OPTION's */
	union {
		struct rdma_ucm_create_id_resp id;
		struct rdma_ucm_destroy_id_resp destroy;
		struct rdma_ucm_query_route_resp route;
		struct rdma_ucm_query_addr_resp addr;
		struct ib_uverbs_qp_attr qp_attr;
		struct rdma_ucm_migrate_resp migrate;
		struct rdma_ucm_event_resp event;
	} out;
};

int ucma_create(struct ucma_call *c);
int ucma_destroy(struct ucma_call *c);
int ucma_migrate(struct ucma_call *c);
int ucma_bind_ip(struct ucma_call *c);
int ucma_bind(struct ucma_call *c);
int ucma_resolve_ip(struct ucma_call *c);
int ucma_resolve_addr(struct ucma_call *c);
int ucma_resolve_route(struct ucma_call *c);
int ucma_query_route(struct ucma_call *c);
int ucma_query(struct ucma_call *c);
int ucma_connect(struct ucma_call *c);
int ucma_listen(struct ucma_call *c);
int ucma_accept(struct ucma_call *c);
int ucma_reject(struct ucma_call *c);
int ucma_disconnect(struct ucma_call *c);
int ucma_init_qp_attr(struct ucma_call *c);
int ucma_set_option(struct ucma_call *c);
int ucma_notify(struct ucma_call *c);
int ucma_join_ip(struct ucma_call *c);
int ucma_join(struct ucma_call *c);
int ucma_leave(struct ucma_call *c);

/* Destroys an identifier with its groups and unread events. */
void ucma_drop(struct cm_id *id);

#endif
