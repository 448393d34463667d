/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One clock in terms of another: the best line through a window of clock pairs (struct
 * spw_clock_fit). lib/rdma and lib/exec feed it from their control threads.
 *
 * If both clocks run at constant rates, the line through pairs a (older) and c (newer) is off, at
 * ref distance d from c, by at most
 *
 *   c.unc + d * (a.unc + c.unc) / (c.ref - a.ref)
 *
 * because the error of a line is linear and the two brackets bound it at a and c. So a line is
 * anchored at c. With one pair, or two that are too close, the nominal rate takes the place of a.
 *
 * A bracket may be wrong (spw_time.h), so each line is checked against the other pairs of the
 * window, and its uncertainty is widened by what it cannot explain of them. A quarter of the pairs
 * may be too late for the line: those may be the wrong ones. None may be too early. A line that
 * ends in a wrong pair contradicts all good pairs and loses, unless their brackets are so wide that
 * nothing contradicts it: so a line is no more certain than one pair that it does not go through
 * shows. Nothing is averaged, so nothing is assumed about the distribution of delays.
 */
#include <errno.h>
#include <float.h>
#include <string.h>

#include "base/spw_err.h"
#include "time/time_impl.h"

#define PPB             1000000000ull
#define RESTART_REJECTS 8u
#define FRACTION_LOG2   32u
#define FORGIVEN_OF     4u /* a line may leave one of so many pairs unexplained */
#define FORGIVEN_MAX    (SPW_CLOCK_FIT_PAIRS / FORGIVEN_OF)

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

/* Age index 0 is the oldest pair of the window. */
static const struct spw_clock_pair *pair_at(const struct spw_clock_fit *fit, uint32_t age_idx)
{
	return &fit->pair[(fit->first_idx + age_idx) % SPW_CLOCK_FIT_PAIRS];
}

/* A candidate: through pair c at that rate; off by c->unc + drift * distance at most. */
struct line {
	const struct spw_clock_pair *c;
	const struct spw_clock_pair *a; /* NULL: the nominal rate */
	double rate, drift;
	double wide; /* added for the pairs that it cannot explain */
};

static double fit_magnitude(double v)
{
	return v < 0 ? -v : v;
}

/* Uncertainty of a line at a moment: the anchor's bracket plus what the slope may be off, growing
 * with the distance. */
static double fit_line_unc(const struct line *line, uint64_t when)
{
	return (double)line->c->unc +
	       fit_magnitude((double)(int64_t)(when - line->c->ref)) * line->drift;
}

/* How much later p was observed than the line gives for its value. */
static double fit_line_off(const struct line *line, const struct spw_clock_pair *p)
{
	return (double)(int64_t)(p->ref - line->c->ref) -
	       (double)(int64_t)(p->other - line->c->other) * line->rate;
}

/* How far p lies beyond both uncertainties. late_out: p was observed after the time that the line
 * gives for its value; else before it. */
static double fit_line_misses(const struct spw_clock_fit *fit, const struct line *line,
			      const struct spw_clock_pair *p, bool *late_out)
{
	double dist = (double)(int64_t)(p->ref - line->c->ref), off = fit_line_off(line, p);

	*late_out = off > 0;
	return fit_magnitude(off) - fit_line_unc(line, p->ref) -
	       fit_magnitude(dist) * fit->wander_ppb / PPB - (double)p->unc - 2;
}

/* Inserts v into the largest values so far, largest[0] first. */
static void fit_keep_largest(double largest[FORGIVEN_MAX + 1], double v)
{
	for (uint32_t i = 0; i <= FORGIVEN_MAX; i++) {
		double least = SPW_MIN(v, largest[i]);

		largest[i] = SPW_MAX(v, largest[i]);
		v = least;
	}
}

/* How much the line must be widened to be no more certain than another pair shows. If p is right,
 * the line is off at p by at most what takes it out of p's bracket, and at c by what it may drift
 * from there. 0 if there is no other pair. */
static double fit_line_unproven(const struct spw_clock_fit *fit, const struct line *line)
{
	double least = DBL_MAX;

	for (uint32_t i = 0; i < fit->cnt; i++) {
		const struct spw_clock_pair *p = pair_at(fit, i);

		if (p != line->c && p != line->a)
			least = SPW_MIN(least, fit_magnitude(fit_line_off(line, p)) +
						       (double)p->unc + fit_line_unc(line, p->ref) -
						       2 * (double)line->c->unc);
	}
	return least == DBL_MAX || least < 0 ? 0 : least;
}

/* How much the line must be widened for the pairs that it cannot explain: for all but the newest,
 * which no other pair has confirmed yet, and a few late ones. A page may show a value late, but
 * never before the clock had it: a pair that is too early for the line proves the line wrong. */
