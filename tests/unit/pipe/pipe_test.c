/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the pipe does with frames: each is counted once on its way, and each slot is returned.
 */
#include <errno.h>
#include <stdlib.h>

#include "pipe_rig.h"

static void test_counts_exactly(void **state)
{
	static const struct {
		enum spw_exec_kind kind;
		bool record;
		uint16_t burst;
	} c[] = {{SPW_EXEC_INLINE, true, 64},
		 {SPW_EXEC_INLINE, false, 32},
		 {SPW_EXEC_CPU, true, 64},
		 {SPW_EXEC_CPU, false, 1}};
	struct spw_ledger ledger;
	struct rig rig;

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(c); i++) {
		rig_open(&rig, "null:size=64", "null", c[i].kind, 64);
		rig_pipe(&rig, (struct spw_pipe_conf){.record = c[i].record,
						      .burst = c[i].burst,
						      .frames_max = 20011});
		spw_pipe_run(rig.pipe, &rig.stop);
		assert_true(spw_pipe_ended(rig.pipe));
		rig_close(&rig, &ledger);
		assert_int_equal(ledger.pipe.polled_frames, 20011);
		assert_int_equal(ledger.pipe.consumed_frames +
					 ledger.pipe.dropped[SPW_DROP_ring_full],
				 20011);
		if (c[i].kind == SPW_EXEC_INLINE)
			assert_int_equal(ledger.pipe.consumed_frames, 20011);
	}
}

/* One frame in seven is malformed and counted bad; the others are consumed. */
static void test_verdicts(void **state)
{
	struct spw_ledger ledger;
	struct rig rig;

	(void)state;
	rig_open(&rig, "null:size=128,bad=checksum,bad_every=7,pattern=crc", "crc32c",
		 SPW_EXEC_INLINE, 8);
	rig_pipe(&rig, (struct spw_pipe_conf){.record = true, .frames_max = 7000, .can_tx = true});
	spw_pipe_run(rig.pipe, &rig.stop);
	rig_close(&rig, &ledger);
	assert_int_equal(ledger.pipe.consumed_frames, 6000);
	assert_int_equal(ledger.pipe.bad_frames, 1000);
}

static void test_echo(void **state)
{
	struct spw_ledger ledger;
	struct rig rig;

	(void)state;
	rig_open(&rig, "null:size=64,bad=not_ipv4,bad_every=3", "echo", SPW_EXEC_INLINE, 8);
	rig_pipe(&rig, (struct spw_pipe_conf){.record = true, .frames_max = 3000, .can_tx = true});
	spw_pipe_run(rig.pipe, &rig.stop);
	rig_close(&rig, &ledger);
	assert_int_equal(ledger.pipe.tx_frames, 2000);
	assert_int_equal(ledger.pipe.bad_frames, 1000);
	assert_int_equal(ledger.sent_frames, 2000);
}

/* The port takes ten frames of each burst: the other echoes are dropped as tx_full, or as tx_down
 * where the port cannot transmit at all. */
static void test_refused_transmit(void **state)
{
	struct spw_ledger ledger;
	struct rig rig;

	(void)state;
	for (int can_tx = 0; can_tx < 2; can_tx++) {
		rig_open(&rig, "null:size=64", "echo", SPW_EXEC_INLINE, 8);
		rig_pipe(&rig, (struct spw_pipe_conf){
				       .record = true, .frames_max = 6400, .can_tx = can_tx});
		rig.tx_room = 10;
		spw_pipe_run(rig.pipe, &rig.stop);
		rig_close(&rig, &ledger);
		assert_int_equal(ledger.pipe.tx_frames, 1000);
		assert_int_equal(ledger.pipe.dropped[can_tx ? SPW_DROP_tx_full : SPW_DROP_tx_down],
				 5400);
	}
}

/* The executor never polls its ring: two batches fit, further frames are dropped as ring_full, and
 * what is in the ring is reclaimed as exec_lost. */
static void test_full_ring_drops(void **state)
{
	struct spw_ledger ledger;
	struct spw_gring *ring;
	struct rig rig;

	(void)state;
	rig_open(&rig, "null:size=64", "null", SPW_EXEC_INLINE, 2);
	rig_pipe(&rig, (struct spw_pipe_conf){.record = true, .drain_tsc = 1});
	ring = spw_exec_ring(rig.exec, 0);
	ring->kick = NULL;
	spw_rec_begin(&rig.pipe->rec);
	for (int i = 0; i < 5; i++)
		assert_int_equal(spw_pipe_run_once(rig.pipe), 64);
	assert_int_equal(rig.pipe->ledger.dropped[SPW_DROP_ring_full], 3 * 64);
	assert_int_equal(ring->in_exec_frames, 2 * 64);
	assert_int_equal(rig.pool.free_cnt, SLOTS - 2 * 64);
	assert_int_equal(spw_pipe_reclaim(rig.pipe), 2 * 64);
	rig_close(&rig, &ledger);
	assert_int_equal(ledger.pipe.dropped[SPW_DROP_exec_lost], 2 * 64);
}

