/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Opens an mlx5 device, reads what it can do. Called by
 * the control code of eth/ and rc/; source of the limits: mlx5dv_query_device.
 */
#include "port/mlx5/dev.h"

#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_log.h"

/* ---- device ---- */

/* ConnectX-4 and ConnectX-4 Lx, physical and virtual functions. Every later card sends frames
 * without an inline header. */
static bool mlx5_is_cx4(uint32_t part_id)
{
	return part_id >= 0x1013 && part_id <= 0x1016;
}

/* CQEs of version 1 are what cqe.h describes. */
static int mlx5_read_caps(struct mlx5_dev *dev)
{
	int rc;

	if (!mlx5dv_is_supported(dev->rdma.ctx->device))
		return spw_err(ENOTSUP, "%s is not an mlx5 device: use verbs:%s", dev->rdma.name,
			       dev->rdma.name);
	dev->dv.comp_mask = MLX5DV_CONTEXT_MASK_CQE_COMPRESION | MLX5DV_CONTEXT_MASK_STRIDING_RQ;
	rc = mlx5dv_query_device(dev->rdma.ctx, &dev->dv);
	if (rc)
		return spw_err(rc, "%s: mlx5dv_query_device: %s", dev->rdma.name, strerror(rc));
	if (!(dev->dv.flags & MLX5DV_CONTEXT_FLAGS_CQE_V1))
		return spw_err(
			ENOTSUP,
			"%s makes completion entries of version 0: a ConnectX-4 or later is needed",
			dev->rdma.name);
	dev->wants_inline = mlx5_is_cx4(dev->rdma.attr.orig_attr.vendor_part_id);
	return 0;
}

/* mlx5 devices have one port each, number 1. */
int mlx5_dev_open(const char *name, struct mlx5_dev *dev)
{
	int rc;

	memset(dev, 0, sizeof(*dev));
	rc = rdma_dev_open(name, 1, &dev->rdma);
	if (rc)
		return rc;
	rc = mlx5_read_caps(dev);
	if (rc)
		mlx5_dev_close(dev);
	return rc;
}

/* A zeroed struct is fine. */
void mlx5_dev_close(struct mlx5_dev *dev)
{
	rdma_dev_close(&dev->rdma);
}

/* ---- errors ---- */

/* Flushes are not worth a line: every stop causes them. */
void mlx5_log_syndromes(const char *port, uint16_t queue, const uint64_t *syndrome)
{
	for (unsigned i = 0; i < MLX5_SYNDROME_CNT; i++)
		if (syndrome[i] && i != SPW_PRM_SYN_WR_FLUSH_ERR)
			spw_info("port %s queue %u: error completions: %llu, %s", port, queue,
				 (unsigned long long)syndrome[i],
				 i ? spw_prm_syndrome_text(i) : "malformed or of unknown kind");
}
