/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Fuzzing the reader of work queues: an input is what an application wrote into its rings before it rang the bell. The real NIC
 * model works on it, round by round and without its thread; its QPs are connected to themselves over a cable.
 *
 *   input: u8 QP (0 RC, 1 UC, 2 UD, 3 RAW), u8 fix (1: put the right index and QP number into each WQE), u8 WQEBBs rung,
 *          u8 receives rung, then the receive ring (8 * 64 bytes) and the send ring (16 * 64 bytes)
 *
 * Only the MR may be written by the NIC besides rings, records and CQs: the bytes around it are looked at.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz_arena.h"
#include "softhca/ctl.h"
#include "softhca/nic_impl.h"
#include "softhca/uverbs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SQ_BBS 16u
#define RQ_CNT 8u
#define CQE_CNT 128u
#define RQ_AT (FUZZ_ARENA + 0x1000)  /* the send ring follows it, as libmlx5 lays them out */
#define SQ_AT (RQ_AT + RQ_CNT * 64)
#define CQ_AT (FUZZ_ARENA + 0x8000)
#define DBREC_AT (FUZZ_ARENA + 0x800)
#define MR_AT (FUZZ_ARENA + 0x40000) /* one page, canaries on both sides */
#define MR_BYTES 4096u
#define CANARY 0xcc

static struct hca_cfg cfg;
static struct hca_dev *dev;

static void die(const char *what)
{
	fprintf(stderr, "fuzz_wqe: %s\n", what);
	abort();
}

