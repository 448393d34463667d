/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * From the checked configuration to a topology (lib/topo): which lcore runs which queue, and what
 * the user's arguments mean for ports, memory, executor and pipes. Called once by main, after EAL
 * has started. Lane i of the topology, lcore[i] and executor ring i belong together.
 *
 *   lcores ─ ports, memory, pipes ─ handlers, executor ─ trail, record ─ spw_topo_open ─ slo ─
 * litmus ─ capture
 *
 * The order matters: AUTO counts the lcores that are left, the pipes take trail and recorder when
 * they open, and the litmus sends frames that no capture should have. What fails half-way is
 * closed by app_topology_close.
 */
#include <errno.h>

#include <rte_lcore.h>

#include "app.h"
#include "base/spw_err.h"

/* ---- lcores ---- */

static bool topology_is_named(const struct spw_conf *conf, uint32_t core)
{
	for (uint32_t p = 0; p < conf->port_cnt; p++)
		for (uint32_t i = 0; i < conf->port[p].lcores.cnt; i++)
			if (conf->port[p].lcores.core[i] == core)
				return true;
	return false;
}

/* The next worker lcore that no port has named; RTE_MAX_LCORE when there is none left. */
static uint32_t topology_next_free(const struct app *app, uint32_t *at)
{
	while ((*at = rte_get_next_lcore(*at, 1, 0)) < RTE_MAX_LCORE)
		if (!topology_is_named(&app->conf, *at))
			return *at;
	return RTE_MAX_LCORE;
}

/* A port's own list comes before the free ones, queue by queue. */
static int topology_lcore_for(struct app *app, uint32_t p, uint32_t q, uint32_t *at)
{
	const struct spw_conf_port *cp = &app->conf.port[p];
	uint32_t id = cp->lcores.cnt ? cp->lcores.core[q] : topology_next_free(app, at);
	struct spw_topo_lane_conf *lane;

	if (id >= RTE_MAX_LCORE)
		return spw_err(EINVAL,
			       "%s: queue %u has no lcore: EAL has %u besides the main one, and "
			       "each queue "
			       "needs one; add lcores with -l or --lcores",
			       cp->spec_text, q, rte_lcore_count() - 1);
	if (id == rte_get_main_lcore())
		return spw_err(EINVAL,
			       "%s: lcore %u is EAL's main lcore, which runs the control loop; "
			       "name another, "
			       "or move it with --main-lcore",
			       cp->spec_text, id);
	if (app->topo_conf.lane_cnt == SPW_TOPO_LANE_MAX)
		return spw_err(EINVAL, "more than %u queues in all", SPW_TOPO_LANE_MAX);
	lane = &app->topo_conf.lane[app->topo_conf.lane_cnt++];
	lane->port = (uint16_t)p;
	lane->queue = (uint16_t)q;
	lane->lcore_id = id;
	lane->numa_node = (int)rte_lcore_to_socket_id(id);
	return 0;
}

/* Lcores that are left over are spare: the cpu executor may run on their cores. */
static int topology_lcores_assign(struct app *app)
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
			if ((rc = topology_lcore_for(app, p, q, &at)) < 0)
				return rc;
	/* Behind the last queue's lcore: what is left is spare. */
	while ((id = topology_next_free(app, &at)) < RTE_MAX_LCORE &&
	       app->spare_cnt < SPW_TOPO_LANE_MAX)
		app->spare_cpu[app->spare_cnt++] = (int)app_lcore_cpu(id);
	return 0;
}

/* ---- configuration ---- */

/* Specifications are referred to, not copied: conf outlives the topology. */
static void topology_conf_ports(struct app *app)
{
	struct spw_topo_conf *tc = &app->topo_conf;

	for (uint32_t p = 0; p < app->conf.port_cnt; p++) {
		const struct spw_conf_port *cp = &app->conf.port[p];

		tc->port[tc->port_cnt++] = (struct spw_topo_port_conf){
			.spec = &cp->spec,
			.queue_cnt = (uint16_t)cp->queues,
			.ring_size = cp->ring_size,
			.profile = cp->profile == SPW_CONF_LATENCY ? "latency" : "throughput",
			.objects = app->objects[p],
		};
	}
}

static void topology_conf_rest(struct app *app)
{
	struct spw_topo_conf *tc = &app->topo_conf;

	tc->tsc = app->tsc;
	tc->memory.kind = app->conf.memory.kind;
	tc->memory.objects = app->conf.memory.objects;
	tc->memory.slots = app->conf.memory.slots;
	tc->memory.slot_bytes = app->conf.memory.slot_bytes;
	tc->pipe.burst = (uint16_t)app->conf.run.burst;
	tc->pipe.record = app->conf.run.stamps;
	tc->pipe.nic_frames = app->conf.run.frame_stamps;
	tc->pipe.slow_ns = app->conf.run.slow_ns;
	tc->pipe.slow_object_ns = app->conf.run.slow_object_ns;
	tc->pipe.quota_fd = app->quota_fd;
	tc->pipe.frames_max = app->conf.run.frames;
	tc->pipe.receipts = app->conf.run.receipts[0] != '\0';
}

int app_topology_open(struct app *app)
{
	int rc;

	if ((rc = topology_lcores_assign(app)) < 0)
		return rc;
	topology_conf_ports(app);
	topology_conf_rest(app);
	if ((rc = app_handlers_open(app)) < 0 || (rc = app_executor_choose(app)) < 0 ||
	    (rc = app_receipts_open(app)) < 0 || (rc = app_trail_open(app)) < 0 ||
	    (rc = app_record_open(app)) < 0)
		return rc;
	rc = spw_topo_open(&app->topo, &app->topo_conf);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < app->topo.lane_cnt; i++)
		app->lcore[i] = (struct app_lcore){.lane = app->topo.lane[i], .stop = &app->stop};
	if ((rc = app_slo_open(app)) < 0)
		return rc;
	rc = app_litmus_run(app);
	return rc ? rc : app_capture_open(app);
}

/* The capture first, which stands before every queue. A part that was not opened is zero, and
 * closing it does nothing. */
void app_topology_close(struct app *app)
{
	spw_capture_close(app->capture);
	spw_topo_close(&app->topo);
	app_slo_close(app);
	app_trail_close(app);
	app_record_close(app);
	app_handlers_close(app);
	app_objects_close(app);
}
