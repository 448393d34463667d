/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include "exec_suite.h"

#include "../unit/unit_test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "time/spw_time.h"

#define SLOT_BYTES 2048u
#define PATIENCE_S 20u

/* ---- rig ---- */

static uint64_t tick_hz(void)
{
	static struct spw_tsc tsc;

	if (!tsc.hz)
		assert_int_equal(spw_tsc_calibrate(20, &tsc), 0);
	return tsc.hz;
}

uint64_t suite_random(uint64_t *state)
{
	return unit_random(state);
}

void rig_open(struct rig *rig, const struct suite *suite, const char *handler,
	      struct spw_exec_conf conf)
{
	int rc;

	*rig = (struct rig){.suite = suite};
	rig->handler = conf.handler;
	if (handler)
		assert_int_equal(spw_handler_open(handler, &rig->handler), 0);
	rig->region.host_va = suite->mem;
	rig->region.dev_va = suite->mem_dev;
	rig->region.bytes = suite->mem_bytes;
	rig->region.flush = suite->flush;
	rig->region.id = 3;
	conf.kind = suite->kind;
	conf.handler = rig->handler;
	conf.region = &rig->region;
	conf.region_cnt = 1;
	conf.numa_node = -1;
	if (!conf.share_bytes)
		conf.share_bytes = 1u << 31; /* a push is one batch, unless a test is about it */
	if (!conf.ring_cnt)
		conf.ring_cnt = 1;
	if (!conf.life_ms)
		conf.life_ms = 5000; /* whatever goes wrong, no kernel of a test stays */
	rc = spw_exec_open(&conf, &rig->exec);
	if (rc)
		fail_msg("%s", spw_err_text());
	rc = spw_exec_start(rig->exec);
	if (rc)
		fail_msg("%s", spw_err_text());
}

void rig_close(struct rig *rig)
{
	if (spw_exec_stop(rig->exec, 10000))
		fail_msg("%s", spw_err_text());
	spw_exec_close(rig->exec);
	spw_handler_close(rig->handler);
}

void rig_turn(struct rig *rig)
{
	spw_exec_beat(rig->exec, 0);
	if (spw_exec_service(rig->exec))
		fail_msg("%s", spw_err_text());
}

struct spw_gring_batch *rig_reap(struct rig *rig, uint16_t ring)
{
	uint64_t begin = spw_tsc_now();
	struct spw_gring_batch *b;

	while (!(b = spw_gring_reap(spw_exec_ring(rig->exec, ring)))) {
		spw_exec_beat(rig->exec, ring);
		rig_turn(rig);
		if (spw_tsc_now() - begin > PATIENCE_S * tick_hz())
			fail_msg("no completion within %u s", PATIENCE_S);
	}
	return b;
}

struct spw_gring_batch *rig_next(struct rig *rig, uint16_t ring)
{
	struct spw_gring_batch *b = spw_gring_next(spw_exec_ring(rig->exec, ring));

	assert_non_null(b);
	b->cnt = 0;
	return b;
}

uint8_t *rig_add(struct rig *rig, struct spw_gring_batch *b, uint32_t offset, uint32_t len,
		 uint16_t flags)
{
	b->desc[b->cnt++] = (struct spw_desc){.offset = offset,
					      .len = len,
					      .flags = flags,
					      .region = rig->region.id,
					      .meta = 0x5eed0000u + offset};
	assert_true((size_t)offset + len <= rig->region.bytes);
	return rig->region.host_va + offset;
}

struct spw_gring_batch *rig_do(struct rig *rig, struct spw_gring_batch *b)
{
	struct spw_gring_batch *r;

	spw_gring_push(spw_exec_ring(rig->exec, 0), b);
	r = rig_reap(rig, 0);
	assert_ptr_equal(r, b);
	return r;
}

void rig_done(struct rig *rig, struct spw_gring_batch *b)
{
	spw_gring_retire(spw_exec_ring(rig->exec, 0), b);
}

uint64_t suite_sum(const uint8_t *p, size_t len)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < len; i++)
		sum += p[i];
	return sum;
}

