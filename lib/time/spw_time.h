/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Time. The data path counts ticks of the CPU's constant-rate counter (x86 TSC, aarch64 cntvct_el0)
 * and nothing else; ticks become nanoseconds when a table is printed. Other clocks (a NIC's, a
 * GPU's global timer, the host's) are related to ticks in two steps:
 *
 *   spw_clock_pair_*   both clocks read together: a value, a moment, ± uncertainty
 *   spw_clock_fit      the best line through the last pairs: struct spw_clock_map
 *
 * No conversion on the data path divides: ns = ticks * mult >> shift in 128 bits, which is good for
 * 584 years of nanoseconds.
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

/* ---- ticks ---- */

/* Purpose: now, in ticks. Not serialising: the CPU may read the counter some tens of instructions
 *   early or late, which is good enough for a stamp around a burst. A reading costs 22 ticks on a
 *   2.6 GHz Zen 5 guest.
 * Thread: any.
 */
SPW_INLINE uint64_t spw_tsc_now(void)
{
	return spw_cpu_counter();
}

/* Purpose: now, not before the loads that a branch has tested: when a poll found what it returned.
 *   Waits for these loads, so it is for once a batch.
 * Thread: any.
 */
SPW_INLINE uint64_t spw_tsc_now_after(void)
{
	return spw_cpu_counter_after();
}

/* Purpose: now, read after all earlier loads and before all later ones: for clock pairs and short
 *   measurements.
 * Thread: any.
 */
SPW_INLINE uint64_t spw_tsc_now_ordered(void)
{
	return spw_cpu_counter_ordered();
}

/* A rate as a multiplication: to = from * mult >> shift. mult has 62 or 63 significant bits. */
struct spw_time_scale {
	uint64_t mult;
	uint32_t shift;
};

/* Purpose: converts a count of ticks or nanoseconds.
 * Shape: any 64-bit value whose result fits 64 bits.
 * Thread: any.
 */
SPW_INLINE uint64_t spw_time_scale_apply(struct spw_time_scale scale, uint64_t from)
{
	return (uint64_t)(((spw_u128)from * scale.mult) >> scale.shift);
}

/* Purpose: the scale that converts ticks of from_hz into ticks of to_hz, to within 2^-60 of the
 *   value.
 * Shape: both rates 1 kHz .. 1 THz.
 * Thread: setup.
 * Errors: -ERANGE with both rates.
 */
int spw_time_scale_make(uint64_t from_hz, uint64_t to_hz, struct spw_time_scale *scale_out);

/* The calibrated counter. Read-only after spw_tsc_calibrate. */
struct spw_tsc {
	uint64_t hz;
	uint32_t err_ppb; /* bound of |true - hz| / hz against CLOCK_MONOTONIC_RAW, in 1e-9 */
	struct spw_time_scale to_ns;   /* ticks -> ns */
	struct spw_time_scale from_ns; /* ns -> ticks */
	const char *source;            /* "cntfrq_el0", "measured" or "given"; static text */
};

/* Purpose: measures the counter's rate against CLOCK_MONOTONIC_RAW over window_ms. On aarch64 it
 *   takes the architecture's own cntfrq_el0 where the measurement agrees with it.
 * Shape: window_ms 1 .. 10000; 20 gives an error of a few ppm. err_ppb has the actual bound.
 * Thread: any; sleeps for the window.
 * Errors: -EINVAL; -ENOTSUP when the counter stands still, or does not run at a constant rate (the
 *   halves of the window differ by more than 0.1 % beyond their uncertainty).
 */
int spw_tsc_calibrate(uint32_t window_ms, struct spw_tsc *tsc_out);

/* Purpose: the counter of another machine, or of another day, by its rate.
 * Thread: any.
 * Errors: those of spw_time_scale_make.
 */
int spw_tsc_from_hz(uint64_t hz, struct spw_tsc *tsc_out);

/* Purpose: ticks as nanoseconds, and back.
 * Shape: tsc is calibrated.
 * Thread: any.
 */
SPW_INLINE uint64_t spw_tsc_to_ns(const struct spw_tsc *tsc, uint64_t ticks)
{
	return spw_time_scale_apply(tsc->to_ns, ticks);
}
/* Shape: as spw_tsc_to_ns. Thread: any. */
SPW_INLINE uint64_t spw_tsc_from_ns(const struct spw_tsc *tsc, uint64_t ns)
{
	return spw_time_scale_apply(tsc->from_ns, ns);
}

/* The most that spw_tsc_ran counts for one step. */
#define SPW_TSC_STEP_NS 10000000ull

/* Purpose: the clock of a wait for somebody who may be stopped together with this thread: ticks
 *   since *last_tsc, at most SPW_TSC_STEP_NS of them. *last_tsc becomes now. A thread that was
 *   preempted looks many times more before its wait is over.
 *
 *     look ─ +10 us ─ look ── preempted for 300 ms ── +10 ms ─ look ─ +10 us ─ look ...
 *
 * Thread: owner (of *last_tsc).
 */
