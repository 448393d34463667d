/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Rails that fail under traffic, and come back: links down, QPs in error, black holes, one rail
 * after the other and all at once. Arguments: the rails of both ends, two each.
 */
#include <stdio.h>
#include <unistd.h>

#include "stream.h"

static const char *rails_a = "mlx5_0+mlx5_2", *rails_b = "mlx5_1+mlx5_3";
static struct kit k;
static struct stream s;

static void open_kit_with(uint8_t timeout)
{
	const struct spw_xfer_conf conf = {
		.chunk_bytes = 32u << 10, .timeout = timeout, .retry = timeout ? 3 : 0};

	kit_open(&k, rails_a, rails_b, &conf);
	kit_connect(&k);
	kit_memory(&k, STREAM_MEMORY);
	kit_wait_up(&k, 2);
	stream_open(&s, &k);
	stream_run(&s, 100);
}

/* An ACK timeout of 4 ms and 3 retries: a black hole is noticed in some 20 ms. */
static int open_kit(void **state SPW_UNUSED)
{
	open_kit_with(10);
	return 0;
}

/* The defaults, where outages are counted: a NIC thread without a core for 20 ms is none. */
static int open_patient_kit(void **state SPW_UNUSED)
{
	open_kit_with(0);
	return 0;
}

static int close_kit(void **state SPW_UNUSED)
{
	kit_close(&k);
	return 0;
}

static uint64_t outages(const struct spw_xfer_conn *conn, uint32_t rail)
{
	struct spw_xfer_rail_stat stat;

	assert_true(spw_xfer_conn_rail_stat(conn, rail, &stat));
	return stat.outages;
}

static uint64_t tx_bytes(const struct spw_xfer_conn *conn, uint32_t rail)
{
	struct spw_xfer_rail_stat stat;

	assert_true(spw_xfer_conn_rail_stat(conn, rail, &stat));
	return stat.tx_bytes;
}

/* Traffic until so many rails of both ends are up. */
static void run_until_up(uint32_t rails)
{
	for (uint64_t end = kit_now_ms() + KIT_WAIT_MS;
	     kit_up_cnt(k.ab) != rails || kit_up_cnt(k.ba) != rails;) {
		if (kit_now_ms() > end)
			fail_msg("%u and %u rails are up, not %u", kit_up_cnt(k.ab),
				 kit_up_cnt(k.ba), rails);
		stream_run(&s, 10);
	}
}

/* Both rails are up again, and both carry. */
static void expect_recovered(void)
{
	uint64_t before[2];

	run_until_up(2);
	before[0] = tx_bytes(k.ab, 0);
	before[1] = tx_bytes(k.ab, 1);
	stream_run(&s, 200);
	assert_true(tx_bytes(k.ab, 0) > before[0]);
	assert_true(tx_bytes(k.ab, 1) > before[1]);
	stream_end(&s);
}

static void a_link_that_goes_down_comes_back(void **state SPW_UNUSED)
{
	for (uint32_t i = 0; i < 4; i++) {
		char dev[16];

		snprintf(dev, sizeof(dev), "mlx5_%u", i);
		kit_control(dev, NULL, "link-down=3600s");
		run_until_up(1);
		stream_run(&s, 100);
		assert_int_equal(kit_up_cnt(k.ab), 1);
		assert_int_equal(kit_up_cnt(k.ba), 1);
		kit_control(dev, NULL, "link-down=0s");
		run_until_up(2);
	}
	assert_int_equal(outages(k.ab, 0), 2);
	assert_int_equal(outages(k.ba, 1), 2);
	expect_recovered();
}

static void qps_in_error_are_made_again(void **state SPW_UNUSED)
{
	uint64_t seed = 5;

	for (uint32_t i = 0; i < 20; i++) {
		uint32_t qpn[KIT_QPS], n;
		char dev[16];

		snprintf(dev, sizeof(dev), "mlx5_%u", (unsigned)(unit_random(&seed) % 4));
		n = kit_qps(dev, qpn);
		for (uint32_t j = 0; j < n; j++)
			kit_control(dev, NULL, "qp-error=%u", qpn[j]);
		stream_run(&s, (uint32_t)(unit_random(&seed) % 80));
	}
	assert_true(outages(k.ab, 0) + outages(k.ab, 1) >= 4);
	expect_recovered();
}

static void a_black_hole_is_left(void **state SPW_UNUSED)
{
	kit_control("mlx5_3", NULL, "fault loss=1");
	stream_run(&s, 1500);
	run_until_up(1);
	assert_true(outages(k.ab, 1) >= 1);
	kit_control("mlx5_3", NULL, "fault loss=0");
	expect_recovered();
}

static void without_any_rail_messages_wait(void **state SPW_UNUSED)
{
	for (uint32_t i = 0; i < 3; i++) {
		kit_control("mlx5_0", NULL, "link-down=100ms");
		kit_control("mlx5_3", NULL, "link-down=200ms");
		stream_run(&s, 700);
	}
	expect_recovered();
}

static void flapping_loses_nothing(void **state SPW_UNUSED)
{
	uint64_t seed = 9;

	for (uint32_t i = 0; i < 30; i++) {
		char dev[16];

		snprintf(dev, sizeof(dev), "mlx5_%u", (unsigned)(unit_random(&seed) % 4));
		kit_control(dev, NULL, "link-down=%ums", (unsigned)(1 + unit_random(&seed) % 40));
		stream_run(&s, (uint32_t)(unit_random(&seed) % 150));
	}
	expect_recovered();
}

