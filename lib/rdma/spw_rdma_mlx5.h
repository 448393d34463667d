/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Completion queues of an mlx5 device, created through rdma-core and reported as memory
 * (prm/spw_prm_ring.h).
 */
#ifndef SPW_RDMA_MLX5_H
#define SPW_RDMA_MLX5_H

#include <infiniband/mlx5dv.h>

#include "prm/spw_prm_ring.h"
#include "rdma/spw_rdma.h"

/* What a completion queue is made with. */
enum mlx5_cq_with {
	MLX5_CQ_COMPRESSED = 1u << 0, /* mini-CQEs with hash */
	/* Stamps of the free-running clock. Without it a device chooses what it stamps with; with
	 * it, creating a queue on the CQ fails with EOPNOTSUPP where there are no such stamps. */
	MLX5_CQ_STAMPS = 1u << 1,
};

/* Purpose: creates a completion queue of cnt 64-byte entries and reports its memory.
 * Shape:   cnt a power of 2. with: enum mlx5_cq_with. context: what its asynchronous events carry.
 * Owner:   the caller, until mlx5_cq_free. The caller never has more WQEs posted than the CQ has
 *          entries, and publishes its consumer index before it posts.
 * Thread:  any
 * Errors:  -errno with a text. */
int mlx5_cq_make(struct rdma_dev *dev, uint32_t cnt, unsigned int with, void *context,
		 struct ibv_cq_ex **cq_out, struct mlx5_cqmem *mem_out);
/* NULL is fine. */
void mlx5_cq_free(struct ibv_cq_ex *cq);

#endif
