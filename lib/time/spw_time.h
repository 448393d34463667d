/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Time. The data path counts ticks of the CPU's constant-rate counter (x86 TSC, aarch64 cntvct_el0) and nothing else;
 * people see nanoseconds, converted when a table is printed. Other clocks (a NIC's, a GPU's global timer, the host's
 * clocks) are tied to ticks by pairs of readings with a stated uncertainty, and by a line through the best of them.
 *
 * No conversion divides: ns = ticks * mult >> shift in 128 bits, good for 584 years of nanoseconds.
 */
#ifndef SPW_TIME_H
#define SPW_TIME_H

#include "base/spw_order.h"
#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

__extension__ typedef unsigned __int128 spw_u128;
__extension__ typedef __int128 spw_i128;

/* ---- ticks --------------------------------------------------------------------------------------- */

/* Purpose: now, in ticks. Not serialising: it may be read some tens of instructions early or late, which is what a stamp
 *          around a burst wants. Cost: spw_tsc_cost measures it (22 ticks on a 2.6 GHz Zen 5 guest). Thread: any. */
SPW_INLINE uint64_t spw_tsc_now(void)
{
	return spw_cpu_counter();
}

/* Purpose: now, after all earlier loads and before all later ones: for clock pairs and short measurements. Thread: any. */
SPW_INLINE uint64_t spw_tsc_now_ordered(void)
{
	return spw_cpu_counter_ordered();
}

/* A rate as a multiplication: to = from * mult >> shift. mult has 62 or 63 significant bits. */
struct spw_time_scale {
	uint64_t mult;
	uint32_t shift;
};

SPW_INLINE uint64_t spw_time_scale_apply(struct spw_time_scale scale, uint64_t from)
{
	return (uint64_t)(((spw_u128)from * scale.mult) >> scale.shift);
}

/* Purpose: the scale that turns ticks of from_hz into ticks of to_hz. Shape: both 1 kHz .. 1 THz, else -ERANGE with a
 *          text. Error: below 2^-60 of the value. Thread: setup. */
int spw_time_scale_make(uint64_t from_hz, uint64_t to_hz, struct spw_time_scale *scale_out);

/* The calibrated counter. Read-only after spw_tsc_calibrate. */
struct spw_tsc {
	uint64_t hz;
	uint32_t err_ppb;              /* |true - hz| / hz against CLOCK_MONOTONIC_RAW is at most this, in 1e-9 */
	struct spw_time_scale to_ns;   /* ticks -> ns */
	struct spw_time_scale from_ns; /* ns -> ticks */
	const char *source;            /* "cntfrq_el0" or "measured"; static text */
};

/* Purpose: finds the counter's rate against CLOCK_MONOTONIC_RAW over window_ms; on aarch64 takes the architecture's own
 *          cntfrq_el0 where the measurement agrees with it.
 * Shape:   window_ms 1 .. 10000; 20 gives an error of a few ppm, and err_ppb says what it was.
 * Errors:  -EINVAL; -ENOTSUP when the counter does not run at a constant rate (two halves of the window disagree by more
 *          than their uncertainty and 0.1 %), or stands still. Thread: any; sleeps for the window. */
int spw_tsc_calibrate(uint32_t window_ms, struct spw_tsc *tsc_out);

SPW_INLINE uint64_t spw_tsc_to_ns(const struct spw_tsc *tsc, uint64_t ticks)
{
	return spw_time_scale_apply(tsc->to_ns, ticks);
}

SPW_INLINE uint64_t spw_tsc_from_ns(const struct spw_tsc *tsc, uint64_t ns)
{
	return spw_time_scale_apply(tsc->from_ns, ns);
}

/* What reading the clock costs, in ticks, and its smallest step; medians of many. */
struct spw_tsc_cost {
	double read_ticks;         /* one spw_tsc_now among others */
	double read_ordered_ticks;
	uint64_t step_ticks;       /* smallest non-zero difference of two readings */
};

/* Thread: any; about a millisecond. */
void spw_tsc_cost(struct spw_tsc_cost *cost_out);

/* ---- pairs of clocks ------------------------------------------------------------------------------ */

/* Two clocks read together: when `other` showed other, ours showed a value in [ref - unc, ref + unc]. */
struct spw_clock_pair {
	uint64_t other;
	uint64_t ref; /* ticks, as a rule */
	uint64_t unc; /* half of the bracket, in units of ref; the step of `other` is not in it unless its reader adds it */
};

/* Purpose: reads another clock; 0, or -errno when it cannot be read now. */
typedef int spw_clock_read(void *arg, uint64_t *value_out);

/* Purpose: reads other between two ordered readings of ours, tries times, and keeps the narrowest bracket.
 * Shape:   tries 1 .. 1000. Errors: what read said, if it never succeeded; -EINVAL. Thread: any. */
int spw_clock_pair_take(spw_clock_read *read, void *arg, uint32_t tries, struct spw_clock_pair *pair_out);

