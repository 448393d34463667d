/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * verbs:DEV,mode=eth through the port interface, with itself and with the mlx5 driver on the other
 * side.
 */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "port/verbs/eth/eth.h"
#include "port_kit.h"

static struct kit_run run;

static void open_both(const char *a_spec, const char *b_spec, uint16_t queues)
{
	struct kit_conf a = {.spec = a_spec, .queues = queues, .profile = "latency"}, b = a;

	b.spec = b_spec;
	kit_open(&run, &a, &b);
}

/* For check_clean(), which wants every echo: send completions may come later than the next window,
 * and an echo that finds no room is offered again. */
static void open_clean(const char *a_spec, const char *b_spec, uint16_t queues)
{
	open_both(a_spec, b_spec, queues);
	run.b.echoes_all = true;
}

static bool is_reaped(struct kit_run *r, void *arg SPW_UNUSED)
{
	struct spw_port_stat stat;

	spw_port_stat(r->b.port, &stat);
	return stat.tx_frames >= r->sent;
}

static void check_clean(void)
{
	struct spw_port_stat stat;
	const double give_up = kit_seconds() + KIT_WAIT_S;

	kit_settle(&run);
	while (!is_reaped(&run, NULL) && kit_seconds() < give_up)
		kit_turn(&run, false); /* the last echoes may be here before their completions */
	assert_int_equal(run.echoed, run.sent);
	assert_int_equal(run.bad, 0);
	spw_port_stat(run.b.port, &stat);
	assert_int_equal(stat.rx_frames, run.sent);
	assert_int_equal(stat.tx_frames, run.sent);
	assert_int_equal(stat.err[SPW_PORT_ERR_cqe_error] + stat.err[SPW_PORT_ERR_queue_reset], 0);
}

static void echoes(void **state SPW_UNUSED)
{
	static const uint16_t queues[] = {1, 2, 4};

	for (size_t i = 0; i < SPW_ARRAY_CNT(queues); i++) {
		open_clean("verbs:mlx5_0,poll=plain", "verbs:mlx5_1,mode=eth", queues[i]);
		assert_non_null(spw_container_of(run.b.port, struct verbs_eth_port, eth.base)
					->queue[0]
					.rx.ex);
		kit_pump(&run, 10000);
		check_clean();
		for (uint16_t q = 0; q < queues[i]; q++)
			assert_true(run.b.rx[q] > 10000u / queues[i] / 4);
		kit_close(&run);
	}
}

static void echoes_of_the_other_driver(void **state SPW_UNUSED)
{
	open_clean("mlx5:mlx5_0", "verbs:mlx5_1", 2);
	kit_pump(&run, 5000);
	check_clean();
	kit_close(&run);
	open_clean("verbs:mlx5_0", "mlx5:mlx5_1", 2);
	kit_pump(&run, 5000);
	check_clean();
	kit_close(&run);
}

static bool is_back(struct kit_run *r, void *arg)
{
	return r->b.events.cnt[SPW_PORT_EVENT_QUEUE_BACK] >= *(uint32_t *)arg;
}

static void check_recovered(uint32_t cnt)
{
	struct spw_port_stat stat;

	kit_pump_until(&run, is_back, &cnt);
	assert_int_equal(run.b.events.cnt[SPW_PORT_EVENT_QUEUE_ERROR],
			 run.b.events.cnt[SPW_PORT_EVENT_QUEUE_BACK]);
	assert_true(run.b.events.outage_ns > 0);
	spw_port_stat(run.b.port, &stat);
	assert_true(stat.err[SPW_PORT_ERR_queue_reset] >= cnt);
	kit_pump(&run, 3000);
}

static const struct verbs_eth_queue *queue(uint16_t q)
{
	return &spw_container_of(run.b.port, struct verbs_eth_port, eth.base)->queue[q];
}

static const char *const both_ways[] = {"verbs:mlx5_1,poll=extended", "verbs:mlx5_1,poll=plain"};

static void a_send_queue_fails(void **state SPW_UNUSED)
{
	for (size_t way = 0; way < SPW_ARRAY_CNT(both_ways); way++) {
		open_both("verbs:mlx5_0", both_ways[way], 2);
		run.lossy = true;
		kit_pump(&run, 2000);
		for (uint32_t i = 1; i <= 3; i++) {
			kit_control(1, "qp-error=%u", queue(1)->tx.qp->qp_num);
			check_recovered(i);
		}
		kit_close(&run);
	}
}

/* The number of the CQ in the device; only libmlx5 knows it. */
static uint32_t cq_number(struct ibv_cq *cq)
{
	struct mlx5dv_cq dv = {0};
	struct mlx5dv_obj obj = {.cq = {.in = cq, .out = &dv}};

	assert_int_equal(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ), 0);
	return dv.cqn;
}

/* A completion queue that failed never works again: the queue goes on with another one, frames are
 * spread to it as before, and the other queue does not notice. */
static void completion_queues_fail(void **state SPW_UNUSED)
{
	for (size_t way = 0; way < SPW_ARRAY_CNT(both_ways); way++) {
		open_both("verbs:mlx5_0", both_ways[way], 2);
		run.lossy = true;
		kit_pump(&run, 2000);
		for (uint32_t i = 0; i < 4; i++) {
			struct ibv_cq *cq = i % 2 ? queue(1)->tx.cq : queue(1)->rx.cq;
			uint64_t before = run.b.rx[1];

			kit_control(1, "cq-overrun=%u", cq_number(cq));
			check_recovered(i + 1);
			assert_true(run.b.rx[1] > before + 3000 / 8);
			assert_ptr_equal(queue(0)->rx.wq->context, queue(1)->rx.wq->context);
		}
		assert_non_null(
			strstr(run.b.events.text, "send queue: its completion queue failed"));
		kit_close(&run);
	}
}

