/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Faults hit as often as requested, hit the same frames in each run, and account for every frame.
 * RSS hashes match Microsoft's published ones.
 */
#include <errno.h>

#include "softhca/inject/fault.h"
#include "softhca/nic/eth/eth.h"
#include "unit_test.h"

/* A cable that counts what it carries. */
struct sink {
	struct cable c;
	uint32_t cnt, bad, late, highest;
	uint64_t digest;
	uint32_t every; /* 0, or it has room for one of so many requests only */
	uint32_t asked;
	uint8_t buf[CABLE_FRAME_MAX];
};

static uint8_t *sink_reserve(struct cable *c, const uint8_t *dmac, uint32_t dqpn, uint32_t len)
{
	struct sink *s = (struct sink *)c;

	(void)dmac, (void)dqpn, (void)len;
	return !s->every || ++s->asked % s->every == 0 ? s->buf : NULL;
}

static void sink_commit(struct cable *c, uint32_t flags)
{
	struct sink *s = (struct sink *)c;
	uint32_t number, copy;

	(void)flags;
	memcpy(&number, s->buf + 14, 4);
	memcpy(&copy, s->buf + 18, 4);
	s->cnt++;
	s->bad += number != copy;
	s->late += number == copy && number < s->highest;
	if (number == copy && number > s->highest)
		s->highest = number;
	s->digest = (s->digest ^ number) * 1099511628211ull;
}

static const struct cable_ops sink_ops = {.tx_reserve = sink_reserve, .tx_commit = sink_commit};

static void run(const char *text, uint32_t every, struct sink *s, uint64_t hits[FAULT_HIT_CNT])
{
	struct fault f;

	memset(s, 0, sizeof(*s));
	s->every = every;
	s->c.ops = &sink_ops;
	assert_int_equal(fault_init(&f, text, 42), 0);
	for (uint32_t i = 0; i < 100000; i++) {
		uint8_t *p;

		do
			p = fault_tx_reserve(&f, &s->c, NULL, 0, 22);
		while (!p);
		memset(p, 0, 22);
		memcpy(p + 14, &i, 4);
		memcpy(p + 18, &i, 4);
		fault_tx_commit(&f, &s->c, p, 22, i * 1000ull);
	}
	while (f.queued_cnt)
		fault_tick(&f, &s->c, UINT64_MAX);
	memcpy(hits, f.hit_cnt, sizeof(f.hit_cnt));
	fault_fini(&f);
}

static void shares_are_kept_and_repeat(void **state)
{
	static struct sink a, b;
	uint64_t hits[FAULT_HIT_CNT], again[FAULT_HIT_CNT];

	(void)state;
	run("loss=0.01,dup=0.02,reorder=0.03,corrupt=0.005,delay=0.01:50us", 0, &a, hits);
	assert_in_range(hits[FAULT_HIT_LOST], 850, 1150);
	assert_in_range(hits[FAULT_HIT_DUP], 1700, 2300);
	assert_in_range(hits[FAULT_HIT_REORDER], 2600, 3400);
	assert_in_range(hits[FAULT_HIT_CORRUPT], 400, 600);
	assert_in_range(hits[FAULT_HIT_DELAY], 800, 1200);
	assert_int_equal(a.cnt, 100000 - hits[FAULT_HIT_LOST] + hits[FAULT_HIT_DUP]);
	assert_true(a.bad >= hits[FAULT_HIT_CORRUPT] &&
		    a.bad <= hits[FAULT_HIT_CORRUPT] + 20); /* a corrupted one may be sent twice */
	assert_in_range(a.late, 2000, 6000);
	run("loss=0.01,dup=0.02,reorder=0.03,corrupt=0.005,delay=0.01:50us", 0, &b, again);
	assert_memory_equal(hits, again, sizeof(hits));
	assert_int_equal(a.digest, b.digest);
	run("seed=43,loss=0.01,dup=0.02,reorder=0.03,corrupt=0.005,delay=0.01:50us", 0, &b, again);
	assert_int_not_equal(a.digest, b.digest);
}

/* A cable that is often full loses nothing but second copies. */
static void full_cable_is_waited_for(void **state)
{
	static struct sink s;
	uint64_t hits[FAULT_HIT_CNT];

	(void)state;
	run("loss=0.01,dup=0.02,reorder=0.03,delay=0.01:50us", 3, &s, hits);
	assert_int_equal(s.cnt + s.c.stat.tx_dropped,
			 100000 - hits[FAULT_HIT_LOST] + hits[FAULT_HIT_DUP]);
	assert_true(s.c.stat.tx_dropped <= hits[FAULT_HIT_DUP]);
}

static void wrong_words_are_refused(void **state)
{
	static const char *const wrong[] = {"loss",        "loss=",
					    "loss=2",      "loss=-1",
					    "loss=x",      "lost=0.1",
					    "delay=0.1",   "delay=0.1:5parsecs",
					    "at=1s",       "at=x:hold",
					    "loss=nan",    "at=1s:nosuch",
					    "at=1s:rnr",   "at=1s:qp-error=x",
					    "at=1s:kill=9"};
	struct fault f;

	(void)state;
	assert_int_equal(fault_init(&f, "", 1), 0);
	assert_false(f.on);
	for (unsigned i = 0; i < SPW_ARRAY_CNT(wrong); i++)
		assert_int_equal(fault_set(&f, wrong[i]), -EINVAL);
	assert_int_equal(fault_time_ns("150us"), 150000);
	assert_int_equal(fault_time_ns("1.5ms"), 1500000);
	assert_int_equal(fault_time_ns("5"), -1);
	fault_fini(&f);
}

/* "Verifying the RSS hash calculation", Microsoft. */
static void rss_matches_the_published_hashes(void **state)
{
	static const uint8_t key[40] = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
					0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
					0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
					0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};
	static const struct {
		uint8_t in[12];
		uint32_t ip, ip_port;
	} v[] = {
		{{66, 9, 149, 187, 161, 142, 100, 80, 2794 >> 8, 2794 & 255, 1766 >> 8, 1766 & 255},
		 0x323e8fc2,
		 0x51ccc178},
		{{199, 92, 111, 2, 65, 69, 140, 83, 14230 >> 8, 14230 & 255, 4739 >> 8, 4739 & 255},
		 0xd718262a,
		 0xc626b0ea},
	};

	(void)state;
	for (unsigned i = 0; i < SPW_ARRAY_CNT(v); i++) {
		assert_int_equal(rss_toeplitz(key, sizeof(key), v[i].in, 8), v[i].ip);
		assert_int_equal(rss_toeplitz(key, sizeof(key), v[i].in, 12), v[i].ip_port);
	}
}

/* Discards hit the requested share of arriving frames, the same ones for the same seed, and do not
 * touch frames that leave. */
static void discards_a_share(void **state)
{
	struct fault f, g;
	uint32_t hits = 0;

	(void)state;
	assert_int_equal(fault_init(&f, "discard=0.25", 7), 0);
	assert_int_equal(fault_init(&g, "discard=0.25", 7), 0);
	assert_false(f.on);
	for (uint32_t i = 0; i < 10000; i++) {
		const bool hit = fault_discards(&f);

		assert_int_equal(fault_discards(&g), hit);
		hits += hit;
	}
	assert_in_range(hits, 2300, 2700);
	fault_fini(&f);
	fault_fini(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(discards_a_share),
		cmocka_unit_test(shares_are_kept_and_repeat),
		cmocka_unit_test(full_cable_is_waited_for),
		cmocka_unit_test(wrong_words_are_refused),
		cmocka_unit_test(rss_matches_the_published_hashes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
