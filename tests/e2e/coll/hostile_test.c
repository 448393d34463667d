/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The last rank of a group is hostile: it writes what it likes into the windows that it was given.
 * The others never take a wrong contribution of an honest rank for right, name the hostile one
 * where it is found out, and stay within their memory.
 */
#include "base/spw_monotonic.h"
#include "group.h"

#include <errno.h>
#include <stdio.h>

#include "coll/coll.h"
#include "numbers.h"

#define RANKS   3u
#define HOSTILE (RANKS - 1)
#define ROUND   3u /* in which it begins */
#define COUNT   100u
#define WAIT_NS 20000000000ull
/* For a flag that never comes; a machine that stands still for less is not the culprit. */
#define SHORT_NS 2000000000ull

/* One forged put to every other rank. */
struct forgery {
	const char *name;
	struct spw_coll_head head; /* added to what is right */
	uint64_t session, round;   /* of the flag, added likewise */
	int error; /* what the others must find, or -ECONNABORTED from a note; 0: none */
};

static void gather(struct member *m, uint64_t round)
{
	member_call(m, &(struct spw_coll_call){.kind = SPW_COLL_ALL_GATHER, .count = COUNT}, round);
}

/* Rounds 1 .. rounds: forgery that overtook an honest put would end them. Staging is free then. */
static void play_fair(struct member *m, uint64_t rounds)
{
	for (uint64_t round = 1; round <= rounds; round++)
		gather(m, round);
	member_meet(m);
}

static void put_to_all(struct member *m, uint32_t window, uint64_t offset, uint64_t bytes,
		       uint64_t flag)
{
	struct spw_coll *c = m->coll;
	const uint64_t end = spw_monotonic_ns() + WAIT_NS;

	for (uint32_t i = 0; i < HOSTILE; i++) {
		const struct spw_xfer_access a = {.window = c->peer[i].window[window],
						  .offset = offset,
						  .mem = c->mem,
						  .addr = c->stage[0],
						  .bytes = bytes,
						  .flag = flag};
		struct spw_xfer_req *req;
		bool done = false;

		/* A rank that has found enough, or waited enough, ends its connection. */
		if (spw_xfer_put(c->peer[i].conn, &a, &req) < 0)
			continue;
		while (!done && spw_monotonic_ns() < end) {
			spw_xfer_progress(c->x);
			(void)spw_xfer_test(req, &done, NULL);
		}
	}
}

/* ---- one forgery ---- */

static const struct forgery forgeries[] = {
	{"nothing is wrong", {0}, 0, 0, 0},
	{"the head of another session", {.session = 1}, 0, 0, -EPROTO},
	{"the head of the round two before", {.round = -2ull}, 0, 0, -EPROTO},
	{"another rank's head", {.rank = (uint8_t)-1}, 0, 0, -EPROTO},
	{"another version", {.version = 1}, 0, 0, -EPROTO},
	{"a count that would overflow", {.count = UINT64_MAX / 4}, 0, 0, -EBADMSG},
	{"another type", {.type = SPW_COLL_F16}, 0, 0, -EBADMSG},
	{"a type that there is not", {.type = 200}, 0, 0, -EBADMSG},
	{"an operation that there is not", {.op = 77}, 0, 0, -EBADMSG},
	{"a flag of another session", {0}, 1, 0, -ETIMEDOUT},
	{"a flag of the round before the last", {0}, 0, -2ull, -ETIMEDOUT},
	{"a flag of a round to come", {0}, 0, 2, -ETIMEDOUT},
};

static void forge(struct member *m, const struct forgery *f)
{
	const uint32_t slot = spw_coll_slot(ROUND);
	const struct spw_coll_call call = {.kind = SPW_COLL_ALL_GATHER, .count = COUNT};
	struct spw_coll_head h = coll_head_of(m->coll, &call, call.count, ROUND);

	h.session += f->head.session;
	h.round += f->head.round;
	h.count += f->head.count;
	h.version = (uint8_t)(h.version + f->head.version);
	h.rank = (uint8_t)(h.rank + f->head.rank);
	h.type = (uint8_t)(h.type + f->head.type);
	h.op = (uint8_t)(h.op + f->head.op);
	memcpy(m->coll->stage[0], &h, sizeof(h));
	numbers_fill(m->coll->stage[0] + sizeof(h), COUNT, SPW_COLL_F32, HOSTILE, ROUND);
	put_to_all(m, slot, SPW_COLL_FLAG_BYTES, sizeof(h) + 4 * COUNT,
		   spw_coll_flag(h.session - f->head.session + f->session, ROUND + f->round));
}

static void one_forgery(struct member *m)
{
	const struct forgery *f = m->g->arg;
	uint32_t in[COUNT] = {0}, out[RANKS * COUNT];
	const struct spw_coll_call call = {
		.kind = SPW_COLL_ALL_GATHER, .count = COUNT, .in = in, .out = out};
	const uint64_t end = spw_monotonic_ns() + WAIT_NS;
	int rc;

	play_fair(m, ROUND - 1);
	if (m->conf.rank == HOSTILE) {
		forge(m, f);
		/* stays until the others have seen it */
		while (f->error && !spw_coll_error(m->coll) && spw_monotonic_ns() < end)
			spw_coll_progress(m->coll);
		return;
	}
	if (!f->error) {
		gather(m, ROUND);
		return;
	}
	if (f->error == -ETIMEDOUT)
		m->coll->timeout_ns = SHORT_NS;
	memset(out, 0xee, sizeof(out));
	rc = spw_coll_run(m->coll, &call);
	MEMBER_EXPECT(m, rc == f->error || rc == -ECONNABORTED);
	MEMBER_EXPECT(m, strstr(spw_err_text(), "rank 2 ("));
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(out); i++)
		MEMBER_EXPECT(m, out[i] == 0xeeeeeeeeu);
}

