/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What all executors share: names, the choice of a backend, checks of the configuration, the memory
 * of rings, and the calls of spw_exec.h, which go through the backend's spw_exec_ops. Called at
 * set-up and by the control thread; only spw_exec_beat is called by the lcore.
 *
 * Life of an executor, and which thread makes each step:
 *
 *   setup     open: check ─► backend open (units) ─► memory of each ring ─► backend prepare
 *             close: the reverse
 *             start ─► the backend's units poll their rings
 *   owner     next, push, reap, retire on its ring (gring.c); beat in housekeeping
 *   control   service, regularly: errors, relaunches; stop: "leave when empty", then "leave now"
 *
 * There is one ring per lcore and one set of units per ring, so no two lcores ever share an
 * executor word. The backend decides where the shared words lie (host memory, or host memory that
 * CUDA maps); the records (spw_gring_batch) are always plain memory of the owner.
 */
#include <errno.h>
#include <numa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "exec/exec.h"

#define TSC_WINDOW_MS 20
#define CLOSE_MS      1000 /* for an executor that was not stopped before */

static const char *const kind_name[SPW_EXEC_KIND_CNT] = {
	[SPW_EXEC_AUTO] = "auto",
	[SPW_EXEC_INLINE] = "inline",
	[SPW_EXEC_CPU] = "cpu",
	[SPW_EXEC_CUDA_PERSISTENT] = "cuda-persistent",
	[SPW_EXEC_CUDA_GRAPH] = "cuda-graph",
	[SPW_EXEC_CUDA_LAUNCH] = "cuda-launch",
};

const char *spw_exec_kind_name(enum spw_exec_kind kind)
{
	return (unsigned)kind < SPW_EXEC_KIND_CNT ? kind_name[kind] : "unknown";
}

static int exec_check(enum spw_exec_kind kind, const struct spw_handler *handler, uint32_t ring_cnt,
		      struct spw_exec_gpu *gpu_out)
{
	int rc;

	if (kind < SPW_EXEC_CUDA_PERSISTENT)
		return 0;
	rc = spw_exec_gpu_find(handler, gpu_out);
	return rc ? rc : gpu_out->ops->check(kind, handler, ring_cnt, gpu_out);
}

int spw_exec_check(enum spw_exec_kind kind, const struct spw_handler *handler, uint32_t ring_cnt)
{
	struct spw_exec_gpu gpu;

	return exec_check(kind, handler, ring_cnt, &gpu);
}

/* auto: the GPU if it can run the handler, else a thread of its own if a core is spare, else the
 * lcore itself. The reason is printed, so that nobody wonders why the GPU is idle. */
enum spw_exec_kind spw_exec_choose(const struct spw_handler *handler, uint32_t ring_cnt,
				   uint32_t spare_cores, char *why_out, size_t why_bytes)
{
	struct spw_exec_gpu gpu;

	if (!exec_check(SPW_EXEC_CUDA_PERSISTENT, handler, ring_cnt, &gpu)) {
		snprintf(why_out, why_bytes, "a GPU is there: %s", gpu.plat.name);
		return SPW_EXEC_CUDA_PERSISTENT;
	}
	if (spare_cores > 0) {
		snprintf(why_out, why_bytes, "not on a GPU (%s), %u spare core%s", spw_err_text(),
			 spare_cores, spare_cores == 1 ? "" : "s");
		return SPW_EXEC_CPU;
	}
	snprintf(why_out, why_bytes, "not on a GPU (%s) and no spare core", spw_err_text());
	return SPW_EXEC_INLINE;
}

static const struct spw_exec_ops *ops_of(const struct spw_exec *exec)
{
	switch (exec->conf.kind) {
	case SPW_EXEC_INLINE:
		return &spw_exec_inline_ops;
	case SPW_EXEC_CPU:
		return &spw_exec_cpu_ops;
	default:
		return exec->gpu.ops;
	}
}

/* ---- memory of CPU executors ---- */

/* The pages are bound to the node before they are first written, because the first write decides
 * where a page lies. */
void *spw_exec_host_alloc(struct spw_exec *exec, size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		spw_err(ENOMEM, "executor: no memory for a ring of %zu bytes", bytes);
		return NULL;
	}
	if (exec->conf.numa_node >= 0 && numa_available() >= 0 &&
	    exec->conf.numa_node <= numa_max_node())
		numa_tonode_memory(p, bytes, exec->conf.numa_node);
	memset(p, 0, bytes); /* touch it now */
	return p;
}

