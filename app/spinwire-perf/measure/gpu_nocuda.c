/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A build without CUDA has no GPU rows (gpu.h): client.c marks them as failed with the text of
 * perf_gpu_missing, so the other calls are not reached; they return an error all the same.
 */
#include <errno.h>

#include "base/spw_err.h"
#include "gpu.h"

static const char missing[] = "this build of spinwire-perf has no CUDA";

const char *perf_gpu_missing(void)
{
	return missing;
}

int perf_gpu_fill(uint64_t at SPW_UNUSED, uint64_t bytes SPW_UNUSED, uint64_t seed SPW_UNUSED)
{
	return spw_err(ENOTSUP, "%s", missing);
}

int perf_gpu_clear(uint64_t at SPW_UNUSED, uint64_t bytes SPW_UNUSED)
{
	return spw_err(ENOTSUP, "%s", missing);
}

int perf_gpu_wait(void)
{
	return spw_err(ENOTSUP, "%s", missing);
}

int perf_gpu_check(uint64_t at SPW_UNUSED, uint64_t bytes SPW_UNUSED, uint64_t seed SPW_UNUSED,
		   uint64_t *wrong_out SPW_UNUSED)
{
	return spw_err(ENOTSUP, "%s", missing);
}
