/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Striding receive queues and compressed CQEs, through raw_kit.h. Arguments: "strides", or the
 * layout of compressed CQEs that the NIC was started with (basic or enhanced); and a test's name.
 */
#include "raw_kit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/spw_order.h"
#include "prm/spw_prm.h"

#define STRIDE_LOG2  8u
#define STRIDES_LOG2 3u
#define STRIDE       (1u << STRIDE_LOG2)
#define STRIDES      (1u << STRIDES_LOG2)

static struct raw r;
static bool enhanced;

/* The expected place of the next frame, from the rules of striding. */
static struct place {
	uint32_t wqe, at;
} place;

static void open_striding(const struct raw_how *how)
{
	struct raw_how h = *how;

	h.striding = true;
	h.stride_log2 = STRIDE_LOG2;
	h.strides_log2 = STRIDES_LOG2;
	h.enhanced = enhanced && h.comp_format;
	raw_open(&r, &h);
	place = (struct place){0};
}

static int close_raw(void **state)
{
	(void)state;
	raw_close(&r);
	return 0;
}

static void expect_counters(const struct raw_done *d, uint32_t strides, bool filler)
{
	assert_int_equal(d->opcode, SPW_PRM_CQE_RESP_SEND);
	assert_int_equal(d->byte_cnt >> 31, filler);
	assert_int_equal(d->byte_cnt >> 16 & 0x7fff, strides);
	assert_int_equal(d->wqe_id, place.wqe & 0xffff);
	assert_int_equal(d->counter, place.at);
	place.at += strides;
	if (place.at == STRIDES)
		place = (struct place){place.wqe + 1, 0};
}

/* The completion of the frame in sending place `i`; a filler before it if it does not fit. */
static void expect_frame(uint32_t i, uint32_t len, struct raw_done *d)
{
	const uint32_t shift = r.how.two_byte_shift ? 2 : 0,
		       strides = (len + shift + STRIDE - 1) / STRIDE;
	const uint8_t *to;

	raw_next(&r, d);
	if (place.at + strides > STRIDES) {
		expect_counters(d, STRIDES - place.at, true);
		raw_next(&r, d);
	}
	to = raw_slot(&r, place.wqe) + place.at * STRIDE + shift;
	expect_counters(d, strides, false);
	assert_int_equal(d->byte_cnt & 0xffff, len);
	assert_memory_equal(to, raw_frame_at(&r, i), len);
	assert_int_equal(d->hds_ip_ext, 7);
}

static void keep_posted(void)
{
	while (r.posted < place.wqe + r.how.wqe_cnt)
		raw_post(&r, 0);
}

/* Sizes from the smallest frame to a whole WQE, over several laps of the receive and the completion
 * ring. */
static void sizes(void)
{
	uint32_t seed = 1;

	for (uint32_t n = 0; n < 600; n++) {
		const uint32_t len = n % 7 ? 60 + (n * 977u) % (STRIDE * STRIDES - 64)
					   : STRIDE * (1 + n % STRIDES);
		struct raw_done d;

		keep_posted();
		raw_frame(&r, 0, len, seed++);
		raw_send(&r, 1, &len);
		expect_frame(0, len, &d);
		assert_int_equal(d.drops, 0);
		assert_int_equal(d.hash, raw_hash(raw_frame_at(&r, 0)));
	}
}

static void test_sizes(void **state)
{
	(void)state;
	open_striding(&(struct raw_how){0});
	sizes();
}

static void test_two_byte_shift(void **state)
{
	(void)state;
	open_striding(&(struct raw_how){.two_byte_shift = true});
	for (uint32_t n = 0; n < 64; n++) {
		const uint32_t len = 60 + n * 29;
		struct raw_done d;

		keep_posted();
		raw_frame(&r, 0, len, n);
		raw_send(&r, 1, &len);
		expect_frame(0, len, &d);
	}
}

static void send_sized(uint32_t cnt, uint32_t len)
{
	uint32_t lens[KIT_DEPTH];

	for (uint32_t i = 0; i < cnt; i++) {
		raw_frame(&r, i, len, r.sent + i);
		lens[i] = len;
	}
	raw_send(&r, cnt, lens);
}

