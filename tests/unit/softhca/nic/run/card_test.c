/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a card lacks (hca_card.h), as a program meets it: a minimum of inline bytes in raw send
 * WQEs, stamps of another clock, no write combining.
 */
#include "../../kernel/kit.h"

#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

#include "softhca/nic/eth/eth.h"

#define EX(cmd) (IB_USER_VERBS_EX_CMD_##cmd | IB_USER_VERBS_CMD_FLAG_EXTENDED)

/* A send WQE of one block with that many inline bytes and one data segment with a key of nothing.
 * Returns: the syndrome that it fails with. */
static uint32_t send_with(struct kit *k, uint32_t inline_bytes)
{
	struct ib_uverbs_create_qp_resp r;
	struct hca_qp *qp;
	uint8_t *wqe;
	uint32_t cq, syndrome;

	assert_int_equal(kit_cq(k, -1, &cq), 0);
	assert_int_equal(kit_qp(k, IB_UVERBS_QPT_RAW_PACKET, cq, &r), 0);
	assert_int_equal(kit_modify(k, r.qp_handle, QPA_PORT, HCA_QPS_INIT), 0);
	assert_int_equal(kit_modify(k, r.qp_handle, 0, HCA_QPS_RTR), 0);
	assert_int_equal(kit_modify(k, r.qp_handle, 0, HCA_QPS_RTS), 0);
	hca_lock(k->dev);
	qp = hca_qp_get(k->dev, r.qpn);
	wqe = sq_bytes(qp->nic, 0, 0);
	memset(wqe, 0, 64);
	spw_prm_st32(wqe, SPW_PRM_OP_SEND);
	spw_prm_st32(wqe + 4, qp->qpn << 8 | (inline_bytes ? 4 : 3));
	spw_prm_st16(wqe + 16 + 12, (uint16_t)inline_bytes);
	spw_prm_st32(wqe + (inline_bytes ? 48 : 32), 60);
	spw_prm_st32(wqe + (inline_bytes ? 48 : 32) + 4, 0x7777);
	qp->nic->sq_pi = 1;
	raw_tx(qp->nic);
	assert_int_equal(qp->state, HCA_QPS_SQE);
	syndrome = (uint32_t)spw_prm_cqe_err_get_syndrome(qp->send_cq->buf);
	hca_unlock(k->dev);
	return syndrome;
}

static void inline_minimum(void **state)
{
	struct hca_card card = *hca_card_default;
	struct kit k;

	(void)state;
	kit_open(&k);
	assert_int_equal(send_with(&k, 0), SPW_PRM_SYN_LOCAL_PROT_ERR); /* gets as far as its key */
	card.min_inline_bytes = 18;
	k.cfg.card = &card;
	assert_int_equal(send_with(&k, 0), SPW_PRM_SYN_LOCAL_QP_OP_ERR);
	assert_int_equal(send_with(&k, 14), SPW_PRM_SYN_LOCAL_QP_OP_ERR);
	assert_int_equal(send_with(&k, 18), SPW_PRM_SYN_LOCAL_PROT_ERR);
	kit_close(&k);
}

static uint32_t stamped_cq(struct kit *k)
{
	const struct ib_uverbs_ex_create_cq req = {
		.cqe = 15, .comp_channel = -1, .flags = IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION};
	const struct mlx5_ib_create_cq drv = {.buf_addr = (uintptr_t)kit_ring(k, 16 * 64),
					      .db_addr = (uintptr_t)kit_ring(k, 8),
					      .cqe_size = 64,
					      .flags = MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX,
					      .uar_page_index = (uint16_t)k->uar->index};
	struct ib_uverbs_ex_create_cq_resp resp;
	struct mlx5_ib_create_cq_resp drv_resp;

	assert_int_equal(
		kit_call(k, EX(CREATE_CQ),
			 (struct kit_part){&req, sizeof(req), &resp, sizeof(resp)},
			 (struct kit_part){&drv, sizeof(drv), &drv_resp, sizeof(drv_resp)}),
		0);
	return resp.base.cq_handle;
}

static void stamps_of_another_clock(void **state)
{
	struct hca_card card = *hca_card_default;
	struct ib_uverbs_create_qp_resp qp;
	struct kit k;
	uint32_t asks, plain;

	(void)state;
	kit_open(&k);
	asks = stamped_cq(&k);
	assert_int_equal(kit_cq(&k, -1, &plain), 0);
	assert_int_equal(kit_qp(&k, IB_UVERBS_QPT_RC, asks, &qp), 0);
	card.stamps = HCA_STAMPS_REAL_TIME;
	k.cfg.card = &card;
	assert_int_equal(kit_qp(&k, IB_UVERBS_QPT_RC, asks, &qp), -EOPNOTSUPP);
	assert_int_equal(kit_qp(&k, IB_UVERBS_QPT_RC, plain, &qp), 0);
	card.stamps = HCA_STAMPS_BOTH;
	assert_int_equal(kit_qp(&k, IB_UVERBS_QPT_RC, asks, &qp), 0);
	kit_close(&k);
}

static int alloc_uar(struct kit *k, uint64_t type)
{
	uint64_t off;
	uint32_t bytes, page;
	struct {
		struct ib_uverbs_ioctl_hdr h;
		struct ib_uverbs_attr attr[5];
	} io = {
		.h = {.length = sizeof(io),
		      .object_id = MLX5_IB_OBJECT_UAR,
		      .method_id = MLX5_IB_METHOD_UAR_OBJ_ALLOC,
		      .num_attrs = 5,
		      .driver_id = RDMA_DRIVER_MLX5},
		.attr = {{.attr_id = MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE},
			 {.attr_id = MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, .len = 8, .data = type},
			 {.attr_id = MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET,
			  .len = sizeof(off),
			  .data = (uintptr_t)&off},
			 {.attr_id = MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH,
			  .len = sizeof(bytes),
			  .data = (uintptr_t)&bytes},
			 {.attr_id = MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID,
			  .len = sizeof(page),
			  .data = (uintptr_t)&page}},
	};

	return uv_ioctl(k->ctx, &io);
}

static void no_write_combining(void **state)
{
	struct hca_card card = *hca_card_default;
	struct kit k;

	(void)state;
	kit_open(&k);
	assert_int_equal(alloc_uar(&k, MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF), 0);
	card.write_combines = false;
	k.cfg.card = &card;
	assert_int_equal(alloc_uar(&k, MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF), -EOPNOTSUPP);
	assert_int_equal(alloc_uar(&k, MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC), 0);
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(inline_minimum),
		cmocka_unit_test(stamps_of_another_clock),
		cmocka_unit_test(no_write_combining),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
