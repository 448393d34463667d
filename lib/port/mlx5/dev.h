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
#include "rdma/spw_rdma_mlx5.h"

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

/* Purpose: logs a line for each kind of error completion that a queue had, except flushes.
 * Shape:   syndrome: counts by number, MLX5_SYNDROME_CNT of them; [0]: malformed or unknown.
 * Thread:  setup */
void mlx5_log_syndromes(const char *port, uint16_t queue, const uint64_t *syndrome);

#endif
