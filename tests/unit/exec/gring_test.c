/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The owner's side of the executor ring against an executor played by hand. */
#include "gring_rig.h"

static void words_carry_every_value(void **state)
{
	static const uint64_t offset[] = {0, 1, (1ull << 40) - 1, 0x123456789aull};
	static const uint32_t len[] = {1, 64, 1500, SPW_DESC_LEN_MAX},
			      meta[] = {0, 0xffffffffu, 0x12345678u};

	(void)state;
	for (uint32_t i = 0; i < 4; i++)
		for (uint32_t j = 0; j < 4; j++)
			for (uint32_t k = 0; k < 3; k++)
				for (uint32_t cnt = 1; cnt <= 64; cnt++) {
					uint64_t tag = (uint64_t)(cnt * 4 & 0xff)
						       << SPW_GRING_TAG_SHIFT;
					uint64_t lo = spw_gring_lo(tag, offset[i], meta[k]);
					uint64_t hi = spw_gring_hi(tag, len[j], meta[k], cnt & 15,
								   cnt & 7, cnt);

					assert_true(spw_gring_has_tag(lo, tag) &&
						    spw_gring_has_tag(hi, tag));
					assert_int_equal(spw_gring_lo_offset(lo), offset[i]);
					assert_int_equal(spw_gring_hi_len(hi), len[j]);
					assert_int_equal(spw_gring_meta(lo, hi), meta[k]);
					assert_int_equal(spw_gring_hi_flags(hi), cnt & 15);
					assert_int_equal(spw_gring_hi_region(hi), cnt & 7);
					assert_int_equal(spw_gring_hi_cnt(hi), cnt);
				}
}

static void push_writes_entries_and_leaves_others(void **state)
{
	struct rig *rig = rig_make();
	uint64_t tag = spw_gring_tag(0, 2);

	(void)state;
	spw_gring_push(&rig->ring, fill(rig, 5));
	for (uint32_t i = 0; i < 5; i++) {
		assert_true(spw_gring_has_tag(rig->desc[i].lo, tag) &&
			    spw_gring_has_tag(rig->desc[i].hi, tag));
		assert_int_equal(spw_gring_lo_offset(rig->desc[i].lo), 2048 * i);
		assert_int_equal(spw_gring_hi_len(rig->desc[i].hi), 64 + i);
		assert_int_equal(spw_gring_meta(rig->desc[i].lo, rig->desc[i].hi), 0xabcd0000u + i);
	}
	assert_int_equal(spw_gring_hi_cnt(rig->desc[0].hi), 5);
	assert_int_equal(spw_gring_hi_cnt(rig->desc[1].hi), 1);
	for (uint32_t i = 5; i < 64; i++)
		assert_int_equal(rig->desc[i].lo | rig->desc[i].hi, 0);
	assert_int_equal(rig->ring.in_exec_frames, 5);
	free(rig);
}

/* Entries of place 0 that carry, before a push, the tag that the push is about to announce: an
 * executor that polls them would take a stale descriptor. */
static uint32_t stale_entries(const struct rig *rig)
{
	uint64_t seq = rig->ring.head_seq, tag = spw_gring_tag(seq, 2);
	const struct spw_gring_desc *e = &rig->desc[(seq & (BATCHES - 1)) * SPW_GRING_FRAME_MAX];
	uint32_t n = 0;

	for (uint32_t i = 0; i < SPW_GRING_FRAME_MAX; i++)
		n += spw_gring_has_tag(e[i].lo, tag) || spw_gring_has_tag(e[i].hi, tag);
	return n;
}

/* One full lap, then short ones past the wrap of the tag. With undo, what a push writes beyond its
 * own frames is taken back, as if there were no scrub. Returns how often a stale entry could have
 * been taken. */
static uint32_t laps_with_short_batches(bool undo)
{
	struct rig *rig = rig_make();
	uint32_t stale = 0, seed = 1;

	for (uint32_t i = 0; i < BATCHES; i++)
		turn(rig, 64);
	for (uint32_t lap = 1; lap < 600; lap++)
		for (uint32_t i = 0; i < BATCHES; i++) {
			struct spw_gring_desc *e = &rig->desc[i * SPW_GRING_FRAME_MAX],
					      old[SPW_GRING_FRAME_MAX];
			uint32_t cnt = 1 + (seed = seed * 1103515245u + 12345u) / 65536 % 3;

			stale += stale_entries(rig);
			memcpy(old, e, sizeof(old));
			turn(rig, cnt);
			if (undo)
				memcpy(e + cnt, old + cnt,
				       (SPW_GRING_FRAME_MAX - cnt) * sizeof(*e));
		}
	free(rig);
	return stale;
}

static void tags_never_stale_past_256_laps(void **state)
{
	(void)state;
	assert_int_equal(laps_with_short_batches(false), 0);
}

static void without_scrub_tags_would_be_stale(void **state)
{
	(void)state;
	assert_true(laps_with_short_batches(true) > 0);
}