void suite_laps(struct rig *rig, uint16_t ring_idx, uint32_t cnt, uint64_t seed)
{
	struct spw_gring *ring = spw_exec_ring(rig->exec, ring_idx);
	struct {
		uint64_t want;
		uint32_t parts; /* batches that it became */
	} *round = calloc(ring->batch_mask + 1, sizeof(*round));
	uint64_t frames = 0, base = spw_gring_executed(ring);
	uint32_t pushed = 0, reaped = 0;

	assert_non_null(round);
	while (reaped < cnt) {
		struct spw_gring_batch *b = pushed < cnt ? spw_gring_next(ring) : NULL;

		if (b) {
			uint64_t sum = 0;

			b->cnt = 0;
			for (uint32_t
				     n = 1 + (uint32_t)suite_random(&seed) % (pushed % 97 ? 4 : 64),
				     i = 0;
			     i < n; i++) {
				uint32_t place =
					(pushed & ring->batch_mask) * SPW_GRING_FRAME_MAX + i;
				uint32_t len = 8 + (uint32_t)suite_random(&seed) % 120;
				uint8_t *p =
					rig_add(rig, b, (ring_idx << 22) + place * 256, len, 0);

				memset(p, (int)(pushed + i), len);
				sum += suite_sum(p, len);
			}
			round[pushed & ring->batch_mask].want = sum;
			frames += b->cnt;
			round[pushed & ring->batch_mask].parts = spw_gring_push(ring, b);
			pushed++;
			if (ring->batch_mask > 15 && suite_random(&seed) % 8)
				continue;
		}
		for (uint32_t i = round[reaped & ring->batch_mask].parts; i; i--) {
			b = rig_reap(rig, ring_idx);
			round[reaped & ring->batch_mask].want -= b->digest;
			spw_gring_retire(ring, b);
		}
		assert_int_equal(round[reaped & ring->batch_mask].want, 0);
		reaped++;
	}
	assert_int_equal(spw_gring_executed(ring) - base, frames);
	assert_int_equal(ring->in_exec_frames, 0);
	free(round);
}

/* Each slot is written anew every lap, so one read from a cache of last lap's bytes gives a wrong
 * sum. */
static void laps_past_the_tag_wrap(void **state)
{
	struct rig rig;
	const struct suite *suite = *state;

	rig_open(&rig, suite, "sum", (struct spw_exec_conf){.batch_cnt = 4, .cta_per_ring = 2});
	suite_laps(&rig, 0, 4 * 700, 1);
	rig_close(&rig);
	rig_open(&rig, suite, "sum", (struct spw_exec_conf){.batch_cnt = 8, .share_bytes = 128});
	if (spw_exec_ring(rig.exec, 0)->unit_cnt <= 8)
		suite_laps(&rig, 0, 8 * 300, 2);
	rig_close(&rig);
}

static void full_ring_then_drained(void **state)
{
	struct rig rig;
	struct spw_gring_batch *b;
	struct spw_exec_stat stat;
	uint64_t pushed = 0;

	rig_open(&rig, *state, "sum", (struct spw_exec_conf){.batch_cnt = 16, .cta_per_ring = 4});
	for (uint32_t round = 0; round < 50; round++) {
		while ((b = spw_gring_next(spw_exec_ring(rig.exec, 0)))) {
			b->cnt = 0;
			for (uint32_t i = 0; i < 64; i++)
				rig_add(&rig, b, i * SLOT_BYTES, 64, 0);
			spw_gring_push(spw_exec_ring(rig.exec, 0), b);
			pushed += 64;
		}
		for (uint32_t i = 0; i < 16; i++)
			rig_done(&rig, rig_reap(&rig, 0));
		assert_null(spw_gring_reap(spw_exec_ring(rig.exec, 0)));
	}
	spw_exec_stat(rig.exec, &stat);
	assert_int_equal(stat.frames, pushed);
	assert_int_equal(spw_gring_executed(spw_exec_ring(rig.exec, 0)), pushed);
	rig_close(&rig);
}

/* What was pushed before stop is done after it, and a second start goes on where the first ended.
 */
