/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A running lane is asked for another executor again and again: each frame is executed once, by one
 * of them, each slot returns, and the verdicts are right. One frame in seven is malformed. The
 * executors that are not in use may be at rest meanwhile.
 *
 *   way_test       executors of the CPU
 *   way_test gpu   those of a GPU, among them two resident kernels of 1 CTA and of the default
 *                  number; exit status 77 where there is none
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/spw_err.h"
#include "exec/spw_handler.h"
#include "topo/spw_topo.h"
#include "unit_thread.h"

#define CHANGES  200u
#define NAPS_MAX 200000u /* of 0.1 ms */
#define LIFE_MS  5000u   /* whatever goes wrong, no kernel of a test stays */

#define PORT "null:size=128,pattern=crc,bad=checksum,bad_every=7"

struct ways {
	const char *port;
	struct spw_topo_exec way[SPW_PIPE_BACKEND_MAX];
	uint32_t cnt;
};

static const struct ways two = {PORT, {{.kind = SPW_EXEC_INLINE}, {.kind = SPW_EXEC_CPU}}, 2};
/* All that there can be; four of one kind. */
static const struct ways five = {PORT ",rate=100k",
				 {{.kind = SPW_EXEC_INLINE},
				  {.kind = SPW_EXEC_CPU},
				  {.kind = SPW_EXEC_CPU},
				  {.kind = SPW_EXEC_CPU},
				  {.kind = SPW_EXEC_CPU}},
				 5};
static const struct ways gpu = {PORT ",rate=100k",
				{{.kind = SPW_EXEC_INLINE},
				 {.kind = SPW_EXEC_CUDA_GRAPH},
				 {SPW_EXEC_CUDA_PERSISTENT, 1},
				 {.kind = SPW_EXEC_CUDA_PERSISTENT}},
				4};

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

static void rig_open(struct rig *rig, const struct ways *ways, bool record)
{
	struct spw_topo_conf tc = {.port_cnt = 1, .lane_cnt = 1};

	memset(rig, 0, sizeof(*rig));
	assert_int_equal(spw_tsc_calibrate(10, &tc.tsc), 0);
	assert_int_equal(spw_port_spec_parse(ways->port, &rig->spec), 0);
	tc.port[0] = (struct spw_topo_port_conf){
		.spec = &rig->spec, .queue_cnt = 1, .profile = "latency"};
	tc.lane[0].numa_node = -1;
	tc.memory.kind = ways == &gpu ? SPW_MEM_CUDA_HOST : SPW_MEM_HOST;
	tc.memory.slots = 1024;
	tc.memory.slot_bytes = 2000;
	memcpy(tc.exec.backend, ways->way, sizeof(tc.exec.backend));
	tc.exec.backend_cnt = ways->cnt;
	tc.exec.life_ms = ways == &gpu ? LIFE_MS : 0;
	assert_int_equal(spw_handler_open("crc32c", &tc.exec.handler), 0);
	tc.pipe.burst = 64;
	tc.pipe.record = record;
	tc.pipe.slow_ns = record ? 20000 : 0;
	if (spw_topo_open(&rig->topo, &tc) || spw_topo_start(&rig->topo))
		fail_msg("%s", spw_err_text());
	assert_int_equal(rig->topo.backend_cnt, ways->cnt);
	for (uint32_t w = 0; w < ways->cnt; w++)
		assert_int_equal(rig->topo.backend[w].kind, ways->way[w].kind);
}

/* A millisecond's turn of the control thread, and shorter. */
static void nap(struct rig *rig)
{
	nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
	if (spw_topo_service(&rig->topo))
		fail_msg("%s", spw_err_text());
}

/* Executors that are at rest have ended, so that stopping them again is done at once. */
static bool rest_ended(struct rig *rig)
{
	uint32_t ended = 0, rests = 0;

	for (uint32_t w = 0; w < rig->topo.backend_cnt; w++) {
		rests += rig->topo.backend[w].rests;
		ended += rig->topo.backend[w].rests && !spw_exec_stop(rig->topo.backend[w].exec, 0);
	}
	return ended == rests && rests == rig->topo.backend_cnt - 1;
}

/* The thread of a way is there only while that way is in use. */
static void rest(struct rig *rig, uint32_t way)
{
	const uint32_t threads = rig->topo.backend[way].kind == SPW_EXEC_CPU;
	uint32_t naps = 0;

	spw_topo_rest(&rig->topo, way);
	while ((unit_threads("spw-exec", NULL) != threads || !rest_ended(rig)) && naps++ < NAPS_MAX)
		nap(rig);
	assert_int_equal(unit_threads("spw-exec", NULL), threads);
	assert_true(rest_ended(rig));
}

