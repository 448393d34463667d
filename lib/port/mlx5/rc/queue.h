/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RoCE v2 RC on mlx5: the rings of a queue and of its peers, as the data path uses them: memory
 * only. What a queue with many peers is, and where its slots are: port/rc_queue.h. rx.c, tx.c and
 * err.c know completion entries, work queue entries and doorbell records; queue.c lays the structs
 * over that memory. The memory comes from obj.c through rdma-core, or from a test that plays the
 * NIC (tests/unit/port/mlx5/rc/rc_hand.h).
 *
 * One queue has one receive CQ and one send CQ for all of its peers, and one QP per peer.
 *
 * Orderings: M1 to M4 of mlx5/mem.h. What the peer wrote into memory before its message (grants)
 * is covered by M1 of that message's CQE. RC1 of peer/spw_peer.h orders control and owner.
 */
#ifndef SPW_PORT_MLX5_RC_QUEUE_H
#define SPW_PORT_MLX5_RC_QUEUE_H

#include "port/mlx5/mem.h"
#include "port/rc_queue.h"

/* Variants: fixed at set-up, constant in the code; with PORT_RC_SRQ and PORT_RC_WRITE. */
enum mlx5_rc_flag {
	MLX5_RC_STAMP = 1u << 0, /* one hardware timestamp per message */
	MLX5_RC_COMPRESSED =
		1u << 3, /* the NIC compresses similar receive CQEs; not with STAMP or WRITE,
			  * since a mini-CQE has no timestamp and no immediate */
};

/* A compression session: a title CQE and what is left of its mini-CQEs. */
struct mlx5_rc_session {
	uint8_t title[MLX5_CQE_BYTES] SPW_ALIGNED(64);
	uint8_t mini[SPW_PRM_MINI_PER_CQE * 8];
	uint32_t left; /* mini-CQEs not taken yet */
	uint32_t idx;  /* next entry of mini[] */
	uint32_t wqe;  /* WQE counter of that entry */
};

struct mlx5_rc_peer {
	struct port_rc_peer rc;
	uint32_t qpn;     /* UINT32_MAX: not attached */
	uint32_t sq_rung; /* sq_pi at the last doorbell */
	uint8_t *sq;
	spw_be32 *sq_db;
	uint8_t *bf;
	uint32_t bf_toggle; /* bytes of half a BlueFlame register; 0: 8-byte doorbells only */
	uint32_t rq_shift;
	uint8_t *wqe; /* receive ring; NULL with an SRQ */
	spw_be32 *rq_db;
} SPW_ALIGNED(64);

/* A perfect hash from QP number to peer: peer[(qpn * mul) >> shift]. No two QPs of the queue share
 * an entry. */
struct mlx5_rc_find {
	uint32_t mul, shift;
	struct mlx5_rc_peer **peer; /* 1 << (32 - shift); empty entries point to the nobody peer */
};

struct mlx5_rc_queue {
	struct port_rc_queue rc;
	/* read only */
	uint8_t *cqe SPW_ALIGNED(64);
	uint32_t cq_mask, cq_log2;
	spw_be32 *cq_db;
	struct mlx5_rc_find find;
	/* hot */
	uint32_t cq_ci;
	uint32_t
		bf_off; /* offset of the half of the peers' shared BlueFlame register to use next */

	struct mlx5_rc_session session;

	/* the SRQ: a list linked through its WQEs; the last free WQE is never posted, since freed
	 * WQEs are linked after it */
	uint8_t *srq SPW_ALIGNED(64);
	spw_be32 *srq_db;
	uint32_t *srq_slot; /* by WQE; PORT_RC_NO_SLOT: not posted */
	uint16_t *srq_next; /* the links, as the NIC reads them in the WQEs */
	uint32_t srq_mask, srq_shift;
	uint32_t srq_head, srq_tail;
	uint32_t srq_pi; /* posted since set-up */

	/* send completions */
	uint8_t *tx_cqe SPW_ALIGNED(64);
	spw_be32 *tx_cq_db;
	uint32_t tx_cq_mask, tx_cq_log2, tx_cq_ci;
	spw_be32 db_ignored[2];
} SPW_ALIGNED(64);

