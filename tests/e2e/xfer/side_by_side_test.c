/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * UCX over two rails and lib/xfer over two rails, on the same devices at the same time: neither
 * disturbs the other, whatever the other suffers.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>

#include "stream.h"
#include "ucx_side.h"

#define MESSAGES 2000u /* of each, beside the other */
#define LIMIT_MS 80000u

static struct kit k;
static struct stream s;
static struct ucx_side *ucx;

/* Bytes that this device has sent, since it was there. */
static uint64_t sent_bytes(uint32_t dev_idx)
{
	char path[128];
	uint64_t words = 0;
	FILE *file;

	snprintf(path, sizeof(path),
		 "/sys/class/infiniband/mlx5_%u/ports/1/counters/port_xmit_data", dev_idx);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%" SCNu64, &words), 1);
	fclose(file);
	return 4 * words;
}

/* UCX alone at first: both of its rails carry. */
static int open_both(void **state SPW_UNUSED)
{
	const uint64_t end = kit_now_ms() + LIMIT_MS;
	uint64_t before[4], sent[4];

	for (uint32_t i = 0; i < 4; i++)
		before[i] = sent_bytes(i);
	ucx = ucx_side_start("mlx5_0:1,mlx5_2:1", "mlx5_1:1,mlx5_3:1");
	for (; ucx_side_received(ucx) < MESSAGES / 10; sched_yield())
		if (kit_now_ms() > end)
			fail_msg("UCX alone: %" PRIu64 " messages", ucx_side_received(ucx));
	for (uint32_t i = 0; i < 4; i++)
		sent[i] = sent_bytes(i) - before[i];
	for (uint32_t i = 0; i < 4; i++)
		if (sent[i] < (sent[i] + sent[i ^ 2]) / 4)
			fail_msg("UCX's rails carry %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64
				 " bytes",
				 sent[0], sent[1], sent[2], sent[3]);
	kit_open(&k, "mlx5_0+mlx5_2", "mlx5_1+mlx5_3", NULL);
	kit_connect(&k);
	kit_memory(&k, STREAM_MEMORY);
	kit_wait_up(&k, 2);
	stream_open(&s, &k);
	return 0;
}

static uint64_t received(void)
{
	return s.way[0].received + s.way[1].received;
}

/* Until both have received that many more. */
static void run_both(uint64_t messages)
{
	const uint64_t mine = received() + messages, its = ucx_side_received(ucx) + messages;
	const uint64_t end = kit_now_ms() + LIMIT_MS;

	while (received() < mine || ucx_side_received(ucx) < its) {
		if (kit_now_ms() > end)
			fail_msg("still without %" PRId64 " messages here, %" PRId64 " of UCX",
				 (int64_t)(mine - received()),
				 (int64_t)(its - ucx_side_received(ucx)));
		stream_run(&s, 10);
	}
}

/* What each sent has arrived once, and its bytes are right: the streams have compared them. */
static int close_both(void **state SPW_UNUSED)
{
	struct ucx_side_stat its;
	struct spw_xfer_stat a, b;

	ucx_side_stop(ucx, &its);
	stream_end(&s);
	spw_xfer_stat(k.a, &a);
	spw_xfer_stat(k.b, &b);
	print_message("UCX: %" PRIu64 " messages of %" PRIu64 " bytes; here: %" PRIu64
		      " of %" PRIu64 ", %" PRIu64 " puts, %" PRIu64 " outages\n",
		      its.sent, its.sent_bytes, a.tx_msgs + b.tx_msgs, a.tx_bytes + b.tx_bytes,
		      a.puts + b.puts, a.outages + b.outages);
	assert_int_equal(its.sent, its.received);
	assert_int_equal(its.sent_bytes, its.received_bytes);
	assert_int_equal(a.tx_msgs, b.rx_msgs);
	assert_int_equal(b.tx_msgs, a.rx_msgs);
	assert_int_equal(a.tx_bytes, b.rx_bytes);
	assert_int_equal(b.tx_bytes, a.rx_bytes);
	kit_close(&k);
	return 0;
}

static void neither_disturbs_the_other(void **state SPW_UNUSED)
{
	run_both(MESSAGES);
	kit_wait_up(&k, 2);
}

/* The QPs of one end's rails go into error, one after the other; UCX's QPs on the same devices do
 * not. */
static void failed_rails_are_not_its_rails(void **state SPW_UNUSED)
{
	static const char *const dev[] = {"mlx5_0", "mlx5_2"};

	for (uint32_t i = 0; i < 2; i++) {
		struct spw_xfer_rail_stat stat;
		uint32_t qpn[KIT_QPS], n = kit_qps(dev[i], qpn);

		assert_true(n > 1);
		kit_control(dev[i], NULL, "qp-error=%u", qpn[n - 1]); /* the youngest is ours */
		run_both(MESSAGES / 4);
		assert_true(spw_xfer_conn_rail_stat(k.ab, i, &stat));
		assert_true(stat.outages > 0 || stat.state != SPW_XFER_RAIL_UP);
	}
	for (uint64_t end = kit_now_ms() + KIT_WAIT_MS; kit_up_cnt(k.ab) + kit_up_cnt(k.ba) != 4;) {
		assert_true(kit_now_ms() < end);
		stream_run(&s, 10);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(neither_disturbs_the_other, open_both, close_both),
		cmocka_unit_test_setup_teardown(failed_rails_are_not_its_rails, open_both,
						close_both),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
