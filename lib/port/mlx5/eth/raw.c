/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The reader of raw completions (port/spw_port_raw.h): a queue over memory of its own, set to the
 * state in which a burst began, and the burst function of its variant. Called by lib/pipe's replay.
 *
 * A reader may be given any bytes. What a burst indexes by is checked here; what it reads of a CQE
 * it checks itself, as it does before a NIC.
 *
 * The reader's ring may be smaller than the queue's was: a burst reaches no further than
 * SPW_BURST_MAX entries, so it only matters how far the end of the lap is, and which lap it is:
 *
 *   queue    lap 5: |............................ci.....|      the same distance to the end
 *   reader   lap 5:                         |....ci.....|
 *
 *   keep     burst functions with MLX5_F_RAW ─► for each burst a head, then runs of entries
 *   open     shape of the recorded queue ─► a queue over plain memory, with the same variant
 *   run      head and entries ─► checked ─► ring as the NIC had left it ─► the burst ─► descriptors
 */
#include <errno.h>
#include <stdlib.h>

#include "base/spw_err.h"
#include "port/mlx5/eth/raw.h"

#define RING_LOG2   12u                 /* of the reader, if the queue's is not smaller */
#define REACH       (SPW_BURST_MAX + 1) /* entries from cq_ci on that a burst can read */
#define GROUP_MAX   9u                  /* log2 of the strides of a WQE */
#define BURST_LOG2  6u
#define STRIDE_WQE  32u
#define CYCLIC_WQE  16u
#define SLOT_BYTES  64u /* nobody looks into them */
#define CSUM_MASK   (SPW_DESC_L3_OK | SPW_DESC_L4_OK)
#define SHAPE_FLAGS (MLX5_F_STAMP | MLX5_F_COMPRESSED | MLX5_F_ENHANCED | MLX5_F_STRIDING)

/* One for each recorded queue; the reader owns all of its memory. */
struct spw_port_raw_reader {
	struct mlx5_eth_queue q;
	mlx5_rx_fn *burst;
	struct spw_region region;
	struct spw_pool pool;
	uint8_t *cq, *wqe;
	spw_be32 db;
	struct spw_port_raw_shape shape;
	uint32_t ring_log2;
};

/* ---- keeping ---- */

/* Called in setup, after queue_setup. The buffer is a sink (nowhere) until the pipe names its own.
 */
int mlx5_eth_queue_raw_keep(struct mlx5_eth_queue *q, struct spw_port_queue *pq)
{
	if (q->flags & MLX5_F_SPLIT)
		return spw_err(ENOTSUP, "a queue that splits frames keeps no raw completions");
	q->raw = calloc(1, sizeof(*q->raw));
	if (!q->raw)
		return spw_err(ENOMEM, "no memory for raw completions");
	q->raw->out.to = q->raw->nowhere;
	q->raw->out.shape = (struct spw_port_raw_shape){
		.kind = SPW_PORT_RAW_MLX5_ETH,
		.flags = q->flags & SHAPE_FLAGS,
		.room_bytes = q->room_bytes,
		.cq_log2 = (uint8_t)q->cq_log2,
		.rq_log2 = (uint8_t)spw_log2_floor64(q->rq_mask + 1),
		.group_log2 = (uint8_t)q->group_log2,
	};
	q->flags |= MLX5_F_RAW;
	pq->rx_burst = mlx5_eth_rx_variant(q->flags);
	pq->raw = &q->raw->out;
	return 0;
}

/* Called by a burst for entries without compression: columns of the few fields that it reads. */
void mlx5_eth_raw_put_plain(struct mlx5_eth_queue *q, uint32_t ci, uint32_t cnt)
{
	struct spw_port_raw *raw = &q->raw->out;
	struct mlx5_eth_raw_run *run = (void *)(raw->to + raw->bytes);
	uint32_t widths = spw_columns_put(mlx5_eth_raw_row, mlx5_cqe_at(q->cqe, q->cq_mask, ci),
					  MLX5_CQE_BYTES / 8, cnt, (void *)(run + 1));

	*run = (struct mlx5_eth_raw_run){ci, (uint16_t)cnt, true, (uint8_t)widths};
	raw->bytes += (uint32_t)sizeof(*run) + spw_columns_bytes(widths, cnt);
}

/* ---- a reader ---- */

/* Shapes come from a file: what a shift or an allocation uses is limited here. */
static bool mlx5_eth_raw_shape_is_sound(const struct spw_port_raw_shape *s)
{
	return s->kind == SPW_PORT_RAW_MLX5_ETH && !(s->flags & ~SHAPE_FLAGS) &&
	       s->group_log2 <= (s->flags & MLX5_F_STRIDING ? GROUP_MAX : 0) && s->cq_log2 <= 22 &&
	       s->rq_log2 <= 15 && s->rq_log2 + s->group_log2 <= s->cq_log2 && s->room_bytes;
}