static double fit_line_widening(const struct spw_clock_fit *fit, const struct line *line)
{
	double late[FORGIVEN_MAX + 1] = {0}, early = 0;

	for (uint32_t i = 0; i + 1 < fit->cnt; i++) {
		bool is_late;
		double miss = fit_line_misses(fit, line, pair_at(fit, i), &is_late);

		if (is_late)
			fit_keep_largest(late, miss);
		else
			early = SPW_MAX(early, miss);
	}
	return SPW_MAX(early, late[fit->cnt / FORGIVEN_OF]);
}

/* Replaces best if the line is less uncertain at that moment. */
static void fit_line_compete(const struct spw_clock_fit *fit, struct line line, uint64_t when,
			     struct line *best)
{
	double unc = fit_line_unc(&line, when), unproven,
	       least = best->c ? fit_line_unc(best, when) + best->wide : DBL_MAX;

	if (unc >= least)
		return;
	unproven = fit_line_unproven(fit, &line);
	line.wide = SPW_MAX(fit_line_widening(fit, &line), unproven);
	if (line.a) /* what moves one end of it moves its slope */
		line.drift += unproven / (double)(line.c->ref - line.a->ref);
	if (fit_line_unc(&line, when) + line.wide < least)
		*best = line;
}

/* Returns: false for pairs that are too close, or a rate beyond the nominal tolerance. */
static bool fit_line_through(const struct spw_clock_fit *fit, const struct spw_clock_pair *a,
			     const struct spw_clock_pair *c, struct line *line_out)
{
	double nominal = (double)fit->ref_hz / (double)fit->other_hz,
	       lever = (double)(int64_t)(c->ref - a->ref);
	double allowed = (double)fit->nominal_ppb / PPB;

	if (lever <= 0 || (int64_t)(c->other - a->other) <= 0)
		return false;
	*line_out = (struct line){c, a, lever / (double)(c->other - a->other),
				  (double)(a->unc + c->unc) / lever, 0};
	return line_out->drift < allowed &&
	       fit_magnitude(line_out->rate / nominal - 1) <= allowed + line_out->drift;
}

/* Judged half a window into the future, which is where the map will be used. */
static struct line fit_best_line(const struct spw_clock_fit *fit)
{
	uint64_t newest = pair_at(fit, fit->cnt - 1)->ref,
		 when = newest + (newest - pair_at(fit, 0)->ref) / 2;
	struct line best = {0}, line;

	for (uint32_t c = fit->cnt; c-- > 0;) {
		line = (struct line){pair_at(fit, c), NULL,
				     (double)fit->ref_hz / (double)fit->other_hz,
				     (double)fit->nominal_ppb / PPB, 0};
		fit_line_compete(fit, line, when, &best);
		for (uint32_t a = 0; a < c; a++)
			if (fit_line_through(fit, pair_at(fit, a), pair_at(fit, c), &line))
				fit_line_compete(fit, line, when, &best);
	}
	return best;
}

/* Makes the map from the best line. Returns: whether the line explains the newest pair. */
static bool fit_map_update(struct spw_clock_fit *fit)
{
	struct line line = fit_best_line(fit);
	const struct spw_clock_pair *a = line.a, *c = line.c;
	bool is_late;
	double beyond = fit_line_misses(fit, &line, pair_at(fit, fit->cnt - 1), &is_late),
	       wide = SPW_MAX(line.wide, beyond);
	double drift =
		(line.drift + (double)fit->wander_ppb / PPB) * (double)(1ull << FRACTION_LOG2);

	fit->map = (struct spw_clock_map){
		.other_base = c->other,
		.ref_base = c->ref,
		.scale = a ? time_scale_ratio(c->ref - a->ref, c->other - a->other)
			   : time_scale_ratio(fit->ref_hz, fit->other_hz),
		.unc = c->unc + (a || wide > 0) + (uint64_t)wide,
		.drift_2_32 = (uint64_t)drift + 1};
	fit->rate = line.rate;
	fit->rate_unc = line.rate * line.drift;
	return beyond <= 0;
}

/* The window is a ring: a full one forgets its oldest pair. */
static void fit_window_put(struct spw_clock_fit *fit, const struct spw_clock_pair *pair)
{
	if (fit->cnt == SPW_CLOCK_FIT_PAIRS) {
		fit->first_idx = (fit->first_idx + 1) % SPW_CLOCK_FIT_PAIRS;
		fit->cnt--;
	}
	fit->pair[(fit->first_idx + fit->cnt++) % SPW_CLOCK_FIT_PAIRS] = *pair;
	fit->valid = true;
}

/* A pair that the map cannot explain is kept, and counted. Eight in a row mean that the other clock
 * was set: everything older is forgotten and the fit starts over from the newest pair. */
bool spw_clock_fit_add(struct spw_clock_fit *fit, const struct spw_clock_pair *pair)
{
	fit_window_put(fit, pair);
	if (fit_map_update(fit)) {
		fit->rejected_row = 0;
		return true;
	}
	fit->rejected_cnt++;
	if (++fit->rejected_row < RESTART_REJECTS)
		return false;
	fit->cnt = fit->rejected_row = 0;
	fit_window_put(fit, pair);
	return fit_map_update(fit);
}
