/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Builds a topology, starts it, serves its executor, stops it and frees it; spw_topo.h says in
 * which order and why. The programs, the benches and the tests call it, and run the pipes of its
 * lanes themselves.
 *
 * Before changing the order in spw_topo_stop: a slot is in exactly one place (port, pipe, executor
 * ring, pool). A part may be stopped only when the parts that still hand slots to it have been
 * stopped before.
 */
#include <errno.h>
#include <numa.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "topo.h"

#define DRAIN_NS \
	2000000000ull /* an executor that has not finished its batches after this is abandoned */
#define SLOW_WAIT_NS 1000000ull /* the executor reports a pause only after it ends */

/* How early a CPU executor may stamp: its thread may read the counter before the cache line that
 * carries the batch has arrived. */
#define CPU_STAMP_NS 250u

/* ---- ports and lanes ---- */

/* Tables, logs and telemetry name a port by its name alone; two ports of one device, or of the null
 * driver, have the same. The later one gets its number: null, null#1. */
static void port_name_distinct(struct spw_topo *topo, uint32_t p)
{
	char *name = topo->port[p]->name, number[12];

	for (uint32_t earlier = 0; earlier < p; earlier++) {
		if (strcmp(topo->port[earlier]->name, name))
			continue;
		snprintf(number, sizeof(number), "#%u", p);
		name[sizeof(topo->port[p]->name) - sizeof(number)] = '\0';
		strcat(name, number);
		return;
	}
}

static int ports_open(struct spw_topo *topo)
{
	if (topo->conf.port_cnt > SPW_PORT_MAX)
		return spw_err(EINVAL, "%u ports: at most %d", topo->conf.port_cnt, SPW_PORT_MAX);
	for (uint32_t p = 0; p < topo->conf.port_cnt; p++) {
		const struct spw_topo_port_conf *pc = &topo->conf.port[p];
		int rc = 0;

		topo->port[p] = pc->open;
		if (!pc->open)
			rc = spw_port_open(pc->spec, (uint16_t)p, pc->queue_cnt, &topo->port[p]);
		if (rc < 0)
			return rc;
		port_name_distinct(topo, p);
		topo->port_cnt++;
	}
	return 0;
}

static struct spw_topo_lane *lane_new(const struct spw_topo_lane_conf *conf)
{
	struct spw_topo_lane *lane;

	lane = numa_available() < 0 || conf->numa_node < 0
		       ? numa_alloc(sizeof(*lane))
		       : numa_alloc_onnode(sizeof(*lane), conf->numa_node);
	if (!lane)
		return NULL;
	memset(lane, 0, sizeof(*lane));
	lane->conf = *conf;
	return lane;
}

static int lanes_open(struct spw_topo *topo)
{
	if (topo->conf.lane_cnt < 1 || topo->conf.lane_cnt > SPW_TOPO_LANE_MAX)
		return spw_err(EINVAL, "%u queues in all: use 1 .. %u", topo->conf.lane_cnt,
			       SPW_TOPO_LANE_MAX);
	for (uint32_t i = 0; i < topo->conf.lane_cnt; i++) {
		const struct spw_topo_lane_conf *lc = &topo->conf.lane[i];

		if (lc->port >= topo->port_cnt || lc->queue >= topo->conf.port[lc->port].queue_cnt)
			return spw_err(EINVAL, "lane %u: port %u has no queue %u", i, lc->port,
				       lc->queue);
		topo->lane[i] = lane_new(lc);
		if (!topo->lane[i])
			return spw_err(ENOMEM, "no memory for lcore %u", lc->lcore_id);
		topo->lane[i]->port = topo->port[lc->port];
		topo->lane_cnt++;
	}
	return 0;
}

static int queues_open(struct spw_topo *topo)
{
	int rc;

	for (uint32_t p = 0; p < topo->port_cnt; p++)
		for (uint32_t r = 0; r < topo->region_cnt; r++)
			if ((rc = spw_port_region_attach(topo->port[p], &topo->region[r])) < 0)
				return rc;
	for (uint32_t i = 0; i < topo->lane_cnt; i++) {
		struct spw_topo_lane *lane = topo->lane[i];
		const struct spw_topo_port_conf *pc = &topo->conf.port[lane->conf.port];
		struct spw_port_queue_conf qc = {
			.pool = &lane->pool,
			.ring_size = pc->ring_size,
			.numa_node = lane->conf.numa_node,
			.profile = pc->profile,
		};

		if ((rc = spw_port_queue_setup(lane->port, lane->conf.queue, &qc)) < 0)
			return rc;
	}
	return 0;
}

/* ---- executor and pipes ---- */

static int executor_open(struct spw_topo *topo)
{
	struct spw_exec_conf ec = {
		.kind = topo->conf.exec.kind,
		.handler = topo->conf.exec.handler,
		.ring_cnt = (uint16_t)topo->lane_cnt,
		.batch_cnt = topo->conf.exec.batch_cnt,
		.region = topo->region,
		.region_cnt = (uint16_t)topo->region_cnt,
		.cpu = topo->conf.exec.cpu,
		.cta_per_ring = topo->conf.exec.cta_per_ring,
		.beat_timeout_ms = topo->conf.exec.beat_timeout_ms,
		.life_ms = topo->conf.exec.life_ms,
		.numa_node = topo->lane[0]->conf.numa_node,
	};

	return spw_exec_open(&ec, &topo->exec);
}

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

static uint64_t ticks_or(const struct spw_topo *topo, uint64_t ns, uint64_t default_ns)
{
	return spw_tsc_from_ns(&topo->conf.tsc, ns ? ns : default_ns);
}

