/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Registers memory with an RDMA device, and replaces a key that the device refuses. Called at
 * set-up by the drivers and lib/peer; rdma_dev_key_replace by an owner that recovers. dev->lock
 * orders the owners of a port's queues.
 *
 *   region (lib/mem) ─► rdma_dev_attach ─► dev->region[id].mr ─► rdma_dev_key: lkey for WQEs
 *   lkey refused by the device ─► rdma_dev_key_replace: the same memory, registered again
 *
 * lib/xfer, spinwire-perf and spinwire-doctor register memory of their own by rdma_mr_reg_bytes and
 * rdma_mr_reg_dmabuf, and own what they get. A registration pins the pages: what exceeds the limit
 * of locked memory is refused here, and spw_plat_pin_blame reports which limit it was.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "plat/spw_plat.h"
#include "rdma/spw_rdma.h"

/* Errors: code, with a text that names the size and the remedy. */
static int rdma_mem_reg_failed(const struct rdma_dev *dev, size_t bytes, int code)
{
	char why[SPW_PLAT_PIN_BYTES];

	if (code != ENOMEM && code != EAGAIN)
		return spw_err(code, "%s: registering %zu KiB: %s%s", dev->name, bytes >> 10,
			       strerror(code),
			       code == EFAULT || code == EOPNOTSUPP
				       ? "; the device cannot reach this kind of memory: use "
					 "another --memory"
				       : "");
	spw_plat_pin_blame(NULL, bytes, why, sizeof(why));
	return spw_err(code, "%s: %zu KiB cannot be locked for the device: %s", dev->name,
		       bytes >> 10, why);
}

int rdma_mr_reg_bytes(const struct rdma_dev *dev, struct ibv_pd *pd, void *addr, size_t bytes,
		      int access, struct ibv_mr **mr_out)
{
	*mr_out = ibv_reg_mr(pd, addr, bytes, access);
	return *mr_out ? 0 : rdma_mem_reg_failed(dev, bytes, errno ? errno : EIO);
}

int rdma_mr_reg_dmabuf(const struct rdma_dev *dev, const struct rdma_dmabuf *buf, int access,
		       struct ibv_mr **mr_out)
{
	int code;

	*mr_out = ibv_reg_dmabuf_mr(dev->pd, buf->offset, buf->bytes, buf->addr, buf->fd, access);
	if (*mr_out)
		return 0;
	code = errno ? errno : EIO;
	if (code == EOPNOTSUPP || code == EPROTONOSUPPORT || code == ENOSYS || code == EINVAL)
		return spw_err(ENOTSUP,
			       "%s: the kernel's driver registers no dma-buf of this memory (%s): "
			       "Linux 5.12 or later with mlx5_ib can; else use memory of the host "
			       "(spinwire: --memory cuda-reg)",
			       dev->name, strerror(code));
	return rdma_mem_reg_failed(dev, buf->bytes, code);
}

/* In a dma-buf of GPU memory the NIC addresses bytes by their device address. */
static int rdma_mem_dmabuf_reg(const struct rdma_dev *dev, const struct spw_region *region,
			       struct ibv_mr **mr_out)
{
	const struct rdma_dmabuf buf = {
		.fd = region->dmabuf_fd, .addr = region->dev_va, .bytes = region->bytes};

	return rdma_mr_reg_dmabuf(dev, &buf, IBV_ACCESS_LOCAL_WRITE, mr_out);
}

static int rdma_mem_region_reg(const struct rdma_dev *dev, const struct spw_region *region,
			       struct ibv_mr **mr_out)
{
	if (region->kind == SPW_MEM_GPU)
		return rdma_mem_dmabuf_reg(dev, region, mr_out);
	return rdma_mr_reg_bytes(dev, dev->pd, region->host_va, region->bytes,
				 IBV_ACCESS_LOCAL_WRITE, mr_out);
}

/* Idempotent: a region that is attached already keeps its key. */
int rdma_dev_attach(struct rdma_dev *dev, const struct spw_region *region)
{
	struct rdma_region *r = &dev->region[region->id];

	if (r->mr)
		return 0;
	r->region = *region;
	return rdma_mem_region_reg(dev, region, &r->mr);
}

int rdma_dev_key(struct rdma_dev *dev, uint16_t region_id, uint32_t *lkey_out)
{
	struct rdma_region *r = &dev->region[region_id];

	if (!r->mr)
		return spw_err(EINVAL, "memory region %u was not attached to the port", region_id);
	*lkey_out = r->mr->lkey;
	return 0;
}

/* Several queues may find the same key refused at once. Only the first of them replaces it; the
 * others find another key than bad_lkey and use that. */
int rdma_dev_key_replace(struct rdma_dev *dev, uint16_t region_id, uint32_t bad_lkey,
			 uint32_t *lkey_out)
{
	struct rdma_region *r = &dev->region[region_id];
	struct ibv_mr *mr;
	int rc = 0;

	pthread_mutex_lock(&dev->lock);
	if (r->mr->lkey == bad_lkey)
		rc = rdma_mem_region_reg(dev, &r->region, &mr);
	if (!rc && r->mr->lkey == bad_lkey) {
		ibv_dereg_mr(r->mr);
		r->mr = mr;
	}
	*lkey_out = r->mr->lkey;
	pthread_mutex_unlock(&dev->lock);
	return rc;
}
