/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * From the checked configuration to running parts: which lcore runs which queue, then ports, memory, executor, pipes.
 */
#include <errno.h>
#include <numa.h>
#include <stdlib.h>
#include <string.h>

#include <rte_lcore.h>

#include "app.h"
#include "base/spw_err.h"
#include "base/spw_log.h"

/* ---- lcores ---------------------------------------------------------------------------------------- */

static struct app_lcore *lcore_new(uint32_t lcore_id)
{
	int node = (int)rte_lcore_to_socket_id(lcore_id);
	struct app_lcore *lc;

	lc = numa_available() < 0 ? numa_alloc(sizeof(*lc)) : numa_alloc_onnode(sizeof(*lc), node);
	if (!lc)
		return NULL;
	memset(lc, 0, sizeof(*lc));
	lc->lcore_id = lcore_id;
	lc->numa_node = node;
	return lc;
}

static bool is_named(const struct spw_conf *conf, uint32_t core)
{
	for (uint32_t p = 0; p < conf->port_cnt; p++)
		for (uint32_t i = 0; i < conf->port[p].lcores.cnt; i++)
			if (conf->port[p].lcores.core[i] == core)
				return true;
	return false;
}

/* The next worker lcore that no port has named; RTE_MAX_LCORE when there is none left. */
static uint32_t next_free(const struct app *app, uint32_t *at)
{
	while ((*at = rte_get_next_lcore(*at, 1, 0)) < RTE_MAX_LCORE)
		if (!is_named(&app->conf, *at))
			return *at;
	return RTE_MAX_LCORE;
}

static int lcore_for(struct app *app, uint32_t p, uint32_t q, uint32_t *at)
{
	const struct spw_conf_port *cp = &app->conf.port[p];
	uint32_t id = cp->lcores.cnt ? cp->lcores.core[q] : next_free(app, at);
	struct app_lcore *lc;

	if (id >= RTE_MAX_LCORE)
		return spw_err(EINVAL, "%s: queue %u finds no lcore: EAL has %u besides the main one, each queue needs its own; "
			       "give more with -l or --lcores", cp->spec_text, q, rte_lcore_count() - 1);
	if (id == rte_get_main_lcore())
		return spw_err(EINVAL, "%s: lcore %u is EAL's main lcore, which controls; name another, or move it with "
			       "--main-lcore", cp->spec_text, id);
	if (app->lcore_cnt == APP_LCORE_MAX)
		return spw_err(EINVAL, "more than %u queues in all", APP_LCORE_MAX);
	lc = lcore_new(id);
	if (!lc)
		return spw_err(ENOMEM, "no memory for lcore %u", id);
	lc->port = (uint16_t)p;
	lc->queue = (uint16_t)q;
	lc->stop = &app->stop;
	app->lcore[app->lcore_cnt++] = lc;
	return 0;
}

static int lcores_assign(struct app *app)
{
	bool is_lcore[RTE_MAX_LCORE];
	uint32_t at = -1u, id;
	int rc;

	for (id = 0; id < RTE_MAX_LCORE; id++)
		is_lcore[id] = rte_lcore_is_enabled(id);
	if ((rc = spw_conf_check_lcores(&app->conf, is_lcore, RTE_MAX_LCORE)) < 0)
		return rc;
	for (uint32_t p = 0; p < app->conf.port_cnt; p++)
		for (uint32_t q = 0; q < app->conf.port[p].queues; q++)
			if ((rc = lcore_for(app, p, q, &at)) < 0)
				return rc;
	while ((id = next_free(app, &at)) < RTE_MAX_LCORE && app->spare_cnt < APP_LCORE_MAX)
		app->spare_cpu[app->spare_cnt++] = (int)app_lcore_cpu(id);
	return 0;
}

/* ---- ports ----------------------------------------------------------------------------------------- */

static int ports_open(struct app *app)
{
	for (uint32_t p = 0; p < app->conf.port_cnt; p++) {
		const struct spw_conf_port *cp = &app->conf.port[p];
		int rc = spw_port_open(&cp->spec, (uint16_t)p, (uint16_t)cp->queues, &app->port[p]);

		if (rc < 0)
			return rc;
		app->port_cnt++;
	}
	return 0;
}

