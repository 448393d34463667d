/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A pipe with two executors: a change that is given up leaves everything as it was.
 */
#include "exec/spw_exec.h"
#include "pipe_rig.h"

/* The executor's thread has ended, so what is pushed stays in its ring, and the loop waits in vain
 * for the ring to be empty. */
static void test_given_up(void **state)
{
	struct spw_ledger ledger;
	uint64_t busy, end;
	struct rig rig;

	(void)state;
	rig_open(&rig, "null:size=64", "sum", SPW_EXEC_CPU, 8);
	rig_also(&rig, SPW_EXEC_INLINE, 8);
	rig_pipe(&rig, (struct spw_pipe_conf){.record = true, .drain_tsc = 1});
	spw_pipe_begin(rig.pipe);
	while (rig.pipe->ledger.reaped_batches < 100)
		spw_pipe_run_once(rig.pipe);
	rig.dry = true;
	while (rig.pipe->ring->retired_seq != rig.pipe->ring->head_seq)
		spw_pipe_run_once(rig.pipe);
	assert_int_equal(spw_exec_stop(rig.exec, 2000), 0);
	rig.dry = false;
	spw_pipe_run_once(rig.pipe);
	busy = rig.pipe->exec_busy;
	end = rig.pipe->exec_last_end;
	spw_pipe_ask(rig.pipe, 1, SPW_BURST_MAX);
	while (!rig.pipe->way_change_tsc) /* until it tries */
		spw_pipe_run_once(rig.pipe);
	while (!spw_pipe_run_once(rig.pipe)) /* and polls again */
		;
	assert_int_equal(rig.pipe->way_idx, 0);
	assert_int_equal(rig.pipe->way_changes, 0);
	assert_true(busy > 0 && end > 0);
	assert_int_equal(rig.pipe->exec_busy, busy);
	assert_int_equal(rig.pipe->exec_last_end, end);
	spw_pipe_end(rig.pipe);
	rig_close(&rig, &ledger);
	assert_true(ledger.pipe.dropped[SPW_DROP_exec_lost] > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_given_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
