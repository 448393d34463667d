/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Errors of the receive side: counted by syndrome, reported once, recovered off the burst path, and
 * not a slot lost.
 */
#include <string.h>
#include <errno.h>

#include "hand.h"
#include "unit_test.h"

static struct hand hand;

static void open_rx(unsigned flags)
{
	struct hand_conf c = {
		.flags = flags,
		.cq_cnt = 128,
		.rq_cnt = 128,
		.slot_bytes = 256,
		.slot_cnt = 200,
		.refill_min = 1,
		.start = 128,
	};

	if (flags & MLX5_F_STRIDING) {
		c.strides_log2 = 4;
		c.rq_cnt = 8;
	}
	assert_int_equal(hand_open(&hand, &c), 0);
}

static uint16_t burst(struct spw_desc *desc)
{
	return spw_port_rx_burst(&hand.pq, desc, SPW_BURST_MAX);
}

/* Frames pass again, in full laps. */
static void check_alive(uint32_t lent)
{
	struct spw_desc desc[SPW_BURST_MAX];

	for (int i = 0; i < 100; i++) {
		struct hand_frame f;

		assert_true(hand_room(&hand) > 0);
		hand_plain(&hand, 77, &f);
		assert_int_equal(burst(desc), 1);
		assert_ptr_equal(spw_pool_slot_addr(&hand.pool, desc[0].slot), f.addr);
		spw_port_release_burst(&hand.pq, &desc[0].slot, 1);
		assert_true(hand_balanced(&hand, lent));
	}
}

static const unsigned variants[] = {
	MLX5_F_STAMP,
	0,
	MLX5_F_COMPRESSED,
	MLX5_F_COMPRESSED | MLX5_F_ENHANCED,
	MLX5_F_STRIDING,
	MLX5_F_STRIDING | MLX5_F_COMPRESSED,
	MLX5_F_STRIDING | MLX5_F_COMPRESSED | MLX5_F_ENHANCED,
};

/* The NIC writes between the burst's scan, which found nothing, and the second read of what it
 * found: no error. */
static void test_a_frame_between_two_looks(void **state)
{
	(void)state;
	for (unsigned v = 0; v < SPW_ARRAY_CNT(variants); v++) {
		struct hand_frame f[SPW_BURST_MAX];
		struct spw_desc desc[SPW_BURST_MAX];

		open_rx(variants[v]);
		if (variants[v] & MLX5_F_COMPRESSED) {
			hand_plain(&hand, 77, f); /* the title of the enhanced layout */
			assert_int_equal(burst(desc), 1);
			spw_port_release_burst(&hand.pq, &desc[0].slot, 1);
			hand_session(&hand, 3, f);
			mlx5_eth_rx_odd(hand.q);
			assert_int_equal(hand.q->rx_err.state, MLX5_ERR_NONE);
			assert_int_equal(burst(desc), 3);
			for (int i = 0; i < 3; i++)
				spw_port_release_burst(&hand.pq, &desc[i].slot, 1);
		}
		hand_plain(&hand, 77, f);
		mlx5_eth_rx_odd(hand.q);
		assert_int_equal(hand.q->rx_err.state, MLX5_ERR_NONE);
		assert_int_equal(burst(desc), 1);
		spw_port_release_burst(&hand.pq, &desc[0].slot, 1);
		check_alive(0);
		assert_int_equal(hand_close(&hand), 0);
	}
}

