/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The pipe and the control thread: port events on their way out, and the stop.
 */
#include <pthread.h>

#include "pipe_rig.h"

/* Link down: refused echoes are counted tx_down, and the event reaches the control thread. */
static void test_link_events(void **state)
{
	struct spw_port_event event;
	struct rig rig;

	(void)state;
	rig_open(&rig, "null:size=64", "echo", SPW_EXEC_INLINE, 8);
	rig_pipe(&rig, (struct spw_pipe_conf){.can_tx = true});
	rig.tx_room = 0;
	rig_report(&rig, SPW_PORT_EVENT_LINK_DOWN);
	memset(&rig.pipe->ledger.dropped, 0, sizeof(rig.pipe->ledger.dropped));
	assert_int_equal(spw_pipe_run_once(rig.pipe), 64);
	assert_int_equal(rig.pipe->ledger.dropped[SPW_DROP_tx_down], 64);
	assert_true(spw_pipe_event(rig.pipe, &event));
	assert_int_equal(event.kind, SPW_PORT_EVENT_LINK_DOWN);
	assert_false(spw_pipe_event(rig.pipe, &event));
	rig_free(&rig);
}

/* Events that nobody reads fill the ring up to the entry reserved for DEVICE_GONE: that event is
 * never lost, the others are counted. */
static void test_device_gone_is_not_lost(void **state)
{
	struct spw_port_event event;
	uint32_t cnt = 0, gone = 0;
	struct rig rig;

	(void)state;
	rig_open(&rig, "null:size=64", "null", SPW_EXEC_INLINE, 8);
	rig_pipe(&rig, (struct spw_pipe_conf){0});
	for (uint32_t i = 0; i < SPW_PIPE_EVENT_CNT + 9; i++)
		rig_report(&rig, SPW_PORT_EVENT_PEER_DOWN);
	rig_report(&rig, SPW_PORT_EVENT_DEVICE_GONE);
	rig_report(&rig, SPW_PORT_EVENT_PEER_DOWN);
	for (; spw_pipe_event(rig.pipe, &event); cnt++)
		gone += event.kind == SPW_PORT_EVENT_DEVICE_GONE;
	assert_int_equal(cnt, SPW_PIPE_EVENT_CNT);
	assert_int_equal(gone, 1);
	assert_int_equal(rig.pipe->events.lost, 11);
	rig_free(&rig);
}

static void *run_pipe(void *arg)
{
	struct rig *rig = arg;

	spw_pipe_run(rig->pipe, &rig->stop);
	return NULL;
}

/* Stopped in mid-stream by another thread, the pipe drains: nothing is left in the executor. */
static void test_stop_drains(void **state)
{
	struct spw_ledger ledger;
	pthread_t thread;
	struct rig rig;

	(void)state;
	rig_open(&rig, "null:size=64", "sum", SPW_EXEC_CPU, 64);
	rig_pipe(&rig, (struct spw_pipe_conf){.record = true});
	assert_int_equal(pthread_create(&thread, NULL, run_pipe, &rig), 0);
	while (spw_thr_load_rlx(&rig.pipe->ledger.polled_frames) < 10000)
		spw_cpu_relax();
	spw_thr_store_rlx(&rig.stop, 1);
	pthread_join(thread, NULL);
	assert_true(spw_pipe_ended(rig.pipe));
	assert_int_equal(spw_exec_ring(rig.exec, 0)->in_exec_frames, 0);
	rig_close(&rig, &ledger);
	assert_int_equal(ledger.pipe.dropped[SPW_DROP_exec_lost], 0);
	assert_true(ledger.executed_frames > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_link_events),
		cmocka_unit_test(test_device_gone_is_not_lost),
		cmocka_unit_test(test_stop_drains),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
