/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Collectives between threads on the cpu executor: every bit of every result, on every rank.
 * Arguments: the numbers of ranks to try.
 */
#include "group.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "coll/coll.h"

#define SILENT_NS 2000000000ull /* a machine that stands still for less is not the silent rank */

static uint32_t first_cnt = 2, last_cnt = 4;

static void for_each_size(part_fn *part, enum spw_coll_progress progress)
{
	for (uint32_t n = first_cnt; n <= last_cnt; n++) {
		struct group g = {
			.rank_cnt = n, .part = part, .progress = progress, .timeout_ms = 20000};

		group_run(&g);
	}
}

/* ---- results ---- */

static void all_types_and_sizes(struct member *m)
{
	static const uint64_t counts[] = {1, 0, 3, 1000, 4099, 31};
	uint64_t round = 0;

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(counts); i++)
		for (uint32_t type = 0; type < 3; type++)
			for (uint32_t what = 0; what < 3 && !m->wrong[0]; what++)
				member_call(m,
					    &(struct spw_coll_call){
						    .kind = what == 2 ? SPW_COLL_ALL_GATHER
								      : SPW_COLL_ALL_REDUCE,
						    .type = (enum spw_coll_type)type,
						    .op = what == 1 ? SPW_COLL_MAX : SPW_COLL_SUM,
						    .count = counts[i]},
					    ++round);
}

static void largest(struct member *m)
{
	for (uint32_t type = 0; type < 3 && !m->wrong[0]; type++)
		member_call(m,
			    &(struct spw_coll_call){.type = (enum spw_coll_type)type,
						    .count = SPW_COLL_BYTES_MAX /
							     (type == SPW_COLL_F32 ? 4 : 2)},
			    type + 1);
	member_call(m,
		    &(struct spw_coll_call){.kind = SPW_COLL_ALL_GATHER,
					    .type = SPW_COLL_BF16,
					    .count = SPW_COLL_BYTES_MAX / 2},
		    4);
}

/* Longer than a round takes: exactly two of them, a bit more, many; rounds end inside a cell. */
static void in_pieces(struct member *m)
{
	static const uint64_t counts[] = {1024, 2048, 2049, 2050, 4098, 50000};
	uint64_t round = 0;

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(counts); i++)
		for (uint32_t type = 0; type < 3; type++)
			for (uint32_t kind = 0; kind < 2 && !m->wrong[0]; kind++)
				member_call(
					m,
					&(struct spw_coll_call){.kind = (enum spw_coll_kind)kind,
								.type = (enum spw_coll_type)type,
								.count = counts[i]},
					++round);
}

static void long_calls_in_pieces(void **state SPW_UNUSED)
{
	static const uint32_t bytes_max[] = {4096, 4098, 4108};

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(bytes_max); i++) {
		struct group g = {.rank_cnt = last_cnt,
				  .part = in_pieces,
				  .bytes_max = bytes_max[i],
				  .timeout_ms = 20000};

		group_run(&g);
	}
}

static void every_bit_with_a_proxy_thread(void **state SPW_UNUSED)
{
	for_each_size(all_types_and_sizes, SPW_COLL_THREAD);
}

static void every_bit_without_a_thread(void **state SPW_UNUSED)
{
	for_each_size(all_types_and_sizes, SPW_COLL_CALLER);
}

static void two_megabytes(void **state SPW_UNUSED)
{
	for_each_size(largest, SPW_COLL_THREAD);
}

/* Ranks that come late, by turns: the others are a round ahead, and never two. */
static void late_ranks(struct member *m)
{
	for (uint64_t round = 1; round <= 300 && !m->wrong[0]; round++) {
		if (unit_random(&m->seed) % 16 == 0)
			usleep((useconds_t)(unit_random(&m->seed) % 2000));
		member_call(m, &(struct spw_coll_call){.count = 1 + round % 50}, round);
	}
}

static void some_ranks_come_late(void **state SPW_UNUSED)
{
	for_each_size(late_ranks, SPW_COLL_THREAD);
}

/* ---- what ends a group ---- */

static int run(struct member *m, enum spw_coll_type type, uint64_t count)
{
	uint32_t in[64] = {0}, out[64];
	int rc;

	memset(out, 0xee, sizeof(out));
	rc = spw_coll_run(m->coll, &(struct spw_coll_call){
					   .type = type, .count = count, .in = in, .out = out});
	if (rc)
		for (uint32_t i = 0; i < SPW_ARRAY_CNT(out); i++)
			MEMBER_EXPECT(m, out[i] == 0xeeeeeeeeu);
	return rc;
}

