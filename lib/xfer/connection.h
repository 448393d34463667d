/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/xfer: a connection, and the calls between the files that share its work.
 *
 *   endpoint.c  open, close             mem.c   registration     conn.c  frames, deadlines, the end
 *   message.c   send, recv, test        window.c  windows        access.c  put, get, lists
 *   rail.c      a QP: made, put out of service, made again       fail.c  a rail failed
 *   verbs.c, direct.c   post and poll, in plain and in direct verbs
 *   engine.c    posts chunks and ends   share.c   which rail gets how much
 *   take.c      completions             flag.c    flags of puts  flush.c   stat.c
 *
 *   setup/: how a connection begins
 *   find.c      rails of this machine   local.c   its subnets    filter.c  NCCL_IB_HCA
 *   listen.c    listen, accept          dial.c    connect by one of several addresses
 *   link.c      frames over a channel   exchange.c  the first ones
 *   pair.c      which devices make a rail   round.c   and when another pair is tried
 *   resolve.c   RTR of a QP, in a thread of its own
 *
 * Thread of all functions: the endpoint's owner. resolve.c starts threads that touch nothing else.
 */
#ifndef SPW_XFER_CONNECTION_H
#define SPW_XFER_CONNECTION_H

#include "xfer/flag.h"
#include "xfer/link.h"
#include "xfer/list.h"
#include "xfer/message.h"
#include "xfer/pair.h"

/* Memory that the peer's NIC writes, and that ours reads. */
struct xfer_box {
	struct xfer_grant in[XFER_SLOT_CNT];  /* the peer's grants */
	spw_be64 size[XFER_SLOT_CNT];         /* lengths of messages to us */
	struct xfer_grant out[XFER_SLOT_CNT]; /* our grants: written from here */
	/* What our atomics found, by place in the send queue. */
	uint64_t found[SPW_XFER_RAIL_MAX][XFER_SQ_CNT];
};
#define XFER_BOX_IN_BYTES  offsetof(struct xfer_box, out)
#define XFER_BOX_OUT_BYTES (sizeof(struct xfer_box) - XFER_BOX_IN_BYTES)

struct spw_xfer_window {
	struct spw_xfer_conn *conn;
	bool known, is_host;
	uint64_t addr, bytes;
	uint32_t rkey[SPW_XFER_RAIL_MAX];
	uint32_t user_cnt;     /* lists */
	struct xfer_list link; /* imported: of the connection */
};

/* A region that we expose. */
struct xfer_exposed {
	struct spw_xfer_mem *mem;
	struct ibv_mr *mr[SPW_XFER_RAIL_MAX]; /* by device */
};

/*   client:  TCP ─► GREET ─► ANSWER ─┐
 *   server:                  OFFER ──┴─► RAILS ─► READY ─► (given to the caller) ─► FAILED */
enum xfer_conn_state {
	XFER_CONN_TCP,
	XFER_CONN_GREET,
	XFER_CONN_ANSWER,
	XFER_CONN_OFFER,
	XFER_CONN_RAILS,
	XFER_CONN_READY,
	XFER_CONN_FAILED,
};

/* A client's TCP connections that are being made; the first that stands becomes the link's. */
struct xfer_dial {
	int fd[XFER_ADDRESS_MAX];
	uint32_t cnt;  /* begun so far, in the order of addresses */
	uint32_t open; /* of them, those that neither failed nor stand */
	uint64_t next_ms;
	int error; /* the first */
};

struct spw_xfer_conn {
	/* hot */
	struct spw_xfer *x;
	struct xfer_rail *rail[SPW_XFER_RAIL_MAX];
	uint32_t rail_cnt;
	uint8_t up;  /* rails that are UP */
	bool work;   /* the engine may have something to post */
	bool repair; /* a rail failed, and what it left is not posted again yet */
	enum xfer_conn_state state;
	int error;
	struct xfer_queue pending; /* sends without a grant */
	struct xfer_queue active;  /* messages whose chunks are being posted */
	uint32_t grant_next;       /* the peer's: first that is not accepted */
	uint32_t match_lo;         /* oldest that may have no message */
	uint32_t rx_next;          /* our next sequence number */
	uint32_t rx_posted;        /* first of ours that was not written to the peer */
	uint32_t tx_generation, rx_generation;
	/* Rails that have failed since a generation began: ends of it that name one do not count.
	 * By the lowest bits of the generation, as immediates have them. */
	uint8_t rx_lost[XFER_GENERATIONS];
	uint64_t refin, regrant; /* slots whose end, or grant, must be written again */
	uint32_t waiting;        /* rails that the peer has not said to be down */
	struct xfer_tx_slot tx[XFER_SLOT_CNT];
	struct xfer_rx_slot rx[XFER_SLOT_CNT];
	struct xfer_msg send[SPW_XFER_REQ_MAX], access[SPW_XFER_REQ_MAX];
	uint32_t send_cnt, access_cnt;
	struct spw_xfer_req *free_req;
	struct spw_xfer_req req[4 * SPW_XFER_REQ_MAX];
	struct xfer_orphan orphan[XFER_ORPHAN_MAX];
	uint32_t orphan_ci, orphan_pi;
	/* windows */
	struct spw_xfer_window window[SPW_XFER_WINDOW_MAX];
	struct xfer_place place[1u << XFER_PLACE_LOG2]; /* by a hash of raddr */
	struct xfer_exposed exposed[SPW_XFER_WINDOW_MAX];
	uint32_t exposed_cnt;
	struct xfer_list imported;
	/* set up */
	struct xfer_list link_all; /* of the endpoint */
	struct xfer_box *box;
	struct ibv_mr *box_in[SPW_XFER_RAIL_MAX], *box_out[SPW_XFER_RAIL_MAX]; /* by device */
	uint64_t their_box;
	uint8_t their_export_key[XFER_KEY_BYTES];
	struct xfer_link link;
	bool is_client, given; /* given: the caller has it */
	bool ended;            /* TCP has ended; one more turn takes what has arrived */
	struct spw_xfer_listener *listener; /* server, until given */
	struct xfer_address peer;
	struct xfer_dial dial;
	struct xfer_pairs pairs;
	bool rechoose;                 /* client: rails want another pair */
	uint64_t deadline_ms, gone_ms; /* of xfer.clock_ms */
	uint64_t linger_ms;            /* since TCP has ended: until when; 0: it has not */
	char text[1024];               /* an address and the reasons of all rails */
};

