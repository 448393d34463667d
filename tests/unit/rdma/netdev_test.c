/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Frames that found no WQE: what the device's counter and the CQEs say together.
 */
#include "rdma/spw_rdma_netdev.h"
#include "unit_test.h"

/* Firmware whose counter leaves receive work queues out: unknown, not 0. */
static void test_missed(void **state)
{
	static const struct {
		bool known;
		uint64_t counted, by_cqe;
		bool known_out;
		uint64_t missed;
	} table[] = {
		{true, 0, 0, true, 0},   {true, 9, 0, true, 9},  {true, 9, 4, true, 9},
		{true, 4, 9, true, 9},   {true, 0, 9, false, 0}, {false, 0, 0, false, 0},
		{false, 0, 9, false, 0},
	};

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(table); i++) {
		struct spw_port_stat stat = {.wire_frames = 100};

		rdma_missed_stat(table[i].known, table[i].counted, table[i].by_cqe, &stat);
		assert_int_equal(stat.missed_known, table[i].known_out);
		assert_int_equal(stat.missed_frames, table[i].missed);
		assert_int_equal(stat.wire_frames, 100 + table[i].missed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_missed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
