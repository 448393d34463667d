/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Creates completion queues and reports their memory. Called at set-up and recovery by port/mlx5
 * and lib/xfer.
 * An mlx5 device creates the CQ by mlx5dv_create_cq, and mlx5dv_init_obj reports the addresses of
 * its ring and doorbell record; from then on the drivers poll memory and rdma-core is asked again
 * only to destroy it.
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "rdma/spw_rdma_mlx5.h"

/* CQEs are 64 bytes whatever the default of the machine is (MLX5_CQE_SIZE), as the drivers' readers
 * expect. No lock is needed, since each CQ has one owner. */
static struct ibv_cq_ex *mlx5_cq_create(struct rdma_dev *dev, uint32_t cnt, unsigned int with,
					void *context, bool ignore_overrun)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cnt - 1, /* rdma-core takes the next power of 2 above */
		.cq_context = context,
		.channel = dev->channel,
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

	return mlx5dv_create_cq(dev->ctx, &attr, &dv_attr);
}

/* The NIC does not read the consumer index of a CQ that ignores overrun, so publishing it costs no
 * PCIe read. Compressed CQs do not ignore overrun: no driver is known to combine that with the
 * basic layout (DPDK publishes for its compressed CQs; UCX ignores overrun in the enhanced layout
 * only).
 */
int mlx5_cq_make(struct rdma_dev *dev, uint32_t cnt, unsigned int with, void *context,
		 struct ibv_cq_ex **cq_out, struct mlx5_cqmem *mem_out)
{
	bool ignore = !(with & MLX5_CQ_COMPRESSED);
	struct mlx5dv_cq dv;
	struct mlx5dv_obj obj = {.cq.out = &dv};
	int rc;

	*cq_out = mlx5_cq_create(dev, cnt, with, context, ignore);
	if (!*cq_out && ignore) { /* an old device or kernel */
		ignore = false;
		*cq_out = mlx5_cq_create(dev, cnt, with, context, ignore);
	}
	if (!*cq_out)
		return spw_err(errno, "%s: a completion queue of %u entries: %s", dev->name, cnt,
			       strerror(errno));
	memset(&dv, 0, sizeof(dv));
	obj.cq.in = ibv_cq_ex_to_cq(*cq_out);
	rc = mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ);
	if (rc) {
		mlx5_cq_free(*cq_out);
		*cq_out = NULL;
		return spw_err(rc, "%s: mlx5dv_init_obj of a completion queue: %s", dev->name,
			       strerror(rc));
	}
	*mem_out =
		(struct mlx5_cqmem){.buf = dv.buf,
				    .dbrec = ignore ? NULL : (spw_be32 *)dv.dbrec,
				    .cnt = dv.cqe_cnt,
				    .stride = dv.cqe_size,
				    .arm = {.record = (spw_be32 *)dv.dbrec + 1,
					    .reg = (uint8_t *)dv.cq_uar + SPW_PRM_UAR_CQ_ARM_OFFSET,
					    .cqn = dv.cqn}};
	return 0;
}

void mlx5_cq_free(struct ibv_cq_ex *cq)
{
	int rc = cq ? ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) : 0;

	if (rc)
		spw_warn("mlx5: a completion queue was not destroyed: %s", strerror(rc));
}
