/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/xfer: a rail of a connection: a queue pair on one device, and how it posts and
 * polls. rail.c makes it and puts it out of service, verbs.c and direct.c drive it, fail.c has what
 * a failure means, take.c its completions.
 * Thread of all functions: the endpoint's owner.
 */
#ifndef SPW_XFER_RAIL_H
#define SPW_XFER_RAIL_H

#include "prm/spw_prm_ring.h"
#include "rdma/spw_rdma.h"
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

/* What a rail's QP is asked for, in direct and in plain verbs. */
#define XFER_QP_CAP                                                                        \
	{                                                                                  \
		.max_send_wr = XFER_SQ_CNT, .max_recv_wr = XFER_RQ_CNT, .max_send_sge = 1, \
		.max_recv_sge = 1, .max_inline_data = XFER_INLINE_MAX                      \
	}

struct spw_xfer_conn;
struct xfer_dev;
struct xfer_msg;
struct xfer_rail;
struct xfer_resolve;

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
	/* The next completion raises an event. */
	void (*arm)(struct xfer_rail *rail);
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

/* The bytes of a chunk: where they begin in their message; in a list, in which piece and where in
 * it: they may go on in pieces that follow. */
struct xfer_run {
	uint64_t offset;
	uint32_t piece, len;
};

/* A send WQE that is not acknowledged. */
struct xfer_sent {
	struct xfer_msg *msg; /* NULL: of none, or of one that was freed */
	struct xfer_run run;  /* of a chunk */
	uint64_t value;       /* what a flag or a size record writes */
	uint64_t compare;     /* what the flag's word was taken to hold */
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
	struct mlx5_cqarm arm;
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
	uint32_t cq_events; /* of the present CQ, that were taken */
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

SPW_INLINE uint32_t xfer_rail_room(const struct xfer_rail *rail)
{
	return XFER_SQ_CNT - (rail->sq_pi - rail->sq_ci);
}

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
/* ---- take.c ---- */

/* Takes completions of a rail. Returns: how many. */
uint32_t xfer_rail_take(struct xfer_rail *rail);

#endif
