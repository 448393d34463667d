/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The mlx5 queue, as its data path sees it: memory only. mlx5_rx.c, mlx5_tx.c and mlx5_err.c know completion entries,
 * work queue entries and doorbell records, and nothing of how the objects were made: mlx5_obj.c makes them through
 * rdma-core, a test lays them out by hand, and the same object code runs on both.
 *
 * Orderings (docs/040-ordering.md), all with the NIC as partner:
 *   M1 acquire  after op_own said "yours", before the rest of the CQE, the mini array and the frame are read; one for all
 *               CQEs that one look found. Pairs with the NIC writing op_own last.
 *   M2 release  WQEs, and CQE bytes marked invalid, before the doorbell records. Pairs with the NIC reading the record
 *               first. Everything that a burst read of its CQEs went into descriptors, whose stores M2 orders too, so a
 *               slot of the CQ ring is never handed back while it is still being read.
 *   M3 release  send WQEs and the bytes of the frames before the send doorbell record.
 *   M4 release  the send doorbell record before the store to the UAR page; then the combined stores leave the core.
 */
#ifndef SPW_PORT_MLX5_IMPL_H
#define SPW_PORT_MLX5_IMPL_H

#include "base/spw_order.h"
#include "port/port_impl.h"
#include "prm/spw_prm.h"

#define MLX5_CQE_BYTES 64u
#define MLX5_CQE_OP_OWN 63u    /* opcode, format, solicited, owner */
#define MLX5_CQE_VALIDITY 62u  /* enhanced layout: laps of the ring, mod 256 */
#define MLX5_CQE_DROPS 56u     /* receiver: frames the NIC dropped for want of a WQE since the last CQE */
#define MLX5_MINI_ENHANCED_CNT 7u
#define MLX5_TX_INLINE_BYTES 18u /* MAC addresses, type and VLAN tag: what a device that wants the L2 header inline asks */

/* ---- memory of the hardware objects -------------------------------------------------------------- */

struct spw_mlx5_cqmem {
	uint8_t *buf;      /* cnt * stride; op_own of every CQE starts as INVALID, validity as 0xff */
	spw_be32 *dbrec;   /* [0] consumer index; NULL: overrun is ignored, and nobody reads the index */
	uint32_t cnt;      /* a power of 2 */
	uint32_t stride;   /* MLX5_CQE_BYTES; others are refused */
};

struct spw_mlx5_rqmem {
	uint8_t *buf;      /* cnt * stride */
	spw_be32 *dbrec;   /* RCV_DBR: WQEs posted, mod 2^16 */
	uint32_t cnt;      /* a power of 2, at most 2^15 */
	uint32_t stride;   /* 16 for one data segment; 32 for a striding WQE, which starts with a next segment */
	uint32_t lkey;     /* of the pool's region */
	uint32_t strides_log2; /* striding: strides of one WQE; their size is the pool's slot_bytes */
};

struct spw_mlx5_sqmem {
	uint8_t *buf;      /* cnt * 64 */
	spw_be32 *dbrec;   /* SND_DBR */
	uint32_t cnt;      /* a power of 2, at most 2^15; 0: this queue does not send */
	uint32_t qpn, lkey;
	uint8_t *bf;       /* the BlueFlame register in the UAR page */
	uint32_t bf_bytes; /* of one of its two halves; 0: no BlueFlame, the 8-byte doorbell only */
};

/* Which variant of the burst functions a queue runs; fixed at set-up, constant in the code. */
enum spw_mlx5_flag {
	MLX5_F_STAMP    = 1u << 0, /* one hardware timestamp per frame */
	MLX5_F_ZIP      = 1u << 1, /* CQE compression, basic layout: sessions of a title and mini arrays */
	MLX5_F_ENHANCED = 1u << 2, /* CQE compression, enhanced layout: self-describing blocks, validity by lap count */
	MLX5_F_STRIDING = 1u << 3, /* one WQE of many strides, each stride a slot */
	MLX5_F_INLINE   = 1u << 4, /* TX: the device wants MLX5_TX_INLINE_BYTES of each frame in the WQE */
};

/* ---- one queue ------------------------------------------------------------------------------------ */

/* A compression session. The array at hand is copied out, so that the ring can go back to the NIC frame by frame. */
struct spw_mlx5_zip {
	uint8_t mini[SPW_PRM_MINI_PER_CQE * 8] SPW_ALIGNED(64);
	uint32_t left;     /* minis not lent yet */
	uint32_t idx;      /* the next one in mini[] */
	uint64_t csum;     /* SPW_DESC_L3_OK | SPW_DESC_L4_OK of the title: all of a session share them */
};