static void full_ring_takes_no_more(void **state)
{
	struct rig *rig = rig_make();
	struct spw_gring_batch *first;

	(void)state;
	for (uint32_t i = 0; i < BATCHES; i++)
		spw_gring_push(&rig->ring, fill(rig, 2));
	assert_null(spw_gring_next(&rig->ring));
	assert_null(spw_gring_reap(&rig->ring));
	complete(rig, 0, (uint64_t[8]){0});
	first = spw_gring_reap(&rig->ring);
	assert_non_null(first);
	assert_null(
		spw_gring_next(&rig->ring)); /* reaped is not retired: the record is still in use */
	assert_int_equal(rig->ring.in_exec_frames, 8);
	spw_gring_retire(&rig->ring, first);
	assert_int_equal(rig->ring.in_exec_frames, 6);
	assert_ptr_equal(spw_gring_next(&rig->ring), first);
	free(rig);
}

static void units_finish_in_any_order(void **state)
{
	struct rig *rig = rig_make();

	(void)state;
	for (uint32_t i = 0; i < BATCHES; i++)
		spw_gring_push(&rig->ring, fill(rig, 1 + i));
	for (uint32_t seq = BATCHES; seq-- > 1;) {
		complete(rig, seq,
			 (uint64_t[8]){[2] = (uint64_t)(seq % UNITS) << 40, [7] = 10 * seq});
		assert_null(spw_gring_reap(&rig->ring));
	}
	complete(rig, 0, (uint64_t[8]){[7] = 25}); /* counted after batch 2 of the same unit was */
	for (uint32_t seq = 0; seq < BATCHES; seq++) {
		struct spw_gring_batch *b = spw_gring_reap(&rig->ring);

		assert_non_null(b);
		assert_int_equal(b->seq, seq);
		assert_int_equal(b->cnt, 1 + seq);
		assert_int_equal(b->unit, seq % UNITS);
		spw_gring_retire(&rig->ring, b);
	}
	assert_null(spw_gring_reap(&rig->ring));
	assert_int_equal(spw_gring_executed(&rig->ring), 25 + 30); /* the larger of 25 and 20; 30 */
	free(rig);
}

static void line_with_a_word_missing_is_not_done(void **state)
{
	(void)state;
	for (uint32_t missing = 0; missing < 8; missing++) {
		struct rig *rig = rig_make();
		uint64_t whole;

		for (uint32_t i = 0; i < BATCHES * 3; i++)
			turn(rig, 1);
		spw_gring_push(&rig->ring, fill(rig, 1));
		whole = rig->done[0].w[missing];
		complete(rig, rig->ring.tail_seq, (uint64_t[8]){0});
		rig->done[0].w[missing] = whole; /* last lap's */
		assert_null(spw_gring_reap(&rig->ring));
		complete(rig, rig->ring.tail_seq, (uint64_t[8]){0});
		assert_non_null(spw_gring_reap(&rig->ring));
		free(rig);
	}
}

static void verdicts_reasons_and_digest_decode(void **state)
{
	struct rig *rig = rig_make();
	uint32_t seed = 7;

	(void)state;
	for (uint32_t round = 0; round < 200; round++) {
		uint64_t w[8] = {0}, echo = 0, bad = 0;
		struct spw_gring_batch *b = fill(rig, 64);

		for (uint32_t i = 0; i < 64; i++) {
			uint32_t v = (seed = seed * 1103515245u + 12345u) / 65536 % 3;

			w[i / 28] |= (uint64_t)v << (2 * (i % 28));
			echo |= (uint64_t)(v == SPW_VERDICT_ECHO) << i;
			bad |= (uint64_t)(v == SPW_VERDICT_BAD) << i;
		}
		w[2] |= 64u << 16 | 1ull << 40;
		w[5] = (uint64_t)__builtin_popcountll(bad) << (7 * (round % 8));
		w[6] = SPW_GRING_VALUE_MASK - round;
		spw_gring_push(&rig->ring, b);
		complete(rig, b->seq, w);
		assert_ptr_equal(spw_gring_reap(&rig->ring), b);
		assert_int_equal(b->verdict[0], echo);
		assert_int_equal(b->verdict[1], bad);
		assert_int_equal(b->digest, SPW_GRING_VALUE_MASK - round);
		assert_int_equal(b->unit, 1);
		for (uint32_t i = 0; i < 8; i++)
			assert_int_equal(b->bad[i], i == round % 8 ? __builtin_popcountll(bad) : 0);
		spw_gring_retire(&rig->ring, b);
	}
	free(rig);
}

/* Three frames were pushed. What contradicts that is refused whole, and the frames' slots are not
 * lost. */
