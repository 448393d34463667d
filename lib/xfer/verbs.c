/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A rail in plain verbs: any RDMA device. WQEs wait in an array until the doorbell, and are then
 * posted as one list.
 *
 *   post    WQE ─► wr[cnt], sge[cnt]; with XFER_POLL_MAX of them a doorbell comes early
 *   ring    the last one signaled, the list linked ─► ibv_post_send
 *   poll    ibv_poll_cq ─► struct xfer_done: position of a send, or immediate of a receive
 *
 * Called through struct xfer_rail_ops for devices without direct verbs, and for rails=verbs:DEVICE.
 * ibv_post_send copies the list, so its array is free again at once; payload of in_wqe is copied
 * then, too, which is why post_size and post_joined keep theirs until the doorbell.
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "xfer/endpoint.h"
#include "xfer/rail.h"

#define RECV_ID (1ull << 32) /* of receives; sends have their position */

/* On an error rail.c destroys what was made. */
static int verbs_make(struct xfer_rail *rail)
{
	struct ibv_qp_init_attr attr = {.cap = XFER_QP_CAP, .qp_type = IBV_QPT_RC};

	rail->plain.cnt = 0;
	rail->refused = false;
	rail->cq = ibv_create_cq(rail->dev->rdma.ctx, XFER_CQ_CNT - 1, rail,
				 rail->dev->rdma.channel, 0);
	if (!rail->cq)
		return spw_err(errno, "%s: a completion queue of %u entries: %s",
			       rail->dev->rdma.name, XFER_CQ_CNT, strerror(errno));
	attr.send_cq = attr.recv_cq = rail->cq;
	rail->qp = ibv_create_qp(rail->dev->domain, &attr);
	return xfer_rail_qp_check(rail);
}

/* refused stays set until the rail gets another QP: the device did not take a WQE that sent[] has.
 */
static bool verbs_ring(struct xfer_rail *rail)
{
	struct xfer_plain *p = &rail->plain;
	struct ibv_send_wr *bad;

	if (!p->cnt)
		return !rail->refused;
	p->wr[p->cnt - 1].send_flags |= IBV_SEND_SIGNALED;
	p->wr[p->cnt - 1].next = NULL;
	rail->refused |= ibv_post_send(rail->qp, p->wr, &bad) != 0;
	p->cnt = 0;
	return !rail->refused;
}

/* wr_id is the position after the WQE, of which a completion acknowledges all before it. */
static void verbs_post(struct xfer_rail *rail, const struct xfer_wr *wr)
{
	static const enum ibv_wr_opcode opcode[] = {
		[XFER_OP_WRITE] = IBV_WR_RDMA_WRITE,
		[XFER_OP_WRITE_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
		[XFER_OP_READ] = IBV_WR_RDMA_READ,
		[XFER_OP_SWAP] = IBV_WR_ATOMIC_CMP_AND_SWP,
	};
	struct xfer_plain *p = &rail->plain;
	struct ibv_send_wr *to = &p->wr[p->cnt];

	p->sge[p->cnt] = (struct ibv_sge){.addr = wr->laddr, .length = wr->bytes, .lkey = wr->lkey};
	*to = (struct ibv_send_wr){
		.wr_id = (uint16_t)(rail->sq_pi + 1),
		.next = to + 1,
		.sg_list = &p->sge[p->cnt],
		.num_sge = wr->bytes ? 1 : 0,
		.opcode = opcode[wr->op],
		.send_flags = (wr->signal ? (unsigned)IBV_SEND_SIGNALED : 0) |
			      (wr->in_wqe ? (unsigned)IBV_SEND_INLINE : 0),
		.imm_data = (SPW_FORCE uint32_t)spw_cpu_to_be32(wr->imm),
		.wr.rdma = {.remote_addr = wr->raddr, .rkey = wr->rkey},
	};
	if (wr->op == XFER_OP_SWAP) {
		to->wr.atomic.remote_addr = wr->raddr;
		to->wr.atomic.compare_add = wr->compare;
		to->wr.atomic.swap = wr->swap;
		to->wr.atomic.rkey = wr->rkey;
	}
	if (++p->cnt == XFER_POLL_MAX)
		verbs_ring(rail);
}

/* Without scatter entries: what arrives are immediates. */
static void verbs_refill(struct xfer_rail *rail, uint32_t cnt)
{
	struct ibv_recv_wr wr[XFER_RQ_BATCH], *bad;

	for (uint32_t left = cnt, n; left; left -= n) {
		n = SPW_MIN(left, XFER_RQ_BATCH);
		for (uint32_t i = 0; i < n; i++)
			wr[i] = (struct ibv_recv_wr){.wr_id = RECV_ID,
						     .next = i + 1 < n ? &wr[i + 1] : NULL};
		(void)ibv_post_recv(rail->qp, wr, &bad);
	}
}

static uint32_t verbs_poll(struct xfer_rail *rail, struct xfer_done *done, uint32_t cnt)
{
	struct ibv_wc wc[XFER_POLL_MAX];
	const int n = ibv_poll_cq(rail->cq, (int)cnt, wc);

	for (int i = 0; i < n; i++)
		done[i] = (struct xfer_done){
			.ok = wc[i].status == IBV_WC_SUCCESS,
			.is_send = wc[i].wr_id != RECV_ID,
			.end = (uint16_t)wc[i].wr_id,
			.imm = spw_be32_to_cpu((SPW_FORCE spw_be32)wc[i].imm_data),
			.bytes = wc[i].byte_len,
			.status = wc[i].status,
		};
	return n > 0 ? (uint32_t)n : 0;
}

/* rdma-core counts the events itself. */
static void verbs_arm(struct xfer_rail *rail)
{
	(void)ibv_req_notify_cq(rail->cq, 0);
}

const struct xfer_rail_ops xfer_verbs_ops = {
	.make = verbs_make,
	.post = verbs_post,
	.ring = verbs_ring,
	.refill = verbs_refill,
	.refill_min = XFER_RQ_BATCH,
	.poll = verbs_poll,
	.arm = verbs_arm,
};
