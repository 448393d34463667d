/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/xfer: an endpoint, its connections and their rails.
 *
 *   endpoint.c  open, close          find.c    rails of this machine    mem.c   registration
 *   listen.c    listen, accept                 dial.c    connect by one of several addresses
 *   local.c     subnets of this machine         link.c   frames over TCP
 *   exchange.c  how a connection begins         conn.c   its frames, deadlines and end
 *   pair.c      which devices make a rail       round.c  and when another pair is tried
 *   rail.c      a QP: made, put out of service, made again
 *   resolve.c   its RTR, in a thread of its own
 *   verbs.c, direct.c   post and poll, in plain and in direct verbs
 *   engine.c    posts chunks and ends   share.c   which rail gets how much
 *   take.c      completions             fail.c    a rail failed
 *   message.c   send, recv, test     window.c  put, get      flag.c    flags of puts
 *   flush.c   stat.c
 *
 * Thread of all functions: the endpoint's owner. resolve.c starts threads that touch nothing else.
 */
#ifndef SPW_XFER_XFER_H
#define SPW_XFER_XFER_H

#include "base/spw_log.h"
#include "rdma/spw_rdma.h"
#include "peer/spw_peer_qp.h"
#include "xfer/flag.h"
#include "xfer/link.h"
#include "xfer/list.h"
#include "xfer/pair.h"
#include "xfer/wire.h"

#define XFER_SQ_CNT     128u /* send WQEs of a rail */
#define XFER_SQ_RESERVE 16u  /* of them not for chunks: grants, ends of messages */
#define XFER_RQ_CNT     256u /* receives for immediates: 64 grants and 64 ends, twice over */
#define XFER_RQ_BATCH   32u  /* receives are posted again in batches */
#define XFER_CQ_CNT     512u /* a power of 2 >= XFER_SQ_CNT + XFER_RQ_CNT */
#define XFER_POLL_MAX   32u  /* completions of one poll */
#define XFER_INLINE_MAX 28u  /* bytes of payload that fit a WQE of 64 bytes */
_Static_assert(SPW_XFER_JOIN_BYTES + 8 <= XFER_INLINE_MAX, "a joined put fits its WQE");
#define XFER_READ_MAX 16u /* RDMA READs under way on a QP, if the device can */
/* Twice what all send queues hold: with half of it free chunks may be posted (engine.c). */
#define XFER_ORPHAN_MAX   (2u * SPW_XFER_RAIL_MAX * XFER_SQ_CNT)
#define XFER_LEFT_OUT_MAX 32u

/* What a rail's QP is asked for, in direct and in plain verbs. */
#define XFER_QP_CAP                                                                        \
	{                                                                                  \
		.max_send_wr = XFER_SQ_CNT, .max_recv_wr = XFER_RQ_CNT, .max_send_sge = 1, \
		.max_recv_sge = 1, .max_inline_data = XFER_INLINE_MAX                      \
	}

struct xfer_rail;
struct xfer_resolve;

/* ---- endpoint ---- */

/* One rail of the endpoint: a device, opened once for each time that conf names it. */
struct xfer_dev {
	struct rdma_dev rdma;
	struct rdma_gid gid;
	uint16_t prefix; /* struct xfer_end */
	uint16_t mtu;    /* path MTU in bytes */
	uint8_t read_max;
	bool direct;
	bool in_order; /* struct xfer_end */
	bool atomics;
	bool link_up;
	struct ibv_td
		*td; /* direct: one doorbell register for all QPs of the endpoint; NULL: none */
	struct ibv_pd *domain;  /* rdma.pd with td; or rdma.pd itself */
	uint32_t bf_off;        /* which half of the BlueFlame register is next */
	struct xfer_loop *loop; /* flush.c; NULL: not needed so far */
};

struct spw_xfer {
	struct spw_xfer_conf conf; /* texts are NULL; defaults filled in */
	struct sockaddr_in6 bind;
	bool bind_given;
	struct spw_oob_secret secret;
	struct xfer_dev dev[SPW_XFER_RAIL_MAX];
	uint32_t dev_cnt;
	struct spw_xfer_rail_stat left_out[XFER_LEFT_OUT_MAX];
	uint32_t left_out_cnt;
	struct xfer_list conns, listeners, mems;
	struct xfer_list resolves; /* of rails that were abandoned meanwhile */
	int epoll_fd;
	uint64_t house_tsc, house_every_tsc; /* next turn of the house; between two turns */
	uint64_t clock_ms;                   /* of all waits: xfer_clock_turn */
	uint64_t looked_ms, step_ms;         /* when it was last moved; how far it moves at most */
	struct spw_xfer_stat stat;
	struct spw_log_limit limit;
};

