/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A sender's trail over a port whose NIC stamps what it receives and reports what it has sent. The
 * answers are what the test's NIC did: its clock counts the frames that it took.
 */
#include <stdlib.h>

#include "unit_test.h"

#include "gen/spw_gen_run.h"
#include "mem/spw_mem.h"
#include "pool/spw_pool.h"

#define SLOTS      1024u
#define SLOT_BYTES 2048u
#define SENT_CNT   64u
#define FLOWS      6u
#define SENDERS    2u
#define ECHO_STAMP 1000000u /* frame n comes back at that + n on the NIC's clock */

/* One of two senders' queues; frames of both numbers, flows and pools are apart. */
struct queue {
	struct spw_port_queue pq;
	struct spw_pool pool;
	struct spw_port_done done[SENT_CNT];
	struct spw_port_sent sent;
	struct spw_desc back[SLOTS];
	uint32_t back_cnt;
	uint64_t taken, reported; /* frames */
	uint32_t refuse;          /* of each burst */
};

static struct {
	struct spw_region region;
	struct spw_tsc tsc;
	struct queue queue[SENDERS];
	struct gen_run run[SENDERS];
	struct gen_run *all[SENDERS];
	struct spw_trail trail[SENDERS];
	struct spw_clock_box clock;
	struct spw_clock_map map;
	const struct spw_port_sent *sent[SENDERS];
	uint32_t stop;
} t;

/* ---- the port ---- */

static uint16_t lend(void *vq, uint32_t *slot, uint16_t cnt)
{
	return (uint16_t)spw_pool_get(&((struct queue *)vq)->pool, slot, cnt);
}

static void release(void *vq, const uint32_t *slot, uint16_t cnt)
{
	spw_pool_put(&((struct queue *)vq)->pool, slot, cnt);
}

static uint16_t rx(void *vq, struct spw_desc *desc, uint16_t cnt)
{
	struct queue *q = vq;
	uint16_t n = (uint16_t)SPW_MIN(q->back_cnt, cnt);

	memcpy(desc, q->back, n * sizeof(*desc));
	q->back_cnt -= n;
	memmove(q->back, q->back + n, q->back_cnt * sizeof(*q->back));
	return n;
}

/* The NIC has done with all that was taken: one completion, stamped with their number. */
static void report(struct queue *q)
{
	if (q->reported == q->taken)
		return;
	q->done[q->sent.cnt++ & q->sent.mask] = (struct spw_port_done){q->taken, q->taken};
	q->reported = q->taken;
}

static uint16_t tx(void *vq, struct spw_desc **desc, uint16_t cnt)
{
	struct queue *q = vq;
	uint16_t n = (uint16_t)(cnt - SPW_MIN((uint32_t)cnt / 2, q->refuse));

	report(q);
	for (uint16_t i = 0; i < n; i++) {
		struct spw_desc *echo = &q->back[q->back_cnt++];

		*echo = *desc[i];
		echo->flags |= SPW_DESC_NIC_STAMP;
		echo->nic_stamp = ECHO_STAMP + ++q->taken;
	}
	return n;
}

/* Until the plan is over, only the next burst finds the completions of the one before. */
static uint16_t events(void *vq, struct spw_port_event *event, uint16_t cnt)
{
	struct queue *q = vq;

	(void)event, (void)cnt;
	if (t.run[q - t.queue].ran_ns)
		report(q);
	return 0;
}

/* ---- one run ---- */

