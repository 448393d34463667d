/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Set-up and tear-down of a raw Ethernet queue over given memory, and where its slots are. Called
 * by eth/port.c and eth/recover.c through eth/queue.h; touches no object, only memory.
 *
 * Slots. A cyclic queue takes slots from the pool as it posts. A striding queue takes the whole
 * pool at set-up, cuts it into groups (one per WQE), and keeps them on its own stack of free
 * groups.
 *
 *   conf: memory of CQ, RQ, SQ (obj.c), pool, flags
 *     ─► shape checked ─► pointers, masks, shifts ─► tables of slots ─► constant fields of WQEs
 *   arm      receives posted                          disarm   slots returned; lent ones follow
 *   attach   the same queue over new objects          fini     tables freed
 *
 *   striding   pool ─► groups of 2^group_log2 slots ─┬─ posted: one WQE each
 *                                                    ├─ free: on the stack group_free
 *                                                    └─ spare: cut into single slots to lend
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "port/mlx5/eth/queue.h"

/* ---- shape ---- */

static int mlx5_eth_check_ring(const char *what, uint32_t cnt, uint32_t max)
{
	if (!SPW_IS_POW2(cnt) || cnt > max)
		return spw_err(EINVAL, "mlx5: %s of %u entries is not a power of 2 up to %u", what,
			       cnt, max);
	return 0;
}

static int mlx5_eth_check_striding(const struct mlx5_eth_queue_conf *conf)
{
	const struct spw_pool *pool = conf->pool;

	if (!SPW_IS_POW2(pool->slot_bytes))
		return spw_err(EINVAL,
			       "mlx5: striding receive needs slots of a power of 2 bytes, not %zu",
			       pool->slot_bytes);
	if (pool->slot_cnt >> conf->rq.strides_log2 < 2)
		return spw_err(ENOSPC,
			       "mlx5: striding receive needs at least %u slots (two buffers of %u "
			       "strides), the pool has %u",
			       2u << conf->rq.strides_log2, 1u << conf->rq.strides_log2,
			       pool->slot_cnt);
	return 0;
}

/* The bursts rely on all of this and check nothing of it: rings are powers of 2, and the CQ never
 * overruns. */
static int mlx5_eth_check_shape(const struct mlx5_eth_queue_conf *conf)
{
	int rc = mlx5_eth_check_ring("completion queue", conf->cq.cnt, 1u << 22);

	if (!rc)
		rc = mlx5_eth_check_ring("receive queue", conf->rq.cnt, 1u << 15);
	if (!rc && conf->sq.cnt)
		rc = mlx5_eth_check_ring("send queue", conf->sq.cnt, 1u << 15);
	if (!rc && conf->sq.cnt)
		rc = mlx5_eth_check_ring("send completion queue", conf->tx_cq.cnt, 1u << 22);
	if (!rc && (conf->cq.stride != MLX5_CQE_BYTES ||
		    (conf->sq.cnt && conf->tx_cq.stride != MLX5_CQE_BYTES)))
		rc = spw_err(EINVAL,
			     "mlx5: completion entries must be 64 bytes; unset MLX5_CQE_SIZE");
	if (!rc && !mlx5_eth_rx_variant(conf->flags))
		rc = spw_err(EINVAL, "mlx5: no receive variant has the flags 0x%x", conf->flags);
	if (!rc && (conf->refill_min == 0 || conf->refill_min > conf->rq.cnt))
		rc = spw_err(EINVAL, "mlx5: refill after %u of %u entries", conf->refill_min,
			     conf->rq.cnt);
	if (!rc && conf->flags & MLX5_F_STRIDING)
		rc = mlx5_eth_check_striding(conf);
	if (!rc && !!(conf->flags & MLX5_F_SPLIT) != spw_pool_is_split(conf->pool))
		rc = spw_err(EINVAL, "mlx5: a pool that is split needs a queue that splits frames");
	if (!rc &&
	    conf->cq.cnt < conf->rq.cnt
				   << (conf->flags & MLX5_F_STRIDING ? conf->rq.strides_log2 : 0))
		rc = spw_err(EINVAL,
			     "mlx5: a completion queue of %u entries can overrun: %u frames may be "
			     "under way",
			     conf->cq.cnt, conf->rq.cnt << conf->rq.strides_log2);
	return rc;
}

