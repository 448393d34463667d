/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A queue laid over its memory: checks, first contents of the rings, where the slots are.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "port/mlx5/mlx5_cqe.h"

/* ---- shape -------------------------------------------------------------------------------------------- */

static int check_ring(const char *what, uint32_t cnt, uint32_t max)
{
	if (!SPW_IS_POW2(cnt) || cnt > max)
		return spw_err(EINVAL, "mlx5: %s of %u entries is not a power of 2 up to %u", what, cnt, max);
	return 0;
}

static int check_striding(const struct spw_mlx5_queue_conf *conf)
{
	const struct spw_pool *pool = conf->pool;

	if (!SPW_IS_POW2(pool->slot_bytes))
		return spw_err(EINVAL, "mlx5: striding receive wants slots of a power of 2 bytes, not %zu", pool->slot_bytes);
	if (pool->slot_cnt >> conf->rq.strides_log2 < 2)
		return spw_err(ENOSPC, "mlx5: striding receive wants at least %u slots (two buffers of %u strides), the pool has %u",
			       2u << conf->rq.strides_log2, 1u << conf->rq.strides_log2, pool->slot_cnt);
	return 0;
}

static int check_shape(const struct spw_mlx5_queue_conf *conf)
{
	int rc = check_ring("completion queue", conf->cq.cnt, 1u << 22);

	if (!rc)
		rc = check_ring("receive queue", conf->rq.cnt, 1u << 15);
	if (!rc && conf->sq.cnt)
		rc = check_ring("send queue", conf->sq.cnt, 1u << 15);
	if (!rc && conf->sq.cnt)
		rc = check_ring("send completion queue", conf->tx_cq.cnt, 1u << 22);
	if (!rc && (conf->cq.stride != MLX5_CQE_BYTES || (conf->sq.cnt && conf->tx_cq.stride != MLX5_CQE_BYTES)))
		rc = spw_err(EINVAL, "mlx5: completion entries must be 64 bytes; unset MLX5_CQE_SIZE");
	if (!rc && !spw_mlx5_rx_variant(conf->flags))
		rc = spw_err(EINVAL, "mlx5: no receive variant has the flags 0x%x", conf->flags);
	if (!rc && (conf->refill_min == 0 || conf->refill_min > conf->rq.cnt))
		rc = spw_err(EINVAL, "mlx5: refill after %u of %u entries", conf->refill_min, conf->rq.cnt);
	if (!rc && conf->flags & MLX5_F_STRIDING)
		rc = check_striding(conf);
	if (!rc && conf->cq.cnt < conf->rq.cnt << (conf->flags & MLX5_F_STRIDING ? conf->rq.strides_log2 : 0))
		rc = spw_err(EINVAL, "mlx5: a completion queue of %u entries can overrun: %u frames may be under way", conf->cq.cnt,
			     conf->rq.cnt << conf->rq.strides_log2);
	return rc;
}

/* ---- set-up --------------------------------------------------------------------------------------------- */

static void lay_rx(struct spw_mlx5_queue *q, const struct spw_mlx5_cqmem *cq, const struct spw_mlx5_rqmem *rq)
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
}

static void init_rx(struct spw_mlx5_queue *q, const struct spw_mlx5_queue_conf *conf)
{
	bool striding = conf->flags & MLX5_F_STRIDING;

	lay_rx(q, &conf->cq, &conf->rq);
	q->seg_off = striding ? 16 : 0;
	q->pool = conf->pool;
	q->refill_min = conf->refill_min;
	q->room_bytes = (uint32_t)SPW_MIN(conf->pool->slot_bytes, (size_t)SPW_DESC_LEN_MAX);
	q->desc_tail = conf->pool->region->id | (uint64_t)conf->port << 16;
	q->group_log2 = striding ? conf->rq.strides_log2 : 0;
}

/* lkey and size of each receive WQE, for good. */
static void init_wqes(struct spw_mlx5_queue *q)
{
	uint64_t bytes = q->flags & MLX5_F_STRIDING ? (uint64_t)q->pool->slot_bytes << q->group_log2 : q->room_bytes;

	for (uint32_t i = 0; i <= q->rq_mask; i++) {
		uint8_t *wqe = q->wqe + ((size_t)i << q->rq_shift), *seg = wqe + q->seg_off;

		memset(wqe, 0, (size_t)1 << q->rq_shift);
		spw_prm_wqe_data_set_byte_count(seg, bytes);
		spw_prm_wqe_data_set_lkey(seg, q->rq_lkey);
		if (!(q->flags & MLX5_F_STRIDING) && (1u << q->rq_shift) > 16) /* room for more segments: end the list */
			spw_prm_wqe_data_set_lkey(seg + 16, SPW_PRM_INVALID_LKEY);
	}
}

