/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What rx_test.c cannot show of raw completions: rings larger than the reader's, error CQEs, bytes
 * that were changed, and shapes and bytes that no queue ever wrote.
 */
#include <errno.h>

#include "base/spw_err.h"
#include "model.h"
#include "port/mlx5/eth/raw.h"

static struct model model;

static struct spw_port_raw_reader *reader_of(const struct model *m)
{
	struct spw_port_raw_reader *reader;

	assert_int_equal(spw_port_raw_open(&m->h.pq.raw->shape, &reader), 0);
	return reader;
}

/* 2^14 entries; the reader has 2^12. Over the end of a lap, and of the counter. */
static void test_large_ring(void **state)
{
	static const unsigned flags[] = {MLX5_F_STAMP, MLX5_F_COMPRESSED,
					 MLX5_F_COMPRESSED | MLX5_F_ENHANCED};

	(void)state;
	for (unsigned i = 0; i < SPW_ARRAY_CNT(flags); i++)
		for (uint32_t start = 0; start < 2; start++) {
			struct hand_conf c =
				model_conf(flags[i], start ? 0u - 300 : (1u << 14) - 300, 0);

			c.cq_cnt = 1u << 14;
			model_open(&model, &c);
			model_run(&model, 1000);
			model_close(&model);
		}
}

/* A frame that the queue survives the loss of, and an error that it does not. */
static void test_errors_are_kept(void **state)
{
	struct hand_conf c = model_conf(MLX5_F_STAMP, 0, 0);
	struct spw_desc desc[SPW_BURST_MAX];
	struct spw_port_raw_reader *reader;
	const struct spw_port_raw *raw;
	const uint8_t *cqe;

	(void)state;
	model_open(&model, &c);
	raw = model.h.pq.raw;
	cqe = raw->to + sizeof(struct mlx5_eth_raw_head) + sizeof(struct mlx5_eth_raw_run);
	reader = reader_of(&model);
	hand_bad_frame(&model.h, SPW_PRM_SYN_LOCAL_LENGTH_ERR, 1);
	assert_int_equal(spw_port_rx_burst(&model.h.pq, desc, 8), 0);
	assert_int_equal(spw_prm_cqe_err_get_syndrome(cqe), SPW_PRM_SYN_LOCAL_LENGTH_ERR);
	assert_int_equal(spw_port_raw_run(reader, raw->to, raw->bytes, desc), 0);
	hand_error(&model.h, SPW_PRM_SYN_LOCAL_PROT_ERR);
	assert_int_equal(spw_port_rx_burst(&model.h.pq, desc, 8), 0);
	assert_int_equal(spw_prm_cqe_err_get_syndrome(cqe), SPW_PRM_SYN_LOCAL_PROT_ERR);
	assert_int_equal(spw_port_rx_burst(&model.h.pq, desc, 8), 0);
	assert_int_equal(raw->bytes, 0); /* once */
	spw_port_raw_close(reader);
	assert_int_equal(hand_close(&model.h), 0);
}

/* A burst of one run of plain CQEs, with a bit of one of them changed. Returns: bytes of out. */
static uint32_t changed(const struct spw_port_raw *raw, uint32_t frame, uint32_t byte, uint8_t bit,
			uint8_t *out)
{
	struct mlx5_eth_raw_run *run = (void *)(out + sizeof(struct mlx5_eth_raw_head));
	static uint8_t cqe[SPW_BURST_MAX * MLX5_CQE_BYTES] SPW_ALIGNED(8);
	uint64_t value[SPW_COLUMN_CNT];

	memcpy(out, raw->to, raw->bytes);
	assert_true(run->is_plain);
	memset(cqe, 0, sizeof(cqe));
	for (uint32_t i = 0; i < run->cnt; i++) {
		spw_columns_get((void *)(run + 1), run->widths, run->cnt, i, value);
		mlx5_eth_raw_unrow(value, cqe + i * MLX5_CQE_BYTES);
	}
	cqe[frame * MLX5_CQE_BYTES + byte] ^= bit;
	run->widths = (uint8_t)spw_columns_put(mlx5_eth_raw_row, cqe, MLX5_CQE_BYTES / 8, run->cnt,
					       (void *)(run + 1));
	return (uint32_t)((uint8_t *)(run + 1) - out) + spw_columns_bytes(run->widths, run->cnt);
}