static void forged_heads_and_flags(void **state SPW_UNUSED)
{
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(forgeries); i++) {
		struct forgery f = forgeries[i];
		struct group g = {.rank_cnt = RANKS,
				  .part = one_forgery,
				  .arg = &f,
				  .progress = SPW_COLL_CALLER,
				  .bytes_max = 4096,
				  .timeout_ms = 20000};

		print_message("%s\n", f.name);
		group_run(&g);
	}
}

/* ---- forged notes ---- */

static void one_note(struct member *m)
{
	const uint64_t *end = m->g->arg;
	uint32_t word = 0;
	const struct spw_coll_call call = {.count = 1, .in = &word, .out = &word};
	int rc;

	play_fair(m, 1);
	if (m->conf.rank == HOSTILE) {
		const struct coll_note note = {.session = 7, .end = *end, .by = *end};

		memcpy(m->coll->stage[0], &note, sizeof(note));
		put_to_all(m, COLL_NOTE, SPW_COLL_FLAG_BYTES, sizeof(note),
			   spw_coll_flag(m->coll->session, COLL_NO_ROUND));
		return;
	}
	rc = spw_coll_run(m->coll, &call);
	MEMBER_EXPECT(m, rc == -ECONNABORTED || rc == -ECONNRESET);
	MEMBER_EXPECT(m, strstr(spw_err_text(), "ended"));
	MEMBER_EXPECT(m, !(spw_coll_lost(m->coll) & ~((1u << RANKS) - 1u)));
	MEMBER_EXPECT(m, !(spw_coll_lost(m->coll) >> m->conf.rank & 1u));
}

static void forged_notes(void **state SPW_UNUSED)
{
	uint64_t seed = 5;

	for (uint32_t i = 0; i < 12; i++) {
		uint64_t end = i < SPW_COLL_STATUS_CNT + 1
				       ? spw_coll_end_word(9, (enum spw_coll_status)i, 0xff)
				       : unit_random(&seed);
		struct group g = {.rank_cnt = RANKS,
				  .part = one_note,
				  .arg = &end,
				  .progress = SPW_COLL_CALLER,
				  .bytes_max = 4096,
				  .timeout_ms = 20000};

		group_run(&g);
	}
}

/* ---- noise ---- */

/* Random bytes at random places of its windows, the right flags among them, while the others
 * gather: what they get from honest ranks is right as long as they get anything. */
static void noise(struct member *m)
{
	uint32_t mine[COUNT], all[RANKS * COUNT], want[COUNT];
	const struct spw_coll_call call = {
		.kind = SPW_COLL_ALL_GATHER, .count = COUNT, .in = mine, .out = all};

	for (uint64_t round = 1; round <= 40 && !m->wrong[0]; round++) {
		if (m->conf.rank == HOSTILE) {
			const uint64_t r = unit_random(&m->seed);
			struct spw_coll_head h = coll_head_of(m->coll, &call, call.count, round);

			memcpy(m->coll->stage[0], &h, sizeof(h));
			for (uint32_t i = 0; i < 4 * COUNT; i++)
				m->coll->stage[0][sizeof(h) + i] = (uint8_t)unit_random(&m->seed);
			if (r % 32 == 0)
				m->coll->stage[0][r / 32 % sizeof(h)] ^=
					(uint8_t)(1u << r / 4096 % 8);
			put_to_all(m, spw_coll_slot(round), SPW_COLL_FLAG_BYTES,
				   sizeof(h) + 4 * COUNT, spw_coll_flag(m->coll->session, round));
			put_to_all(m, spw_coll_slot(round),
				   SPW_COLL_FLAG_BYTES + sizeof(h) + r % 300, r % 100,
				   spw_coll_flag(m->coll->session, round));
			continue;
		}
		numbers_fill(mine, COUNT, SPW_COLL_F32, m->conf.rank, round);
		if (spw_coll_run(m->coll, &call))
			return;
		for (uint32_t i = 0; i < HOSTILE; i++) {
			numbers_fill(want, COUNT, SPW_COLL_F32, i, round);
			MEMBER_EXPECT(m, !memcmp(all + i * COUNT, want, sizeof(want)));
		}
	}
}

static void noise_of_one_rank_hurts_no_other(void **state SPW_UNUSED)
{
	for (uint32_t i = 0; i < 5; i++) {
		struct group g = {.rank_cnt = RANKS,
				  .part = noise,
				  .progress = SPW_COLL_CALLER,
				  .bytes_max = 4096,
				  .timeout_ms = 400};

		group_run(&g);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forged_heads_and_flags),
		cmocka_unit_test(forged_notes),
		cmocka_unit_test(noise_of_one_rank_hurts_no_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