struct spw_xfer_mem {
	struct xfer_list link;
	struct spw_xfer *x;
	struct spw_xfer_mem_req req;
	uint32_t user_cnt;                    /* requests and windows */
	struct ibv_mr *mr[SPW_XFER_RAIL_MAX]; /* by device */
};

struct spw_xfer_listener {
	struct xfer_list link;
	struct spw_xfer *x;
	int fd[XFER_ADDRESS_MAX]; /* one for each of at.addr */
	struct xfer_address at;
	bool keyed;
	uint64_t pause_until_ms; /* 0: it accepts */
	char text[64];
};

/* ---- rails ---- */

enum xfer_op {
	XFER_OP_WRITE,
	XFER_OP_WRITE_IMM,
	XFER_OP_READ,
	XFER_OP_SWAP, /* of 8 bytes, if they are `compare`; what they were goes to laddr */
};

/* One send WQE. */
struct xfer_wr {
	enum xfer_op op;
	bool signal; /* ask for a completion; the last before the doorbell always does */
	bool in_wqe; /* the bytes are copied into the WQE: at most XFER_INLINE_MAX */
	uint32_t bytes, lkey, rkey, imm;
	uint64_t laddr, raddr;
	uint64_t compare, swap;
};

/* One completion. */
struct xfer_done {
	bool ok, is_send;
	uint32_t end;        /* is_send: position after the WQE, mod 2^16 */
	uint32_t imm, bytes; /* of a receive */
	uint32_t status;     /* enum ibv_wc_status, of an error */
};

/* How a rail posts and polls. */
struct xfer_rail_ops {
	int (*make)(struct xfer_rail *rail); /* CQ and QP, in RESET */
	void (*post)(struct xfer_rail *rail, const struct xfer_wr *wr);
	/* Returns: false: the device did not take them. */
	bool (*ring)(struct xfer_rail *rail);
	/* Posts so many receives. */
	void (*refill)(struct xfer_rail *rail, uint32_t cnt);
	uint32_t refill_min; /* used receives that are worth a refill */
	uint32_t (*poll)(struct xfer_rail *rail, struct xfer_done *done, uint32_t cnt);
};
extern const struct xfer_rail_ops xfer_verbs_ops, xfer_direct_ops;

enum xfer_sent_kind {
	XFER_SENT_CHUNK, /* its end may ride on it as an immediate */
	XFER_SENT_FIN,
	XFER_SENT_SIZE,
	XFER_SENT_FLAG,
	XFER_SENT_GRANT,
	XFER_SENT_PROBE,
};

/* A send WQE that is not acknowledged. */
struct xfer_sent {
	struct xfer_msg *msg; /* NULL: of none, or of one that was freed */
	uint64_t offset;      /* of a chunk in its message */
	uint64_t value;       /* what a flag or a size record writes */
	uint64_t compare;     /* what the flag's word was taken to hold */
	uint32_t len;
	uint8_t kind, slot;
};

/*   OFF ─► MAKING ─both know it─► RESOLVING ─RTS─► PROBING ─probe acknowledged─► UP
 *    ▲        └───────────────────────┴───────────────┴───────── error ─────────┤
 *    └──── both sides said DOWN ◄── DOWN: out of service, orphans set aside ◄───┘ */
enum xfer_rail_state { XFER_OFF, XFER_MAKING, XFER_RESOLVING, XFER_PROBING, XFER_UP, XFER_DOWN };

/* A rail as direct verbs see it. */
struct xfer_direct {
	uint8_t *sq, *cq, *bf;
	spw_be32 *sq_db, *rq_db, *cq_db;
	uint32_t sq_mask, cq_mask, cq_log2, cq_ci, rq_pi, qpn, bf_toggle;
	uint32_t rung; /* sq_pi at the last doorbell */
};

/* A rail as plain verbs see it: what waits for the doorbell. */
struct xfer_plain {
	struct ibv_send_wr wr[XFER_POLL_MAX];
	struct ibv_sge sge[XFER_POLL_MAX];
	uint32_t cnt;
};

