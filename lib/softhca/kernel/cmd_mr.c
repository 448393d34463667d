/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Commands on memory regions: of the application's memory, and of a dma-buf (any descriptor that
 * can be mapped). Nothing is pinned: memory that the application unmaps under a region becomes an
 * error CQE when the NIC accesses it (nic/host/guard.c).
 *
 *   key = index in the device's table << 8 | tag      lkey and rkey are the same
 *   REG_MR, REREG_MR, dma-buf --> hca_mr_make --> table      the NIC looks up each packet's key
 *
 * A region has no part of the NIC's own: from the moment that it leaves the table no packet finds
 * it.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "softhca/kernel/cmd.h"
#include "softhca/kernel/ctl.h"
#include "softhca/nic/nic.h"

/* Index 1 with tag 0 would be key 0x100, which terminates a list of data segments. */
#define MR_FIRST_IDX         2u
#define ACCESS_REMOTE_WRITES (IB_UVERBS_ACCESS_REMOTE_WRITE | IB_UVERBS_ACCESS_REMOTE_ATOMIC)
#define ACCESS_KNOWN                                                                          \
	(IB_UVERBS_ACCESS_LOCAL_WRITE | ACCESS_REMOTE_WRITES | IB_UVERBS_ACCESS_REMOTE_READ | \
	 IB_UVERBS_ACCESS_HUGETLB | IB_UVERBS_ACCESS_ZERO_BASED | IB_UVERBS_ACCESS_OPTIONAL_RANGE)

enum { REREG_TRANS = 1, REREG_PD = 2, REREG_ACCESS = 4, REREG_ALL = 7 };

