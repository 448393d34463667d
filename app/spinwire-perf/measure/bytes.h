/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What messages carry: a pattern, made before and compared after the timed part, by this CPU or, of
 * GPU rows, by kernels.
 */
#ifndef PERF_BYTES_H
#define PERF_BYTES_H

#include "measure/lane.h"

/* Purpose: fills slots of the source with the pattern of seed, seed + 1..., and clears those of the
 *   destination.
 * Thread: main. Errors: -EIO of the GPU. */
int perf_bytes_prepare(const struct perf_lane *lane, const struct perf_case *what, uint64_t seed,
		       uint32_t slots);

/* Purpose: compares slots of the destination.
 * Thread: main. Errors: -EBADMSG with the place; -EIO of the GPU; those of spw_xfer_flush. */
int perf_bytes_verify(const struct perf_lane *lane, const struct perf_case *what, uint64_t seed,
		      uint32_t slots);

#endif