/* ---- conn.c ---- */

/* Owner: a channel, which has begun, and its descriptor become its own with 0. Shape: ch NULL: it
 * has none yet (dial.c). Errors: -ENOMEM; of epoll_ctl(2); with a text. */
int xfer_conn_make(struct spw_xfer *x, const struct spw_oob_channel *ch, bool is_client,
		   struct spw_xfer_conn **conn_out);
/* Server: the frame with which its client came in. */
void xfer_conn_first(struct spw_xfer_conn *conn, const uint8_t *bytes, size_t len, uint64_t now_ms);
/* Reads frames and acts on them, if some socket of the endpoint has something to read (heard);
 * watches deadlines. */
void xfer_conn_turn(struct spw_xfer_conn *conn, uint64_t now_ms, bool heard);
/* Ends it: rails are destroyed, all requests fail. Idempotent; `error` > 0. */
void xfer_conn_fail(struct spw_xfer_conn *conn, int error, const char *fmt, ...) SPW_PRINTF(3, 4);
/* The peer broke the protocol. */
void xfer_conn_breach(struct spw_xfer_conn *conn, const char *what);
/* Whether it is decided which rails there are: every one is UP or failed. */
void xfer_conn_check_ready(struct spw_xfer_conn *conn, uint64_t now_ms);
void xfer_conn_free(struct spw_xfer_conn *conn);
/* Sends a frame. A peer that reads nothing ends the connection; that it closed shows in the next
 * turn, after what had arrived before. */
void xfer_conn_send(struct spw_xfer_conn *conn, const struct xfer_frame *frame);
int xfer_conn_usable(const struct spw_xfer_conn *conn);

/* ---- exchange.c ---- */

/* Client: both nonces are known. */
void xfer_exchange_start(struct spw_xfer_conn *conn);
/* Returns: false: the frame has no place here. */
bool xfer_exchange_take(struct spw_xfer_conn *conn, const struct xfer_frame *f, uint64_t now_ms);

/* ---- fail.c ---- */

/* The receiver's state in a DOWN frame. */
void xfer_conn_learn(struct spw_xfer_conn *conn, const struct xfer_frame *frame);

/* ---- engine.c ---- */

/* Posts what there is to post, and rings the doorbells. */
void xfer_engine_pump(struct spw_xfer_conn *conn);
/* Accepts grants that arrived, in order, and gives them to sends that wait. */
void xfer_engine_match(struct spw_xfer_conn *conn);
/* Whether each of these rails has room for cnt WQEs. */
bool xfer_rails_have_room(const struct spw_xfer_conn *conn, uint8_t rails, uint32_t cnt);
/* Posts one WQE and records it. */
void xfer_rail_post(struct xfer_rail *rail, const struct xfer_wr *wr, const struct xfer_sent *sent);
/* One turn of a connection's data path. Returns: completions. */
uint32_t xfer_conn_progress(struct spw_xfer_conn *conn);

/* ---- share.c ---- */

/* Whether a rail may take a chunk. */
bool xfer_may_take(const struct xfer_rail *rail);
/* The rail with the fewest bytes under way that may take a chunk; NULL: none may. */
struct xfer_rail *xfer_pick(const struct spw_xfer_conn *conn);
/* Any rail with room for a grant; NULL: there is none. */
struct xfer_rail *xfer_pick_for_control(const struct spw_xfer_conn *conn);
/* Bytes of the next chunk of what is left. */
uint32_t xfer_chunk_bytes(const struct spw_xfer_conn *conn, const struct xfer_msg *msg);
/* Whether so many bytes go out as one chunk a rail. */
bool xfer_goes_at_once(const struct spw_xfer_conn *conn, uint64_t bytes);
/* Their shares, by rail. Returns: the rails, as a mask; 0: none may take one. */
uint8_t xfer_shares(const struct spw_xfer_conn *conn, uint64_t bytes,
		    uint32_t share_out[SPW_XFER_RAIL_MAX]);

/* ---- window.c ---- */

void xfer_window_on_frame(struct spw_xfer_conn *conn, const struct xfer_frame *frame);
void xfer_window_free(struct spw_xfer_conn *conn);

#endif