static int mr_access_check(uint32_t access)
{
	/* A region that peers may write must be writable for its owner. */
	if (access & ACCESS_REMOTE_WRITES && !(access & IB_UVERBS_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	/* Memory windows and on-demand paging are not modelled. */
	return access & ~(uint32_t)ACCESS_KNOWN ? -EOPNOTSUPP : 0;
}

/* Will the NIC write there? Then the memory must be writable. */
static bool access_writes(uint32_t access)
{
	return access & (IB_UVERBS_ACCESS_LOCAL_WRITE | ACCESS_REMOTE_WRITES);
}

static int mr_map_app(const struct hca_mr_req *req, struct hca_mr *mr)
{
	/* As in Linux, address and iova must have the same offset in the page. */
	uint64_t in_page = (uint64_t)sysconf(_SC_PAGESIZE) - 1;

	if ((req->start & in_page) != (req->iova & in_page))
		return -EINVAL;
	if (hca_umem_check(req->start, req->length, access_writes(req->access)))
		return -EFAULT;
	mr->host = (uint8_t *)(uintptr_t)req->start;
	return 0;
}

/* A dma-buf reports its size through lseek only. Returns: 0: unknown. */
static uint64_t dmabuf_bytes(int fd)
{
	struct stat st;
	off_t end;

	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return (uint64_t)st.st_size;
	end = lseek(fd, 0, SEEK_END);
	return end < 0 ? 0 : (uint64_t)end;
}

/* The mapping is ours, so the application may close its descriptor or unmap its own. Pages are
 * mapped from the page that start lies in. */
static int mr_map_dmabuf(const struct hca_mr_req *req, struct hca_mr *mr)
{
	uint64_t in_page = req->start & ((uint64_t)sysconf(_SC_PAGESIZE) - 1),
		 bytes = dmabuf_bytes(req->fd);
	int prot = PROT_READ | (access_writes(req->access) ? PROT_WRITE : 0);
	void *p;

	if (bytes && req->start + req->length > bytes)
		return -EINVAL;

	mr->map_bytes = req->length + in_page;
	p = mmap(NULL, mr->map_bytes, prot, MAP_SHARED, req->fd, (off_t)(req->start - in_page));
	if (p == MAP_FAILED)
		return errno == EBADF ? -EBADF : -EINVAL;
	mr->map = p;
	mr->host = (uint8_t *)p + in_page;
	return 0;
}

/* Fills in *mr only: rereg_mr tries a new range on a copy first. */
static int mr_map_range(const struct hca_mr_req *req, struct hca_mr *mr)
{
	if (req->length == 0 || req->start + req->length < req->start)
		return -EINVAL;
	mr->map = NULL;
	mr->length_bytes = req->length;
	mr->iova = req->iova;
	mr->access = req->access;
	return req->fd < 0 ? mr_map_app(req, mr) : mr_map_dmabuf(req, mr);
}

/* Memory of the application has no mapping of the library's. */
static void mr_unmap_range(struct hca_mr *mr)
{
	if (mr->map)
		munmap(mr->map, mr->map_bytes);
	mr->map = NULL;
}

/* Each key of an index has another tag than the one before: a stale key does not match. */
static void mr_new_key(struct hca_mr *mr, uint32_t idx)
{
	mr->key = idx << 8 | ++mr->o.ctx->dev->mrs.tag[idx];
}

/* Undo labels in the reverse order of what was made; hca_obj_free takes back the count of locked
 * pages. */
int hca_mr_make(struct hca_ctx *ctx, const struct hca_mr_req *req, struct hca_mr **mr_out)
{
	struct hca_pd *pd = hca_obj_find(ctx, HCA_PD, req->pd_handle);
	struct hca_mr *mr;
	uint32_t idx;
	int rc = mr_access_check(req->access);

	if (rc)
		return rc;
	if (!pd)
		return -EINVAL;
	mr = hca_obj_new(ctx, HCA_MR, sizeof(*mr), 0);
	if (!mr)
		return -ENOMEM;
	rc = mr_map_range(req, mr);
	if (rc)
		goto err_obj;
	rc = req->fd < 0 ? hca_obj_pin(&mr->o, req->start, req->length) : 0;
	rc = rc ? rc : hca_tbl_add(&ctx->dev->mrs, mr, MR_FIRST_IDX, CAP_MR_LOG2, &idx);
	if (rc)
		goto err_map;
	mr_new_key(mr, idx);
	mr->pd = pd;
	pd->o.use_cnt++;
	*mr_out = mr;
	return 0;
err_map:
	mr_unmap_range(mr);
err_obj:
	hca_obj_free(&mr->o);
	return rc;
}

/* The key goes first: no packet finds a region whose mapping is gone. */
void hca_mr_free(struct hca_mr *mr)
{
	hca_tbl_del(&mr->o.ctx->dev->mrs, mr->key >> 8);
	mr->pd->o.use_cnt--;
	mr_unmap_range(mr);
	hca_obj_free(&mr->o);
}

int cmd_reg_mr(struct uv_call *c)
{
	const struct ib_uverbs_reg_mr *req = c->in;
	const struct hca_mr_req mrq = {req->start,     req->length,       req->hca_va,
				       req->pd_handle, req->access_flags, -1};
	struct ib_uverbs_reg_mr_resp *resp = c->out;
	struct hca_mr *mr;
	int rc = hca_mr_make(c->ctx, &mrq, &mr);

	if (rc)
		return rc;
	resp->mr_handle = mr->o.handle;
	resp->lkey = resp->rkey = mr->key;
	return 0;
}

int cmd_dereg_mr(struct uv_call *c)
{
	const struct ib_uverbs_dereg_mr *req = c->in;
	struct hca_mr *mr;
	int rc = hca_obj_find_destroy(c->ctx, HCA_MR, req->mr_handle, &mr);

	if (!rc)
		hca_mr_free(mr);
	return rc;
}

/* As in Linux, a new translation or new access rights give the region a new key. */
int cmd_rereg_mr(struct uv_call *c)
{
	const struct ib_uverbs_rereg_mr *req = c->in;
	struct ib_uverbs_rereg_mr_resp *resp = c->out;
	struct hca_mr *mr = hca_obj_find(c->ctx, HCA_MR, req->mr_handle), new_range;
	struct hca_pd *pd = NULL;
	struct hca_mr_req mrq;
	int rc;

	if (!mr || !req->flags || req->flags & ~(uint32_t)REREG_ALL)
		return -EINVAL;
	if (req->flags & REREG_TRANS && (req->start & 0xfff) != (req->hca_va & 0xfff))
		return -EINVAL;
	if (req->flags & REREG_PD && !(pd = hca_obj_find(c->ctx, HCA_PD, req->pd_handle)))
		return -EINVAL;
	mrq = (struct hca_mr_req){
		(uint64_t)(uintptr_t)mr->host, mr->length_bytes, mr->iova, 0, mr->access, -1};
	if (req->flags & REREG_TRANS)
		mrq.start = req->start, mrq.length = req->length, mrq.iova = req->hca_va;
	else if (mr->map && req->flags & REREG_ACCESS)
		return -EOPNOTSUPP; /* the access of a dma-buf's mapping is fixed */
	if (req->flags & REREG_ACCESS)
		mrq.access = req->access_flags;
	rc = mr_access_check(mrq.access);
	if (rc)
		return rc;
	if (req->flags & (REREG_TRANS | REREG_ACCESS)) {
		rc = mr_map_range(&mrq, &new_range);
		rc = rc ? rc : hca_obj_repin(&mr->o, mrq.start, mrq.length);
		if (rc)
			return rc;
		mr_unmap_range(mr);
		/* From here on nothing can fail. */
		mr->host = new_range.host;
		mr->length_bytes = new_range.length_bytes;
		mr->iova = new_range.iova;
		mr->access = new_range.access;
		mr_new_key(mr, mr->key >> 8);
	}
	if (pd) {
		mr->pd->o.use_cnt--;
		mr->pd = pd;
		pd->o.use_cnt++;
	}
	resp->lkey = resp->rkey = mr->key;
	return 0;
}