SPW_INLINE uint64_t spw_tsc_ran(const struct spw_tsc *tsc, uint64_t *last_tsc)
{
	const uint64_t now = spw_tsc_now(), ran = now - *last_tsc;

	*last_tsc = now;
	return SPW_MIN(ran, spw_tsc_from_ns(tsc, SPW_TSC_STEP_NS));
}

/* ---- pairs of clocks ---- */

/* Two clocks read together: when the other clock showed `other`, ours was in [ref - unc, ref +
 * unc].
 *
 *   ours   before ............. after        unc = (after - before) / 2, rounded up
 *   other          other                     ref = the middle
 */
struct spw_clock_pair {
	uint64_t other;
	uint64_t ref; /* ticks, as a rule */
	uint64_t unc; /* half of the bracket, in units of ref; the step of the other clock is not
		       * in it unless its reader adds it */
};

/* Reads another clock. Returns: 0, or -errno when it cannot be read now. */
typedef int spw_clock_read(void *arg, uint64_t *value_out);

/* Purpose: reads the other clock between two ordered readings of ours, `tries` times, and keeps the
 *   pair with the narrowest bracket.
 * Shape: tries 1 .. 1000.
 * Thread: any.
 * Errors: -EINVAL; the code of `read`, if it never succeeded.
 */
int spw_clock_pair_take(spw_clock_read *read, void *arg, uint32_t tries,
			struct spw_clock_pair *pair_out);

/* Purpose: the same for a clock whose kind is not known. Consecutive readings show which it is:
 *   - a register that counts shows a new value each time. The value was sampled within the reading
 *     that returned it: that reading is the bracket;
 *   - a page that somebody refreshes repeats its value. A value was sampled after the one before
 *     it was stored, and may be old when it appears. Its bracket reaches from before that store
 *     can have happened to after the first reading that shows it.
 *   The first new value of a page has no such bound, and is taken to be a few readings old; struct
 *   spw_clock_fit allows for pairs for which that is wrong.
 * Shape: tries 1 .. 1000 new values, of which the narrowest bracket is kept; with fewer than 10 a
 *   register is bracketed like a page. reads 2 .. 10^6 bounds the readings. After 1000 readings
 *   without a new value, the values found so far must do: a clock that sleeps is waited for once.
 * Thread: any.
 * Errors: -EINVAL; -ETIME when the value never changed; the code of `read`.
 */
int spw_clock_pair_step(spw_clock_read *read, void *arg, uint32_t tries, uint32_t reads,
			struct spw_clock_pair *pair_out);

/* Purpose: a spw_clock_read for POSIX clocks, in ns.
 * Shape: arg points to the clockid_t.
 * Thread: any.
 * Errors: -errno of clock_gettime().
 */
int spw_clock_read_posix(void *arg, uint64_t *value_out);

/* ---- one clock in terms of another ---- */

/* ref = ref_base + (other - other_base) * scale. A plain value, copied freely. All zero: the
 * relation is not known. */
struct spw_clock_map {
	uint64_t other_base, ref_base;
	struct spw_time_scale scale;
	uint64_t unc;        /* at the bases, in units of ref */
	uint64_t drift_2_32; /* unc grows by this / 2^32 for each unit of ref from ref_base */
};

/* Purpose: a moment of the other clock on ours. Does not divide.
 * Shape: up to 2^62 from the bases, either way.
 * Thread: any.
 */
SPW_INLINE uint64_t spw_clock_map_ref(const struct spw_clock_map *map, uint64_t other)
{
	int64_t delta = (int64_t)(other - map->other_base);
	spw_i128 wide = (spw_i128)delta * (spw_i128)map->scale.mult;

	return map->ref_base + (uint64_t)(int64_t)(wide >> map->scale.shift);
}

/* Purpose: converts a length of time from our ticks to the other clock's. Divides: not for hot
 *   code.
 * Returns: 0 if the map is all zero.
 * Thread: any.
 */
uint64_t spw_clock_map_span(const struct spw_clock_map *map, uint64_t ref_ticks);

/* Purpose: the ± uncertainty of spw_clock_map_ref at a moment, in units of ref; saturates.
 * Shape: the moment on the other clock, or (_at) on ours.
 * Thread: any.
 */
uint64_t spw_clock_map_unc(const struct spw_clock_map *map, uint64_t other);
uint64_t spw_clock_map_unc_at(const struct spw_clock_map *map, uint64_t ref);

/* Purpose: the map of a clock that is our own (CPU executors): identity, uncertainty 0.
 * Thread: any.
 */
void spw_clock_map_identity(struct spw_clock_map *map_out);