static void stop_drains_and_start_goes_on(void **state)
{
	struct rig rig;

	rig_open(&rig, *state, "sum", (struct spw_exec_conf){.batch_cnt = 16, .cta_per_ring = 4});
	for (uint32_t round = 0; round < 5; round++) {
		for (uint32_t k = 0; k < 11; k++) {
			struct spw_gring_batch *b = rig_next(&rig, 0);

			for (uint32_t i = 0; i <= k; i++)
				rig_add(&rig, b, i * SLOT_BYTES, 64 + k, 0);
			spw_gring_push(spw_exec_ring(rig.exec, 0), b);
		}
		assert_int_equal(spw_exec_stop(rig.exec, 10000), 0);
		for (uint32_t k = 0; k < 11; k++) {
			struct spw_gring_batch *b = spw_gring_reap(spw_exec_ring(rig.exec, 0));

			assert_non_null(b);
			assert_int_equal(b->cnt, k + 1);
			rig_done(&rig, b);
		}
		assert_int_equal(spw_exec_start(rig.exec), 0);
	}
	assert_int_equal(spw_gring_executed(spw_exec_ring(rig.exec, 0)), 5 * 66);
	rig_close(&rig);
}

static void rings_do_not_mix(void **state)
{
	struct rig rig;

	rig_open(&rig, *state, "sum",
		 (struct spw_exec_conf){.ring_cnt = 3, .batch_cnt = 16, .cta_per_ring = 2});
	for (uint32_t round = 0; round < 3; round++)
		for (uint16_t r = 0; r < 3; r++)
			suite_laps(&rig, r, 100 + 10 * r, round * 3 + r);
	rig_close(&rig);
}

/* One unit has several batches in work at once, each split into teams of its own. Frames are 64
 * bytes to 40 KiB of memory that does not change. */
static void teams_of_several_batches(void **state)
{
	static const uint32_t size[] = {64, 1500, 5000, 9000, 40960};
	uint64_t seed = 5, *before = malloc(((1u << 20) + 1) * sizeof(*before)), want[16];
	const struct suite *suite = *state;
	uint32_t pushed = 0, reaped = 0;
	struct rig rig;

	assert_non_null(before);
	before[0] = 0;
	for (uint32_t i = 0; i < 1u << 20; i++) {
		suite->mem[i] = (uint8_t)suite_random(&seed);
		before[i + 1] = before[i] + suite->mem[i];
	}
	rig_open(&rig, suite, "sum", (struct spw_exec_conf){.batch_cnt = 16, .cta_per_ring = 1});
	while (reaped < 3000) {
		struct spw_gring *ring = spw_exec_ring(rig.exec, 0);
		struct spw_gring_batch *b = pushed < 3000 ? spw_gring_next(ring) : NULL;

		if (b) {
			uint32_t n = 1 + (uint32_t)suite_random(&seed) % 8;

			for (b->cnt = 0, want[pushed % 16] = 0; b->cnt < n;) {
				uint32_t off = (uint32_t)suite_random(&seed) % ((1u << 20) - 40960),
					 len = size[suite_random(&seed) % SPW_ARRAY_CNT(size)];

				rig_add(&rig, b, off, len, 0);
				want[pushed % 16] += before[off + len] - before[off];
			}
			spw_gring_push(ring, b);
			pushed++;
			continue;
		}
		b = rig_reap(&rig, 0);
		assert_int_equal(b->digest, want[reaped % 16]);
		rig_done(&rig, b);
		reaped++;
	}
	rig_close(&rig);
	free(before);
}

static void clock_pairs_agree(void **state)
{
	struct rig rig;
	uint64_t e[2], t[2], unc[2];
	double exec_s, cpu_s;

	rig_open(&rig, *state, "null", (struct spw_exec_conf){0});
	for (uint32_t i = 0; i < 2; i++) {
		uint64_t begin = spw_tsc_now();

		assert_int_equal(spw_exec_pair_clock(rig.exec, &e[i], &t[i], &unc[i]), 0);
		assert_true(unc[i] < 1000000);
		while (spw_tsc_now() - begin < tick_hz() / 5)
			rig_turn(&rig);
	}
	exec_s = (double)(e[1] - e[0]) / (double)spw_exec_clock_hz(rig.exec);
	cpu_s = (double)(t[1] - t[0]) / (double)tick_hz();
	assert_true(exec_s > 0.15 && exec_s - cpu_s < 0.02 * cpu_s &&
		    cpu_s - exec_s < 0.02 * cpu_s);
	rig_close(&rig);
}

