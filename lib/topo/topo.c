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
#include "port/spw_port_raw.h"
#include "port/spw_port.h"
#include "topo.h"

#define DRAIN_NS \
	2000000000ull /* an executor that has not finished its batches after this is abandoned */
#define SLOW_WAIT_NS 1000000ull /* the executor reports a pause only after it ends */
#define REST_MS      200u /* an executor without work ends in far less, unless it gets no core */

/* How early a CPU executor may stamp: its thread may read the counter before the cache line that
 * carries the batch has arrived. */
#define CPU_STAMP_NS 250u

/* ---- ports and lanes ---- */

/* Tables, logs and telemetry name a port by its name alone; two ports of one device, or of the null
 * driver, have the same. The later one gets its number: null, null#1. */
static void topo_port_name_distinct(struct spw_topo *topo, uint32_t p)
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

static int topo_ports_open(struct spw_topo *topo)
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
		topo_port_name_distinct(topo, p);
		topo->port_cnt++;
	}
	return 0;
}

/* On the lane's node: its lcore reads and writes the struct in every turn. */
static struct spw_topo_lane *topo_lane_new(const struct spw_topo_lane_conf *conf)
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

/* Lanes refer to ports by index; the caller has chosen their lcores. */
static int topo_lanes_open(struct spw_topo *topo)
{
	if (topo->conf.lane_cnt < 1 || topo->conf.lane_cnt > SPW_TOPO_LANE_MAX)
		return spw_err(EINVAL, "%u queues in all: use 1 .. %u", topo->conf.lane_cnt,
			       SPW_TOPO_LANE_MAX);
	for (uint32_t i = 0; i < topo->conf.lane_cnt; i++) {
		const struct spw_topo_lane_conf *lc = &topo->conf.lane[i];

		if (lc->port >= topo->port_cnt || lc->queue >= topo->conf.port[lc->port].queue_cnt)
			return spw_err(EINVAL, "lane %u: port %u has no queue %u", i, lc->port,
				       lc->queue);
		topo->lane[i] = topo_lane_new(lc);
		if (!topo->lane[i])
			return spw_err(ENOMEM, "no memory for lcore %u", lc->lcore_id);
		topo->lane[i]->port = topo->port[lc->port];
		topo->lane_cnt++;
	}
	return 0;
}

/* A recording has the raw completions of drivers that keep them. */
static int topo_raw_keep(const struct spw_topo *topo, const struct spw_topo_lane *lane)
{
	int rc = topo->conf.pipe.flight_raw ? spw_port_raw_keep(lane->port, lane->conf.queue) : 0;

	return rc == -ENOTSUP ? 0 : rc;
}

/* A trail has the send completions of drivers that keep them. */
static int topo_sent_keep(const struct spw_topo *topo, struct spw_topo_lane *lane)
{
	int rc = topo->conf.pipe.trail
			 ? spw_port_sent_keep(lane->port, lane->conf.queue, &lane->sent)
			 : 0;

	return rc == -ENOTSUP ? 0 : rc;
}

/* Every region is attached to every port: lanes of one node share a region, whatever their port. */
static int topo_queues_open(struct spw_topo *topo)
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

		if ((rc = spw_port_queue_setup(lane->port, lane->conf.queue, &qc)) < 0 ||
		    (rc = topo_raw_keep(topo, lane)) < 0 || (rc = topo_sent_keep(topo, lane)) < 0)
			return rc;
	}
	return 0;
}

/* ---- executor and pipes ---- */

static void topo_backend_name(struct spw_topo_backend *backend)
{
	const char *kind = spw_exec_kind_name(backend->kind);

	if (backend->ctas)
		snprintf(backend->name, sizeof(backend->name), "%s, %u CTA%s", kind, backend->ctas,
			 backend->ctas == 1 ? "" : "s");
	else
		snprintf(backend->name, sizeof(backend->name), "%s", kind);
}

/* CTAs of the resident kernels that were opened before. */
static uint32_t topo_ctas_beside(const struct spw_topo *topo,
				 const struct spw_topo_backend *backend)
{
	uint32_t ctas = 0;

	for (const struct spw_topo_backend *other = topo->backend; other < backend; other++)
		if (other->kind == SPW_EXEC_CUDA_PERSISTENT)
			ctas += other->ctas * topo->lane_cnt;
	return ctas;
}