/* ---- set-up ---- */

/* Where the ring lies now; after re-creation it may lie elsewhere. */
static void mlx5_eth_lay_rx(struct mlx5_eth_queue *q, const struct mlx5_cqmem *cq,
			    const struct mlx5_rqmem *rq)
{
	q->cqe = cq->buf;
	q->cq_mask = cq->cnt - 1;
	q->cq_log2 = spw_log2_floor64(cq->cnt);
	q->cq_db = cq->dbrec ? cq->dbrec : &q->db_ignored[0];
	q->wqe = rq->buf;
	q->rq_mask = rq->cnt - 1;
	q->rq_shift = spw_log2_floor64(rq->stride);
	q->rq_db = rq->dbrec;
	q->rq_lkey = rq->lkey;
	q->rq_head_lkey = rq->head_lkey;
}

/* Beyond mlx5_eth_lay_rx it sets what re-creation of the objects does not change. */
static void mlx5_eth_init_rx(struct mlx5_eth_queue *q, const struct mlx5_eth_queue_conf *conf)
{
	bool striding = conf->flags & MLX5_F_STRIDING;

	mlx5_eth_lay_rx(q, &conf->cq, &conf->rq);
	q->seg_off = striding ? 16 : 0;
	q->pool = conf->pool;
	q->refill_min = conf->refill_min;
	q->room_bytes = (uint32_t)SPW_MIN(conf->pool->slot_bytes, (size_t)SPW_DESC_LEN_MAX);
	q->desc_tail = conf->pool->region->id | (uint64_t)conf->port << 16;
	q->group_log2 = striding ? conf->rq.strides_log2 : 0;
}

static uint8_t *mlx5_eth_seg_put(uint8_t *seg, uint64_t bytes, uint32_t lkey)
{
	spw_prm_wqe_data_set_byte_count(seg, bytes);
	spw_prm_wqe_data_set_lkey(seg, lkey);
	return seg + 16;
}

/* Writes what never changes of each receive WQE: keys and sizes of its data segments. */
static void mlx5_eth_init_wqes(struct mlx5_eth_queue *q)
{
	const uint32_t head_bytes = q->flags & MLX5_F_SPLIT ? q->pool->head_bytes : 0;
	uint64_t bytes = q->flags & MLX5_F_STRIDING ? (uint64_t)q->pool->slot_bytes << q->group_log2
						    : q->room_bytes - head_bytes;

	for (uint32_t i = 0; i <= q->rq_mask; i++) {
		uint8_t *wqe = q->wqe + ((size_t)i << q->rq_shift), *seg = wqe + q->seg_off,
			*end = wqe + ((size_t)1 << q->rq_shift);

		memset(wqe, 0, (size_t)1 << q->rq_shift);
		if (head_bytes)
			seg = mlx5_eth_seg_put(seg, head_bytes, q->rq_head_lkey);
		seg = mlx5_eth_seg_put(seg, bytes, q->rq_lkey);
		if (seg < end) /* room for more segments: end the list */
			spw_prm_wqe_data_set_lkey(seg, SPW_PRM_INVALID_LKEY);
	}
}

/* A CQ without a doorbell record that counts gets a word of ours, so a burst stores in any case. */
static void mlx5_eth_lay_tx(struct mlx5_eth_queue *q, const struct mlx5_cqmem *cq,
			    const struct mlx5_sqmem *sq)
{
	uint32_t ds = q->flags & MLX5_F_INLINE ? 4 : 3;

	q->tx_cqe = cq->buf;
	q->tx_cq_mask = cq->cnt - 1;
	q->tx_cq_log2 = spw_log2_floor64(cq->cnt);
	q->tx_cq_db = cq->dbrec ? cq->dbrec : &q->db_ignored[1];
	q->sq = sq->buf;
	q->sq_mask = sq->cnt - 1;
	q->sq_db = sq->dbrec;
	q->sq_lkey = sq->lkey;
	q->qpn_ds = sq->qpn << 8 | ds;
	q->bf = sq->bf;
	q->bf_toggle = sq->bf_bytes;
	q->bf_off = 0;
}

