/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The syntax of NCCL_IB_HCA, by the examples of NCCL's manual and its corners.
 */
#include "unit_test.h"
#include "xfer/filter.h"

static void as_nccl_reads_it(void **state SPW_UNUSED)
{
	static const struct {
		const char *list, *device;
		bool has;
	} set[] = {
		{NULL, "mlx5_0", true},
		{"", "mlx5_0", true},
		{"^", "mlx5_0", true},
		{"mlx5", "mlx5_0", true},
		{"mlx5_1", "mlx5_10", true},
		{"=mlx5_1", "mlx5_10", false},
		{"=mlx5_0:1,mlx5_1:1", "mlx5_1", true},
		{"=mlx5_0:1,mlx5_1:2", "mlx5_1", false},
		{"mlx5_1:1,mlx5_2", "mlx5_2", true},
		{"^=mlx5_1,mlx5_4", "mlx5_4", false},
		{"^=mlx5_1,mlx5_4", "mlx5_0", true},
		{"^mlx5_1", "mlx5_10", false},
		{"=rocep1s0f0:1,roceP2p1s0f0:1", "roceP2p1s0f0", true},
		{"=rocep1s0f0:1,roceP2p1s0f0:1", "rocep1s0f1", false},
		{"mlx5_0,,mlx5_3,", "mlx5_3", true},
		{"mlx5_0,,mlx5_3,", "mlx5_1", false},
		{"ibp", "mlx5_1", false},
	};

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(set); i++)
		if (xfer_filter_has(set[i].list, set[i].device, 1) != set[i].has)
			fail_msg("%s: %s", set[i].list ? set[i].list : "NULL", set[i].device);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_nccl_reads_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