static int pipe_open(struct spw_topo *topo, uint32_t i)
{
	struct spw_topo_lane *lane = topo->lane[i];
	struct spw_topo_clock *nic = &topo->nic_clock[lane->conf.port];
	const bool cpu = topo->conf.exec.kind == SPW_EXEC_CPU;
	struct spw_pipe_conf pc = {
		.queue = &lane->port->queue[lane->conf.queue],
		.ring = spw_exec_ring(topo->exec, (uint16_t)i),
		.pool = &lane->pool,
		.exec = topo->exec,
		.exec_ring = (uint16_t)i,
		.burst = topo->conf.pipe.burst,
		.can_tx = lane->port->caps.can_tx,
		.record = topo->conf.pipe.record,
		.exec_has_clock = topo_exec_is_gpu(topo),
		.exec_clock = &topo->exec_clock.box,
		.nic_stamps = nic->on,
		.nic_frames = topo->conf.pipe.nic_frames,
		.nic_clock = &nic->box,
		.slow_tsc = spw_tsc_from_ns(&topo->conf.tsc, topo->conf.pipe.slow_ns),
		.slow_wait_tsc = ticks_or(topo, topo->conf.pipe.slow_wait_ns, SLOW_WAIT_NS),
		.trail = topo->conf.pipe.trail ? &topo->conf.pipe.trail[i] : NULL,
		.exec_unc_tsc = cpu ? spw_tsc_from_ns(&topo->conf.tsc, CPU_STAMP_NS) : 0,
		.exec_way = exec_way(topo->conf.exec.kind),
		.lcore = (uint16_t)lane->conf.lcore_id,
		.queue_idx = lane->conf.queue,
		.frames_max = topo->conf.pipe.frames_max,
		.drain_tsc = ticks_or(topo, topo->conf.pipe.drain_ns, DRAIN_NS),
		.seed = i + 1,
	};

	return spw_pipe_init(&lane->pipe, &pc);
}

static int build(struct spw_topo *topo)
{
	int rc;

	if ((rc = ports_open(topo)) < 0 || (rc = lanes_open(topo)) < 0 ||
	    (rc = topo_memory_open(topo)) < 0 || (rc = queues_open(topo)) < 0 ||
	    (rc = executor_open(topo)) < 0 || (rc = topo_clocks_open(topo)) < 0)
		return rc;
	for (uint32_t i = 0; i < topo->lane_cnt; i++)
		if ((rc = pipe_open(topo, i)) < 0)
			return rc;
	return 0;
}

/* ---- life ---- */

int spw_topo_open(struct spw_topo *topo, const struct spw_topo_conf *conf)
{
	memset(topo, 0, sizeof(*topo));
	topo->conf = *conf;
	return build(topo);
}

int spw_topo_start(struct spw_topo *topo)
{
	int rc = spw_exec_start(topo->exec);

	for (uint32_t p = 0; rc == 0 && p < topo->port_cnt; p++)
		rc = spw_port_start(topo->port[p]);
	if (rc < 0)
		spw_exec_stop(topo->exec, TOPO_EXEC_STOP_MS);
	return rc;
}

int spw_topo_service(struct spw_topo *topo)
{
	uint64_t before = spw_tsc_now(), known = topo->relaunched;
	struct spw_exec_stat stat;
	int rc = spw_exec_service(topo->exec);

	if (topo->conf.exec.kind != SPW_EXEC_CUDA_PERSISTENT)
		return rc;
	spw_exec_stat(topo->exec, &stat);
	topo->relaunched = stat.relaunched;
	for (uint32_t i = 0; stat.relaunched != known && i < topo->lane_cnt; i++)
		spw_pipe_relaunched(&topo->lane[i]->pipe, before, spw_tsc_now());
	return rc;
}

static int ports_stop(struct spw_topo *topo)
{
	int rc, first = 0;

	for (uint32_t p = 0; p < topo->port_cnt; p++) {
		rc = spw_port_stop(topo->port[p]);
		if (rc < 0)
			spw_warn("port %s: %s", topo->port[p]->name, spw_err_text());
		first = first ? first : rc;
	}
	return first;
}

int spw_topo_stop(struct spw_topo *topo, uint32_t exec_timeout_ms, struct spw_topo_end *end_out)
{
	struct spw_exec_stat stat;
	int rc;

	memset(end_out, 0, sizeof(*end_out));
	end_out->exec_rc = spw_exec_stop(topo->exec, exec_timeout_ms);
	if (end_out->exec_rc < 0)
		spw_warn("executor: %s", spw_err_text());
	spw_exec_stat(topo->exec, &stat);
	end_out->exec_faults = stat.faults;
	for (uint32_t i = 0; i < topo->lane_cnt; i++)
		end_out->lost_frames += spw_pipe_reclaim(&topo->lane[i]->pipe);
	rc = ports_stop(topo);
	return end_out->exec_rc < 0 ? end_out->exec_rc : rc;
}

uint32_t spw_topo_close(struct spw_topo *topo)
{
	uint32_t leaked = 0;

	spw_exec_close(topo->exec);
	for (uint32_t p = 0; p < topo->port_cnt; p++)
		if (!topo->conf.port[p].open)
			spw_port_close(topo->port[p]);
	for (uint32_t i = 0; i < topo->lane_cnt; i++) {
		leaked += spw_pool_fini(&topo->lane[i]->pool);
		numa_free(topo->lane[i], sizeof(*topo->lane[i]));
	}
	for (uint32_t r = 0; r < topo->region_cnt; r++)
		spw_region_free(&topo->region[r]);
	memset(topo, 0, sizeof(*topo));
	return leaked;
}