static void test_error_and_back(void **state)
{
	(void)state;
	for (unsigned v = 0; v < SPW_ARRAY_CNT(variants); v++) {
		struct spw_desc desc[SPW_BURST_MAX];
		struct spw_port_event ev[4];
		uint32_t slot[3];

		open_rx(variants[v]);
		for (int i = 0; i < 3; i++)
			hand_plain(&hand, 60, NULL);
		hand_error(&hand, SPW_PRM_SYN_LOCAL_PROT_ERR);
		hand.rq_ci++;
		hand_flush(&hand);
		uint32_t flushed = hand.pi - 128 - 4;

		assert_int_equal(burst(desc), 3); /* those before it are lent */
		for (int i = 0; i < 3; i++)
			slot[i] = desc[i].slot;
		assert_int_equal(burst(desc), 0);
		assert_int_equal(burst(desc), 0);
		assert_int_equal(hand.rq_resets, 0); /* not in a burst */
		assert_int_equal(spw_port_events(&hand.pq, ev, 4), 2);
		assert_int_equal(ev[0].kind, SPW_PORT_EVENT_QUEUE_ERROR);
		assert_int_equal(ev[0].code, SPW_PRM_SYN_LOCAL_PROT_ERR);
		assert_int_equal(ev[0].queue, 3);
		assert_int_equal(ev[1].kind, SPW_PORT_EVENT_QUEUE_BACK);
		assert_true(ev[1].outage_ns > 0);
		assert_int_equal(hand.rq_resets, 1);
		assert_int_equal(hand.rq_readies, 1);
		assert_int_equal(hand.q->stat.err[SPW_PORT_ERR_cqe_error], 1 + flushed);
		assert_int_equal(hand.q->syndrome[SPW_PRM_SYN_LOCAL_PROT_ERR], 1);
		assert_int_equal(hand.q->syndrome[SPW_PRM_SYN_WR_FLUSH_ERR], flushed);
		assert_int_equal(hand.q->stat.dropped[SPW_PORT_DROP_rx_error], 1);
		assert_int_equal(hand.q->stat.dropped[SPW_PORT_DROP_rx_flushed], 0);
		assert_int_equal(hand.q->cq_ci, hand.pi);
		assert_true(hand_balanced(&hand, 3));
		check_alive(3);
		spw_port_release_burst(&hand.pq, slot, 3);
		assert_int_equal(spw_port_events(&hand.pq, ev, 4), 0);
		assert_int_equal(hand_close(&hand), 0);
	}
}

/* The device's own event comes before any burst has met the completion that names the cause: the
 * report that the queue is back names it. */
static void test_event_before_completion(void **state)
{
	(void)state;
	for (unsigned v = 0; v < SPW_ARRAY_CNT(variants); v++) {
		struct spw_port_event ev[4];

		open_rx(variants[v]);
		hand_error(&hand, SPW_PRM_SYN_LOCAL_PROT_ERR);
		hand.rq_ci++;
		hand_flush(&hand);
		mlx5_eth_rx_failed(hand.q, "the device says so");
		assert_int_equal(spw_port_events(&hand.pq, ev, 4), 2);
		assert_string_equal(ev[0].text, "receive queue: the device says so");
		assert_non_null(strstr(ev[1].text, " us; it was local protection error"));
		check_alive(0);
		assert_int_equal(hand_close(&hand), 0);
	}
}

/* Frames that lie in the ring behind a CQE that makes no sense go down with it, and are counted. */
static void test_nonsense_and_back(void **state)
{
	(void)state;
	for (unsigned v = 0; v < SPW_ARRAY_CNT(variants); v++) {
		bool compressed = variants[v] & MLX5_F_COMPRESSED;
		struct spw_desc desc[SPW_BURST_MAX];
		struct spw_port_event ev[4];
		struct hand_frame f[64];

		open_rx(variants[v]);
		hand_plain(&hand, 60, NULL);
		hand_plain(&hand, 60, NULL);
		hand.cq[64 + 63] = (uint8_t)((hand.cq[64 + 63] & 0xf) |
					     0x90); /* an opcode that there is not */
		if (variants[v] & MLX5_F_ENHANCED)
			hand.cq[64 + 63] = 0x9c; /* ten minis in a block of seven */
		hand_plain(&hand, 60, NULL);
		if (compressed)
			hand_session(&hand, 7, f);
		assert_int_equal(burst(desc), 1);
		spw_port_release_burst(&hand.pq, &desc[0].slot, 1);
		assert_int_equal(burst(desc), 0);
		assert_int_equal(spw_port_events(&hand.pq, ev, 4), 2);
		assert_int_equal(ev[0].code, 0);
		if (!(variants[v] & MLX5_F_ENHANCED)) {
			assert_int_equal(hand.q->stat.dropped[SPW_PORT_DROP_rx_flushed],
					 compressed ? 9 : 2);
			assert_int_equal(hand.q->cq_ci, hand.pi);
			check_alive(0);
		}
		assert_int_equal(hand_close(&hand), 0);
	}
}

/* A reset in the middle of a session: the rest of it is flushed, and the rings agree again. */
static void test_reset_inside_a_session(void **state)
{
	(void)state;
	for (unsigned striding = 0; striding < 2; striding++)
		for (uint16_t taken = 1; taken < 30; taken++) {
			struct spw_desc desc[SPW_BURST_MAX];
			struct spw_port_event ev[4];
			struct hand_frame f[64];

			open_rx(MLX5_F_COMPRESSED | (striding ? MLX5_F_STRIDING : 0));
			hand_session(&hand, 30, f);
			hand_session(&hand, 20, f);
			assert_int_equal(spw_port_rx_burst(&hand.pq, desc, taken), taken);
			for (uint16_t i = 0; i < taken; i++)
				spw_port_release_burst(&hand.pq, &desc[i].slot, 1);
			mlx5_eth_rx_fault(hand.q, 0);
			assert_int_equal(spw_port_events(&hand.pq, ev, 4), 2);
			assert_int_equal(hand.q->stat.dropped[SPW_PORT_DROP_rx_flushed],
					 50 - taken);
			assert_int_equal(hand.q->cq_ci, hand.pi);
			check_alive(0);
			assert_int_equal(hand_close(&hand), 0);
		}
}

