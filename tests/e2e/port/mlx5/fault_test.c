/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Every fault that the software ConnectX knows, while frames flow: each is an event and not the
 * end. Afterwards traffic flows on every queue without a restart, and port_kit counts every slot
 * and both sides of every number.
 */
#include <string.h>

#include "port/mlx5/eth/eth.h"
#include "port_kit.h"

#define FLOW 3000u /* echoes before and after */

static struct kit_run run;

static struct mlx5_eth_queue_ctl *queue(struct kit_port *p, uint16_t q)
{
	return &mlx5_eth_of(p->port)->queue[q];
}

static uint32_t cqn(struct ibv_cq_ex *cq)
{
	struct mlx5dv_cq dv = {0};
	struct mlx5dv_obj obj = {.cq = {.in = ibv_cq_ex_to_cq(cq), .out = &dv}};

	assert_int_equal(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ), 0);
	return dv.cqn;
}

static void open_both(uint16_t queues, const char *profile)
{
	struct kit_conf a = {.spec = "mlx5:mlx5_0", .queues = queues, .profile = profile}, b = a;

	b.spec = "mlx5:mlx5_1";
	kit_open(&run, &a, &b);
	run.lossy = true;
	kit_pump(&run, FLOW);
}

/* Every queue of b gets frames again, and they come back whole. */
static void check_alive(void)
{
	uint64_t rx[KIT_QUEUE_MAX];

	memcpy(rx, run.b.rx, sizeof(rx));
	kit_pump(&run, FLOW);
	for (uint16_t q = 0; q < run.b.port->queue_cnt; q++)
		assert_true(run.b.rx[q] > rx[q]);
}

static bool is_back(struct kit_run *r, void *arg)
{
	return r->b.events.cnt[SPW_PORT_EVENT_QUEUE_BACK] >= *(uint32_t *)arg;
}

/* b reported cnt queues that failed and were recovered, with this in the text. */
static void check_recovered(uint32_t cnt, const char *text)
{
	struct spw_port_stat stat;

	kit_pump_until(&run, is_back, &cnt);
	assert_int_equal(run.b.events.cnt[SPW_PORT_EVENT_QUEUE_ERROR],
			 run.b.events.cnt[SPW_PORT_EVENT_QUEUE_BACK]);
	assert_int_equal(run.b.events.cnt[SPW_PORT_EVENT_DEVICE_GONE], 0);
	assert_true(run.b.events.outage_ns > 0 &&
		    run.b.events.outage_ns < KIT_WAIT_S * 1000000000ull);
	if (!strstr(run.b.events.text, text))
		fail_msg("'%s' is not in: %s", text, run.b.events.text);
	spw_port_stat(run.b.port, &stat);
	assert_true(stat.err[SPW_PORT_ERR_queue_reset] >= cnt);
	check_alive();
}

/* ---- frames ---- */

static void test_frames_in_trouble(void **state)
{
	static const char *const fault[] = {"loss=0.05", "dup=0.05", "reorder=0.05", "corrupt=0.02",
					    "delay=0.05:200us"};
	static const char *const off = "fault loss=0,dup=0,reorder=0,corrupt=0,delay=0:0s";

	(void)state;
	for (size_t i = 0; i < 2 * SPW_ARRAY_CNT(fault); i++) {
		open_both(2, i & 1 ? "throughput" : "latency");
		kit_control(0, "fault %s", fault[i / 2]);
		kit_control(1, "fault %s", fault[i / 2]);
		kit_pump(&run, FLOW);
		kit_control(0, "%s", off);
		kit_control(1, "%s", off);
		assert_int_equal(run.b.events.cnt[SPW_PORT_EVENT_QUEUE_ERROR], 0);
		check_alive();
		kit_close(&run);
	}
}

static bool link_came_back(struct kit_run *r, void *arg)
{
	(void)arg;
	return r->b.events.cnt[SPW_PORT_EVENT_LINK_DOWN] == 1 &&
	       r->b.events.cnt[SPW_PORT_EVENT_LINK_UP] == 2;
}

