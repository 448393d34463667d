/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * An mlx5 device: what it can do, keys of memory regions, completion queues, the clock.
 */
#include "port/mlx5/mlx5_dev.h"

#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_log.h"

#define CLOCK_TRIES 10u
#define CLOCK_READS 2000u /* about 150 us: a software device that naps shows its clock every 2 ms, and who asks may ask again */

/* ---- device --------------------------------------------------------------------------------------------- */

/* ConnectX-4 and ConnectX-4 Lx, physical and virtual functions; every later card takes a frame without inline header. */
static bool is_cx4(uint32_t part_id)
{
	return part_id >= 0x1013 && part_id <= 0x1016;
}

static int read_caps(struct mlx5_dev *dev)
{
	int rc;

	if (!mlx5dv_is_supported(dev->rdma.ctx->device))
		return spw_err(ENOTSUP, "%s is not an mlx5 device: use verbs:%s", dev->rdma.name, dev->rdma.name);
	dev->dv.comp_mask = MLX5DV_CONTEXT_MASK_CQE_COMPRESION | MLX5DV_CONTEXT_MASK_STRIDING_RQ;
	rc = mlx5dv_query_device(dev->rdma.ctx, &dev->dv);
	if (rc)
		return spw_err(rc, "%s: mlx5dv_query_device: %s", dev->rdma.name, strerror(rc));
	if (!(dev->dv.flags & MLX5DV_CONTEXT_FLAGS_CQE_V1))
		return spw_err(ENOTSUP, "%s makes completion entries of version 0: a ConnectX-4 or later is needed", dev->rdma.name);
	dev->wants_inline = is_cx4(dev->rdma.attr.orig_attr.vendor_part_id);
	return 0;
}

int mlx5_dev_open(const char *name, struct mlx5_dev *dev)
{
	int rc;

	memset(dev, 0, sizeof(*dev));
	rc = rdma_dev_open(name, 1, &dev->rdma);
	if (rc)
		return rc;
	pthread_mutex_init(&dev->lock, NULL);
	rc = read_caps(dev);
	if (rc)
		mlx5_dev_close(dev);
	return rc;
}

void mlx5_dev_close(struct mlx5_dev *dev)
{
	if (!dev->rdma.ctx)
		return;
	for (uint32_t id = 0; id < SPW_REGION_MAX; id++)
		if (dev->region[id].mr)
			ibv_dereg_mr(dev->region[id].mr);
	rdma_dev_close(&dev->rdma);
	pthread_mutex_destroy(&dev->lock);
}

/* ---- keys ----------------------------------------------------------------------------------------------- */

int mlx5_dev_attach(struct mlx5_dev *dev, const struct spw_region *region, int access)
{
	struct mlx5_region *r = &dev->region[region->id];

	if (r->mr)
		return 0;
	r->region = *region;
	r->access = access;
	return rdma_mr_reg(&dev->rdma, region, access, &r->mr);
}

int mlx5_dev_key(struct mlx5_dev *dev, const struct spw_pool *pool, uint32_t *lkey_out)
{
	struct mlx5_region *r = &dev->region[pool->region->id];

	if (!r->mr)
		return spw_err(EINVAL, "memory region %u was not attached to the port", pool->region->id);
	*lkey_out = r->mr->lkey;
	return 0;
}

int mlx5_dev_key_renew(struct mlx5_dev *dev, uint16_t region_id, uint32_t bad_lkey, uint32_t *lkey_out)
{
	struct mlx5_region *r = &dev->region[region_id];
	struct ibv_mr *mr;
	int rc = 0;

	pthread_mutex_lock(&dev->lock);
	if (r->mr->lkey == bad_lkey)
		rc = rdma_mr_reg(&dev->rdma, &r->region, r->access, &mr);
	if (!rc && r->mr->lkey == bad_lkey) {
		ibv_dereg_mr(r->mr);
		r->mr = mr;
	}
	*lkey_out = r->mr->lkey;
	pthread_mutex_unlock(&dev->lock);
	return rc;
}

/* ---- completion queues ------------------------------------------------------------------------------------ */

int mlx5_cq_make(struct mlx5_dev *dev, uint32_t cnt, bool zip, void *context, struct ibv_cq_ex **cq_out,
		 struct spw_mlx5_cqmem *mem_out)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cnt - 1, /* rdma-core takes the next power of 2 above */
		.cq_context = context,
		.wc_flags = IBV_WC_STANDARD_FLAGS,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
	};
	struct mlx5dv_cq_init_attr dv_attr = {
		.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE | (zip ? MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE : 0),
		.cqe_comp_res_format = zip ? MLX5DV_CQE_RES_FORMAT_HASH : 0,
		.cqe_size = MLX5_CQE_BYTES,
	};
	struct mlx5dv_cq dv;
	struct mlx5dv_obj obj = {.cq.out = &dv};
	int rc;

	*cq_out = mlx5dv_create_cq(dev->rdma.ctx, &attr, &dv_attr);
	if (!*cq_out)
		return spw_err(errno, "%s: a completion queue of %u entries: %s", dev->rdma.name, cnt, strerror(errno));
	memset(&dv, 0, sizeof(dv));
	obj.cq.in = ibv_cq_ex_to_cq(*cq_out);
	rc = mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ);
	if (rc) {
		mlx5_cq_free(*cq_out);
		*cq_out = NULL;
		return spw_err(rc, "%s: mlx5dv_init_obj of a completion queue: %s", dev->rdma.name, strerror(rc));
	}
	*mem_out = (struct spw_mlx5_cqmem){.buf = dv.buf, .cnt = dv.cqe_cnt, .stride = dv.cqe_size};
	return 0;
}

void mlx5_cq_free(struct ibv_cq_ex *cq)
{
	int rc = cq ? ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) : 0;

	if (rc)
		spw_warn("mlx5: a completion queue was not destroyed: %s", strerror(rc));
}

/* ---- clock ------------------------------------------------------------------------------------------------ */

static int read_clock(void *arg, uint64_t *value_out)
{
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};

	if (ibv_query_rt_values_ex(arg, &values) || !(values.comp_mask & IBV_VALUES_MASK_RAW_CLOCK))
		return -ENOTSUP;
	*value_out = (uint64_t)values.raw_clock.tv_nsec; /* ticks, in spite of the name */
	return 0;
}

int mlx5_dev_pair_clock(struct mlx5_dev *dev, uint64_t *nic_ticks_out, uint64_t *tsc_out, uint64_t *uncertainty_ns_out)
{
	struct spw_clock_pair pair;
	int rc = spw_clock_pair_step(read_clock, dev->rdma.ctx, CLOCK_TRIES, CLOCK_READS, &pair);

	if (rc)
		return spw_err(-rc, "%s: its clock cannot be read: %s", dev->rdma.name, strerror(-rc));
	*nic_ticks_out = pair.other;
	*tsc_out = pair.ref;
	*uncertainty_ns_out = spw_tsc_to_ns(&dev->rdma.tsc, pair.unc) + 1;
	return 0;
}

uint64_t mlx5_dev_clock_hz(const struct mlx5_dev *dev)
{
	uint64_t now;

	return read_clock(dev->rdma.ctx, &now) ? 0 : dev->rdma.attr.hca_core_clock * 1000;
}