/* The queue stays ready: a frame longer than its WQE costs that WQE, and nothing of the others. */
static void test_too_long_by_syndrome(void **state)
{
	(void)state;
	for (unsigned v = 0; v < SPW_ARRAY_CNT(variants); v++) {
		const uint32_t strides =
			variants[v] & MLX5_F_STRIDING ? 2 : 0; /* with two frames a divisor of 16 */
		struct spw_desc desc[SPW_BURST_MAX + 1];
		struct spw_port_event ev[4];
		uint32_t got;

		open_rx(variants[v]);
		for (uint32_t i = 0; i < 300; i++) {
			hand_plain(&hand, 60, NULL);
			hand_bad_frame(&hand, SPW_PRM_SYN_LOCAL_LENGTH_ERR, strides);
			hand_plain(&hand, 60, NULL);
			got = burst(desc);
			assert_int_equal(got, 1);
			assert_int_equal(burst(desc + 1), 0); /* the one that is skipped */
			got += burst(desc + 1);
			assert_int_equal(got, 2);
			for (uint32_t k = 0; k < got; k++)
				spw_port_release_burst(&hand.pq, &desc[k].slot, 1);
			assert_true(hand_balanced(&hand, 0));
			assert_int_equal(spw_port_events(&hand.pq, ev, 4), 0);
		}
		assert_int_equal(hand.rq_resets, 0);
		assert_int_equal(hand.q->stat.rx_frames, 600);
		assert_int_equal(hand.q->stat.dropped[SPW_PORT_DROP_too_long], 300);
		assert_int_equal(hand.q->syndrome[SPW_PRM_SYN_LOCAL_LENGTH_ERR], 300);
		assert_int_equal(hand.q->stat.err[SPW_PORT_ERR_cqe_error], 300);
		check_alive(0);
		assert_int_equal(hand_close(&hand), 0);
	}
}

/* A whole ring of nothing else, and one that has no WQE: the ring is refilled as it goes. */
static void test_only_too_long(void **state)
{
	struct spw_desc desc[SPW_BURST_MAX];
	struct spw_port_event ev[4];

	(void)state;
	open_rx(MLX5_F_STAMP);
	for (uint32_t lap = 0; lap < 5; lap++) {
		while (hand_room(&hand))
			hand_bad_frame(&hand, SPW_PRM_SYN_LOCAL_LENGTH_ERR, 0);
		for (uint32_t i = 0; i < 2 * 128 / SPW_BURST_MAX && hand_room(&hand) < 128; i++)
			assert_int_equal(burst(desc), 0);
		assert_int_equal(hand_room(&hand), 128);
		assert_true(hand_balanced(&hand, 0));
	}
	assert_int_equal(hand.q->stat.dropped[SPW_PORT_DROP_too_long], 5 * 128);
	assert_int_equal(spw_port_events(&hand.pq, ev, 4), 0);
	check_alive(0);
	assert_int_equal(hand_close(&hand), 0);
}

/* A device that does put the queue into error after it: the flushes say so, and it is reset. */
static void test_too_long_and_flushed(void **state)
{
	(void)state;
	for (unsigned v = 0; v < SPW_ARRAY_CNT(variants); v++) {
		struct spw_desc desc[SPW_BURST_MAX];
		struct spw_port_event ev[4];

		open_rx(variants[v]);
		hand_bad_frame(&hand, SPW_PRM_SYN_LOCAL_LENGTH_ERR,
			       variants[v] & MLX5_F_STRIDING ? 1 : 0);
		hand_flush(&hand);
		for (uint32_t i = 0; i < 3; i++)
			assert_int_equal(burst(desc), 0);
		assert_int_equal(spw_port_events(&hand.pq, ev, 4), 2);
		assert_int_equal(ev[1].kind, SPW_PORT_EVENT_QUEUE_BACK);
		assert_int_equal(hand.rq_resets, 1);
		assert_int_equal(hand.q->stat.dropped[SPW_PORT_DROP_too_long], 1);
		assert_int_equal(hand.q->stat.dropped[SPW_PORT_DROP_rx_error], 0);
		check_alive(0);
		assert_int_equal(hand_close(&hand), 0);
	}
}

