/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The receive bursts on completion rings that a NIC wrote in real runs, several laps of them: every
 * frame that its sender sent comes out once, in order, with the length, hash, checksums and stamp
 * that the NIC gave it, in the slot that its WQE named; and nothing else does. Each recording is
 * consumed in bursts of many sizes. Argument: the folder of the recordings.
 */
#include <stdlib.h>

#include "cq_trace.h"
#include "model.h"
#include "rc_hand.h"

#define SEEDS 8u /* ways to cut a recording into bursts */

static const char *folder;
static struct cq_trace trace;
static struct model model;

/* What the text says of one batch that is no frame. */
static struct seen {
	uint64_t too_long, errors, rx_error, flushed;
} want;

/* ---- raw Ethernet ---- */

static void open_model(uint64_t seed)
{
	const struct hand_conf c = {
		.flags = trace.flags,
		.cq_cnt = trace.cq,
		.rq_cnt = trace.rq,
		.strides_log2 = trace.strides_log2,
		.slot_bytes = trace.slot,
		.slot_cnt = SPW_MIN(trace.slots, 1024u),
		.refill_min = 1,
	};

	model_open(&model, &c);
	model.seed = seed;
	want = (struct seen){0};
}

static void expect_frame(void)
{
	assert_true(hand_room(&model.h) > 0);
	model.frame[model.tail++ % QUEUE_MAX] = (struct hand_frame){
		.addr = hand_take(&model.h, 1),
		.len = (uint32_t)trace.value[0],
		.hash = (uint32_t)trace.value[1],
		.flags = (uint16_t)(trace.value[2] | (trace.values == 4 ? SPW_DESC_NIC_STAMP : 0)),
		.stamp = trace.values == 4 ? trace.value[3] : 0,
	};
}

static void expect_error(uint64_t syndrome)
{
	want.errors++;
	if (syndrome == SPW_PRM_SYN_WR_FLUSH_ERR)
		want.flushed++;
	else
		want.rx_error++;
}

/* The lines of a batch; what takes WQEs takes them here, as the NIC did. */
static void expect_batch(void)
{
	cq_trace_line(&trace);
	for (; strcmp(trace.word, "batch") && strcmp(trace.word, "missed"); cq_trace_line(&trace)) {
		if (!strcmp(trace.word, "frame"))
			expect_frame();
		else if (!strcmp(trace.word, "error"))
			expect_error(trace.value[0]);
		else if (!strcmp(trace.word, "filler") || !strcmp(trace.word, "long"))
			assert_non_null(hand_take(&model.h, (uint32_t)trace.value[0]));
		else
			fail_msg("a line of %s", trace.word);
		want.too_long += !strcmp(trace.word, "long");
	}
}

/* Bursts of any size until nothing arrives; slots are returned now and then. */
static void take_batch(void)
{
	while (model_burst(&model, (uint16_t)(1 + unit_random(&model.seed) % SPW_BURST_MAX)) ||
	       model.head != model.tail)
		model_release(&model, (uint32_t)(unit_random(&model.seed) % SPW_BURST_MAX));
	while (model.lent_cnt)
		model_release(&model, SPW_BURST_MAX);
	model_burst(&model, 1); /* nothing, but the ring is refilled */
}

static void recover(uint64_t errors)
{
	struct spw_port_event ev[4];

	if (want.errors == errors) {
		assert_int_equal(model.h.q->rx_err.state, MLX5_ERR_NONE);
		return;
	}
	assert_int_equal(model.h.q->rx_err.state, MLX5_ERR_NOTED);
	assert_int_equal(spw_port_events(&model.h.pq, ev, 4), 2);
	assert_int_equal(ev[0].kind, SPW_PORT_EVENT_QUEUE_ERROR);
	assert_int_equal(ev[1].kind, SPW_PORT_EVENT_QUEUE_BACK);
}

static void check_counts(void)
{
	const struct mlx5_eth_queue *q = model.h.q;

	assert_string_equal(trace.word, "missed");
	assert_int_equal(q->rx_nic_drops, trace.value[0]);
	assert_int_equal(q->stat.dropped[SPW_PORT_DROP_too_long], want.too_long);
	assert_int_equal(q->stat.dropped[SPW_PORT_DROP_rx_error], want.rx_error);
	assert_int_equal(q->stat.dropped[SPW_PORT_DROP_rx_flushed], 0);
	assert_int_equal(q->stat.err[SPW_PORT_ERR_cqe_error], want.errors);
	assert_int_equal(q->syndrome[SPW_PRM_SYN_WR_FLUSH_ERR], want.flushed);
}

static void replay(const char *name)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		cq_trace_open(&trace, folder, name);
		open_model(seed);
		assert_string_equal(trace.word, "batch");
		while (!strcmp(trace.word, "batch")) {
			uint64_t errors = want.errors;

			expect_batch();
			cq_trace_batch(&trace, model.h.cq);
			take_batch();
			recover(errors);
		}
		check_counts();
		assert_true(model.frames > 2 * trace.rq || want.errors);
		cq_trace_line(&trace);
		model_close(&model);
		cq_trace_close(&trace);
	}
}

