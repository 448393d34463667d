/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/spw_err.h"
#include "time/time_impl.h"

#define BOX_WORDS  6u
#define STEP_QUIET 1000u /* readings without a new value, after which one that was seen will do */

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

int spw_clock_pair_step(spw_clock_read *read, void *arg, uint32_t tries, uint32_t reads, struct spw_clock_pair *pair_out)
{
	uint64_t last, value, asked = spw_tsc_now_ordered(), now;
	uint32_t seen = 0, quiet = 0;
	int rc;

	if (tries < 1 || tries > 1000 || reads < 2 || reads > 1000000)
		return spw_err(EINVAL, "clock pair with %u tries, %u readings: 1 .. 1000, 2 .. 1000000", tries, reads);
	rc = read(arg, &last);
	for (uint32_t i = 1; !rc && seen < tries && i < reads && !(seen && quiet > STEP_QUIET); i++) {
		uint64_t before = spw_tsc_now_ordered();

		rc = read(arg, &value);
		now = spw_tsc_now_ordered();
		if (!rc && value != last && (!seen++ || (now - asked) / 2 + 1 < pair_out->unc))
			*pair_out = (struct spw_clock_pair){value, asked + (now - asked) / 2, (now - asked) / 2 + 1};
		quiet = value != last ? 0 : quiet + 1;
		asked = before;
		last = value;
	}
	return rc ? rc : seen ? 0 : spw_err(ETIME, "a clock stands still: %u readings were all the same", reads);
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

uint64_t spw_clock_map_unc_at(const struct spw_clock_map *map, uint64_t ref)
{
	int64_t away = (int64_t)(ref - map->ref_base);
	uint64_t far = away < 0 ? 0 - (uint64_t)away : (uint64_t)away;
	spw_u128 unc = (((spw_u128)far * map->drift_2_32) >> 32) + map->unc;

	return unc > UINT64_MAX ? UINT64_MAX : (uint64_t)unc;
}

uint64_t spw_clock_map_unc(const struct spw_clock_map *map, uint64_t other)
{
	return spw_clock_map_unc_at(map, spw_clock_map_ref(map, other));
}

void spw_clock_map_identity(struct spw_clock_map *map_out)
{
	*map_out = (struct spw_clock_map){.scale = {.mult = 1ull << 62, .shift = 62}};
}

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
	/* A word of a later put carries its seq with it (T3), so an overtaken copy cannot pass. */
	if (seq == 0 || spw_thr_load_acq(&box->seq) != seq)
		return false;
	*map_out = (struct spw_clock_map){
	        word[0], word[1], {word[2], (uint32_t)word[3]}, word[4], word[5]};
	return true;
}