/* A backlog shrinks, since a turn settles more batches than it pushes. */
static void test_backlog_shrinks(void **state)
{
	struct spw_ledger ledger;
	struct spw_gring *ring;
	void (*kick)(struct spw_gring * ring);
	struct rig rig;

	(void)state;
	rig_open(&rig, "null:size=64,count=640", "null", SPW_EXEC_INLINE, 16);
	rig_pipe(&rig, (struct spw_pipe_conf){.record = true, .burst = 32});
	ring = spw_exec_ring(rig.exec, 0);
	kick = ring->kick;
	ring->kick = NULL;
	spw_rec_begin(&rig.pipe->rec);
	for (int i = 0; i < 8; i++)
		spw_pipe_run_once(rig.pipe);
	assert_int_equal(ring->head_seq - ring->retired_seq, 8);
	for (int i = 0; i < 8; i++)
		kick(ring);
	ring->kick = kick;
	for (int i = 0; i < 8; i++)
		spw_pipe_run_once(rig.pipe);
	assert_int_equal(ring->head_seq - ring->retired_seq, 0);
	rig_close(&rig, &ledger);
}

/* Regimes add up to the time that passed, and every stage has every frame. */
static void test_records_all(void **state)
{
	struct spw_rec_view *view = calloc(1, sizeof(*view));
	struct spw_ledger ledger;
	uint64_t sum = 0, begin, end;
	struct rig rig;

	(void)state;
	assert_non_null(view);
	rig_open(&rig, "null:size=64", "echo", SPW_EXEC_INLINE, 8);
	rig_pipe(&rig, (struct spw_pipe_conf){.record = true, .frames_max = 50000, .can_tx = true});
	begin = spw_tsc_now_ordered();
	spw_pipe_run(rig.pipe, &rig.stop);
	end = spw_tsc_now_ordered();
	spw_rec_view_init(view);
	spw_rec_collect_rest(&rig.pipe->rec, view);
	for (int i = 0; i < SPW_REGIME_CNT; i++)
		sum += view->regime_tsc[i];
	assert_true(sum <= end - begin);
	assert_true(sum > (end - begin) / 2);
	assert_int_equal(sum, view->elapsed_tsc);
	assert_int_equal(spw_hist_total(&view->total[SPW_STAGE_polled_sent]), 50000);
	assert_int_equal(spw_hist_total(&view->total[SPW_STAGE_start_end]), 50000);
	for (int i = 0; i < SPW_STAGE_CNT; i++)
		assert_int_equal(view->defects[i], 0);
	rig_close(&rig, &ledger);
	free(view);
}

/* An empty poll is noted with the time at which its turn began, idle or not: whatever a later poll
 * brings arrived after that. */
static void test_empty_polls_are_noted(void **state)
{
	struct spw_ledger ledger;
	struct rig rig;

	(void)state;
	rig_open(&rig, "null:size=64", "null", SPW_EXEC_INLINE, 64);
	rig_pipe(&rig, (struct spw_pipe_conf){.record = true});
	spw_rec_begin(&rig.pipe->rec);
	for (int i = 0; i < 1000; i++) {
		uint64_t empty = rig.pipe->rec.empty_tsc, last = rig.pipe->rec.last_tsc;

		rig.dry = i % 3 != 0;
		spw_pipe_run_once(rig.pipe);
		assert_int_equal(rig.pipe->rec.empty_tsc,
				 rig.dry ? last : empty); /* a full burst does not count */
	}
	rig_close(&rig, &ledger);
}

