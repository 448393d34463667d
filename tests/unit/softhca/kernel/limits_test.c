/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What Linux refuses to a process, with its errno: rights, locked memory, RSS QPs of a wrong shape,
 * more objects than the device has.
 */
#include "kit.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "softhca/kernel/kernel.h"

/* The calling thread's capability, if it may have it. Returns: whether it did. */
static bool set_capability(unsigned int cap, bool on)
{
	struct __user_cap_header_struct hdr = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	const uint32_t bit = 1u << cap % 32;

	assert_int_equal(syscall(SYS_capget, &hdr, data), 0);
	if (on && !(data[cap / 32].permitted & bit))
		return false;
	data[cap / 32].effective &= ~bit;
	data[cap / 32].effective |= on ? bit : 0;
	return syscall(SYS_capset, &hdr, data) == 0;
}

static int raw_flow(struct kit *k, uint32_t qp)
{
	const struct ib_uverbs_create_flow req = {.qp_handle = qp,
						  .flow_attr = {.type = 1, .port = 1}};
	struct ib_uverbs_create_flow_resp resp;

	return kit_cmd(k, IB_USER_VERBS_EX_CMD_CREATE_FLOW | IB_USER_VERBS_CMD_FLAG_EXTENDED, &req,
		       sizeof(req), &resp, sizeof(resp));
}

static void rights(void **state)
{
	struct ib_uverbs_create_qp_resp qp, ud;
	struct ib_uverbs_modify_qp to_init = {.attr_mask = QPA_STATE | QPA_PKEY | QPA_PORT |
							   QPA_QKEY,
					      .qp_state = HCA_QPS_INIT,
					      .port_num = 1,
					      .qkey = 0x80010000};
	struct kit k;
	uint32_t cq;

	(void)state;
	if (!set_capability(CAP_NET_RAW, true))
		skip();
	kit_open(&k);
	assert_int_equal(kit_cq(&k, -1, &cq), 0);
	assert_int_equal(kit_qp(&k, IB_UVERBS_QPT_RAW_PACKET, cq, &qp), 0);
	assert_int_equal(raw_flow(&k, qp.qp_handle), 0);
	set_capability(CAP_NET_RAW, false);
	assert_int_equal(raw_flow(&k, qp.qp_handle), -EPERM);
	assert_int_equal(kit_qp(&k, IB_UVERBS_QPT_RAW_PACKET, cq, &qp), -EPERM);
	assert_int_equal(kit_qp(&k, IB_UVERBS_QPT_UD, cq, &ud), 0);
	to_init.qp_handle = ud.qp_handle;
	assert_int_equal(
		kit_cmd(&k, IB_USER_VERBS_CMD_MODIFY_QP, &to_init, sizeof(to_init), NULL, 0),
		-EPERM); /* a Q_Key for management only */
	to_init.qkey = 0x10000;
	assert_int_equal(
		kit_cmd(&k, IB_USER_VERBS_CMD_MODIFY_QP, &to_init, sizeof(to_init), NULL, 0), 0);
	set_capability(CAP_NET_RAW, true);
	kit_close(&k);
}

static int reg(struct kit *k, uint64_t bytes, uint32_t *handle)
{
	const struct ib_uverbs_reg_mr req = {.start = (uintptr_t)k->mem,
					     .length = bytes,
					     .hca_va = (uintptr_t)k->mem,
					     .pd_handle = k->pd,
					     .access_flags = IB_UVERBS_ACCESS_LOCAL_WRITE};
	struct ib_uverbs_reg_mr_resp resp;
	int rc = kit_cmd(k, IB_USER_VERBS_CMD_REG_MR, &req, sizeof(req), &resp, sizeof(resp));

	*handle = resp.mr_handle;
	return rc;
}

static int dereg(struct kit *k, uint32_t handle)
{
	const struct ib_uverbs_dereg_mr req = {.mr_handle = handle};

	return kit_cmd(k, IB_USER_VERBS_CMD_DEREG_MR, &req, sizeof(req), NULL, 0);
}

static void locked_memory(void **state)
{
	const bool may_exceed = set_capability(CAP_IPC_LOCK, true);
	struct rlimit before, limit;
	uint32_t one, two, cq;
	struct kit k;

	(void)state;
	kit_open(&k);
	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
	limit = before;
	limit.rlim_cur = KIT_BYTES;
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	set_capability(CAP_IPC_LOCK, false);
	assert_int_equal(reg(&k, KIT_BYTES / 2, &one), 0);
	assert_int_equal(reg(&k, KIT_BYTES / 2 + 1, &two), -ENOMEM);
	assert_int_equal(reg(&k, KIT_BYTES / 2, &two), 0); /* the same bytes count again */
	assert_int_equal(kit_cq(&k, -1, &cq), -ENOMEM);    /* rings count too */
	assert_int_equal(dereg(&k, one), 0);
	assert_int_equal(kit_cq(&k, -1, &cq), 0);
	assert_int_equal(reg(&k, KIT_BYTES / 2, &one), -ENOMEM);
	if (may_exceed) {
		set_capability(CAP_IPC_LOCK, true);
		assert_int_equal(reg(&k, KIT_BYTES / 2, &one), 0);
		assert_int_equal(dereg(&k, one), 0);
		set_capability(CAP_IPC_LOCK, false);
	}
	limit.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	assert_int_equal(reg(&k, 4096, &one), -EPERM);
	setrlimit(RLIMIT_MEMLOCK, &before);
	if (may_exceed)
		set_capability(CAP_IPC_LOCK, true);
	kit_close(&k);
}

