/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Pairs of clock readings, the map from one clock to another, and the box that hands maps to other
 * threads. lib/rdma pairs the NIC's clock with it, lib/exec the GPU's.
 *
 * A reading of another clock takes time, during which ours moves on. Only the bracket is certain:
 *
 *   ours    before ─────────── after         the other clock was read somewhere in between
 *   pair    value = the reading, ref = the middle, unc = half the bracket, rounded up
 *
 * Many tries are made and the narrowest bracket is kept: interrupts and cache misses only ever
 * widen one. The box hands the resulting map to lcores without a lock: two slots in turn, published
 * by their number (T1 to T4).
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/spw_err.h"
#include "time/time_impl.h"

#define BOX_WORDS 6u
/* After so many readings without a new value, the moments found so far must do. */
#define STEP_QUIET 1000u
/* Readings: the age assumed of the first new value, which has no bracket from one before it. */
#define STEP_AGE 8u
/* So many readings, each with a new value: the clock is a register that counts, not a page that
 * somebody refreshes. */
#define LIVE_READS 10u

/* A try whose read fails is skipped; its error is returned only if no try succeeds. */
int spw_clock_pair_take(spw_clock_read *read, void *arg, uint32_t tries,
			struct spw_clock_pair *pair_out)
{
	int rc = -EINVAL;
	bool taken = false;

	if (tries < 1 || tries > 1000)
		return spw_err(EINVAL, "clock pair with %u tries: 1 .. 1000", tries);
	for (uint32_t i = 0; i < tries; i++) {
		uint64_t value, before = spw_tsc_now_ordered(), width;
		int err = read(arg, &value);

		width = spw_tsc_now_ordered() - before;
		if (err) {
			rc = err;
			continue;
		}
		if (!taken || width / 2 + 1 < pair_out->unc)
			*pair_out =
				(struct spw_clock_pair){value, before + width / 2, width / 2 + 1};
		taken = true;
	}
	return taken ? 0 : rc;
}

/* What consecutive readings of a clock have shown.
 *
 * A page is written by a thread that samples its clock and then stores the sample, again and again.
 * It may lose its core in between, and a store takes time to become visible, so a sample may be old
 * when it is first read; but it was taken after the one before it was stored:
 *
 *   writer:   sample v1 ─ store v1 ───── sample v2 ─ ─ ─ store v2
 *   reader:   v0  ^asked    v1   v1   v1   v1   v1   v1 ─ v1 ─ v2 ^now
 *                 └──────────── v2 was sampled in here ───────────┘
 *
 * A register is sampled by the reading itself: [before, now]. */
struct step_scan {
	struct spw_clock_pair step, live; /* the narrowest pair so far, for a page and a register */
	uint64_t asked;                   /* before the last reading that showed the value before */
	uint32_t changed;                 /* readings with a new value */
	uint32_t same, quiet;             /* readings without one: in all, in a row */
};

/* Keeps the pair with the smaller uncertainty: [from, to] is its bracket. */
static void clock_keep_narrowest(struct spw_clock_pair *best, bool first, uint64_t value,
				 uint64_t from, uint64_t to)
{
	uint64_t half = (to - from) / 2;

	if (first || half + 1 < best->unc)
		*best = (struct spw_clock_pair){value, from + half, half + 1};
}

/* Takes one reading of a new value. asked: before the reading that showed the last value. before:
 * before this reading. now: after it. The first new value has no bracket from the one before it: it
 * is assumed to be at most STEP_AGE readings old, until a second one is observed. */
static void clock_scan_new(struct step_scan *scan, uint64_t value, uint64_t asked, uint64_t before,
			   uint64_t now)
{
	bool first = scan->changed == 0;

	clock_keep_narrowest(&scan->step, scan->changed <= 1, value,
			     first ? asked - STEP_AGE * (now - before) : scan->asked, now);
	clock_keep_narrowest(&scan->live, first, value, before, now);
	scan->asked = asked;
	scan->changed++;
	scan->quiet = 0;
}

/* Reads again and again and feeds clock_scan_new with every change. If every single reading brought
 * a new value, the clock is a register and each reading is its own bracket; else it is a page. The
 * clock `ref_now` is a parameter for tests, which replay invented time lines. */
