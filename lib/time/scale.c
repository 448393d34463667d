/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Rates as multiplications: the one division of a conversion is done here, at set-up.
 *
 * A conversion to = from * mult >> shift keeps full precision only if mult uses its 64 bits: shift
 * is chosen so that mult has 62 or 63 significant bits. Applying it takes one 64x64 -> 128
 * multiplication, on both architectures two instructions.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/spw_err.h"
#include "time/time_impl.h"

#define HZ_MIN 1000ull
#define HZ_MAX 1000000000000ull

/* mult = to / from * 2^shift, rounded to nearest. For to much greater than from the shift would be
 * negative; `to` is then shifted down instead, which costs only bits below the result's precision.
 */
struct spw_time_scale time_scale_ratio(uint64_t to, uint64_t from)
{
	/* The shift that gives mult 62 or 63 significant bits. */
	int shift = 62 + (int)spw_log2_floor64(from) - (int)spw_log2_floor64(to);
	spw_u128 num = shift >= 0 ? (spw_u128)to << shift : (spw_u128)to >> -shift;
	uint64_t mult = (uint64_t)((num + from / 2) / from);

	return (struct spw_time_scale){.mult = mult, .shift = (uint32_t)SPW_MAX(shift, 0)};
}

int spw_time_scale_make(uint64_t from_hz, uint64_t to_hz, struct spw_time_scale *scale_out)
{
	if (!time_hz_ok(from_hz) || !time_hz_ok(to_hz))
		return spw_err(ERANGE,
			       "clock rates %" PRIu64 " and %" PRIu64
			       " Hz: each must be 1 kHz .. 1 THz",
			       from_hz, to_hz);
	*scale_out = time_scale_ratio(to_hz, from_hz);
	return 0;
}

bool time_hz_ok(uint64_t hz)
{
	return spw_in_range(hz, HZ_MIN, HZ_MAX);
}
