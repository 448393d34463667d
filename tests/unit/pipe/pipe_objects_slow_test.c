/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Slow objects in the pipe: which facts become of a receipt, the batch that was retired and the
 * gaps of the loop, and which objects are kept. The stamps are invented; a tick is a nanosecond.
 */
#include <stdlib.h>

#include "pipe/pipe_impl.h"
#include "pipe/pipe_obj.h"
#include "unit_test.h"

#define LIMIT 20000u
#define MS    1000000u

struct rig {
	struct spw_pipe *pipe;
	struct spw_gring ring;
	struct spw_gring_batch batch;
	struct spw_obj_receipt receipt;
	struct spw_obj_way way;
	struct spw_pipe_receipt got;
};

/* An object whose every part takes 1000 ticks: NIC stamps at 10000 and 11000, published at 16000.
 */
static void rig_open(struct rig *t)
{
	memset(t, 0, sizeof(*t));
	t->pipe = aligned_alloc(128, SPW_ALIGN_UP(sizeof(*t->pipe), (size_t)128));
	assert_non_null(t->pipe);
	memset(t->pipe, 0, sizeof(*t->pipe));
	assert_int_equal(spw_tsc_from_hz(1000000000, &t->pipe->obj.tsc), 0);
	t->ring.unit_cnt = 1;
	t->pipe->ring = &t->ring;
	t->pipe->turn_flags = SPW_REC_ON;
	t->pipe->obj.slow.limit_tsc = LIMIT;
	t->pipe->obj.done = &t->batch;
	t->pipe->obj.receipt = calloc(SPW_PIPE_RECEIPT_CNT, sizeof(struct spw_pipe_receipt));
	assert_non_null(t->pipe->obj.receipt);
	assert_int_equal(spw_ring_init(&t->pipe->obj.receipts, SPW_PIPE_RECEIPT_CNT), 0);
	t->receipt = (struct spw_obj_receipt){.id = 5,
					      .state = SPW_OBJ_STATE_complete,
					      .first_nic = 10000,
					      .last_nic = 11000,
					      .open_tsc = 10500,
					      .close_tsc = 12000,
					      .publish_tsc = 16000};
	t->way = (struct spw_obj_way){.last_tsc = 12000, .empty_tsc = 11700};
	t->batch.pushed_tsc = 13000;
	t->batch.exec_start = 14000;
	t->batch.exec_end = 15000;
	t->pipe->exec_busy = 1000; /* of this batch */
}

static void rig_close(struct rig *t)
{
	free(t->pipe->obj.receipt);
	free(t->pipe);
}

/* Passes the receipt as the window does. Returns what the control thread gets. */
static const struct spw_pipe_receipt *put(struct rig *t)
{
	spw_pipe_receipt_put(t->pipe, &t->receipt, &t->way);
	assert_true(spw_pipe_receipt(t->pipe, &t->got));
	return &t->got;
}

/* Parts without a stamp of their own have no time. */
static void the_parts_are_where_the_stamps_are(void **state)
{
	static const uint64_t want[SPW_OBJ_PART_CNT + 1] = {10000, 11000, 12000, 12000, 12000,
							    12000, 13000, 14000, 15000, 16000};
	struct rig t;

	(void)state;
	rig_open(&t);
	put(&t);
	assert_true(t.got.judged && !t.got.slow);
	assert_memory_equal(t.got.facts.edge, want, sizeof(want));
	assert_int_equal(t.got.ticks[SPW_OBJ_SLOW_sender], 1000);
	assert_int_equal(t.got.ticks[SPW_OBJ_SLOW_port], 1000);
	assert_int_equal(t.got.ticks[SPW_OBJ_SLOW_unexplained], 1000); /* of the push */
	assert_int_equal(t.got.ticks[SPW_OBJ_SLOW_exec_late], 1000);
	assert_int_equal(t.got.ticks[SPW_OBJ_SLOW_mover], 1000);
	assert_int_equal(t.got.ticks[SPW_OBJ_SLOW_reap_late], 1000);
	rig_close(&t);
}

