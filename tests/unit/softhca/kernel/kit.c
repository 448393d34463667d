/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 */
#include "kit.h"

#include "base/spw_err.h"

static int get_context(struct kit *k)
{
	const struct ib_uverbs_get_context req = {0};
	const struct mlx5_ib_alloc_ucontext_req_v2 drv = {.total_num_bfregs = 16,
							  .max_cqe_version = 1,
							  .lib_caps = MLX5_LIB_CAP_4K_UAR |
								      MLX5_LIB_CAP_DYN_UAR};
	struct ib_uverbs_get_context_resp resp;
	struct mlx5_ib_alloc_ucontext_resp drv_resp;

	return kit_call(k, IB_USER_VERBS_CMD_GET_CONTEXT,
			(struct kit_part){&req, sizeof(req), &resp, sizeof(resp)},
			(struct kit_part){&drv, sizeof(drv), &drv_resp, sizeof(drv_resp)});
}

void kit_context(struct kit *k)
{
	const struct ib_uverbs_alloc_pd req = {0};
	struct ib_uverbs_alloc_pd_resp resp;
	uint64_t off;

	assert_int_equal(hca_ctx_open(k->dev, &k->ctx), 0);
	assert_int_equal(get_context(k), 0);
	hca_lock(k->dev);
	assert_int_equal(hca_uar_alloc(k->ctx, &k->uar, &off), 0);
	hca_unlock(k->dev);
	assert_int_equal(
		kit_cmd(k, IB_USER_VERBS_CMD_ALLOC_PD, &req, sizeof(req), &resp, sizeof(resp)), 0);
	k->pd = resp.pd_handle;
}

