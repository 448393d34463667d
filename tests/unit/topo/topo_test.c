/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A topology of two null ports with three lanes: opened, run on this thread, stopped, balanced; and
 * what spw_topo_open refuses, after which close must still free what was open.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "exec/spw_handler.h"
#include "topo/spw_topo.h"
#include "unit_test.h"

#define SLOTS  1024u
#define FRAMES 10000u

struct rig {
	struct spw_port_spec spec[2];
	struct spw_topo_conf conf;
	struct spw_topo topo;
};

static void rig_init(struct rig *rig)
{
	struct spw_topo_conf *tc = &rig->conf;

	memset(rig, 0, sizeof(*rig));
	assert_int_equal(spw_tsc_calibrate(10, &tc->tsc), 0);
	assert_int_equal(spw_port_spec_parse("null:size=64", &rig->spec[0]), 0);
	assert_int_equal(spw_port_spec_parse("null:size=128", &rig->spec[1]), 0);
	for (uint32_t p = 0; p < 2; p++)
		tc->port[p] = (struct spw_topo_port_conf){.spec = &rig->spec[p],
							  .queue_cnt = (uint16_t)(p + 1),
							  .profile = "latency"};
	tc->port_cnt = 2;
	for (uint16_t i = 0; i < 3; i++)
		tc->lane[i] = (struct spw_topo_lane_conf){
			.port = i > 0, .queue = i == 2, .lcore_id = i, .numa_node = -1};
	tc->lane_cnt = 3;
	tc->memory.kind = SPW_MEM_HOST;
	tc->memory.slots = SLOTS;
	tc->memory.slot_bytes = 2000;
	tc->exec.backend[0].kind = SPW_EXEC_INLINE;
	tc->exec.backend_cnt = 1;
	assert_int_equal(spw_handler_open("null", &tc->exec.handler), 0);
	tc->pipe.burst = 32;
	tc->pipe.record = true;
	tc->pipe.frames_max = FRAMES;
}

static void rig_fini(struct rig *rig)
{
	assert_int_equal(spw_topo_close(&rig->topo), 0);
	spw_handler_close(rig->conf.exec.handler);
}

static void open_refuses(struct rig *rig, int rc, const char *text)
{
	assert_int_equal(spw_topo_open(&rig->topo, &rig->conf), rc);
	if (!strstr(spw_err_text(), text))
		fail_msg("'%s' lacks '%s'", spw_err_text(), text);
	rig_fini(rig);
}

static void runs_and_balances(void **state SPW_UNUSED)
{
	const uint32_t stop = 0;
	struct spw_pipe_summary lane;
	struct spw_topo_stat stat;
	struct spw_topo_end end;
	struct rig rig;

	rig_init(&rig);
	assert_int_equal(spw_topo_open(&rig.topo, &rig.conf), 0);
	assert_string_equal(rig.topo.port[0]->name, "null");
	assert_string_equal(rig.topo.port[1]->name, "null#1");
	assert_int_equal(spw_topo_start(&rig.topo), 0);
	for (uint32_t i = 0; i < 3; i++) {
		assert_false(spw_topo_ended(&rig.topo, i + 1));
		spw_pipe_run(&rig.topo.lane[i]->pipe, &stop);
		assert_true(spw_topo_ended(&rig.topo, i + 1));
		spw_pipe_summary(&rig.topo.lane[i]->pipe, &lane);
		assert_true(lane.ledger.polled_frames >= FRAMES);
		assert_true(lane.regime_tsc[SPW_REGIME_rx] > 0);
	}
	assert_int_equal(spw_topo_service(&rig.topo), 0);
	assert_int_equal(spw_topo_stop(&rig.topo, 1000, &end), 0);
	assert_int_equal(end.lost_frames, 0);
	spw_topo_stat(&rig.topo, &stat);
	assert_int_equal(stat.sum.residual, 0);
	assert_int_equal(stat.sum.leaked, 0);
	assert_int_equal(stat.ledger.pool_slots, 3 * SLOTS);
	assert_int_equal(stat.ledger.pipe.polled_frames, spw_topo_frames(&rig.topo));
	assert_int_equal(stat.exec.frames, stat.sum.executed);
	assert_true(stat.port[1].rx_frames > stat.port[0].rx_frames);
	rig_fini(&rig);
}

static void view_collects_every_lane(void **state SPW_UNUSED)
{
	struct spw_rec_view *view = aligned_alloc(_Alignof(struct spw_rec_view), sizeof(*view));
	const uint32_t stop = 0;
	struct spw_topo_end end;
	struct spw_rec_row row;
	struct rig rig;

	assert_non_null(view);
	spw_rec_view_init(view);
	rig_init(&rig);
	assert_int_equal(spw_topo_open(&rig.topo, &rig.conf), 0);
	assert_int_equal(spw_topo_start(&rig.topo), 0);
	for (uint32_t i = 0; i < 3; i++)
		spw_pipe_run(&rig.topo.lane[i]->pipe, &stop);
	assert_int_equal(spw_topo_stop(&rig.topo, 1000, &end), 0);
	spw_topo_collect_rest(&rig.topo, view);
	spw_rec_row(view, SPW_STAGE_polled_sent, false, &rig.conf.tsc, 0, &row);
	assert_int_equal(row.count, spw_topo_frames(&rig.topo));
	rig_fini(&rig);
	free(view);
}