/* cq_new: its entries are of no lap yet, so the index begins at 0. Slots were returned before. */
int mlx5_eth_rx_attach(struct mlx5_eth_queue *q, const struct mlx5_cqmem *cq,
		       const struct mlx5_rqmem *rq, bool cq_new)
{
	if (cq->cnt - 1 != q->cq_mask || rq->cnt - 1 != q->rq_mask || cq->stride != MLX5_CQE_BYTES)
		return spw_err(EINVAL,
			       "mlx5: the new receive queue has %u and %u entries, not %u and %u",
			       cq->cnt, rq->cnt, q->cq_mask + 1, q->rq_mask + 1);
	mlx5_eth_lay_rx(q, cq, rq);
	if (cq_new)
		q->cq_ci = 0;
	mlx5_eth_init_wqes(q);
	return 0;
}

/* As mlx5_eth_rx_attach, for the send queue. */
int mlx5_eth_tx_attach(struct mlx5_eth_queue *q, const struct mlx5_cqmem *cq,
		       const struct mlx5_sqmem *sq, bool cq_new)
{
	if (cq->cnt - 1 != q->tx_cq_mask || sq->cnt - 1 != q->sq_mask ||
	    cq->stride != MLX5_CQE_BYTES)
		return spw_err(EINVAL,
			       "mlx5: the new send queue has %u and %u entries, not %u and %u",
			       cq->cnt, sq->cnt, q->tx_cq_mask + 1, q->sq_mask + 1);
	mlx5_eth_lay_tx(q, cq, sq);
	if (cq_new)
		q->tx_cq_ci = 0;
	return 0;
}

/* One entry per WQE: its slot, and for sending its length. Striding: one reference count per group.
 */
static int mlx5_eth_init_tables(struct mlx5_eth_queue *q)
{
	q->slot_of = calloc(q->rq_mask + 1, sizeof(*q->slot_of));
	if (q->sq) {
		q->sq_slot = calloc(q->sq_mask + 1, sizeof(*q->sq_slot));
		q->sq_len = calloc(q->sq_mask + 1, sizeof(*q->sq_len));
	}
	if (q->flags & MLX5_F_STRIDING) {
		q->group_cnt = q->pool->slot_cnt >> q->group_log2;
		q->group_ref = calloc(q->group_cnt, sizeof(*q->group_ref));
		q->group_free = calloc(q->group_cnt, sizeof(*q->group_free));
	}
	if (!q->slot_of || (q->sq && (!q->sq_slot || !q->sq_len)) ||
	    (q->group_cnt && (!q->group_ref || !q->group_free)))
		return spw_err(ENOMEM, "mlx5: no memory for the slot tables of queue %u", q->index);
	return 0;
}

/* Takes every slot of the pool into groups; those past the last complete group are returned. */
static int mlx5_eth_take_groups(struct mlx5_eth_queue *q)
{
	uint32_t cnt = q->pool->slot_cnt, whole = q->group_cnt << q->group_log2, tail = 0;
	uint32_t *slot = calloc(cnt, sizeof(*slot));

	if (!slot)
		return spw_err(ENOMEM, "mlx5: no memory for the slot tables of queue %u", q->index);
	uint32_t got = spw_pool_get(q->pool, slot, cnt);

	for (uint32_t i = 0; i < got; i++)
		if (slot[i] >= whole)
			slot[tail++] = slot[i];
	spw_pool_put(q->pool, slot, got == cnt ? tail : 0);
	free(slot);
	if (got != cnt)
		return spw_err(EBUSY,
			       "mlx5: a striding queue needs its pool for itself, but %u of %u "
			       "slots are in use",
			       cnt - got, cnt);
	for (uint32_t g = q->group_cnt; g-- > 0;)
		q->group_free[q->group_free_cnt++] = g;
	q->spare = q->group_cnt;
	return 0;
}