static int mlx5_eth_raw_memory_open(struct spw_port_raw_reader *r, uint32_t rq_cnt)
{
	uint32_t slots = SPW_MAX(rq_cnt, 2u) << r->shape.group_log2;
	size_t cq_bytes = MLX5_CQE_BYTES << r->ring_log2;

	r->region.bytes = (size_t)slots * SLOT_BYTES;
	r->region.host_va = aligned_alloc(SLOT_BYTES, r->region.bytes);
	r->cq = aligned_alloc(MLX5_CQE_BYTES, cq_bytes);
	r->wqe = aligned_alloc(STRIDE_WQE, (size_t)rq_cnt * STRIDE_WQE);
	if (!r->region.host_va || !r->cq || !r->wqe)
		return spw_err(ENOMEM, "no memory for a queue of raw completions");
	memset(r->cq, 0, cq_bytes);
	for (uint32_t i = 0; i < 1u << r->ring_log2; i++)
		r->cq[i * MLX5_CQE_BYTES + MLX5_CQE_OP_OWN] = MLX5_OP_INVALID;
	return spw_pool_init(&r->pool, &r->region, 0, SLOT_BYTES, slots);
}

/* The slots are the queue's from the start; nothing is ever posted anew. */
static int mlx5_eth_raw_queue_open(struct spw_port_raw_reader *r, uint32_t rq_cnt)
{
	bool striding = r->shape.flags & MLX5_F_STRIDING;
	struct mlx5_eth_queue_conf conf = {
		.cq = {r->cq, NULL, 1u << r->ring_log2, MLX5_CQE_BYTES},
		.rq = {.buf = r->wqe,
		       .dbrec = &r->db,
		       .cnt = rq_cnt,
		       .stride = striding ? STRIDE_WQE : CYCLIC_WQE,
		       .strides_log2 = r->shape.group_log2},
		.pool = &r->pool,
		.flags = r->shape.flags,
		.refill_min = 1,
	};
	int rc = mlx5_eth_queue_init(&r->q, &conf);

	if (rc)
		return spw_err(EPROTO, "no queue has the shape of these raw completions");
	r->q.refill_min = UINT32_MAX;
	r->q.room_bytes = r->shape.room_bytes;
	r->burst = mlx5_eth_rx_variant(r->shape.flags);
	return 0;
}

int spw_port_raw_open(const struct spw_port_raw_shape *shape,
		      struct spw_port_raw_reader **reader_out)
{
	struct spw_port_raw_reader *r;
	uint32_t rq_cnt;
	int rc;

	*reader_out = NULL;
	if (!mlx5_eth_raw_shape_is_sound(shape))
		return spw_err(EPROTO, "no queue has the shape of these raw completions");
	r = aligned_alloc(_Alignof(struct spw_port_raw_reader), sizeof(*r));
	if (!r)
		return spw_err(ENOMEM, "no memory for a queue of raw completions");
	memset(r, 0, sizeof(*r));
	r->shape = *shape;
	r->ring_log2 = SPW_MAX(RING_LOG2, shape->group_log2 + BURST_LOG2);
	r->ring_log2 = SPW_MIN(r->ring_log2, (uint32_t)shape->cq_log2);
	rq_cnt = 1u << SPW_MIN((uint32_t)shape->rq_log2, BURST_LOG2);
	rc = mlx5_eth_raw_memory_open(r, rq_cnt);
	rc = rc ? rc : mlx5_eth_raw_queue_open(r, rq_cnt);
	if (rc) {
		spw_port_raw_close(r);
		return rc;
	}
	*reader_out = r;
	return 0;
}

void spw_port_raw_close(struct spw_port_raw_reader *r)
{
	if (!r)
		return;
	mlx5_eth_queue_fini(&r->q);
	spw_pool_fini(&r->pool);
	free(r->region.host_va);
	free(r->cq);
	free(r->wqe);
	free(r);
}

/* ---- a burst ---- */

static bool mlx5_eth_raw_head_is_sound(const struct spw_port_raw_reader *r,
				       const struct mlx5_eth_raw_head *h)
{
	return spw_in_1_to(h->want, SPW_BURST_MAX) && h->posted <= r->q.rq_mask + 1 &&
	       h->stride_pos < 1u << r->shape.group_log2 &&
	       h->session_idx <= SPW_PRM_MINI_PER_CQE && !(h->session_csum & ~CSUM_MASK);
}

/* The consumer index in the reader's ring (see the drawing). */
static uint32_t mlx5_eth_raw_ci_here(const struct spw_port_raw_reader *r, uint32_t ci)
{
	uint32_t lap = ci >> r->shape.cq_log2, size = 1u << r->ring_log2;
	uint32_t to_end = (1u << r->shape.cq_log2) - (ci & ((1u << r->shape.cq_log2) - 1));

	return lap << r->ring_log2 | (size - SPW_MIN(size, to_end));
}

