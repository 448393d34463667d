/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A running lane is asked for another executor again and again: each frame is executed once, by one
 * of them, each slot returns, and the verdicts are right. One frame in seven is malformed. The
 * executor that is not in use may be at rest meanwhile.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "exec/spw_handler.h"
#include "topo/spw_topo.h"
#include "unit_thread.h"

#define CHANGES  200u
#define NAPS_MAX 200000u /* of 0.1 ms */

struct rig {
	struct spw_port_spec spec;
	struct spw_topo topo;
	bool rests; /* what is not in use */
	uint32_t stop;
};

static void *lane_main(void *arg)
{
	struct rig *rig = arg;

	spw_pipe_run(&rig->topo.lane[0]->pipe, &rig->stop);
	return NULL;
}

static void rig_open(struct rig *rig, bool record)
{
	struct spw_topo_conf tc = {.port_cnt = 1, .lane_cnt = 1};

	memset(rig, 0, sizeof(*rig));
	assert_int_equal(spw_tsc_calibrate(10, &tc.tsc), 0);
	assert_int_equal(spw_port_spec_parse("null:size=128,pattern=crc,bad=checksum,bad_every=7",
					     &rig->spec),
			 0);
	tc.port[0] = (struct spw_topo_port_conf){
		.spec = &rig->spec, .queue_cnt = 1, .profile = "latency"};
	tc.lane[0].numa_node = -1;
	tc.memory.kind = SPW_MEM_HOST;
	tc.memory.slots = 1024;
	tc.memory.slot_bytes = 2000;
	tc.exec.kind = SPW_EXEC_INLINE;
	tc.exec.also[0] = SPW_EXEC_CPU;
	tc.exec.also_cnt = 1;
	assert_int_equal(spw_handler_open("crc32c", &tc.exec.handler), 0);
	tc.pipe.burst = 64;
	tc.pipe.record = record;
	tc.pipe.slow_ns = record ? 20000 : 0;
	assert_int_equal(spw_topo_open(&rig->topo, &tc), 0);
	assert_int_equal(spw_topo_start(&rig->topo), 0);
}

static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

/* The thread of way 1 is there only while that way is in use. */
static void rest(struct rig *rig, uint32_t way)
{
	uint32_t naps = 0;

	spw_topo_rest(&rig->topo, way);
	while (unit_threads("spw-exec", NULL) != way && naps++ < NAPS_MAX)
		nap();
	assert_int_equal(unit_threads("spw-exec", NULL), way);
	assert_int_equal(spw_topo_service(&rig->topo), 0);
}

/* Until the lane uses that way, and has polled some frames since. */
static void follow(struct rig *rig, uint32_t way, uint16_t burst)
{
	uint32_t naps = 0;
	uint64_t frames;
	uint16_t now;
	int rc;

	while ((rc = spw_topo_wake(&rig->topo, way)) == -EBUSY && naps++ < NAPS_MAX)
		nap();
	assert_int_equal(rc, 0);
	spw_topo_ask(&rig->topo, way, burst);
	while (!spw_topo_uses(&rig->topo, way) && naps++ < NAPS_MAX)
		nap();
	frames = spw_topo_frames(&rig->topo);
	while (spw_topo_frames(&rig->topo) == frames && naps++ < NAPS_MAX)
		nap();
	assert_true(spw_topo_uses(&rig->topo, way));
	spw_pipe_way(&rig->topo.lane[0]->pipe, &now);
	assert_int_equal(now, burst);
	if (rig->rests)
		rest(rig, way);
}

static void changes(bool record, bool rests)
{
	struct spw_exec_stat inlined, cpu;
	struct spw_topo_stat stat;
	struct spw_topo_end end;
	pthread_t thread;
	uint64_t dropped;
	struct rig rig;

	rig_open(&rig, record);
	rig.rests = rests;
	assert_int_equal(pthread_create(&thread, NULL, lane_main, &rig), 0);
	for (uint32_t i = 1; i <= CHANGES; i++)
		follow(&rig, i & 1, (uint16_t)(1 + i % SPW_BURST_MAX));
	spw_thr_store_rlx(&rig.stop, 1);
	pthread_join(thread, NULL);
	assert_int_equal(rig.topo.lane[0]->pipe.way_changes, CHANGES);
	assert_int_equal(spw_topo_stop(&rig.topo, 5000, &end), 0);
	assert_int_equal(end.lost_frames, 0);
	spw_topo_stat(&rig.topo, &stat);
	spw_exec_stat(rig.topo.way[0].exec, &inlined);
	spw_exec_stat(rig.topo.way[1].exec, &cpu);
	assert_true(inlined.frames && cpu.frames);
	assert_int_equal(stat.exec.frames, inlined.frames + cpu.frames);
	assert_int_equal(stat.sum.residual, 0);
	assert_int_equal(stat.sum.leaked, 0);
	assert_int_equal(stat.exec.faults, 0);
	dropped = stat.ledger.pipe.dropped[SPW_DROP_ring_full]; /* malformed ones among them */
	assert_in_range(stat.ledger.pipe.bad_frames, stat.exec.frames / 7 - 2 - dropped,
			stat.exec.frames / 7 + 2 + dropped);
	assert_int_equal(spw_topo_close(&rig.topo), 0);
}

static void recorded(void **state SPW_UNUSED)
{
	changes(true, false);
}

static void not_recorded(void **state SPW_UNUSED)
{
	changes(false, false);
}

static void what_is_not_in_use_rests(void **state SPW_UNUSED)
{
	changes(true, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(recorded),
					   cmocka_unit_test(not_recorded),
					   cmocka_unit_test(what_is_not_in_use_rests)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
