/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Flush of GPU memory. What a NIC has written may still be on its way over PCIe when its completion
 * is read; a read of the same memory by the same NIC pushes it ahead. Each device has for that a QP
 * that is connected to itself, made when it is first needed. Another one of this kind, made when
 * the device is opened, is asked for the order of bytes.
 *
 * A request remembers how many reads each device had been given; it is done when so many are.
 *
 *   spw_xfer_flush   a READ of the last byte on the loop of each device ─► its number
 *   xfer_flush_check polls the loops: all numbers reached? done; one of them failed? -EREMOTEIO
 *
 * Called by message.c while a flush is tested. Source for the order: PCIe, ordering rules: a read
 * must not pass posted writes. Host memory needs none of this and is done at once.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "peer/spw_peer_qp.h"
#include "xfer/connection.h"
#include "xfer/endpoint.h"

#define READS_MAX 64u

struct xfer_loop {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr; /* of the byte that is read into */
	uint8_t byte;
	bool failed;           /* its QP takes no more reads */
	uint32_t posted, done; /* reads so far */
	uint32_t seen; /* of those that are done, when it was last asked whether it is busy */
	uint32_t bad;  /* the last that failed; all that are not tested by then count */
};

static void loop_free(struct xfer_loop *loop)
{
	if (loop->qp)
		ibv_destroy_qp(loop->qp);
	if (loop->cq)
		ibv_destroy_cq(loop->cq);
	if (loop->mr)
		ibv_dereg_mr(loop->mr);
	free(loop);
}

void xfer_loop_close(struct xfer_dev *dev)
{
	if (dev->loop)
		loop_free(dev->loop);
	dev->loop = NULL;
}

/* Timeouts are those of rails: a read without an answer ends its flush with an error. */
static int connect_to_itself(const struct spw_xfer *x, const struct xfer_dev *dev,
			     struct xfer_loop *loop)
{
	struct peer_qp_path path = {.port_num = dev->rdma.port_num,
				    .gid_index = dev->gid.index,
				    .tclass = x->conf.traffic_class,
				    .timeout = x->conf.timeout,
				    .retry = x->conf.retry,
				    .rnr_retry = 7,
				    .rd_atomic = 1,
				    .access = IBV_ACCESS_REMOTE_READ,
				    .mtu = dev->mtu,
				    .dest_qpn = loop->qp->qp_num};
	int rc = peer_qp_init(loop->qp, &path);

	memcpy(path.dgid, dev->gid.gid.raw, sizeof(path.dgid));
	return rc ? rc : peer_qp_ready(loop->qp, &path);
}

/* Takes system calls: at open, for the order of bytes, and in the first flush of a device. */
static int loop_make(const struct spw_xfer *x, struct xfer_dev *dev)
{
	struct xfer_loop *loop = calloc(1, sizeof(*loop));
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = READS_MAX,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	int rc;

	if (!loop)
		return spw_err(ENOMEM, "no memory to flush with");
	rc = rdma_mr_reg_bytes(&dev->rdma, dev->rdma.pd, &loop->byte, 1, IBV_ACCESS_LOCAL_WRITE,
			       &loop->mr);
	attr.send_cq = attr.recv_cq = loop->cq =
		ibv_create_cq(dev->rdma.ctx, READS_MAX, NULL, NULL, 0);
	loop->qp = loop->cq ? ibv_create_qp(dev->rdma.pd, &attr) : NULL;
	if (!rc && !loop->qp)
		rc = spw_err(errno, "%s: a queue pair to flush with: %s", dev->rdma.name,
			     strerror(errno));
	rc = rc ? rc : connect_to_itself(x, dev, loop);
	if (rc)
		loop_free(loop);
	else
		dev->loop = loop;
	return rc;
}

bool xfer_loop_in_order(const struct spw_xfer *x, struct xfer_dev *dev)
{
	bool in_order;

	if (loop_make(x, dev))
		return false;
	in_order = ibv_query_qp_data_in_order(dev->loop->qp, IBV_WR_RDMA_WRITE, 0);
	xfer_loop_close(dev);
	return in_order;
}

/* Requests of all connections share the loop, so completions are only counted. */
static void loop_poll(struct xfer_loop *loop)
{
	struct ibv_wc wc[16];
	const int n = ibv_poll_cq(loop->cq, SPW_ARRAY_CNT(wc), wc);

	for (int i = 0; i < n; i++) {
		loop->done++;
		if (wc[i].status == IBV_WC_SUCCESS)
			continue;
		loop->failed = true;
		loop->bad = loop->done;
	}
}

bool xfer_loop_busy(struct xfer_dev *dev)
{
	struct xfer_loop *loop = dev->loop;
	bool busy;

	if (!loop || xfer_dev_is_gone(dev))
		return false;
	loop_poll(loop);
	busy = loop->posted != loop->done || loop->seen != loop->done;
	loop->seen = loop->done;
	return busy;
}