static void mlx5_eth_raw_queue_set(struct spw_port_raw_reader *r, const struct mlx5_eth_raw_head *h)
{
	const uint32_t group = r->shape.group_log2;
	struct mlx5_eth_queue *q = &r->q;
	uint32_t refused[SPW_BURST_MAX];

	spw_pool_get(&r->pool, refused, SPW_BURST_MAX); /* at first: all */
	for (uint32_t i = 0; i <= q->rq_mask; i++) {
		q->slot_of[i] = i << group;
		if (q->group_ref)
			q->group_ref[i] = 1u << group;
	}
	q->group_free_cnt = 0;
	q->cq_ci = mlx5_eth_raw_ci_here(r, h->cq_ci);
	q->rq_ci = 0;
	q->rq_pi = h->posted;
	q->stride_pos = h->stride_pos;
	q->rx_err = (struct mlx5_err){0};
	q->session.left = h->session_left;
	q->session.idx = h->session_idx;
	q->session.csum = h->session_csum;
	if (h->session_left)
		memcpy(q->session.mini, h + 1, sizeof(q->session.mini));
}

static size_t mlx5_eth_raw_run_bytes(const struct mlx5_eth_raw_run *run)
{
	return sizeof(*run) + (run->is_plain ? spw_columns_bytes(run->widths, run->cnt)
					     : run->cnt * MLX5_CQE_BYTES);
}

/* Entry i as the burst read it. Of a plain CQE all else is zero: a burst that read it would come to
 * other frames than are recorded. */
static void mlx5_eth_raw_entry_put(uint8_t *cqe, const struct mlx5_eth_raw_run *run, uint32_t i)
{
	const uint8_t *whole = (const uint8_t *)(run + 1) + (size_t)i * MLX5_CQE_BYTES;
	uint64_t value[SPW_COLUMN_CNT];

	if (!run->is_plain) {
		memcpy(cqe, whole, MLX5_CQE_BYTES);
		return;
	}
	memset(cqe, 0, MLX5_CQE_BYTES);
	spw_columns_get((const void *)(run + 1), run->widths, run->cnt, i, value);
	mlx5_eth_raw_unrow(value, cqe);
}

static bool mlx5_eth_raw_run_is_sound(const struct mlx5_eth_raw_run *run, uint32_t from,
				      size_t left)
{
	return left >= sizeof(*run) && run->ci - from < REACH &&
	       spw_in_1_to(run->cnt, REACH - (run->ci - from)) && run->is_plain <= 1 &&
	       left >= mlx5_eth_raw_run_bytes(run);
}

/* Puts the entries where the burst read them. Returns: false if one lies where none can be. */
static bool mlx5_eth_raw_ring_fill(struct spw_port_raw_reader *r, uint32_t from, const uint8_t *at,
				   size_t left)
{
	while (left) {
		const struct mlx5_eth_raw_run *run = (const void *)at;

		if (!mlx5_eth_raw_run_is_sound(run, from, left))
			return false;
		for (uint32_t i = 0; i < run->cnt; i++)
			mlx5_eth_raw_entry_put(mlx5_cqe_at(r->q.cqe, r->q.cq_mask,
							   r->q.cq_ci + run->ci - from + i),
					       run, i);
		at += mlx5_eth_raw_run_bytes(run);
		left -= mlx5_eth_raw_run_bytes(run);
	}
	return true;
}

/* As before the NIC writes: of no lap that a burst could take for its own. All else is zero, so
 * that the same bytes always come to the same frames, those of a session without its arrays too. */
static void mlx5_eth_raw_ring_wipe(struct spw_port_raw_reader *r)
{
	for (uint32_t i = 0, ci = r->q.cq_ci; i < REACH; i++) {
		uint8_t *cqe = mlx5_cqe_at(r->q.cqe, r->q.cq_mask, ci + i);

		memset(cqe, 0, MLX5_CQE_BYTES);
		cqe[MLX5_CQE_OP_OWN] = MLX5_OP_INVALID;
		cqe[MLX5_CQE_VALIDITY] = (uint8_t)(((ci + i) >> r->ring_log2) - 1);
	}
}

/* Returns: descriptors, as the recorded burst returned them; -EPROTO with a text. */
int spw_port_raw_run(struct spw_port_raw_reader *r, const uint8_t *raw, uint32_t bytes,
		     struct spw_desc *desc_out)
{
	const struct mlx5_eth_raw_head *head = (const void *)raw;
	size_t used = sizeof(*head);

	if (bytes < used || !mlx5_eth_raw_head_is_sound(r, head))
		return spw_err(EPROTO, "these are no raw completions of a burst");
	used += head->session_left ? sizeof(r->q.session.mini) : 0;
	if (bytes < used)
		return spw_err(EPROTO, "the raw completions of a burst are cut off");
	mlx5_eth_raw_queue_set(r, head);
	mlx5_eth_raw_ring_wipe(r);
	if (!mlx5_eth_raw_ring_fill(r, head->cq_ci, raw + used, bytes - used))
		return spw_err(EPROTO, "these are no raw completions of a burst");
	return r->burst(&r->q, desc_out, head->want);
}