/* How many CTAs it has is known once it is open. */
static int topo_executor_open(struct spw_topo *topo, struct spw_topo_backend *backend)
{
	struct spw_exec_conf ec = {
		.kind = backend->kind,
		.ring_handler = topo->handler,
		.ring_cnt = (uint16_t)topo->lane_cnt,
		.batch_cnt = topo->conf.exec.batch_cnt,
		.region = topo->region,
		.region_cnt = (uint16_t)topo->region_cnt,
		.cpu = topo->conf.exec.cpu,
		.cta_per_ring = (uint16_t)backend->ctas,
		.cta_beside = topo_ctas_beside(topo, backend),
		.beat_timeout_ms = topo->conf.exec.beat_timeout_ms,
		.life_ms = topo->conf.exec.life_ms,
		.numa_node = topo->lane[0]->conf.numa_node,
	};

	int rc = spw_exec_open(&ec, &backend->exec);

	if (rc == 0 && topo_backend_is_gpu(backend))
		backend->ctas = spw_exec_ring(backend->exec, 0)->unit_cnt;
	topo_backend_name(backend);
	return rc;
}

/* The first backend must open; others are for --slo, which can do without one. */
static int topo_executors_open(struct spw_topo *topo)
{
	const uint32_t cnt = topo->conf.exec.backend_cnt;
	int rc = 0;

	if (cnt < 1 || cnt > SPW_PIPE_BACKEND_MAX)
		return spw_err(EINVAL, "%u executors: use 1 .. %u", cnt, SPW_PIPE_BACKEND_MAX);
	for (uint32_t i = 0; i < topo->lane_cnt; i++)
		topo->handler[i] = topo->lane[i]->stream.obj ? &topo->lane[i]->stream.handler
							     : topo_lane_handler(topo, i);
	for (uint32_t w = 0; w < cnt && rc == 0; w++) {
		struct spw_topo_backend *backend = &topo->backend[topo->backend_cnt++];

		backend->kind = topo->conf.exec.backend[w].kind;
		backend->ctas = topo->conf.exec.backend[w].ctas;
		rc = topo_executor_open(topo, backend);
		if (rc < 0 && w > 0) { /* one of several: the run can do without it */
			spw_info("executor %s is left out: %s", backend->name, spw_err_text());
			topo->backend_cnt--;
			rc = 0;
		}
	}
	return rc;
}

/* What a cause can be known of depends on how the executor meets its work. */
static enum spw_cause_exec topo_exec_learns(enum spw_exec_kind kind)
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

static uint64_t topo_ticks_or(const struct spw_topo *topo, uint64_t ns, uint64_t default_ns)
{
	return spw_tsc_from_ns(&topo->conf.tsc, ns ? ns : default_ns);
}

/* Ring i of every backend belongs to lane i. */
static struct spw_pipe_backend topo_pipe_backend(struct spw_topo *topo, uint32_t w, uint32_t lane)
{
	struct spw_topo_backend *backend = &topo->backend[w];
	const bool cpu = backend->kind == SPW_EXEC_CPU;

	return (struct spw_pipe_backend){
		.ring = spw_exec_ring(backend->exec, (uint16_t)lane),
		.exec = backend->exec,
		.exec_ring = (uint16_t)lane,
		.learns = topo_exec_learns(backend->kind),
		.has_clock = topo_backend_is_gpu(backend),
		.clock = topo_backend_is_gpu(backend) ? &backend->clock.box : NULL,
		.unc_tsc = cpu ? spw_tsc_from_ns(&topo->conf.tsc, CPU_STAMP_NS) : 0,
	};
}