void spw_exec_host_free(struct spw_exec *exec, void *p, size_t bytes)
{
	(void)exec;
	munmap(p, bytes);
}

/* ---- rings ---- */

static size_t desc_bytes(uint32_t batch_cnt)
{
	return (size_t)batch_cnt * SPW_GRING_FRAME_MAX * sizeof(struct spw_gring_desc);
}

static size_t done_bytes(uint32_t batch_cnt)
{
	return (size_t)batch_cnt * sizeof(struct spw_gring_done);
}

static size_t batch_bytes(uint32_t batch_cnt)
{
	return (size_t)batch_cnt * sizeof(struct spw_gring_batch);
}

static uint64_t tsc_exec_now(struct spw_gring *ring)
{
	(void)ring;
	return spw_tsc_now();
}

/* desc, done and pauses are shared with the executor and come from the backend; records and
 * counters belong to the owner. On an error the caller frees what was made (ring_free). */
static int ring_make(struct spw_exec *exec, struct spw_gring *ring)
{
	uint32_t cnt = exec->conf.batch_cnt;

	ring->desc = exec->ops->alloc(exec, desc_bytes(cnt));
	ring->done = exec->ops->alloc(exec, done_bytes(cnt));
	ring->batch = spw_exec_host_alloc(exec, batch_bytes(cnt));
	ring->unit_frames = calloc(exec->unit_cnt, sizeof(*ring->unit_frames));
	ring->pauses = exec->ops->alloc(exec, sizeof(*ring->pauses));
	if (!ring->desc || !ring->done || !ring->pauses || !ring->batch || !ring->unit_frames)
		return -ENOMEM;
	ring->batch_mask = cnt - 1;
	ring->batch_log2 = spw_log2_floor64(cnt);
	ring->unit_cnt = exec->unit_cnt;
	ring->region_cnt = exec->conf.region_cnt;
	ring->share_log2 = exec->share_log2;
	ring->exec_now = tsc_exec_now;
	ring->exec = exec;
	return 0;
}

static void ring_free(struct spw_exec *exec, struct spw_gring *ring)
{
	uint32_t cnt = exec->conf.batch_cnt;

	if (ring->desc)
		exec->ops->free(exec, ring->desc, desc_bytes(cnt));
	if (ring->done)
		exec->ops->free(exec, ring->done, done_bytes(cnt));
	if (ring->pauses)
		exec->ops->free(exec, ring->pauses, sizeof(*ring->pauses));
	if (ring->batch)
		spw_exec_host_free(exec, ring->batch, batch_bytes(cnt));
	free(ring->unit_frames);
}

/* ---- the state of handlers ---- */

/* What a CPU unit needs of its ring: the handler, where frames lie, and the handler's own block. */
static int unit_make(struct spw_exec *exec, uint16_t ring)
{
	const struct spw_handler *handler = spw_exec_handler(exec, ring);
	struct spw_exec_cpu_unit *unit = &exec->unit[ring];

	unit->run = handler->host;
	memcpy(unit->env.region_base, exec->region_base, sizeof(unit->env.region_base));
	if (!handler->state || exec->ops->state)
		return 0;
	unit->env.state = spw_exec_host_alloc(exec, handler->state->bytes);
	if (!unit->env.state)
		return -ENOMEM;
	memcpy(unit->env.state, handler->initial, handler->state->bytes);
	return 0;
}

static void unit_free(struct spw_exec *exec, uint16_t ring)
{
	void *block = exec->unit[ring].env.state;

	if (block)
		spw_exec_host_free(exec, block, spw_exec_handler(exec, ring)->state->bytes);
}

static int ring_counters_add(struct spw_exec *exec, uint16_t ring, void *sum)
{
	const struct spw_handler *handler = spw_exec_handler(exec, ring);
	const void *block = exec->unit[ring].env.state;

	if (exec->ops->state)
		block = exec->ops->state(exec, ring);
	if (!block)
		return -EIO;
	spw_handler_counters_add(handler, block, sum);
	return 0;
}

int spw_exec_counters_add(struct spw_exec *exec, const struct spw_handler *handler, void *sum)
{
	int rc = 0;

	if (!handler->state)
		return 0;
	pthread_mutex_lock(&exec->state_lock);
	for (uint16_t r = 0; r < exec->conf.ring_cnt && rc == 0; r++)
		if (spw_exec_handler(exec, r) == handler)
			rc = ring_counters_add(exec, r, sum);
	pthread_mutex_unlock(&exec->state_lock);
	return rc;
}