/* A frame longer than a whole WQE is dropped, and counted in the next completion. */
static void test_too_long(void **state)
{
	struct raw_done d;

	(void)state;
	open_striding(&(struct raw_how){0});
	keep_posted();
	send_sized(1, 100);
	expect_frame(0, 100, &d);
	send_sized(3, STRIDE * STRIDES + 1);
	send_sized(1, 300);
	expect_frame(0, 300, &d);
	assert_int_equal(d.drops, 3);
	send_sized(1, 60);
	expect_frame(0, 60, &d);
	assert_int_equal(d.drops, 0);
	assert_false(raw_try(&r, &d));
}

/* Frames without a WQE are dropped and counted; those received before are intact. */
static void test_no_wqe(void **state)
{
	struct raw_done d;

	(void)state;
	open_striding(&(struct raw_how){0});
	raw_post(&r, 0);
	send_sized(STRIDES + 5, 60);
	for (uint32_t i = 0; i < STRIDES; i++) {
		expect_frame(i, 60, &d);
		assert_int_equal(d.drops, 0);
	}
	assert_false(raw_try(&r, &d));
	raw_post(&r, 0);
	send_sized(1, 61);
	expect_frame(0, 61, &d);
	assert_int_equal(d.drops, 5);
}

/* A frame too long for the rest of the last WQE: the rest becomes filler, the frame is lost. */
static void test_filler_then_no_wqe(void **state)
{
	struct raw_done d;

	(void)state;
	open_striding(&(struct raw_how){0});
	raw_post(&r, 0);
	send_sized(1, 60);
	expect_frame(0, 60, &d);
	send_sized(1, STRIDE * STRIDES);
	raw_next(&r, &d);
	expect_counters(&d, STRIDES - 1, true);
	raw_post(&r, 0);
	send_sized(1, 60);
	expect_frame(0, 60, &d);
	assert_int_equal(d.drops, 1);
}

static void expect_error(uint32_t counter, uint8_t syndrome)
{
	struct raw_done d;

	raw_next(&r, &d);
	assert_int_equal(d.opcode, SPW_PRM_CQE_RESP_ERR);
	assert_int_equal(d.syndrome, syndrome);
	assert_int_equal(d.counter, counter);
}

static void wq_state(enum ibv_wq_state to)
{
	struct ibv_wq_attr attr = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = to};

	assert_int_equal(ibv_modify_wq(r.wq, &attr), 0);
}

/* A WQ in ERR receives nothing; RESET and RDY recover it. A reset whose CURR_STATE is the state
 * that the application last set, not the hardware's, is refused. The completion queue goes on where
 * it was. */
static void expect_dead_then_recover(void)
{
	struct ibv_wq_attr stale = {.attr_mask = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE,
				    .wq_state = IBV_WQS_RESET};
	struct raw_done d;

	kit_expect_event(&r.k, IBV_EVENT_WQ_FATAL);
	send_sized(2, 60);
	assert_false(raw_try(&r, &d));
	assert_int_not_equal(
		ibv_modify_wq(r.wq, &(struct ibv_wq_attr){.attr_mask = IBV_WQ_ATTR_STATE,
							  .wq_state = IBV_WQS_RDY}),
		0);
	stale.curr_wq_state = IBV_WQS_RDY;
	assert_int_not_equal(ibv_modify_wq(r.wq, &stale), 0);
	stale.curr_wq_state = IBV_WQS_ERR;
	assert_int_equal(ibv_modify_wq(r.wq, &stale), 0);
	r.posted = 0;
	place = (struct place){0};
	spw_dma_store((spw_be32 *)(void *)r.rq.dbrec, spw_cpu_to_be32(0));
	wq_state(IBV_WQS_RDY);
	raw_post(&r, 0);
	send_sized(1, 60);
}