static int topo_pipe_open(struct spw_topo *topo, uint32_t i)
{
	struct spw_topo_lane *lane = topo->lane[i];
	struct spw_clock_feed *nic = &topo->nic_clock[lane->conf.port];
	struct spw_pipe_conf pc = {
		.queue = &lane->port->queue[lane->conf.queue],
		.pool = &lane->pool,
		.backend_cnt = topo->backend_cnt,
		.burst = topo->conf.pipe.burst,
		.can_tx = lane->port->caps.can_tx,
		.record = topo->conf.pipe.record,
		.nic_stamps = nic->on,
		.nic_frames = topo->conf.pipe.nic_frames,
		.nic_clock = &nic->box,
		.slow_tsc = spw_tsc_from_ns(&topo->conf.tsc, topo->conf.pipe.slow_ns),
		.slow_wait_tsc = topo_ticks_or(topo, topo->conf.pipe.slow_wait_ns, SLOW_WAIT_NS),
		.quota_fd = topo->conf.pipe.quota_fd,
		.trail = topo->conf.pipe.trail ? &topo->conf.pipe.trail[i] : NULL,
		.sent = lane->sent,
		.flight = topo->conf.pipe.flight ? &topo->conf.pipe.flight[i] : NULL,
		.objects = topo_pipe_objects(topo, lane),
		.lcore = (uint16_t)lane->conf.lcore_id,
		.queue_idx = lane->conf.queue,
		.frames_max = topo->conf.pipe.frames_max,
		.drain_tsc = topo_ticks_or(topo, topo->conf.pipe.drain_ns, DRAIN_NS),
		.seed = i + 1,
	};

	for (uint32_t w = 0; w < topo->backend_cnt; w++)
		pc.backend[w] = topo_pipe_backend(topo, w, i);
	return spw_pipe_init(&lane->pipe, &pc);
}

/* Each part needs those before it: ports say what memory must be, queues need pools, pipes need
 * all. */
static int topo_build(struct spw_topo *topo)
{
	int rc;

	if ((rc = topo_ports_open(topo)) < 0 || (rc = topo_lanes_open(topo)) < 0 ||
	    (rc = topo_memory_open(topo)) < 0 || (rc = topo_queues_open(topo)) < 0 ||
	    (rc = topo_objects_open(topo)) < 0 || (rc = topo_executors_open(topo)) < 0 ||
	    (rc = topo_clocks_open(topo)) < 0)
		return rc;
	for (uint32_t i = 0; i < topo->lane_cnt; i++)
		if ((rc = topo_pipe_open(topo, i)) < 0)
			return rc;
	return 0;
}

/* ---- open, start, stop, close ---- */

/* After an error the caller closes the topology: what was opened is counted. */
int spw_topo_open(struct spw_topo *topo, const struct spw_topo_conf *conf)
{
	memset(topo, 0, sizeof(*topo));
	topo->conf = *conf;
	return topo_build(topo);
}

/* Every backend is tried, and the first failure is returned. */
static int topo_executors_stop(struct spw_topo *topo, uint32_t timeout_ms)
{
	int rc, first = 0;

	for (uint32_t w = 0; w < topo->backend_cnt; w++) {
		rc = spw_exec_stop(topo->backend[w].exec, timeout_ms);
		if (rc < 0)
			spw_warn("executor: %s", spw_err_text());
		first = first ? first : rc;
	}
	return first;
}

/* Executors first, so that the first frame finds one. */
int spw_topo_start(struct spw_topo *topo)
{
	int rc = 0;

	for (uint32_t w = 0; rc == 0 && w < topo->backend_cnt; w++)
		rc = spw_exec_start(topo->backend[w].exec);
	for (uint32_t p = 0; rc == 0 && p < topo->port_cnt; p++)
		rc = spw_port_start(topo->port[p]);
	if (rc < 0)
		for (uint32_t w = 0; w < topo->backend_cnt; w++)
			spw_exec_stop(topo->backend[w].exec, TOPO_EXEC_STOP_MS);
	return rc;
}

/* A relaunch is reported to the pipes with the time it took: frames that waited for it have that
 * cause. */
static int topo_backend_service(struct spw_topo *topo, struct spw_topo_backend *backend)
{
	uint64_t before = spw_tsc_now(), known = backend->relaunched;
	struct spw_exec_stat stat;
	int rc = spw_exec_service(backend->exec);

	if (backend->kind != SPW_EXEC_CUDA_PERSISTENT)
		return rc;
	spw_exec_stat(backend->exec, &stat);
	backend->relaunched = stat.relaunched;
	for (uint32_t i = 0; stat.relaunched != known && i < topo->lane_cnt; i++)
		spw_pipe_relaunched(&topo->lane[i]->pipe, before, spw_tsc_now());
	return rc;
}