static void open_all(uint32_t every, bool clock, bool sent)
{
	struct spw_mem_req req = {.kind = SPW_MEM_HOST,
				  .bytes = (size_t)SENDERS * SLOTS * SLOT_BYTES,
				  .numa_node = -1};
	struct gen_run_conf conf = {.plan = {.gaps = GEN_CONSTANT,
					     .rate_fps = 200e3,
					     .sizes = GEN_SIZE_FIXED,
					     .size_min = 64,
					     .size_max = 64,
					     .flow_cnt = FLOWS},
				    .tsc = &t.tsc,
				    .seconds_ns = 30000000,
				    .linger_ns = 1000000000,
				    .slow_ns = 1, /* every frame is */
				    .expect_echo = true,
				    .stop = &t.stop,
				    .trail = t.trail,
				    .nic_clock = clock ? &t.clock : NULL,
				    .sent = t.sent};

	memset(&t, 0, sizeof(t));
	spw_clock_map_identity(&t.map);
	t.map.ref_base += 5000;
	t.map.unc = 7;
	t.map.drift_2_32 = 1u << 30; /* the uncertainty is that of the stamp's moment, not of now */
	spw_clock_box_put(&t.clock, &t.map);
	assert_int_equal(spw_tsc_calibrate(20, &t.tsc), 0);
	assert_int_equal(spw_region_alloc(&req, &t.region), 0);
	for (uint32_t s = 0; s < SENDERS; s++) {
		struct queue *q = &t.queue[s];

		q->pq = (struct spw_port_queue){.q = q,
						.rx_burst = rx,
						.release_burst = release,
						.tx_burst = tx,
						.events = events,
						.lend_burst = lend};
		q->sent = (struct spw_port_sent){.done = q->done, .mask = SENT_CNT - 1};
		q->refuse = s;
		t.sent[s] = sent ? &q->sent : NULL;
		t.all[s] = &t.run[s];
		assert_int_equal(spw_pool_init(&q->pool, &t.region, (size_t)s * SLOTS * SLOT_BYTES,
					       SLOT_BYTES, SLOTS),
				 0);
		assert_int_equal(spw_trail_open(&t.trail[s], every), 0);
		assert_int_equal(
			gen_run_init(&t.run[s], &conf, &q->pq, &q->pool, s, t.all, SENDERS), 0);
	}
}

static void close_all(void)
{
	for (uint32_t s = 0; s < SENDERS; s++) {
		gen_run_fini(&t.run[s]);
		spw_trail_close(&t.trail[s]);
		assert_int_equal(spw_pool_fini(&t.queue[s].pool), 0);
	}
	spw_region_free(&t.region);
}

/* The senders run one after the other; the second one finds that the plan begins now. */
static void run_all(uint32_t every, bool clock, bool sent)
{
	open_all(every, clock, sent);
	t.run[1].ready = 1;
	t.run[1].sent_all = 1; /* so that the first one ends */
	gen_run(&t.run[0]);
	t.run[0].go_tsc = spw_tsc_now();
	gen_run(&t.run[1]);
	for (uint32_t s = 0; s < SENDERS; s++)
		assert_true(t.run[s].count.echoed_frames > 0);
}

static uint64_t cnt_of(uint32_t s, enum spw_trail_kind kind)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < t.trail[s].cnt; i++)
		n += t.trail[s].rec[i].kind == kind;
	return n;
}

/* The first completion that covers a number, as the join looks for it. */
static const struct spw_trail_rec *done_of(uint32_t s, uint64_t number)
{
	for (uint64_t i = 0; i < t.trail[s].cnt; i++)
		if (t.trail[s].rec[i].kind == SPW_TRAIL_DONE && t.trail[s].rec[i].at[0] >= number)
			return &t.trail[s].rec[i];
	return NULL;
}

/* A FRAME is that of the SLOW before it. Its number says which one it was by the port's count: the
 * echo's stamp is made of that. */
static void check_frames(uint32_t s)
{
	const uint32_t own_flows = FLOWS / SENDERS;
	const struct spw_trail_rec *slow = NULL;

	for (uint64_t i = 0; i < t.trail[s].cnt; i++) {
		const struct spw_trail_rec *rec = &t.trail[s].rec[i];

		slow = rec->kind == SPW_TRAIL_SLOW ? rec : slow;
		if (rec->kind != SPW_TRAIL_FRAME)
			continue;
		assert_int_equal(rec->flow, slow->flow);
		assert_int_equal(rec->seq, slow->seq);
		assert_int_equal(rec->at[1], slow->at[4]);
		assert_int_equal(rec->at[2], slow->at[3]);
		assert_int_equal(rec->what, s);
		assert_int_equal(rec->at[3],
				 (uint64_t)rec->seq * own_flows + rec->flow / SENDERS + 1);
		assert_int_equal(rec->at[0], ECHO_STAMP + rec->at[3] + 5000);
		assert_int_equal(rec->at[4], spw_clock_map_unc_at(&t.map, rec->at[0]));
		assert_in_range(rec->at[4], 7 + ECHO_STAMP / 4, 7 + ECHO_STAMP);
	}
}

/* ---- tests ---- */

/* Both the port that takes all and the one that takes a part of each burst. */
static void each_slow_frame_has_its_nics_stamps(void **state)
{
	(void)state;
	run_all(1, true, true);
	for (uint32_t s = 0; s < SENDERS; s++) {
		assert_int_equal(cnt_of(s, SPW_TRAIL_SLOW), t.run[s].count.echoed_frames);
		assert_int_equal(cnt_of(s, SPW_TRAIL_FRAME), t.run[s].count.echoed_frames);
		check_frames(s);
		assert_non_null(done_of(s, t.queue[s].taken)); /* also of the last frame */
		for (uint64_t i = 0; i < t.trail[s].cnt; i++) {
			const struct spw_trail_rec *rec = &t.trail[s].rec[i];

			if (rec->kind != SPW_TRAIL_DONE)
				continue;
			assert_int_equal(rec->at[1], rec->at[0] + 5000);
			assert_int_equal(rec->at[2], spw_clock_map_unc_at(&t.map, rec->at[1]));
		}
	}
	close_all();
}

