/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One raw Ethernet queue as its data path knows it: memory, indices and slots.
 *
 * eth/rx.c, eth/tx.c and eth/err.c run it and know completion entries, work queue entries and
 * doorbell records, but not how the objects were created: eth/obj.c creates them through rdma-core,
 * a test lays them out by hand, and the same object code runs on both. Orderings: mlx5/mem.h.
 *
 * Indices run freely and are masked on use. Between two calls, in WQEs:
 *
 *        rq_ci                   rq_pi                 rq_ci + ring size
 *          |    posted to the NIC   |        holes             |
 *
 * and slot_of[pos & rq_mask] names the slot (striding: the first slot) of each posted WQE. The send
 * queue has sq_ci, sq_pi and sq_slot in the same way.
 */
#ifndef SPW_PORT_MLX5_ETH_QUEUE_H
#define SPW_PORT_MLX5_ETH_QUEUE_H

#include "port/mlx5/mem.h"
#include "port/spw_port.h"

/* ---- one queue ---- */

/* Rules that can be counted at a time; a power of 2. Rules that stand differ in their tags mod it.
 */
#define MLX5_ETH_TAGS 64u

/* Frames of one flow tag: the rule's (rdma/spw_rdma_flow.h), 0 without. Written by the owner: the
 * first frame of a newer tag begins it anew, so what the ring still holds of a removed rule counts
 * for no other. */
struct mlx5_eth_tag {
	uint64_t frames;
	uint32_t tag;
};

/* The compression session in progress (drawn in eth/rx.c). The current array of mini-CQEs is copied
 * out of the ring, so that its entries can be returned to the NIC frame by frame. */
struct mlx5_eth_session {
	uint8_t mini[SPW_PRM_MINI_PER_CQE * 8] SPW_ALIGNED(64);
	uint32_t left; /* mini-CQEs not decoded yet; 0: no session */
	uint32_t idx;  /* the next one in mini[] */
	uint64_t csum; /* SPW_DESC_L3_OK | SPW_DESC_L4_OK of the title, for the whole session */
	spw_be32 tag;  /* flow tag of the title, likewise: a frame of another rule ends a session */
};

/* What only the creator of the objects can do. Called from events, never from a burst. The int
 * ones return 0 or -errno with a text.
 * Thread:  owner */
struct mlx5_eth_ops {
	/* reset: on return the NIC no longer touches the ring, slots or CQEs of this side.
	 * ready: it can receive (send) again; indices start at 0. */
	int (*rq_reset)(void *obj);
	int (*rq_ready)(void *obj);
	int (*sq_reset)(void *obj);
	int (*sq_ready)(void *obj);
	/* Link and device events.
	 * Returns: events written, 0 .. cnt. NULL: there are none. */
	uint16_t (*async)(void *obj, struct spw_port_event *event, uint16_t cnt);
	uint64_t (*tsc_to_ns)(void *obj, uint64_t ticks);
	void *obj;
};

struct mlx5_eth_queue {
	/* receive: read only */
	uint8_t *cqe;
	uint8_t *wqe;
	uint32_t *slot_of; /* by WQE: its slot; striding: the first slot of its group */
	struct spw_pool *pool;
	spw_be32 *cq_db; /* db_ignored[0] where the NIC does not read the index */
	spw_be32 *rq_db;
	uint32_t cq_mask, cq_log2;
	uint32_t rq_mask, rq_shift;
	/* receive: hot */
	uint32_t cq_ci;        /* next CQE; free running, as are the other indices */
	uint32_t rq_ci, rq_pi; /* WQEs consumed, posted */
	uint32_t stride_pos;   /* striding: strides consumed of WQE rq_ci */
	uint32_t refill_min;   /* holes from which on a refill is worth its cost */
	uint32_t room_bytes;   /* the longest frame a slot can take */
	uint32_t lent_cnt;
	spw_be32 rx_tag;              /* flow tag of the last frame */
	struct mlx5_eth_tag *rx_cell; /* where it is counted: the place with this tag in tag[] */
	uint32_t seg_off;             /* of the first data segment in a receive WQE */
	uint64_t desc_tail;           /* region, port: the last word of every descriptor */
	struct mlx5_eth_session session;

	/* striding: groups of slots, one group a WQE */
	uint32_t *group_ref;  /* strides of the group not returned yet; 0: the group is free */
	uint32_t *group_free; /* stack */
	uint32_t group_free_cnt, group_log2, group_cnt;
	uint32_t spare; /* group that lend_burst takes single slots from; group_cnt: none */
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

	struct mlx5_err rx_err, tx_err;
	/* written by the owner, sampled by others */
	uint64_t rx_nic_drops;                  /* frames that found no WQE, as counted in CQEs */
	struct mlx5_eth_tag tag[MLX5_ETH_TAGS]; /* by flow tag mod MLX5_ETH_TAGS */
	struct port_queue_stat stat;
	uint64_t syndrome[MLX5_SYNDROME_CNT];
	struct mlx5_eth_ops ops;
	struct mlx5_eth_raw *raw;  /* MLX5_F_RAW (eth/raw.h); else NULL */
	struct spw_port_sent sent; /* MLX5_F_SENT; else zero */
	uint32_t rq_lkey, rq_head_lkey;
	unsigned flags;
	spw_be32 db_ignored[2];
	uint16_t index;
} SPW_ALIGNED(64);