/* On an error all is undone, slots included. */
int mlx5_eth_queue_init(struct mlx5_eth_queue *q, const struct mlx5_eth_queue_conf *conf)
{
	int rc = mlx5_eth_check_shape(conf);

	*q = (struct mlx5_eth_queue){0};
	if (rc)
		return rc;
	q->flags = conf->flags;
	q->index = conf->index;
	q->ops = conf->ops;
	q->rx_cell = &q->tag[0]; /* of tag 0 */
	mlx5_eth_init_rx(q, conf);
	if (conf->sq.cnt)
		mlx5_eth_lay_tx(q, &conf->tx_cq, &conf->sq);
	rc = mlx5_eth_init_tables(q);
	if (!rc && q->flags & MLX5_F_STRIDING)
		rc = mlx5_eth_take_groups(q);
	if (rc) {
		mlx5_eth_queue_fini(q);
		return rc;
	}
	mlx5_eth_init_wqes(q);
	return 0;
}

/* Posts what the ring takes; the WQ is in RDY. */
void mlx5_eth_queue_arm(struct mlx5_eth_queue *q)
{
	mlx5_eth_refill(q);
}

/* ---- slots ---- */

/* Of the WQE in progress only the strides that were not consumed yet. Consumed ones are lent, and
 * return one by one. */
static void mlx5_eth_recycle_strides(struct mlx5_eth_queue *q)
{
	const uint32_t strides = 1u << q->group_log2;

	for (; q->rq_ci != q->rq_pi; q->rq_ci++, q->stride_pos = 0)
		mlx5_eth_group_unref(q, q->slot_of[q->rq_ci & q->rq_mask] >> q->group_log2,
				     strides - q->stride_pos);
}

/* Positions start at 0 again, as the reset queue does. */
void mlx5_eth_rx_recycle(struct mlx5_eth_queue *q)
{
	if (q->flags & MLX5_F_STRIDING)
		mlx5_eth_recycle_strides(q);
	else
		for (; q->rq_ci != q->rq_pi; q->rq_ci++)
			spw_pool_put(q->pool, &q->slot_of[q->rq_ci & q->rq_mask], 1);
	q->rq_ci = q->rq_pi = q->stride_pos = 0;
}

/* What was posted and not completed was perhaps sent: it counts as flushed. */
void mlx5_eth_tx_recycle(struct mlx5_eth_queue *q)
{
	const uint32_t flushed = q->sq_pi - q->sq_ci;

	spw_thr_count(&q->stat.tx_flushed, flushed);
	if (flushed && q->flags & MLX5_F_SENT)
		mlx5_eth_sent_put(q, 0);
	for (; q->sq_ci != q->sq_pi; q->sq_ci++)
		mlx5_eth_put(q, &q->sq_slot[q->sq_ci & q->sq_mask], 1, q->flags);
	q->sq_ci = q->sq_pi = 0;
}

#define GROUP_GONE UINT32_MAX /* group_ref of a group whose slots were returned to the pool */

/* Returns every complete group to the pool slot by slot; groups with strides still lent follow in
 * mlx5_eth_queue_fini. */
static void mlx5_eth_groups_disband(struct mlx5_eth_queue *q)
{
	if (q->spare != q->group_cnt) {
		mlx5_eth_group_unref(q, q->spare, (1u << q->group_log2) - q->spare_pos);
		q->spare = q->group_cnt;
	}
	while (q->group_free_cnt) {
		uint32_t group = q->group_free[--q->group_free_cnt], first = group << q->group_log2;

		q->group_ref[group] = GROUP_GONE;

		for (uint32_t i = 0; i < 1u << q->group_log2; i++) {
			uint32_t slot = first + i;

			spw_pool_put(q->pool, &slot, 1);
		}
	}
}

/* The device touches no slot any more. Fine on a queue that was never set up. */
void mlx5_eth_queue_disarm(struct mlx5_eth_queue *q)
{
	if (!q->slot_of)
		return;
	mlx5_eth_rx_recycle(q);
	if (q->sq)
		mlx5_eth_tx_recycle(q);
	if (q->flags & MLX5_F_STRIDING)
		mlx5_eth_groups_disband(q);
}

