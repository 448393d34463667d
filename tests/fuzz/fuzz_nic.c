/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The device and the application of the fuzz targets that run the whole NIC model (fuzz_nic.h). It
 * drives the control path with the commands that libmlx5 would send, and the NIC round by round: no
 * thread is started, so a run is reproducible.
 */
#include "base/spw_uid.h"
#include "fuzz_nic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "softhca/kernel/uverbs.h"

#define CANARY 0xcc

struct hca_dev *fuzz_dev;
static struct hca_cfg cfg;

void fuzz_die(const char *what)
{
	fprintf(stderr, "fuzz: %s\n", what);
	abort();
}

static void setup(void)
{
	void *at = mmap(FUZZ_ARENA, FUZZ_ARENA_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	char text[64];

	snprintf(text, sizeof(text), "cable=shm:fuzz-%d;", (int)getpid());
	if (at != FUZZ_ARENA || hca_cfg_parse(text, &cfg) || hca_devs_open(&cfg, &fuzz_dev))
		fuzz_die("cannot set up");
	snprintf(text, sizeof(text), "/dev/shm/spinwire-%u-fuzz-%d", spw_uid_outer(),
		 (int)getpid());
	unlink(text); /* no other process may join it */
}

/* One command with up to 512 bytes in each buffer. */
struct command {
	uint64_t in[128], out[128], uhw_in[128], uhw_out[128];
};

static void execute(struct hca_ctx *ctx, uint32_t id, struct command *c, uint32_t in,
		    uint32_t uhw_in)
{
	struct uv_call call = {.ctx = ctx,
			       .in = c->in,
			       .out = c->out,
			       .uhw_in = c->uhw_in,
			       .uhw_out = c->uhw_out,
			       .in_bytes = in,
			       .out_bytes = 256,
			       .uhw_in_bytes = uhw_in,
			       .uhw_out_bytes = 256};

	if (uv_dispatch(id, &call))
		fuzz_die("a command of the set-up was refused");
}

static uint32_t make_pd(struct hca_ctx *ctx)
{
	struct command c = {0};

	execute(ctx, IB_USER_VERBS_CMD_ALLOC_PD, &c, sizeof(struct ib_uverbs_alloc_pd), 0);
	const struct ib_uverbs_alloc_pd_resp *resp = (const void *)c.out;

	return resp->pd_handle;
}

static uint32_t make_mr(struct hca_ctx *ctx, uint32_t pd)
{
	struct command c = {0};
	struct ib_uverbs_reg_mr *r = (struct ib_uverbs_reg_mr *)c.in;

	r->start = r->hca_va = (uint64_t)(uintptr_t)MR_AT;
	r->length = MR_BYTES;
	r->pd_handle = pd;
	r->access_flags = 0xf;
	execute(ctx, IB_USER_VERBS_CMD_REG_MR, &c, sizeof(*r), 0);
	const struct ib_uverbs_reg_mr_resp *resp = (const void *)c.out;

	return resp->lkey;
}

uint32_t fuzz_cq(struct hca_ctx *ctx, uint32_t uar, uint8_t comp_format, bool enhanced)
{
	struct command c = {0};
	struct ib_uverbs_create_cq *r = (struct ib_uverbs_create_cq *)c.in;
	struct mlx5_ib_create_cq *d = (struct mlx5_ib_create_cq *)c.uhw_in;

	cfg.cqe_enhanced = enhanced;
	r->cqe = CQE_CNT - 1;
	r->comp_channel = -1;
	d->buf_addr = (uint64_t)(uintptr_t)CQ_AT;
	d->db_addr = (uint64_t)(uintptr_t)DBREC_AT;
	d->cqe_size = 64;
	d->cqe_comp_en = comp_format != 0;
	d->cqe_comp_res_format = comp_format;
	d->flags = MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX;
	d->uar_page_index = (uint16_t)uar;
	execute(ctx, IB_USER_VERBS_CMD_CREATE_CQ, &c, sizeof(*r), sizeof(*d));
	const struct ib_uverbs_create_cq_resp *resp = (const void *)c.out;

	return resp->cq_handle;
}

uint32_t fuzz_srq(struct hca_ctx *ctx, uint32_t pd)
{
	struct command c = {0};
	struct ib_uverbs_create_srq *r = (struct ib_uverbs_create_srq *)c.in;
	struct mlx5_ib_create_srq *d = (struct mlx5_ib_create_srq *)c.uhw_in;

	r->pd_handle = pd;
	r->max_wr = RQ_CNT - 1;
	r->max_sge = 3;
	r->srq_limit = 2;
	d->buf_addr = (uint64_t)(uintptr_t)RQ_AT;
	d->db_addr = (uint64_t)(uintptr_t)DBREC_AT + 64;
	execute(ctx, IB_USER_VERBS_CMD_CREATE_SRQ, &c, sizeof(*r), sizeof(*d));
	const struct ib_uverbs_create_srq_resp *resp = (const void *)c.out;

	return resp->srq_handle;
}

struct hca_qp *fuzz_qp(struct hca_ctx *ctx, uint32_t pd, uint32_t cq, uint32_t uar, uint8_t type,
		       const uint32_t *srq)
{
	struct command c = {0};
	struct ib_uverbs_create_qp *r = (struct ib_uverbs_create_qp *)c.in;
	struct mlx5_ib_create_qp *d = (struct mlx5_ib_create_qp *)c.uhw_in;

	r->pd_handle = pd;
	r->send_cq_handle = r->recv_cq_handle = cq;
	r->max_send_wr = RQ_CNT;
	r->max_recv_wr = srq ? 0 : RQ_CNT;
	r->max_send_sge = r->max_recv_sge = 4;
	r->qp_type = type;
	r->is_srq = srq != NULL;
	r->srq_handle = srq ? *srq : 0;
	d->buf_addr = (uint64_t)(uintptr_t)(srq ? SQ_AT : RQ_AT);
	d->sq_buf_addr = (uint64_t)(uintptr_t)SQ_AT;
	d->db_addr = (uint64_t)(uintptr_t)DBREC_AT + (srq ? 128 : 64);
	d->sq_wqe_count = SQ_BBS;
	d->rq_wqe_count = srq ? 0 : RQ_CNT;
	d->rq_wqe_shift = 6;
	d->flags = MLX5_QP_FLAG_UAR_PAGE_INDEX;
	d->bfreg_index = uar;
	execute(ctx, IB_USER_VERBS_CMD_CREATE_QP, &c, sizeof(*r), sizeof(*d));
	const struct ib_uverbs_create_qp_resp *resp = (const void *)c.out;

	return hca_obj_find(ctx, HCA_QP, resp->qp_handle);
}

static uint32_t make_wq(struct hca_ctx *ctx, uint32_t pd, uint32_t cq, bool striding, bool shift,
			uint32_t flags)
{
	struct command c = {0};
	struct ib_uverbs_ex_create_wq *r = (struct ib_uverbs_ex_create_wq *)c.in;
	struct mlx5_ib_create_wq *d = (struct mlx5_ib_create_wq *)c.uhw_in;

	r->wq_type = IB_UVERBS_WQT_RQ;
	r->pd_handle = pd;
	r->cq_handle = cq;
	r->max_wr = RQ_CNT;
	r->max_sge = 1;
	r->create_flags = flags;
	d->buf_addr = (uint64_t)(uintptr_t)RQ_AT;
	d->db_addr = (uint64_t)(uintptr_t)DBREC_AT + 64;
	d->rq_wqe_count = RQ_CNT;
	d->rq_wqe_shift = 6;
	if (striding) {
		d->comp_mask = MLX5_IB_CREATE_WQ_STRIDING_RQ;
		d->single_stride_log_num_of_bytes = 6;
		d->single_wqe_log_num_of_strides = 4;
		d->two_byte_shift_en = shift;
	}
	execute(ctx, IB_USER_VERBS_EX_CMD_CREATE_WQ | IB_USER_VERBS_CMD_FLAG_EXTENDED, &c,
		sizeof(*r), sizeof(*d));
	const struct ib_uverbs_ex_create_wq_resp *resp = (const void *)c.out;

	return resp->wq_handle;
}

static uint32_t make_table(struct hca_ctx *ctx, uint32_t wq)
{
	struct command c = {0};
	struct ib_uverbs_ex_create_rwq_ind_table *r =
		(struct ib_uverbs_ex_create_rwq_ind_table *)c.in;

	memcpy((char *)r + sizeof(*r), &wq, sizeof(wq));
	execute(ctx, IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL | IB_USER_VERBS_CMD_FLAG_EXTENDED, &c,
		sizeof(*r) + 8, 0);
	const struct ib_uverbs_ex_create_rwq_ind_table_resp *resp = (const void *)c.out;

	return resp->ind_tbl_handle;
}

static void wq_ready(struct hca_ctx *ctx, uint32_t wq)
{
	struct command c = {0};
	struct ib_uverbs_ex_modify_wq *r = (struct ib_uverbs_ex_modify_wq *)c.in;

	r->attr_mask = 1;
	r->wq_handle = wq;
	r->wq_state = HCA_WQS_RDY;
	execute(ctx, IB_USER_VERBS_EX_CMD_MODIFY_WQ | IB_USER_VERBS_CMD_FLAG_EXTENDED, &c,
		sizeof(*r), 0);
}

void fuzz_rss(struct hca_ctx *ctx, uint32_t pd, uint32_t cq, bool striding, bool shift,
	      uint32_t flags)
{
	struct command c = {0};
	struct ib_uverbs_ex_create_qp *r = (struct ib_uverbs_ex_create_qp *)c.in;
	struct mlx5_ib_create_qp_rss *d = (struct mlx5_ib_create_qp_rss *)c.uhw_in;
	const uint32_t wq = make_wq(ctx, pd, cq, striding, shift, flags);

	wq_ready(ctx, wq);
	r->pd_handle = pd;
	r->qp_type = IB_UVERBS_QPT_RAW_PACKET;
	r->comp_mask = IB_UVERBS_CREATE_QP_MASK_IND_TABLE;
	r->rwq_ind_tbl_handle = make_table(ctx, wq);
	d->rx_hash_fields_mask = MLX5_RX_HASH_SRC_IPV4 | MLX5_RX_HASH_DST_IPV4 |
				 MLX5_RX_HASH_SRC_PORT_UDP | MLX5_RX_HASH_DST_PORT_UDP;
	d->rx_hash_function = MLX5_RX_HASH_FUNC_TOEPLITZ;
	d->rx_key_len = 40;
	memset(d->rx_hash_key, 0x5a, 40);
	execute(ctx, IB_USER_VERBS_EX_CMD_CREATE_QP | IB_USER_VERBS_CMD_FLAG_EXTENDED, &c,
		sizeof(*r), sizeof(*d));
	const struct ib_uverbs_ex_create_qp_resp *resp = (const void *)c.out;
	const uint32_t qp = resp->base.qp_handle;

	memset(&c, 0, sizeof(c));
	struct ib_uverbs_create_flow *f = (struct ib_uverbs_create_flow *)c.in;

	f->qp_handle = qp;
	f->flow_attr.type = 1; /* the default rule: all frames that no other rule takes */
	f->flow_attr.port = 1;
	execute(ctx, IB_USER_VERBS_EX_CMD_CREATE_FLOW | IB_USER_VERBS_CMD_FLAG_EXTENDED, &c,
		sizeof(*f), 0);
}

static void move_qp(struct hca_ctx *ctx, struct hca_qp *qp, uint8_t state, uint32_t mask)
{
	struct command c = {0};
	struct ib_uverbs_modify_qp *r = (struct ib_uverbs_modify_qp *)c.in;

	r->qp_handle = qp->o.handle;
	r->attr_mask = mask | 1;
	r->qp_state = state;
	r->port_num = r->dest.port_num = r->dest.is_global = 1;
	memcpy(r->dest.dgid, fuzz_dev->gid[3], 16);
	r->dest.sgid_index = 3;
	r->dest.hop_limit = 1;
	r->path_mtu = 1;
	r->dest_qp_num = qp->qpn;
	r->qp_access_flags = 0xe;
	r->max_rd_atomic = r->max_dest_rd_atomic = 4;
	r->timeout = 1;
	execute(ctx, IB_USER_VERBS_CMD_MODIFY_QP, &c, sizeof(*r), 0);
}

/* The attributes that each transition requires: <infiniband/verbs.h>, enum ibv_qp_attr_mask. */
void fuzz_connect(struct hca_ctx *ctx, struct hca_qp *qp)
{
	static const struct {
		uint8_t type;
		uint32_t init, rtr, rts;
	} masks[] = {{2, 0x38, 0x129180, 0x12e00},
		     {3, 0x38, 0x101180, 0x10000},
		     {4, 0x70, 0, 0x10000},
		     {8, 0x20, 0, 0}};
	unsigned i = 0;

	while (masks[i].type != qp->qp_type)
		i++;
	move_qp(ctx, qp, HCA_QPS_INIT, masks[i].init);
	move_qp(ctx, qp, HCA_QPS_RTR, masks[i].rtr);
	move_qp(ctx, qp, HCA_QPS_RTS, masks[i].rts);
}

struct hca_ctx *fuzz_begin(struct hca_uar **uar_out, uint32_t *pd_out, uint32_t *lkey_out)
{
	struct hca_ctx *ctx;
	uint64_t offset;

	if (!fuzz_dev)
		setup();
	memset(FUZZ_ARENA, 0, 0x10000);
	memset(MR_AT - MR_BYTES, CANARY, 3 * MR_BYTES);
	if (hca_ctx_open(fuzz_dev, &ctx))
		fuzz_die("no context");
	ctx->ready = true; /* in place of GET_CONTEXT, which would start the thread */
	hca_lock(fuzz_dev);
	if (hca_uar_alloc(ctx, uar_out, &offset))
		fuzz_die("no register page");
	hca_unlock(fuzz_dev);
	*pd_out = make_pd(ctx);
	*lkey_out = make_mr(ctx, *pd_out);
	return ctx;
}

void fuzz_end(struct hca_ctx *ctx)
{
	const int fd = ctx->fd; /* the application's own, which it closes */
	const uint8_t *below = (const uint8_t *)((uintptr_t)MR_AT - MR_BYTES);

	for (uint32_t i = 0; i < MR_BYTES; i++)
		if (below[i] != CANARY || MR_AT[MR_BYTES + i] != CANARY)
			fuzz_die("bytes outside the region were written");
	hca_ctx_close(ctx);
	close(fd);
}

void fuzz_keys(uint8_t *from, uint32_t bytes, uint32_t lkey)
{
	for (uint8_t *at = from; at + 4 <= from + bytes; at += 2)
		if (memcmp(at, "KEY!", 4) == 0)
			spw_prm_st32(at, lkey);
}

void fuzz_rounds(uint32_t cnt)
{
	struct nic_dev *nd = fuzz_dev->nic;

	for (uint32_t i = 0; i < cnt; i++) {
		hca_lock(fuzz_dev);
		nd->now_ns += 1000000; /* lets timers expire */
		nic_round(nd);
		hca_unlock(fuzz_dev);
	}
}