static void lay_tx(struct spw_mlx5_queue *q, const struct spw_mlx5_cqmem *cq, const struct spw_mlx5_sqmem *sq)
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

int spw_mlx5_rx_renew(struct spw_mlx5_queue *q, const struct spw_mlx5_cqmem *cq, const struct spw_mlx5_rqmem *rq, bool cq_new)
{
	if (cq->cnt - 1 != q->cq_mask || rq->cnt - 1 != q->rq_mask || cq->stride != MLX5_CQE_BYTES)
		return spw_err(EINVAL, "mlx5: the new receive queue has %u and %u entries, not %u and %u", cq->cnt, rq->cnt,
			       q->cq_mask + 1, q->rq_mask + 1);
	lay_rx(q, cq, rq);
	if (cq_new)
		q->cq_ci = 0;
	init_wqes(q);
	return 0;
}

int spw_mlx5_tx_renew(struct spw_mlx5_queue *q, const struct spw_mlx5_cqmem *cq, const struct spw_mlx5_sqmem *sq, bool cq_new)
{
	if (cq->cnt - 1 != q->tx_cq_mask || sq->cnt - 1 != q->sq_mask || cq->stride != MLX5_CQE_BYTES)
		return spw_err(EINVAL, "mlx5: the new send queue has %u and %u entries, not %u and %u", cq->cnt, sq->cnt,
			       q->tx_cq_mask + 1, q->sq_mask + 1);
	lay_tx(q, cq, sq);
	if (cq_new)
		q->tx_cq_ci = 0;
	return 0;
}

static int init_tables(struct spw_mlx5_queue *q)
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
	if (!q->slot_of || (q->sq && (!q->sq_slot || !q->sq_len)) || (q->group_cnt && (!q->group_ref || !q->group_free)))
		return spw_err(ENOMEM, "mlx5: no memory for the slot tables of queue %u", q->index);
	return 0;
}

/* A striding queue runs on whole groups: it takes every slot of the pool; those past the last whole group go back. */
static int take_groups(struct spw_mlx5_queue *q)
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
		return spw_err(EBUSY, "mlx5: a striding queue needs its pool for itself, but %u of %u slots are in use",
			       cnt - got, cnt);
	for (uint32_t g = q->group_cnt; g-- > 0;)
		q->group_free[q->group_free_cnt++] = g;
	q->spare = q->group_cnt;
	return 0;
}

int spw_mlx5_queue_init(struct spw_mlx5_queue *q, const struct spw_mlx5_queue_conf *conf)
{
	int rc = check_shape(conf);

	*q = (struct spw_mlx5_queue){ 0 };
	if (rc)
		return rc;
	q->flags = conf->flags;
	q->index = conf->index;
	q->ops = conf->ops;
	init_rx(q, conf);
	if (conf->sq.cnt)
		lay_tx(q, &conf->tx_cq, &conf->sq);
	rc = init_tables(q);
	if (!rc && q->flags & MLX5_F_STRIDING)
		rc = take_groups(q);
	if (rc) {
		spw_mlx5_queue_fini(q);
		return rc;
	}
	init_wqes(q);
	return 0;
}

void spw_mlx5_queue_arm(struct spw_mlx5_queue *q)
{
	spw_mlx5_refill(q);
}

/* ---- slots ------------------------------------------------------------------------------------------------ */

static void stride_home(struct spw_mlx5_queue *q)
{
	const uint32_t strides = 1u << q->group_log2;

	for (; q->rq_ci != q->rq_pi; q->rq_ci++, q->stride_pos = 0)
		mlx5_group_unref(q, q->slot_of[q->rq_ci & q->rq_mask] >> q->group_log2, strides - q->stride_pos);
}

void spw_mlx5_rx_home(struct spw_mlx5_queue *q)
{
	if (q->flags & MLX5_F_STRIDING)
		stride_home(q);
	else
		for (; q->rq_ci != q->rq_pi; q->rq_ci++)
			spw_pool_put(q->pool, &q->slot_of[q->rq_ci & q->rq_mask], 1);
	q->rq_ci = q->rq_pi = q->stride_pos = 0;
}