/* Strides that cannot be: the queue does not guess where the NIC is. */
static void test_too_long_with_wrong_strides(void **state)
{
	static const uint32_t wrong[] = {0, 17, 0x7fff};

	(void)state;
	for (unsigned i = 0; i < SPW_ARRAY_CNT(wrong); i++) {
		struct spw_desc desc[SPW_BURST_MAX];
		struct spw_port_event ev[4];

		open_rx(MLX5_F_STRIDING);
		hand_bad_frame(&hand, SPW_PRM_SYN_LOCAL_LENGTH_ERR, wrong[i]);
		assert_int_equal(burst(desc), 0);
		assert_int_equal(spw_port_events(&hand.pq, ev, 4), 2);
		assert_int_equal(hand.rq_resets, 1);
		assert_int_equal(hand.q->stat.dropped[SPW_PORT_DROP_too_long], 1);
		check_alive(0);
		assert_int_equal(hand_close(&hand), 0);
	}
}

/* A reset that fails is tried again; one that never works ends in DEVICE_GONE, reported once. */
static void test_reset_fails(void **state)
{
	struct spw_desc desc[SPW_BURST_MAX];
	struct spw_port_event ev[4];
	unsigned gone = 0;

	(void)state;
	open_rx(MLX5_F_STAMP);
	hand.reset_rc = -EIO;
	hand_error(&hand, SPW_PRM_SYN_LOCAL_QP_OP_ERR);
	burst(desc);
	assert_int_equal(spw_port_events(&hand.pq, ev, 4), 1);
	assert_int_equal(spw_port_events(&hand.pq, ev, 4), 0);
	hand.reset_rc = 0;
	assert_int_equal(spw_port_events(&hand.pq, ev, 4), 1);
	assert_int_equal(ev[0].kind, SPW_PORT_EVENT_QUEUE_BACK);
	check_alive(0);

	hand.reset_rc = -EIO;
	hand_error(&hand, SPW_PRM_SYN_LOCAL_QP_OP_ERR);
	burst(desc);
	for (int i = 0; i < 1000; i++)
		for (uint16_t n = spw_port_events(&hand.pq, ev, 4); n > 0; n--)
			gone += ev[n - 1].kind == SPW_PORT_EVENT_DEVICE_GONE;
	assert_int_equal(gone, 1);
	assert_true(hand_balanced(&hand, 0));
	assert_int_equal(hand_close(&hand), 0);
}

/* Many resets: counters of the CQ go on where they were, those of the RQ start anew. */
static void test_many_resets(void **state)
{
	(void)state;
	for (unsigned v = 0; v < SPW_ARRAY_CNT(variants); v++) {
		uint64_t seed = 3;

		open_rx(variants[v]);
		for (int i = 0; i < 300; i++) {
			struct spw_desc desc[SPW_BURST_MAX];
			struct spw_port_event ev[4];
			uint32_t n = 1 + unit_random(&seed) % 60;

			for (uint32_t k = 0; k < n; k++)
				hand_plain(&hand, 60, NULL);
			hand_error(&hand, SPW_PRM_SYN_LOCAL_PROT_ERR);
			for (uint16_t got; (got = burst(desc)) > 0;)
				for (uint16_t k = 0; k < got; k++, n--)
					spw_port_release_burst(&hand.pq, &desc[k].slot, 1);
			assert_int_equal(n, 0);
			assert_int_equal(spw_port_events(&hand.pq, ev, 4), 2);
			assert_true(hand_balanced(&hand, 0));
		}
		assert_int_equal(hand.q->stat.err[SPW_PORT_ERR_queue_reset], 300);
		check_alive(0);
		assert_int_equal(hand_close(&hand), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_frame_between_two_looks),
		cmocka_unit_test(test_error_and_back),
		cmocka_unit_test(test_event_before_completion),
		cmocka_unit_test(test_nonsense_and_back),
		cmocka_unit_test(test_reset_inside_a_session),
		cmocka_unit_test(test_too_long_by_syndrome),
		cmocka_unit_test(test_only_too_long),
		cmocka_unit_test(test_too_long_and_flushed),
		cmocka_unit_test(test_too_long_with_wrong_strides),
		cmocka_unit_test(test_reset_fails),
		cmocka_unit_test(test_many_resets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
