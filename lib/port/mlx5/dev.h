/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to port/mlx5: the device as both modes use it: what it can do, and completion queues as
 * memory.
 */
#ifndef SPW_PORT_MLX5_DEV_H
#define SPW_PORT_MLX5_DEV_H

#include <infiniband/mlx5dv.h>

#include "port/mlx5/mem.h"
#include "rdma/spw_rdma.h"

#define MLX5_NO_STAMPS "the device has no free-running timestamps: frames go without stamps"

struct mlx5_dev {
	struct rdma_dev rdma;
	struct mlx5dv_context dv;
	bool wants_inline; /* TX: the L2 header inside the WQE */
};

/* Purpose: rdma_dev_open for an mlx5 device.
 * Owner:   the caller, until mlx5_dev_close.
 * Thread:  setup
 * Errors:  those of rdma_dev_open; -ENOTSUP it is no mlx5 device, or older than ConnectX-4. */
int mlx5_dev_open(const char *name, struct mlx5_dev *dev_out);
void mlx5_dev_close(struct mlx5_dev *dev);

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
int mlx5_cq_make(struct mlx5_dev *dev, uint32_t cnt, unsigned int with, void *context,
		 struct ibv_cq_ex **cq_out, struct mlx5_cqmem *mem_out);
/* NULL is fine. */
void mlx5_cq_free(struct ibv_cq_ex *cq);

/* Purpose: logs a line for each kind of error completion that a queue had, except flushes.
 * Shape:   syndrome: counts by number, MLX5_SYNDROME_CNT of them; [0]: malformed or unknown.
 * Thread:  setup */
void mlx5_log_syndromes(const char *port, uint16_t queue, const uint64_t *syndrome);

#endif
