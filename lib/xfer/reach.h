/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/xfer: how a peer is reached: over TCP by one of its addresses (dial.c, local.c),
 * over RDMA by the MAC that the kernel finds (resolve.c). Thread of all functions: the endpoint's
 * owner.
 */
#ifndef SPW_XFER_REACH_H
#define SPW_XFER_REACH_H

#include <ifaddrs.h>
#include <netinet/in.h>
#include <pthread.h>

#include "base/spw_types.h"
#include "peer/spw_peer_qp.h"
#include "xfer/list.h"

struct spw_xfer;
struct spw_xfer_conn;
struct xfer_dial;
struct xfer_rail;

/* ---- dial.c ---- */

/* Orders the addresses of conn->peer, and begins with the first. */
void xfer_dial_start(struct spw_xfer_conn *conn, uint64_t now_ms);
/* Returns: a socket that is connected; -EAGAIN: none yet; -errno without a text: none will. */
int xfer_dial_turn(struct spw_xfer_conn *conn, uint64_t now_ms);
void xfer_dial_end(struct xfer_dial *dial);

/* ---- local.c ---- */

/* An address of getifaddrs(3), IPv4 mapped, and its prefix of 128 bits. Returns: false: it is none
 * of IP. */
bool xfer_interface_read(const struct ifaddrs *i, struct in6_addr *ip_out, uint32_t *prefix_out);
/* Returns: bits of the prefix of the interface that has this address; 0: none has it. */
uint32_t xfer_local_prefix(const uint8_t gid[16]);
/* Returns: whether an interface has a subnet with this address. */
bool xfer_local_reaches(const struct in6_addr *ip);

/* ---- resolve.c ---- */

/* RTR of a QP, in a thread of its own (resolve.c). */
struct xfer_resolve {
	struct xfer_list link; /* abandoned: of the endpoint */
	pthread_t thread;
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct peer_qp_path path;
	int error; /* the thread's, until done */
	char why[128];
	uint32_t done;
};

/* Begins to move rail->qp to RTR. Errors: -EAGAIN no thread. */
int xfer_resolve_start(struct xfer_rail *rail, const struct peer_qp_path *path);
/* Returns: 0: it is in RTR, and the rail's again; -EINPROGRESS; -errno with a text. */
int xfer_resolve_result(struct xfer_rail *rail);
/* The rail does not want it any more: its QP is destroyed once the thread has ended. */
void xfer_resolve_abandon(struct xfer_rail *rail);
/* Destroys what was abandoned and is done; all: waits for it, a second at most. */
void xfer_resolve_reap(struct spw_xfer *x, bool all);

#endif