/* Until the lane uses that way, and has polled some frames since. */
static void follow(struct rig *rig, uint32_t way, uint16_t burst)
{
	uint32_t naps = 0;
	uint64_t frames;
	uint16_t now;
	int rc;

	while ((rc = spw_topo_wake(&rig->topo, way)) == -EBUSY && naps++ < NAPS_MAX)
		nap(rig);
	assert_int_equal(rc, 0);
	spw_topo_ask(&rig->topo, way, burst);
	while (!spw_topo_uses(&rig->topo, way) && naps++ < NAPS_MAX)
		nap(rig);
	frames = spw_topo_frames(&rig->topo);
	while (spw_topo_frames(&rig->topo) == frames && naps++ < NAPS_MAX)
		nap(rig);
	assert_true(spw_topo_uses(&rig->topo, way));
	spw_pipe_backend(&rig->topo.lane[0]->pipe, &now);
	assert_int_equal(now, burst);
	if (rig->rests)
		rest(rig, way);
}

/* Each executor has executed some of the frames. */
static uint64_t executed(struct rig *rig)
{
	struct spw_exec_stat stat;
	uint64_t frames = 0;

	for (uint32_t w = 0; w < rig->topo.backend_cnt; w++) {
		spw_exec_stat(rig->topo.backend[w].exec, &stat);
		assert_true(stat.frames > 0);
		frames += stat.frames;
	}
	return frames;
}

static void changes(const struct ways *ways, bool record, bool rests)
{
	struct spw_topo_stat stat;
	struct spw_topo_end end;
	pthread_t thread;
	uint64_t dropped, malformed;
	struct rig rig;

	rig_open(&rig, ways, record);
	rig.rests = rests;
	assert_int_equal(pthread_create(&thread, NULL, lane_main, &rig), 0);
	for (uint32_t i = 1; i <= CHANGES; i++)
		follow(&rig, i % ways->cnt, (uint16_t)(1 + i % SPW_BURST_MAX));
	spw_thr_store_rlx(&rig.stop, 1);
	pthread_join(thread, NULL);
	assert_int_equal(rig.topo.lane[0]->pipe.backend_changes, CHANGES);
	assert_int_equal(spw_topo_stop(&rig.topo, 5000, &end), 0);
	assert_int_equal(end.lost_frames, 0);
	spw_topo_stat(&rig.topo, &stat);
	assert_int_equal(stat.exec.frames, executed(&rig));
	assert_int_equal(stat.sum.residual, 0);
	assert_int_equal(stat.sum.leaked, 0);
	assert_int_equal(stat.exec.faults, 0);
	dropped = stat.ledger.pipe.dropped[SPW_DROP_ring_full]; /* malformed ones among them */
	malformed = (stat.exec.frames + dropped) / 7 + 2;
	assert_in_range(stat.ledger.pipe.bad_frames,
			malformed > dropped + 4 ? malformed - dropped - 4 : 0, malformed);
	assert_int_equal(spw_topo_close(&rig.topo), 0);
}

static void recorded(void **state SPW_UNUSED)
{
	changes(&two, true, false);
}

static void not_recorded(void **state SPW_UNUSED)
{
	changes(&two, false, false);
}

static void what_is_not_in_use_rests(void **state SPW_UNUSED)
{
	changes(&two, true, true);
}

static void five_of_which_four_are_alike(void **state SPW_UNUSED)
{
	changes(&five, true, true);
}

static void gpu_runs_all(void **state SPW_UNUSED)
{
	changes(&gpu, true, false);
}

static void gpu_runs_one(void **state SPW_UNUSED)
{
	changes(&gpu, true, true);
}

static void gpu_names(void **state SPW_UNUSED)
{
	char name[SPW_TOPO_BACKEND_NAME_BYTES];
	struct rig rig;

	rig_open(&rig, &gpu, true);
	assert_string_equal(rig.topo.backend[0].name, "inline");
	assert_string_equal(rig.topo.backend[2].name, "cuda-persistent, 1 CTA");
	assert_true(rig.topo.backend[3].ctas > 1);
	snprintf(name, sizeof(name), "cuda-persistent, %u CTAs", rig.topo.backend[3].ctas);
	assert_string_equal(rig.topo.backend[3].name, name);
	assert_int_equal(spw_topo_stop(&rig.topo, 5000, &(struct spw_topo_end){0}), 0);
	assert_int_equal(spw_topo_close(&rig.topo), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest cpu_tests[] = {cmocka_unit_test(recorded),
					       cmocka_unit_test(not_recorded),
					       cmocka_unit_test(what_is_not_in_use_rests),
					       cmocka_unit_test(five_of_which_four_are_alike)};
	const struct CMUnitTest gpu_tests[] = {cmocka_unit_test(gpu_names),
					       cmocka_unit_test(gpu_runs_all),
					       cmocka_unit_test(gpu_runs_one)};

	if (argc != 2 || strcmp(argv[1], "gpu"))
		return cmocka_run_group_tests(cpu_tests, NULL, NULL);
	if (spw_exec_check(SPW_EXEC_CUDA_PERSISTENT, NULL, 0) < 0) {
		printf("skipped: %s\n", spw_err_text());
		return 77;
	}
	return cmocka_run_group_tests(gpu_tests, NULL, NULL);
}
