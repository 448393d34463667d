/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include "inject_rig.h"

#include "exec/spw_handler.h"

static bool is_gpu(const struct rig_conf *conf)
{
	return conf->exec == SPW_EXEC_CUDA_PERSISTENT;
}

bool rig_open(struct rig *rig, const struct rig_conf *conf)
{
	struct spw_topo_conf tc = {
		.port[0] = {.spec = &rig->spec,
			    .queue_cnt = 1,
			    .ring_size = 4096,
			    .profile = "latency"},
		.port_cnt = 1,
		.lane[0] = {.numa_node = -1},
		.lane_cnt = 1,
		.memory = {.kind = is_gpu(conf) ? SPW_MEM_CUDA_HOST : SPW_MEM_HOST,
			   .slots = RIG_SLOTS,
			   .slot_bytes = 2048},
		.exec = {.backend[0].kind = conf->exec,
			 .backend_cnt = 1,
			 .life_ms = is_gpu(conf) ? RIG_LIFE_MS : 0},
		.pipe = {.burst = SPW_BURST_MAX,
			 .record = true,
			 .slow_ns = RIG_SLOW_NS,
			 .slow_wait_ns = 2000000,
			 .drain_ns = 4000000000},
	};
	int rc;

	memset(rig, 0, sizeof(*rig));
	rig->own = rig->handler = conf->own;
	if (conf->handler)
		assert_int_equal(spw_handler_open(conf->handler, &rig->handler), 0);
	tc.exec.handler = rig->handler;
	assert_int_equal(spw_tsc_calibrate(10, &rig->tsc), 0);
	tc.tsc = rig->tsc;
	assert_int_equal(spw_port_spec_parse(conf->port, &rig->spec), 0);
	rc = spw_topo_open(&rig->topo, &tc);
	if (rc && is_gpu(conf)) {
		print_message("  %s\n", spw_err_text());
		spw_topo_close(&rig->topo);
		return false;
	}
	assert_int_equal(rc, 0);
	rig->pipe = &rig->topo.lane[0]->pipe;
	rig->port = rig->topo.port[0];
	assert_int_equal(spw_topo_start(&rig->topo), 0);
	spw_pipe_begin(rig->pipe);
	return true;
}

void rig_close(struct rig *rig)
{
	struct spw_topo_end end;

	rig_serve(rig); /* a kernel that has left would not finish */
	spw_pipe_end(rig->pipe);
	assert_int_equal(spw_topo_stop(&rig->topo, 2000, &end), 0);
	assert_int_equal(end.lost_frames, 0);
	assert_int_equal(spw_topo_close(&rig->topo), 0);
	if (rig->handler != rig->own)
		spw_handler_close(rig->handler);
}

void rig_serve(struct rig *rig)
{
	rig->served_tsc = spw_tsc_now();
	assert_int_equal(spw_topo_service(&rig->topo), 0);
	spw_topo_clocks_pair(&rig->topo);
}