struct xfer_rail {
	struct spw_xfer_conn *conn;
	struct xfer_dev *dev;
	const struct xfer_rail_ops *ops;
	enum xfer_rail_state state;
	uint8_t idx;      /* in the connection: bit of masks */
	uint8_t dev_idx;  /* in the endpoint: index of our keys */
	uint8_t peer_idx; /* of the peer's device: index of its keys */
	uint32_t sq_pi, sq_ci;
	uint64_t out_bytes; /* of chunks that are not acknowledged */
	uint32_t rq_used;   /* receives consumed since the last refill */
	bool rang;          /* all that was posted is with the NIC */
	bool refused;       /* the device did not take a WQE */
	struct xfer_sent sent[XFER_SQ_CNT];
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	union {
		struct xfer_direct direct;
		struct xfer_plain plain;
	};
	/* set up */
	struct xfer_end theirs;
	struct xfer_resolve *resolve; /* RESOLVING; it owns qp and cq */
	uint32_t their_qpn, their_psn, psn;
	uint32_t qp_generation; /* QPs so far */
	bool paired;            /* client: which devices it joins is decided */
	bool proven;            /* they have been joined before */
	bool tried;             /* the first attempt with them succeeded or failed */
	bool peer_down;         /* the peer's DOWN of this QP has come */
	uint64_t ended_ms;      /* OFF: when the last attempt ended */
	uint64_t hold_ms;       /* OFF: no attempt before, because the link was down */
	uint64_t probe_ms;      /* MAKING .. PROBING: until when */
	uint64_t down_ns;       /* since when it is down; 0: it was never up */
	struct spw_xfer_rail_stat stat;
};

/* ---- messages ---- */

enum xfer_msg_kind { XFER_MSG_SEND, XFER_MSG_PUT, XFER_MSG_GET };

/* A send, put or get under way. */
struct xfer_msg {
	struct xfer_msg *next; /* in the list of those that wait, or are being posted */
	struct spw_xfer_req *req;
	enum xfer_msg_kind kind;
	uint8_t slot;        /* SEND: of its grant */
	uint8_t used;        /* rails that carried chunks */
	uint8_t lost;        /* of them those that failed and are not settled */
	bool in_use, posted; /* posted: all chunks, and the end */
	bool end_due;        /* PUT: the flag must be written (again) */
	bool landed;         /* nothing of it is to be posted any more: the receiver has it, or
			      * refused it */
	bool too_long;       /* SEND: longer than its receive */
	bool joined;         /* PUT: its bytes and its flag may be one WRITE */
	uint32_t open;       /* WQEs not acknowledged */
	uint32_t orphans;    /* chunks of failed rails, not posted again yet */
	struct spw_xfer_mem *mem;
	uint64_t laddr, raddr, bytes, at; /* at: posted up to here */
	uint32_t rkey[SPW_XFER_RAIL_MAX]; /* by device of the peer, as all keys of it */
	uint32_t tag;
	uint64_t flag, flag_raddr;       /* PUT; flag 0: none */
	uint64_t was[SPW_XFER_RAIL_MAX]; /* what its words are taken to hold */
	uint8_t join[XFER_INLINE_MAX];   /* both, until the doorbell */
};

struct xfer_orphan {
	struct xfer_msg *msg;
	uint64_t offset;
	uint32_t len;
};

/* Sender's view of a slot: a grant of the peer. */
enum xfer_tx_state { XFER_TX_FREE, XFER_TX_ARRIVED, XFER_TX_GRANTED, XFER_TX_TAKEN, XFER_TX_ENDED };
struct xfer_tx_slot {
	enum xfer_tx_state state;
	uint32_t seq, tag, generation;
	uint32_t rkey[SPW_XFER_RAIL_MAX];
	uint64_t addr, room;
	uint64_t bytes;       /* of the message that took it */
	struct xfer_msg *msg; /* NULL: none, or it is done */
};

/* Receiver's view of a slot: a grant of ours. */
struct xfer_rx_slot {
	bool open;
	uint8_t part;       /* of req */
	uint8_t got, rails; /* ends that arrived in this generation, and those that there will be */
	uint8_t size;       /* enum xfer_size of them */
	uint32_t seq;
	uint64_t room, bytes;
	struct spw_xfer_req *req;
};

