/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A rail in direct verbs: rdma-core creates the objects and reports their memory; posting and
 * polling read and write memory only. Every send WQE is one basic block of 64 bytes:
 *
 *   0        16        32
 *   control  remote    one data segment, or up to 28 bytes themselves (inline), or nothing;
 *                      of an atomic its operands, and at 48 a data segment
 *
 * Receives carry no scatter entry, so their WQEs are written once and posting moves only the
 * doorbell record. Sends and receives complete on one CQ, which nobody else uses.
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "rdma/spw_rdma_mlx5.h"
#include "xfer/endpoint.h"
#include "xfer/rail.h"

#define CTRL_BYTES   16u
#define HEAD_BYTES   32u /* control and remote segment */
#define ATOMIC_BYTES 16u
#define INLINE_MARK  (1u << 31)

/* ---- objects ---- */

static int direct_qp_create(struct xfer_rail *rail)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = rail->cq,
		.recv_cq = rail->cq,
		.cap = XFER_QP_CAP,
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = rail->dev->domain,
	};
	struct mlx5dv_qp_init_attr dv = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
		.create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE,
	};

	rail->qp = mlx5dv_create_qp(rail->dev->rdma.ctx, &attr, &dv);
	return xfer_rail_qp_check(rail);
}

/* An empty list of scatter entries. */
static void write_receives(const struct mlx5dv_qp *dv)
{
	for (uint32_t i = 0; i < dv->rq.wqe_cnt; i++)
		mlx5_wqe_data_put((uint8_t *)dv->rq.buf + (size_t)i * dv->rq.stride, 0, 0,
				  SPW_PRM_INVALID_LKEY);
}

static int direct_lay(struct xfer_rail *rail, const struct mlx5_cqmem *cq)
{
	struct xfer_direct *d = &rail->direct;
	struct mlx5dv_qp dv = {0};
	struct mlx5dv_obj obj = {.qp = {.in = rail->qp, .out = &dv}};
	int rc = mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP);

	if (rc)
		return spw_err(rc, "%s: mlx5dv_init_obj of a queue pair: %s", rail->dev->rdma.name,
			       strerror(rc));
	if (dv.sq.stride != SPW_PRM_WQE_BB_BYTES || dv.sq.wqe_cnt < XFER_SQ_CNT ||
	    dv.rq.wqe_cnt < XFER_RQ_CNT || cq->cnt < XFER_SQ_CNT + XFER_RQ_CNT)
		return spw_err(ENOTSUP, "%s: rings of %u, %u and %u entries: use verbs:%s",
			       rail->dev->rdma.name, dv.sq.wqe_cnt, dv.rq.wqe_cnt, cq->cnt,
			       rail->dev->rdma.name);
	*d = (struct xfer_direct){
		.sq = dv.sq.buf,
		.cq = cq->buf,
		.bf = dv.bf.reg,
		.sq_db = (spw_be32 *)&dv.dbrec[MLX5_SND_DBR],
		.rq_db = (spw_be32 *)&dv.dbrec[MLX5_RCV_DBR],
		.cq_db = cq->dbrec,
		.arm = cq->arm,
		.sq_mask = dv.sq.wqe_cnt - 1,
		.cq_mask = cq->cnt - 1,
		.cq_log2 = spw_log2_floor64(cq->cnt),
		.qpn = rail->qp->qp_num,
		.bf_toggle = rail->dev->td ? dv.bf.size : 0,
	};
	write_receives(&dv);
	return 0;
}

static int direct_make(struct xfer_rail *rail)
{
	struct ibv_cq_ex *cq;
	struct mlx5_cqmem mem;
	int rc = mlx5_cq_make(&rail->dev->rdma, XFER_CQ_CNT, 0, rail, &cq, &mem);

	if (rc)
		return rc;
	rail->cq = ibv_cq_ex_to_cq(cq);
	rc = direct_qp_create(rail);
	return rc ? rc : direct_lay(rail, &mem);
}

/* ---- post ---- */

SPW_INLINE uint8_t *direct_wqe(const struct xfer_direct *d, uint32_t pos)
{
	return d->sq + (size_t)(pos & d->sq_mask) * SPW_PRM_WQE_BB_BYTES;
}

/* Returns: the WQE's size in units of 16 bytes. */
SPW_INLINE uint32_t put_payload(uint8_t *at, const struct xfer_wr *wr)
{
	if (wr->op == XFER_OP_SWAP) {
		spw_prm_wqe_atomic_set_swap_add(at, wr->swap);
		spw_prm_wqe_atomic_set_compare(at, wr->compare);
		mlx5_wqe_data_put(at + ATOMIC_BYTES, wr->laddr, wr->bytes, wr->lkey);
		return (HEAD_BYTES + ATOMIC_BYTES) / 16 + 1;
	}
	if (!wr->bytes)
		return HEAD_BYTES / 16;
	if (!wr->in_wqe) {
		mlx5_wqe_data_put(at, wr->laddr, wr->bytes, wr->lkey);
		return HEAD_BYTES / 16 + 1;
	}
	spw_prm_st32(at, INLINE_MARK | wr->bytes);
	memcpy(at + 4, (const void *)(uintptr_t)wr->laddr, wr->bytes);
	return (HEAD_BYTES + 4 + wr->bytes + 15) / 16;
}

