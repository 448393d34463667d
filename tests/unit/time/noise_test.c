/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Clocks on a machine that preempts both threads: a simulated NIC thread writes its clock to a
 * page, a control thread pairs it with ours, and each loses its core for 50 us to 4 ms, 2 % of the
 * time. Whatever the pairs are, the map must never be off by more than it states: else a stage's
 * latency could be negative. The same with a register that takes 3 us to read.
 */
#include "time/time_impl.h"
#include "unit_test.h"

#define REF_HZ  2000000000ull /* ours: two ticks to a nanosecond of the other clock */
#define MS      1000000ull    /* ns */
#define TURN_NS 150u          /* of the NIC thread: it reads its clock, works, writes the page */
#define SHOW_NS 60u           /* from reading the clock to writing the page, not preempted */
#define READ_NS 60u           /* a reading of the page */
#define MMIO_NS 1000u         /* one load from a register; a reading is three */
#define SEEDS   200u
#define PAIRS   250u

/* When a core is lost next: from .. to. */
struct core {
	uint64_t from, to, seed;
};

struct world {
	uint64_t now; /* true time, ns */
	struct core reader, nic;
	uint64_t nic_read; /* the NIC thread's last reading of its clock */
	uint64_t shown;    /* what the page shows */
	uint64_t show_at;
	uint64_t late_cnt; /* samples stored late: the NIC thread lost its core in between */
	int64_t off_ppb;   /* of our clock's rate */
	bool live;         /* a register, not a page */
};

static void core_next(struct core *core, bool noisy)
{
	uint64_t log2 = unit_random(&core->seed) % 7,
		 piece = (50000ull << log2) * (100 + unit_random(&core->seed) % 25) / 100;

	piece = SPW_MIN(piece, 4 * MS);
	core->from = noisy ? core->to + piece * 49 / 2 + unit_random(&core->seed) % (piece * 49)
			   : UINT64_MAX;
	core->to = noisy ? core->from + piece : UINT64_MAX;
}

/* When a thread on that core has worked for ns more. */
static uint64_t core_work(struct core *core, uint64_t now, uint64_t ns)
{
	while (core->to <= now)
		core_next(core, true);
	if (now >= core->from)
		now = core->to;
	return now + ns > core->from && now < core->from ? core->to + (now + ns - core->from)
							 : now + ns;
}

static uint64_t world_ref(const struct world *w, uint64_t ns)
{
	return 2 * ns + (uint64_t)((int64_t)ns * w->off_ppb / 500000000);
}

static uint64_t ref_now(void *arg)
{
	struct world *w = arg;

	w->now = core_work(&w->reader, w->now, 15);
	return world_ref(w, w->now);
}

static void nic_run(struct world *w)
{
	while (w->now > w->show_at + 20000 && w->nic.to < w->now) /* nobody read the page */
		core_next(&w->nic, true);
	if (SPW_MIN(w->now, w->nic.from) > w->show_at + 20000) {
		w->nic_read =
			SPW_MIN(w->now, w->nic.from) - 10000 - unit_random(&w->nic.seed) % TURN_NS;
		w->show_at = w->nic_read + SHOW_NS;
	}
	while (w->show_at <= w->now) {
		w->shown = w->nic_read;
		w->nic_read = core_work(&w->nic, w->show_at,
					TURN_NS - SHOW_NS + unit_random(&w->nic.seed) % 50);
		w->show_at = core_work(&w->nic, w->nic_read, SHOW_NS);
		w->late_cnt += w->show_at - w->nic_read > SHOW_NS;
	}
}

static int read_clock(void *arg, uint64_t *value_out)
{
	struct world *w = arg;
	uint32_t load = w->live ? MMIO_NS : READ_NS / 3;

	w->now = core_work(&w->reader, w->now, load);
	/* the low word is sampled in the middle of its load */
	w->now = core_work(&w->reader, w->now, load / 2);
	nic_run(w);
	*value_out = w->live ? w->now : w->shown;
	w->now = core_work(&w->reader, w->now, load / 2 + load);
	return 0;
}

