/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Registrations. NCCL registers the same buffers for each connection, so what lies within a
 * registration shares it. Memory may start and end anywhere.
 *
 *   reg_mr          within a registration of host memory? ─► one more user of it, else a new one
 *   reg_mr_dmabuf   the same range of a dma-buf?           ─► the same
 *   dereg_mr        the last user gone: deregistered with every rail
 *
 * Called by tables.c, in whatever thread NCCL registers. A registration is a user of its context,
 * so it may outlive the connection through which it was made. Registering pins pages and takes a
 * system call for each rail: sharing is what keeps NCCL's many connections cheap.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "ncclnet/ncclnet.h"

/* Under the lock. A dma-buf is shared only if it is the same range: another one may have replaced
 * a part of it. */
static struct nnet_mr *memory_find(const struct nnet_ctx *ctx, const struct spw_xfer_mem_req *req)
{
	const uint8_t *addr = req->addr;

	for (struct nnet_mr *mr = ctx->mrs; mr; mr = mr->next) {
		const bool within = addr >= mr->addr && req->bytes <= mr->bytes &&
				    (size_t)(addr - mr->addr) <= mr->bytes - req->bytes;

		if (within && mr->kind == req->kind &&
		    (req->kind == SPW_XFER_HOST || (addr == mr->addr && req->bytes == mr->bytes)))
			return mr;
	}
	return NULL;
}

/* Under the lock. Errors: -errno with a text. Memory of 0 bytes is not registered at all (mem
 * NULL). */
static int mr_add(struct nnet_ctx *ctx, const struct spw_xfer_mem_req *req, struct nnet_mr **mr_out)
{
	struct nnet_mr *mr = calloc(1, sizeof(*mr));
	int rc = mr ? 0 : spw_err(ENOMEM, "no memory for a registration");

	if (!rc && req->bytes)
		rc = spw_xfer_mem_reg(ctx->x, req, &mr->mem);
	if (rc) {
		free(mr);
		return rc;
	}
	mr->ctx = ctx;
	mr->addr = req->addr;
	mr->bytes = req->bytes;
	mr->kind = req->kind;
	mr->next = ctx->mrs;
	ctx->mrs = mr;
	*mr_out = mr;
	return 0;
}

static int memory_reg(struct nnet_comm *comm, const struct spw_xfer_mem_req *req, void **mr_out)
{
	struct nnet_ctx *ctx = comm->ctx;
	struct nnet_mr *mr;
	int rc = 0;

	pthread_mutex_lock(&ctx->lock);
	mr = memory_find(ctx, req);
	if (!mr)
		rc = mr_add(ctx, req, &mr);
	if (!rc)
		mr->user_cnt++;
	pthread_mutex_unlock(&ctx->lock);
	if (rc)
		return nnet_fail(rc, "memory");
	nnet_ctx_get(ctx);
	*mr_out = mr;
	return NCCL_SUCCESS;
}

/* GPU memory by its address would need the kernel module nvidia-peermem: the properties name
 * dma-bufs only. */
int nnet_reg_mr(void *comm, void *data, size_t bytes, int type, void **mr_out)
{
	const struct spw_xfer_mem_req req = {.kind = SPW_XFER_HOST, .addr = data, .bytes = bytes};

	*mr_out = NULL;
	if (nnet_is_forked())
		return NCCL_INVALID_USAGE;
	if (type == NCCL_PTR_HOST)
		return memory_reg(comm, &req, mr_out);
	spw_warn("memory of type %d cannot be registered by its address: host memory can, and a "
		 "GPU's as a dma-buf",
		 type);
	return NCCL_INVALID_USAGE;
}

/* fd is NCCL's, which closes it after the call: the registration keeps the dma-buf alive. */
int nnet_reg_mr_dmabuf(void *comm, void *data, size_t bytes, int type, uint64_t offset, int fd,
		       void **mr_out)
{
	const struct spw_xfer_mem_req req = {.kind = SPW_XFER_DMABUF,
					     .addr = data,
					     .bytes = bytes,
					     .dmabuf_fd = fd,
					     .dmabuf_offset = offset};

	(void)type;
	*mr_out = NULL;
	if (nnet_is_forked())
		return NCCL_INVALID_USAGE;
	return memory_reg(comm, &req, mr_out);
}

/* Requests that NCCL gave up, as it does when a collective is aborted, still use their memory,
 * which is about to be freed: their connections end first. */
static void break_users(const struct nnet_ctx *ctx, const struct nnet_mr *mr)
{
	for (struct nnet_comm *comm = ctx->comms; comm; comm = comm->next) {
		bool uses = false;

		for (uint32_t i = 0; comm->conn && i < NNET_REQ_CNT; i++)
			for (uint32_t p = 0; comm->req[i].left && p < NNET_PART_MAX; p++)
				uses |= comm->req[i].mr[p] == mr;
		if (uses)
			nnet_comm_break(comm);
	}
}

/* Under the lock. */
static int memory_drop(struct nnet_ctx *ctx, struct nnet_mr *mr)
{
	struct nnet_mr **at;
	int rc;

	if (--mr->user_cnt)
		return 0;
	rc = spw_xfer_mem_dereg(mr->mem);
	if (rc == -EBUSY) {
		break_users(ctx, mr);
		rc = spw_xfer_mem_dereg(mr->mem);
	}
	for (at = &ctx->mrs; *at != mr; at = &(*at)->next)
		;
	*at = mr->next;
	free(mr);
	return rc;
}

/* Errors: a registration that cannot be ended is reported, and its struct is freed all the same. */
int nnet_dereg_mr(void *comm, void *dropped)
{
	struct nnet_mr *mr = dropped;
	struct nnet_ctx *ctx;
	int rc;

	(void)comm; /* may be closed */
	if (nnet_is_forked())
		return NCCL_INVALID_USAGE;
	if (!mr)
		return NCCL_SUCCESS;
	ctx = mr->ctx;
	pthread_mutex_lock(&ctx->lock);
	rc = memory_drop(ctx, mr);
	pthread_mutex_unlock(&ctx->lock);
	nnet_ctx_put(ctx);
	return rc ? nnet_fail(rc, "memory") : NCCL_SUCCESS;
}