/* Each harm to either end of a rail, and then to all of both: frames lost, twice, late, in another
 * order, changed, few, and a NIC that does nothing for a while. */
static void what_rails_suffer_loses_nothing(void **state SPW_UNUSED)
{
	static const char *const harm[] = {"loss=0.01",    "dup=0.05",      "reorder=0.1",
					   "corrupt=0.01", "delay=0.1:2ms", "port-rate=0.05"};
	static const char *const calm[] = {"loss=0",    "dup=0",      "reorder=0",
					   "corrupt=0", "delay=0:0s", "port-rate=none"};

	for (uint32_t i = 0; i < 3 * SPW_ARRAY_CNT(harm); i++) {
		const uint32_t what = i / 3;
		const uint32_t first = i % 3 == 2 ? 0 : i % 3, last = i % 3 == 2 ? 3 : i % 3;
		char dev[16];

		for (uint32_t j = first; j <= last; j++) {
			snprintf(dev, sizeof(dev), "mlx5_%u", j);
			kit_control(dev, NULL, "fault %s", harm[what]);
		}
		stream_run(&s, 150);
		kit_control("mlx5_2", NULL, "stall=20ms");
		stream_run(&s, 100);
		for (uint32_t j = first; j <= last; j++) {
			snprintf(dev, sizeof(dev), "mlx5_%u", j);
			kit_control(dev, NULL, "fault %s", calm[what]);
		}
	}
	expect_recovered();
}

/* The library waits for a rail no longer than it was asked to. */
static void without_rails_for_long_a_connection_ends(void **state SPW_UNUSED)
{
	const struct spw_xfer_conf conf = {.gone_ms = 300};
	struct spw_xfer_part part;
	struct spw_xfer_req *req;

	kit_close(&k);
	kit_open(&k, rails_a, rails_b, &conf);
	kit_connect(&k);
	kit_memory(&k, 1000);
	part = (struct spw_xfer_part){k.mem_b, k.buf_b, 1000, 0};
	kit_control("mlx5_0", NULL, "link-down=2s");
	kit_control("mlx5_2", NULL, "link-down=2s");
	assert_int_equal(spw_xfer_recv(k.ba, &part, 1, &req), 0);
	assert_int_not_equal(kit_finish(&k, req, NULL), 0);
	assert_true(spw_xfer_conn_error(k.ab) == -ETIMEDOUT ||
		    spw_xfer_conn_error(k.ba) == -ETIMEDOUT); /* the other one: reset */
	kit_turn_for(&k, 2500);
}

#define STILL_MS 2000u

/* As if the process were stopped: nobody looks for longer than anybody is waited for. */
static void stand_still(void)
{
	usleep((STILL_MS + 500) * 1000);
}

/* In the middle of the exchange, and while no rail is up. */
static void who_stood_still_gives_up_nobody(void **state SPW_UNUSED)
{
	const struct spw_xfer_conf conf = {.gone_ms = STILL_MS, .exchange_ms = STILL_MS};
	struct spw_xfer_handle handle;
	int rc_a = -EAGAIN, rc_b = -EAGAIN;

	kit_close(&k);
	kit_open(&k, rails_a, rails_b, &conf);
	assert_int_equal(spw_xfer_listen(k.b, &handle, &k.listener), 0);
	assert_int_equal(spw_xfer_connect(k.a, &handle, &k.ab), -EAGAIN);
	stand_still();
	for (uint64_t end = kit_now_ms() + KIT_WAIT_MS; (rc_a || rc_b) && kit_now_ms() < end;) {
		if (rc_a != -EAGAIN && rc_a)
			fail_msg("connect: %s", spw_err_text());
		rc_a = rc_a ? spw_xfer_connect(k.a, &handle, &k.ab) : 0;
		rc_b = rc_b ? spw_xfer_accept(k.listener, &k.ba) : 0;
	}
	assert_int_equal(rc_a | rc_b, 0);
	kit_memory(&k, 1000);
	kit_wait_up(&k, 2);
	kit_control("mlx5_0", NULL, "link-down=50ms");
	kit_control("mlx5_2", NULL, "link-down=50ms");
	for (uint64_t end = kit_now_ms() + KIT_WAIT_MS;
	     (kit_up_cnt(k.ab) || kit_up_cnt(k.ba)) && kit_now_ms() < end;)
		kit_turn(&k);
	stand_still();
	kit_wait_up(&k, 2);
	kit_pass(&k, 1000, 1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_kit, close_kit)
		cmocka_unit_test_setup_teardown(a_link_that_goes_down_comes_back, open_patient_kit,
						close_kit),
		CASE(qps_in_error_are_made_again),
		CASE(a_black_hole_is_left),
		CASE(without_any_rail_messages_wait),
		CASE(flapping_loses_nothing),
		CASE(what_rails_suffer_loses_nothing),
		CASE(without_rails_for_long_a_connection_ends),
		CASE(who_stood_still_gives_up_nobody),
	};

	if (argc == 3) {
		rails_a = argv[1];
		rails_b = argv[2];
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
