/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The devices of an endpoint under a fuzzer (nic.h): objects without a NIC behind them, and
 * completions that the input makes. What the library posts is held against what a NIC may do.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "xfer_nic.h"
#include "xfer/reach.h"

struct nic nic[SPW_XFER_RAIL_MAX];
uint64_t nic_now_ms;
static uint32_t keys;

/* ---- objects ---- */

int rdma_mr_reg_bytes(const struct rdma_dev *dev SPW_UNUSED, struct ibv_pd *pd SPW_UNUSED,
		      void *addr, size_t bytes, int access SPW_UNUSED, struct ibv_mr **mr_out)
{
	struct ibv_mr *mr = calloc(1, sizeof(*mr));

	mr->addr = addr;
	mr->length = bytes;
	mr->lkey = mr->rkey = ++keys << 8;
	*mr_out = mr;
	return 0;
}

int rdma_mr_reg_dmabuf(const struct rdma_dev *dev SPW_UNUSED,
		       const struct rdma_dmabuf *buf SPW_UNUSED, int access SPW_UNUSED,
		       struct ibv_mr **mr_out SPW_UNUSED)
{
	return -ENOTSUP;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	free(mr);
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	for (uint32_t i = 0; i < SPW_XFER_RAIL_MAX; i++)
		if (qp == &nic[i].qp)
			nic[i].made = false;
	return 0;
}

int ibv_destroy_cq(struct ibv_cq *cq SPW_UNUSED)
{
	return 0;
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	return status ? "an error" : "success";
}

int rdma_dev_check_link(struct rdma_dev *dev SPW_UNUSED)
{
	return 0;
}

uint32_t rdma_dev_speed_mbps(const struct rdma_dev *dev SPW_UNUSED)
{
	return 100000;
}

int peer_qp_init(struct ibv_qp *qp SPW_UNUSED, const struct peer_qp_path *path SPW_UNUSED)
{
	return 0;
}

int peer_qp_rts(struct ibv_qp *qp SPW_UNUSED, const struct peer_qp_path *path SPW_UNUSED)
{
	return 0;
}

int peer_qp_error(struct ibv_qp *qp SPW_UNUSED)
{
	return 0;
}

/* ---- parts of lib/xfer that need a device ---- */

int xfer_resolve_start(struct xfer_rail *rail SPW_UNUSED,
		       const struct peer_qp_path *path SPW_UNUSED)
{
	return 0;
}

int xfer_resolve_result(struct xfer_rail *rail SPW_UNUSED)
{
	return 0;
}

void xfer_resolve_abandon(struct xfer_rail *rail SPW_UNUSED) {}

int xfer_dial_turn(struct spw_xfer_conn *c SPW_UNUSED, uint64_t now_ms SPW_UNUSED)
{
	return -EAGAIN;
}

void xfer_dial_end(struct xfer_dial *dial SPW_UNUSED) {}

uint32_t xfer_house(struct spw_xfer *x SPW_UNUSED)
{
	return 0;
}

uint64_t xfer_now_ns(void)
{
	return nic_now_ms * 1000000u;
}

void xfer_flush_check(struct spw_xfer_req *req SPW_UNUSED) {}

uint32_t spw_xfer_progress(struct spw_xfer *x SPW_UNUSED)
{
	return 0;
}

/* ---- posting and polling ---- */

static int nic_make(struct xfer_rail *rail)
{
	struct nic *n = &nic[rail->dev_idx];

	if (n->made)
		abort(); /* the one before was not destroyed */
	memset(n, 0, sizeof(*n));
	n->made = true;
	n->qp.qp_num = 1 + rail->dev_idx;
	rail->qp = &n->qp;
	rail->cq = (struct ibv_cq *)&n->qp;
	return 0;
}

/* Local memory is registered, and the send queue has room. */
static void nic_post(struct xfer_rail *rail, const struct xfer_wr *wr)
{
	struct nic *n = &nic[rail->dev_idx];

	if (!n->made || n->pi - n->ci >= XFER_SQ_CNT)
		abort();
	if (wr->in_wqe && wr->bytes > XFER_INLINE_MAX)
		abort();
	if (wr->bytes && !nic_may_read(wr->laddr, wr->bytes, wr->lkey, wr->in_wqe))
		abort();
	if (wr->raddr + wr->bytes < wr->raddr)
		abort();
	if (wr->op == XFER_OP_SWAP) /* every second one finds something else */
		*(uint64_t *)(uintptr_t)wr->laddr = wr->compare + n->pi % 2;
	n->pi++;
}

static bool nic_ring(struct xfer_rail *rail)
{
	return nic[rail->dev_idx].made;
}

static void nic_refill(struct xfer_rail *rail, uint32_t cnt)
{
	nic[rail->dev_idx].receives += cnt;
	if (nic[rail->dev_idx].receives > XFER_RQ_CNT)
		abort();
}

static uint32_t nic_poll(struct xfer_rail *rail, struct xfer_done *done, uint32_t cnt)
{
	struct nic *n = &nic[rail->dev_idx];
	uint32_t i = 0;

	if (!n->made)
		abort(); /* a CQ that was destroyed */
	for (; i < cnt && i < n->done_cnt; i++)
		done[i] = n->done[i];
	n->done_cnt -= i;
	memmove(n->done, n->done + i, n->done_cnt * sizeof(*done));
	return i;
}

static void nic_arm(struct xfer_rail *rail SPW_UNUSED) {}

const struct xfer_rail_ops xfer_verbs_ops = {nic_make, nic_post, nic_ring, nic_refill,
					     32,       nic_poll, nic_arm};
const struct xfer_rail_ops xfer_direct_ops = {nic_make, nic_post, nic_ring, nic_refill,
					      1,        nic_poll, nic_arm};

static void complete(struct nic *n, struct xfer_done done)
{
	if (n->made && n->done_cnt < NIC_DONE_MAX)
		n->done[n->done_cnt++] = done;
}

void nic_ack(struct nic *n, uint32_t cnt, uint32_t status)
{
	if (!n->made || n->pi == n->ci)
		return;
	n->ci += SPW_MIN(1 + cnt % XFER_SQ_CNT, n->pi - n->ci);
	complete(n,
		 (struct xfer_done){
			 .ok = !status, .is_send = true, .end = (uint16_t)n->ci, .status = status});
}

void nic_receive(struct nic *n, uint32_t imm, uint32_t bytes)
{
	if (!n->made || !n->receives)
		return;
	n->receives--;
	complete(n, (struct xfer_done){.ok = true, .imm = imm, .bytes = bytes});
}