/* An unusable WQE: its error, the flush of the others, the event. */
static void test_dead_key(void **state)
{
	struct raw_done d;

	(void)state;
	open_striding(&(struct raw_how){0});
	raw_post(&r, r.k.mr->lkey ^ 0xff00);
	raw_post(&r, 0);
	raw_post(&r, 0);
	send_sized(1, 60);
	expect_error(0, SPW_PRM_SYN_LOCAL_PROT_ERR);
	expect_error(1, SPW_PRM_SYN_WR_FLUSH_ERR);
	expect_error(2, SPW_PRM_SYN_WR_FLUSH_ERR);
	expect_dead_then_recover();
	expect_frame(0, 60, &d);
}

/* A frame longer than its WQE consumes that WQE and leaves the queue ready: the next frame is
 * received; no event, no flush. */
static void test_cyclic_frame_too_long(void **state)
{
	struct raw_done d;

	(void)state;
	raw_open(&r, &(struct raw_how){0});
	for (uint32_t i = 0; i < 3; i++)
		raw_post_bytes(&r, 0, 100);
	send_sized(1, 101);
	expect_error(0, SPW_PRM_SYN_LOCAL_LENGTH_ERR);
	send_sized(1, 100);
	raw_next(&r, &d);
	assert_int_equal(d.byte_cnt, 100);
	assert_int_equal(d.counter, 1);
	send_sized(1, 2000);
	expect_error(2, SPW_PRM_SYN_LOCAL_LENGTH_ERR);
	send_sized(1, 60); /* no WQE is left: lost, no other effect */
	assert_false(raw_try(&r, &d));
	raw_post(&r, 0);
	send_sized(1, 60);
	raw_next(&r, &d);
	assert_int_equal(d.counter, 3);
	assert_int_equal(d.drops, 1);
	kit_expect_no_event(&r.k);
}

static void test_cyclic_dead_key(void **state)
{
	struct raw_done d;

	(void)state;
	raw_open(&r, &(struct raw_how){0});
	raw_post(&r, r.k.mr->lkey ^ 0xff00);
	raw_post(&r, 0);
	send_sized(1, 60);
	expect_error(0, SPW_PRM_SYN_LOCAL_PROT_ERR);
	expect_error(1, SPW_PRM_SYN_WR_FLUSH_ERR);
	expect_dead_then_recover();
	raw_next(&r, &d);
	assert_int_equal(d.byte_cnt, 60);
	assert_int_equal(d.counter, 0);
}

