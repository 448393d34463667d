/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the files of lib/peer share about the connections of one port. All of it belongs to the
 * control thread while that runs, and to setup before and after.
 *
 *   turn.c      accepts, advances exchanges, steps links; called by the control thread
 *   link.c      the states of one link, control's part of the table in spw_peer.h
 *   allow.c     who may connect, with which GID, how often
 *   exchange.c  one exchange over a channel (oob/spw_oob_channel.h)
 *   message.c   its messages
 *   refused.c   why it failed
 *   peer.c      memory, keys and parameters of a peer
 *   qp.c        the states of its QP
 *   conn.c      set-up and the calls of owners
 *   loop.c      a peer connected to itself, for the litmus
 */
#ifndef SPW_PEER_CONN_H
#define SPW_PEER_CONN_H

#include <pthread.h>

#include "peer/spw_peer.h"
#include "peer/spw_peer_qp.h"
#include "peer/exchange.h"
#include "rdma/spw_rdma_ctl.h"

/* Peers that connect to us, at the door and, apart from those, in an exchange: of all, and of one
 * host (spw_oob_addr_same_host), so that one cannot take all places. */
#define PEER_HALF_MAX      16u
#define PEER_HALF_PER_ADDR 8u

/* One exchange in progress. */
struct peer_half {
	struct peer_exchange x;
	struct peer_link *link;   /* the peer that it sets up; NULL: not known yet */
	struct sockaddr_in6 addr; /* the other end */
	bool used;
};

/* How long the last-WQE event of a QP with an SRQ is waited for. */
#define PEER_LAST_WQE_MS 1000u

/* Control's view of a peer. */
struct peer_link {
	struct spw_peer *peer;
	struct spw_peer_conn *conn;
	struct peer_half client;  /* for peers that we connect to */
	struct peer_half *half;   /* its exchange in progress; NULL: none */
	struct sockaddr_in6 addr; /* the other end */
	bool connects;            /* we connect to it */
	bool abandoned;           /* its exchange ended after the turn went to the owner */
	bool doomed;              /* lost before it was up */
	bool lost;                /* control ended it; lost_why and lost_code are valid */
	enum spw_peer_why lost_why;
	uint32_t lost_code;
	int fd;             /* open while the peer is up, -1 else */
	uint64_t silent_ms; /* deadline for the first arrival over its QP; 0: something arrived */
	uint64_t try_ms, backoff_ms;
	uint64_t down_ms;     /* when it went down, of spw_monotonic_ms; 0: it was never up */
	bool last_wqe;        /* SRQ: the last-WQE event of the QP has arrived */
	uint64_t last_wqe_ms; /* SRQ: deadline for the last-WQE event; 0: not waiting */
	int reported; /* enum peer_refused of the last failed exchange that was reported; -1: none
		       */
	bool used;    /* its keys have been offered to a peer */
	bool dirty;   /* op=write: a peer could write to its slots since they were last cleared */
	size_t wiped; /* bytes cleared so far; 0: not begun */
	struct peer_params ours;
	struct ibv_mr *all_mr, *ring_in_mr, *ring_out_mr;
	void *ring; /* memory of both rings */
	size_t ring_bytes;
};

/* Written by control, sampled by others. */
struct peer_count {
	uint64_t refused[PEER_REFUSED_CNT];
	int error; /* errno of the last PEER_REFUSED_system */
	uint64_t peer_gone, protocol, reset, up;
};

struct spw_peer_conn {
	struct spw_peer_conf conf;
	struct spw_peer_dev dev;
	struct rdma_ctl *ctl;
	uint16_t queue_cnt;
	struct spw_peer *peer;     /* [conf.peer_max] */
	struct peer_link *link;    /* [conf.peer_max] */
	struct spw_oob_door *door; /* NULL: nobody may connect */
	bool deaf;                 /* the last accept(2) failed */
	struct peer_half half[PEER_HALF_MAX];
	struct peer_count count;
	pthread_mutex_t turn; /* held by control during each turn (spw_peer_conn_hold) */
};

/* ---- peer.c: memory, keys and parameters ---- */

/* Purpose: what the link's QP needs to know; theirs NULL: as far as INIT. */
struct peer_qp_path peer_link_path(const struct peer_link *link, const struct peer_params *theirs);

/* Purpose: fills link->ours for an exchange, with a fresh PSN. Errors: -EIO: no random bytes. */
int peer_link_params(struct peer_link *link);
/* Purpose: op=write: new keys for a new connection. Those that the last peer knows become invalid,
 * and one that the device has revoked is replaced. Errors: as spw_peer_conn_peer_setup. */
int peer_link_rekey(struct peer_link *link);
/* Purpose: before an exchange: new keys if the link was used, parameters, its QP to INIT. Errors:
 * as those two, or the device's. */
int peer_link_prepare(struct peer_link *link);
/* Purpose: op=write: clears the last peer's bytes from the slots, a piece in each call so that no
 * call takes long. The QP is in RESET.
 * Returns: true when all is cleared. */
bool peer_link_wipe(struct peer_link *link);
/* Purpose: copies the checked parameters of the other side to peer->remote. */
void peer_link_learn(struct peer_link *link, const struct peer_params *theirs);
void peer_link_free(struct peer_link *link);

/* ---- turn.c: the control thread's work (struct rdma_ctl_client) ---- */

uint32_t peer_turn_prepare(void *arg, uint64_t now_ms, struct pollfd *fd, uint32_t fd_max,
			   int *timeout_ms);
void peer_turn(void *arg, uint64_t now_ms);
void peer_turn_async(void *arg, const struct ibv_async_event *event);

/* ---- link.c: the states of a link ---- */

/* Purpose: advances the link as far as its state, the time and its socket allow. */
void peer_link_step(struct peer_link *link, uint64_t now_ms);
/* Purpose: the exchange succeeded; fd is its socket, the link's from now on. POSTED -> UP. */
void peer_link_up(struct peer_link *link, int fd, uint64_t now_ms);
/* Purpose: the exchange of the link failed; the next attempt waits for a backoff. */
void peer_link_abandon(struct peer_link *link, uint64_t now_ms);
/* Purpose: control ends the connection if it is up, or as soon as it is up. */
void peer_link_lose(struct peer_link *link, enum spw_peer_why why, uint32_t code, uint64_t now_ms);
/* Purpose: an event "peer N (address) ..." for the owner of the link. */
void peer_link_report(struct peer_link *link, enum spw_port_event_kind kind, uint64_t outage_ns,
		      const char *fmt, ...) SPW_PRINTF(4, 5);

#endif