void spw_mlx5_tx_home(struct spw_mlx5_queue *q)
{
	spw_thr_count(&q->stat.tx_flushed, q->sq_pi - q->sq_ci);
	for (; q->sq_ci != q->sq_pi; q->sq_ci++)
		mlx5_put(q, &q->sq_slot[q->sq_ci & q->sq_mask], 1, q->flags);
	q->sq_ci = q->sq_pi = 0;
}

#define GROUP_GONE UINT32_MAX /* group_ref of a group whose slots went back to the pool */

/* Every group that is whole goes to the pool slot by slot; those with strides still lent follow in spw_mlx5_queue_fini. */
static void groups_disband(struct spw_mlx5_queue *q)
{
	if (q->spare != q->group_cnt) {
		mlx5_group_unref(q, q->spare, (1u << q->group_log2) - q->spare_pos);
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

void spw_mlx5_queue_disarm(struct spw_mlx5_queue *q)
{
	if (!q->slot_of)
		return;
	spw_mlx5_rx_home(q);
	if (q->sq)
		spw_mlx5_tx_home(q);
	if (q->flags & MLX5_F_STRIDING)
		groups_disband(q);
}

void spw_mlx5_queue_fini(struct spw_mlx5_queue *q)
{
	if (q->group_free)
		groups_disband(q);
	free(q->slot_of);
	free(q->sq_slot);
	free(q->sq_len);
	free(q->group_ref);
	free(q->group_free);
	*q = (struct spw_mlx5_queue){ 0 };
}

/* Strides that are neither lent nor in TX: home in a group that is not whole yet, waiting in a ring, spare, or free. */
static uint32_t strides_in_rx(const struct spw_mlx5_queue *q)
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

void spw_mlx5_queue_slots(const struct spw_mlx5_queue *q, struct spw_port_slots *slots_out)
{
	slots_out->in_rx = q->flags & MLX5_F_STRIDING ? strides_in_rx(q) : q->rq_pi - q->rq_ci;
	slots_out->in_tx = q->sq_pi - q->sq_ci;
	slots_out->lent = q->lent_cnt;
}

/* ---- slots by burst -------------------------------------------------------------------------------------- */

void spw_mlx5_release_cyclic(void *vq, const uint32_t *slot, uint16_t cnt)
{
	struct spw_mlx5_queue *q = vq;

	spw_pool_put(q->pool, slot, cnt);
	q->lent_cnt -= cnt;
}

void spw_mlx5_release_striding(void *vq, const uint32_t *slot, uint16_t cnt)
{
	struct spw_mlx5_queue *q = vq;

	mlx5_put(q, slot, cnt, MLX5_F_STRIDING);
	q->lent_cnt -= cnt;
}

uint16_t spw_mlx5_lend_cyclic(void *vq, uint32_t *slot, uint16_t cnt)
{
	struct spw_mlx5_queue *q = vq;
	uint32_t n = spw_pool_get(q->pool, slot, cnt);

	q->lent_cnt += n;
	return (uint16_t)n;
}

/* One group at a time is opened for single slots. */
uint16_t spw_mlx5_lend_striding(void *vq, uint32_t *slot, uint16_t cnt)
{
	struct spw_mlx5_queue *q = vq;
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

static uint16_t tx_none(void *vq, struct spw_desc **desc, uint16_t cnt)
{
	(void)vq;
	(void)desc;
	(void)cnt;
	return 0;
}

void spw_mlx5_queue_calls(struct spw_mlx5_queue *q, struct spw_port_queue *pq)
{
	bool striding = q->flags & MLX5_F_STRIDING;

	*pq = (struct spw_port_queue){
		.rx_burst = spw_mlx5_rx_variant(q->flags),
		.release_burst = striding ? spw_mlx5_release_striding : spw_mlx5_release_cyclic,
		.tx_burst = q->sq ? spw_mlx5_tx_variant(q->flags) : tx_none,
		.events = spw_mlx5_events,
		.lend_burst = striding ? spw_mlx5_lend_striding : spw_mlx5_lend_cyclic,
		.q = q,
		.no_slot = &q->stat.err[SPW_PORT_ERR_no_slot],
	};
}
