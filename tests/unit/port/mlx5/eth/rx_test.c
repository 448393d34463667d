/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The receive burst on rings that the test fills by hand: every descriptor against what the NIC
 * delivered, every slot accounted for after every call. Then all of it again with queues that keep
 * their raw completions (port/mlx5/eth/raw.h), whose reader must come to the same descriptors.
 */
#include "model.h"

/* ---- every variant, past every wrap ---- */

static const struct {
	const char *name;
	unsigned flags;
} variants[] = {
	{"latency", MLX5_F_STAMP},
	{"cyclic", 0},
	{"cyclic compressed", MLX5_F_COMPRESSED},
	{"cyclic compressed enhanced", MLX5_F_COMPRESSED | MLX5_F_ENHANCED},
	{"split stamp", MLX5_F_SPLIT | MLX5_F_STAMP},
	{"split", MLX5_F_SPLIT},
	{"split compressed", MLX5_F_SPLIT | MLX5_F_COMPRESSED},
	{"split compressed enhanced", MLX5_F_SPLIT | MLX5_F_COMPRESSED | MLX5_F_ENHANCED},
	{"striding stamp", MLX5_F_STRIDING | MLX5_F_STAMP},
	{"striding", MLX5_F_STRIDING},
	{"striding compressed", MLX5_F_STRIDING | MLX5_F_COMPRESSED},
	{"striding compressed enhanced", MLX5_F_STRIDING | MLX5_F_COMPRESSED | MLX5_F_ENHANCED},
};

static void test_laps(void **state)
{
	struct model *m = *state;

	for (unsigned v = 0; v < SPW_ARRAY_CNT(variants); v++) {
		struct hand_conf c = model_conf(variants[v].flags, 0, 0);

		print_message("laps: %s\n", variants[v].name);
		model_open(m, &c);
		model_run(m, 128 * 300); /* enhanced: the 8-bit lap count wraps */
		model_close(m);
	}
}

/* 2^16 WQEs, 2^24 and 2^32 CQEs are a few laps away. */
static void test_counter_wraps(void **state)
{
	static const uint32_t starts[] = {(1u << 24) - 256, 0u - 256, (1u << 16) - 256,
					  (1u << 31) - 128};
	struct model *m = *state;

	for (unsigned v = 0; v < SPW_ARRAY_CNT(variants); v++)
		for (unsigned s = 0; s < SPW_ARRAY_CNT(starts); s++) {
			struct hand_conf c =
				model_conf(variants[v].flags, starts[s], (uint16_t)(65536 - 5));

			model_open(m, &c);
			model_run(m, 128 * 6);
			model_close(m);
		}
}

/* Real counts, not a shortened road: 2^16 WQEs several times over, in bursts that never divide the
 * ring. */
static void test_full_u16_laps(void **state)
{
	struct model *m = *state;
	struct hand_conf c = model_conf(MLX5_F_STAMP, 0, 0);

	model_open(m, &c);
	while (m->frames < 3 * 65536 + 17) {
		model_plain(m, 61);
		model_burst(m, 61);
		model_release(m, 61);
	}
	model_close(m);
}

/* ---- compression ---- */

/* All lengths, each taken by bursts of every size, at every place of the ring. */
static void test_session_lengths(void **state)
{
	struct model *m = *state;
	struct hand_conf c = model_conf(MLX5_F_COMPRESSED, 0, 0);

	model_open(m, &c);
	for (uint32_t len = 2; len <= 64; len++)
		for (uint16_t burst = 1; burst <= 64; burst += 3) {
			model_session(m, len);
			while (m->head != m->tail)
				assert_true(model_burst(m, burst) > 0);
			while (m->lent_cnt)
				model_release(m, 64);
			assert_int_equal(model_burst(m, 64), 0);
			assert_int_equal(hand_room(&m->h), 128);
		}
	model_close(m);
}

static void test_session_of_whole_ring(void **state)
{
	struct model *m = *state;
	struct hand_frame f[128];
	struct hand_conf c = model_conf(MLX5_F_COMPRESSED, 0, 0);

	model_open(m, &c);
	for (int lap = 0; lap < 5; lap++) {
		model_burst(m, 64); /* refills */
		assert_int_equal(hand_room(&m->h), 128);
		hand_session(&m->h, 128, f);
		for (uint32_t i = 0; i < 128; i++)
			m->frame[m->tail++ % QUEUE_MAX] = f[i];
		model_drain(m);
	}
	model_close(m);
}

