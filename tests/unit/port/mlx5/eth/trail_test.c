/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The trail of a lane over the NIC that is moved by hand: which number each frame has among those
 * that were sent back, and by when the NIC had sent it. The answer is what the test's NIC did.
 */
#include <stdlib.h>

#include "exec/spw_handler.h"
#include "hand_pipe.h"

#define FRAME_LEN 80u
#define SQ_CNT    64u
#define FLOW      5u
#define TRAIL_MAX (1u << SPW_TRAIL_LOG2)

/* Even numbers are sent back. */
SPW_HANDLER_BODY(even)(const struct spw_frame *frame, struct spw_lanes lanes)
{
	struct spw_ident ident = {0};

	(void)lanes;
	spw_ident_find(frame->addr, frame->len, false, &ident);
	return ident.seq % 2 ? spw_consume(0) : spw_echo(0);
}
SPW_HANDLER_BATCH(even)
static const struct spw_handler even = SPW_HANDLER_INIT(even, "sends even numbers back", 0, NULL);

static struct lane {
	struct hand h;
	struct spw_exec *exec;
	struct spw_pipe *pipe;
	struct spw_trail trail;
	struct spw_clock_box clock;
	struct spw_clock_map map;
	uint32_t seq;       /* of the next frame */
	uint32_t completed; /* send WQEs that the NIC has completed */
} lane;

static void lane_open(bool keep)
{
	struct hand_conf c = {
		.flags = MLX5_F_STAMP,
		.cq_cnt = 256,
		.rq_cnt = 256,
		.sq_cnt = SQ_CNT,
		.slot_bytes = 256,
		.slot_cnt = 512,
		.refill_min = 1,
	};
	struct spw_pipe_conf pc = {
		.burst = 64,
		.can_tx = true,
		.record = true,
		.nic_stamps = true,
		.nic_clock = &lane.clock,
		.slow_tsc = 1u << 20,
		.trail = &lane.trail,
	};

	memset(&lane, 0, sizeof(lane));
	assert_int_equal(hand_open(&lane.h, &c), 0);
	if (keep)
		assert_int_equal(mlx5_eth_queue_sent_keep(lane.h.q, &lane.h.pq), 0);
	pc.sent = keep ? &lane.h.q->sent : NULL;
	lane.exec = hand_exec(&lane.h, &even);
	assert_int_equal(spw_trail_open(&lane.trail, 2), 0);
	spw_clock_map_identity(&lane.map);
	lane.map.ref_base += 1000000; /* so that a stamp of 0 is a moment too */
	spw_clock_box_put(&lane.clock, &lane.map);
	lane.pipe = hand_pipe(&lane.h, lane.exec, pc);
	spw_pipe_begin(lane.pipe);
}

static void lane_close(void)
{
	spw_pipe_end(lane.pipe);
	spw_exec_stop(lane.exec, 1000);
	spw_exec_close(lane.exec);
	spw_trail_close(&lane.trail);
	free(lane.pipe);
	assert_int_equal(hand_close(&lane.h), 0);
}

/* cnt frames of the generator's arrive and are polled in one burst. */
static void arrive(uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++, lane.seq++) {
		struct hand_frame f;

		hand_plain(&lane.h, FRAME_LEN, &f);
		memset(f.addr, 0, FRAME_LEN);
		spw_prm_st32(f.addr + 12, 0x08004500);
		f.addr[23] = 17;
		spw_prm_st32(f.addr + SPW_IDENT_ETH_OFFSET,
			     SPW_IDENT_MAGIC << 16 | SPW_IDENT_VERSION << 8);
		spw_prm_st64(f.addr + SPW_IDENT_ETH_OFFSET + 4, (uint64_t)FLOW << 32 | lane.seq);
	}
	spw_pipe_run_once(lane.pipe);
}

/* The NIC sends all that it was handed. Returns: the completion's stamp, in ticks. */
static uint64_t nic_sends(void)
{
	lane.completed = lane.h.q->sq_pi;
	hand_sent(&lane.h, (uint16_t)(lane.completed - 1), 0);
	return spw_clock_map_ref(&lane.map, lane.h.clock);
}

static const struct spw_trail_rec *newest(enum spw_trail_kind kind)
{
	for (uint64_t i = lane.trail.cnt; i-- > 0;)
		if (lane.trail.rec[i].kind == kind)
			return &lane.trail.rec[i];
	return NULL;
}