enum spw_mlx5_err_state { MLX5_ERR_NONE, MLX5_ERR_SEEN, MLX5_ERR_TOLD };

/* One direction that went wrong. */
struct spw_mlx5_err {
	enum spw_mlx5_err_state state;
	uint32_t syndrome;     /* of the first error CQE; 0: a CQE that makes no sense, or what was told */
	const char *what;      /* static text of who told; NULL: the CQE did */
	uint64_t since_tsc;
	uint32_t tries;
};

/* What only the maker of the objects can do. Called from events, never from a burst. 0 or -errno. */
struct spw_mlx5_ops {
	int (*rq_reset)(void *obj); /* when it returns, the NIC touches neither ring nor slots nor CQEs of this RQ */
	int (*rq_ready)(void *obj); /* indices start at 0 again */
	int (*sq_reset)(void *obj);
	int (*sq_ready)(void *obj);
	uint16_t (*async)(void *obj, struct spw_port_event *event, uint16_t cnt); /* link and device events; NULL: none */
	uint64_t (*tsc_to_ns)(void *obj, uint64_t ticks);
	void *obj;
};

#define MLX5_SYNDROME_CNT 64u /* 0: unknown ones */

struct spw_mlx5_queue {
	/* receive: read only */
	uint8_t *cqe;
	uint8_t *wqe;
	uint32_t *slot_of;      /* by WQE: its slot; striding: the first slot of its group */
	struct spw_pool *pool;
	spw_be32 *cq_db;        /* own word when nobody reads the index */
	spw_be32 *rq_db;
	uint32_t cq_mask, cq_log2;
	uint32_t rq_mask, rq_shift;
	/* receive: hot */
	uint32_t cq_ci;         /* next CQE; free running, as are the other indices */
	uint32_t rq_ci, rq_pi;  /* WQEs consumed, posted */
	uint32_t stride_pos;    /* striding: strides consumed of WQE rq_ci */
	uint32_t refill_min;    /* holes that make a refill worth while */
	uint32_t room_bytes;    /* the longest frame a slot can take */
	uint32_t lent_cnt;
	uint32_t seg_off;       /* of the data segment in a receive WQE */
	uint64_t desc_tail;     /* region, port: the last word of every descriptor */
	struct spw_mlx5_zip zip;

	/* striding: groups of slots, one group a WQE */
	uint32_t *group_ref;    /* strides of the group that are not home yet; 0: the group is free */
	uint32_t *group_free;   /* stack */
	uint32_t group_free_cnt, group_log2, group_cnt;
	uint32_t spare;         /* group that lend_burst takes single slots from; group_cnt: none */
	uint32_t spare_pos;

	/* send: read only */
	uint8_t *tx_cqe SPW_ALIGNED(64);
	uint8_t *sq;
	uint32_t *sq_slot, *sq_len; /* by WQE */
	spw_be32 *tx_cq_db, *sq_db;
	uint8_t *bf;
	uint32_t tx_cq_mask, tx_cq_log2;
	uint32_t sq_mask, qpn_ds;
	uint32_t sq_lkey, bf_toggle;
	/* send: hot */
	uint32_t tx_cq_ci, sq_ci, sq_pi, bf_off;

	struct spw_mlx5_err rx_err, tx_err;
	/* written by the owner, sampled by others */
	uint64_t rx_nic_drops; /* frames for which there was no WQE, by the CQEs */
	struct port_queue_stat stat;
	uint64_t syndrome[MLX5_SYNDROME_CNT];
	struct spw_mlx5_ops ops;
	uint32_t rq_lkey;
	unsigned flags;
	spw_be32 db_ignored[2];
	uint16_t index;
} SPW_ALIGNED(64);

/* Purpose: lays a queue over its memory: fills every WQE, takes its slots from the pool. Nothing is rung yet.
 * Shape:   flags as above; ring and slot sizes are checked (-EINVAL, text says which), -ENOSPC when the pool is too
 *          small, -ENOMEM. tx_cq and sq may be NULL (no sending). port and region go into descriptors.
 * Owner:   queue is the caller's, zeroed or never used; memory and pool outlive it. Thread: setup. */
struct spw_mlx5_queue_conf {
	struct spw_mlx5_cqmem cq, tx_cq;
	struct spw_mlx5_rqmem rq;
	struct spw_mlx5_sqmem sq;
	struct spw_pool *pool;
	struct spw_mlx5_ops ops;
	unsigned flags;
	uint16_t index, port;
	uint32_t refill_min; /* 1 .. rq.cnt; striding: WQEs */
};
int spw_mlx5_queue_init(struct spw_mlx5_queue *q, const struct spw_mlx5_queue_conf *conf);