/* The last rank calls otherwise in round 3. */
static void calls_differ(struct member *m)
{
	const bool odd = m->conf.rank == m->conf.rank_cnt - 1;
	char text[SPW_ERR_TEXT_BYTES];
	int rc;

	MEMBER_EXPECT(m, !run(m, SPW_COLL_F32, 8));
	MEMBER_EXPECT(m, !run(m, SPW_COLL_F16, 9));
	member_meet(m);
	rc = run(m, odd ? SPW_COLL_BF16 : SPW_COLL_F32, 10);
	MEMBER_EXPECT(m, rc == -EBADMSG || rc == -ECONNABORTED);
	strcpy(text, spw_err_text());
	if (rc == -EBADMSG)
		MEMBER_EXPECT(m, strstr(text, "10 bf16 by sum") && strstr(text, "10 f32 by sum"));
	/* from here on it is over, with the same line */
	MEMBER_EXPECT(m, run(m, SPW_COLL_F32, 8) == rc && !strcmp(text, spw_err_text()));
	MEMBER_EXPECT(m, !spw_coll_lost(m->coll));
}

static void calls_that_differ_are_named(void **state SPW_UNUSED)
{
	for_each_size(calls_differ, SPW_COLL_THREAD);
}

/* The last rank's call is shorter by a piece: its round is like the others', and its call is not.
 */
static void pieces_differ(struct member *m)
{
	const bool odd = m->conf.rank == m->conf.rank_cnt - 1;
	int rc = run(m, SPW_COLL_F32, odd ? 16 : 32);

	MEMBER_EXPECT(m, rc == -EBADMSG || rc == -ECONNABORTED);
	if (rc == -EBADMSG)
		MEMBER_EXPECT(m,
			      strstr(spw_err_text(), "16 f32") && strstr(spw_err_text(), "32 f32"));
}

static void calls_of_other_lengths_are_named(void **state SPW_UNUSED)
{
	struct group g = {
		.rank_cnt = last_cnt, .part = pieces_differ, .bytes_max = 64, .timeout_ms = 20000};

	group_run(&g);
}

/* The last rank does not call a second time; the others learn it in time, and who it was. */
static void one_is_silent(struct member *m)
{
	const uint32_t silent = m->conf.rank_cnt - 1;
	struct timespec begin, end;
	char name[16];
	int rc;

	MEMBER_EXPECT(m, !run(m, SPW_COLL_F32, 8));
	member_meet(m);
	m->coll->timeout_ns = SILENT_NS;
	if (m->conf.rank == silent) {
		while (!spw_coll_error(m->coll))
			usleep(1000);
		MEMBER_EXPECT(m, spw_coll_error(m->coll) == -ECONNABORTED);
		MEMBER_EXPECT(m, strstr(spw_err_text(), "(this one)"));
		MEMBER_EXPECT(m, !spw_coll_lost(m->coll));
		return;
	}
	clock_gettime(CLOCK_MONOTONIC, &begin);
	rc = run(m, SPW_COLL_F32, 8);
	clock_gettime(CLOCK_MONOTONIC, &end);
	snprintf(name, sizeof(name), "rank %u (", silent);
	MEMBER_EXPECT(m, (rc == -ETIMEDOUT || rc == -ECONNABORTED) && strstr(spw_err_text(), name));
	MEMBER_EXPECT(m, spw_coll_lost(m->coll) == 1u << silent);
	MEMBER_EXPECT(m, end.tv_sec - begin.tv_sec < 10);
}

static void a_silent_rank_is_named(void **state SPW_UNUSED)
{
	struct group two = {.rank_cnt = 2, .part = one_is_silent, .timeout_ms = 20000};
	struct group more = {.rank_cnt = last_cnt, .part = one_is_silent, .timeout_ms = 20000};

	group_run(&two);
	group_run(&more);
}

/* Rank 0 does not look at its round for longer than it would wait for the others, who cannot have
 * sent anything before it looks again: as if the whole machine had been stopped. It is nobody's
 * fault. */
static void one_stands_still(struct member *m)
{
	uint32_t data[8] = {0};
	const struct spw_coll_call call = {.count = 8, .in = data, .out = data};
	bool done = false;

	MEMBER_EXPECT(m, !run(m, SPW_COLL_F32, 8));
	if (m->conf.rank == 0) {
		m->coll->timeout_ns = SILENT_NS;
		MEMBER_EXPECT(m, !spw_coll_start(m->coll, &call));
		usleep(SILENT_NS / 1000 + 300000);
	}
	member_meet(m);
	if (m->conf.rank)
		MEMBER_EXPECT(m, !spw_coll_start(m->coll, &call));
	while (!done && !m->wrong[0])
		MEMBER_EXPECT(m, !spw_coll_test(m->coll, &done));
}

