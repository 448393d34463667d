/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Opens an mlx5 device, reads what it can do, and creates completion queues as memory. Called by
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
static bool is_cx4(uint32_t part_id)
{
	return part_id >= 0x1013 && part_id <= 0x1016;
}

/* CQEs of version 1 are what cqe.h describes. */
static int read_caps(struct mlx5_dev *dev)
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
	dev->wants_inline = is_cx4(dev->rdma.attr.orig_attr.vendor_part_id);
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
	rc = read_caps(dev);
	if (rc)
		mlx5_dev_close(dev);
	return rc;
}

void mlx5_dev_close(struct mlx5_dev *dev)
{
	rdma_dev_close(&dev->rdma);
}

/* ---- completion queues ---- */

static struct ibv_cq_ex *cq_create(struct mlx5_dev *dev, uint32_t cnt, unsigned int with,
				   void *context, bool ignore_overrun)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cnt - 1, /* rdma-core takes the next power of 2 above */
		.cq_context = context,
		.wc_flags = IBV_WC_STANDARD_FLAGS |
			    (with & MLX5_CQ_STAMPS ? IBV_WC_EX_WITH_COMPLETION_TIMESTAMP : 0),
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED |
			 (ignore_overrun ? IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN : 0),
	};
	const bool compressed = with & MLX5_CQ_COMPRESSED;
	struct mlx5dv_cq_init_attr dv_attr = {
		.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE |
			     (compressed ? MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE : 0),
		.cqe_comp_res_format = compressed ? MLX5DV_CQE_RES_FORMAT_HASH : 0,
		.cqe_size = MLX5_CQE_BYTES,
	};

	return mlx5dv_create_cq(dev->rdma.ctx, &attr, &dv_attr);
}

/* The NIC does not read the consumer index of a CQ that ignores overrun, so publishing it costs no
 * PCIe read. Compressed CQs do not ignore overrun: no driver is known to combine that with the
 * basic layout (DPDK publishes for its compressed CQs; UCX ignores overrun in the enhanced layout
 * only).
 */
int mlx5_cq_make(struct mlx5_dev *dev, uint32_t cnt, unsigned int with, void *context,
		 struct ibv_cq_ex **cq_out, struct mlx5_cqmem *mem_out)
{
	bool ignore = !(with & MLX5_CQ_COMPRESSED);
	struct mlx5dv_cq dv;
	struct mlx5dv_obj obj = {.cq.out = &dv};
	int rc;

	*cq_out = cq_create(dev, cnt, with, context, ignore);
	if (!*cq_out && ignore) { /* an old device or kernel */
		ignore = false;
		*cq_out = cq_create(dev, cnt, with, context, ignore);
	}
	if (!*cq_out)
		return spw_err(errno, "%s: a completion queue of %u entries: %s", dev->rdma.name,
			       cnt, strerror(errno));
	memset(&dv, 0, sizeof(dv));
	obj.cq.in = ibv_cq_ex_to_cq(*cq_out);
	rc = mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ);
	if (rc) {
		mlx5_cq_free(*cq_out);
		*cq_out = NULL;
		return spw_err(rc, "%s: mlx5dv_init_obj of a completion queue: %s", dev->rdma.name,
			       strerror(rc));
	}
	*mem_out = (struct mlx5_cqmem){.buf = dv.buf,
				       .dbrec = ignore ? NULL : (spw_be32 *)dv.dbrec,
				       .cnt = dv.cqe_cnt,
				       .stride = dv.cqe_size};
	return 0;
}

void mlx5_cq_free(struct ibv_cq_ex *cq)
{
	int rc = cq ? ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) : 0;

	if (rc)
		spw_warn("mlx5: a completion queue was not destroyed: %s", strerror(rc));
}

/* Flushes are not worth a line: every stop causes them. */
void mlx5_log_syndromes(const char *port, uint16_t queue, const uint64_t *syndrome)
{
	for (unsigned i = 0; i < MLX5_SYNDROME_CNT; i++)
		if (syndrome[i] && i != SPW_PRM_SYN_WR_FLUSH_ERR)
			spw_info("port %s queue %u: error completions: %llu, %s", port, queue,
				 (unsigned long long)syndrome[i],
				 i ? spw_prm_syndrome_text(i) : "malformed or of unknown kind");
}