enum xfer_req_kind { XFER_REQ_SEND, XFER_REQ_RECV, XFER_REQ_ACCESS, XFER_REQ_FLUSH };

struct spw_xfer_req {
	struct spw_xfer_req *next_free;
	struct spw_xfer_conn *conn;
	enum xfer_req_kind kind;
	bool in_use, is_put;
	uint8_t part_cnt, left; /* left: parts that are not done */
	int error;
	struct spw_xfer_mem *mem[SPW_XFER_PART_MAX];
	uint64_t bytes[SPW_XFER_PART_MAX];
	struct spw_xfer_stamps stamps;
	struct xfer_msg *msg;                 /* SEND, ACCESS */
	uint32_t flush_at[SPW_XFER_RAIL_MAX]; /* FLUSH: reads of each device up to this one */
};

struct xfer_queue {
	struct xfer_msg *first, *last;
};

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
};

/* A region that we expose. */
struct xfer_exposed {
	struct spw_xfer_mem *mem;
	struct ibv_mr *mr[SPW_XFER_RAIL_MAX]; /* by device */
};

/* ---- connections ---- */

/*   client:  TCP ─► CHALLENGE ─► ANSWER ─┐
 *   server:         HELLO ─────► OFFER ──┴─► RAILS ─► READY ─► (given to the caller) ─► FAILED */
enum xfer_conn_state {
	XFER_CONN_TCP,
	XFER_CONN_CHALLENGE,
	XFER_CONN_ANSWER,
	XFER_CONN_HELLO,
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
	/* set up */
	struct xfer_list link_all; /* of the endpoint */
	struct xfer_box *box;
	struct ibv_mr *box_in[SPW_XFER_RAIL_MAX], *box_out[SPW_XFER_RAIL_MAX]; /* by device */
	uint64_t their_box;
	struct xfer_link link;
	bool is_client, given; /* given: the caller has it */
	bool ended;            /* TCP has ended; one more turn takes what has arrived */
	struct spw_xfer_listener *listener; /* server, until given */
	struct xfer_address peer;
	struct xfer_dial dial;
	struct xfer_pairs pairs;
	bool rechoose;                 /* client: rails want another pair */
	uint64_t deadline_ms, gone_ms; /* of xfer.clock_ms */
	uint32_t linger_turns;         /* since TCP has ended */
	char text[192];
};

/* ---- conn.c ---- */

/* A connection over a TCP socket, which becomes its own; -1: it has none yet (dial.c). Errors:
 * -ENOMEM, -EMFILE. */
int xfer_conn_make(struct spw_xfer *x, int fd, bool is_client, struct spw_xfer_conn **conn_out);
/* Gives it the socket. Errors: those of epoll_ctl. */
int xfer_conn_attach(struct spw_xfer_conn *conn, int fd);
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

/* ---- exchange.c ---- */

/* Client: TCP is connected. */
void xfer_exchange_start(struct spw_xfer_conn *conn);
/* Returns: false: the frame has no place here. */
bool xfer_exchange_take(struct spw_xfer_conn *conn, const struct xfer_frame *f, uint64_t now_ms);

/* Server: the peer speaks another version. */
void xfer_exchange_decline(struct spw_xfer_conn *conn);

/* ---- rail.c ---- */

/* Client: offers a new QP of this rail to the peer. */
void xfer_rail_offer(struct xfer_rail *rail, uint64_t now_ms);
/* Which devices it joins; it is OFF. */
void xfer_rail_join(struct xfer_rail *rail, uint32_t dev_idx, uint32_t peer_idx);
/* One more rail of the connection. Errors: -ENOMEM. */
int xfer_rail_add(struct spw_xfer_conn *conn);
/* The peer's RAIL frame. */
void xfer_rail_on_frame(struct xfer_rail *rail, const struct xfer_frame *frame, uint64_t now_ms);
/* The peer's DOWN frame. */
void xfer_rail_on_down(struct xfer_rail *rail, const struct xfer_frame *frame, uint64_t now_ms);
/* A probe arrived, or ours was acknowledged. */
void xfer_rail_probed(struct xfer_rail *rail);
void xfer_rail_proved(struct xfer_rail *rail);
/* Deadlines of a rail: attempts that take too long, attempts that are due. */
void xfer_rail_turn(struct xfer_rail *rail, uint64_t now_ms);
/* Destroys QP and CQ: the NIC no longer touches memory for this rail. */
void xfer_rail_destroy(struct xfer_rail *rail);
/* Purpose: whether the device made rail->qp. Called right after it was asked, for errno. */
int xfer_rail_qp_check(const struct xfer_rail *rail);

