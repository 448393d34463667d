/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The send burst: what lies in the ring, the doorbell record and the register, byte for byte; slots
 * that are returned; and completions that are kept.
 */
#include "hand.h"
#include "unit_test.h"

#define SQ_CNT 64u

static struct hand hand;

static void open_tx(unsigned flags, uint16_t start, uint32_t bf_bytes)
{
	struct hand_conf c = {
		.flags = flags,
		.cq_cnt = 128,
		.rq_cnt = 128,
		.sq_cnt = SQ_CNT,
		.slot_bytes = 256,
		.slot_cnt = 400,
		.refill_min = 1,
		.rq_start = start,
		.bf_bytes = bf_bytes,
	};

	if (flags & MLX5_F_STRIDING) {
		c.strides_log2 = 4;
		c.rq_cnt = 8;
	}
	assert_int_equal(hand_open(&hand, &c), 0);
}

/* cnt frames of our own making. */
static void lend(struct spw_desc *desc, struct spw_desc **ptr, uint16_t cnt, uint32_t len)
{
	uint32_t slot[SPW_BURST_MAX];

	assert_int_equal(spw_port_lend_burst(&hand.pq, slot, cnt), cnt);
	for (uint16_t i = 0; i < cnt; i++) {
		desc[i] = (struct spw_desc){.slot = slot[i], .offset = 2, .len = len};
		ptr[i] = &desc[i];
		for (uint32_t k = 0; k < len; k++)
			spw_pool_slot_addr(&hand.pool, slot[i])[2 + k] = (uint8_t)(slot[i] + k);
	}
}

static uint16_t send(uint16_t cnt, uint32_t len)
{
	struct spw_desc desc[SPW_BURST_MAX], *ptr[SPW_BURST_MAX];
	uint16_t n;

	lend(desc, ptr, cnt, len);
	n = spw_port_tx_burst(&hand.pq, ptr, cnt);
	for (uint16_t i = n; i < cnt; i++)
		spw_port_release_burst(&hand.pq, &desc[i].slot, 1);
	return n;
}

static const uint8_t *wqe_at(uint32_t pos)
{
	return hand.sq + (pos % SQ_CNT) * 64;
}

static void check_wqe(uint32_t pos, const struct spw_desc *d, uint32_t inl, bool last)
{
	const uint8_t *w = wqe_at(pos), *eth = w + 16, *data = w + (inl ? 48 : 32);
	const uint8_t *frame = spw_pool_slot_addr(&hand.pool, d->slot) + d->offset;

	assert_int_equal(spw_prm_wqe_ctrl_get_opcode(w), SPW_PRM_OP_SEND);
	assert_int_equal(spw_prm_wqe_ctrl_get_wqe_index(w), pos & 0xffff);
	assert_int_equal(spw_prm_wqe_ctrl_get_qpn(w), HAND_QPN);
	assert_int_equal(spw_prm_wqe_ctrl_get_ds(w), inl ? 4 : 3);
	assert_int_equal(spw_prm_wqe_ctrl_get_ce(w), last ? SPW_PRM_CTRL_CE_CQE : 0);
	assert_int_equal(spw_prm_wqe_eth_get_inline_hdr_sz(eth), inl);
	assert_memory_equal(eth + 14, frame, inl);
	assert_int_equal(spw_prm_wqe_data_get_inline_seg(data), 0);
	assert_int_equal(spw_prm_wqe_data_get_byte_count(data), d->len - inl);
	assert_int_equal(spw_prm_wqe_data_get_lkey(data), HAND_LKEY);
	assert_int_equal(spw_prm_wqe_data_get_addr(data), (uintptr_t)frame + inl);
}

static void test_wqes(void **state)
{
	(void)state;
	for (unsigned inl = 0; inl < 2; inl++) {
		struct spw_desc desc[5], *ptr[5];

		open_tx(inl ? MLX5_F_INLINE : 0, 65534, 256);
		lend(desc, ptr, 5, 60);
		assert_int_equal(spw_port_tx_burst(&hand.pq, ptr, 5), 5);
		for (uint32_t i = 0; i < 5; i++)
			check_wqe(65534 + i, &desc[i], inl ? 18 : 0, i == 4);
		assert_int_equal(spw_be32_to_cpu(hand.db[2]), 3); /* past 2^16 */
		assert_memory_equal(hand.uar + 0x800, wqe_at(65538), 8);
		assert_true(hand_balanced(&hand, 0));
		hand_sent(&hand, 2, 0);
		assert_int_equal(hand_close(&hand), 0);
	}
}