static void test_link_down_and_up(void **state)
{
	struct spw_port_stat stat;

	(void)state;
	open_both(2, "latency");
	kit_control(1, "link-down=50ms");
	kit_pump_until(&run, link_came_back, NULL);
	check_alive();
	spw_port_stat(run.b.port, &stat);
	assert_int_equal(stat.err[SPW_PORT_ERR_link_down], 1);
	kit_close(&run);
}

/* Frames that no slot of b can hold: dropped and counted, and the queue goes on. In plain receive
 * queues each is an error completion, in striding ones it is none. */
static void frame_too_long(const char *profile)
{
	struct kit_conf a = {.spec = "mlx5:mlx5_0,mtu=4000",
			     .queues = 1,
			     .profile = profile,
			     .slot_bytes = 4096},
			b = a;
	struct spw_port_stat stat;

	b.spec = "mlx5:mlx5_1,mtu=1500";
	b.slot_bytes = 2048;
	kit_open(&run, &a, &b);
	run.lossy = true;
	run.window = 8;
	kit_pump(&run, FLOW);
	run.bytes_min = run.bytes_max = 3000;
	kit_send(&run);
	run.sent = run.echoed;
	run.bytes_min = run.bytes_max = 300;
	check_alive();
	spw_port_stat(run.b.port, &stat);
	assert_true(stat.dropped[SPW_PORT_DROP_too_long] >= 1);
	assert_int_equal(run.b.events.cnt[SPW_PORT_EVENT_QUEUE_ERROR], 0);
	assert_int_equal(stat.err[SPW_PORT_ERR_queue_reset], 0);
	kit_close(&run);
}

static void test_frame_too_long(void **state)
{
	(void)state;
	frame_too_long("latency");
}

static void test_frame_too_long_for_a_stride(void **state)
{
	(void)state;
	frame_too_long("throughput");
}

/* ---- objects ---- */

static const char *const profile[] = {"latency", "throughput"};

static void test_send_queue_error(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		open_both(2, profile[i]);
		for (uint32_t k = 1; k <= 3; k++) {
			kit_control(1, "qp-error=%u", queue(&run.b, 1)->tx.qp->qp_num);
			check_recovered(k, "send queue");
		}
		kit_close(&run);
	}
}

static void test_cq_of_send_queue_fails(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		open_both(2, profile[i]);
		kit_control(1, "cq-overrun=%u", cqn(queue(&run.b, 0)->tx.cq));
		check_recovered(1, "send queue");
		kit_close(&run);
	}
}

/* New objects for one queue, new steering for all of them; the other queues keep theirs. */
static void test_cq_of_receive_queue_fails(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct ibv_wq *other;

		open_both(4, profile[i]);
		other = queue(&run.b, 1)->rx.wq;
		for (uint32_t k = 1; k <= 3; k++) {
			kit_control(1, "cq-overrun=%u", cqn(queue(&run.b, 2)->rx.cq));
			check_recovered(k, "receive queue: its completion queue failed");
		}
		assert_ptr_equal(queue(&run.b, 1)->rx.wq, other);
		kit_close(&run);
	}
}

static bool keys_replaced(struct kit_run *r, void *arg)
{
	uint32_t old = *(uint32_t *)arg;

	for (uint16_t q = 0; q < r->b.port->queue_cnt; q++)
		if (queue(&r->b, q)->q.rq_lkey == old)
			return false;
	return true;
}

/* All queues meet the dead key, one registers the memory anew, all go on. */
static void test_memory_key_revoked(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		open_both(4, profile[i]);
		for (uint32_t k = 0; k < 3; k++) {
			uint32_t old = queue(&run.b, 0)->q.rq_lkey;

			kit_control(1, "mr-revoke=%u", old);
			kit_pump_until(&run, keys_replaced, &old);
			check_recovered(4 * (k + 1), "queue");
		}
		kit_close(&run);
	}
}

/* The event of a queue that failed comes after its completions, before them, or never; or nothing
 * is flushed. The queues recover all the same, and take the new key. */