/* Groups whose last strides were released since go back to the pool here. */
void mlx5_eth_queue_fini(struct mlx5_eth_queue *q)
{
	if (q->group_free)
		mlx5_eth_groups_disband(q);
	free(q->slot_of);
	free(q->sq_slot);
	free(q->sq_len);
	free(q->group_ref);
	free(q->group_free);
	free(q->raw);
	free(q->sent.done);
	*q = (struct mlx5_eth_queue){0};
}

/* Counts strides that are neither lent nor in TX: returned to an incomplete group, posted, spare,
 * or in a free group. */
static uint32_t mlx5_eth_strides_in_rx(const struct mlx5_eth_queue *q)
{
	const uint32_t strides = 1u << q->group_log2;
	uint32_t n = 0;

	for (uint32_t g = 0; g < q->group_cnt; g++)
		n += q->group_ref[g] == GROUP_GONE ? 0 : strides - q->group_ref[g];
	n += ((q->rq_pi - q->rq_ci) << q->group_log2) - q->stride_pos;
	if (q->spare != q->group_cnt)
		n += strides - q->spare_pos;
	return n;
}

void mlx5_eth_queue_slots(const struct mlx5_eth_queue *q, struct spw_port_slots *slots_out)
{
	slots_out->in_rx = q->flags & MLX5_F_STRIDING ? mlx5_eth_strides_in_rx(q)
						      : q->rq_pi - q->rq_ci;
	slots_out->in_tx = q->sq_pi - q->sq_ci;
	slots_out->lent = q->lent_cnt;
}

/* ---- empty slots ---- */

/* Empty slots for messages that this side starts; they return by release or transmit. */
uint16_t mlx5_eth_lend_cyclic(void *vq, uint32_t *slot, uint16_t cnt)
{
	struct mlx5_eth_queue *q = vq;
	uint32_t n = spw_pool_get(q->pool, slot, cnt);

	q->lent_cnt += n;
	return (uint16_t)n;
}

/* Cuts single slots from one open group at a time. */
uint16_t mlx5_eth_lend_striding(void *vq, uint32_t *slot, uint16_t cnt)
{
	struct mlx5_eth_queue *q = vq;
	uint16_t n = 0;

	for (; n < cnt; n++) {
		if (q->spare == q->group_cnt) {
			if (!q->group_free_cnt)
				break;
			q->spare = q->group_free[--q->group_free_cnt];
			q->group_ref[q->spare] = 1u << q->group_log2;
			q->spare_pos = 0;
		}
		slot[n] = (q->spare << q->group_log2) + q->spare_pos;
		if (++q->spare_pos == 1u << q->group_log2)
			q->spare = q->group_cnt;
	}
	q->lent_cnt += n;
	return n;
}

/* A queue without a send side, or whose frames lie in two pieces, refuses every frame; the pipe
 * counts them tx_down. */
static uint16_t mlx5_eth_tx_none(void *vq, struct spw_desc **desc, uint16_t cnt)
{
	(void)vq;
	(void)desc;
	(void)cnt;
	return 0;
}

/* The variant is chosen here; a burst then tests no configuration. */
void mlx5_eth_queue_calls(struct mlx5_eth_queue *q, struct spw_port_queue *pq)
{
	bool striding = q->flags & MLX5_F_STRIDING;

	*pq = (struct spw_port_queue){
		.rx_burst = mlx5_eth_rx_variant(q->flags),
		.release_burst = striding ? mlx5_eth_release_striding : mlx5_eth_release_cyclic,
		.tx_burst = q->sq && !(q->flags & MLX5_F_SPLIT) ? mlx5_eth_tx_variant(q->flags)
								: mlx5_eth_tx_none,
		.events = mlx5_eth_events,
		.lend_burst = striding ? mlx5_eth_lend_striding : mlx5_eth_lend_cyclic,
		.q = q,
		.no_slot = &q->stat.err[SPW_PORT_ERR_no_slot],
	};
}