/* Purpose: posts the first WQEs and rings; the objects are ready. Thread: setup or owner. */
void spw_mlx5_queue_arm(struct spw_mlx5_queue *q);

/* Purpose: after the NIC let go of the rings: counts what the completion queues still hold; frames that nobody polled are
 *          rx_flushed. Thread: setup, owner. */
void spw_mlx5_queue_drain(struct spw_mlx5_queue *q);

/* Purpose: after the NIC let go of the rings: every slot that is not lent goes back to the pool. Thread: setup, owner. */
void spw_mlx5_queue_disarm(struct spw_mlx5_queue *q);

/* Purpose: frees what init made; lent slots that came back since then go to the pool. A zeroed queue is fine. */
void spw_mlx5_queue_fini(struct spw_mlx5_queue *q);

/* Purpose: the receive (send) side goes on with other objects of the same shape, or with the same ones and another key; for
 *          ops.rq_ready (sq_ready), where its slots are home and its indices 0. cq_new: the CQ is another one as well.
 * Errors:  -EINVAL the shape differs. Thread: owner. */
int spw_mlx5_rx_renew(struct spw_mlx5_queue *q, const struct spw_mlx5_cqmem *cq, const struct spw_mlx5_rqmem *rq, bool cq_new);
int spw_mlx5_tx_renew(struct spw_mlx5_queue *q, const struct spw_mlx5_cqmem *cq, const struct spw_mlx5_sqmem *sq, bool cq_new);

/* Purpose: somebody else saw that a side is broken (an asynchronous event); events mends it. what: static text.
 * Thread:  owner. */
void spw_mlx5_rx_told(struct spw_mlx5_queue *q, const char *what);
void spw_mlx5_tx_told(struct spw_mlx5_queue *q, const char *what);

/* Purpose: what the NIC had in its receive (send) ring comes home; indices go to 0. It must have let go. Frames to be sent
 *          that no completion told of count as tx_flushed. */
void spw_mlx5_rx_home(struct spw_mlx5_queue *q);
void spw_mlx5_tx_home(struct spw_mlx5_queue *q);

void spw_mlx5_queue_slots(const struct spw_mlx5_queue *q, struct spw_port_slots *slots_out);

/* Purpose: the burst functions of the queue's variant, as spw_port_queue wants them. */
void spw_mlx5_queue_calls(struct spw_mlx5_queue *q, struct spw_port_queue *pq);

/* ---- between the files ----------------------------------------------------------------------------- */

typedef uint16_t spw_mlx5_rx_fn(void *vq, struct spw_desc *desc, uint16_t cnt);
typedef uint16_t spw_mlx5_tx_fn(void *vq, struct spw_desc **desc, uint16_t cnt);
spw_mlx5_rx_fn *spw_mlx5_rx_variant(unsigned flags);
spw_mlx5_tx_fn *spw_mlx5_tx_variant(unsigned flags);

void spw_mlx5_release_cyclic(void *vq, const uint32_t *slot, uint16_t cnt);
void spw_mlx5_release_striding(void *vq, const uint32_t *slot, uint16_t cnt);
uint16_t spw_mlx5_lend_cyclic(void *vq, uint32_t *slot, uint16_t cnt);
uint16_t spw_mlx5_lend_striding(void *vq, uint32_t *slot, uint16_t cnt);
uint16_t spw_mlx5_events(void *vq, struct spw_port_event *event, uint16_t cnt);

/* Purpose: notes what the CQE at the consumer index says when it is not a frame: nothing at all, or an error that
 *          events will deal with. Data-path safe. */
void spw_mlx5_rx_look(struct spw_mlx5_queue *q);
void spw_mlx5_tx_fault(struct spw_mlx5_queue *q, const uint8_t *cqe);
void spw_mlx5_rx_fault(struct spw_mlx5_queue *q, uint32_t syndrome);

/* Purpose: the frames of the WQEs up to end were sent; their slots go home. Owner thread. */
void spw_mlx5_tx_sent(struct spw_mlx5_queue *q, uint32_t end);

/* Purpose: looks for send completions; slots go home. Owner thread. */
void spw_mlx5_tx_reap(struct spw_mlx5_queue *q);

/* Purpose: posts receive WQEs for every hole that there are slots for, and rings. */
void spw_mlx5_refill(struct spw_mlx5_queue *q);

#endif
