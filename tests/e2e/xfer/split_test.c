/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One message over two rails, for split_test.py, which reads each cable's trace: prints where the
 * message goes, and what each rail is said to have carried. The ACK timeout is long, so that no
 * busy core makes a frame go twice.
 */
#include <inttypes.h>

#include "xfer_kit.h"

#define BYTES 5000001u

static void one_message(void **state SPW_UNUSED)
{
	const struct spw_xfer_conf conf = {.chunk_bytes = 64u << 10, .timeout = 20};
	struct spw_xfer_rail_stat stat;
	struct kit k;

	kit_open(&k, "mlx5_0+mlx5_2", "mlx5_1+mlx5_3", &conf);
	kit_connect(&k);
	kit_memory(&k, BYTES);
	kit_wait_up(&k, 2);
	kit_pass(&k, BYTES, 1);
	print_message("message %#" PRIxPTR " %u\n", (uintptr_t)k.buf_b, BYTES);
	for (uint32_t i = 0; spw_xfer_conn_rail_stat(k.ab, i, &stat); i++)
		print_message("rail %s %" PRIu64 "\n", stat.device, stat.tx_bytes);
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(one_message)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
