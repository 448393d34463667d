/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a poller of memory may conclude from the words of a WRITE that it finds there. Without an
 * adversary: that everything before them is there. With split-writes, or late-writes: nothing,
 * until an atomic, a receive or a READ of the same QP says so; and ibv_query_qp_data_in_order
 * answers accordingly. Usage: write_order_test in-order|split|late, with that adversary.
 */
#include <stdlib.h>
#include <string.h>

#include "base/spw_order.h"
#include "pair_kit.h"

#define LAPS      400u
#define LINE      64u /* without an adversary the bytes of so short a WRITE are in order */
#define LONG      1000u
#define SECOND_AT 4096u
#define WORD_AT   8192u

static bool splits, late;

static void write_bytes(uint32_t at, uint32_t len)
{
	assert_int_equal(kit_post(&a, IBV_WR_RDMA_WRITE, k.buf + at, len, k.mr->lkey,
				  (uintptr_t)(far + at), k.mr->rkey),
			 0);
}

static uint64_t word(const uint8_t *at)
{
	return spw_thr_load_acq((const uint64_t *)(const void *)at);
}

/* Until the poller finds this word. */
static void await_word(const uint8_t *at, uint64_t value)
{
	const uint64_t end = kit_now_us() + KIT_WAIT_MS * 1000ull;

	while (word(at) != value)
		if (kit_now_us() > end)
			fail_msg("a WRITE did not arrive");
}

static uint64_t last_word(uint32_t at, uint32_t len)
{
	return word(k.buf + at + len - 8);
}

static void query_says_what_holds(void **state)
{
	(void)state;
#if defined(__x86_64__)
	assert_int_equal(ibv_query_qp_data_in_order(b.qp, IBV_WR_RDMA_WRITE, 0), !splits);
#else
	assert_int_equal(ibv_query_qp_data_in_order(b.qp, IBV_WR_RDMA_WRITE, 0), 0);
#endif
}

/* Until one lap shows a last word before the bytes in front of it, or all laps do not. */
static void last_word_comes_last(void **state)
{
	uint32_t early = 0;

	(void)state;
	for (uint32_t lap = 1; lap <= LAPS && !early; lap++) {
		kit_fill(k.buf, LINE, lap);
		write_bytes(0, LINE);
		await_word(far + LINE - 8, last_word(0, LINE));
		early += !kit_same(far, LINE, lap);
		kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
	}
	assert_int_equal(early != 0, splits);
}

static void second_write_comes_second(void **state)
{
	uint32_t early = 0;

	(void)state;
	for (uint32_t lap = 1; lap <= LAPS && !early; lap++) {
		kit_fill(k.buf, 8, lap);
		kit_fill(k.buf + SECOND_AT, 8, lap);
		write_bytes(0, 8);
		write_bytes(SECOND_AT, 8);
		await_word(far + SECOND_AT, last_word(SECOND_AT, 8));
		early += !kit_same(far, 8, lap);
		kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
		kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
	}
	assert_int_equal(early != 0, splits || late);
}

static void swap_word(uint64_t was, uint64_t value)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)(k.buf + WORD_AT), .length = 8, .lkey = k.mr->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
				       .send_flags = IBV_SEND_SIGNALED,
				       .wr.atomic = {.remote_addr = (uintptr_t)(far + WORD_AT),
						     .compare_add = was,
						     .swap = value,
						     .rkey = k.mr->rkey}};

	assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
}

static void all_is_there_after_an_atomic(void **state)
{
	(void)state;
	for (uint32_t lap = 1; lap <= LAPS; lap++) {
		kit_fill(k.buf, LONG, lap);
		kit_fill(k.buf + SECOND_AT, LONG, lap + 1);
		write_bytes(0, LONG);
		write_bytes(SECOND_AT, LONG);
		swap_word(lap - 1, lap);
		await_word(far + WORD_AT, lap);
		assert_true(kit_same(far, LONG, lap));
		assert_true(kit_same(far + SECOND_AT, LONG, lap + 1));
		for (int i = 0; i < 3; i++)
			kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
	}
}

/* Of the immediate of a later WRITE, or of a SEND. */
static void all_is_there_after_a_receive(void **state)
{
	(void)state;
	for (uint32_t lap = 1; lap <= LAPS; lap++) {
		const bool send = lap % 2;

		kit_fill(k.buf, LONG, lap);
		assert_int_equal(kit_recv(&b, far + WORD_AT, 8, k.mr->lkey), 0);
		write_bytes(0, LONG);
		assert_int_equal(kit_post(&a, send ? IBV_WR_SEND : IBV_WR_RDMA_WRITE_WITH_IMM,
					  k.buf + WORD_AT, send ? 8 : 0, k.mr->lkey, (uintptr_t)far,
					  k.mr->rkey),
				 0);
		kit_expect(b.cq, IBV_WC_SUCCESS, NULL);
		assert_true(kit_same(far, LONG, lap));
		kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
		kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
	}
}

static void a_read_finds_what_was_written(void **state)
{
	(void)state;
	for (uint32_t lap = 1; lap <= LAPS; lap++) {
		kit_fill(k.buf, LONG, lap);
		write_bytes(0, LONG);
		assert_int_equal(kit_post(&a, IBV_WR_RDMA_READ, k.buf + SECOND_AT, LONG, k.mr->lkey,
					  (uintptr_t)far, k.mr->rkey),
				 0);
		kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
		kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
		assert_true(kit_same(k.buf + SECOND_AT, LONG, lap));
	}
}

static void the_later_of_two_writes_stays(void **state)
{
	(void)state;
	for (uint32_t lap = 1; lap <= LAPS; lap++) {
		kit_fill(k.buf, LONG, lap);
		kit_fill(k.buf + SECOND_AT, LONG, lap + 1);
		write_bytes(0, LONG);
		assert_int_equal(kit_post(&a, IBV_WR_RDMA_WRITE, k.buf + SECOND_AT, LONG,
					  k.mr->lkey, (uintptr_t)far, k.mr->rkey),
				 0);
		swap_word(lap - 1, lap);
		for (int i = 0; i < 3; i++)
			kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
		assert_true(kit_same(far, LONG, lap + 1));
	}
}

/* What is held back reaches memory before its QP is gone. */
static void all_is_there_after_the_qp(void **state)
{
	(void)state;
	for (uint32_t lap = 1; lap <= 40; lap++) {
		kit_fill(k.buf, LONG, lap);
		write_bytes(0, LONG);
		kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
		reopen(&(struct kit_how){0});
		assert_true(kit_same(far, LONG, lap));
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CASE(query_says_what_holds),         CASE(last_word_comes_last),
		CASE(second_write_comes_second),     CASE(all_is_there_after_an_atomic),
		CASE(all_is_there_after_a_receive),  CASE(a_read_finds_what_was_written),
		CASE(the_later_of_two_writes_stays), CASE(all_is_there_after_the_qp),
	};

	if (argc != 2)
		return 2;
	splits = !strcmp(argv[1], "split");
	late = !strcmp(argv[1], "late");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