/* What the lanes counted outlives their blocks in the handler, whose fini gets it. */
static void totals_add(struct spw_exec *exec)
{
	for (uint16_t r = 0; r < exec->conf.ring_cnt; r++) {
		const struct spw_handler *handler = spw_exec_handler(exec, r);

		if (handler->state && ring_counters_add(exec, r, handler->total) < 0)
			spw_warn("executor: counters of handler %s are lost: %s", handler->name,
				 spw_err_text());
	}
}

/* ---- open and close ---- */

/* Every handler: each may be the one that this machine cannot run. */
static int conf_handlers_check(const struct spw_exec_conf *conf, struct spw_exec_gpu *gpu_out)
{
	const struct spw_handler *last = NULL;
	int rc = 0;

	for (uint16_t r = 0; r < conf->ring_cnt && rc == 0; r++) {
		const struct spw_handler *handler = spw_exec_conf_handler(conf, r);

		if (handler != last)
			rc = exec_check(conf->kind, handler, conf->ring_cnt, gpu_out);
		last = handler;
	}
	return rc ? spw_err_ctx(rc, "executor %s", spw_exec_kind_name(conf->kind)) : 0;
}

/* A CPU executor finds no address of a GPU's own memory: its first access would end the process. */
static int conf_regions_check(const struct spw_exec_conf *conf)
{
	if (conf->region_cnt > SPW_REGION_MAX || (conf->region_cnt && !conf->region))
		return spw_err(EINVAL, "executor: %u memory regions, of at most %d",
			       conf->region_cnt, SPW_REGION_MAX);
	for (uint16_t i = 0; conf->kind < SPW_EXEC_CUDA_PERSISTENT && i < conf->region_cnt; i++)
		if (conf->region[i].kind == SPW_MEM_GPU)
			return spw_err(ENOTSUP,
				       "executor: it runs on the CPU, which cannot reach memory "
				       "kind gpu: use a CUDA executor, or another kind");
	return 0;
}

static int conf_check(const struct spw_exec_conf *conf, struct spw_exec_gpu *gpu_out)
{
	int rc = conf_regions_check(conf);

	if (rc)
		return rc;
	if ((!conf->handler && !conf->ring_handler) || !conf->ring_cnt)
		return spw_err(EINVAL, "executor: needs a handler and at least one ring");
	if (conf->batch_cnt && (!SPW_IS_POW2(conf->batch_cnt) || conf->batch_cnt < 2 ||
				conf->batch_cnt > SPW_GRING_BATCH_MAX))
		return spw_err(EINVAL, "executor: %u batches per ring; a power of 2 from 2 to %u",
			       conf->batch_cnt, SPW_GRING_BATCH_MAX);
	if (conf->share_bytes & (conf->share_bytes - 1))
		return spw_err(EINVAL, "executor: a share of %u bytes; a power of 2",
			       conf->share_bytes);
	if (conf->kind == SPW_EXEC_AUTO || conf->kind >= SPW_EXEC_KIND_CNT)
		return spw_err(EINVAL, "executor: kind %d cannot be opened", (int)conf->kind);
	return conf_handlers_check(conf, gpu_out);
}

/* A descriptor names a region and an offset; the executor adds the region's base as it sees it: the
 * device address on a GPU, the host address on a CPU. */
static void region_bases(struct spw_exec *exec)
{
	bool gpu = exec->conf.kind >= SPW_EXEC_CUDA_PERSISTENT;

	for (uint16_t i = 0; i < exec->conf.region_cnt; i++) {
		const struct spw_region *r = &exec->conf.region[i];

		if (r->id < SPW_REGION_MAX)
			exec->region_base[r->id] = gpu ? r->dev_va
						       : (uint64_t)(uintptr_t)r->host_va;
	}
}