void kit_open(struct kit *k)
{
	char text[64];

	memset(k, 0, sizeof(*k));
	snprintf(text, sizeof(text), "cable=shm:ctl-%d", getpid());
	assert_int_equal(hca_cfg_parse(text, &k->cfg), 0);
	if (hca_devs_open(&k->cfg, &k->dev))
		fail_msg("%s", spw_err_text());
	kit_context(k);
	k->mem = mmap(NULL, KIT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(k->mem != MAP_FAILED);
}

void kit_close(struct kit *k)
{
	int fd = k->ctx->fd;

	hca_ctx_close(k->ctx);
	close(fd);
	hca_devs_close(k->dev, 1);
	munmap(k->mem, KIT_BYTES);
}

void *kit_ring(struct kit *k, size_t bytes)
{
	void *p = k->mem + k->used;

	k->used += SPW_ALIGN_UP(bytes, (size_t)64);
	assert_true(k->used <= KIT_BYTES);
	return p;
}

/* The dispatcher needs zeros after what is sent, and room after the answer. */
static void *padded(const void *src, size_t bytes)
{
	void *p = calloc(1, bytes + UV_PAD_BYTES);

	assert_non_null(p);
	if (src)
		memcpy(p, src, bytes);
	return p;
}

int kit_call(struct kit *k, uint32_t cmd, struct kit_part core, struct kit_part driver)
{
	void *i = padded(core.in, core.in_bytes), *u = padded(driver.in, driver.in_bytes);
	void *o = padded(NULL, core.out_bytes), *v = padded(NULL, driver.out_bytes);
	struct uv_call c = {k->ctx,
			    i,
			    o,
			    u,
			    v,
			    (uint32_t)core.in_bytes,
			    (uint32_t)core.out_bytes,
			    (uint32_t)driver.in_bytes,
			    (uint32_t)driver.out_bytes};
	int rc = uv_dispatch(cmd, &c);

	if (core.out)
		memcpy(core.out, o, core.out_bytes);
	if (driver.out)
		memcpy(driver.out, v, driver.out_bytes);
	free(i), free(u), free(o), free(v);
	return rc;
}

int kit_cmd(struct kit *k, uint32_t cmd, const void *in, size_t in_bytes, void *out,
	    size_t out_bytes)
{
	return kit_call(k, cmd, (struct kit_part){in, in_bytes, out, out_bytes},
			(struct kit_part){0});
}

int kit_cq(struct kit *k, int channel, uint32_t *out)
{
	const struct ib_uverbs_create_cq req = {
		.user_handle = 0x1000 + k->used, .cqe = 15, .comp_channel = channel};
	const struct mlx5_ib_create_cq drv = {.buf_addr = (uintptr_t)kit_ring(k, 16 * 64),
					      .db_addr = (uintptr_t)kit_ring(k, 8),
					      .cqe_size = 64,
					      .flags = MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX,
					      .uar_page_index = (uint16_t)k->uar->index};
	struct ib_uverbs_create_cq_resp resp;
	struct mlx5_ib_create_cq_resp drv_resp;
	int rc = kit_call(k, IB_USER_VERBS_CMD_CREATE_CQ,
			  (struct kit_part){&req, sizeof(req), &resp, sizeof(resp)},
			  (struct kit_part){&drv, sizeof(drv), &drv_resp, sizeof(drv_resp)});

	*out = resp.cq_handle;
	return rc;
}

int kit_srq(struct kit *k, uint32_t *out)
{
	const struct ib_uverbs_create_srq req = {
		.user_handle = 7, .pd_handle = k->pd, .max_wr = 15, .max_sge = 1};
	const struct mlx5_ib_create_srq drv = {.buf_addr = (uintptr_t)kit_ring(k, 16 * 32),
					       .db_addr = (uintptr_t)kit_ring(k, 8)};
	struct ib_uverbs_create_srq_resp resp;
	struct mlx5_ib_create_srq_resp drv_resp;
	int rc = kit_call(k, IB_USER_VERBS_CMD_CREATE_SRQ,
			  (struct kit_part){&req, sizeof(req), &resp, sizeof(resp)},
			  (struct kit_part){&drv, sizeof(drv), &drv_resp, sizeof(drv_resp)});

	*out = resp.srq_handle;
	return rc;
}

int kit_qp(struct kit *k, uint8_t type, uint32_t cq, struct ib_uverbs_create_qp_resp *out)
{
	const struct ib_uverbs_create_qp req = {.user_handle = 9,
						.pd_handle = k->pd,
						.send_cq_handle = cq,
						.recv_cq_handle = cq,
						.max_send_wr = 4,
						.max_recv_wr = 4,
						.max_send_sge = 1,
						.max_recv_sge = 1,
						.qp_type = type};
	const struct mlx5_ib_create_qp drv = {.buf_addr = (uintptr_t)kit_ring(k, 4 * 16 + 16 * 64),
					      .db_addr = (uintptr_t)kit_ring(k, 8),
					      .sq_wqe_count = 16,
					      .rq_wqe_count = 4,
					      .rq_wqe_shift = 4,
					      .flags = MLX5_QP_FLAG_UAR_PAGE_INDEX,
					      .bfreg_index = k->uar->index,
					      .sq_buf_addr = (uintptr_t)kit_ring(k, 16 * 64)};
	struct mlx5_ib_create_qp_resp drv_resp;

	return kit_call(k, IB_USER_VERBS_CMD_CREATE_QP,
			(struct kit_part){&req, sizeof(req), out, sizeof(*out)},
			(struct kit_part){&drv, sizeof(drv), &drv_resp, sizeof(drv_resp)});
}

int kit_modify(struct kit *k, uint32_t qp, uint32_t mask, uint8_t state)
{
	const struct ib_uverbs_qp_dest av = {.dgid = {[10] = 0xff, 0xff, 10, 53, 0, 1},
					     .sgid_index = 3,
					     .is_global = 1,
					     .port_num = 1};
	const struct ib_uverbs_modify_qp req = {.dest = av,
						.alt_dest = av,
						.qp_handle = qp,
						.attr_mask = mask | QPA_STATE,
						.qp_state = state,
						.path_mtu = 3,
						.port_num = 1,
						.alt_port_num = 1,
						.max_rd_atomic = 1,
						.max_dest_rd_atomic = 1,
						.retry_cnt = 7,
						.rnr_retry = 7,
						.timeout = 14};

	return kit_cmd(k, IB_USER_VERBS_CMD_MODIFY_QP, &req, sizeof(req), NULL, 0);
}

void kit_rc_rtr(struct kit *k, struct ib_uverbs_create_qp_resp *out)
{
	uint32_t cq;

	assert_int_equal(kit_cq(k, -1, &cq), 0);
	assert_int_equal(kit_qp(k, IB_UVERBS_QPT_RC, cq, out), 0);
	assert_int_equal(
		kit_modify(k, out->qp_handle, QPA_PKEY | QPA_PORT | QPA_ACCESS, HCA_QPS_INIT), 0);
	assert_int_equal(kit_modify(k, out->qp_handle,
				    QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN |
					    QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER,
				    HCA_QPS_RTR),
			 0);
}