/* Both stamps are as late as they can be, and none is later than the poll. */
static void uncertain_stamps_prove_less(void **state)
{
	struct rig t;

	(void)state;
	rig_open(&t);
	t.receipt.nic_unc_ns = 300;
	put(&t);
	assert_int_equal(t.got.facts.edge[0], 10300);
	assert_int_equal(t.got.facts.edge[1], 11300);
	t.receipt.nic_unc_ns = 2000;
	put(&t);
	assert_int_equal(t.got.facts.edge[0], 10500);
	assert_int_equal(t.got.facts.edge[1], 13000);
	assert_int_equal(t.got.ticks[SPW_OBJ_SLOW_port], 0);
	rig_close(&t);
}

/* Without NIC stamps an empty port proves that the sender was waited for; behind it nothing is. */
static void an_empty_port_proves_that_nothing_had_come(void **state)
{
	struct rig t;

	(void)state;
	rig_open(&t);
	t.receipt.first_nic = t.receipt.last_nic = 0;
	put(&t);
	assert_int_equal(t.got.ticks[SPW_OBJ_SLOW_sender], 1200); /* 10500 to 11700 */
	assert_int_equal(t.got.ticks[SPW_OBJ_SLOW_port], 0);
	assert_int_equal(t.got.ticks[SPW_OBJ_SLOW_unexplained], 300 + 1000);
	t.way.empty_tsc = 0; /* no stamps of polls */
	put(&t);
	assert_int_equal(t.got.ticks[SPW_OBJ_SLOW_sender], 0);
	assert_int_equal(t.got.ticks[SPW_OBJ_SLOW_unexplained], 1500 + 1000);
	rig_close(&t);
}

/* A partial one waited for what was missing, as far as a poll found the port empty. */
static void a_partial_object_waited_for_frames(void **state)
{
	struct rig t;

	(void)state;
	rig_open(&t);
	t.receipt.state = SPW_OBJ_STATE_partial;
	t.receipt.cause = SPW_OBJ_CAUSE_deadline;
	t.receipt.close_tsc = 40000;
	t.receipt.publish_tsc = 44000;
	t.way.empty_tsc = 39900;
	t.batch.fill = true;
	t.batch.pushed_tsc = 41000;
	t.batch.exec_start = 42000;
	t.batch.exec_end = 43000;
	put(&t);
	assert_true(t.got.slow && t.got.why == SPW_OBJ_SLOW_missing);
	assert_int_equal(t.got.ticks[SPW_OBJ_SLOW_missing], 27900);
	assert_int_equal(t.got.ticks[SPW_OBJ_SLOW_batch_ahead], 1000); /* a fill waits for room */
	rig_close(&t);
}

/* Only where the object waited for the loop, and only while gaps are remembered. */
static void gaps_of_the_loop_are_laid_over_the_parts(void **state)
{
	struct spw_rec_gap gap = {.from = 10900, .to = 11400, .hold = SPW_HOLD_PORT};
	struct rig t;

	(void)state;
	rig_open(&t);
	spw_rec_gap_add(&t.pipe->rec, &gap); /* 100 of it before the last frame came */
	assert_int_equal(put(&t)->ticks[SPW_OBJ_SLOW_poll_gap], 400);
	gap = (struct spw_rec_gap){.from = 14100, .to = 14500, .lost = 100, .hold = SPW_HOLD_PUSH};
	spw_rec_gap_add(&t.pipe->rec, &gap); /* while another core moves */
	assert_int_equal(put(&t)->ticks[SPW_OBJ_SLOW_poll_gap], 400);
	t.pipe->turn_flags |= SPW_REC_INLINE; /* this core moves; the push itself is no gap */
	assert_int_equal(put(&t)->ticks[SPW_OBJ_SLOW_poll_gap], 500);
	assert_int_equal(t.got.ticks[SPW_OBJ_SLOW_mover], 900);
	/* so many that older ones are forgotten: before them it is not known that the loop polled
	 */
	for (uint64_t i = 0; i < SPW_REC_GAP_CNT; i++) {
		gap = (struct spw_rec_gap){
			.from = 11600 + 2 * i, .to = 11601 + 2 * i, .hold = SPW_HOLD_PORT};
		spw_rec_gap_add(&t.pipe->rec, &gap);
	}
	assert_int_equal(put(&t)->ticks[SPW_OBJ_SLOW_poll_gap], SPW_REC_GAP_CNT);
	assert_int_equal(t.got.facts.port_unknown, 600);
	rig_close(&t);
}