/* The summary has what the pipe counted, and spw_pipe_collect_rest has every frame. */
static void test_summary(void **state)
{
	struct spw_rec_view *view = calloc(1, sizeof(*view));
	struct spw_pipe_summary sum;
	struct spw_ledger ledger;
	struct rig rig;

	(void)state;
	assert_non_null(view);
	rig_open(&rig, "null:size=64,bad=not_ipv4,bad_every=3", "echo", SPW_EXEC_INLINE, 8);
	rig_pipe(&rig, (struct spw_pipe_conf){.record = true, .frames_max = 3000, .can_tx = true});
	spw_pipe_run(rig.pipe, &rig.stop);
	spw_pipe_summary(rig.pipe, &sum);
	assert_memory_equal(&sum.ledger, &rig.pipe->ledger,
			    offsetof(struct spw_ledger_lcore, dropped) +
				    sizeof(sum.ledger.dropped));
	assert_int_equal(sum.ledger.polled_frames, 3000);
	assert_int_equal(sum.ledger.tx_frames, 2000);
	assert_int_equal(sum.bad[SPW_BAD_not_ipv4], 1000);
	assert_int_equal(sum.turn_max_tsc, rig.pipe->rec.turn_max_tsc);
	spw_rec_view_init(view);
	spw_pipe_collect_rest(rig.pipe, view);
	assert_int_equal(spw_hist_total(&view->total[SPW_STAGE_polled_sent]), 3000);
	for (int i = 0; i < SPW_REGIME_CNT; i++)
		assert_int_equal(sum.regime_tsc[i], view->regime_tsc[i]);
	rig_close(&rig, &ledger);
	free(view);
}

static void test_refuses(void **state)
{
	struct spw_pipe *pipe = aligned_alloc(128, SPW_ALIGN_UP(sizeof(*pipe), 128ul));
	struct spw_port_queue queue = {0};
	struct spw_gring ring = {0};
	struct spw_pool pool = {0};
	struct spw_pipe_conf conf = {
		.queue = &queue, .pool = &pool, .backend = {{.ring = &ring}}, .backend_cnt = 1};

	(void)state;
	assert_int_equal(spw_pipe_init(pipe, &(struct spw_pipe_conf){.burst = 1}), -EINVAL);
	conf.burst = 0;
	assert_int_equal(spw_pipe_init(pipe, &conf), -EINVAL);
	conf.burst = 65;
	assert_int_equal(spw_pipe_init(pipe, &conf), -EINVAL);
	assert_non_null(strstr(spw_err_text(), "burst"));
	conf.burst = 1;
	conf.backend_cnt = SPW_PIPE_BACKEND_MAX + 1;
	assert_int_equal(spw_pipe_init(pipe, &conf), -EINVAL);
	conf.backend_cnt = 2; /* and the second has no ring */
	assert_int_equal(spw_pipe_init(pipe, &conf), -EINVAL);
	assert_non_null(strstr(spw_err_text(), "backend 1"));
	free(pipe);
}

/* Every configuration has a variant of the loop, but for an executor that is inline and yet has a
 * clock of its own: that one is refused, wherever it stands, and is not run as another variant. */
static void test_variants(void **state)
{
	struct spw_pipe *pipe = aligned_alloc(128, SPW_ALIGN_UP(sizeof(*pipe), 128ul));
	struct spw_gring ring[2] = {{.unit_cnt = 1}, {.unit_cnt = 1}};
	struct spw_port_queue queue = {0};
	struct spw_flight flight = {0};
	struct spw_pool pool = {0};

	(void)state;
	for (unsigned int i = 0; i < 64; i++) {
		const bool both = i & 1 && i & 2, record = i & 4;
		struct spw_pipe_conf conf = {
			.queue = &queue,
			.pool = &pool,
			.burst = 1,
			.backend = {{.ring = &ring[0]},
				    {.ring = &ring[1],
				     .learns = i & 1 ? SPW_CAUSE_EXEC_INLINE : SPW_CAUSE_EXEC_GPU,
				     .has_clock = i & 2}},
			.backend_cnt = 2,
			.record = record,
			.nic_stamps = i & 8,
			.nic_frames = i & 16,
			.flight = i & 32 && record ? &flight : NULL,
		};

		assert_int_equal(spw_pipe_init(pipe, &conf), both && record ? -EINVAL : 0);
		if (both && record)
			assert_non_null(
				strstr(spw_err_text(), "executor 1 is inline and has a clock"));
		else
			assert_non_null(pipe->turn);
	}
	free(pipe);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counts_exactly),
		cmocka_unit_test(test_verdicts),
		cmocka_unit_test(test_echo),
		cmocka_unit_test(test_refused_transmit),
		cmocka_unit_test(test_full_ring_drops),
		cmocka_unit_test(test_backlog_shrinks),
		cmocka_unit_test(test_records_all),
		cmocka_unit_test(test_empty_polls_are_noted),
		cmocka_unit_test(test_summary),
		cmocka_unit_test(test_refuses),
		cmocka_unit_test(test_variants),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