int time_pair_step(uint64_t (*ref_now)(void *arg), spw_clock_read *read, void *arg, uint32_t tries,
		   uint32_t reads, struct spw_clock_pair *pair_out)
{
	struct step_scan scan = {0};
	uint64_t last, value, asked = ref_now(arg);
	int rc = read(arg, &last);

	for (uint32_t i = 1;
	     !rc && scan.changed < tries && i < reads && !(scan.changed && scan.quiet > STEP_QUIET);
	     i++) {
		uint64_t before = ref_now(arg);

		rc = read(arg, &value);
		if (!rc && value != last) {
			clock_scan_new(&scan, value, asked, before, ref_now(arg));
		} else {
			scan.same++;
			scan.quiet++;
		}
		asked = before;
		last = value;
	}
	if (rc)
		return rc;
	if (!scan.changed)
		return spw_err(ETIME, "the clock stands still: %u readings returned the same value",
			       reads);
	*pair_out = scan.same == 0 && scan.changed >= LIVE_READS ? scan.live : scan.step;
	return 0;
}

static uint64_t clock_tsc_ordered(void *arg)
{
	(void)arg;
	return spw_tsc_now_ordered();
}

int spw_clock_pair_step(spw_clock_read *read, void *arg, uint32_t tries, uint32_t reads,
			struct spw_clock_pair *pair_out)
{
	if (tries < 1 || tries > 1000 || reads < 2 || reads > 1000000)
		return spw_err(EINVAL,
			       "clock pair with %u tries, %u readings: 1 .. 1000, 2 .. 1000000",
			       tries, reads);
	return time_pair_step(clock_tsc_ordered, read, arg, tries, reads, pair_out);
}

int spw_clock_read_posix(void *arg, uint64_t *value_out)
{
	struct timespec ts;

	if (clock_gettime(*(const clockid_t *)arg, &ts))
		return spw_err(errno, "clock %d cannot be read: %s", (int)*(const clockid_t *)arg,
			       strerror(errno));
	*value_out = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	return 0;
}

/* The inverse of scale: other = ref * 2^shift / mult. 64 more bits are kept in the division, so the
 * result is exact to one tick. */
uint64_t spw_clock_map_span(const struct spw_clock_map *map, uint64_t ref_ticks)
{
	spw_u128 other;

	if (!map->scale.mult)
		return 0;
	other = ((spw_u128)ref_ticks << 64) / map->scale.mult;
	if (map->scale.shift < 64)
		return (uint64_t)(other >> (64 - map->scale.shift));
	return (uint64_t)(other << (map->scale.shift - 64));
}

/* unc(ref) = unc + drift * |ref - ref_base|: a map is exact where its newest pair was taken and
 * fades away from there. */
uint64_t spw_clock_map_unc_at(const struct spw_clock_map *map, uint64_t ref)
{
	int64_t offset = (int64_t)(ref - map->ref_base);
	uint64_t far = offset < 0 ? 0 - (uint64_t)offset : (uint64_t)offset;
	spw_u128 unc = (((spw_u128)far * map->drift_2_32) >> 32) + map->unc;

	return unc > UINT64_MAX ? UINT64_MAX : (uint64_t)unc;
}

uint64_t spw_clock_map_unc(const struct spw_clock_map *map, uint64_t other)
{
	return spw_clock_map_unc_at(map, spw_clock_map_ref(map, other));
}

/* mult 2^62 and shift 62: a factor of 1 with the usual 62 significant bits. */
void spw_clock_map_identity(struct spw_clock_map *map_out)
{
	*map_out = (struct spw_clock_map){.scale = {.mult = 1ull << 62, .shift = 62}};
}

/* Writes the slot that seq does not name, so a reader of the newest map is not disturbed. A reader
 * that a put overtakes fails its second check of seq. */
void spw_clock_box_put(struct spw_clock_box *box, const struct spw_clock_map *map)
{
	const uint64_t word[BOX_WORDS] = {map->other_base,  map->ref_base, map->scale.mult,
					  map->scale.shift, map->unc,      map->drift_2_32};
	uint64_t seq = box->seq + 1;

	for (uint32_t i = 0; i < BOX_WORDS; i++)
		spw_thr_store_rel(&box->slot[seq & 1][i],
				  word[i]); /* [T3 release, pairs with T4] */
	spw_thr_store_rel(&box->seq, seq);  /* [T1 release, pairs with T2] */
}

bool spw_clock_box_get(struct spw_clock_box *box, struct spw_clock_map *map_out)
{
	uint64_t seq = spw_thr_load_acq(&box->seq); /* [T2 acquire, pairs with T1] */
	uint64_t word[BOX_WORDS];

	for (uint32_t i = 0; i < BOX_WORDS; i++)
		word[i] =
			spw_thr_load_acq(&box->slot[seq & 1][i]); /* [T4 acquire, pairs with T3] */
	/* Who reads a word of a later put also reads the seq published before it (T3), so a copy
	 * that was overtaken fails here. */
	if (seq == 0 || spw_thr_load_acq(&box->seq) != seq)
		return false;
	*map_out = (struct spw_clock_map){
		word[0], word[1], {word[2], (uint32_t)word[3]}, word[4], word[5]};
	return true;
}
