/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The raw completions of a burst (port/spw_port_raw.h) as eth/rx.c and eth/err.c write them and
 * eth/raw.c reads them:
 *
 *   head | mini-CQEs of the session that was open, if there was one | run | run | ...
 *   run:   ci, cnt, entry_bytes | cnt ring entries, from consumer index ci on, padded to 8 bytes
 *
 * Of a plain CQE only what a burst reads is kept, 20 of its 64 bytes: at one for each frame the
 * memory that they are written to is what keeping costs (docs/benchmarks.md). A field that a burst
 * begins to read must be added to MLX5_ETH_RAW_PLAIN_LIST; without it the replay differs.
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
	uint16_t cnt, entry_bytes; /* MLX5_CQE_BYTES, or those of the next struct */
};
SPW_ASSERT_SIZE(struct mlx5_eth_raw_run, 8);

/* What is kept of a plain CQE: name, first byte in it, bytes. */
#define MLX5_ETH_RAW_PLAIN_LIST(X)  \
	X(timestamp, 48, 8)         \
	X(rx_hash_result, 12, 4)    \
	X(byte_cnt, 44, 4)          \
	X(drops, MLX5_CQE_DROPS, 1) \
	X(hds_ip_ext, 28, 1)        \
	X(owner, MLX5_CQE_VALIDITY, 2)

struct mlx5_eth_raw_plain {
#define X(name, from, bytes) uint8_t name[bytes];
	MLX5_ETH_RAW_PLAIN_LIST(X)
#undef X
};
SPW_ASSERT_SIZE(struct mlx5_eth_raw_plain, 20);

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

/* The head of a run, and the room of its entries. Returns: where they go. */
SPW_INLINE void *mlx5_eth_raw_run(struct spw_port_raw *raw, uint32_t ci, uint32_t cnt,
				  uint32_t entry_bytes)
{
	struct mlx5_eth_raw_run *run = (void *)(raw->to + raw->bytes);

	*run = (struct mlx5_eth_raw_run){ci, (uint16_t)cnt, (uint16_t)entry_bytes};
	raw->bytes += (uint32_t)sizeof(*run) + SPW_ALIGN_UP(cnt * entry_bytes, 8u);
	return run + 1;
}

/* Keeps the entry at ci whole. */
SPW_INLINE void mlx5_eth_raw_put(struct mlx5_eth_queue *q, uint32_t ci)
{
	memcpy(mlx5_eth_raw_run(&q->raw->out, ci, 1, MLX5_CQE_BYTES),
	       mlx5_cqe_at(q->cqe, q->cq_mask, ci), MLX5_CQE_BYTES);
}

/* Keeps what a burst reads of cnt plain CQEs from ci on, which lie in one piece. */
SPW_INLINE void mlx5_eth_raw_put_plain(struct mlx5_eth_queue *q, uint32_t ci, uint32_t cnt)
{
	struct mlx5_eth_raw_plain *to =
		mlx5_eth_raw_run(&q->raw->out, ci, cnt, (uint32_t)sizeof(*to));
	const uint8_t *cqe = mlx5_cqe_at(q->cqe, q->cq_mask, ci);

	for (uint32_t i = 0; i < cnt; i++, cqe += MLX5_CQE_BYTES, to++) {
#define X(name, from, bytes) memcpy(to->name, cqe + (from), bytes);
		MLX5_ETH_RAW_PLAIN_LIST(X)
#undef X
	}
}

#endif