/* A count that no session can have: the queue asks for a reset and lends nothing. */
static void test_session_count_lies(void **state)
{
	static const uint32_t counts[] = {0, 129, 0x80000000u, 0xffffffffu};
	struct model *m = *state;

	for (unsigned i = 0; i < SPW_ARRAY_CNT(counts); i++) {
		struct hand_frame f[8];
		struct hand_conf c = model_conf(MLX5_F_COMPRESSED, 0, 0);

		model_open(m, &c);
		hand_session(&m->h, 8, f);
		spw_prm_cqe64_set_byte_cnt(m->h.cq, counts[i]);
		assert_int_equal(model_burst(m, 64), 0);
		assert_int_equal(m->h.q->rx_err.state, MLX5_ERR_NOTED);
		assert_int_equal(hand_close(&m->h), 0);
	}
}

/* ---- lengths, drops, refill ---- */

static void test_lengths_are_bounded(void **state)
{
	static const uint32_t bad[] = {0, 257, 0xffff, 0x7fffffff, 0xffffffff};
	struct model *m = *state;
	struct hand_conf c = model_conf(MLX5_F_STAMP, 0, 0);

	model_open(m, &c);
	for (unsigned i = 0; i < SPW_ARRAY_CNT(bad); i++) {
		hand_plain(&m->h, bad[i], NULL);
		assert_int_equal(model_burst(m, 64), 0);
		assert_int_equal(m->h.q->stat.dropped[SPW_PORT_DROP_too_long], i + 1);
	}
	hand_plain(&m->h, 256, &m->frame[m->tail++]);
	assert_int_equal(model_burst(m, 64), 1);
	model_close(m);
}

/* The NIC may not complete what was never posted. */
static void test_more_cqes_than_wqes(void **state)
{
	struct model *m = *state;

	for (unsigned v = 0; v < SPW_ARRAY_CNT(variants); v++) {
		struct hand_conf c = model_conf(variants[v].flags, 0, 0);
		uint32_t lent = 0;

		c.cq_cnt = 256;
		c.slot_cnt = c.flags & MLX5_F_STRIDING ? 128 : 100;
		model_open(m, &c);
		for (uint32_t i = 0; i < 200; i++)
			hand_plain(&m->h, 60, NULL);
		for (int i = 0; i < 10; i++) {
			struct spw_desc desc[64];

			lent += spw_port_rx_burst(&m->h.pq, desc, 64);
			assert_true(hand_balanced(&m->h, lent));
		}
		assert_int_equal(lent, c.slot_cnt);
		assert_int_equal(m->h.q->rx_err.state, MLX5_ERR_NOTED);
		hand_close(&m->h);
	}
}

static void test_nic_drop_count(void **state)
{
	struct model *m = *state;
	struct hand_conf c = model_conf(MLX5_F_STAMP, 0, 0);

	model_open(m, &c);
	for (uint32_t i = 0; i < 10; i++) {
		m->h.drops = (uint8_t)(i * 28);
		hand_plain(&m->h, 60, &m->frame[m->tail++]);
	}
	model_burst(m, 64);
	assert_int_equal(m->h.q->rx_nic_drops, 45 * 28);
	model_close(m);
}

/* cnt frames of a flow tag, as the variant has them, that stay in the ring. */
static void tag_frames(struct model *m, uint32_t tag, uint32_t cnt)
{
	m->h.tag = tag;
	model_plain(m, 1); /* enhanced: the title of what follows */
	if (m->h.conf.flags & MLX5_F_COMPRESSED)
		model_session(m, cnt - 1);
	else
		model_plain(m, cnt - 1);
}

/* Frames count for their rule, whatever bursts they come in. Tag 65 has the place of tag 1, of
 * which the ring still holds frames when 65's rule is made. */