/* Of a trail that keeps one frame in 32 no completion that covers one of these is missing, and
 * hardly one is there that covers none. */
static void completions_of_frames_that_are_not_kept_are_left_out(void **state)
{
	struct spw_trail trail;
	struct spw_trail_sender gt = {.to = &trail, .clock = &t.clock, .flow_cnt = 3};
	struct spw_port_done done[SENT_CNT];
	struct spw_port_sent sent = {.done = done, .mask = SENT_CNT - 1};
	uint64_t seed = 5, number = 0;

	(void)state;
	memset(&t, 0, sizeof(t));
	spw_clock_map_identity(&t.map);
	spw_clock_box_put(&t.clock, &t.map);
	gt.port.sent = &sent;
	assert_int_equal(spw_trail_open(&trail, 32), 0);
	for (uint32_t i = 0; i < 20000; i++) {
		const uint64_t above = number, before = trail.cnt;
		bool wanted = false;

		number += 1 + unit_random(&seed) % 40;
		for (uint64_t n = above; n < number; n++) /* frame n has number n + 1 */
			wanted |= spw_trail_wants(&trail, (uint32_t)(n / gt.flow_cnt));
		done[sent.cnt++ & sent.mask] = (struct spw_port_done){number, i + 1};
		spw_trail_sender_house(&gt);
		assert_int_equal(trail.cnt - before, wanted);
	}
	spw_trail_close(&trail);
}

/* More completions than the port keeps: those that are left cover the others' frames. */
static void a_late_look_loses_no_frame(void **state)
{
	struct spw_trail trail;
	struct spw_trail_sender gt = {.to = &trail, .clock = &t.clock, .flow_cnt = 1};
	struct spw_port_done done[SENT_CNT];
	struct spw_port_sent sent = {.done = done, .mask = SENT_CNT - 1};

	(void)state;
	memset(&t, 0, sizeof(t));
	spw_clock_map_identity(&t.map);
	spw_clock_box_put(&t.clock, &t.map);
	gt.port.sent = &sent;
	assert_int_equal(spw_trail_open(&trail, 1), 0);
	for (uint64_t n = 1; n <= SENT_CNT + 10; n++)
		done[sent.cnt++ & sent.mask] = (struct spw_port_done){n, n == 70 ? 0 : n};
	spw_trail_sender_house(&gt);
	assert_int_equal(trail.cnt, SENT_CNT);
	assert_int_equal(trail.rec[0].at[0], 11);
	assert_int_equal(trail.rec[70 - 11].at[1], 0); /* flushed: nobody knows when */
	spw_trail_sender_house(&gt);
	assert_int_equal(trail.cnt, SENT_CNT);
	spw_trail_close(&trail);
}

static void without_a_clock_there_is_nothing_new(void **state)
{
	(void)state;
	run_all(1, false, true);
	for (uint32_t s = 0; s < SENDERS; s++) {
		assert_int_equal(cnt_of(s, SPW_TRAIL_SLOW), t.run[s].count.echoed_frames);
		assert_int_equal(cnt_of(s, SPW_TRAIL_FRAME) + cnt_of(s, SPW_TRAIL_DONE), 0);
	}
	close_all();
}

static void a_port_that_keeps_no_completions(void **state)
{
	(void)state;
	run_all(4, true, false);
	for (uint32_t s = 0; s < SENDERS; s++) {
		assert_true(cnt_of(s, SPW_TRAIL_FRAME) > 0);
		assert_int_equal(cnt_of(s, SPW_TRAIL_FRAME), cnt_of(s, SPW_TRAIL_SLOW));
		check_frames(s);
		assert_int_equal(cnt_of(s, SPW_TRAIL_DONE), 0);
	}
	close_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_slow_frame_has_its_nics_stamps),
		cmocka_unit_test(completions_of_frames_that_are_not_kept_are_left_out),
		cmocka_unit_test(a_late_look_loses_no_frame),
		cmocka_unit_test(without_a_clock_there_is_nothing_new),
		cmocka_unit_test(a_port_that_keeps_no_completions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
