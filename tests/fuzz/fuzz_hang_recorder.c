/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Fuzzing a dump of PyTorch's flight recorder: any pickle. It is refused, or gives sound rows.
 */
#include "fuzz_hang.h"
#include "hang/read/read_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct spw_hang_where where = {.root = "/nonexistent"};
	const struct spw_hang_proc_row proc = {.pid = {4711, true}, .rank = {1, true}};
	struct spw_hang_snap snap = {.taken = false};
	struct hang_read r = {.where = &where, .snap = &snap, .now_real_ns = 1700000060000000000};

	if (hang_recorder_rows(&r, &proc, data, size) < 0)
		fuzz_demand(snap.op_cnt == 0);
	fuzz_rows_check(&snap);
	spw_hang_snap_free(&snap);
	return 0;
}
