/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The raw completions of a burst (port/spw_port_raw.h) as eth/rx.c and eth/err.c write them and
 * eth/raw.c reads them:
 *
 *   head | mini-CQEs of the session that was open, if there was one | run | run | ...
 *   run:   ci, cnt, is_plain, widths | cnt ring entries from consumer index ci on
 *
 * Of a plain CQE only what a burst reads is kept, and of a run of them only where they differ, in
 * columns (frame/spw_column.h): at one for each frame the memory that they are written to is what
 * keeping costs (docs/benchmarks.md). A field that a burst begins to read must be added to
 * mlx5_eth_raw_row; without it the replay differs.
 * Of a compression session an entry stands for many frames, and is kept whole: its title and each
 * array of mini-CQEs, when it is read; so a session that goes on in the next burst is there with
 * what is left of it. A CQE that is not a frame is kept whole too. A burst that read nothing writes
 * nothing.
 *
 * Ordering: the copies are stores of what was loaded from CQEs, and come before M2 like all of them
 * (mlx5/mem.h).
 */
#ifndef SPW_PORT_MLX5_ETH_RAW_H
#define SPW_PORT_MLX5_ETH_RAW_H

#include <string.h>

#include "frame/spw_column.h"
#include "port/mlx5/eth/queue.h"
#include "port/spw_port_raw.h"

/* The queue when the burst began. */
struct mlx5_eth_raw_head {
	uint32_t cq_ci;
	uint32_t stride_pos;
	uint16_t want;   /* frames that were asked for, 1 .. SPW_BURST_MAX */
	uint16_t posted; /* receive WQEs, as far as a burst can use them */
	uint32_t session_left;
	uint32_t session_idx;
	uint32_t session_csum;
};
SPW_ASSERT_SIZE(struct mlx5_eth_raw_head, 24);

struct mlx5_eth_raw_run {
	uint32_t ci;
	uint16_t cnt;
	uint8_t is_plain; /* struct spw_columns of mlx5_eth_raw_row; else whole entries */
	uint8_t widths;   /* of the columns */
};
SPW_ASSERT_SIZE(struct mlx5_eth_raw_run, 8);

/* What is kept of plain CQEs, and back. */
SPW_INLINE void mlx5_eth_raw_row(const void *cqes, uint32_t i, uint64_t value_out[SPW_COLUMN_CNT])
{
	const uint8_t *cqe = (const uint8_t *)cqes + (size_t)i * MLX5_CQE_BYTES;

	value_out[0] = spw_prm_cqe64_get_timestamp(cqe);
	value_out[1] = spw_prm_cqe64_get_rx_hash_result(cqe);
	value_out[2] = spw_prm_cqe64_get_byte_cnt(cqe);
	value_out[3] = cqe[MLX5_CQE_DROPS] | spw_prm_cqe64_get_hds_ip_ext(cqe) << 8 |
		       (uint32_t)cqe[MLX5_CQE_VALIDITY] << 16 |
		       (uint32_t)cqe[MLX5_CQE_OP_OWN] << 24;
}

SPW_INLINE void mlx5_eth_raw_unrow(const uint64_t value[SPW_COLUMN_CNT], uint8_t *cqe_out)
{
	spw_prm_cqe64_set_timestamp(cqe_out, value[0]);
	spw_prm_cqe64_set_rx_hash_result(cqe_out, (uint32_t)value[1]);
	spw_prm_cqe64_set_byte_cnt(cqe_out, (uint32_t)value[2]);
	cqe_out[MLX5_CQE_DROPS] = (uint8_t)value[3];
	spw_prm_cqe64_set_hds_ip_ext(cqe_out, value[3] >> 8 & 0xff);
	cqe_out[MLX5_CQE_VALIDITY] = (uint8_t)(value[3] >> 16);
	cqe_out[MLX5_CQE_OP_OWN] = (uint8_t)(value[3] >> 24);
}

/* All that a burst can write: a title and an array, or a block, for each frame. */
_Static_assert(sizeof(struct mlx5_eth_raw_head) + SPW_PRM_MINI_PER_CQE * 8 +
			       2 * SPW_BURST_MAX *
				       (sizeof(struct mlx5_eth_raw_run) + MLX5_CQE_BYTES) <=
		       SPW_PORT_RAW_MAX,
	       "a burst fits");

struct mlx5_eth_raw {
	struct spw_port_raw out;
	uint8_t nowhere[SPW_PORT_RAW_MAX]; /* for bursts before the first caller sets out.to */
};

/* The first thing that a burst keeps; again: nothing. Called before the queue's state changes. */
SPW_INLINE void mlx5_eth_raw_begin(struct mlx5_eth_queue *q, uint32_t want)
{
	struct spw_port_raw *raw = &q->raw->out;
	struct mlx5_eth_raw_head *head = (void *)raw->to;

	if (raw->bytes)
		return;
	*head = (struct mlx5_eth_raw_head){
		.cq_ci = q->cq_ci,
		.stride_pos = q->stride_pos,
		.want = (uint16_t)want,
		.posted = (uint16_t)SPW_MIN(q->rq_pi - q->rq_ci, (uint32_t)SPW_BURST_MAX),
		.session_left = q->session.left,
		.session_idx = q->session.idx,
		.session_csum = (uint32_t)q->session.csum,
	};
	raw->bytes = sizeof(*head);
	if (!q->session.left)
		return;
	memcpy(head + 1, q->session.mini, sizeof(q->session.mini));
	raw->bytes += (uint32_t)sizeof(q->session.mini);
}

/* Keeps the entry at ci whole. */
SPW_INLINE void mlx5_eth_raw_put(struct mlx5_eth_queue *q, uint32_t ci)
{
	struct spw_port_raw *raw = &q->raw->out;
	struct mlx5_eth_raw_run *run = (void *)(raw->to + raw->bytes);

	*run = (struct mlx5_eth_raw_run){.ci = ci, .cnt = 1};
	memcpy(run + 1, mlx5_cqe_at(q->cqe, q->cq_mask, ci), MLX5_CQE_BYTES);
	raw->bytes += (uint32_t)(sizeof(*run) + MLX5_CQE_BYTES);
}

/* raw.c. Purpose: keeps what a burst reads of cnt plain CQEs from ci on, which lie in one piece.
 * Thread: owner. */
void mlx5_eth_raw_put_plain(struct mlx5_eth_queue *q, uint32_t ci, uint32_t cnt);

#endif