static void lanes_share_a_region(void **state SPW_UNUSED)
{
	struct rig rig;

	rig_init(&rig);
	assert_int_equal(spw_topo_open(&rig.topo, &rig.conf), 0);
	assert_int_equal(rig.topo.region_cnt, 1);
	for (uint32_t i = 0; i < 3; i++) {
		const struct spw_topo_lane *lane = rig.topo.lane[i];

		assert_true(lane->slot_bytes >= 2000);
		assert_int_equal(lane->slot_bytes % SPW_CACHE_LINE, 0);
		assert_int_equal(lane->region_offset, i * SLOTS * lane->slot_bytes);
	}
	rig_fini(&rig);
}

static void bad_lanes(void **state SPW_UNUSED)
{
	struct rig rig;

	rig_init(&rig);
	rig.conf.lane_cnt = 0;
	open_refuses(&rig, -EINVAL, "0 queues in all");
	rig_init(&rig);
	rig.conf.lane_cnt = SPW_TOPO_LANE_MAX + 1;
	open_refuses(&rig, -EINVAL, "65 queues in all");
	rig_init(&rig);
	rig.conf.lane[2].queue = 2;
	open_refuses(&rig, -EINVAL, "lane 2: port 1 has no queue 2");
	rig_init(&rig);
	rig.conf.lane[1].port = 2;
	open_refuses(&rig, -EINVAL, "lane 1: port 2 has no queue 0");
}

static void bad_parts(void **state SPW_UNUSED)
{
	struct rig rig;

	rig_init(&rig);
	rig.conf.port_cnt = SPW_PORT_MAX + 1;
	open_refuses(&rig, -EINVAL, "9 ports: at most 8");
	rig_init(&rig);
	rig.conf.memory.slots = UINT32_MAX;
	rig.conf.memory.slot_bytes = (size_t)1 << 40;
	open_refuses(&rig, -ENOMEM, "do not fit an address space");
	rig_init(&rig);
	rig.conf.exec.batch_cnt = 3;
	open_refuses(&rig, -EINVAL, "");
	rig_init(&rig);
	rig.conf.pipe.burst = 0;
	open_refuses(&rig, -EINVAL, "burst 0");
}

static char last_log[SPW_ERR_TEXT_BYTES];

static void log_keep(enum spw_log_level level SPW_UNUSED, const char *line, void *arg SPW_UNUSED)
{
	if (strstr(line, "left out"))
		snprintf(last_log, sizeof(last_log), "%s", line);
}

/* What this machine cannot do is left out, unless it is the first. */
static void ways(void **state SPW_UNUSED)
{
	const struct spw_handler *handler;
	struct spw_handler no_gpu;
	struct rig rig;

	rig_init(&rig);
	rig.conf.exec.backend_cnt = 0;
	open_refuses(&rig, -EINVAL, "0 executors: use 1 .. 5");
	rig_init(&rig);
	rig.conf.exec.backend_cnt = SPW_PIPE_BACKEND_MAX + 1;
	open_refuses(&rig, -EINVAL, "6 executors: use 1 .. 5");
	rig_init(&rig);
	handler = rig.conf.exec.handler;
	no_gpu = *handler;
	no_gpu.cuda = NULL;
	rig.conf.exec.handler = &no_gpu;
	rig.conf.exec.backend[1] = (struct spw_topo_exec){SPW_EXEC_CUDA_PERSISTENT, 1};
	rig.conf.exec.backend[2].kind = SPW_EXEC_INLINE;
	rig.conf.exec.backend_cnt = 3;
	spw_log_sink_set(log_keep, NULL);
	assert_int_equal(spw_topo_open(&rig.topo, &rig.conf), 0);
	spw_log_sink_set(NULL, NULL);
	assert_non_null(strstr(last_log, "executor cuda-persistent, 1 CTA is left out: "));
	assert_int_equal(rig.topo.backend_cnt, 2);
	assert_string_equal(rig.topo.backend[1].name, "inline");
	assert_int_equal(rig.topo.backend[1].ctas, 0);
	assert_int_equal(spw_topo_close(&rig.topo), 0);
	rig.conf.exec.backend[0] = rig.conf.exec.backend[1];
	assert_int_equal(spw_topo_open(&rig.topo, &rig.conf), -ENOTSUP);
	assert_int_equal(spw_topo_close(&rig.topo), 0);
	spw_handler_close(handler);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(runs_and_balances),
		cmocka_unit_test(view_collects_every_lane),
		cmocka_unit_test(lanes_share_a_region),
		cmocka_unit_test(bad_lanes),
		cmocka_unit_test(bad_parts),
		cmocka_unit_test(ways),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