/* A backend that rests is not served: it would be started again. */
int spw_topo_service(struct spw_topo *topo)
{
	int rc = 0;

	for (uint32_t w = 0; rc == 0 && w < topo->backend_cnt; w++)
		rc = topo->backend[w].rests ? 0 : topo_backend_service(topo, &topo->backend[w]);
	return rc;
}

void spw_topo_ask(struct spw_topo *topo, uint32_t backend, uint16_t burst)
{
	for (uint32_t i = 0; i < topo->lane_cnt; i++)
		spw_pipe_ask(&topo->lane[i]->pipe, backend, burst);
}

/* Lanes change backends in their own turns, when they have nothing in flight. */
bool spw_topo_uses(const struct spw_topo *topo, uint32_t backend)
{
	uint16_t burst;

	for (uint32_t i = 0; i < topo->lane_cnt; i++)
		if (spw_pipe_backend(&topo->lane[i]->pipe, &burst) != backend)
			return false;
	return true;
}

void spw_topo_rest(struct spw_topo *topo, uint32_t backend)
{
	for (uint32_t w = 0; w < topo->backend_cnt; w++) {
		struct spw_topo_backend *other = &topo->backend[w];

		if (w == backend || other->rests)
			continue;
		other->rests = true;
		if (spw_exec_stop(other->exec, REST_MS) < 0)
			spw_warn("executor %s, which is not in use, does not rest yet: %s",
				 other->name, spw_err_text());
	}
}

/* Stops it first, in case that it had not ended when it was sent to rest. */
int spw_topo_wake(struct spw_topo *topo, uint32_t backend)
{
	struct spw_topo_backend *w = &topo->backend[backend];
	int rc;

	if (!w->rests)
		return 0;
	rc = spw_exec_stop(w->exec, REST_MS);
	rc = rc < 0 && rc != -ETIME ? rc : spw_exec_start(w->exec);
	if (rc < 0)
		return spw_err_ctx(rc, "executor %s", w->name);
	w->rests = false;
	return 0;
}

/* Stops every port, also after one has failed; the first error is returned. */
static int topo_ports_stop(struct spw_topo *topo)
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

/* Executors first, then the slots that they still had (reclaim), then the ports, which return
 * theirs. */
int spw_topo_stop(struct spw_topo *topo, uint32_t exec_timeout_ms, struct spw_topo_end *end_out)
{
	struct spw_exec_stat stat;
	int rc;

	memset(end_out, 0, sizeof(*end_out));
	end_out->exec_rc = topo_executors_stop(topo, exec_timeout_ms);
	topo_exec_stat(topo, &stat);
	end_out->exec_faults = stat.faults;
	for (uint32_t i = 0; i < topo->lane_cnt; i++)
		end_out->lost_frames += spw_pipe_reclaim(&topo->lane[i]->pipe);
	/* Executors hold no slot any more, so ports get all of theirs back. */
	rc = topo_ports_stop(topo);
	return end_out->exec_rc < 0 ? end_out->exec_rc : rc;
}

/* Ports that the caller opened stay open. Returns: slots that are missing in their pools. */
uint32_t spw_topo_close(struct spw_topo *topo)
{
	uint32_t leaked = 0;

	for (uint32_t w = 0; w < topo->backend_cnt; w++)
		spw_exec_close(topo->backend[w].exec);
	for (uint32_t p = 0; p < topo->port_cnt; p++)
		if (!topo->conf.port[p].open)
			spw_port_close(topo->port[p]);
	for (uint32_t i = 0; i < topo->lane_cnt; i++) {
		leaked += spw_pool_fini(&topo->lane[i]->pool);
		topo_objects_close(topo->lane[i]);
		numa_free(topo->lane[i], sizeof(*topo->lane[i]));
	}
	for (uint32_t r = 0; r < topo->region_cnt; r++)
		spw_region_free(&topo->region[r]);
	memset(topo, 0, sizeof(*topo));
	return leaked;
}