/* Each bit of a CQE that the burst reads changes what comes out, for that frame alone. */
static void test_changed_bytes(void **state)
{
	struct hand_conf c = model_conf(MLX5_F_STAMP, 0, 0);
	static uint8_t raw[SPW_PORT_RAW_MAX] SPW_ALIGNED(8);
	struct spw_desc was[SPW_BURST_MAX], is[SPW_BURST_MAX];
	struct spw_port_raw_reader *reader;
	const struct spw_port_raw *kept;
	uint32_t bytes;

	(void)state;
	model_open(&model, &c);
	reader = reader_of(&model);
	for (int i = 0; i < 9; i++)
		hand_plain(&model.h, 100, NULL);
	assert_int_equal(spw_port_rx_burst(&model.h.pq, was, 64), 9);
	kept = model.h.pq.raw;
	bytes = changed(kept, 5, 47, 1, raw); /* byte_cnt */
	assert_int_equal(spw_port_raw_run(reader, raw, bytes, is), 9);
	for (int i = 0; i < 9; i++)
		assert_int_equal(is[i].len, i == 5 ? was[i].len ^ 1u : was[i].len);
	bytes = changed(kept, 5, 48, 1, raw); /* timestamp */
	assert_int_equal(spw_port_raw_run(reader, raw, bytes, is), 9);
	for (int i = 0; i < 9; i++)
		assert_int_equal(is[i].nic_stamp,
				 i == 5 ? was[i].nic_stamp ^ 1ull << 56 : was[i].nic_stamp);
	bytes = changed(kept, 5, MLX5_CQE_OP_OWN, 1, raw);
	assert_int_equal(spw_port_raw_run(reader, raw, bytes, is), 5);
	bytes = changed(kept, 5, MLX5_CQE_OP_OWN, 0, raw);
	assert_int_equal(bytes, kept->bytes);
	assert_int_equal(spw_port_raw_run(reader, raw, bytes, is), 9);
	for (uint32_t cut = 0; cut < bytes; cut += 8)
		assert_true(spw_port_raw_run(reader, raw, cut, is) < 9);
	spw_port_raw_close(reader);
	spw_port_release_burst(&model.h.pq,
			       (uint32_t[]){was[0].slot, was[1].slot, was[2].slot, was[3].slot,
					    was[4].slot, was[5].slot, was[6].slot, was[7].slot,
					    was[8].slot},
			       9);
	assert_int_equal(hand_close(&model.h), 0);
}

static void test_shapes(void **state)
{
	const struct spw_port_raw_shape good = {
		SPW_PORT_RAW_MLX5_ETH, MLX5_F_STAMP, 2048, 10, 10, 0, 0};
	struct spw_port_raw_shape bad[8];
	struct spw_port_raw_reader *reader;

	(void)state;
	assert_int_equal(spw_port_raw_open(&good, &reader), 0);
	spw_port_raw_close(reader);
	for (unsigned i = 0; i < SPW_ARRAY_CNT(bad); i++)
		bad[i] = good;
	bad[0].kind = SPW_PORT_RAW_NONE;
	bad[1].flags = MLX5_F_INLINE;
	bad[2].flags = MLX5_F_ENHANCED;
	bad[3].room_bytes = 0;
	bad[4].cq_log2 = 9;
	bad[5].rq_log2 = 16;
	bad[6].group_log2 = 1;
	bad[7].flags = MLX5_F_STRIDING;
	bad[7].group_log2 = 10;
	for (unsigned i = 0; i < SPW_ARRAY_CNT(bad); i++) {
		assert_int_equal(spw_port_raw_open(&bad[i], &reader), -EPROTO);
		assert_null(reader);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_large_ring),
		cmocka_unit_test(test_errors_are_kept),
		cmocka_unit_test(test_changed_bytes),
		cmocka_unit_test(test_shapes),
	};

	model_keeps_raw = true;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