/* The last byte of what was written: nothing was written behind it. One byte is enough: the read
 * follows all writes before it, whatever it reads. */
static int flush_post(struct xfer_dev *dev, const struct spw_xfer_mem *mem, uint32_t idx,
		      uint64_t addr)
{
	struct xfer_loop *loop = dev->loop;
	struct ibv_sge sge = {.addr = (uintptr_t)&loop->byte, .length = 1, .lkey = loop->mr->lkey};
	struct ibv_send_wr *bad,
		wr = {.sg_list = &sge,
		      .num_sge = 1,
		      .opcode = IBV_WR_RDMA_READ,
		      .wr.rdma = {.remote_addr = addr, .rkey = mem->mr[idx]->rkey}};
	int rc = ibv_post_send(loop->qp, &wr, &bad);

	if (rc)
		return spw_err(rc, "%s: a read to flush with: %s", dev->rdma.name, strerror(rc));
	loop->posted++;
	return 0;
}

/* Once all reads of a QP that failed have been flushed. The numbers of reads go on. */
static int flush_recover(const struct spw_xfer *x, const struct xfer_dev *dev,
			 struct xfer_loop *loop)
{
	int rc;

	if (loop->posted != loop->done)
		return -EAGAIN;
	rc = peer_qp_reset(loop->qp);
	rc = rc ? rc : connect_to_itself(x, dev, loop);
	loop->failed = rc != 0;
	return rc;
}

/* Returns: 0: the loop takes one more read; -EAGAIN: not now; else it cannot be made. */
static int flush_prepare(const struct spw_xfer *x, struct xfer_dev *dev)
{
	struct xfer_loop *loop = dev->loop;

	if (!loop)
		return loop_make(x, dev);
	if (loop->failed || loop->posted - loop->done == READS_MAX)
		loop_poll(loop);
	if (loop->failed)
		return flush_recover(x, dev, loop);
	return loop->posted - loop->done == READS_MAX ? -EAGAIN : 0;
}

/* The devices that have written to the memory, as a mask; one that is gone reads nothing, and what
 * it had written nobody knows: its rail has failed, and the others wrote it again. */
static uint8_t flush_devs(const struct spw_xfer_conn *conn)
{
	uint8_t devs = 0;

	for (uint32_t i = 0; i < conn->rail_cnt; i++)
		if (!xfer_dev_is_gone(conn->rail[i]->dev))
			devs |= (uint8_t)(1u << conn->rail[i]->dev_idx);
	return devs;
}

int spw_xfer_flush(struct spw_xfer_conn *conn, struct spw_xfer_mem *mem, void *addr, uint64_t bytes,
		   struct spw_xfer_req **req_out)
{
	struct spw_xfer *x = conn->x;
	struct spw_xfer_req *req;
	const bool gpu = mem && mem->req.kind == SPW_XFER_DMABUF && bytes;
	const uint8_t devs = gpu ? flush_devs(conn) : 0;
	int rc = xfer_conn_usable(conn);

	*req_out = NULL;
	rc = rc ? rc : xfer_mem_check(x, mem, (uintptr_t)addr, bytes);
	for (uint32_t i = 0; i < x->dev_cnt && !rc; i++)
		rc = devs >> i & 1u ? flush_prepare(x, &x->dev[i]) : 0;
	if (rc)
		return rc;
	req = xfer_req_take(conn, XFER_REQ_FLUSH);
	if (!req)
		return -EAGAIN;
	req->part_cnt = 1;
	req->left = devs != 0;
	req->flush_devs = devs;
	req->bytes[0] = bytes;
	req->mem[0] = mem;
	if (mem)
		mem->user_cnt++;
	for (uint32_t i = 0; i < x->dev_cnt && !rc; i++) {
		if (!(devs >> i & 1u))
			continue;
		rc = flush_post(&x->dev[i], mem, i, (uintptr_t)addr + bytes - 1);
		req->flush_at[i] = x->dev[i].loop->posted;
	}
	if (rc)
		xfer_req_give(req);
	else
		*req_out = req;
	return rc;
}

void xfer_flush_check(struct spw_xfer_req *req)
{
	struct spw_xfer *x = req->conn->x;
	bool failed = false;

	for (uint32_t i = 0; i < x->dev_cnt; i++) {
		struct xfer_loop *loop = x->dev[i].loop;

		if (!(req->flush_devs >> i & 1u) || xfer_dev_is_gone(&x->dev[i]))
			continue;
		loop_poll(loop);
		if ((int32_t)(loop->done - req->flush_at[i]) < 0)
			return;
		failed |= (int32_t)(loop->bad - req->flush_at[i]) >= 0;
	}
	xfer_req_part(req, 0, req->bytes[0], failed ? -EREMOTEIO : 0);
}