static int queues_open(struct app *app)
{
	int rc;

	for (uint32_t p = 0; p < app->port_cnt; p++)
		for (uint32_t r = 0; r < app->region_cnt; r++)
			if ((rc = spw_port_region_attach(app->port[p], &app->region[r])) < 0)
				return rc;
	for (uint32_t i = 0; i < app->lcore_cnt; i++) {
		struct app_lcore *lc = app->lcore[i];
		const struct spw_conf_port *cp = &app->conf.port[lc->port];
		struct spw_port_queue_conf qc = {
			.pool = &lc->pool, .ring_size = cp->ring_size, .numa_node = lc->numa_node,
			.profile = cp->profile == SPW_CONF_LATENCY ? "latency" : "throughput",
		};

		if ((rc = spw_port_queue_setup(app->port[lc->port], lc->queue, &qc)) < 0)
			return rc;
	}
	return 0;
}

/* ---- pipes ----------------------------------------------------------------------------------------- */

#define DRAIN_NS 2000000000ull /* an executor that has not finished its batches after two seconds is abandoned */

#define SLOW_WAIT_NS 1000000ull /* a pause is told of when it is over and its teller runs again */

#define CPU_STAMP_NS 250         /* a thread may read the counter before the cache line that told it to has come */

static enum spw_cause_exec exec_way(enum spw_exec_kind kind)
{
	switch (kind) {
	case SPW_EXEC_INLINE:
		return SPW_CAUSE_EXEC_INLINE;
	case SPW_EXEC_CUDA_PERSISTENT:
		return SPW_CAUSE_EXEC_GPU;
	case SPW_EXEC_CUDA_GRAPH:
	case SPW_EXEC_CUDA_LAUNCH:
		return SPW_CAUSE_EXEC_LAUNCHED;
	default:
		return SPW_CAUSE_EXEC_POLLS;
	}
}

static int pipes_open(struct app *app)
{
	for (uint32_t i = 0; i < app->lcore_cnt; i++) {
		struct app_lcore *lc = app->lcore[i];
		struct spw_port *port = app->port[lc->port];
		struct spw_pipe_conf pc = {
			.queue = &port->queue[lc->queue],
			.ring = spw_exec_ring(app->exec, (uint16_t)i),
			.pool = &lc->pool,
			.exec = app->exec,
			.exec_ring = (uint16_t)i,
			.burst = (uint16_t)app->conf.run.burst,
			.can_tx = port->caps.can_tx,
			.record = app->conf.run.stamps,
			.exec_has_clock = app->exec_kind >= SPW_EXEC_CUDA_PERSISTENT,
			.exec_clock = &app->exec_clock.box,
			.nic_stamps = app->nic_clock[lc->port].on,
			.nic_frames = app->conf.run.frame_stamps,
			.nic_clock = &app->nic_clock[lc->port].box,
			.slow_tsc = spw_tsc_from_ns(&app->tsc, app->conf.run.slow_ns),
			.slow_wait_tsc = spw_tsc_from_ns(&app->tsc, SLOW_WAIT_NS),
			.exec_unc_tsc = app->exec_kind == SPW_EXEC_CPU ? spw_tsc_from_ns(&app->tsc, CPU_STAMP_NS) : 0,
			.exec_way = exec_way(app->exec_kind),
			.lcore = (uint16_t)lc->lcore_id,
			.queue_idx = lc->queue,
			.frames_max = app->conf.run.frames,
			.drain_tsc = spw_tsc_from_ns(&app->tsc, DRAIN_NS),
			.seed = i + 1,
		};
		int rc = spw_pipe_init(&lc->pipe, &pc);

		if (rc < 0)
			return rc;
	}
	return 0;
}

int app_topology_open(struct app *app)
{
	int rc;

	if ((rc = lcores_assign(app)) < 0 || (rc = app_executor_choose(app)) < 0 || (rc = ports_open(app)) < 0 ||
	    (rc = app_memory_open(app)) < 0 || (rc = queues_open(app)) < 0 ||
	    (rc = app_executor_open(app)) < 0 || (rc = app_clocks_open(app)) < 0 || (rc = app_capture_open(app)) < 0)
		return rc;
	return pipes_open(app);
}

void app_topology_close(struct app *app)
{
	spw_exec_close(app->exec);
	app_capture_close(app);
	for (uint32_t p = 0; p < app->port_cnt; p++)
		spw_port_close(app->port[p]);
	for (uint32_t i = 0; i < app->lcore_cnt; i++) {
		spw_pool_fini(&app->lcore[i]->pool);
		numa_free(app->lcore[i], sizeof(*app->lcore[i]));
	}
	for (uint32_t r = 0; r < app->region_cnt; r++)
		spw_region_free(&app->region[r]);
	spw_handler_close(app->handler);
}
