/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/time: what its files share, and the parts that unit tests call with made-up
 * clocks.
 */
#ifndef TIME_IMPL_H
#define TIME_IMPL_H

#include "time/spw_time.h"

/* Purpose: the ratio to / from as a multiplication.
 * Shape: both > 0, their ratio between 2^-60 and 2^60.
 * Returns: mult in [2^61, 2^63], so that the product with 64 bits fits 127.
 */
struct spw_time_scale time_scale_ratio(uint64_t to, uint64_t from);

/* Purpose: the calibration, from three pairs of CLOCK_MONOTONIC_RAW (other, in ns) and ticks (ref).
 * Shape: arch_hz is the rate that the architecture reports, 0 if none.
 * Errors: as spw_tsc_calibrate.
 */
int tsc_from_pairs(const struct spw_clock_pair pair[3], uint64_t arch_hz, struct spw_tsc *tsc_out);

/* Purpose: spw_clock_pair_step with ref_now(arg) in place of the counter.
 */
int time_pair_step(uint64_t (*ref_now)(void *arg), spw_clock_read *read, void *arg, uint32_t tries,
		   uint32_t reads, struct spw_clock_pair *pair_out);

/* Returns: whether hz lies in 1 kHz .. 1 THz.
 */
bool time_hz_ok(uint64_t hz);

#endif