/* The driver's own of what port/rc_queue.h knows; each begins with it. */
SPW_INLINE struct mlx5_rc_queue *mlx5_rc_queue_of(struct port_rc_queue *q)
{
	return spw_container_of(q, struct mlx5_rc_queue, rc);
}

SPW_INLINE struct mlx5_rc_peer *mlx5_rc_peer_of(struct port_rc_peer *p)
{
	return spw_container_of(p, struct mlx5_rc_peer, rc);
}

/* Peer `local`; peer_cnt: nobody. */
SPW_INLINE struct mlx5_rc_peer *mlx5_rc_peer_at(const struct mlx5_rc_queue *q, uint32_t local)
{
	return (struct mlx5_rc_peer *)(void *)q->rc.peer + local;
}

struct mlx5_rc_queue_conf {
	struct mlx5_cqmem cq, tx_cq;
	struct mlx5_rqmem srq; /* SRQ; stride at least 32: a next segment and one data segment */
	struct port_rc_queue_conf rc; /* ops and peer_bytes are set here */
};

/* The memory of one peer's QP, and its slots. */
struct mlx5_rc_peermem {
	struct mlx5_rqmem rq; /* cnt at least recv_cnt, stride at least 16; not with an SRQ */
	struct mlx5_sqmem sq;
	struct port_rc_peer_conf rc; /* sq_limit 64 .. sq.cnt */
};

/* Purpose: lays a queue over its memory, as port_rc_queue_init. Nothing is posted, and no peer is
 *          attached yet.
 * Owner: q is the caller's, until mlx5_rc_queue_fini; memory and pool outlive it.
 * Thread: setup.
 * Errors: -EINVAL with the value that is wrong; -ENOMEM. */
int mlx5_rc_queue_init(struct mlx5_rc_queue *q, const struct mlx5_rc_queue_conf *conf);

/* Purpose: attaches peer `local` with its QP and slots.
 * Shape: local 0 .. peer_cnt - 1.
 * Thread: setup.
 * Errors: -EINVAL with the value that is wrong; -ENOMEM. */
int mlx5_rc_attach(struct mlx5_rc_queue *q, uint32_t local, const struct mlx5_rc_peermem *mem);

/* Purpose: frees the tables of a queue. A zeroed queue is fine. Thread: setup. */
void mlx5_rc_queue_fini(struct mlx5_rc_queue *q);

/* Purpose: fills in the burst functions of the queue's variant; the caller sets events.
 * Thread: setup. */
void mlx5_rc_queue_calls(struct mlx5_rc_queue *q, struct spw_port_queue *pq);

/* ---- port_rc_ops of this driver; Thread of all: owner ---- */

extern const struct port_rc_ops mlx5_rc_ops;

void mlx5_rc_settle(struct port_rc_queue *q);
void mlx5_rc_reap(struct port_rc_queue *q);
void mlx5_rc_grant(struct port_rc_queue *q, struct port_rc_peer *p);
void mlx5_rc_mark(struct port_rc_queue *q, struct port_rc_peer *p);
bool mlx5_rc_has_unread(struct port_rc_queue *q, struct port_rc_peer *p);

/* ---- between the files; Thread of all: owner ---- */

/* Purpose: the burst function of a set of flags. Returns: NULL: there is no such variant. */
mlx5_rx_fn *mlx5_rc_rx_variant(unsigned flags);
mlx5_tx_fn *mlx5_rc_tx_variant(unsigned flags);

/* Purpose: the CQE at the consumer index is not plain: an error, or impossible. Consumes such CQEs,
 * up to one burst. Data-path safe. */
void mlx5_rc_rx_odd(struct mlx5_rc_queue *q);
void mlx5_rc_tx_odd(struct mlx5_rc_queue *q);

/* Purpose: sends messages that wait for this peer, as far as credits and WQEs allow, and rings its
 * send doorbell. Data-path safe. */
void mlx5_rc_send_waiting(struct port_rc_queue *q, struct port_rc_peer *p);

#endif