static int exec_make(struct spw_exec *exec)
{
	uint16_t n = exec->conf.ring_cnt;
	int rc = spw_tsc_calibrate(TSC_WINDOW_MS, &exec->tsc);

	if (rc)
		return rc;
	snprintf(exec->device, sizeof(exec->device), "%s", exec->ops->device);
	exec->ring = aligned_alloc(2 * SPW_CACHE_LINE, SPW_ALIGN_UP(n * sizeof(*exec->ring),
								    2 * (size_t)SPW_CACHE_LINE));
	exec->unit = aligned_alloc(2 * SPW_CACHE_LINE, n * sizeof(*exec->unit));
	exec->code = calloc(n, sizeof(*exec->code));
	if (!exec->ring || !exec->unit || !exec->code)
		return spw_err(ENOMEM, "executor: no memory for %u rings", n);
	memset(exec->ring, 0, n * sizeof(*exec->ring));
	memset(exec->unit, 0, n * sizeof(*exec->unit));
	for (uint16_t r = 0; exec->gpu.module && r < n; r++)
		exec->code[r] = spw_exec_device_code(spw_exec_handler(exec, r), exec->gpu.module);
	rc = exec->ops->open(exec);
	for (uint16_t r = 0; !rc && r < n; r++)
		rc = ring_make(exec, &exec->ring[r]);
	for (uint16_t r = 0; !rc && r < n; r++)
		rc = unit_make(exec, r);
	return rc || !exec->ops->prepare ? rc : exec->ops->prepare(exec);
}

int spw_exec_open(const struct spw_exec_conf *conf, struct spw_exec **exec_out)
{
	struct spw_exec_gpu gpu = {0};
	struct spw_exec *exec;
	int rc;

	*exec_out = NULL;
	rc = conf_check(conf, &gpu);
	if (rc)
		return rc;
	exec = calloc(1, sizeof(*exec));
	if (!exec)
		return spw_err(ENOMEM, "executor: no memory");
	pthread_mutex_init(&exec->state_lock, NULL);
	exec->conf = *conf;
	exec->gpu = gpu;
	exec->ops = ops_of(exec);
	if (!exec->conf.batch_cnt)
		exec->conf.batch_cnt = exec->ops->batch_cnt;
	region_bases(exec);
	rc = exec_make(exec);
	if (rc) {
		spw_exec_close(exec);
		return rc;
	}
	exec->opened = true;
	*exec_out = exec;
	return 0;
}

/* If the backend still runs, its memory must not be freed under it: it is left to the end of the
 * process, which is reported. */
void spw_exec_close(struct spw_exec *exec)
{
	if (!exec)
		return;
	if (exec->backend && spw_exec_stop(exec, CLOSE_MS) == -EBUSY) {
		spw_warn("executor: its memory is left as it is: %s", spw_err_text());
		return;
	}
	if (exec->opened)
		totals_add(exec);
	if (exec->backend)
		exec->ops->close(exec);
	for (uint16_t r = 0; exec->ring && r < exec->conf.ring_cnt; r++)
		ring_free(exec, &exec->ring[r]);
	for (uint16_t r = 0; exec->unit && r < exec->conf.ring_cnt; r++)
		unit_free(exec, r);
	free(exec->ring);
	free(exec->unit);
	free(exec->code);
	pthread_mutex_destroy(&exec->state_lock);
	free(exec);
}

/* ---- call-through ---- */

struct spw_gring *spw_exec_ring(struct spw_exec *exec, uint16_t ring)
{
	return &exec->ring[ring];
}

int spw_exec_start(struct spw_exec *exec)
{
	return exec->ops->start(exec);
}

void spw_exec_beat(struct spw_exec *exec, uint16_t ring)
{
	exec->ops->beat(exec, ring);
}

int spw_exec_service(struct spw_exec *exec)
{
	return exec->ops->service(exec);
}

int spw_exec_stop(struct spw_exec *exec, uint32_t timeout_ms)
{
	return exec->ops->stop(exec, timeout_ms);
}

void spw_exec_stat(struct spw_exec *exec, struct spw_exec_stat *stat_out)
{
	memset(stat_out, 0, sizeof(*stat_out));
	memcpy(stat_out->device, exec->device, sizeof(stat_out->device));
	for (uint16_t r = 0; r < exec->conf.ring_cnt; r++)
		stat_out->faults += spw_thr_load_rlx(&exec->ring[r].fault_cnt);
	exec->ops->stat(exec, stat_out);
}

int spw_exec_pair_clock(struct spw_exec *exec, uint64_t *exec_ticks_out, uint64_t *tsc_out,
			uint64_t *uncertainty_ns_out)
{
	return exec->ops->pair_clock(exec, exec_ticks_out, tsc_out, uncertainty_ns_out);
}

uint64_t spw_exec_clock_hz(struct spw_exec *exec)
{
	return exec->clock_hz;
}
