/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Register pages and clock pages. The descriptor that an application gets for a device is a memfd;
 * these pages are pages of that file, at the offsets that the answers name for mmap. So mmap needs
 * no interposing, and application and NIC share the memory.
 *
 *   page offset   PGOFF_CORE_CLOCK   PGOFF_CLOCK_INFO   PGOFF_UAR + index
 *   content       the NIC clock      its conversion     one register page
 *
 * libmlx5 maps the clock pages, and ioctl.c allocates register pages (do_uar_alloc);
 * nic/run/doorbell.c polls them. What to know before changing it: the file is sparse, and only
 * pages that are used take memory. The application's mapping may outlive the object: what it writes
 * then reaches nobody.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "softhca/hca_real.h"
#include "softhca/kernel/ctl.h"
#include "softhca/nic/nic.h"

#define UAR_BYTES    4096u
#define UAR_LOG2_MAX 15u /* create_cq names a page in 16 bits */
/* File offsets in pages. The clock's are those of libmlx5: command << 8. */
#define PGOFF_CORE_CLOCK ((uint64_t)MLX5_IB_MMAP_CORE_CLOCK << 8)
#define PGOFF_CLOCK_INFO ((uint64_t)MLX5_IB_MMAP_CLOCK_INFO << 8)
#define PGOFF_UAR        0x10000ull

static uint64_t uar_page_bytes(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

static void *uar_map_page(int fd, uint64_t pgoff)
{
	void *p = mmap(NULL, uar_page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		       (off_t)(pgoff * uar_page_bytes()));

	return p == MAP_FAILED ? NULL : p;
}

/* Both clock pages are there from the start: an application maps them without a command. */
int hca_uar_map_ctx(struct hca_ctx *ctx)
{
	off_t bytes = (off_t)((PGOFF_UAR + (1ull << UAR_LOG2_MAX)) * uar_page_bytes());
	int rc = 0;

	ctx->fd = memfd_create("uverbs", MFD_CLOEXEC);
	if (ctx->fd < 0)
		return -errno;
	if (ftruncate(ctx->fd, bytes))
		rc = -errno;
	ctx->core_clock = rc ? NULL : uar_map_page(ctx->fd, PGOFF_CORE_CLOCK);
	ctx->clock_info = rc ? NULL : uar_map_page(ctx->fd, PGOFF_CLOCK_INFO);
	if (ctx->core_clock && ctx->clock_info)
		return 0;
	rc = rc ? rc : -ENOMEM;
	hca_uar_unmap_ctx(ctx);
	real_close(ctx->fd);
	return rc;
}

void hca_uar_unmap_ctx(struct hca_ctx *ctx)
{
	if (ctx->core_clock)
		munmap(ctx->core_clock, uar_page_bytes());
	if (ctx->clock_info)
		munmap(ctx->clock_info, uar_page_bytes());
}

int hca_uar_alloc(struct hca_ctx *ctx, struct hca_uar **uar_out, uint64_t *mmap_off_out)
{
	struct hca_uar *uar = hca_obj_new(ctx, HCA_UAR, sizeof(*uar), 0);
	int rc;

	if (!uar)
		return -ENOMEM;
	rc = hca_tbl_add(&ctx->dev->uars, uar, 1, UAR_LOG2_MAX, &uar->index);
	if (rc)
		goto err_obj;
	uar->page = uar_map_page(ctx->fd, PGOFF_UAR + uar->index);
	rc = uar->page ? nic_uar_create(uar) : -ENOMEM;
	if (rc)
		goto err_tbl;
	*uar_out = uar;
	*mmap_off_out = (PGOFF_UAR + uar->index) * uar_page_bytes();
	return 0;
err_tbl:
	hca_tbl_del(&ctx->dev->uars, uar->index);
	if (uar->page)
		munmap(uar->page, uar_page_bytes());
err_obj:
	hca_obj_free(&uar->o);
	return rc;
}

/* The page is removed from the NIC's list before it is cleared. */
void hca_uar_free(struct hca_uar *uar)
{
	nic_uar_destroy(uar);
	hca_tbl_del(&uar->o.ctx->dev->uars, uar->index);
	/* The index may be reused in this file: its next owner must not find an old doorbell. */
	for (uint32_t i = 0; i < UAR_BYTES / 8; i++)
		spw_dma_store((uint64_t *)uar->page + i, 0);
	munmap(uar->page, uar_page_bytes());
	hca_obj_free(&uar->o);
}

/* Indices are the device's: a page of another context is refused. */
struct hca_uar *hca_uar_find(struct hca_ctx *ctx, uint32_t index)
{
	struct hca_uar *uar = hca_tbl_get(&ctx->dev->uars, index);

	return uar && uar->o.ctx == ctx ? uar : NULL;
}

/* A page that is rung sends the NIC to all QPs of this list (nic/run/doorbell.c). */
void hca_uar_bind_qp(struct hca_uar *uar, struct hca_qp *qp)
{
	qp->uar = uar;
	qp->uar_next = uar->qps;
	uar->qps = qp;
	uar->o.use_cnt++;
}

void hca_uar_unbind_qp(struct hca_qp *qp)
{
	HCA_UNLINK(qp->uar->qps, qp, uar_next);
	qp->uar->o.use_cnt--;
	qp->uar = NULL;
}

/* A page that is rung to arm a CQ sends the NIC to all CQs of this list (cq_arm_scan). */
void hca_uar_bind_cq(struct hca_uar *uar, struct hca_cq *cq)
{
	cq->uar = uar;
	cq->uar_next = uar->cqs;
	uar->cqs = cq;
	uar->o.use_cnt++;
}

void hca_uar_unbind_cq(struct hca_cq *cq)
{
	HCA_UNLINK(cq->uar->cqs, cq, uar_next);
	cq->uar->o.use_cnt--;
	cq->uar = NULL;
}