/* A running fit over a window of the last SPW_CLOCK_FIT_PAIRS pairs.
 *
 * If both clocks run at constant rates, a line through two pairs is off at any moment by at most
 * what their brackets allow there; wander_ppb is added for rates that change (temperature). A
 * bracket may nevertheless be wrong: a thread writes the clock's page, loses its core in between,
 * and the value is old when it appears. So a line's uncertainty is widened by what the line cannot
 * explain: by how far the newest pair, and each other pair but a quarter of them, lies beyond both
 * uncertainties. And it is no more certain than the bracket of a further pair, one that the line
 * does not go through, shows. The map is the line that is least uncertain in the near future.
 *
 * Owner: one thread feeds it. Others get copies of the map through struct spw_clock_box. */
#define SPW_CLOCK_FIT_PAIRS 32u

struct spw_clock_fit {
	struct spw_clock_pair pair[SPW_CLOCK_FIT_PAIRS]; /* oldest at first_idx */
	uint32_t first_idx, cnt;
	uint64_t other_hz, ref_hz;
	uint32_t nominal_ppb; /* tolerance of the nominal rates, both together */
	uint32_t wander_ppb;
	uint32_t rejected_row; /* how many of the newest pairs, in a row, the map cannot explain */
	uint64_t rejected_cnt; /* the same over all pairs: a clock was set, or read late */
	struct spw_clock_map map;
	bool valid;      /* at least one pair */
	double rate;     /* ref units per other unit, to print */
	double rate_unc; /* of rate, absolute */
};

/* Purpose: starts an empty fit.
 * Shape: rates 1 kHz .. 1 THz; nominal_ppb 1 .. 10^8; wander_ppb 0 .. 10^6, where 100 suits
 *   oscillators in one machine.
 * Thread: setup.
 * Errors: -ERANGE.
 */
int spw_clock_fit_init(struct spw_clock_fit *fit, uint64_t other_hz, uint64_t ref_hz,
		       uint32_t nominal_ppb, uint32_t wander_ppb);

/* Purpose: adds a pair and makes a new map. Eight pairs in a row that the map cannot explain mean
 *   that the clock was set: the window restarts from the newest.
 * Shape: pairs in the order in which they were taken.
 * Returns: false if the line did not explain the pair before it was widened for it.
 * Thread: owner (the feeder).
 */
bool spw_clock_fit_add(struct spw_clock_fit *fit, const struct spw_clock_pair *pair);

/* Hands maps from the feeder to readers without a lock. Two slots in turn: the feeder writes the
 * one that readers of the newest map do not use. All zero is the start. */
struct spw_clock_box {
	uint64_t seq; /* maps put so far; the newest is in slot[seq & 1] */
	uint64_t slot[2][6];
} SPW_ALIGNED(2 * SPW_CACHE_LINE);

/* Purpose: publishes a map.
 * Thread: owner (the feeder).
 * Order: [T1 release, pairs with T2; T3 release of each word, pairs with T4].
 */
void spw_clock_box_put(struct spw_clock_box *box, const struct spw_clock_map *map);
/* Purpose: copies the newest map.
 * Returns: false if there is none yet, or the feeder overtook this call: keep the map you have.
 * Thread: any.
 * Order: [T2 acquire, pairs with T1; T4 acquire of each word, pairs with T3].
 */
bool spw_clock_box_get(struct spw_clock_box *box, struct spw_clock_map *map_out);

/* A foreign clock, paired again and again by a control thread:
 *
 *   control   read both clocks ── fit ── box put     every turn of 20 ms; 100 ms once the window is
 *   owners                               box get     full
 *
 * All zero: not opened. */
struct spw_clock_feed {
	struct spw_clock_fit fit; /* control */
	struct spw_clock_box box; /* written by control, read by owners */
	uint32_t rest;            /* turns left until the clock is read again */
	bool on;                  /* the clock exists and could be read */
};

/* Purpose: starts an empty feed of a clock in this machine.
 * Shape: both rates 1 kHz .. 1 THz, the other one within 0.1 % of what is stated.
 * Thread: setup.
 * Errors: -ERANGE.
 */
int spw_clock_feed_open(struct spw_clock_feed *feed, uint64_t other_hz, uint64_t ref_hz);

/* Purpose: adds a pair and publishes the new map: with a wider uncertainty if its line cannot
 *   explain the pair.
 * Shape: as spw_clock_fit_add.
 * Thread: control.
 */
void spw_clock_feed_add(struct spw_clock_feed *feed, const struct spw_clock_pair *pair);

/* Purpose: once a turn: whether the clock is to be read in this one. With a full window it is read
 *   less often, because a reading costs a bus transaction or another core.
 * Thread: control.
 */
bool spw_clock_feed_due(struct spw_clock_feed *feed);

#ifdef __cplusplus
}
#endif
#endif