static void who_stood_still_names_nobody(void **state SPW_UNUSED)
{
	struct group g = {.rank_cnt = 2, .part = one_stands_still, .timeout_ms = 20000};

	group_run(&g);
}

/* The last rank ends after a round that the others follow by another. */
static void one_leaves(struct member *m)
{
	const uint32_t last = m->conf.rank_cnt - 1;

	MEMBER_EXPECT(m, !run(m, SPW_COLL_F32, 8));
	member_meet(m);
	if (m->conf.rank == last)
		return;
	MEMBER_EXPECT(m, run(m, SPW_COLL_F32, 8) < 0);
	MEMBER_EXPECT(m, spw_coll_lost(m->coll) == 1u << last);
}

static void a_rank_that_left_is_named(void **state SPW_UNUSED)
{
	for_each_size(one_leaves, SPW_COLL_THREAD);
	for_each_size(one_leaves, SPW_COLL_CALLER);
}

static void one_aborts(struct member *m)
{
	MEMBER_EXPECT(m, !run(m, SPW_COLL_F32, 8));
	member_meet(m);
	if (m->conf.rank == 0) {
		spw_coll_abort(m->coll);
		MEMBER_EXPECT(m, run(m, SPW_COLL_F32, 8) == -ECANCELED);
		return;
	}
	MEMBER_EXPECT(m, run(m, SPW_COLL_F32, 8) == -ECONNABORTED);
	MEMBER_EXPECT(m, strstr(spw_err_text(), "its program aborted it"));
}

static void an_abort_reaches_all(void **state SPW_UNUSED)
{
	for_each_size(one_aborts, SPW_COLL_THREAD);
}

/* ---- bad input ---- */

static void bad_calls(struct member *m)
{
	uint32_t data[16] = {0};
	bool done;
	const struct spw_coll_call good = {.count = 4, .in = data, .out = data};
	struct spw_coll_call c = good;

#define REFUSED(field, value, error)                                       \
	do {                                                               \
		c = good;                                                  \
		c.field = value;                                           \
		MEMBER_EXPECT(m, spw_coll_start(m->coll, &c) == -(error)); \
	} while (0)
	REFUSED(count, SPW_COLL_BYTES_MAX / 4 + 1, EMSGSIZE);
	REFUSED(count, UINT64_MAX, EMSGSIZE);
	c = good;
	c.count = UINT64_MAX;
	MEMBER_EXPECT(m, spw_coll_run(m->coll, &c) == -EMSGSIZE);
	c.count =
		SPW_COLL_BYTES_MAX; /* four pieces: the first would overwrite the second's input */
	c.out = (void *)((uintptr_t)data + SPW_COLL_BYTES_MAX);
	MEMBER_EXPECT(m, spw_coll_run(m->coll, &c) == -EINVAL);
	REFUSED(in, NULL, EINVAL);
	REFUSED(out, (uint8_t *)data + 1, EINVAL);
	REFUSED(out, data + 2, EINVAL);
	REFUSED(type, (enum spw_coll_type)3, EINVAL);
	REFUSED(op, (enum spw_coll_op)2, EINVAL);
	REFUSED(kind, (enum spw_coll_kind)2, EINVAL);
	MEMBER_EXPECT(m, !spw_coll_start(m->coll, &good));
	MEMBER_EXPECT(m, spw_coll_start(m->coll, &good) == -EBUSY);
	do
		MEMBER_EXPECT(m, !spw_coll_test(m->coll, &done));
	while (!done && !m->wrong[0]);
	MEMBER_EXPECT(m, spw_coll_launch(m->coll, &good, NULL) < 0);
}

static void bad_calls_are_refused(void **state SPW_UNUSED)
{
	for_each_size(bad_calls, SPW_COLL_CALLER);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_bit_with_a_proxy_thread),
		cmocka_unit_test(every_bit_without_a_thread),
		cmocka_unit_test(two_megabytes),
		cmocka_unit_test(long_calls_in_pieces),
		cmocka_unit_test(some_ranks_come_late),
		cmocka_unit_test(calls_that_differ_are_named),
		cmocka_unit_test(calls_of_other_lengths_are_named),
		cmocka_unit_test(a_silent_rank_is_named),
		cmocka_unit_test(who_stood_still_names_nobody),
		cmocka_unit_test(a_rank_that_left_is_named),
		cmocka_unit_test(an_abort_reaches_all),
		cmocka_unit_test(bad_calls_are_refused),
	};

	if (argc == 3) {
		first_cnt = (uint32_t)atoi(argv[1]);
		last_cnt = (uint32_t)atoi(argv[2]);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