/* ---- fail.c ---- */

/* Takes a rail out of service, and reports it to the peer. */
void xfer_rail_fail(struct xfer_rail *rail, const char *fmt, ...) SPW_PRINTF(2, 3);
/* Both sides have taken it out of service: what it left goes over the others. */
void xfer_rail_settled(struct xfer_rail *rail);
/* The receiver's state in a DOWN frame. */
void xfer_conn_learn(struct spw_xfer_conn *conn, const struct xfer_frame *frame);

/* ---- take.c ---- */

/* Takes completions of a rail. Returns: how many. */
uint32_t xfer_rail_take(struct xfer_rail *rail);
/* A message may be done: then its request is. */
void xfer_msg_check(struct xfer_msg *msg);

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

SPW_INLINE uint32_t xfer_rail_room(const struct xfer_rail *rail)
{
	return XFER_SQ_CNT - (rail->sq_pi - rail->sq_ci);
}

SPW_INLINE void xfer_queue_add(struct xfer_queue *q, struct xfer_msg *msg)
{
	msg->next = NULL;
	if (q->first)
		q->last->next = msg;
	else
		q->first = msg;
	q->last = msg;
}

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

/* ---- message.c ---- */

/* Returns: NULL: all are in use. */
struct spw_xfer_req *xfer_req_take(struct spw_xfer_conn *conn, enum xfer_req_kind kind);
void xfer_req_give(struct spw_xfer_req *req);
/* A free one of SPW_XFER_REQ_MAX messages; NULL: there is none. */
struct xfer_msg *xfer_msg_free(struct xfer_msg *msg);
/* One part of a request is done. */
void xfer_req_part(struct spw_xfer_req *req, uint32_t part, uint64_t bytes, int error);
/* All of a message was handed to the NICs, for the first time. */
SPW_INLINE void xfer_req_posted(struct spw_xfer_req *req)
{
	if (!req->stamps.posted)
		req->stamps.posted = spw_tsc_now();
}
/* Errors: -ERANGE. */
int xfer_mem_check(const struct spw_xfer *x, const struct spw_xfer_mem *mem, uint64_t addr,
		   uint64_t bytes);
int xfer_conn_usable(const struct spw_xfer_conn *conn);

/* ---- flush.c ---- */

/* Whether its reads are done. */
void xfer_flush_check(struct spw_xfer_req *req);
void xfer_loop_close(struct xfer_dev *dev);
/* Whether the QPs of a device store the bytes of a WRITE in the order of their addresses, as far as
 * a CPU can observe. Only a QP in RTS can be asked: one that is connected to itself. */
bool xfer_loop_in_order(const struct spw_xfer *x, struct xfer_dev *dev);

/* ---- others ---- */

/* What begins from now on does without a device that is gone; its keys are 0. */
SPW_INLINE bool xfer_dev_is_gone(const struct xfer_dev *dev)
{
	return dev->rdma.gone;
}

SPW_INLINE uint32_t xfer_rkey(const struct ibv_mr *mr)
{
	return mr ? mr->rkey : 0;
}

/* find.c: the rails of this machine that hca admits, as conf.rails would name them. */
int xfer_find(struct spw_xfer *x, const char *hca, char *rails_out, size_t bytes);
/* One that cannot be a rail. */
void xfer_leave_out(struct spw_xfer *x, const char *device, const char *why);
/* Returns: -ENODEV, with all that were left out as its text. */
int xfer_found_nothing(const struct spw_xfer *x);
/* endpoint.c: sockets, device events and deadlines. */
void xfer_house(struct spw_xfer *x);
/* Moves the clock of all waits up to now. Returns: what it showed before. */
uint64_t xfer_clock_turn(struct spw_xfer *x);
uint64_t xfer_now_ns(void);
/* window.c */
void xfer_window_on_frame(struct spw_xfer_conn *conn, const struct xfer_frame *frame);
void xfer_window_free(struct spw_xfer_conn *conn);
/* listen.c: TCP connections that wait; heard: there may be some. */
void xfer_listener_turn(struct spw_xfer_listener *listener, uint64_t now_ms, bool heard);

#endif