/* ---- set up, arm, disarm, tear down ----
 *
 *   init ─► arm ─► [bursts, events] ─► (objects reset by the creator) ─► drain ─► disarm ─► fini
 */

struct mlx5_eth_queue_conf {
	struct mlx5_cqmem cq, tx_cq;
	struct mlx5_rqmem rq;
	struct mlx5_sqmem sq;
	struct spw_pool *pool;
	struct mlx5_eth_ops ops;
	unsigned flags;
	uint16_t index, port;
	uint32_t refill_min; /* 1 .. rq.cnt; striding: WQEs */
};
/* Purpose: lays a queue over its memory, fills every WQE and, striding, takes all slots of the
 *          pool. Rings nothing.
 * Shape:   queue zeroed or never used. conf: ring and slot sizes as in mlx5/mem.h, flags one of
 *          the variants; tx_cq and sq may be zero (no sending); port and the region go into
 *          descriptors.
 * Owner:   the caller owns q; memory, objects and pool outlive it.
 * Thread:  setup
 * Errors:  -EINVAL a shape, the text says which; -ENOSPC the pool is too small; -EBUSY a
 *          striding queue's pool has slots in use; -ENOMEM. */
int mlx5_eth_queue_init(struct mlx5_eth_queue *q, const struct mlx5_eth_queue_conf *conf);

/* Purpose: posts the first receive WQEs and rings. The objects are ready.
 * Thread:  setup or owner */
void mlx5_eth_queue_arm(struct mlx5_eth_queue *q);

/* Purpose: counts what the completion queues still hold; frames that nobody polled are
 *          rx_flushed.
 * Order:   after the objects were reset, so that the NIC writes no more.
 * Thread:  setup or owner */
void mlx5_eth_queue_drain(struct mlx5_eth_queue *q);

/* Purpose: returns every slot that is not lent to the pool.
 * Order:   after the objects were reset, and after drain.
 * Thread:  setup or owner */
void mlx5_eth_queue_disarm(struct mlx5_eth_queue *q);

/* Purpose: frees what init allocated. Lent slots that were returned since disarm go to the
 *          pool.
 * Shape:   a zeroed queue is fine.
 * Thread:  setup */
void mlx5_eth_queue_fini(struct mlx5_eth_queue *q);

/* Purpose: lays the receive (send) side over re-created objects of the same shape, or over the
 *          same ones with another key. Called by ops.rq_ready (sq_ready).
 * Shape:   its slots were recycled and its indices are 0. cq_new: the CQ is another one too.
 * Thread:  owner
 * Errors:  -EINVAL the shape differs. */
int mlx5_eth_rx_attach(struct mlx5_eth_queue *q, const struct mlx5_cqmem *cq,
		       const struct mlx5_rqmem *rq, bool cq_new);
int mlx5_eth_tx_attach(struct mlx5_eth_queue *q, const struct mlx5_cqmem *cq,
		       const struct mlx5_sqmem *sq, bool cq_new);

/* Purpose: notes that a side failed, for a cause other than a CQE (an asynchronous event); the
 *          next events recovers it. Nothing happens if an error is noted already.
 * Shape:   what: static text.
 * Thread:  owner */
void mlx5_eth_rx_failed(struct mlx5_eth_queue *q, const char *what);
void mlx5_eth_tx_failed(struct mlx5_eth_queue *q, const char *what);

/* Purpose: recycles all slots in the receive (send) ring and sets its indices to 0. Frames in
 *          the send ring count as tx_flushed.
 * Order:   after the object was reset.
 * Thread:  setup or owner */
void mlx5_eth_rx_recycle(struct mlx5_eth_queue *q);
void mlx5_eth_tx_recycle(struct mlx5_eth_queue *q);

/* Purpose: where the queue's slots are.
 * Thread:  owner, or setup after stop */
void mlx5_eth_queue_slots(const struct mlx5_eth_queue *q, struct spw_port_slots *slots_out);

/* Purpose: frames received of a flow tag, 1 .. 2^24 - 1, of a rule that stands.
 * Order:   acquires; partner: the release in mlx5_eth_rx_tag_begin.
 * Thread:  any */
SPW_INLINE uint64_t mlx5_eth_queue_tag_frames(const struct mlx5_eth_queue *q, uint32_t tag)
{
	const struct mlx5_eth_tag *cell = &q->tag[tag & (MLX5_ETH_TAGS - 1)];

	return spw_thr_load_acq(&cell->tag) == tag ? spw_thr_load_rlx(&cell->frames) : 0;
}

/* Purpose: the burst functions of the queue's variant, as struct spw_port_queue wants them.
 * Thread:  setup */
void mlx5_eth_queue_calls(struct mlx5_eth_queue *q, struct spw_port_queue *pq);

/* Purpose: makes queue and burst function of pq keep raw completions (eth/raw.c).
 * Order:   once, after calls.
 * Owner:   the queue, until fini.
 * Thread:  setup
 * Errors:  -ENOMEM. */