static void test_failure_becomes_known_late(void **state)
{
	static const char *const fault[] = {"wq-fatal=late:20ms", "wq-fatal=late:150ms",
					    "wq-fatal=early:20ms", "wq-fatal=none", "flush=none"};

	(void)state;
	for (unsigned i = 0; i < 2 * SPW_ARRAY_CNT(fault); i++) {
		uint32_t old;

		open_both(2, profile[i & 1]);
		old = queue(&run.b, 0)->q.rq_lkey;
		kit_control(1, "fault %s", fault[i / 2]);
		kit_control(1, "mr-revoke=%u", old);
		kit_pump_until(&run, keys_replaced, &old);
		kit_control(1, "fault wq-fatal=plain,flush=plain");
		check_recovered(2, "queue");
		kit_close(&run);
	}
}

/* The event comes before the CQE that names the cause, and each time so long after the recovery
 * before that the port resets the queue at once: the CQE never comes, and the key is replaced all
 * the same. */
static void failure_is_never_named(const char *name)
{
	const double start = kit_seconds();
	uint32_t old;

	open_both(2, name);
	old = queue(&run.b, 0)->q.rq_lkey;
	kit_control(1, "fault wq-fatal=early:600s");
	kit_control(1, "mr-revoke=%u", old);
	while (!keys_replaced(&run, &old)) {
		assert_true(kit_seconds() - start < KIT_WAIT_S);
		run.sent = run.echoed;
		for (uint32_t i = 0; i < run.flows; i += 8) /* every flow, so every queue */
			kit_send(&run);
		for (double sent = kit_seconds(); kit_seconds() - sent < 0.2;)
			kit_turn(&run, false);
	}
	kit_control(1, "fault wq-fatal=plain");
	check_recovered(2, "queue");
	kit_close(&run);
}

static void test_failure_is_never_named(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++)
		failure_is_never_named(profile[i]);
}

/* A reset that fails for a while is tried again; nothing is lost meanwhile. */
static void test_recovery_fails_at_first(void **state)
{
	uint32_t one = 1;

	(void)state;
	open_both(2, "latency");
	kit_control(1, "fault fail=create_wq:ENOMEM");
	kit_control(1, "cq-overrun=%u", cqn(queue(&run.b, 0)->rx.cq));
	while (!run.b.events.cnt[SPW_PORT_EVENT_QUEUE_ERROR] || !queue(&run.b, 0)->q.rx_err.tries)
		kit_turn(&run, true);
	assert_int_equal(run.b.events.cnt[SPW_PORT_EVENT_QUEUE_BACK], 0);
	kit_control(1, "fault fail=none");
	kit_pump_until(&run, is_back, &one);
	check_recovered(1, "receive queue");
	kit_close(&run);
}

static bool is_gone(struct kit_run *r, void *arg)
{
	(void)arg;
	return r->b.events.cnt[SPW_PORT_EVENT_DEVICE_GONE] == 1;
}

/* One that never succeeds is the end of the device, reported once; the slots are returned all the
 * same. */
static void test_recovery_never_succeeds(void **state)
{
	(void)state;
	open_both(2, "throughput");
	kit_control(1, "fault fail=modify_wq:EIO");
	kit_control(1, "cq-overrun=%u", cqn(queue(&run.b, 0)->rx.cq));
	kit_pump_until(&run, is_gone, NULL);
	for (unsigned i = 0; i < 1000; i++)
		kit_turn(&run, true);
	assert_int_equal(run.b.events.cnt[SPW_PORT_EVENT_DEVICE_GONE], 1);
	kit_control(1, "fault fail=none");
	kit_close(&run);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames_in_trouble),
		cmocka_unit_test(test_link_down_and_up),
		cmocka_unit_test(test_frame_too_long),
		cmocka_unit_test(test_frame_too_long_for_a_stride),
		cmocka_unit_test(test_send_queue_error),
		cmocka_unit_test(test_cq_of_send_queue_fails),
		cmocka_unit_test(test_cq_of_receive_queue_fails),
		cmocka_unit_test(test_memory_key_revoked),
		cmocka_unit_test(test_failure_becomes_known_late),
		cmocka_unit_test(test_failure_is_never_named),
		cmocka_unit_test(test_recovery_fails_at_first),
		cmocka_unit_test(test_recovery_never_succeeds),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests_name("mlx5 faults", tests, NULL, NULL);
}