static void direct_post(struct xfer_rail *rail, const struct xfer_wr *wr)
{
	static const uint8_t opcode[] = {
		[XFER_OP_WRITE] = SPW_PRM_OP_RDMA_WRITE,
		[XFER_OP_WRITE_IMM] = SPW_PRM_OP_RDMA_WRITE_IMM,
		[XFER_OP_READ] = SPW_PRM_OP_RDMA_READ,
		[XFER_OP_SWAP] = SPW_PRM_OP_ATOMIC_CS,
	};
	const struct xfer_direct *d = &rail->direct;
	uint8_t *wqe = direct_wqe(d, rail->sq_pi);
	const uint32_t ds = put_payload(wqe + HEAD_BYTES, wr);

	mlx5_wqe_raddr_put(wqe + CTRL_BYTES, wr->raddr, wr->rkey);
	spw_prm_st32(wqe, (rail->sq_pi & 0xffffu) << 8 | opcode[wr->op]);
	spw_prm_st32(wqe + 4, d->qpn << 8 | ds);
	spw_prm_st32(wqe + 8, wr->signal ? SPW_PRM_CTRL_CE_CQE << 2 : 0);
	spw_prm_st32(wqe + 12, wr->imm);
}

/* The last WQE is signaled. The two halves of a BlueFlame register are used in turn; the turn
 * belongs to the register, which all rails of this device share. */
static bool direct_ring(struct xfer_rail *rail)
{
	struct xfer_direct *d = &rail->direct;
	uint8_t *last = direct_wqe(d, rail->sq_pi - 1);

	if (d->rung == rail->sq_pi)
		return true;
	spw_prm_st32(last + 8, SPW_PRM_CTRL_CE_CQE << 2);
	mlx5_doorbell(d->sq_db, d->bf + (rail->dev->bf_off & d->bf_toggle), last, rail->sq_pi,
		      rail->sq_pi - d->rung == 1 && d->bf_toggle);
	rail->dev->bf_off ^= d->bf_toggle;
	d->rung = rail->sq_pi;
	return true;
}

/* The CQ's consumer index was stored by the poll that found the receives used. */
static void direct_refill(struct xfer_rail *rail, uint32_t cnt)
{
	struct xfer_direct *d = &rail->direct;

	d->rq_pi += cnt;
	spw_dma_to_device(); /* [X3] */
	mlx5_wq_record_put(d->rq_db, d->rq_pi);
}

/* ---- poll ---- */

SPW_INLINE struct xfer_done direct_decode(const uint8_t *cqe)
{
	const uint32_t op = spw_prm_cqe64_get_opcode(cqe);
	const bool error = op != SPW_PRM_CQE_REQ && op != SPW_PRM_CQE_RESP_WR_IMM;

	return (struct xfer_done){
		.ok = !error,
		.is_send = op == SPW_PRM_CQE_REQ || op == SPW_PRM_CQE_REQ_ERR,
		.end = (uint16_t)(spw_prm_cqe64_get_wqe_counter(cqe) + 1),
		.imm = spw_prm_cqe64_get_imm_inval_pkey(cqe),
		.bytes = spw_prm_cqe64_get_byte_cnt(cqe),
		.status = error ? spw_prm_syndrome_wc_status(spw_prm_cqe_err_get_syndrome(cqe)) : 0,
	};
}

static uint32_t direct_poll(struct xfer_rail *rail, struct xfer_done *done, uint32_t cnt)
{
	struct xfer_direct *d = &rail->direct;
	uint32_t n = 0;

	while (n < cnt && mlx5_cqe_owned(mlx5_cqe_at(d->cq, d->cq_mask, d->cq_ci + n),
					 (d->cq_ci + n) >> d->cq_log2, 0))
		n++;
	if (!n)
		return 0;
	spw_dma_from_device(); /* [X2] */
	for (uint32_t i = 0; i < n; i++)
		done[i] = direct_decode(mlx5_cqe_at(d->cq, d->cq_mask, d->cq_ci + i));
	d->cq_ci += n;
	if (d->cq_db) {
		spw_dma_to_device(); /* [X3] */
		mlx5_cq_record_put(d->cq_db, d->cq_ci);
	}
	return n;
}

static void direct_arm(struct xfer_rail *rail)
{
	mlx5_cq_arm(&rail->direct.arm, rail->direct.cq_ci, rail->cq_events);
}

const struct xfer_rail_ops xfer_direct_ops = {
	.make = direct_make,
	.post = direct_post,
	.ring = direct_ring,
	.refill = direct_refill,
	.refill_min = 1, /* one store to memory */
	.poll = direct_poll,
	.arm = direct_arm,
};
