/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Memory of the caller, registered with the device of every rail.
 *
 *   spw_xfer_mem_reg     one MR for each device of the endpoint: a rail's device has the keys
 *   xfer_mem_check       each send, receive, put, get and flush: is the range within it?
 *   spw_xfer_mem_dereg   refused while requests or windows use it: a NIC may still read or write
 *
 * Unless the memory is exported, its MRs have no right of remote atomics, and remote reads only for
 * GPU memory; what a peer may reach as an exposed window is registered apart (window.c).
 */
#include <errno.h>
#include <stdlib.h>

#include "base/spw_err.h"
#include "xfer/endpoint.h"

#define ACCESS     (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define ACCESS_GPU (ACCESS | IBV_ACCESS_REMOTE_READ) /* a flush reads through its own QP */

/* Of the memory that spw_xfer_dmabuf_check names; it is never touched. */
#define PROBE_BYTES 4096u

static int mem_rights(const struct xfer_dev *dev, const struct spw_xfer_mem_req *req)
{
	if (req->exported)
		return ACCESS | IBV_ACCESS_REMOTE_READ |
		       (dev->atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0);
	return req->kind == SPW_XFER_DMABUF ? ACCESS_GPU : ACCESS;
}

/* A device that is gone gets no MR and needs none: no rail uses it again. */
static int mem_reg(const struct xfer_dev *dev, const struct spw_xfer_mem_req *req,
		   struct ibv_mr **mr_out)
{
	const struct rdma_dmabuf buf = {.fd = req->dmabuf_fd,
					.offset = req->dmabuf_offset,
					.addr = (uintptr_t)req->addr,
					.bytes = req->bytes};

	if (xfer_dev_is_gone(dev))
		return 0;
	if (req->kind == SPW_XFER_DMABUF)
		return rdma_mr_reg_dmabuf(&dev->rdma, &buf, mem_rights(dev, req), mr_out);
	return rdma_mr_reg_bytes(&dev->rdma, dev->rdma.pd, req->addr, req->bytes,
				 mem_rights(dev, req), mr_out);
}

/* On an error all MRs that were made are undone. */
int spw_xfer_mem_reg(struct spw_xfer *x, const struct spw_xfer_mem_req *req,
		     struct spw_xfer_mem **mem_out)
{
	struct spw_xfer_mem *mem;
	int rc = 0;

	*mem_out = NULL;
	if (!req->bytes || req->kind > SPW_XFER_DMABUF ||
	    (uintptr_t)req->addr + req->bytes < req->bytes)
		return spw_err(EINVAL, "memory of %zu bytes cannot be registered", req->bytes);
	mem = calloc(1, sizeof(*mem));
	if (!mem)
		return spw_err(ENOMEM, "no memory for a registration");
	mem->x = x;
	mem->req = *req;
	xfer_list_add(&x->mems, &mem->link);
	for (uint32_t i = 0; i < x->dev_cnt && !rc; i++)
		rc = mem_reg(&x->dev[i], req, &mem->mr[i]);
	if (rc)
		spw_xfer_mem_dereg(mem);
	else
		*mem_out = mem;
	return rc;
}

/* No dma-buf is needed to ask: a driver without them answers before it looks at the descriptor
 * (Linux ib_uverbs: EOPNOTSUPP), one that has them complains of descriptor -1. Asked of each
 * device: one that cannot would fail every registration. */
int spw_xfer_dmabuf_check(const struct spw_xfer *x)
{
	const struct spw_xfer_mem_req req = {.kind = SPW_XFER_DMABUF,
					     .addr = (void *)PROBE_BYTES,
					     .bytes = PROBE_BYTES,
					     .dmabuf_fd = -1};

	for (uint32_t i = 0; i < x->dev_cnt; i++) {
		struct ibv_mr *mr = NULL;
		int rc = mem_reg(&x->dev[i], &req, &mr);

		if (mr)
			ibv_dereg_mr(mr);
		if (rc && rc != -EBADF)
			return rc;
	}
	return 0;
}

/* NULL is fine. */
int spw_xfer_mem_dereg(struct spw_xfer_mem *mem)
{
	if (!mem)
		return 0;
	if (mem->user_cnt)
		return spw_err(EBUSY,
			       "%u requests or windows still use this memory: test them "
			       "until done, or close their connections",
			       mem->user_cnt);
	for (uint32_t i = 0; i < mem->x->dev_cnt; i++)
		if (mem->mr[i])
			ibv_dereg_mr(mem->mr[i]);
	xfer_list_del(&mem->link);
	free(mem);
	return 0;
}

/* mem NULL: only for 0 bytes. Written so that no sum of address and length can overflow. */
int xfer_mem_check(const struct spw_xfer *x, const struct spw_xfer_mem *mem, uint64_t addr,
		   uint64_t bytes)
{
	const uint64_t start = mem ? (uintptr_t)mem->req.addr : 0;

	if (bytes > SPW_XFER_BYTES_MAX)
		return spw_err(ERANGE, "%llu bytes: at most 2^34 in one message",
			       (unsigned long long)bytes);
	if (!mem)
		return bytes ? spw_err(EINVAL, "bytes without memory") : 0;
	if (mem->x != x)
		return spw_err(EINVAL, "this memory was registered with another endpoint");
	if (addr < start || bytes > mem->req.bytes || addr - start > mem->req.bytes - bytes)
		return spw_err(ERANGE, "[%#llx, +%llu) is outside of its memory [%#llx, +%zu)",
			       (unsigned long long)addr, (unsigned long long)bytes,
			       (unsigned long long)start, mem->req.bytes);
	return 0;
}
