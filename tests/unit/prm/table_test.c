/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The formats as tables: accessors and tables agree, a field changes its own bits only, offsets are
 * those of rdma-core's structures. */
#include <infiniband/mlx5dv.h>

#include "prm/spw_prm.h"
#include "unit_test.h"

/* The bits of a field, byte by byte, found without the code under test. */
static void field_mask(const struct spw_prm_field *f, uint8_t mask[64])
{
	const unsigned word_bytes = f->msb > 31 ? 8 : 4;

	memset(mask, 0, 64);
	for (unsigned bit = f->lsb; bit <= f->msb; bit++)
		mask[f->byte + word_bytes - 1 - bit / 8] |= (uint8_t)(1u << bit % 8);
}

static uint64_t field_max(const struct spw_prm_field *f)
{
	return f->msb - f->lsb == 63 ? UINT64_MAX : (1ull << (f->msb - f->lsb + 1)) - 1;
}

#define FORMAT_NAME(fmt, LIST, size) #fmt,

static void fields_change_their_bits_only(void **state)
{
	static const char *const name[] = {SPW_PRM_FORMATS(FORMAT_NAME)};
	uint64_t seed = 1;
	unsigned fields = 0;

	(void)state;
	for (unsigned i = 0; i < SPW_ARRAY_CNT(name); i++) {
		const struct spw_prm_format *fmt = spw_prm_format(name[i]);

		for (unsigned n = 0; n < fmt->field_cnt; n++, fields++) {
			const struct spw_prm_field *f = &fmt->fields[n];
			uint8_t mask[64], before[64], after[64];
			const uint64_t v = unit_random(&seed) & field_max(f);

			for (unsigned b = 0; b < 64; b++)
				before[b] = (uint8_t)unit_random(&seed);
			memcpy(after, before, 64);
			field_mask(f, mask);
			spw_prm_put(after, f->byte, f->msb, f->lsb, v);
			assert_int_equal(spw_prm_field_get(f, after), v);
			for (unsigned b = 0; b < 64; b++)
				assert_int_equal(after[b] & ~mask[b], before[b] & ~mask[b]);
			spw_prm_put(after, f->byte, f->msb, f->lsb, field_max(f));
			for (unsigned b = 0; b < 64; b++)
				assert_int_equal(after[b] & mask[b], mask[b]);
			assert_ptr_equal(spw_prm_field(fmt, f->name), f);
		}
	}
	assert_true(fields > 90); /* the walk saw the lists */
}

static void offsets_are_rdma_cores(void **state)
{
	union {
		struct mlx5_cqe64 c;
		struct mlx5_err_cqe e;
		uint8_t b[64];
	} cqe = {0};
	struct mlx5_wqe_ctrl_seg ctrl;

	(void)state;
	spw_prm_cqe64_set_uidx(&cqe, 0x123456);
	spw_prm_cqe64_set_byte_cnt(&cqe, 4096);
	spw_prm_cqe64_set_timestamp(&cqe, 0x1122334455667788ull);
	spw_prm_cqe64_set_wqe_counter(&cqe, 0xbeef);
	spw_prm_cqe64_set_wqe_id(&cqe, 0x77aa);
	spw_prm_cqe64_set_vlan_info(&cqe, 0x0123);
	spw_prm_cqe64_set_hds_ip_ext(&cqe, 5);
	spw_prm_cqe64_set_opcode(&cqe, SPW_PRM_CQE_RESP_SEND);
	spw_prm_cqe64_set_owner(&cqe, 1);
	assert_int_equal(spw_be32_to_cpu(cqe.c.srqn_uidx), 0x123456);
	assert_int_equal(spw_be32_to_cpu(cqe.c.byte_cnt), 4096);
	assert_int_equal(spw_be64_to_cpu(cqe.c.timestamp), 0x1122334455667788ull);
	assert_int_equal(spw_be16_to_cpu(cqe.c.wqe_counter), 0xbeef);
	assert_int_equal(spw_be16_to_cpu(cqe.c.wqe_id), 0x77aa);
	assert_int_equal(spw_be16_to_cpu(cqe.c.vlan_info), 0x0123);
	assert_int_equal(cqe.c.hds_ip_ext, 5);
	assert_int_equal(mlx5dv_get_cqe_opcode(&cqe.c), MLX5_CQE_RESP_SEND);
	assert_int_equal(mlx5dv_get_cqe_owner(&cqe.c), 1);
	spw_prm_cqe_err_set_syndrome(&cqe, SPW_PRM_SYN_REMOTE_ACCESS_ERR);
	spw_prm_cqe_err_set_vendor_err_synd(&cqe, 0x88);
	assert_int_equal(cqe.e.syndrome, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
	assert_int_equal(cqe.e.vendor_err_synd, 0x88);
	mlx5dv_set_ctrl_seg(&ctrl, 0x1234, MLX5_OPCODE_SEND_IMM, 0x56, 0xabcdef,
			    MLX5_WQE_CTRL_CQ_UPDATE, 3, 0x9a, 0x01020304);
	assert_int_equal(spw_prm_wqe_ctrl_get_wqe_index(&ctrl), 0x1234);
	assert_int_equal(spw_prm_wqe_ctrl_get_opcode(&ctrl), SPW_PRM_OP_SEND_IMM);
	assert_int_equal(spw_prm_wqe_ctrl_get_opmod(&ctrl), 0x56);
	assert_int_equal(spw_prm_wqe_ctrl_get_qpn(&ctrl), 0xabcdef);
	assert_int_equal(spw_prm_wqe_ctrl_get_ds(&ctrl), 3);
	assert_int_equal(spw_prm_wqe_ctrl_get_ce(&ctrl), SPW_PRM_CTRL_CE_CQE);
	assert_int_equal(spw_prm_wqe_ctrl_get_signature(&ctrl), 0x9a);
}

static void text_is_cut_not_overrun(void **state)
{
	uint8_t wqe[64];
	uint64_t seed = 7;
	char text[4096];

	(void)state;
	for (unsigned turn = 0; turn < 2000; turn++) {
		const size_t size = unit_random(&seed) % sizeof(text);
		int want;

		for (unsigned b = 0; b < sizeof(wqe); b++)
			wqe[b] = (uint8_t)unit_random(&seed);
		memset(text, 'x', sizeof(text));
		want = spw_prm_dump_wqe(wqe, unit_random(&seed) % 65,
					(enum spw_prm_transport)(turn % 4), text, size);
		assert_true(want >= 0);
		if (size)
			assert_true(strnlen(text, size) < size);
		for (size_t i = size; i < sizeof(text); i++)
			assert_int_equal(text[i], 'x');
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_change_their_bits_only),
		cmocka_unit_test(offsets_are_rdma_cores),
		cmocka_unit_test(text_is_cut_not_overrun),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
