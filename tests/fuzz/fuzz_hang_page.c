/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Fuzzing a live page: any communicator and any connection that another process may have written.
 *
 *   input: rate and moment (16 bytes), then what an entry of comm[] and one of conn[] begin with
 */
#include "fuzz_hang.h"
#include "hang/read/read_page.h"

static size_t part_take(void *out, size_t bytes, const uint8_t *data, size_t size)
{
	const size_t n = SPW_MIN(bytes, size);

	memcpy(out, data, n);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hang_page_view view = {.pid = 4711};
	struct spw_hang_snap snap = {.taken = false};
	struct spw_hang_comm comm = {0};
	struct spw_hang_conn conn = {0};
	uint64_t head[2] = {0};
	size_t at = part_take(head, sizeof(head), data, size);

	at += part_take(&comm, sizeof(comm), data + at, size - at);
	part_take(&conn, sizeof(conn), data + at, size - at);
	view.tsc_hz = head[0];
	view.now_tsc = head[1];
	fuzz_demand((hang_page_comm_rows(&comm, &view, &snap) > 0) == snap.comm_cnt);
	fuzz_demand((hang_page_conn_rows(&conn, 7, &view, &snap) > 0) == snap.conn_cnt);
	fuzz_demand(snap.rail_cnt <= SPW_HANG_RAIL_MAX);
	for (uint32_t i = 0; i < snap.conn_cnt; i++)
		fuzz_demand(snap.conn[i].moved_ns.value >= 0 && snap.conn[i].oldest_ns.value >= -1);
	fuzz_rows_check(&snap);
	spw_hang_snap_free(&snap);
	return 0;
}