static void stamps_lie_between_push_and_reap(void **state)
{
	struct rig rig;
	struct spw_gring_batch *b;
	uint64_t e, t, unc, hz;

	rig_open(&rig, *state, "sum", (struct spw_exec_conf){0});
	hz = spw_exec_clock_hz(rig.exec);
	assert_int_equal(spw_exec_pair_clock(rig.exec, &e, &t, &unc), 0);
	for (uint32_t i = 0; i < 20; i++) {
		uint64_t pushed, reaped;
		double start, end, slack = (double)unc * 1e-9 + 1e-5;

		b = rig_next(&rig, 0);
		rig_add(&rig, b, 0, 1500, 0);
		pushed = spw_tsc_now();
		b = rig_do(&rig, b);
		reaped = spw_tsc_now();
		start = (double)(int64_t)(b->exec_start - e) / (double)hz;
		end = (double)(int64_t)(b->exec_end - e) / (double)hz;
		assert_true(start >= (double)(int64_t)(pushed - t) / (double)tick_hz() - slack);
		assert_true(end <= (double)(int64_t)(reaped - t) / (double)tick_hz() + slack);
		rig_done(&rig, b);
	}
	rig_close(&rig);
}

static void bad_conf_is_refused(void **state)
{
	const struct suite *suite = *state;
	struct spw_exec_conf conf = {
		.kind = suite->kind, .ring_cnt = 1, .batch_cnt = 3, .numa_node = -1};
	struct spw_handler host_only = *spw_handler_builtin(0);
	struct spw_exec *exec;

	conf.handler = spw_handler_builtin(0);
	assert_int_equal(spw_exec_open(&conf, &exec), -EINVAL);
	conf.batch_cnt = 2 * SPW_GRING_BATCH_MAX;
	assert_int_equal(spw_exec_open(&conf, &exec), -EINVAL);
	conf.batch_cnt = 0;
	conf.ring_cnt = 0;
	assert_int_equal(spw_exec_open(&conf, &exec), -EINVAL);
	if (suite->kind < SPW_EXEC_CUDA_PERSISTENT)
		return;
	conf.ring_cnt = 1;
	host_only.cuda = NULL;
	conf.handler = &host_only;
	assert_int_equal(spw_exec_open(&conf, &exec), -ENOTSUP);
	assert_non_null(strstr(spw_err_text(), "nvcc"));
}

#define SUITE_TEST(name)                      \
	{                                     \
#name, name, NULL, NULL, NULL \
	}
#define SUITE_FRAMES_TEST(name)                       \
	{                                             \
#name, suite_##name, NULL, NULL, NULL \
	}

int suite_run(const struct suite *suite, const char *filter)
{
	struct CMUnitTest tests[] = {
		SUITE_FRAMES_TEST(crc_known_answers),
		SUITE_FRAMES_TEST(null_touches_nothing),
		SUITE_FRAMES_TEST(sum_reads_each_byte_once),
		SUITE_FRAMES_TEST(sizes_and_batches_mix),
		SUITE_FRAMES_TEST(crc_right_and_wrong),
		SUITE_FRAMES_TEST(crc_of_messages),
		SUITE_FRAMES_TEST(damaged_frames_are_named),
		SUITE_FRAMES_TEST(echo_swaps_addresses_and_nothing_else),
		SUITE_TEST(laps_past_the_tag_wrap),
		SUITE_TEST(full_ring_then_drained),
		SUITE_TEST(stop_drains_and_start_goes_on),
		SUITE_TEST(rings_do_not_mix),
		SUITE_FRAMES_TEST(message_of_64_mb),
		SUITE_TEST(teams_of_several_batches),
		SUITE_FRAMES_TEST(state_counts_every_frame),
		SUITE_FRAMES_TEST(rings_of_different_handlers),
		SUITE_FRAMES_TEST(place_every_length_and_alignment),
		SUITE_FRAMES_TEST(place_large_frames),
		SUITE_FRAMES_TEST(place_heads),
		SUITE_FRAMES_TEST(place_neighbours),
		SUITE_FRAMES_TEST(place_batches_in_flight),
		SUITE_TEST(clock_pairs_agree),
		SUITE_TEST(stamps_lie_between_push_and_reap),
		SUITE_TEST(bad_conf_is_refused),
	};

	for (size_t i = 0; i < SPW_ARRAY_CNT(tests); i++)
		tests[i].initial_state = (void *)(uintptr_t)suite;
	printf("executor %s\n", spw_exec_kind_name(suite->kind));
	if (filter)
		cmocka_set_test_filter(filter);
	return cmocka_run_group_tests_name(spw_exec_kind_name(suite->kind), tests, NULL, NULL);
}