/* Purpose: the same for a clock that may be shown in steps, as a page is that somebody refreshes: waits until the value is
 *          another one, and brackets the moment it appeared: from the reading that did not show it yet to the one that
 *          did. A new value that is shown late by more than that is not noticed.
 * Shape:   the narrowest of tries such moments (1 .. 1000), or of those that reads (2 .. 10^6) readings brought, or of those that
 *          came before 1000 readings in a row brought none: a clock that is asleep is not waited for again and again.
 * Errors:  what read said; -ETIME when the value never changed; -EINVAL. Thread: any. */
int spw_clock_pair_step(spw_clock_read *read, void *arg, uint32_t tries, uint32_t reads, struct spw_clock_pair *pair_out);

/* spw_clock_read of a POSIX clock in ns; arg points to its clockid_t. */
int spw_clock_read_posix(void *arg, uint64_t *value_out);

/* ---- one clock in terms of another ---------------------------------------------------------------- */

/* ref = ref_base + (other - other_base) * scale; a plain value, copied freely. All zero: "not known". */
struct spw_clock_map {
	uint64_t other_base, ref_base;
	struct spw_time_scale scale;
	uint64_t unc;         /* at the bases, in units of ref */
	uint64_t drift_2_32;  /* unc grows by this / 2^32 per unit of ref away from ref_base */
};

/* Purpose: the same moment on our clock. Shape: any distance up to 2^62. No division. Thread: any. */
SPW_INLINE uint64_t spw_clock_map_ref(const struct spw_clock_map *map, uint64_t other)
{
	int64_t delta = (int64_t)(other - map->other_base);
	spw_i128 wide = (spw_i128)delta * (spw_i128)map->scale.mult;

	return map->ref_base + (uint64_t)(int64_t)(wide >> map->scale.shift);
}

/* Purpose: a length of our ticks in the other clock's. Cold: it divides. Thread: any. */
uint64_t spw_clock_map_span(const struct spw_clock_map *map, uint64_t ref_ticks);

/* Purpose: how far spw_clock_map_ref may be off at that moment, in units of ref; saturates. Thread: any. */
uint64_t spw_clock_map_unc(const struct spw_clock_map *map, uint64_t other);
/* The same for a moment given on our clock. */
uint64_t spw_clock_map_unc_at(const struct spw_clock_map *map, uint64_t ref);

/* Purpose: the map of a clock that is ours itself (CPU executors): identity, uncertainty 0. */
void spw_clock_map_identity(struct spw_clock_map *map_out);

/* A running fit. The window keeps the last SPW_CLOCK_FIT_PAIRS pairs; the line goes through the two of them
 * that leave the least uncertainty for the near future. If both clocks run at constant rate, the error of that line at any moment is at
 * most what the two brackets allow there; wander_ppb is added for rates that change (temperature).
 * One thread feeds it; others get copies of the map (struct spw_clock_box). */
#define SPW_CLOCK_FIT_PAIRS 32u

struct spw_clock_fit {
	struct spw_clock_pair pair[SPW_CLOCK_FIT_PAIRS]; /* oldest at first_idx */
	uint32_t first_idx, cnt;
	uint64_t other_hz, ref_hz;
	uint32_t nominal_ppb;  /* how far the nominal rates may be off, both together */
	uint32_t wander_ppb;
	uint32_t rejected_row; /* refused since the last one taken */
	uint64_t rejected_cnt; /* pairs that the map could not explain: a clock was set, or read late */
	struct spw_clock_map map;
	bool valid;            /* at least one pair */
	double rate;           /* ref units per other unit, for people */
	double rate_unc;       /* of rate, absolute */
};

/* Shape: rates 1 kHz .. 1 THz; nominal_ppb 1 .. 10^8; wander_ppb 0 .. 10^6, 100 is an honest default for oscillators
 * in one box. Errors: -ERANGE. Thread: setup. */
int spw_clock_fit_init(struct spw_clock_fit *fit, uint64_t other_hz, uint64_t ref_hz, uint32_t nominal_ppb,
		       uint32_t wander_ppb);

/* Purpose: takes one more pair and renews map. A pair that contradicts the map by more than both uncertainties is refused and
 *          counted; eight of them in a row mean that the clock was set: the window starts again from the newest.
 * Shape:   pairs in the order they were taken. Returns: true if it was taken. Thread: the feeder. */
bool spw_clock_fit_add(struct spw_clock_fit *fit, const struct spw_clock_pair *pair);

/* Hands maps from the feeder to readers without a lock; a reader that is overtaken keeps the map that it has. */
struct spw_clock_box {
	uint64_t seq; /* maps put so far; the newest is in slot[seq & 1] */
	uint64_t slot[2][6];
} SPW_ALIGNED(2 * SPW_CACHE_LINE);

/* Thread: the feeder. Order: [T1 release, pairs with T2; T3 release of each word, pairs with T4]. */
void spw_clock_box_put(struct spw_clock_box *box, const struct spw_clock_map *map);
/* Returns: false if nothing was ever put, or the feeder put another one during this call (keep the old map).
 * Thread: any. Order: [T2 acquire, pairs with T1; T4 acquire of each word, pairs with T3]. */
bool spw_clock_box_get(struct spw_clock_box *box, struct spw_clock_map *map_out);

#ifdef __cplusplus
}
#endif
#endif