static void test_flow_tags(void **state)
{
	struct model *m = *state;

	for (unsigned v = 0; v < SPW_ARRAY_CNT(variants); v++)
		for (uint16_t burst = 1; burst <= 64; burst += 9) {
			struct hand_conf c = model_conf(variants[v].flags, 0, 0);
			struct mlx5_eth_queue *q;

			model_open(m, &c);
			q = m->h.q;
			tag_frames(m, 1, 3);
			tag_frames(m, 2, 4);
			tag_frames(m, 1, 5);
			tag_frames(m, 0, 2);
			while (model_burst(m, burst))
				;
			assert_int_equal(mlx5_eth_queue_tag_frames(q, 1), 8);
			assert_int_equal(mlx5_eth_queue_tag_frames(q, 2), 4);
			tag_frames(m, 1, 6);
			assert_int_equal(mlx5_eth_queue_tag_frames(q, 65), 0);
			tag_frames(m, 65, 3);
			while (model_burst(m, burst))
				;
			assert_int_equal(mlx5_eth_queue_tag_frames(q, 65), 3);
			assert_int_equal(mlx5_eth_queue_tag_frames(q, 1), 0);
			assert_int_equal(mlx5_eth_queue_tag_frames(q, 2), 4);
			model_close(m);
		}
}

/* The pool runs dry, the ring empties, and both fill again by themselves when slots come back. */
static void test_starved_and_back(void **state)
{
	struct model *m = *state;

	for (unsigned v = 0; v < SPW_ARRAY_CNT(variants); v++) {
		struct hand_conf c = model_conf(variants[v].flags, 0, 0);

		model_open(m, &c);
		for (int i = 0; i < 20; i++) {
			model_plain(m, 64);
			model_burst(m, 64);
		}
		assert_int_equal(hand_room(&m->h), 0);
		assert_int_equal(model_burst(m, 64), 0);
		assert_true(m->h.q->stat.err[SPW_PORT_ERR_no_slot] > 0);
		uint64_t counted = m->h.q->stat.err[SPW_PORT_ERR_no_slot];

		model_burst(m, 64);
		assert_int_equal(m->h.q->stat.err[SPW_PORT_ERR_no_slot],
				 counted); /* idle polls do not count */
		while (m->lent_cnt)
			model_release(m, 64);
		model_burst(m, 64); /* an idle poll refills */
		assert_true(hand_room(&m->h) > 0);
		model_run(m, m->frames + 1000);
		model_close(m);
	}
}

/* Refills come in lumps; WQEs are not posted one by one. */
static void test_refill_threshold(void **state)
{
	struct model *m = *state;
	struct hand_conf c = model_conf(0, 0, 0);

	c.refill_min = 32;
	model_open(m, &c);
	assert_int_equal(hand_room(&m->h), 128);
	model_plain(m, 31);
	model_burst(m, 64);
	assert_int_equal(hand_room(&m->h), 97);
	model_plain(m, 1);
	model_burst(m, 64);
	assert_int_equal(hand_room(&m->h), 128);
	model_close(m);
}

/* ---- striding ---- */

static void test_fillers_and_long_frames(void **state)
{
	struct model *m = *state;
	struct hand_conf c = model_conf(MLX5_F_STRIDING, 0, 0);

	model_open(m, &c);
	for (int lap = 0; lap < 100; lap++) {
		model_plain(m, 13);
		hand_strides(&m->h, 2, 300, false); /* too long for a slot */
		hand_strides(&m->h, 1, 0, true);    /* filler to the end of the buffer */
		assert_int_equal(m->h.stride_pos, 0);
		while (m->head != m->tail)
			model_burst(m, 5);
		model_burst(m, 5);
		assert_int_equal(m->h.q->stat.dropped[SPW_PORT_DROP_too_long], lap + 1);
		model_release(m, 13);
	}
	model_close(m);
}

/* A buffer comes back when its last stride does, not before. */
static void test_last_stride_returns_the_buffer(void **state)
{
	struct model *m = *state;
	struct hand_conf c = model_conf(MLX5_F_STRIDING, 0, 0);
	struct spw_desc desc[16];
	uint32_t last;

	c.rq_cnt = 2;
	c.slot_cnt = 48; /* two posted, one free */
	model_open(m, &c);
	for (int lap = 0; lap < 10; lap++) {
		uint32_t free_before = m->h.q->group_free_cnt;

		for (int i = 0; i < 16; i++)
			hand_plain(&m->h, 60, NULL);
		assert_int_equal(spw_port_rx_burst(&m->h.pq, desc, 16), 16);
		assert_int_equal(m->h.q->group_free_cnt,
				 free_before - 1); /* the hole was filled from it */
		last = desc[lap].slot;
		for (int i = 0; i < 16; i++)
			if (i != lap)
				spw_port_release_burst(&m->h.pq, &desc[i].slot, 1);
		assert_int_equal(m->h.q->group_free_cnt, free_before - 1);
		spw_port_release_burst(&m->h.pq, &last, 1);
		assert_int_equal(m->h.q->group_free_cnt, free_before);
		assert_true(hand_balanced(&m->h, 0));
	}
	assert_int_equal(hand_close(&m->h), 0);
}

