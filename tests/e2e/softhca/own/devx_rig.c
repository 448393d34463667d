/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include "devx_rig.h"

#include <string.h>
#include <unistd.h>

#include "base/spw_order.h"
#include "prm/spw_prm.h"

/* ---- set-up ---- */

static void make_domains(struct rig *g)
{
	struct box b;

	box_start(&b, 0x816);
	thing_make(g->r.k.ctx, &b, &g->td);
	box_start(&b, 0x912);
	box_put(b.in, 0x100 + 0x128, 24, g->td.number);
	thing_make(g->r.k.ctx, &b, &g->tis);
}

static void make_cq(struct rig *g, struct thing *t)
{
	struct box b;

	thing_memory(g->r.k.ctx, t, CQ_RECORDS(RIG_CQ_LOG2) + 64);
	for (uint32_t i = 0; i < 1u << RIG_CQ_LOG2; i++)
		t->mem[64 * i + 63] = SPW_PRM_CQE_INVALID << 4 | 1;
	cq_box(&b, t, RIG_CQ_LOG2, g->uar->page_id, g->eqn);
	thing_make(g->r.k.ctx, &b, t);
	assert_int_equal(t->mem[63], SPW_PRM_CQE_INVALID << 4 | 1); /* CREATE leaves CQEs alone */
}

/* A wq structure: cyclic, with its record behind the ring. */
static void wq_put(const struct rig *g, uint8_t *wq, const struct thing *t, uint32_t log_stride,
		   uint32_t log_size)
{
	box_put(wq, 0, 4, 1);
	box_put(wq, 0x48, 24, g->pdn);
	box_put(wq, 0x68, 24, g->uar->page_id);
	box_put(wq, 0x80, 64, 1ull << (log_stride + log_size));
	box_put(wq, 0x10c, 4, log_stride);
	box_put(wq, 0x11b, 5, log_size);
	box_put(wq, 0x140, 32, t->umem->umem_id);
	box_put(wq, 0x160, 32, t->umem->umem_id);
}

void rig_sq_box(const struct rig *g, struct box *b, const struct thing *t)
{
	uint8_t *sqc = b->in + 0x20;

	box_start(b, 0x904);
	box_put(sqc, 3, 1, 1); /* flush in error */
	box_put(sqc, 0x28, 24, 0x1234);
	box_put(sqc, 0x48, 24, g->cq.number);
	box_put(sqc, 0x100, 16, 1);
	box_put(sqc, 0x168, 24, g->tis.number);
	wq_put(g, sqc + 0x30, t, 6, RIG_SQ_LOG2);
}

void rig_rq_box(const struct rig *g, struct box *b, const struct thing *t)
{
	uint8_t *rqc = b->in + 0x20;

	box_start(b, 0x908);
	box_put(rqc, 3, 1, 1);   /* keep VLAN tags */
	box_put(rqc, 0xd, 1, 1); /* flush in error */
	box_put(rqc, 0x48, 24, g->cq.number);
	wq_put(g, rqc + 0x30, t, 4, RIG_RQ_LOG2);
}

int rig_to_state(struct thing *t, uint32_t opcode, uint32_t from, uint32_t to)
{
	struct box b;

	box_start(&b, opcode);
	box_put(b.in, 0x40, 4, from);
	box_put(b.in, 0x100 + 8, 4, to);
	return thing_modify(t, &b, opcode);
}

void rig_open(struct rig *g)
{
	struct mlx5dv_pd dv;
	struct mlx5dv_obj obj;
	struct box b;

	raw_open(&g->r, &(struct raw_how){0});
	obj = (struct mlx5dv_obj){.pd = {.in = g->r.k.pd, .out = &dv}};
	assert_int_equal(mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD), 0);
	g->pdn = dv.pdn;
	g->uar = mlx5dv_devx_alloc_uar(g->r.k.ctx, MLX5DV_UAR_ALLOC_TYPE_NC);
	assert_non_null(g->uar);
	assert_int_equal(mlx5dv_devx_query_eqn(g->r.k.ctx, 0, &g->eqn), 0);
	make_domains(g);
	make_cq(g, &g->cq);
	thing_memory(g->r.k.ctx, &g->sq, (64u << RIG_SQ_LOG2) + 64);
	rig_sq_box(g, &b, &g->sq);
	thing_make(g->r.k.ctx, &b, &g->sq);
	thing_memory(g->r.k.ctx, &g->rq, (16u << RIG_RQ_LOG2) + 64);
	rig_rq_box(g, &b, &g->rq);
	thing_make(g->r.k.ctx, &b, &g->rq);
	g->sq_pi = g->cq_ci = 0;
}

void rig_close(struct rig *g)
{
	thing_free(&g->rq);
	thing_free(&g->sq);
	thing_free(&g->cq);
	thing_free(&g->tis);
	thing_free(&g->td);
	mlx5dv_devx_free_uar(g->uar);
	raw_close(&g->r);
}

/* ---- sending ---- */

void rig_post_frame(struct rig *g, uint32_t len)
{
	uint8_t *wqe = g->sq.mem + 64ull * (g->sq_pi & ((1u << RIG_SQ_LOG2) - 1));
	spw_be64 first;

	memset(wqe, 0, 64);
	spw_prm_wqe_ctrl_set_opcode(wqe, SPW_PRM_OP_SEND);
	spw_prm_wqe_ctrl_set_wqe_index(wqe, g->sq_pi);
	spw_prm_wqe_ctrl_set_qpn(wqe, g->sq.number);
	spw_prm_wqe_ctrl_set_ds(wqe, 3);
	spw_prm_wqe_ctrl_set_ce(wqe, SPW_PRM_CTRL_CE_CQE);
	spw_prm_wqe_data_set_byte_count(wqe + 32, len);
	spw_prm_wqe_data_set_lkey(wqe + 32, g->r.k.mr->lkey);
	spw_prm_wqe_data_set_addr(wqe + 32, (uintptr_t)raw_frame_at(&g->r, 0));
	memcpy(&first, wqe, sizeof(first));
	g->sq_pi++;
	spw_dma_to_device(); /* WQE before record; partner: the NIC's read of SND_DBR */
	spw_dma_store((spw_be32 *)(void *)(g->sq.mem + (64u << RIG_SQ_LOG2) + 4),
		      spw_cpu_to_be32(g->sq_pi & 0xffff));
	spw_mmio_wc_start(); /* record before register; partner: the NIC's read of the register */
	spw_mmio_write64_be(g->uar->reg_addr, first);
	spw_mmio_wc_flush();
}

uint8_t rig_next_cqe(struct rig *g, uint8_t cqe_out[64])
{
	const uint8_t *cqe = g->cq.mem + 64ull * (g->cq_ci & ((1u << RIG_CQ_LOG2) - 1));
	uint8_t own;

	for (uint32_t i = 0;; i++) {
		own = spw_dma_load(cqe + 63);
		if (own >> 4 != SPW_PRM_CQE_INVALID && (own & 1) == (g->cq_ci >> RIG_CQ_LOG2 & 1))
			break;
		assert_true(i < KIT_WAIT_MS * 10);
		usleep(100);
	}
	spw_dma_from_device(); /* owner before the rest; partner: the NIC's release of the CQE */
	memcpy(cqe_out, cqe, 64);
	g->cq_ci++;
	spw_dma_store((spw_be32 *)(void *)(g->cq.mem + CQ_RECORDS(RIG_CQ_LOG2)),
		      spw_cpu_to_be32(g->cq_ci & 0xffffff));
	return own >> 4;
}