/* One WQE: its 64 bytes, to each half in turn. Several: 8 bytes of the last. No BlueFlame: always
 * 8, always the first half. */
static void test_doorbells(void **state)
{
	uint8_t zero[64] = {0};

	(void)state;
	open_tx(0, 0, 256);
	send(1, 60);
	assert_memory_equal(hand.uar + 0x800, wqe_at(0), 64);
	send(1, 60);
	assert_memory_equal(hand.uar + 0x900, wqe_at(1), 64);
	memset(hand.uar, 0, 4096);
	send(3, 60);
	assert_memory_equal(hand.uar + 0x800, wqe_at(4), 8);
	assert_memory_equal(hand.uar + 0x808, zero, 56);
	assert_memory_equal(hand.uar + 0x900, zero, 64);
	assert_int_equal(hand_close(&hand), 0);

	open_tx(0, 0, 0);
	send(1, 60);
	memset(hand.uar, 0, 4096);
	send(1, 60);
	assert_memory_equal(hand.uar + 0x800, wqe_at(1), 8);
	assert_memory_equal(hand.uar + 0x808, zero, 56);
	assert_int_equal(hand_close(&hand), 0);
}

/* A frame no longer than the inline part is padded there and has no data segment. */
static void test_short_frames(void **state)
{
	(void)state;
	for (uint32_t len = 1; len <= 20; len++) {
		const uint8_t *w = hand.sq;

		open_tx(MLX5_F_INLINE, 0, 256);
		send(1, len);
		w = wqe_at(0);
		assert_int_equal(spw_prm_wqe_ctrl_get_ds(w), len <= 18 ? 3 : 4);
		assert_int_equal(spw_prm_wqe_ctrl_get_ce(w), SPW_PRM_CTRL_CE_CQE);
		assert_int_equal(spw_prm_wqe_eth_get_inline_hdr_sz(w + 16), 18);
		for (uint32_t k = len; k < 18; k++)
			assert_int_equal(w[30 + k], 0);
		if (len > 18)
			assert_int_equal(spw_prm_wqe_data_get_byte_count(w + 48), len - 18);
		assert_int_equal(hand_close(&hand), 0);
	}
}

/* Slots are returned by the completion that names the last WQE of their burst; laps and 2^16 wraps
 * of WQEs and CQEs. */
static void test_completions(void **state)
{
	(void)state;
	for (unsigned f = 0; f < 2; f++) {
		uint64_t frames = 0, seed = 7;
		uint32_t pos = 65500;

		open_tx(f ? MLX5_F_STRIDING : 0, (uint16_t)pos, 256);
		for (int i = 0; i < 20000; i++) {
			uint16_t n = (uint16_t)(1 + unit_random(&seed) % 32);

			assert_int_equal(send(n, 100), n);
			assert_true(hand_balanced(&hand, 0));
			frames += n;
			pos += n;
			hand_sent(&hand, (uint16_t)(pos - 1), 0);
			spw_port_events(&hand.pq, NULL, 0);
			assert_int_equal(hand.q->sq_ci, hand.q->sq_pi);
			assert_int_equal(hand.q->stat.tx_frames, frames);
			assert_int_equal(hand.q->stat.tx_bytes, frames * 100);
			assert_int_equal(spw_be32_to_cpu(hand.db[3]), hand.tx_pi & 0xffffff);
		}
		assert_int_equal(hand.q->tx_err.state, MLX5_ERR_NONE);
		assert_int_equal(hand_close(&hand), 0);
	}
}

/* A full ring takes nothing, loses nothing, and goes on after a completion. */
static void test_full_ring(void **state)
{
	(void)state;
	open_tx(0, 0, 256);
	assert_int_equal(send(60, 64), 60);
	assert_int_equal(send(10, 64), 4);
	assert_int_equal(send(10, 64), 0);
	assert_true(hand_balanced(&hand, 0));
	hand_sent(&hand, 59, 0);
	assert_int_equal(send(61, 64), 60);
	assert_int_equal(hand_close(&hand), 0);
}

/* A completion of what was never posted: no slot moves; the queue asks for its reset, sends nothing
 * until then, and all slots are in the pool after it. */
