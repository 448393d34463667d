/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One clock in terms of another. If both run at constant rates, the line through two pairs a
 * (older) and c (newer) is off at ref distance d beyond c by at most  c.unc + d * (a.unc + c.unc) /
 * (c.ref - a.ref), and by less on this side of c: the error of a line is linear, and the brackets
 * bound it in two places. So the map is anchored at c, and a and c are the pairs of the window for
 * which that bound is least in the near future. No averaging, hence no assumption about how delays
 * are distributed.
 */
#include <errno.h>
#include <float.h>
#include <string.h>

#include "base/spw_err.h"
#include "time/time_impl.h"

#define PPB             1000000000ull
#define RESTART_REJECTS 8u
#define FRACTION_LOG2   32u

static uint64_t ppb_fraction(uint64_t ppb)
{
	return (uint64_t)((((spw_u128)ppb << FRACTION_LOG2) + PPB - 1) / PPB);
}

int spw_clock_fit_init(struct spw_clock_fit *fit, uint64_t other_hz, uint64_t ref_hz,
                       uint32_t nominal_ppb, uint32_t wander_ppb)
{
	if (!time_hz_ok(other_hz) || !time_hz_ok(ref_hz) || nominal_ppb < 1 ||
	    nominal_ppb > 100000000 || wander_ppb > 1000000)
		return spw_err(ERANGE, "clock fit: rates are 1 kHz .. 1 THz, nominal 1 .. 1e8 ppb, "
		                       "wander 0 .. 1e6 ppb");
	memset(fit, 0, sizeof(*fit));
	fit->other_hz = other_hz;
	fit->ref_hz = ref_hz;
	fit->nominal_ppb = nominal_ppb;
	fit->wander_ppb = wander_ppb;
	return 0;
}

static const struct spw_clock_pair *pair_at(const struct spw_clock_fit *fit, uint32_t age_idx)
{
	return &fit->pair[(fit->first_idx + age_idx) % SPW_CLOCK_FIT_PAIRS];
}

/* What the line through a and c is worth at the moment `when`, in ref units. */
static double line_unc(const struct spw_clock_pair *a, const struct spw_clock_pair *c,
                       uint64_t when)
{
	double lever = (double)(int64_t)(c->ref - a->ref),
	       beyond = (double)(int64_t)(when - c->ref);

	if (lever <= 0 || c->other == a->other)
		return DBL_MAX;
	return (double)c->unc + (beyond < 0 ? 0 : beyond) * (double)(a->unc + c->unc) / lever;
}

/* The two pairs whose line is worth most from now to half a window hence. Returns false with fewer
 * than two. */
static bool best_line(const struct spw_clock_fit *fit, const struct spw_clock_pair **a_out,
                      const struct spw_clock_pair **c_out)
{
	uint64_t newest = pair_at(fit, fit->cnt - 1)->ref,
	         when = newest + (newest - pair_at(fit, 0)->ref) / 2;
	double best = DBL_MAX;

	for (uint32_t c = 1; c < fit->cnt; c++) {
		for (uint32_t a = 0; a < c; a++) {
			double unc = line_unc(pair_at(fit, a), pair_at(fit, c), when);

			if (unc >= best)
				continue;
			best = unc;
			*a_out = pair_at(fit, a);
			*c_out = pair_at(fit, c);
		}
	}
	return best < DBL_MAX;
}

/* The pair from which the nominal rate carries furthest. */
static const struct spw_clock_pair *best_anchor(const struct spw_clock_fit *fit)
{
	const struct spw_clock_pair *newest = pair_at(fit, fit->cnt - 1), *best = newest;
	double best_unc = (double)newest->unc;

	for (uint32_t i = 0; i + 1 < fit->cnt; i++) {
		const struct spw_clock_pair *p = pair_at(fit, i);
		double unc =
		        (double)p->unc + (double)(newest->ref - p->ref) * fit->nominal_ppb / PPB;

		if (unc < best_unc) {
			best = p;
			best_unc = unc;
		}
	}
	return best;
}

static void map_nominal(struct spw_clock_fit *fit, const struct spw_clock_pair *anchor)
{
	fit->map = (struct spw_clock_map){
	        .other_base = anchor->other,
	        .ref_base = anchor->ref,
	        .scale = time_scale_ratio(fit->ref_hz, fit->other_hz),
	        .unc = anchor->unc,
	        .drift_2_32 = ppb_fraction((uint64_t)fit->nominal_ppb + fit->wander_ppb)};
	fit->rate = (double)fit->ref_hz / (double)fit->other_hz;
	fit->rate_unc = fit->rate * fit->nominal_ppb / PPB;
}

/* Is c later than a, and where the map says, within both uncertainties? The map's is a bound, so what it cannot explain was not
 * what the clock showed at that moment: the clock was set, or its reading came late. */
static bool pair_plausible(const struct spw_clock_map *map, const struct spw_clock_pair *a, const struct spw_clock_pair *c)
{
	int64_t off = (int64_t)(c->ref - spw_clock_map_ref(map, c->other));
	uint64_t far = off < 0 ? 0 - (uint64_t)off : (uint64_t)off;
	spw_u128 allowed = (spw_u128)spw_clock_map_unc(map, c->other) + c->unc + 2;

	return (int64_t)(c->other - a->other) >= 0 && far <= allowed;
}

static void map_renew(struct spw_clock_fit *fit)
{
	const struct spw_clock_pair *a = NULL, *c = NULL;
	spw_u128 lever_unc;

	if (!best_line(fit, &a, &c)) {
		map_nominal(fit, best_anchor(fit));
		return;
	}
	lever_unc = ((spw_u128)(a->unc + c->unc) << FRACTION_LOG2) / (c->ref - a->ref) + 1;
	if (lever_unc >=
	    ppb_fraction(fit->nominal_ppb)) { /* the data sheet still knows better than the pairs */
		map_nominal(fit, best_anchor(fit));
		return;
	}
	fit->map = (struct spw_clock_map){
	        .other_base = c->other,
	        .ref_base = c->ref,
	        .scale = time_scale_ratio(c->ref - a->ref, c->other - a->other),
	        .unc = c->unc + 1,
	        .drift_2_32 = (uint64_t)lever_unc + ppb_fraction(fit->wander_ppb)};
	fit->rate = (double)(c->ref - a->ref) / (double)(c->other - a->other);
	fit->rate_unc = fit->rate * (double)(a->unc + c->unc) / (double)(c->ref - a->ref);
}

static void window_put(struct spw_clock_fit *fit, const struct spw_clock_pair *pair)
{
	if (fit->cnt == SPW_CLOCK_FIT_PAIRS) {
		fit->first_idx = (fit->first_idx + 1) % SPW_CLOCK_FIT_PAIRS;
		fit->cnt--;
	}
	fit->pair[(fit->first_idx + fit->cnt++) % SPW_CLOCK_FIT_PAIRS] = *pair;
	fit->rejected_row = 0;
	fit->valid = true;
}

bool spw_clock_fit_add(struct spw_clock_fit *fit, const struct spw_clock_pair *pair)
{
	if (fit->cnt && !pair_plausible(&fit->map, pair_at(fit, fit->cnt - 1), pair)) {
		fit->rejected_cnt++;
		if (++fit->rejected_row < RESTART_REJECTS)
			return false;
		fit->cnt = 0;
	}
	window_put(fit, pair);
	map_renew(fit);
	return true;
}