static void test_stride_lies(void **state)
{
	static const uint32_t strides[] = {0, 17, 0x7fff};
	struct model *m = *state;

	for (unsigned i = 0; i < SPW_ARRAY_CNT(strides); i++) {
		struct hand_conf c = model_conf(MLX5_F_STRIDING, 0, 0);
		struct spw_desc desc[4];

		model_open(m, &c);
		hand_plain(&m->h, 60, NULL);
		spw_prm_cqe64_set_byte_cnt(m->h.cq, strides[i] << 16 | 60);
		assert_int_equal(spw_port_rx_burst(&m->h.pq, desc, 4), 0);
		assert_int_equal(m->h.q->rx_err.state, MLX5_ERR_NOTED);
		assert_true(hand_balanced(&m->h, 0));
		assert_int_equal(hand_close(&m->h), 0);
	}
}

/* ---- empty slots ---- */

static void test_lend_burst(void **state)
{
	struct model *m = *state;
	uint32_t slot[64];

	for (unsigned v = 0; v < SPW_ARRAY_CNT(variants); v++) {
		struct hand_conf c = model_conf(variants[v].flags, 0, 0);

		model_open(m, &c);
		for (int i = 0; i < 50; i++) {
			uint16_t n = spw_port_lend_burst(&m->h.pq, slot, (uint16_t)(1 + i));

			assert_true(n > 0);
			assert_true(hand_balanced(&m->h, n));
			for (uint16_t k = 0; k < n; k++)
				memset(spw_pool_slot_addr(&m->h.pool, slot[k]), 1, c.slot_bytes);
			spw_port_release_burst(&m->h.pq, slot, n);
			model_plain(m, 8);
			model_burst(m, 8);
			model_release(m, 8);
		}
		model_close(m);
	}
}

/* ---- bad set-up ---- */

static void test_bad_shapes(void **state)
{
	struct model *m = *state;
	struct hand_conf c[8] = {model_small, model_small, model_small, model_small, model_small};

	c[0].cq_cnt = 100;
	c[1].rq_cnt = 1u << 16;
	c[2].flags = MLX5_F_ENHANCED;
	c[3].refill_min = 129;
	c[4].cq_cnt = 64;
	c[5] = c[6] = model_conf(MLX5_F_STRIDING, 0, 0);
	c[5].slot_bytes = 192;
	c[6].slot_cnt = 31;
	c[7] = model_conf(MLX5_F_STRIDING | MLX5_F_SPLIT, 0, 0);
	for (unsigned i = 0; i < SPW_ARRAY_CNT(c); i++) {
		assert_true(hand_open(&m->h, &c[i]) < 0);
		assert_non_null(strstr(spw_err_text(), "mlx5: "));
		assert_int_equal(hand_close(&m->h), 0);
	}
}

static int setup(void **state)
{
	static struct model m;

	*state = &m;
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_laps),
		cmocka_unit_test(test_counter_wraps),
		cmocka_unit_test(test_full_u16_laps),
		cmocka_unit_test(test_session_lengths),
		cmocka_unit_test(test_session_of_whole_ring),
		cmocka_unit_test(test_session_count_lies),
		cmocka_unit_test(test_lengths_are_bounded),
		cmocka_unit_test(test_more_cqes_than_wqes),
		cmocka_unit_test(test_nic_drop_count),
		cmocka_unit_test(test_flow_tags),
		cmocka_unit_test(test_starved_and_back),
		cmocka_unit_test(test_refill_threshold),
		cmocka_unit_test(test_fillers_and_long_frames),
		cmocka_unit_test(test_last_stride_returns_the_buffer),
		cmocka_unit_test(test_stride_lies),
		cmocka_unit_test(test_lend_burst),
		cmocka_unit_test(test_bad_shapes),
	};

	int failed = cmocka_run_group_tests_name("frames", tests, setup, NULL);

	model_keeps_raw = true;
	return failed +
	       cmocka_run_group_tests_name("frames, raw completions kept", tests, setup, NULL);
}