static uint32_t make_table(struct kit *k, uint32_t log2_cnt)
{
	struct ib_uverbs_ex_create_wq req = {
		.wq_type = IB_UVERBS_WQT_RQ, .pd_handle = k->pd, .max_wr = 4, .max_sge = 1};
	const struct mlx5_ib_create_wq drv = {.buf_addr = (uintptr_t)kit_ring(k, 64),
					      .db_addr = (uintptr_t)kit_ring(k, 8),
					      .rq_wqe_count = 4,
					      .rq_wqe_shift = 4};
	struct {
		struct ib_uverbs_ex_create_rwq_ind_table head;
		uint32_t wq[2];
	} table = {.head.log_ind_tbl_size = log2_cnt};
	struct ib_uverbs_ex_create_rwq_ind_table_resp out;
	struct ib_uverbs_ex_create_wq_resp wq;
	struct mlx5_ib_create_wq_resp drv_resp;

	assert_int_equal(kit_cq(k, -1, &req.cq_handle), 0);
	assert_int_equal(
		kit_call(k, IB_USER_VERBS_EX_CMD_CREATE_WQ | IB_USER_VERBS_CMD_FLAG_EXTENDED,
			 (struct kit_part){&req, sizeof(req), &wq, sizeof(wq)},
			 (struct kit_part){&drv, sizeof(drv), &drv_resp, sizeof(drv_resp)}),
		0);
	table.wq[0] = table.wq[1] = wq.wq_handle;
	assert_int_equal(
		kit_cmd(k,
			IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL | IB_USER_VERBS_CMD_FLAG_EXTENDED,
			&table, sizeof(table), &out, sizeof(out)),
		0);
	return out.ind_tbl_handle;
}

static int make_rss(struct kit *k, uint32_t table, uint64_t fields, uint8_t key_bytes)
{
	const struct ib_uverbs_ex_create_qp req = {.pd_handle = k->pd,
						   .qp_type = IB_UVERBS_QPT_RAW_PACKET,
						   .comp_mask = IB_UVERBS_CREATE_QP_MASK_IND_TABLE,
						   .rwq_ind_tbl_handle = table};
	const struct mlx5_ib_create_qp_rss drv = {.rx_hash_fields_mask = fields,
						  .rx_hash_function = MLX5_RX_HASH_FUNC_TOEPLITZ,
						  .rx_key_len = key_bytes};
	struct ib_uverbs_ex_create_qp_resp resp;
	struct mlx5_ib_create_qp_resp drv_resp;

	return kit_call(k, IB_USER_VERBS_EX_CMD_CREATE_QP | IB_USER_VERBS_CMD_FLAG_EXTENDED,
			(struct kit_part){&req, sizeof(req), &resp, sizeof(resp)},
			(struct kit_part){&drv, sizeof(drv), &drv_resp, sizeof(drv_resp)});
}

static void rss_shapes(void **state)
{
	const uint64_t ipv4 = MLX5_RX_HASH_SRC_IPV4 | MLX5_RX_HASH_DST_IPV4;
	uint32_t one, two;
	struct kit k;

	(void)state;
	if (!set_capability(CAP_NET_RAW, true))
		skip();
	kit_open(&k);
	one = make_table(&k, 0);
	two = make_table(&k, 1);
	assert_int_equal(make_rss(&k, two, ipv4, 40), 0);
	assert_int_equal(make_rss(&k, two, ipv4, 39), -EINVAL);
	assert_int_equal(make_rss(&k, two, ipv4, 52), -EINVAL);
	assert_int_equal(make_rss(&k, one, 0, 40), 0);
	assert_int_equal(make_rss(&k, one, 0, 0), -EINVAL);
	assert_int_equal(make_rss(&k, two, 0, 40), -EINVAL); /* nothing chooses an entry */
	kit_close(&k);
}

static void numbers(void **state)
{
	const struct {
		enum hca_obj_type type;
		uint32_t max;
	} t[] = {{HCA_PD, 1u << 19}, {HCA_CQ, 1u << 15}, {HCA_MR, 1u << 19}};
	struct ib_uverbs_alloc_pd_resp pd;
	const struct ib_uverbs_alloc_pd req = {0};
	uint32_t any;
	struct kit k;

	(void)state;
	kit_open(&k);
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(t); i++) { /* as if all but one existed */
		const uint32_t before = k.dev->obj_cnt[t[i].type];
		int rc[2];

		k.dev->obj_cnt[t[i].type] = t[i].max - 1;
		for (uint32_t n = 0; n < 2; n++)
			rc[n] = t[i].type == HCA_PD ? kit_cmd(&k, IB_USER_VERBS_CMD_ALLOC_PD, &req,
							      sizeof(req), &pd, sizeof(pd))
				: t[i].type == HCA_CQ ? kit_cq(&k, -1, &any)
						      : reg(&k, 4096, &any);
		assert_int_equal(rc[0], 0);
		assert_int_equal(rc[1], -ENOMEM);
		k.dev->obj_cnt[t[i].type] = before + 1;
	}
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rights),
		cmocka_unit_test(locked_memory),
		cmocka_unit_test(rss_shapes),
		cmocka_unit_test(numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
