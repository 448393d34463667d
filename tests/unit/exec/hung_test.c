/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A handler that does not return: stop reports it in time, and close leaves alone what its thread
 * still uses. */
#include <errno.h>
#include <stdlib.h>

#include "exec/spw_exec.h"
#include "exec/spw_handler.h"
#include "time/spw_time.h"
#include "unit_test.h"

static uint32_t entered, release;

SPW_HANDLER_BODY(hang)(const struct spw_frame *frame, struct spw_lanes lanes)
{
	(void)lanes;
	spw_thr_store_rel(&entered, 1);
	while (!spw_thr_load_acq(&release))
		spw_cpu_relax();
	return spw_consume(spw_frame_u8(frame, 0));
}

SPW_HANDLER_BATCH(hang)

static const struct spw_handler hang = SPW_HANDLER_INIT(hang, "waits to be released", 0, NULL);
static struct spw_exec *exec; /* left as it is at the end: still known, so no leak */
static uint8_t frame[64];

static struct spw_gring *push_one(void)
{
	static struct spw_region region = {.host_va = frame, .bytes = sizeof(frame)};
	struct spw_exec_conf conf = {.kind = SPW_EXEC_CPU,
				     .handler = &hang,
				     .ring_cnt = 1,
				     .region = &region,
				     .region_cnt = 1,
				     .numa_node = -1};
	struct spw_gring_batch *batch;
	struct spw_gring *ring;

	spw_thr_store_rel(&entered, 0);
	spw_thr_store_rel(&release, 0);
	assert_int_equal(spw_exec_open(&conf, &exec), 0);
	assert_int_equal(spw_exec_start(exec), 0);
	ring = spw_exec_ring(exec, 0);
	batch = spw_gring_next(ring);
	batch->cnt = 1;
	batch->desc[0] = (struct spw_desc){.len = sizeof(frame)};
	spw_gring_push(ring, batch);
	while (!spw_thr_load_acq(&entered))
		spw_cpu_relax();
	return ring;
}

static struct spw_gring_batch *reap(struct spw_gring *ring)
{
	struct spw_gring_batch *batch;

	while (!(batch = spw_gring_reap(ring)))
		spw_cpu_relax();
	return batch;
}

static void a_late_handler_is_joined_after_all(void **state)
{
	struct spw_gring *ring = push_one();

	(void)state;
	assert_int_equal(spw_exec_stop(exec, 50), -EBUSY);
	assert_non_null(strstr(spw_err_text(), "hang does not return"));
	spw_thr_store_rel(&release, 1);
	reap(ring);
	assert_int_equal(spw_exec_stop(exec, 2000), 0);
	spw_exec_close(exec);
}

static void what_a_hung_handler_uses_is_left_alone(void **state)
{
	struct spw_gring *ring = push_one();

	(void)state;
	assert_int_equal(spw_exec_stop(exec, 50), -EBUSY);
	spw_exec_close(exec);
	assert_int_equal(ring->head_seq, 1); /* still there */
	spw_thr_store_rel(&release, 1);
	assert_int_equal(reap(ring)->cnt, 1); /* and the thread wrote into memory that is its own */
	assert_int_equal(spw_exec_stop(exec, 2000), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_late_handler_is_joined_after_all),
		cmocka_unit_test(what_a_hung_handler_uses_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