static void test_completion_lies(void **state)
{
	static const uint16_t lie[] = {5, 100, 65535, 32768};

	(void)state;
	for (unsigned i = 0; i < SPW_ARRAY_CNT(lie); i++) {
		struct spw_port_event ev[4];

		open_tx(0, 0, 256);
		send(5, 64);
		hand_sent(&hand, lie[i], 0);
		assert_int_equal(send(1, 64), 0);
		assert_int_equal(hand.q->tx_err.state, MLX5_ERR_NOTED);
		assert_true(hand_balanced(&hand, 0));
		assert_int_equal(spw_port_events(&hand.pq, ev, 4), 2);
		assert_int_equal(hand.sq_resets, 1);
		assert_int_equal(hand.sq_readies, 1);
		assert_true(hand_balanced(&hand, 0));
		assert_int_equal(send(1, 64), 1);
		assert_int_equal(spw_prm_wqe_ctrl_get_wqe_index(wqe_at(0)), 0);
		hand_sent(&hand, 0, 0);
		spw_port_events(&hand.pq, ev, 4);
		assert_int_equal(hand.q->stat.tx_frames, 1);
		assert_int_equal(hand_close(&hand), 0);
	}
}

/* An error completion and the flushes behind it. */
static void test_send_error(void **state)
{
	struct spw_port_event ev[4];

	(void)state;
	open_tx(MLX5_F_INLINE, 0, 256);
	send(5, 64);
	hand_sent(&hand, 1, 0);
	hand_sent(&hand, 2, SPW_PRM_SYN_LOCAL_PROT_ERR);
	hand_sent(&hand, 3, SPW_PRM_SYN_WR_FLUSH_ERR);
	hand_sent(&hand, 4, SPW_PRM_SYN_WR_FLUSH_ERR);
	spw_port_events(&hand.pq, ev, 0); /* reaps the good one */
	spw_port_events(&hand.pq, ev, 0);
	assert_int_equal(hand.q->stat.tx_frames, 2);
	assert_int_equal(spw_port_events(&hand.pq, ev, 1), 1);
	assert_int_equal(ev[0].kind, SPW_PORT_EVENT_QUEUE_ERROR);
	assert_int_equal(ev[0].code, SPW_PRM_SYN_LOCAL_PROT_ERR);
	assert_non_null(strstr(ev[0].text, "local protection error"));
	assert_int_equal(spw_port_events(&hand.pq, ev, 1), 1);
	assert_int_equal(ev[0].kind, SPW_PORT_EVENT_QUEUE_BACK);
	assert_true(ev[0].outage_ns > 0);
	assert_int_equal(hand.q->stat.err[SPW_PORT_ERR_cqe_error], 3);
	assert_int_equal(hand.q->syndrome[SPW_PRM_SYN_WR_FLUSH_ERR], 2);
	assert_int_equal(hand.q->stat.err[SPW_PORT_ERR_queue_reset], 1);
	assert_true(hand_balanced(&hand, 0));
	assert_int_equal(send(3, 64), 3);
	hand_sent(&hand, 2, 0);
	spw_port_events(&hand.pq, ev, 4);
	assert_int_equal(hand.q->stat.tx_frames, 5);
	assert_int_equal(hand_close(&hand), 0);
}

/* ---- completions that are kept ---- */

static void expect_done(uint64_t i, uint64_t number, uint64_t stamp)
{
	const struct spw_port_done *d = &hand.q->sent.done[i & hand.q->sent.mask];

	assert_int_equal(d->number, number);
	assert_int_equal(d->stamp, stamp);
}

static void reap(void)
{
	spw_port_events(&hand.pq, NULL, 0);
}

/* The newest are kept, each with its stamp and the frames up to it, whichever call reaped them. */
static void test_sent_are_kept(void **state)
{
	(void)state;
	for (unsigned f = 0; f < 4; f++) {
		uint64_t seed = f, number[SQ_CNT], stamp[SQ_CNT], frames = 0, cnt = 0;
		uint16_t pos = 65500;

		open_tx((f & 1 ? MLX5_F_STRIDING : 0) | (f & 2 ? MLX5_F_INLINE : 0), pos, 256);
		assert_int_equal(mlx5_eth_queue_sent_keep(hand.q, &hand.pq), 0);
		for (int i = 0; i < 3000; i++) {
			const unsigned bursts = 1 + (unsigned)(unit_random(&seed) % 3);

			for (unsigned b = 0; b < bursts; b++, cnt++) {
				uint16_t n = (uint16_t)(1 + unit_random(&seed) % 16);

				assert_int_equal(send(n, 100), n);
				frames += n;
				pos = (uint16_t)(pos + n);
				number[cnt % SQ_CNT] = frames;
				stamp[cnt % SQ_CNT] = hand.clock + 1;
				hand_sent(&hand, (uint16_t)(pos - 1), 0);
			}
			reap();
			assert_int_equal(hand.q->sent.cnt, cnt);
			for (uint64_t k = cnt - SPW_MIN(cnt, SQ_CNT); k < cnt; k++)
				expect_done(k, number[k % SQ_CNT], stamp[k % SQ_CNT]);
		}
		assert_int_equal(hand_close(&hand), 0);
	}
}