int mlx5_eth_queue_raw_keep(struct mlx5_eth_queue *q, struct spw_port_queue *pq);

/* Purpose: makes queue and burst function of pq keep send completions
 *          (frame/spw_port_sent.h). Their CQ has stamps.
 * Order:   once, after calls.
 * Owner:   the queue, until fini.
 * Thread:  setup
 * Errors:  -ENOMEM. */
int mlx5_eth_queue_sent_keep(struct mlx5_eth_queue *q, struct spw_port_queue *pq);

/* ---- between the files; all by the owner ---- */

/* The burst function of a variant; NULL: no variant has these flags. */
mlx5_rx_fn *mlx5_eth_rx_variant(unsigned flags);
mlx5_tx_fn *mlx5_eth_tx_variant(unsigned flags);

void mlx5_eth_release_cyclic(void *vq, const uint32_t *slot, uint16_t cnt);
void mlx5_eth_release_striding(void *vq, const uint32_t *slot, uint16_t cnt);
uint16_t mlx5_eth_lend_cyclic(void *vq, uint32_t *slot, uint16_t cnt);
uint16_t mlx5_eth_lend_striding(void *vq, uint32_t *slot, uint16_t cnt);
uint16_t mlx5_eth_events(void *vq, struct spw_port_event *event, uint16_t cnt);

/* Purpose: handles a CQE at the consumer index that is not a frame. Error CQEs that the queue
 *          survives are counted and consumed, a burst of them at most; any other is noted for
 *          events. Data-path safe. */
void mlx5_eth_rx_odd(struct mlx5_eth_queue *q);
/* Purpose: notes an error for events. cqe: what mlx5_eth_tx_reap found; NULL: its counter is out of
 *          range. */
void mlx5_eth_tx_fault(struct mlx5_eth_queue *q, const uint8_t *cqe);
/* Purpose: notes an error for events. syndrome 0: a malformed CQE. */
void mlx5_eth_rx_fault(struct mlx5_eth_queue *q, uint32_t syndrome);

/* Purpose: the frames of the send WQEs before end were sent, and cqe says so: recycles their slots,
 *          counts them. */
void mlx5_eth_tx_sent(struct mlx5_eth_queue *q, uint32_t end, const uint8_t *cqe);

/* Purpose: polls for send completions and recycles the slots of the frames they cover. */
void mlx5_eth_tx_reap(struct mlx5_eth_queue *q);

/* Purpose: posts a receive WQE in every hole for which there are slots, and rings. */
void mlx5_eth_refill(struct mlx5_eth_queue *q);

/* ---- inline pieces that receive, send and error paths share ----
 *
 * A group is the memory of one striding WQE: 2^group_log2 neighbouring slots. group_ref counts its
 * strides that have not been returned yet (posted, lent or in TX); at 0 the group can be posted
 * again. */

/* Strides of a group were returned; the last one frees the group. */
SPW_INLINE void mlx5_eth_group_unref(struct mlx5_eth_queue *q, uint32_t group, uint32_t strides)
{
	q->group_ref[group] -= strides;
	if (q->group_ref[group] == 0)
		q->group_free[q->group_free_cnt++] = group;
}

/* The NIC has finished with the next strides of WQE *rq_ci. */
SPW_INLINE void mlx5_eth_strides_done(const struct mlx5_eth_queue *q, uint32_t *rq_ci,
				      uint32_t *stride_pos, uint32_t strides)
{
	*stride_pos += strides;
	if (*stride_pos == 1u << q->group_log2) {
		*stride_pos = 0;
		++*rq_ci;
	}
}

/* Returns slots that the queue owned to the pool or, striding, to their groups. */
SPW_INLINE void mlx5_eth_put(struct mlx5_eth_queue *q, const uint32_t *slot, uint32_t cnt,
			     const unsigned flags)
{
	if (!(flags & MLX5_F_STRIDING)) {
		spw_pool_put(q->pool, slot, cnt);
		return;
	}
	for (uint32_t i = 0; i < cnt; i++)
		mlx5_eth_group_unref(q, slot[i] >> q->group_log2, 1);
}

/* Keeps that the frames which are settled by now had left at `stamp`; 0: nobody knows when the last
 * ones did. Numbers are made of the counters, so the bursts count nothing for it. */
SPW_INLINE void mlx5_eth_sent_put(struct mlx5_eth_queue *q, uint64_t stamp)
{
	struct spw_port_sent *sent = &q->sent;

	sent->done[sent->cnt++ & sent->mask] = (struct spw_port_done){
		.number = q->stat.tx_frames + q->stat.tx_flushed, .stamp = stamp};
}

SPW_INLINE void mlx5_eth_count_drop(struct mlx5_eth_queue *q, enum spw_port_drop why, uint64_t n)
{
	spw_thr_count(&q->stat.dropped[why], n);
}

SPW_INLINE void mlx5_eth_count_err(struct mlx5_eth_queue *q, enum spw_port_err what, uint64_t n)
{
	spw_thr_count(&q->stat.err[what], n);
}

#endif