static bool keys_replaced(struct kit_run *r SPW_UNUSED, void *arg)
{
	const uint32_t old = *(uint32_t *)arg;

	for (uint16_t q = 0; q < 2; q++)
		if (queue(q)->rx_lkey == old || queue(q)->tx_lkey == old)
			return false;
	return true;
}

static void a_key_is_revoked(void **state SPW_UNUSED)
{
	for (size_t way = 0; way < SPW_ARRAY_CNT(both_ways); way++) {
		open_both("verbs:mlx5_0", both_ways[way], 2);
		run.lossy = true;
		kit_pump(&run, 2000);
		for (uint32_t i = 0; i < 2; i++) {
			uint32_t old = queue(0)->rx_lkey;

			kit_control(1, "mr-revoke=%u", old);
			kit_pump_until(&run, keys_replaced, &old);
			check_recovered(4 * (i + 1));
		}
		kit_close(&run);
	}
}

/* The device's clock, 0 if the port has none; -ETIME: an idle NIC thread did not update its clock
 * page in time. */
static uint64_t nic_now(void)
{
	uint64_t nic = 0, tsc, uncertainty;
	int rc = -ETIME;

	for (double start = kit_seconds(); rc == -ETIME && kit_seconds() - start < KIT_WAIT_S;)
		rc = spw_port_pair_clock(run.b.port, &nic, &tsc, &uncertainty);
	assert_int_equal(rc, run.b.port->caps.nic_clock_hz ? 0 : -ENOTSUP);
	return nic;
}

/* One timestamp of the device per frame, of the clock that pair_clock reads; a queue without says
 * that it has none. */
static void stamps_are_of_the_devices_clock(void **state SPW_UNUSED)
{
	for (size_t way = 0; way < SPW_ARRAY_CNT(both_ways); way++) {
		const bool extended = way == 0;
		uint8_t frame[64] = {2, 0, 0, 0, 0, 2};
		uint64_t last = 0, from;
		struct spw_desc desc;

		open_both("verbs:mlx5_0", both_ways[way], 1);
		assert_int_equal(run.b.port->caps.nic_clock_hz != 0, extended);
		from = nic_now();
		for (uint32_t i = 0; i < 50; i++) {
			kit_send_bytes(&run, frame, sizeof(frame));
			kit_receive(&run.b, &desc);
			assert_int_equal(!!(desc.flags & SPW_DESC_NIC_STAMP), extended);
			assert_true(extended ? desc.nic_stamp > last : desc.nic_stamp == 0);
			last = desc.nic_stamp;
		}
		assert_true(!extended || last > from);
		while (nic_now() <
		       last) /* the page may lie behind, the test's time limit says how long */
			kit_turn(&run, false);
		kit_close(&run);
	}
}

static bool is_dropped(struct kit_run *r, void *arg SPW_UNUSED)
{
	struct spw_port_stat stat;

	spw_port_stat(r->b.port, &stat);
	return stat.dropped[SPW_PORT_DROP_too_long] >= 3;
}

/* Frames that are longer than a slot: dropped and counted, and the queue goes on. */
static void frames_that_are_too_long(void **state SPW_UNUSED)
{
	struct kit_conf a = {.spec = "verbs:mlx5_0,mtu=4000",
			     .queues = 1,
			     .profile = "latency",
			     .slot_bytes = 4096};
	struct kit_conf b = {.spec = "verbs:mlx5_1,mtu=1500",
			     .queues = 1,
			     .profile = "latency",
			     .slot_bytes = 2048};

	kit_open(&run, &a, &b);
	run.lossy = true;
	run.bytes_min = run.bytes_max = 3000;
	run.window = 8;
	run.lossy = true;
	kit_pump_until(&run, is_dropped, NULL);
	run.bytes_min = 64;
	run.bytes_max = 1514;
	run.window = 1u << 20; /* what was lost is never echoed */
	kit_pump(&run, 2000);
	kit_close(&run);
}

static void bad_specs_are_refused(void **state SPW_UNUSED)
{
	static const struct {
		const char *spec, *says;
	} table[] = {
		{"verbs:", "no device"},
		{"verbs:mlx5_7", "mlx5_7"},
		{"verbs:mlx5_0,mode=ud", "use mode=eth or mode=rc"},
		{"verbs:mlx5_0,mode=eth,flows=1", "key 'flows' is not known"},
		{"verbs:mlx5_0,mode=eth,port=2", "port 2"},
		{"verbs:mlx5_0,mode=eth,poll=busy", "poll=busy: plain"},
		{"verbs:mlx5_0,mode=rc", "needs listen="},
		{"verbs:mlx5_0,mode=rc,connect=127.0.0.1:1,gid=77", "GID 77"},
		{"verbs:mlx5_0,mode=rc,connect=127.0.0.1:1,what=1", "key 'what' is not known"},
	};

	for (size_t i = 0; i < SPW_ARRAY_CNT(table); i++) {
		struct spw_port_spec spec;
		struct spw_port *port;

		assert_int_equal(spw_port_spec_parse(table[i].spec, &spec), 0);
		assert_true(spw_port_open(&spec, 0, 1, &port) < 0);
		if (!strstr(spw_err_text(), table[i].says))
			fail_msg("'%s' gave: %s", table[i].spec, spw_err_text());
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(echoes),
		cmocka_unit_test(echoes_of_the_other_driver),
		cmocka_unit_test(a_send_queue_fails),
		cmocka_unit_test(completion_queues_fail),
		cmocka_unit_test(a_key_is_revoked),
		cmocka_unit_test(stamps_are_of_the_devices_clock),
		cmocka_unit_test(frames_that_are_too_long),
		cmocka_unit_test(bad_specs_are_refused),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
