/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to port/mlx5: the device as both modes use it: what it can do, completion queues as memory.
 */
#ifndef SPW_PORT_MLX5_DEV_H
#define SPW_PORT_MLX5_DEV_H

#include <infiniband/mlx5dv.h>

#include "port/mlx5/mlx5_impl.h"
#include "port/rdma/rdma_dev.h"

struct mlx5_dev {
	struct rdma_dev rdma;
	struct mlx5dv_context dv;
	bool wants_inline;             /* TX: the L2 header inside the WQE */
};

/* Purpose: rdma_dev_open for an mlx5 device. Errors: besides, -ENOTSUP it is none. Thread: setup. */
int mlx5_dev_open(const char *name, struct mlx5_dev *dev_out);
void mlx5_dev_close(struct mlx5_dev *dev);

/* Purpose: a completion queue of cnt entries of 64 bytes that nobody has to publish an index for (its owner keeps fewer
 *          WQEs posted than it has entries), as memory. zip: compressed, mini-CQEs with hash.
 * Shape:   cnt a power of 2. context: what async events of it carry. Errors: -errno with a text. Thread: any. */
int mlx5_cq_make(struct mlx5_dev *dev, uint32_t cnt, bool zip, void *context, struct ibv_cq_ex **cq_out,
		 struct spw_mlx5_cqmem *mem_out);
/* NULL is fine. */
void mlx5_cq_free(struct ibv_cq_ex *cq);

/* Purpose: one line in the log for each kind of error completion that a queue had; flushes are none. syndrome: how many, by number
 *          (MLX5_SYNDROME_CNT; 0: those that make no sense). Thread: setup. */
void mlx5_say_syndromes(const char *port, uint16_t queue, const uint64_t *syndrome);

#endif
