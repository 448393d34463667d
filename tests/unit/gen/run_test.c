/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The sender's loop against a port that counts: what it does between two checks of its schedule is
 * bounded, whatever comes in. Nothing here is measured in time: a busy machine makes the loop
 * slower and not longer.
 */
#include <time.h>

#include "unit_test.h"

#include "gen/spw_gen_sum.h"
#include "mem/spw_mem.h"
#include "pool/spw_pool.h"

#define SLOTS      2048u
#define SLOT_BYTES 2048u
#define WAITS      1000u
#define STILL_NS   200000000
#define CIRCLES    20000000u /* far more polls than the wait of a sink has room for */

static struct {
	struct spw_region region;
	struct spw_pool pool;
	struct spw_port_queue queue;
	struct spw_tsc tsc;
	struct gen_run run;
	struct gen_run *all[1];
	uint32_t stop;
	/* the port: what was sent comes back in order, and with flood strangers fill each burst up
	 */
	struct spw_desc back[SLOTS];
	uint32_t back_cnt, back_max;
	bool flood;
	bool deaf, stopped;      /* nothing comes back; a signal comes with the first frame */
	bool still;              /* nothing comes back before the first poll after the plan, which
				    takes longer than the wait */
	bool circles;            /* after the plan an old frame comes with each poll, for a sink */
	uint32_t waits, signals; /* polls after the plan; at WAITS of them a signal comes */
	uint64_t call_tsc;       /* when the port was called last */
	uint64_t steps_too_many; /* frames were read although one was due before the port was
				    called before that */
	uint64_t strangers, most_looked_at;
	uint64_t warm_up_ns;
	struct spw_trail trail;
	bool naps;                             /* the first poll takes longer than the warm-up */
	const enum spw_port_event_kind *event; /* that it reports, one a call */
	uint32_t event_cnt;
} t;

/* Readings of the counter need not be in the order of the program to the nanosecond. */
static bool was_due_at(uint64_t tsc)
{
	const struct gen_run *run = &t.run;
	uint64_t due_ns = (gen_plan_peek(&run->plan)->due_fp >> GEN_FRAC_BITS) + 200;

	return due_ns < run->end_ns && run->start_tsc + spw_tsc_from_ns(run->tsc, due_ns) < tsc;
}

static uint16_t lend(void *q, uint32_t *slot, uint16_t cnt)
{
	(void)q;
	return (uint16_t)spw_pool_get(&t.pool, slot, cnt);
}

/* Number 10000 of flow 0, then number 0 for ever: an echo that has left the window is not known to
 * be the same one again, and counts each time. */
static uint16_t old_frame(struct spw_desc *desc)
{
	struct gen_mark mark = {.seq = t.waits == 1 ? 10000 : 0};

	if (!spw_pool_get(&t.pool, &desc->slot, 1))
		return 0;
	gen_frame_write(&t.run.headers, spw_pool_slot_addr(&t.pool, desc->slot), 64, &mark);
	desc->offset = 0;
	desc->len = 64;
	desc->flags = 0;
	return 1;
}

static uint16_t rx(void *q, struct spw_desc *desc, uint16_t cnt)
{
	uint16_t n = (uint16_t)SPW_MIN(t.back_cnt, cnt);
	uint32_t slot;

	(void)q;
	t.call_tsc = spw_tsc_now();
	if (t.run.sent_all && ++t.waits == (t.circles ? CIRCLES : WAITS))
		t.stop = ++t.signals;
	if (t.naps)
		nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
	t.naps = false;
	if (t.circles)
		return t.run.sent_all ? old_frame(desc) : 0;
	if (t.still && t.waits < 2) {
		if (t.waits)
			nanosleep(&(struct timespec){.tv_nsec = STILL_NS}, NULL);
		return 0;
	}
	memcpy(desc, t.back, n * sizeof(*desc));
	t.back_cnt -= n;
	memmove(t.back, t.back + n, t.back_cnt * sizeof(*t.back));
	while (t.flood && n < cnt && spw_pool_get(&t.pool, &slot, 1)) {
		desc[n++] = (struct spw_desc){.slot = slot, .len = 64};
		memset(spw_pool_slot_addr(&t.pool, slot), 0xa5, 64);
		t.strangers++;
	}
	return n;
}

static void release(void *q, const uint32_t *slot, uint16_t cnt)
{
	(void)q;
	/* While a frame is due, only what is owed to the echoes of those that left before it is
	 * done. */
	if (t.run.ran_ns == 0) { /* the plan is not over */
		t.steps_too_many += t.run.owed_cnt == 0 && was_due_at(t.call_tsc);
		t.most_looked_at = SPW_MAX(t.most_looked_at, cnt);
	}
	t.call_tsc = spw_tsc_now();
	spw_pool_put(&t.pool, slot, cnt);
}

static uint16_t tx(void *q, struct spw_desc **desc, uint16_t cnt)
{
	(void)q;
	if (t.stopped && t.signals == 0)
		t.stop = ++t.signals;
	for (uint16_t i = 0; i < cnt; i++)
		if (t.deaf)
			spw_pool_put(&t.pool, &desc[i]->slot, 1);
		else
			t.back[t.back_cnt++] = *desc[i];
	t.back_max = SPW_MAX(t.back_max, t.back_cnt);
	t.call_tsc = spw_tsc_now();
	return cnt;
}