/* One call can add as many as the ring has entries. */
static void test_sent_of_a_full_ring(void **state)
{
	uint64_t clock;

	(void)state;
	open_tx(0, 0, 256);
	clock = hand.clock;
	assert_int_equal(mlx5_eth_queue_sent_keep(hand.q, &hand.pq), 0);
	for (uint16_t i = 0; i < SQ_CNT; i++)
		assert_int_equal(send(1, 64), 1);
	for (uint16_t i = 0; i < SQ_CNT; i++)
		hand_sent(&hand, i, 0);
	reap();
	assert_int_equal(hand.q->sent.cnt, SQ_CNT);
	for (uint32_t i = 0; i < SQ_CNT; i++)
		expect_done(i, i + 1, clock + i + 1);
	assert_int_equal(hand_close(&hand), 0);
}

/* The queue fails in the middle: two frames were sent in time, two before the error with no stamp
 * that anybody knows, the rest flushed. Numbers go on behind them. */
static void test_sent_across_a_reset(void **state)
{
	struct spw_port_event ev[4];
	uint64_t clock;

	(void)state;
	open_tx(0, 0, 256);
	clock = hand.clock;
	assert_int_equal(mlx5_eth_queue_sent_keep(hand.q, &hand.pq), 0);
	send(2, 64);
	send(6, 64);
	hand_sent(&hand, 1, 0);
	hand_sent(&hand, 4, SPW_PRM_SYN_LOCAL_PROT_ERR); /* 2 and 3 were sent */
	hand_sent(&hand, 5, SPW_PRM_SYN_WR_FLUSH_ERR);
	spw_port_events(&hand.pq, ev, 4);
	spw_port_events(&hand.pq, ev, 4);
	assert_int_equal(hand.sq_readies, 1);
	assert_int_equal(hand.q->sent.cnt, 3);
	expect_done(0, 2, clock + 1);
	expect_done(1, 4, 0);
	expect_done(2, 8, 0);
	assert_int_equal(send(3, 64), 3);
	hand_sent(&hand, 2, 0);
	reap();
	assert_int_equal(hand.q->sent.cnt, 4);
	expect_done(3, 11, clock + 2);
	assert_int_equal(hand_close(&hand), 0);
}

static void test_sent_unless_asked(void **state)
{
	(void)state;
	open_tx(0, 0, 256);
	send(2, 64);
	hand_sent(&hand, 1, 0);
	reap();
	assert_int_equal(hand.q->sent.cnt, 0);
	assert_null(hand.q->sent.done);
	assert_int_equal(hand_close(&hand), 0);
}

static void test_no_send_queue(void **state)
{
	struct hand_conf c = {
		.cq_cnt = 64, .rq_cnt = 64, .slot_bytes = 256, .slot_cnt = 100, .refill_min = 1};
	struct spw_desc d = {0}, *p = &d;
	struct spw_port_event ev;

	(void)state;
	assert_int_equal(hand_open(&hand, &c), 0);
	assert_int_equal(spw_port_tx_burst(&hand.pq, &p, 1), 0);
	assert_int_equal(spw_port_events(&hand.pq, &ev, 1), 0);
	assert_int_equal(hand_close(&hand), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wqes),
		cmocka_unit_test(test_doorbells),
		cmocka_unit_test(test_short_frames),
		cmocka_unit_test(test_completions),
		cmocka_unit_test(test_full_ring),
		cmocka_unit_test(test_completion_lies),
		cmocka_unit_test(test_send_error),
		cmocka_unit_test(test_no_send_queue),
		cmocka_unit_test(test_sent_are_kept),
		cmocka_unit_test(test_sent_of_a_full_ring),
		cmocka_unit_test(test_sent_across_a_reset),
		cmocka_unit_test(test_sent_unless_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
