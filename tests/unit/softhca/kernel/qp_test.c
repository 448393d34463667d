/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Which transitions of a QP are permitted, and with which attributes.
 */
#include "kit.h"

#define RC  IB_UVERBS_QPT_RC
#define UC  IB_UVERBS_QPT_UC
#define UD  IB_UVERBS_QPT_UD
#define RAW IB_UVERBS_QPT_RAW_PACKET

/* RESET to RTS, with the attributes that ibv_modify_qp(3) lists. */
static const struct {
	uint8_t type, from, to;
	uint32_t required;
} up[] = {
	{RC, 0, 1, QPA_PKEY | QPA_PORT | QPA_ACCESS},
	{RC, 1, 2,
	 QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN | QPA_MAX_DEST_RD_ATOMIC |
		 QPA_MIN_RNR_TIMER},
	{RC, 2, 3, QPA_SQ_PSN | QPA_MAX_RD_ATOMIC | QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_TIMEOUT},
	{UC, 0, 1, QPA_PKEY | QPA_PORT | QPA_ACCESS},
	{UC, 1, 2, QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN},
	{UC, 2, 3, QPA_SQ_PSN},
	{UD, 0, 1, QPA_PKEY | QPA_PORT | QPA_QKEY},
	{UD, 1, 2, 0},
	{UD, 2, 3, QPA_SQ_PSN},
	{RAW, 0, 1, QPA_PORT},
	{RAW, 1, 2, 0},
	{RAW, 2, 3, 0},
};

static void required_attributes(void **state)
{
	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(up); i++) {
		assert_int_equal(qp_modify_permitted(up[i].type, up[i].from, up[i].to,
						     up[i].required | QPA_STATE),
				 0);
		for (uint32_t bit = 0; bit < 21; bit++) {
			uint32_t one = 1u << bit;

			if (up[i].required & one)
				assert_int_equal(
					qp_modify_permitted(up[i].type, up[i].from, up[i].to,
							    (up[i].required & ~one) | QPA_STATE),
					-EINVAL);
		}
	}
}

/* Attributes of the next state are not permitted one state early. */
static void foreign_attributes(void **state)
{
	(void)state;
	for (size_t i = 0; i + 1 < SPW_ARRAY_CNT(up); i++)
		if (up[i].type == up[i + 1].type && up[i + 1].required)
			assert_int_equal(qp_modify_permitted(up[i].type, up[i].from, up[i].to,
							     up[i].required | up[i + 1].required |
								     QPA_STATE),
					 -EINVAL);
	assert_int_equal(qp_modify_permitted(RC, 0, 1, up[0].required | QPA_CAP), -EINVAL);
}

/* The pairs of states without an arrow in the specification's diagram. */
static void no_arrow(void **state)
{
	static const uint8_t none[][2] = {{0, 2}, {0, 3}, {0, 4}, {0, 5}, {0, 6}, {1, 3}, {1, 4},
					  {1, 5}, {2, 1}, {2, 2}, {2, 4}, {2, 5}, {3, 1}, {3, 2},
					  {3, 5}, {4, 1}, {4, 2}, {4, 5}, {5, 1}, {5, 2}, {5, 4},
					  {5, 5}, {6, 1}, {6, 2}, {6, 3}, {6, 4}, {6, 5}};

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(none); i++)
		for (uint32_t mask = 0; mask < 1u << 21; mask = mask << 1 | 1)
			assert_int_equal(qp_modify_permitted(RC, none[i][0], none[i][1], mask),
					 -EINVAL);
}

static void error_and_reset(void **state)
{
	(void)state;
	for (uint8_t from = HCA_QPS_INIT; from <= HCA_QPS_ERR; from++) {
		assert_int_equal(qp_modify_permitted(RC, from, HCA_QPS_RESET, QPA_STATE), 0);
		assert_int_equal(qp_modify_permitted(RC, from, HCA_QPS_ERR, QPA_STATE), 0);
	}
	assert_int_equal(qp_modify_permitted(RC, HCA_QPS_RESET, HCA_QPS_RESET, QPA_STATE), 0);
}

/* The same through the command, on a QP: a refused transition changes nothing. */
static void walk(void **state)
{
	static const uint8_t types[] = {RC, UC, UD, RAW};
	struct ib_uverbs_create_qp_resp r;
	struct kit k;
	uint32_t cq;

	(void)state;
	kit_open(&k);
	assert_int_equal(kit_cq(&k, -1, &cq), 0);
	for (size_t t = 0; t < SPW_ARRAY_CNT(types); t++) {
		struct hca_qp *qp;

		assert_int_equal(kit_qp(&k, types[t], cq, &r), 0);
		qp = hca_qp_get(k.dev, r.qpn);
		assert_non_null(qp);
		for (size_t i = 0; i < SPW_ARRAY_CNT(up); i++) {
			if (up[i].type != types[t])
				continue;
			assert_int_equal(kit_modify(&k, r.qp_handle, QPA_CAP, up[i].to), -EINVAL);
			assert_int_equal(qp->state, up[i].from);
			assert_int_equal(kit_modify(&k, r.qp_handle, up[i].required, up[i].to), 0);
			assert_int_equal(qp->state, up[i].to);
		}
		assert_int_equal(kit_modify(&k, r.qp_handle, 0, HCA_QPS_ERR), 0);
		assert_int_equal(kit_modify(&k, r.qp_handle, 0, HCA_QPS_RTS), -EINVAL);
		assert_int_equal(kit_modify(&k, r.qp_handle, 0, HCA_QPS_RESET), 0);
		assert_int_equal(kit_modify(&k, r.qp_handle, 0, 7), -EINVAL);
	}
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(required_attributes), cmocka_unit_test(foreign_attributes),
		cmocka_unit_test(no_arrow), cmocka_unit_test(error_and_reset),
		cmocka_unit_test(walk)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
