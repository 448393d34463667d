/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Between the files of rc_conn. All of it belongs to the control thread while that runs, and to setup before and after.
 */
#ifndef SPW_PORT_RC_CONN_IMPL_H
#define SPW_PORT_RC_CONN_IMPL_H

#include <pthread.h>

#include "port/rdma/rc_conn.h"
#include "port/rdma/rc_exchange.h"
#include "port/rdma/rdma_ctl.h"

#define RC_HALF_MAX      16u /* unfinished exchanges of peers that connect to us */
#define RC_HALF_PER_ADDR 8u  /* of one address: it cannot take them all */

/* One exchange under way. */
struct rc_half {
	struct rc_exchange x;
	struct rc_link *link;     /* the peer that it is for; NULL: not known yet */
	struct sockaddr_in6 addr; /* the other end */
	bool used;
};

/* Control's side of a peer. */
struct rc_link {
	struct rc_peer *peer;
	struct rc_conn *conn;
	struct rc_half client;    /* used by peers that we connect to */
	struct rc_half *half;     /* its exchange under way, NULL if none */
	struct sockaddr_in6 addr; /* the other end */
	bool connects;            /* we connect to it */
	bool abandoned;           /* its exchange ended after the turn went to the owner */
	bool doomed;              /* lost before it was up */
	bool lost;                /* control saw it go; why is in the next two */
	enum rc_why lost_why;
	uint32_t lost_code;
	int fd;                   /* open while the peer is up, -1 else */
	uint64_t try_ms, backoff_ms;
	uint64_t down_ms;         /* when it went down; 0: it never was up */
	bool last_wqe;            /* SRQ: the QP has told of its last receive */
	uint64_t last_wqe_ms;     /* SRQ: until when to wait for the QP's last receive; 0: not waiting */
	int told;                 /* last reason told of a failed exchange, -1 none */
	struct rc_params ours;
	struct ibv_mr *pool_mr, *ring_in_mr, *ring_out_mr;
	void *ring;               /* memory of both rings */
	size_t ring_bytes;
};

/* Written by control, sampled by others. */
struct rc_count {
	uint64_t refused[RC_REFUSED_CNT];
	uint64_t peer_gone, protocol, reset, up;
};

struct rc_conn {
	struct rc_conf conf;
	struct rc_dev dev;
	struct rdma_ctl *ctl;
	uint16_t queue_cnt;
	struct rc_peer *peer;     /* [conf.peer_max] */
	struct rc_link *link;     /* [conf.peer_max] */
	int listen_fd;
	struct rc_half half[RC_HALF_MAX];
	struct rc_count count;
	pthread_mutex_t turn;     /* held by control while it does something */
};

/* rc_socket.c: TCP that does not wait. All: a descriptor, or -errno without a text. */
int rc_socket_listen(const struct sockaddr_in6 *addr);
int rc_socket_accept(int listen_fd, struct sockaddr_in6 *from_out); /* -EAGAIN: nobody there */
int rc_socket_connect(const struct sockaddr_in6 *addr);
/* Is the other end still there and silent? */
bool rc_socket_is_quiet(int fd);

/* rc_qp.c: states of the QP. 0 or -errno with a text. */
int rc_qp_init(struct rc_link *link);
int rc_qp_ready(struct rc_link *link, const struct rc_params *theirs); /* INIT to RTS */
int rc_qp_error(struct rc_link *link);
int rc_qp_reset(struct rc_link *link);

/* rc_peer.c: what the link says of itself in an exchange; a new PSN each time. */
int rc_peer_params(struct rc_link *link);
/* New keys for a new connection: those of the last one are worth nothing from now on, and one that the device no longer takes
 * is replaced. */
int rc_peer_renew(struct rc_link *link);
void rc_peer_learn(struct rc_link *link, const struct rc_params *theirs);
void rc_peer_free(struct rc_link *link);

/* rc_turn.c: the control thread's work. */
uint32_t rc_turn_prepare(void *arg, uint64_t now_ms, struct pollfd *fd, uint32_t fd_max, int *timeout_ms);
void rc_turn(void *arg, uint64_t now_ms);
void rc_turn_async(void *arg, const struct ibv_async_event *event);

/* rc_link.c: a link's states. */
void rc_link_step(struct rc_link *link, uint64_t now_ms);
void rc_link_up(struct rc_link *link, int fd, uint64_t now_ms);
/* The exchange of the link ended without success. */
void rc_link_abandon(struct rc_link *link, uint64_t now_ms);
/* Control ends it, if it is up. */
void rc_link_lose(struct rc_link *link, enum rc_why why, uint32_t code, uint64_t now_ms);
void rc_link_tell(struct rc_link *link, enum spw_port_event_kind kind, uint64_t outage_ns, const char *fmt, ...) SPW_PRINTF(4, 5);

#endif