static struct world world_make(uint64_t seed, bool live, bool noisy)
{
	struct world w = {.now = 1000 * MS,
			  .live = live,
			  .reader = {.seed = seed},
			  .nic = {.seed = seed + 1000}};

	w.off_ppb = (int64_t)(unit_random(&w.reader.seed) % 100000) - 50000;
	w.reader.to = w.nic.to = w.now;
	core_next(&w.reader, noisy);
	core_next(&w.nic, noisy);
	w.show_at = w.now;
	return w;
}

/* How far the map is off beyond what it states, at any moment of the next stretch. */
static void check_map(const struct world *w, const struct spw_clock_map *map, uint64_t stretch,
		      uint64_t seed)
{
	for (uint32_t i = 0; i < 20; i++) {
		uint64_t ns = w->now + unit_random(&seed) % stretch;
		int64_t off = (int64_t)(spw_clock_map_ref(map, ns) - world_ref(w, ns));
		uint64_t far = (uint64_t)(off < 0 ? -off : off), unc = spw_clock_map_unc(map, ns);

		if (far > unc)
			fail_msg("off by %lld, stated %llu", (long long)off,
				 (unsigned long long)unc);
	}
}

/* Takes pairs as lib/topo/clocks.c does. Returns: the stated uncertainty at the end of the run.
 */
static uint64_t one_run(struct world *w, uint64_t *rejected)
{
	struct spw_clock_pair pair;
	struct spw_clock_fit fit;

	assert_int_equal(spw_clock_fit_init(&fit, 1000000000, REF_HZ, 1000000, 100), 0);
	for (uint32_t i = 0; i < PAIRS; i++) {
		uint64_t rest = i < 8 ? 50000 : i < 40 ? 20 * MS : 100 * MS;

		if (time_pair_step(ref_now, read_clock, w, 10, 2000, &pair) == 0)
			spw_clock_fit_add(&fit, &pair);
		if (fit.cnt >= 8) /* ports start with that many */
			check_map(w, &fit.map, rest, i);
		w->now = core_work(&w->reader, w->now, rest);
	}
	*rejected += fit.rejected_cnt;
	return spw_clock_map_unc_at(&fit.map, world_ref(w, w->now));
}

static void a_page_on_a_noisy_machine(void **state)
{
	uint64_t rejected = 0, wide = 0, late = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct world w = world_make(seed, false, true);

		wide += one_run(&w, &rejected) > 2000; /* a microsecond */
		late += w.late_cnt;
	}
	assert_true(late > SEEDS); /* the noise is there */
	assert_true(rejected < SEEDS / 20);
	assert_true(wide < SEEDS / 20);
}

static void a_register_on_a_noisy_machine(void **state)
{
	uint64_t rejected = 0, wide = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct world w = world_make(seed, true, true);

		/* half a reading, in ticks, and the drift until the next pair */
		wide += one_run(&w, &rejected) > 3 * MMIO_NS + 500;
	}
	assert_int_equal(rejected, 0); /* its brackets are always true */
	assert_int_equal(wide, 0);
}

/* A register's pair is half a reading wide and unbiased; a page's is as wide as the page is old. */
static void each_clock_is_bracketed_its_way(void **state)
{
	struct spw_clock_pair pair;

	(void)state;
	for (int live = 0; live < 2; live++) {
		struct world w = world_make(7 + (uint64_t)live, live, false);
		double bias = 0, unc = 0;

		for (int i = 0; i < 500; i++) {
			assert_int_equal(time_pair_step(ref_now, read_clock, &w, 10, 2000, &pair),
					 0);
			bias += (double)(int64_t)(pair.ref - world_ref(&w, pair.other)) / 500;
			unc += (double)pair.unc / 500;
			w.now += MS + unit_random(&w.reader.seed) % 1000;
		}
		assert_true(unc <= (live ? 3 * MMIO_NS + 100 : 400)); /* ticks */
		assert_true(bias < (live ? 100 : 2 * SHOW_NS + 200) && bias > -100);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_clock_is_bracketed_its_way),
		cmocka_unit_test(a_register_on_a_noisy_machine),
		cmocka_unit_test(a_page_on_a_noisy_machine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
