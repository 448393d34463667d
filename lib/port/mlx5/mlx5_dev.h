/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to port/mlx5: the device as both modes use it: what it can do, memory keys, completion queues as memory, clock.
 */
#ifndef SPW_PORT_MLX5_DEV_H
#define SPW_PORT_MLX5_DEV_H

#include <infiniband/mlx5dv.h>
#include <pthread.h>

#include "port/mlx5/mlx5_impl.h"
#include "port/rdma/rdma_dev.h"

/* A region and its key; the key may change (mlx5_dev_key_renew). */
struct mlx5_region {
	struct spw_region region;
	struct ibv_mr *mr;             /* NULL: not attached */
	int access;
};

struct mlx5_dev {
	struct rdma_dev rdma;
	struct mlx5dv_context dv;
	bool wants_inline;             /* TX: the L2 header inside the WQE */
	struct mlx5_region region[SPW_REGION_MAX]; /* by id */
	pthread_mutex_t lock;          /* keys, and what else the queues of a port share; never held by a burst */
};

/* Purpose: rdma_dev_open for an mlx5 device. Errors: besides, -ENOTSUP it is none. Thread: setup. */
int mlx5_dev_open(const char *name, struct mlx5_dev *dev_out);
void mlx5_dev_close(struct mlx5_dev *dev);

/* Purpose: registers the region for receive and send; again: nothing. Errors: rdma_mr_reg's. Thread: setup. */
int mlx5_dev_attach(struct mlx5_dev *dev, const struct spw_region *region, int access);
/* Purpose: the key of the pool's region. Errors: -EINVAL it was not attached. Thread: setup. */
int mlx5_dev_key(struct mlx5_dev *dev, const struct spw_pool *pool, uint32_t *lkey_out);
/* Purpose: the device refused bad_lkey: gives the region's key if that has changed since, else registers it anew. Queues that
 *          still use the old key meet the same error and come here too. Thread: any owner, outside bursts. */
int mlx5_dev_key_renew(struct mlx5_dev *dev, uint16_t region_id, uint32_t bad_lkey, uint32_t *lkey_out);

/* Purpose: a completion queue of cnt entries of 64 bytes that nobody has to publish an index for (its owner keeps fewer
 *          WQEs posted than it has entries), as memory. zip: compressed, mini-CQEs with hash.
 * Shape:   cnt a power of 2. context: what async events of it carry. Errors: -errno with a text. Thread: any. */
int mlx5_cq_make(struct mlx5_dev *dev, uint32_t cnt, bool zip, void *context, struct ibv_cq_ex **cq_out,
		 struct spw_mlx5_cqmem *mem_out);
/* NULL is fine. */
void mlx5_cq_free(struct ibv_cq_ex *cq);

/* Purpose: spw_port_driver.pair_clock. Thread: any. */
int mlx5_dev_pair_clock(struct mlx5_dev *dev, uint64_t *nic_ticks_out, uint64_t *tsc_out, uint64_t *uncertainty_ns_out);
/* Returns: 0 if it has no clock that can be read. */
uint64_t mlx5_dev_clock_hz(const struct mlx5_dev *dev);

#endif