#define ETH_TRACES(X)          \
	X(latency)             \
	X(compressed)          \
	X(compressed_enhanced) \
	X(striding_compressed) X(striding_compressed_enhanced) X(errors) X(errors_compressed)
#define ETH_TEST(name)                        \
	static void test_##name(void **state) \
	{                                     \
		(void)state;                  \
		replay(#name);                \
	}
ETH_TRACES(ETH_TEST)

/* ---- RC ---- */

static struct rch rc;

struct message {
	uint8_t *addr;
	uint64_t len, imm, stamp;
};

/* The lines of a batch. Returns: how many messages. */
static uint32_t rc_expect(struct message *msg)
{
	uint32_t n = 0;

	cq_trace_line(&trace);
	for (; !strcmp(trace.word, "message"); cq_trace_line(&trace), n++) {
		assert_true(rch_posted(&rc, 0) > 0 && n < trace.rq &&
			    spw_peer_tx_credit_left(&rc.qp[0].tx));
		rc.qp[0].tx.used++;
		rch_take(&rc, 0, &msg[n].addr);
		msg[n].len = trace.value[0];
		msg[n].imm = trace.value[1];
		msg[n].stamp = trace.values == 3 ? trace.value[2] : 0;
	}
	return n;
}

static void rc_check(const struct spw_desc *d, const struct message *msg)
{
	assert_ptr_equal(spw_pool_slot_addr(&rc.pool, d->slot) + d->offset, msg->addr);
	assert_int_equal(d->len, msg->len);
	assert_int_equal(d->meta, msg->imm);
	assert_int_equal(d->nic_stamp, msg->stamp);
	assert_int_equal(d->peer, 1);
	assert_int_equal(d->flags, SPW_DESC_MSG | (msg->stamp ? SPW_DESC_NIC_STAMP : 0) |
					   (msg->imm ? SPW_DESC_IMM : 0));
}

static void rc_take(const struct message *msg, uint32_t cnt, uint64_t *seed)
{
	struct spw_desc desc[SPW_BURST_MAX];
	struct rch_msg sent;
	uint32_t at = 0;

	for (uint16_t n;
	     (n = spw_port_rx_burst(&rc.pq, desc,
				    (uint16_t)(1 + unit_random(seed) % SPW_BURST_MAX)));) {
		for (uint16_t i = 0; i < n; i++) {
			assert_true(at < cnt);
			rc_check(&desc[i], &msg[at++]);
		}
		assert_true(rch_balanced(&rc, n));
		for (uint16_t i = 0; i < n; i++)
			spw_port_release_burst(&rc.pq, &desc[i].slot, 1);
	}
	assert_int_equal(at, cnt);
	while (rch_send_one(&rc, 0, &sent)) /* credits for the peer */
		assert_int_equal(sent.len, 0);
}

static void rc_replay(const char *name)
{
	for (uint64_t way = 1; way <= SEEDS; way++) {
		struct message msg[CQ_TRACE_MAX];
		uint64_t seed = way, messages = 0;

		cq_trace_open(&trace, folder, name);
		const struct rch_conf c = {.flags = trace.flags,
					   .peer_cnt = 1,
					   .credits = trace.credits,
					   .remote_credits = trace.credits,
					   .cq_cnt = trace.cq,
					   .rq_cnt = trace.rq,
					   .srq_cnt = 64,
					   .sq_cnt = 128,
					   .slot_bytes = trace.slot,
					   .qpn = trace.qpn};

		assert_int_equal(rch_open(&rc, &c), 0);
		while (!strcmp(trace.word, "batch")) {
			uint32_t n = rc_expect(msg);

			cq_trace_batch(&trace, rc.cq);
			rc_take(msg, n, &seed);
			messages += n;
		}
		assert_true(messages > 2 * trace.cq);
		assert_int_equal(rc.q->rc.stat.rx_frames, messages);
		assert_int_equal(rc.qp[0].violations, 0);
		cq_trace_line(&trace);
		cq_trace_close(&trace);
		assert_int_equal(rch_close(&rc), 0);
	}
}

static void test_rc(void **state)
{
	(void)state;
	rc_replay("rc");
}

static void test_rc_compressed(void **state)
{
	(void)state;
	rc_replay("rc_compressed");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define ETH_ENTRY(name) cmocka_unit_test(test_##name),
		ETH_TRACES(ETH_ENTRY) cmocka_unit_test(test_rc),
		cmocka_unit_test(test_rc_compressed),
	};

	folder = argc == 2 ? argv[1] : ".";
	return cmocka_run_group_tests(tests, NULL, NULL);
}