static void an_impossible_completion_is_refused(void **state)
{
	static const uint64_t bad[][8] = {
		{[2] = 2ull << 40}, /* a unit that does not exist */
		{[2] = 0xffffull << 40},
		{[2] = 2ull << 16}, /* a frame too few, too many */
		{[2] = 4ull << 16},
		{[0] = 1ull << 6},                        /* a verdict for the fourth of three */
		{[2] = 3ull << 16 | 2ull << 14, [5] = 1}, /* and for the 64th */
		{[0] = 3, [5] = 1},                       /* echo and bad at once */
		{[0] = 2},                                /* bad for no reason */
		{[5] = 1ull << 49},                       /* a reason without a bad frame */
	};

	(void)state;
	for (size_t c = 0; c < SPW_ARRAY_CNT(bad); c++) {
		struct rig *rig = rig_make();
		struct spw_gring_batch *b = fill(rig, 3);
		uint64_t guard[2] = {rig->unit_frames[0], rig->unit_frames[1]}, w[8];

		memcpy(w, bad[c], sizeof(w));
		w[7] = 12345;
		spw_gring_push(&rig->ring, b);
		complete(rig, 0, w);
		assert_ptr_equal(spw_gring_reap(&rig->ring), b);
		assert_int_equal(rig->ring.fault_cnt, 1);
		assert_int_equal(b->verdict[0], 0);
		assert_int_equal(b->verdict[1], 7);
		for (uint32_t i = 0; i < SPW_BAD_CNT; i++)
			assert_int_equal(b->bad[i], i == SPW_BAD_verdict ? 3 : 0);
		assert_true(b->unit < UNITS);
		assert_memory_equal(guard, rig->unit_frames, sizeof(guard));
		spw_gring_retire(&rig->ring, b);
		turn(rig, 64); /* and the ring goes on */
		assert_int_equal(rig->ring.fault_cnt, 1);
		free(rig);
	}
}

/* The unit's count has 32 bits, the ring's 64; a unit may finish its batches out of order. */
static void counts_go_on_past_32_bits(void **state)
{
	struct rig *rig = rig_make();

	(void)state;
	rig->unit_frames[0] = 0x7fffffff0ull;
	for (uint32_t i = 0; i < 3; i++)
		spw_gring_push(&rig->ring, fill(rig, 10));
	complete(rig, 0, (uint64_t[8]){[2] = 10ull << 16, [7] = 0xfffffffau});
	complete(rig, 1, (uint64_t[8]){[2] = 10ull << 16, [7] = 0x0000000eu});
	complete(rig, 2, (uint64_t[8]){[2] = 10ull << 16, [7] = 0x00000004u});
	for (uint32_t i = 0; i < 3; i++) {
		static const uint64_t want[] = {0x7fffffffaull, 0x80000000eull, 0x80000000eull};

		spw_gring_retire(&rig->ring, spw_gring_reap(&rig->ring));
		assert_int_equal(spw_gring_executed(&rig->ring), want[i]);
	}
	assert_int_equal(rig->ring.fault_cnt, 0);
	free(rig);
}

static void stamps_keep_their_top_byte(void **state)
{
	static const uint64_t at[] = {5,          1ull << 55,       (1ull << 56) - 1,
				      1ull << 56, (1ull << 56) + 3, 0x17f0123456789abcull};

	(void)state;
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(at); i++)
		for (uint64_t later = 0; later < 3; later++) {
			struct rig *rig = rig_make();
			struct spw_gring_batch *b = fill(rig, 1);

			fake_now = at[i] + later * 1000;
			spw_gring_push(&rig->ring, b);
			complete(rig, 0, (uint64_t[8]){[3] = at[i] - 1, [4] = at[i]});
			assert_non_null(spw_gring_reap(&rig->ring));
			assert_int_equal(b->exec_start, at[i] - 1);
			assert_int_equal(b->exec_end, at[i]);
			free(rig);
		}
}

static void a_stamp_may_lead_the_estimate_of_now(void **state)
{
	struct rig *rig = rig_make();
	struct spw_gring_batch *b = fill(rig, 1);

	(void)state;
	fake_now = (3ull << 56) - 10; /* just below a wrap; the stamp is just above */
	spw_gring_push(&rig->ring, b);
	complete(rig, 0, (uint64_t[8]){[3] = 5, [4] = 6});
	assert_non_null(spw_gring_reap(&rig->ring));
	assert_int_equal(b->exec_start, (3ull << 56) + 5);
	free(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_carry_every_value),
		cmocka_unit_test(push_writes_entries_and_leaves_others),
		cmocka_unit_test(tags_never_stale_past_256_laps),
		cmocka_unit_test(without_scrub_tags_would_be_stale),
		cmocka_unit_test(full_ring_takes_no_more),
		cmocka_unit_test(units_finish_in_any_order),
		cmocka_unit_test(line_with_a_word_missing_is_not_done),
		cmocka_unit_test(verdicts_reasons_and_digest_decode),
		cmocka_unit_test(an_impossible_completion_is_refused),
		cmocka_unit_test(counts_go_on_past_32_bits),
		cmocka_unit_test(stamps_keep_their_top_byte),
		cmocka_unit_test(a_stamp_may_lead_the_estimate_of_now),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