static uint16_t events(void *q, struct spw_port_event *event, uint16_t cnt)
{
	(void)q;
	if (t.event_cnt == 0 || cnt == 0)
		return 0;
	*event = (struct spw_port_event){.kind = *t.event++};
	t.stop = --t.event_cnt == 0; /* the plan has no end of its own */
	return 1;
}

static int set_up(void **state)
{
	struct spw_mem_req req = {
		.kind = SPW_MEM_HOST, .bytes = (size_t)SLOTS * SLOT_BYTES, .numa_node = -1};

	(void)state;
	memset(&t, 0, sizeof(t));
	t.all[0] = &t.run;
	t.queue = (struct spw_port_queue){.rx_burst = rx,
					  .release_burst = release,
					  .tx_burst = tx,
					  .events = events,
					  .lend_burst = lend};
	assert_int_equal(spw_tsc_calibrate(20, &t.tsc), 0);
	assert_int_equal(spw_region_alloc(&req, &t.region), 0);
	assert_int_equal(spw_pool_init(&t.pool, &t.region, 0, SLOT_BYTES, SLOTS), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	gen_run_fini(&t.run);
	spw_trail_close(&t.trail);
	assert_int_equal(spw_pool_fini(&t.pool), 0);
	spw_region_free(&t.region);
	return 0;
}

static void run_at(double rate_fps, uint64_t seconds_ns, uint64_t probe_ns)
{
	struct gen_run_conf conf = {.plan = {.gaps = GEN_CONSTANT,
					     .rate_fps = rate_fps,
					     .sizes = GEN_SIZE_FIXED,
					     .size_min = 64,
					     .size_max = 64,
					     .flow_cnt = 4},
				    .tsc = &t.tsc,
				    .seconds_ns = seconds_ns,
				    .probe_ns = probe_ns,
				    .warm_up_ns = t.warm_up_ns,
				    .trail = t.trail.rec ? &t.trail : NULL,
				    .linger_ns = t.circles ? 200000000
						 : t.deaf  ? UINT64_MAX
						 : t.still ? STILL_NS / 2
							   : 1000000000,
				    .slow_ns = 100000,
				    .expect_echo = !t.circles,
				    .stop = &t.stop};

	assert_int_equal(gen_run_init(&t.run, &conf, &t.queue, &t.pool, 0, t.all, 1), 0);
	gen_run(&t.run);
}

/* Twenty frames a millisecond are due while a full burst of strangers lies in the port at every
 * poll. */
static void a_due_frame_waits_for_one_step(void **state)
{
	(void)state;
	t.flood = true;
	run_at(20e3, 200000000, 0);
	assert_true(t.run.count.sent_frames > 0);
	assert_int_equal(t.steps_too_many, 0);
	assert_in_range(t.most_looked_at, 1, 4);
	assert_int_equal(t.run.count.echoed_frames, t.run.count.sent_frames);
	assert_int_equal(t.run.count.foreign, t.strangers);
}

/* More is due than it can send: what comes back is taken in all the same, as much as leaves. */
static void who_is_behind_does_not_starve_the_echoes(void **state)
{
	(void)state;
	run_at(1e9, 20000000, 0);
	assert_true(t.run.count.sent_frames < t.run.intended_frames);
	assert_in_range(t.back_max, 1, GEN_TX_BURST + GEN_RX_BURST);
	assert_int_equal(t.run.count.echoed_frames, t.run.count.sent_frames);
}

/* Echoes that never come are awaited until the next signal. */
static void deaf_until_signal(uint32_t signals)
{
	t.deaf = true;
	run_at(20e3, 10000000, 0);
	assert_true(t.run.count.sent_frames > 0);
	assert_int_equal(t.run.count.echoed_frames, 0);
	assert_int_equal(t.signals, signals);
	assert_true(t.waits >= WAITS);
}

static void a_signal_ends_the_wait(void **state)
{
	(void)state;
	deaf_until_signal(1);
}

/* The first one has ended the plan. */
static void a_second_signal_ends_the_wait(void **state)
{
	(void)state;
	t.stopped = true;
	deaf_until_signal(2);
}

/* The lcore stands still for longer than it would wait: what came back meanwhile is not lost. */
static void what_came_during_a_pause_is_read(void **state)
{
	(void)state;
	t.still = true;
	run_at(2e3, 50000000, 0);
	assert_true(t.run.count.sent_frames > 0);
	assert_int_equal(t.run.count.echoed_frames, t.run.count.sent_frames);
}

/* The path has a loop in it: what circles there is no reason for a sink to wait longer. */
static void frames_that_circle_do_not_prolong_the_wait(void **state)
{
	(void)state;
	t.deaf = t.circles = true;
	run_at(20e3, 10000000, 0);
	assert_true(t.waits > 2);
	assert_int_equal(t.run.track.flow[0].late, t.run.count.echoed_frames - 1);
	assert_int_equal(t.signals, 0);
}

/* A link that goes is counted when it goes, not each time that somebody says so. */
static void a_link_that_goes_is_counted(void **state)
{
	static const enum spw_port_event_kind happens[] = {
		SPW_PORT_EVENT_LINK_UP,     SPW_PORT_EVENT_LINK_DOWN, SPW_PORT_EVENT_PEER_DOWN,
		SPW_PORT_EVENT_QUEUE_ERROR, SPW_PORT_EVENT_LINK_UP,   SPW_PORT_EVENT_DEVICE_GONE};
	static struct gen_sum sum;

	(void)state;
	t.event = happens;
	t.event_cnt = SPW_ARRAY_CNT(happens);
	run_at(1e3, 60000000000, 0);
	assert_int_equal(t.event_cnt, 0);
	assert_int_equal(t.run.link_down, 1);
	assert_int_equal(gen_sum_init(&sum, t.all, 1), 0);
	assert_int_equal(sum.count.link_downs, 2);
	gen_sum_fini(&sum);
}

static uint64_t sum_of(const struct gen_gap *gap)
{
	uint64_t cnt = 0;

	for (int d = 0; d < GEN_DOING_CNT; d++)
		cnt += gap->longer[d].cnt;
	return cnt;
}

/* The gaps are cut out of one stretch of time: they add up to it. Long ones are those of the
 * histogram. */
static void gaps_add_up_to_the_run(void **state)
{
	static struct gen_sum sum;
	uint64_t value, begin = spw_tsc_now(), outside_ns;

	(void)state;
	run_at(100e3, 30000000, 10000000);
	outside_ns = spw_tsc_to_ns(&t.tsc, spw_tsc_now() - begin);
	assert_in_range(gen_gap_total_ns(&t.run.alone), 10000000, outside_ns);
	assert_in_range(gen_gap_total_ns(&t.run.gap) + gen_gap_total_ns(&t.run.alone), 10000000,
			outside_ns);
	assert_int_equal(gen_sum_init(&sum, t.all, 1), 0);
	assert_int_equal(spw_hist_percentile(&sum.gap.by_time_ns, SPW_HIST_PPM, 0, &value),
			 SPW_HIST_VALUE);
	assert_int_equal(value > GEN_GAP_LONG_NS, sum_of(&sum.gap) > 0);
	assert_int_equal(sum.core_alone.count, gen_gap_total_ns(&t.run.alone));
	gen_sum_fini(&sum);
}

/* It is in no percentile, but made frames late that are: the trail has to say so. */
static void the_trail_has_the_gap_that_outlasts_the_warm_up(void **state)
{
	uint64_t end_tsc, found = 0;

	(void)state;
	t.naps = true;
	t.warm_up_ns = 20000000;
	assert_int_equal(spw_trail_open(&t.trail, 1), 0);
	run_at(1e3, 50000000, 0);
	end_tsc = t.run.start_tsc + spw_tsc_from_ns(&t.tsc, t.warm_up_ns);
	for (uint64_t i = 0; i < t.trail.cnt; i++) {
		const struct spw_trail_rec *rec = &t.trail.rec[i];

		found += rec->kind == SPW_TRAIL_GAP && rec->at[0] < end_tsc &&
			 rec->at[1] >= end_tsc;
	}
	assert_int_equal(found, 1);
}

/* A gap of 5 us counts for 5000 moments, and what the loop did in it is remembered. */
static void a_gap_weighs_what_it_lasts(void **state)
{
	static struct gen_gap gap, both;
	uint64_t value;

	(void)state;
	for (int i = 0; i < 1000; i++)
		gen_gap_note(&gap, GEN_DOING_poll, 50);
	gen_gap_note(&gap, GEN_DOING_check, 5000);
	gen_gap_note(&gap, GEN_DOING_send, 1000); /* not longer than 1 us */
	assert_int_equal(gen_gap_total_ns(&gap), 56000);
	assert_int_equal(spw_hist_percentile(&gap.by_time_ns, 890000, 0, &value), SPW_HIST_VALUE);
	assert_int_equal(value, 50);
	assert_int_equal(spw_hist_percentile(&gap.by_time_ns, 990000, 0, &value), SPW_HIST_VALUE);
	assert_int_equal(value, 5000);
	gen_gap_merge(&both, &gap);
	gen_gap_merge(&both, &gap);
	assert_int_equal(both.longer[GEN_DOING_check].cnt, 2);
	assert_int_equal(both.longer[GEN_DOING_check].worst_ns, 5000);
	assert_int_equal(sum_of(&both), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_due_frame_waits_for_one_step, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_is_behind_does_not_starve_the_echoes, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(gaps_add_up_to_the_run, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_signal_ends_the_wait, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_second_signal_ends_the_wait, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_came_during_a_pause_is_read, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(frames_that_circle_do_not_prolong_the_wait, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_link_that_goes_is_counted, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_trail_has_the_gap_that_outlasts_the_warm_up,
						set_up, tear_down),
		cmocka_unit_test(a_gap_weighs_what_it_lasts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
