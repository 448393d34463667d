/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include "inject_rig.h"

#include <stdlib.h>

#include "exec/spw_handler.h"

#define NOMINAL_PPB 1000000u
#define WANDER_PPB  100u

static bool is_gpu(const struct rig_conf *conf)
{
	return conf->exec == SPW_EXEC_CUDA_PERSISTENT;
}

static void pair_clock(struct rig *rig)
{
	struct spw_clock_pair pair;
	uint64_t unc_ns;

	assert_int_equal(spw_exec_pair_clock(rig->exec, &pair.other, &pair.ref, &unc_ns), 0);
	pair.unc = spw_tsc_from_ns(&rig->tsc, unc_ns);
	if (spw_clock_fit_add(&rig->fit, &pair))
		spw_clock_box_put(&rig->box, &rig->fit.map);
}

static bool exec_open(struct rig *rig, const struct rig_conf *conf)
{
	struct spw_exec_conf ec = {.kind = conf->exec,
				   .ring_cnt = 1,
				   .region = &rig->region,
				   .region_cnt = 1,
				   .numa_node = -1,
				   .life_ms = is_gpu(conf) ? RIG_LIFE_MS : 0};

	rig->own = conf->own;
	rig->handler = conf->own;
	if (conf->handler)
		assert_int_equal(spw_handler_open(conf->handler, &rig->handler), 0);
	ec.handler = rig->handler;
	assert_int_equal(spw_exec_open(&ec, &rig->exec), 0);
	assert_int_equal(spw_exec_start(rig->exec), 0);
	if (!is_gpu(conf))
		return true;
	assert_int_equal(spw_clock_fit_init(&rig->fit, spw_exec_clock_hz(rig->exec), rig->tsc.hz,
					    NOMINAL_PPB, WANDER_PPB),
			 0);
	for (int i = 0; i < 8; i++)
		pair_clock(rig);
	return true;
}

static void port_open(struct rig *rig, const struct rig_conf *conf)
{
	struct spw_port_queue_conf qc = {
		.pool = &rig->pool, .ring_size = 4096, .numa_node = -1, .profile = "latency"};
	struct spw_port_spec spec;

	assert_int_equal(spw_port_spec_parse(conf->port, &spec), 0);
	assert_int_equal(spw_port_open(&spec, 0, 1, &rig->port), 0);
	assert_int_equal(spw_pool_init(&rig->pool, &rig->region, 0, 2048, RIG_SLOTS), 0);
	assert_int_equal(spw_port_region_attach(rig->port, &rig->region), 0);
	assert_int_equal(spw_port_queue_setup(rig->port, 0, &qc), 0);
}

static void pipe_open(struct rig *rig, const struct rig_conf *conf)
{
	struct spw_pipe_conf pc = {.queue = &rig->port->queue[0],
				   .ring = spw_exec_ring(rig->exec, 0),
				   .exec = rig->exec,
				   .pool = &rig->pool,
				   .burst = SPW_BURST_MAX,
				   .record = true,
				   .can_tx = true,
				   .nic_stamps = true,
				   .exec_unc_tsc = 1000,
				   .drain_tsc = 4 * rig->tsc.hz,
				   .slow_wait_tsc = spw_tsc_from_ns(&rig->tsc, 2000000),
				   .slow_tsc = spw_tsc_from_ns(&rig->tsc, RIG_SLOW_NS),
				   .exec_way = is_gpu(conf) ? SPW_CAUSE_EXEC_GPU
					       : conf->exec == SPW_EXEC_INLINE
						       ? SPW_CAUSE_EXEC_INLINE
						       : SPW_CAUSE_EXEC_POLLS,
				   .exec_has_clock = is_gpu(conf),
				   .exec_clock = is_gpu(conf) ? &rig->box : NULL};

	rig->pipe = aligned_alloc(128, SPW_ALIGN_UP(sizeof(*rig->pipe), 128ul));
	assert_non_null(rig->pipe);
	assert_int_equal(spw_pipe_init(rig->pipe, &pc), 0);
}

bool rig_open(struct rig *rig, const struct rig_conf *conf)
{
	struct spw_mem_req req = {.kind = is_gpu(conf) ? SPW_MEM_CUDA_HOST : SPW_MEM_HOST,
				  .bytes = RIG_SLOTS * 2048,
				  .numa_node = -1};
	int rc;

	memset(rig, 0, sizeof(*rig));
	assert_int_equal(spw_tsc_calibrate(10, &rig->tsc), 0);
	rc = spw_region_alloc(&req, &rig->region);
	if (rc && is_gpu(conf)) {
		print_message("  %s\n", spw_err_text());
		return false;
	}
	assert_int_equal(rc, 0);
	port_open(rig, conf);
	exec_open(rig, conf);
	pipe_open(rig, conf);
	spw_rec_begin(&rig->pipe->rec);
	assert_int_equal(spw_port_start(rig->port), 0);
	return true;
}

void rig_close(struct rig *rig)
{
	const uint32_t stop = 1;

	if (rig->fit.cnt)
		rig_serve(rig); /* a kernel that has left would not finish */
	spw_pipe_run(rig->pipe, &stop);
	assert_int_equal(spw_exec_stop(rig->exec, 2000), 0);
	spw_pipe_reclaim(rig->pipe);
	assert_int_equal(spw_port_stop(rig->port), 0);
	assert_int_equal(rig->pool.free_cnt, RIG_SLOTS);
	spw_exec_close(rig->exec);
	spw_port_close(rig->port);
	assert_int_equal(spw_pool_fini(&rig->pool), 0);
	spw_region_free(&rig->region);
	if (rig->handler != rig->own)
		spw_handler_close(rig->handler);
	free(rig->pipe);
}

void rig_serve(struct rig *rig)
{
	uint64_t before = spw_tsc_now();
	struct spw_exec_stat stat;

	rig->served_tsc = before;
	assert_int_equal(spw_exec_service(rig->exec), 0);
	spw_exec_stat(rig->exec, &stat);
	if (stat.relaunched != rig->relaunched)
		spw_pipe_relaunched(rig->pipe, before, spw_tsc_now());
	rig->relaunched = stat.relaunched;
	if (rig->fit.other_hz)
		pair_clock(rig);
}
