/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 */
#include "rig.h"

#include <signal.h>

#include "base/spw_err.h"
#include "unit_test.h"

#define ARENA_BYTES (4u << 20)
#define ROUND_NS    1000u

/* ---- stepping ---- */

static struct rig *stepped;

static void on_step(int sig)
{
	(void)sig;
	if (rig_random(stepped) % 8 == 0)
		rig_rounds(stepped, 1);
}

#ifdef __x86_64__
/* Flips the trap flag; 128 bytes below the stack pointer belong to the function around it. */
#define TRAP_FLAG(op, bits)                                                  \
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\t" op " $" bits \
			 ", (%%rsp)\n\tpopfq\n\tlea 128(%%rsp), %%rsp" ::    \
				 : "memory", "cc")
#else
#define TRAP_FLAG(op, bits) ((void)0)
#endif

void rig_step_on(struct rig *r)
{
	stepped = r;
	TRAP_FLAG("orq", "0x100");
}

void rig_step_off(void)
{
	TRAP_FLAG("andq", "-0x101");
}

/* ---- life ---- */

uint64_t rig_random(struct rig *r)
{
	return unit_random(&r->rng);
}

void *rig_memory(struct rig *r, size_t bytes)
{
	void *p = r->arena + r->used;

	r->used += SPW_ALIGN_UP(bytes, (size_t)64);
	assert_true(r->used <= ARENA_BYTES);
	return p;
}

static void register_arena(struct rig *r)
{
	const struct ib_uverbs_reg_mr req = {.start = (uintptr_t)r->arena,
					     .hca_va = (uintptr_t)r->arena,
					     .length = ARENA_BYTES,
					     .pd_handle = r->k.pd,
					     .access_flags = 0xf};
	struct ib_uverbs_reg_mr_resp resp;

	assert_int_equal(
		kit_cmd(&r->k, IB_USER_VERBS_CMD_REG_MR, &req, sizeof(req), &resp, sizeof(resp)),
		0);
	r->lkey = resp.lkey;
}

