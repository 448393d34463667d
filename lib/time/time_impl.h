/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/time.
 */
#ifndef TIME_IMPL_H
#define TIME_IMPL_H

#include "time/spw_time.h"

/* Purpose: to / from as a multiplication. Shape: both > 0, to / from between 2^-60 and 2^60. mult
 * lies in [2^61, 2^63], so a 64-bit product fits 127 bits. */
struct spw_time_scale time_scale_ratio(uint64_t to, uint64_t from);

/* Purpose: the calibration itself, from three pairs of CLOCK_MONOTONIC_RAW (other, ns) and ticks
 * (ref); arch_hz is what the architecture claims, 0 none. Errors: as spw_tsc_calibrate. */
int tsc_from_pairs(const struct spw_clock_pair pair[3], uint64_t arch_hz, struct spw_tsc *tsc_out);

/* 1 kHz .. 1 THz. */
bool time_hz_ok(uint64_t hz);

#endif