/* Memory that was unmapped under the region. */
static void test_memory_gone(void **state)
{
	const size_t at = KIT_BUF_BYTES / 2, bytes = 4 * RAW_SLOT_BYTES;
	struct raw_done d;

	(void)state;
	open_striding(&(struct raw_how){0});
	raw_post(&r, 0);
	raw_post(&r, 0);
	assert_int_equal(munmap(r.k.buf + at, bytes), 0);
	send_sized(1, 60);
	expect_error(0, SPW_PRM_SYN_LOCAL_PROT_ERR);
	expect_error(1, SPW_PRM_SYN_WR_FLUSH_ERR);
	assert_true(mmap(r.k.buf + at, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
	expect_dead_then_recover();
	expect_frame(0, 60, &d);
}

/* ---- sending ---- */

/* The tag of a send WQE is inserted after the addresses. */
static void test_vlan_insert(void **state)
{
	(void)state;
	open_striding(&(struct raw_how){0});
	for (uint32_t n = 0; n < 2; n++) {
		const uint16_t type = n ? 0x88a8 : 0x8100, tci = (uint16_t)(0x6123 + n);
		const uint8_t *f = raw_frame_at(&r, 0), *to;
		struct raw_done d;

		keep_posted();
		raw_frame(&r, 0, 100, n);
		raw_send_tagged(&r, 100, tci, n == 1);
		raw_next(&r, &d);
		to = raw_slot(&r, place.wqe) + place.at * STRIDE;
		expect_counters(&d, 1, false);
		assert_int_equal(d.byte_cnt & 0xffff, 104);
		assert_memory_equal(to, f, 12);
		assert_int_equal(spw_prm_ld16(to + 12), type);
		assert_int_equal(spw_prm_ld16(to + 14), tci);
		assert_memory_equal(to + 16, f + 12, 88);
	}
}

/* ---- compression ---- */

#define BURST 48u

/* Bursts of frames until enough mini-CQEs came: each completion equals the plain one that the frame
 * would have. */
static void bursts(bool striding)
{
	uint32_t counter = 0;

	for (uint32_t n = 0; n < 400; n++) {
		uint32_t cnt = 1 + (n * 31u) % BURST, lens[BURST];

		for (uint32_t i = 0; i < cnt; i++) {
			lens[i] = 60 + (n * 131u + i * 57u) % (striding ? 700 : 1400);
			raw_frame(&r, i, lens[i], n * BURST + i);
		}
		while (r.posted < (striding ? place.wqe : counter) + r.how.wqe_cnt)
			raw_post(&r, 0);
		raw_send(&r, cnt, lens);
		for (uint32_t i = 0; i < cnt; i++) {
			const uint8_t *f = raw_frame_at(&r, i);
			struct raw_done d;

			if (striding) {
				expect_frame(i, lens[i], &d);
			} else {
				raw_next(&r, &d);
				assert_int_equal(d.byte_cnt, lens[i]);
				assert_int_equal(d.counter, counter & 0xffff);
				assert_memory_equal(raw_slot(&r, counter++), f, lens[i]);
				assert_int_equal(d.hds_ip_ext, 7);
			}
			assert_int_equal(d.drops, 0);
			if (!d.mini || r.how.comp_format == MLX5DV_CQE_RES_FORMAT_HASH)
				assert_int_equal(d.hash, raw_hash(f));
			if (r.how.comp_format != MLX5DV_CQE_RES_FORMAT_HASH)
				assert_int_equal(d.check_sum, raw_sum(f, lens[i]));
		}
	}
	print_message("%u of %u completions compressed\n", r.minis_taken, r.ci);
	assert_true(r.minis_taken > r.ci / 100);
}

static void cyclic(uint8_t format)
{
	raw_open(&r, &(struct raw_how){.wqe_cnt = 64, .comp_format = format, .enhanced = enhanced});
	bursts(false);
}

static void striding(uint8_t format)
{
	open_striding(&(struct raw_how){.wqe_cnt = 64, .comp_format = format});
	bursts(true);
}

static void test_cyclic_hash(void **state)
{
	(void)state;
	cyclic(MLX5DV_CQE_RES_FORMAT_HASH);
}
static void test_cyclic_csum(void **state)
{
	(void)state;
	cyclic(MLX5DV_CQE_RES_FORMAT_CSUM);
}
static void test_striding_hash(void **state)
{
	(void)state;
	striding(MLX5DV_CQE_RES_FORMAT_HASH);
}
static void test_striding_csum(void **state)
{
	(void)state;
	striding(MLX5DV_CQE_RES_FORMAT_CSUM);
}
static void test_striding_stridx(void **state)
{
	(void)state;
	striding(MLX5DV_CQE_RES_FORMAT_CSUM_STRIDX);
}

#define CASE(f) cmocka_unit_test_teardown(f, close_raw)

int main(int argc, char **argv)
{
	const struct CMUnitTest strides[] = {
		CASE(test_sizes),
		CASE(test_two_byte_shift),
		CASE(test_too_long),
		CASE(test_no_wqe),
		CASE(test_filler_then_no_wqe),
		CASE(test_dead_key),
		CASE(test_cyclic_frame_too_long),
		CASE(test_cyclic_dead_key),
		CASE(test_memory_gone),
		CASE(test_vlan_insert),
	};
	const struct CMUnitTest compressed[] = {
		CASE(test_cyclic_hash),   CASE(test_cyclic_csum),     CASE(test_striding_hash),
		CASE(test_striding_csum), CASE(test_striding_stridx),
	};

	if (argc > 2)
		cmocka_set_test_filter(argv[2]);
	if (argc < 2 || strcmp(argv[1], "strides") == 0)
		return cmocka_run_group_tests(strides, NULL, NULL);
	enhanced = strcmp(argv[1], "enhanced") == 0;
	return cmocka_run_group_tests(compressed, NULL, NULL);
}