static uint64_t number_of(uint32_t seq)
{
	for (uint64_t i = 0; i < lane.trail.cnt; i++)
		if (lane.trail.rec[i].kind == SPW_TRAIL_FRAME && lane.trail.rec[i].seq == seq)
			return lane.trail.rec[i].at[3];
	return UINT64_MAX;
}

static uint32_t cnt_of(enum spw_trail_kind kind)
{
	uint32_t n = 0;

	for (uint64_t i = 0; i < lane.trail.cnt; i++)
		n += lane.trail.rec[i].kind == kind;
	return n;
}

static void expect_done(uint32_t cnt, uint64_t number, uint64_t stamp)
{
	const struct spw_trail_rec *rec = newest(SPW_TRAIL_DONE);

	assert_int_equal(cnt_of(SPW_TRAIL_DONE), cnt);
	assert_int_equal(rec->at[0], number);
	assert_int_equal(rec->at[1], stamp);
}

/* Of each batch the even ones are sent, and have numbers from 1 on. */
static void numbers(void **state)
{
	uint64_t stamp;

	(void)state;
	lane_open(true);
	arrive(6); /* 0 to 5: 0, 2, 4 are sent */
	arrive(3); /* 6 to 8 */
	for (uint32_t seq = 0; seq < 9; seq += 2)
		assert_int_equal(number_of(seq), seq / 2 + 1);
	assert_int_equal(number_of(1), UINT64_MAX); /* the trail keeps one frame in two */
	assert_null(newest(SPW_TRAIL_DONE));
	stamp = nic_sends();
	arrive(1); /* its transmit reaps that completion */
	arrive(1);
	expect_done(1, 5, stamp);
	lane_close();
}

/* The port takes as many as its ring has room for; the others have no number. */
static void refused(void **state)
{
	uint64_t stamp;

	(void)state;
	lane_open(true);
	arrive(64);
	arrive(60);
	arrive(20); /* two are taken */
	assert_int_equal(lane.pipe->ledger.tx_frames, SQ_CNT);
	assert_int_equal(number_of(124), SQ_CNT - 1);
	assert_int_equal(number_of(126), SQ_CNT);
	assert_int_equal(number_of(128), 0);
	stamp = nic_sends();
	arrive(2);
	assert_int_equal(number_of(144), SQ_CNT + 1);
	expect_done(1, SQ_CNT, stamp);
	lane_close();
}

/* Events reap too, and what was flushed has no stamp. Completions of frames that are not on the
 * trail are not there. */
static void flushed(void **state)
{
	uint64_t stamp;

	(void)state;
	lane_open(true);
	arrive(2);
	stamp = nic_sends();
	for (int i = 0; i < 2000; i++) /* several turns of housekeeping */
		spw_pipe_run_once(lane.pipe);
	expect_done(1, 1, stamp);
	arrive(4);
	hand_sent(&lane.h, 1, SPW_PRM_SYN_LOCAL_PROT_ERR);
	for (int i = 0; i < 2000; i++)
		spw_pipe_run_once(lane.pipe);
	assert_int_equal(lane.h.sq_readies, 1);
	expect_done(2, 3, 0);
	arrive(2);
	stamp = nic_sends();
	for (int i = 0; i < 2000; i++)
		spw_pipe_run_once(lane.pipe);
	expect_done(3, 4, stamp);
	lane_close();
}

static void not_wanted(void **state)
{
	(void)state;
	lane_open(true);
	lane.trail.every = 8;
	arrive(2); /* frame 0 is on the trail */
	nic_sends();
	arrive(2); /* 2 is not */
	nic_sends();
	for (int i = 0; i < 2000; i++)
		spw_pipe_run_once(lane.pipe);
	assert_int_equal(cnt_of(SPW_TRAIL_FRAME), 1);
	assert_int_equal(cnt_of(SPW_TRAIL_DONE), 1);
	assert_int_equal(newest(SPW_TRAIL_DONE)->at[0], 1);
	lane_close();
}

static void port_that_keeps_none(void **state)
{
	(void)state;
	lane_open(false);
	arrive(4);
	nic_sends();
	arrive(2);
	assert_int_equal(number_of(4), 3);
	assert_null(newest(SPW_TRAIL_DONE));
	lane_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers),
		cmocka_unit_test(refused),
		cmocka_unit_test(flushed),
		cmocka_unit_test(not_wanted),
		cmocka_unit_test(port_that_keeps_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