void rig_open(struct rig *r, uint64_t seed, const char *options)
{
	const struct ib_uverbs_alloc_pd req = {0};
	struct ib_uverbs_alloc_pd_resp resp;
	struct kit *k = &r->k;
	char text[256];
	uint64_t off;

	memset(r, 0, sizeof(*r));
	r->rng = seed;
	snprintf(text, sizeof(text), "cable=shm:adv-%d;%s", (int)getpid(), options);
	if (hca_cfg_parse(text, &k->cfg) || hca_devs_open(&k->cfg, &k->dev))
		fail_msg("%s", spw_err_text());
	assert_int_equal(hca_ctx_open(k->dev, &k->ctx), 0);
	k->ctx->ready = true; /* in place of GET_CONTEXT, which would start the thread */
	hca_lock(k->dev);
	assert_int_equal(hca_uar_alloc(k->ctx, &k->uar, &off), 0);
	hca_unlock(k->dev);
	assert_int_equal(
		kit_cmd(k, IB_USER_VERBS_CMD_ALLOC_PD, &req, sizeof(req), &resp, sizeof(resp)), 0);
	k->pd = resp.pd_handle;
	k->mem = mmap(NULL, KIT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	r->arena =
		mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(r->arena != MAP_FAILED && k->mem != MAP_FAILED);
	memset(r->arena, 0x5a, ARENA_BYTES);
	register_arena(r);
	r->nd = k->dev->nic;
	r->now_ns = r->nd->now_ns;
	signal(SIGTRAP, on_step);
}

void rig_close(struct rig *r)
{
	kit_close(&r->k);
	munmap(r->arena, ARENA_BYTES);
}

void rig_rounds(struct rig *r, uint32_t cnt)
{
	while (cnt--) {
		hca_lock(r->k.dev);
		r->nd->now_ns = r->now_ns += ROUND_NS;
		nic_round(r->nd);
		hca_unlock(r->k.dev);
	}
}

/* ---- objects ---- */

struct rig_cq rig_cq(struct rig *r, uint32_t cnt, uint8_t comp_format)
{
	struct rig_cq cq = {.mem = {rig_memory(r, (size_t)cnt * 64), rig_memory(r, 8), cnt, 64}};
	const struct ib_uverbs_create_cq req = {.cqe = cnt - 1, .comp_channel = -1};
	const struct mlx5_ib_create_cq drv = {.buf_addr = (uintptr_t)cq.mem.buf,
					      .db_addr = (uintptr_t)cq.mem.dbrec,
					      .cqe_size = 64,
					      .cqe_comp_en = comp_format != 0,
					      .cqe_comp_res_format = comp_format,
					      .flags = MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX,
					      .uar_page_index = (uint16_t)r->k.uar->index};
	struct ib_uverbs_create_cq_resp resp;
	struct mlx5_ib_create_cq_resp drv_resp;

	memset(cq.mem.dbrec, 0, 8);
	for (uint32_t i = 0; i < cnt; i++) {
		cq.mem.buf[i * 64 + 63] = 0xf0;
		cq.mem.buf[i * 64 + 62] = 0xff;
	}
	assert_int_equal(
		kit_call(&r->k, IB_USER_VERBS_CMD_CREATE_CQ,
			 (struct kit_part){&req, sizeof(req), &resp, sizeof(resp)},
			 (struct kit_part){&drv, sizeof(drv), &drv_resp, sizeof(drv_resp)}),
		0);
	cq.handle = resp.cq_handle;
	return cq;
}

static uint32_t table(struct rig *r, uint32_t wq)
{
	struct {
		struct ib_uverbs_ex_create_rwq_ind_table req;
		uint32_t wq[2];
	} in = {.wq = {wq}};
	struct ib_uverbs_ex_create_rwq_ind_table_resp resp;

	assert_int_equal(
		kit_cmd(&r->k,
			IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL | IB_USER_VERBS_CMD_FLAG_EXTENDED,
			&in, sizeof(in), &resp, sizeof(resp)),
		0);
	return resp.ind_tbl_handle;
}

static uint32_t rss(struct rig *r, uint32_t tbl)
{
	const struct ib_uverbs_ex_create_qp req = {.pd_handle = r->k.pd,
						   .qp_type = IB_UVERBS_QPT_RAW_PACKET,
						   .comp_mask = IB_UVERBS_CREATE_QP_MASK_IND_TABLE,
						   .rwq_ind_tbl_handle = tbl};
	const struct mlx5_ib_create_qp_rss drv = {.rx_hash_function = MLX5_RX_HASH_FUNC_TOEPLITZ,
						  .rx_key_len = 40};
	struct ib_uverbs_ex_create_qp_resp resp;
	uint64_t drv_resp[32];

	assert_int_equal(kit_call(&r->k,
				  IB_USER_VERBS_EX_CMD_CREATE_QP | IB_USER_VERBS_CMD_FLAG_EXTENDED,
				  (struct kit_part){&req, sizeof(req), &resp, sizeof(resp)},
				  (struct kit_part){&drv, sizeof(drv), drv_resp, sizeof(drv_resp)}),
			 0);
	return resp.base.qp_handle;
}

static void take_all_frames(struct rig *r, uint32_t qp)
{
	const struct ib_uverbs_create_flow req = {.qp_handle = qp,
						  .flow_attr = {.type = 1, .port = 1}};
	struct ib_uverbs_create_flow_resp resp;

	assert_int_equal(kit_cmd(&r->k,
				 IB_USER_VERBS_EX_CMD_CREATE_FLOW | IB_USER_VERBS_CMD_FLAG_EXTENDED,
				 &req, sizeof(req), &resp, sizeof(resp)),
			 0);
}

uint32_t rig_wq(struct rig *r, uint32_t cq, uint32_t uidx, const struct mlx5_rqmem *mem,
		uint32_t stride_log2)
{
	const struct ib_uverbs_ex_create_wq req = {.wq_type = IB_UVERBS_WQT_RQ,
						   .pd_handle = r->k.pd,
						   .cq_handle = cq,
						   .max_wr = mem->cnt,
						   .max_sge = 1};
	const struct mlx5_ib_create_wq drv = {
		.buf_addr = (uintptr_t)mem->buf,
		.db_addr = (uintptr_t)mem->dbrec,
		.rq_wqe_count = mem->cnt,
		.rq_wqe_shift = mem->stride == 32 ? 5 : 4,
		.user_index = uidx,
		.comp_mask = mem->strides_log2 ? MLX5_IB_CREATE_WQ_STRIDING_RQ : 0,
		.single_stride_log_num_of_bytes = mem->strides_log2 ? stride_log2 : 0,
		.single_wqe_log_num_of_strides = mem->strides_log2};
	struct ib_uverbs_ex_create_wq_resp resp;
	uint64_t drv_resp[8];

	assert_int_equal(kit_call(&r->k,
				  IB_USER_VERBS_EX_CMD_CREATE_WQ | IB_USER_VERBS_CMD_FLAG_EXTENDED,
				  (struct kit_part){&req, sizeof(req), &resp, sizeof(resp)},
				  (struct kit_part){&drv, sizeof(drv), drv_resp, sizeof(drv_resp)}),
			 0);
	rig_wq_state(r, resp.wq_handle, HCA_WQS_RDY);
	take_all_frames(r, rss(r, table(r, resp.wq_handle)));
	return resp.wq_handle;
}

void rig_wq_state(struct rig *r, uint32_t wq, uint8_t state)
{
	const struct ib_uverbs_ex_modify_wq req = {
		.attr_mask = 1, .wq_handle = wq, .wq_state = state};

	assert_int_equal(kit_cmd(&r->k,
				 IB_USER_VERBS_EX_CMD_MODIFY_WQ | IB_USER_VERBS_CMD_FLAG_EXTENDED,
				 &req, sizeof(req), NULL, 0),
			 0);
}

uint32_t rig_srq(struct rig *r, const struct mlx5_rqmem *mem)
{
	const struct ib_uverbs_create_srq req = {
		.pd_handle = r->k.pd, .max_wr = mem->cnt - 1, .max_sge = 1};
	const struct mlx5_ib_create_srq drv = {.buf_addr = (uintptr_t)mem->buf,
					       .db_addr = (uintptr_t)mem->dbrec};
	struct ib_uverbs_create_srq_resp resp;
	struct mlx5_ib_create_srq_resp drv_resp;

	assert_int_equal(
		kit_call(&r->k, IB_USER_VERBS_CMD_CREATE_SRQ,
			 (struct kit_part){&req, sizeof(req), &resp, sizeof(resp)},
			 (struct kit_part){&drv, sizeof(drv), &drv_resp, sizeof(drv_resp)}),
		0);
	return resp.srq_handle;
}

struct hca_qp *rig_qp(struct rig *r, const struct rig_qp *c)
{
	const struct ib_uverbs_create_qp req = {.pd_handle = r->k.pd,
						.send_cq_handle = c->tx_cq,
						.recv_cq_handle = c->rx_cq,
						.max_send_wr = 4,
						.max_recv_wr = c->rq.cnt,
						.max_send_sge = 1,
						.max_recv_sge = 1,
						.is_srq = c->has_srq,
						.srq_handle = c->srq,
						.qp_type = c->type};
	const struct mlx5_ib_create_qp drv = {
		.buf_addr = (uintptr_t)(c->rq.cnt ? c->rq.buf : c->sq.buf),
		.db_addr = (uintptr_t)c->db,
		.sq_wqe_count = c->sq.cnt,
		.rq_wqe_count = c->rq.cnt,
		.rq_wqe_shift = 4,
		.flags = MLX5_QP_FLAG_UAR_PAGE_INDEX,
		.uidx = c->uidx,
		.bfreg_index = r->k.uar->index,
		.sq_buf_addr = (uintptr_t)c->sq.buf};
	struct ib_uverbs_create_qp_resp resp;
	struct mlx5_ib_create_qp_resp drv_resp;

	memset(c->db, 0, 8);
	if (kit_call(&r->k, IB_USER_VERBS_CMD_CREATE_QP,
		     (struct kit_part){&req, sizeof(req), &resp, sizeof(resp)},
		     (struct kit_part){&drv, sizeof(drv), &drv_resp, sizeof(drv_resp)}))
		fail_msg("%s", spw_err_text());
	return hca_qp_get(r->k.dev, resp.qpn);
}

static void move(struct rig *r, struct hca_qp *qp, uint8_t state, uint32_t mask,
		 const struct hca_qp *peer)
{
	struct ib_uverbs_modify_qp req = {
		.dest = {.sgid_index = 3, .hop_limit = 1, .is_global = 1, .port_num = 1},
		.qp_handle = qp->o.handle,
		.attr_mask = mask | 1,
		.qp_state = state,
		.port_num = 1,
		.path_mtu = 3,
		.dest_qp_num = peer ? peer->qpn : 0,
		.qp_access_flags = 0xe,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.min_rnr_timer = 1};

	memcpy(req.dest.dgid, r->k.dev->gid[3], 16);
	if (kit_cmd(&r->k, IB_USER_VERBS_CMD_MODIFY_QP, &req, sizeof(req), NULL, 0))
		fail_msg("%s", spw_err_text());
}

/* The attributes of each transition: <infiniband/verbs.h>, enum ibv_qp_attr_mask. */
void rig_qp_up(struct rig *r, struct hca_qp *qp, const struct hca_qp *peer)
{
	move(r, qp, HCA_QPS_INIT, peer ? 0x38 : 0x20, peer);
	move(r, qp, HCA_QPS_RTR, peer ? 0x129180 : 0, peer);
	move(r, qp, HCA_QPS_RTS, peer ? 0x12e00 : 0, peer);
}