/* Batches before it, an older object, and no stamps at all. */
static void the_executor_has_its_part(void **state)
{
	struct rig t;

	(void)state;
	rig_open(&t);
	t.batch.exec_busy = 5000;
	t.pipe->exec_busy = 5000 + 600 + 1000; /* 600 ahead of this one's 1000 */
	put(&t);
	assert_int_equal(t.got.ticks[SPW_OBJ_SLOW_batch_ahead], 600);
	assert_int_equal(t.got.ticks[SPW_OBJ_SLOW_exec_late], 400);
	t.way.order_tsc = 15500; /* an older object was open for longer than all of it took */
	put(&t);
	assert_int_equal(t.got.ticks[SPW_OBJ_SLOW_order], 3500);
	assert_int_equal(t.got.ticks[SPW_OBJ_SLOW_reap_late], 500);
	assert_int_equal(t.got.why, SPW_OBJ_SLOW_order);
	t.pipe->turn_flags = 0; /* without stamps of batches */
	put(&t);
	assert_int_equal(t.got.ticks[SPW_OBJ_SLOW_reap_late], 0);
	rig_close(&t);
}

/* The threshold itself is not above it; the longest sixteen are kept, in order. */
static void the_longest_are_kept(void **state)
{
	const struct spw_pipe_objects_slow *slow;
	struct rig t;

	(void)state;
	rig_open(&t);
	slow = spw_pipe_objects_slow(t.pipe);
	for (uint64_t n = 0; n < 100; n++) {
		t.receipt.id = n;
		t.receipt.publish_tsc = 10000 + LIMIT - 49 + (n * 37) % 100;
		put(&t);
		assert_int_equal(t.got.slow, (n * 37) % 100 >= 50);
	}
	assert_int_equal(slow->worst_cnt, SPW_PIPE_WORST_CNT);
	for (uint32_t i = 0; i < SPW_PIPE_WORST_CNT; i++)
		assert_int_equal(spw_pipe_receipt_whole(&slow->worst[i]), LIMIT + 50 - i);
	assert_int_equal(slow->objects[SPW_OBJ_SLOW_reap_late], 50);
	assert_int_equal(slow->worst_tsc[SPW_OBJ_SLOW_reap_late], LIMIT + 50);
	assert_int_equal(spw_hist_total(&slow->latency), 100);
	t.receipt.publish_tsc = 16000; /* short: neither judged nor kept */
	assert_false(put(&t)->judged);
	rig_close(&t);
}

/* Those that are shed come to nobody; those given up at the end, or released, are not late. */
static void what_nobody_gets_is_counted(void **state)
{
	const struct spw_pipe_objects_slow *slow;
	struct rig t;

	(void)state;
	rig_open(&t);
	slow = spw_pipe_objects_slow(t.pipe);
	t.receipt.state = SPW_OBJ_STATE_shed;
	for (int c = 0; c < SPW_OBJ_CAUSE_CNT; c++) {
		t.receipt.cause = (uint32_t)c;
		assert_false(put(&t)->judged);
	}
	assert_int_equal(slow->objects[SPW_OBJ_SLOW_consumer], 2);
	assert_int_equal(slow->objects[SPW_OBJ_SLOW_batch_ahead], 2);
	t.receipt.state = SPW_OBJ_STATE_aborted;
	t.receipt.cause = SPW_OBJ_CAUSE_stop;
	assert_false(put(&t)->judged);
	t.receipt = (struct spw_obj_receipt){.id = 5, .generation = 3, .publish_tsc = 9 * MS};
	t.way = (struct spw_obj_way){.released = true, .release_tsc = 10 * MS};
	assert_true(put(&t)->released && t.got.release_tsc == 10 * MS);
	assert_int_equal(spw_hist_total(&slow->latency), 0);
	rig_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_parts_are_where_the_stamps_are),
		cmocka_unit_test(uncertain_stamps_prove_less),
		cmocka_unit_test(an_empty_port_proves_that_nothing_had_come),
		cmocka_unit_test(a_partial_object_waited_for_frames),
		cmocka_unit_test(gaps_of_the_loop_are_laid_over_the_parts),
		cmocka_unit_test(the_executor_has_its_part),
		cmocka_unit_test(the_longest_are_kept),
		cmocka_unit_test(what_nobody_gets_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
