/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What messages carry (bytes.h). case_xfer.c calls this before and after the timed part, never
 * within it: the pattern of a slot is made at the source, its destination is cleared, and
 * afterwards every byte of the destination is compared. A row whose bytes differ is invalid.
 *
 *    write, send   send half    ──►  receive half of the other end
 *    read          send half    ◄──  receive half of the other end
 */
#include "measure/bytes.h"

#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_monotonic.h"
#include "measure/gpu.h"
#include "measure/pattern.h"

#define FLUSH_NS 1000000000ull

/* A READ goes from a receive half to a send half, because the other end's window covers its
 * receive half alone (lane.h). */
static uint8_t *bytes_source(const struct perf_lane *lane, const struct perf_case *what,
			     uint32_t slot)
{
	return what->op == PERF_READ ? perf_lane_recv_at(lane, what, slot)
				     : perf_lane_send_at(lane, what, slot);
}

static uint8_t *bytes_destination(const struct perf_lane *lane, const struct perf_case *what,
				  uint32_t slot)
{
	return what->op == PERF_READ ? perf_lane_send_at(lane, what, slot)
				     : perf_lane_recv_at(lane, what, slot);
}

/* The destination is cleared too: bytes that a former row has left there would pass for new ones.
 */
static int bytes_fill(const struct perf_lane *lane, const struct perf_case *what, uint32_t slot,
		      uint64_t seed)
{
	uint8_t *from = bytes_source(lane, what, slot), *to = bytes_destination(lane, what, slot);
	int rc;

	if (what->gpu) {
		rc = perf_gpu_fill(perf_lane_gpu_va(lane, from), what->bytes, seed);
		return rc ? rc : perf_gpu_clear(perf_lane_gpu_va(lane, to), what->bytes);
	}
	perf_pattern_fill(from, what->bytes, seed);
	memset(to, 0, what->bytes);
	return 0;
}

/* Each slot has a seed of its own, so a message that ended up in another slot is found. */
int perf_bytes_prepare(const struct perf_lane *lane, const struct perf_case *what, uint64_t seed,
		       uint32_t slots)
{
	int rc = 0;

	for (uint32_t i = 0; i < slots && rc == 0; i++)
		rc = bytes_fill(lane, what, i, seed + i);
	return rc;
}

/* What a NIC wrote to a GPU's own memory becomes visible to the kernels that start afterwards. */
static int bytes_flush(const struct perf_lane *lane, uint8_t *at, uint64_t bytes)
{
	uint64_t last_ns = spw_monotonic_ns(), spent_ns = 0;
	struct spw_xfer_req *req;
	bool over = false;
	int rc = spw_xfer_flush(lane->conn, lane->mem, at, bytes, &req);

	while (rc == 0 && !over && (rc = spw_xfer_test(req, &over, NULL)) == 0)
		if ((spent_ns += perf_ran_ns(&last_ns)) > FLUSH_NS)
			return spw_err(ETIMEDOUT, "a flush of GPU memory did not end in 1 s");
	return rc;
}

/* The flush comes first, and only for GPU rows: the CPU's own memory is coherent with the NIC. */
static int bytes_compare(const struct perf_lane *lane, const struct perf_case *what, uint32_t slot,
			 uint64_t seed, uint64_t *wrong_out)
{
	uint8_t *at = bytes_destination(lane, what, slot);
	int rc;

	if (what->gpu) {
		rc = bytes_flush(lane, at, what->bytes);
		return rc ? rc
			  : perf_gpu_check(perf_lane_gpu_va(lane, at), what->bytes, seed,
					   wrong_out);
	}
	*wrong_out = perf_pattern_check(at, what->bytes, seed);
	return 0;
}

/* The first wrong byte is enough: its place and slot are in the text. */
int perf_bytes_verify(const struct perf_lane *lane, const struct perf_case *what, uint64_t seed,
		      uint32_t slots)
{
	for (uint32_t i = 0; i < slots; i++) {
		uint64_t wrong;
		int rc = bytes_compare(lane, what, i, seed + i, &wrong);

		if (rc < 0)
			return rc;
		if (wrong != what->bytes)
			return spw_err(EBADMSG, "byte %llu of a message of %llu is wrong (slot %u)",
				       (unsigned long long)wrong, (unsigned long long)what->bytes,
				       i);
	}
	return 0;
}