static void setup(void)
{
	void *at = mmap(FUZZ_ARENA, FUZZ_ARENA_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	char text[64];

	snprintf(text, sizeof(text), "cable=shm:fuzz-%d;", (int)getpid());
	if (at != FUZZ_ARENA || hca_cfg_parse(text, &cfg) || hca_devs_open(&cfg, &dev))
		die("cannot set up");
	snprintf(text, sizeof(text), "/dev/shm/spinwire-%u-fuzz-%d", (unsigned)getuid(), (int)getpid());
	unlink(text); /* nobody else is to find it */
}

/* One command with up to 512 bytes in each buffer. */
struct command {
	uint64_t in[128], out[128], uhw_in[128], uhw_out[128];
};

static void execute(struct hca_ctx *ctx, uint32_t id, struct command *c, uint32_t in, uint32_t uhw_in)
{
	struct uv_call call = {.ctx = ctx, .in = c->in, .out = c->out, .uhw_in = c->uhw_in, .uhw_out = c->uhw_out, .in_bytes = in,
			       .out_bytes = 256, .uhw_in_bytes = uhw_in, .uhw_out_bytes = 256};

	if (uv_dispatch(id, &call))
		die("a command of the set-up was refused");
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

static uint32_t make_cq(struct hca_ctx *ctx, uint32_t uar)
{
	struct command c = {0};
	struct ib_uverbs_create_cq *r = (struct ib_uverbs_create_cq *)c.in;
	struct mlx5_ib_create_cq *d = (struct mlx5_ib_create_cq *)c.uhw_in;

	r->cqe = CQE_CNT - 1;
	r->comp_channel = -1;
	d->buf_addr = (uint64_t)(uintptr_t)CQ_AT;
	d->db_addr = (uint64_t)(uintptr_t)DBREC_AT;
	d->cqe_size = 64;
	d->flags = MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX;
	d->uar_page_index = (uint16_t)uar;
	execute(ctx, IB_USER_VERBS_CMD_CREATE_CQ, &c, sizeof(*r), sizeof(*d));
	const struct ib_uverbs_create_cq_resp *resp = (const void *)c.out;

	return resp->cq_handle;
}

static struct hca_qp *make_qp(struct hca_ctx *ctx, uint32_t pd, uint32_t cq, uint32_t uar, uint8_t type)
{
	struct command c = {0};
	struct ib_uverbs_create_qp *r = (struct ib_uverbs_create_qp *)c.in;
	struct mlx5_ib_create_qp *d = (struct mlx5_ib_create_qp *)c.uhw_in;

	r->pd_handle = pd;
	r->send_cq_handle = r->recv_cq_handle = cq;
	r->max_send_wr = r->max_recv_wr = RQ_CNT;
	r->max_send_sge = r->max_recv_sge = 4;
	r->qp_type = type;
	d->buf_addr = (uint64_t)(uintptr_t)RQ_AT;
	d->sq_buf_addr = (uint64_t)(uintptr_t)SQ_AT;
	d->db_addr = (uint64_t)(uintptr_t)DBREC_AT + 64;
	d->sq_wqe_count = SQ_BBS;
	d->rq_wqe_count = RQ_CNT;
	d->rq_wqe_shift = 6;
	d->flags = MLX5_QP_FLAG_UAR_PAGE_INDEX;
	d->bfreg_index = uar;
	execute(ctx, IB_USER_VERBS_CMD_CREATE_QP, &c, sizeof(*r), sizeof(*d));
	const struct ib_uverbs_create_qp_resp *resp = (const void *)c.out;

	return hca_obj_find(ctx, HCA_QP, resp->qp_handle);
}

static void move_qp(struct hca_ctx *ctx, struct hca_qp *qp, uint8_t state, uint32_t mask)
{
	struct command c = {0};
	struct ib_uverbs_modify_qp *r = (struct ib_uverbs_modify_qp *)c.in;

	r->qp_handle = qp->o.handle;
	r->attr_mask = mask | 1;
	r->qp_state = state;
	r->port_num = r->dest.port_num = r->dest.is_global = 1;
	memcpy(r->dest.dgid, dev->gid[3], 16);
	r->dest.sgid_index = 3;
	r->dest.hop_limit = 1;
	r->path_mtu = 1;
	r->dest_qp_num = qp->qpn;
	r->qp_access_flags = 0xe;
	r->max_rd_atomic = r->max_dest_rd_atomic = 4;
	r->timeout = 1;
	execute(ctx, IB_USER_VERBS_CMD_MODIFY_QP, &c, sizeof(*r), 0);
}

/* The attributes that each transition wants: <infiniband/verbs.h>, enum ibv_qp_attr_mask. */
static void connect_qp(struct hca_ctx *ctx, struct hca_qp *qp)
{
	static const struct {
		uint8_t type;
		uint32_t init, rtr, rts;
	} masks[] = {{2, 0x38, 0x129180, 0x12e00}, {3, 0x38, 0x101180, 0x10000}, {4, 0x70, 0, 0x10000}, {8, 0x20, 0, 0}};
	unsigned i = 0;

	while (masks[i].type != qp->qp_type)
		i++;
	move_qp(ctx, qp, HCA_QPS_INIT, masks[i].init);
	move_qp(ctx, qp, HCA_QPS_RTR, masks[i].rtr);
	move_qp(ctx, qp, HCA_QPS_RTS, masks[i].rts);
}

/* 'KEY!' stands for the region's key, wherever it is. */
static void patch(struct hca_qp *qp, uint32_t bbs, uint32_t lkey)
{
	for (uint8_t *at = RQ_AT; at < SQ_AT + SQ_BBS * 64; at += 4)
		if (memcmp(at, "KEY!", 4) == 0)
			spw_prm_st32(at, lkey);
	for (uint32_t i = 0; i < bbs && i < SQ_BBS;) {
		uint8_t *wqe = SQ_AT + i * 64;

		spw_prm_wqe_ctrl_set_wqe_index(wqe, i);
		spw_prm_wqe_ctrl_set_qpn(wqe, qp->qpn);
		i += SPW_MAX(1u, ((uint32_t)spw_prm_wqe_ctrl_get_ds(wqe) + 3) / 4);
	}
}

static void work(struct hca_uar *uar, uint8_t bbs, uint8_t receives)
{
	struct nic_dev *nd = dev->nic;

	spw_prm_st32(DBREC_AT + 64, receives);
	spw_prm_st32(DBREC_AT + 68, bbs);
	spw_prm_st64(uar->page + SPW_PRM_UAR_BF_OFFSET, spw_prm_ld64(SQ_AT) | 1);
	for (unsigned i = 0; i < 24; i++) {
		hca_lock(dev);
		nd->now_ns += 1000000; /* timers run out as well */
		nic_round(nd);
		hca_unlock(dev);
	}
}

static void check_canaries(void)
{
	const uint8_t *below = (const uint8_t *)((uintptr_t)MR_AT - MR_BYTES);

	for (uint32_t i = 0; i < MR_BYTES; i++)
		if (below[i] != CANARY || MR_AT[MR_BYTES + i] != CANARY)
			die("bytes outside the region were written");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t types[4] = {2, 3, 4, 8};
	struct hca_ctx *ctx;
	struct hca_uar *uar;
	struct hca_qp *qp;
	uint64_t offset;
	uint32_t pd, lkey;
	int fd;

	if (size < 4)
		return 0;
	if (!dev)
		setup();
	memset(FUZZ_ARENA, 0, 0x10000);
	memset(MR_AT - MR_BYTES, CANARY, 3 * MR_BYTES);
	if (hca_ctx_open(dev, &ctx))
		die("no context");
	fd = ctx->fd; /* the application's own, which it closes */
	ctx->ready = true; /* GET_CONTEXT would start the thread */
	hca_lock(dev);
	if (hca_uar_alloc(ctx, true, &uar, &offset))
		die("no register page");
	hca_unlock(dev);
	pd = make_pd(ctx);
	lkey = make_mr(ctx, pd);
	qp = make_qp(ctx, pd, make_cq(ctx, uar->index), uar->index, types[data[0] & 3]);
	connect_qp(ctx, qp);
	memcpy(RQ_AT, data + 4, SPW_MIN(size - 4, (size_t)(RQ_CNT + SQ_BBS) * 64));
	if (data[1] & 1)
		patch(qp, data[2], lkey);
	work(uar, data[2], data[3]);
	check_canaries();
	hca_ctx_close(ctx);
	close(fd);
	return 0;
}
