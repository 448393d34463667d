/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The three CUDA executors, host side. Persistent: one kernel and one stream a ring, a CTA a unit. Graph and launch: a
 * unit is a stream; a push launches the kernel of one batch on the unit's stream. Kernels are launched through the
 * handler (gpu/spw_handler.h), so a plug-in uses the CUDA runtime it was linked with; streams and memory are shared,
 * since both runtimes use the device's primary context. */
#include <errno.h>
#include <numa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda_runtime_api.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "gpu/cuda_impl.h"
#include "gpu/exec_impl.h"
#include "gpu/spw_kernel.h"

#define PERSISTENT_THREADS 1024u
#define BATCH_THREADS      512u
#define PERSISTENT_UNITS   16u       /* CTAs a ring, if not said otherwise */
#define LAUNCH_UNITS       4u        /* streams a ring */
#define BEAT_TIMEOUT_MS    1000u
#define BOUNDED_LIFE_NS    500000000ull /* where the driver kills kernels after some seconds */

struct cuda_ring {
	struct spw_kernel_ring args;
	struct spw_kernel_ctl *ctl;       /* host address */
	struct spw_kernel_unit *unit;     /* persistent: host address; else device */
	cudaStream_t stream[SPW_GRING_UNIT_MAX]; /* persistent: [0]; else one a unit */
	cudaGraph_t graph[SPW_GRING_UNIT_MAX];
	cudaGraphExec_t graph_exec[SPW_GRING_UNIT_MAX];
	bool running, asked_to_leave;
	uint64_t launches;
};

struct cuda_exec {
	struct cuda_ring *ring; /* [ring_cnt] */
	cudaStream_t clock_stream;
	struct spw_clock_words *clock;
	uint64_t pair_exec, pair_tsc; /* one pair of clock readings, to extend stamps */
	uint64_t relaunched, life_ns;
	uint32_t threads;
	int failed; /* first error of a launch on the data path */
};

static int cuda_err(int rc, const char *what)
{
	return spw_err(rc == cudaErrorMemoryAllocation ? ENOMEM : EIO, "CUDA: %s: %s", what,
		       cudaGetErrorString((cudaError_t)rc));
}

#define TRY(call)                                                                                  \
	do {                                                                                       \
		int try_rc = (int)(call);                                                          \
		if (try_rc)                                                                        \
			return cuda_err(try_rc, #call);                                            \
	} while (0)

bool spw_exec_cuda_present(char *why_out, size_t why_bytes)
{
	struct cudaDeviceProp prop;
	int cnt = 0, rc;

	setenv("CUDA_MODULE_LOADING", "EAGER", 0); /* lazy loading waits for resident kernels */
	rc = (int)cudaGetDeviceCount(&cnt);
	if (!rc && cnt > 0)
		rc = (int)cudaGetDeviceProperties(&prop, 0);
	if (rc || cnt == 0) {
		snprintf(why_out, why_bytes, "%s", rc ? cudaGetErrorString((cudaError_t)rc) : "none is installed");
		return false;
	}
	snprintf(why_out, why_bytes, "%s", prop.name);
	return true;
}

/* ---- memory that both sides see ------------------------------------------------------------------------- */

static void *cuda_host_alloc(struct spw_exec *exec, size_t bytes)
{
	bool bind = exec->conf.numa_node >= 0 && numa_available() >= 0 && exec->conf.numa_node <= numa_max_node();
	void *p = NULL;
	int rc;

	if (bind)
		numa_set_preferred(exec->conf.numa_node);
	rc = (int)cudaHostAlloc(&p, bytes, cudaHostAllocMapped | cudaHostAllocPortable);
	if (bind)
		numa_set_localalloc();
	if (rc) {
		cuda_err(rc, "cudaHostAlloc of a ring");
		return NULL;
	}
	memset(p, 0, bytes);
	return p;
}

static void cuda_host_free(struct spw_exec *exec, void *p, size_t bytes)
{
	(void)exec;
	(void)bytes;
	cudaFreeHost(p);
}

/* ---- clocks ----------------------------------------------------------------------------------------------- */

static uint64_t cuda_exec_now(struct spw_gring *ring)
{
	struct spw_exec *exec = ring->exec;
	struct cuda_exec *c = exec->backend;

	return c->pair_exec + spw_tsc_to_ns(&exec->tsc, spw_tsc_now() - c->pair_tsc);
}

static int cuda_pair_clock(struct spw_exec *exec, uint64_t *exec_ticks_out, uint64_t *tsc_out, uint64_t *unc_ns_out)
{
	struct cuda_exec *c = exec->backend;
	struct spw_clock_words *dev;
	uint64_t best = ~0ull, limit = spw_tsc_from_ns(&exec->tsc, 50000000);

	memset(c->clock, 0, sizeof(*c->clock));
	TRY(cudaHostGetDevicePointer((void **)&dev, c->clock, 0));
	TRY(spw_cuda_clock_launch(dev, c->clock_stream));
	for (uint64_t i = 1; i <= SPW_CLOCK_ROUNDS; i++) {
		uint64_t before = spw_tsc_now_ordered(), after, width;

		spw_gpu_store_rel64(&c->clock->asked, i);
		/* [G5 acquire, pairs with the fence in clock.cu] */
		while (spw_gpu_load_acq64(&c->clock->answered) != i && spw_tsc_now() - before < limit)
			spw_cpu_relax();
		after = spw_tsc_now_ordered();
		if (after - before >= limit)
			break;
		width = after - before;
		if (i > 1 && width < best) { /* the first waits for the launch */
			best = width;
			*exec_ticks_out = spw_gpu_load_rlx64(&c->clock->answer);
			*tsc_out = before + width / 2;
		}
	}
	TRY(cudaStreamSynchronize(c->clock_stream)); /* at most 20 ms: the kernel is bounded */
	if (best == ~0ull)
		return spw_err(EIO, "CUDA: the device did not answer with its clock within 50 ms");
	*unc_ns_out = spw_tsc_to_ns(&exec->tsc, best) / 2 + c->clock->step_ns;
	return 0;
}

/* ---- open -------------------------------------------------------------------------------------------------- */

static int units_check(struct spw_exec *exec, const struct cudaDeviceProp *prop)
{
	struct cuda_exec *c = exec->backend;
	struct spw_kernel_info info = {0};
	bool persistent = exec->conf.kind == SPW_EXEC_CUDA_PERSISTENT;
	int rc;

	c->threads = persistent ? PERSISTENT_THREADS : BATCH_THREADS;
	exec->unit_cnt = exec->conf.cta_per_ring;
	if (!exec->unit_cnt)
		exec->unit_cnt = persistent ? PERSISTENT_UNITS : LAUNCH_UNITS;
	rc = exec->conf.handler->cuda->load(c->threads, &info);
	if (rc)
		return spw_err(ENOTSUP, "CUDA: handler %s does not load on %s (compute capability %d.%d): %s",
			       exec->conf.handler->name, prop->name, prop->major, prop->minor,
			       exec->conf.handler->cuda->error_text(rc));
	if (info.threads_max < c->threads)
		c->threads = info.threads_max & ~31u;
	if (persistent && !exec->conf.cta_per_ring)
		exec->unit_cnt = SPW_MIN(exec->unit_cnt, SPW_MAX(1u, info.cta_max / exec->conf.ring_cnt));
	if (!exec->conf.cta_per_ring)
		exec->unit_cnt = SPW_MIN(exec->unit_cnt, exec->conf.batch_cnt);
	if (exec->unit_cnt > SPW_GRING_UNIT_MAX || exec->unit_cnt > exec->conf.batch_cnt)
		return spw_err(EINVAL, "executor: %u CTAs a ring; at most %u, and at most one a batch (%u)", exec->unit_cnt,
			       SPW_GRING_UNIT_MAX, exec->conf.batch_cnt);
	if (persistent && exec->unit_cnt * exec->conf.ring_cnt > info.cta_max)
		return spw_err(ENOTSUP, "executor: %u rings of %u CTAs; only %u CTAs of handler %s are resident at once on %s",
			       exec->conf.ring_cnt, exec->unit_cnt, info.cta_max, exec->conf.handler->name, prop->name);
	return 0;
}

static int device_open(struct spw_exec *exec)
{
	struct cuda_exec *c = exec->backend;
	struct cudaDeviceProp prop;
	char why[128];
	int limited = 0;

	if (!spw_exec_cuda_present(why, sizeof(why)))
		return spw_err(ENOTSUP, "executor %s: no usable GPU (%s); use cpu or inline", spw_exec_kind_name(exec->conf.kind),
			       why);
	TRY(cudaSetDevice(0));
	TRY(cudaSetDeviceFlags(cudaDeviceMapHost | cudaDeviceScheduleSpin));
	TRY(cudaFree(NULL)); /* makes the context */
	TRY(cudaGetDeviceProperties(&prop, 0));
	snprintf(exec->device, sizeof(exec->device), "%.127s", prop.name);
	TRY(cudaDeviceGetAttribute(&limited, cudaDevAttrKernelExecTimeout, 0));
	c->life_ns = exec->conf.life_ms * 1000000ull;
	if (limited && (!c->life_ns || c->life_ns > BOUNDED_LIFE_NS)) {
		c->life_ns = BOUNDED_LIFE_NS;
		spw_info("executor: %s has an execution time limit, so the resident kernel is renewed every %llu ms", prop.name,
			 BOUNDED_LIFE_NS / 1000000);
	}
	return units_check(exec, &prop);
}

static int clock_open(struct spw_exec *exec)
{
	struct cuda_exec *c = exec->backend;
	uint64_t unused;

	TRY(cudaStreamCreateWithFlags(&c->clock_stream, cudaStreamNonBlocking));
	c->clock = cuda_host_alloc(exec, sizeof(*c->clock));
	if (!c->clock)
		return -ENOMEM;
	exec->clock_hz = 1000000000;
	return cuda_pair_clock(exec, &c->pair_exec, &c->pair_tsc, &unused);
}

static int cuda_open(struct spw_exec *exec)
{
	struct cuda_exec *c = calloc(1, sizeof(*c));
	int rc;

	exec->backend = c;
	if (!c)
		return spw_err(ENOMEM, "executor: no memory");
	rc = device_open(exec);
	if (rc)
		return rc;
	c->ring = calloc(exec->conf.ring_cnt, sizeof(*c->ring));
	if (!c->ring)
		return spw_err(ENOMEM, "executor: no memory");
	return clock_open(exec);
}

/* ---- start: everything is allocated here, before the first kernel stays -------------------------------------- */

static int unit_state_make(struct spw_exec *exec, struct cuda_ring *r)
{
	struct spw_kernel_unit first[SPW_GRING_UNIT_MAX];
	size_t bytes = exec->unit_cnt * sizeof(first[0]);

	memset(first, 0, sizeof(first));
	for (uint32_t u = 0; u < exec->unit_cnt; u++)
		first[u].next_seq = u;
	if (exec->conf.kind != SPW_EXEC_CUDA_PERSISTENT) {
		TRY(cudaMalloc((void **)&r->unit, bytes));
		TRY(cudaMemcpy(r->unit, first, bytes, cudaMemcpyHostToDevice));
		r->args.unit = r->unit;
		return 0;
	}
	r->unit = cuda_host_alloc(exec, bytes);
	if (!r->unit)
		return -ENOMEM;
	memcpy(r->unit, first, bytes);
	TRY(cudaHostGetDevicePointer((void **)&r->args.unit, r->unit, 0));
	return 0;
}

static int graph_make(struct spw_exec *exec, struct cuda_ring *r, uint32_t u)
{
	struct cuda_exec *c = exec->backend;
	int rc;

	TRY(cudaStreamBeginCapture(r->stream[u], cudaStreamCaptureModeThreadLocal));
	rc = exec->conf.handler->cuda->batch(&r->args, u, c->threads, r->stream[u]);
	TRY(cudaStreamEndCapture(r->stream[u], &r->graph[u]));
	if (rc)
		return cuda_err(rc, "capturing the batch kernel");
	TRY(cudaGraphInstantiate(&r->graph_exec[u], r->graph[u], 0));
	TRY(cudaGraphUpload(r->graph_exec[u], r->stream[u]));
	TRY(cudaStreamSynchronize(r->stream[u]));
	return 0;
}

static int ring_open(struct spw_exec *exec, uint16_t index)
{
	struct cuda_exec *c = exec->backend;
	struct cuda_ring *r = &c->ring[index];
	struct spw_gring *ring = &exec->ring[index];
	bool persistent = exec->conf.kind == SPW_EXEC_CUDA_PERSISTENT;

	r->ctl = cuda_host_alloc(exec, sizeof(*r->ctl));
	if (!r->ctl)
		return -ENOMEM;
	TRY(cudaHostGetDevicePointer((void **)&r->args.ctl, r->ctl, 0));
	TRY(cudaMalloc((void **)&r->args.frontier, sizeof(*r->args.frontier)));
	TRY(cudaMemset(r->args.frontier, 0, sizeof(*r->args.frontier)));
	TRY(cudaHostGetDevicePointer((void **)&r->args.desc, ring->desc, 0));
	TRY(cudaHostGetDevicePointer((void **)&r->args.done, ring->done, 0));
	memcpy(r->args.region_base, exec->region_base, sizeof(r->args.region_base));
	r->args.batch_log2 = ring->batch_log2;
	r->args.unit_cnt = exec->unit_cnt;
	r->args.life_ns = c->life_ns;
	r->args.beat_timeout_ns = (exec->conf.beat_timeout_ms ? exec->conf.beat_timeout_ms : BEAT_TIMEOUT_MS) * 1000000ull;
	for (uint32_t u = 0; u < (persistent ? 1 : exec->unit_cnt); u++)
		TRY(cudaStreamCreateWithFlags(&r->stream[u], cudaStreamNonBlocking));
	ring->exec_now = cuda_exec_now;
	return unit_state_make(exec, r);
}

static void kick_failed(struct cuda_exec *c, int rc)
{
	if (rc && !c->failed)
		c->failed = rc;
}

static void launch_kick(struct spw_gring *ring)
{
	struct spw_exec *exec = ring->exec;
	struct cuda_exec *c = exec->backend;
	struct cuda_ring *r = &c->ring[spw_exec_ring_index(exec, ring)];
	uint32_t u = (uint32_t)((ring->head_seq - 1) % exec->unit_cnt);

	kick_failed(c, exec->conf.handler->cuda->batch(&r->args, u, c->threads, r->stream[u]));
	spw_thr_count(&r->launches, 1);
}

static void graph_kick(struct spw_gring *ring)
{
	struct spw_exec *exec = ring->exec;
	struct cuda_exec *c = exec->backend;
	struct cuda_ring *r = &c->ring[spw_exec_ring_index(exec, ring)];
	uint32_t u = (uint32_t)((ring->head_seq - 1) % exec->unit_cnt);

	kick_failed(c, (int)cudaGraphLaunch(r->graph_exec[u], r->stream[u]));
	spw_thr_count(&r->launches, 1);
}

static int persistent_launch(struct spw_exec *exec, struct cuda_ring *r, enum spw_kernel_stop stop)
{
	struct cuda_exec *c = exec->backend;
	int rc;

	for (uint32_t u = 0; u < exec->unit_cnt; u++)
		r->unit[u].left = SPW_KERNEL_LEFT_NOT;
	r->asked_to_leave = false;
	spw_gpu_store_rel64(&r->ctl->beat, spw_tsc_now());
	spw_gpu_store_rel64(&r->ctl->stop, stop);
	rc = exec->conf.handler->cuda->persistent(&r->args, c->threads, r->stream[0]);
	if (rc)
		return cuda_err(rc, "launching the resident kernel");
	r->running = true;
	return 0;
}

static int cuda_start(struct spw_exec *exec)
{
	struct cuda_exec *c = exec->backend;
	int rc = 0;

	for (uint16_t i = 0; !rc && i < exec->conf.ring_cnt; i++)
		if (!c->ring[i].ctl)
			rc = ring_open(exec, i);
	for (uint16_t i = 0; !rc && i < exec->conf.ring_cnt; i++) {
		struct cuda_ring *r = &c->ring[i];

		if (exec->conf.kind == SPW_EXEC_CUDA_PERSISTENT) {
			rc = persistent_launch(exec, r, SPW_KERNEL_RUN);
			continue;
		}
		for (uint32_t u = 0; exec->conf.kind == SPW_EXEC_CUDA_GRAPH && !rc && u < exec->unit_cnt; u++)
			rc = r->graph[u] ? 0 : graph_make(exec, r, u);
		exec->ring[i].kick = exec->conf.kind == SPW_EXEC_CUDA_GRAPH ? graph_kick : launch_kick;
	}
	return rc;
}

/* ---- while it runs --------------------------------------------------------------------------------------------- */

static void cuda_beat(struct spw_exec *exec, uint16_t ring)
{
	struct cuda_exec *c = exec->backend;

	spw_gpu_store_rlx64(&c->ring[ring].ctl->beat, spw_tsc_now());
}

/* A unit that left on its own leaves its batches undone until all have left and are launched again. */
static bool some_unit_left(const struct spw_exec *exec, const struct cuda_ring *r)
{
	for (uint32_t u = 0; u < exec->unit_cnt; u++) {
		uint64_t left = spw_gpu_load_acq64(&r->unit[u].left); /* [G4] */

		if (left != SPW_KERNEL_LEFT_NOT && left != SPW_KERNEL_LEFT_STOP)
			return true;
	}
	return false;
}

static int unit_fault(const struct spw_exec *exec, const struct cuda_ring *r)
{
	for (uint32_t u = 0; u < exec->unit_cnt; u++)
		if (r->unit[u].left == SPW_KERNEL_LEFT_FAULT)
			return spw_err(EIO, "executor: unit %u found a damaged descriptor ring", u);
	return 0;
}

/* Returns 0, or -EIO. Sets r->running to what is true. */
static int persistent_look(struct spw_exec *exec, struct cuda_ring *r)
{
	int rc = (int)cudaStreamQuery(r->stream[0]);

	if (rc && rc != cudaErrorNotReady)
		return cuda_err(rc, "the resident kernel");
	if (rc == cudaErrorNotReady) {
		if (!r->asked_to_leave && some_unit_left(exec, r)) {
			spw_gpu_store_rel64(&r->ctl->stop, SPW_KERNEL_STOP_NOW);
			r->asked_to_leave = true;
		}
		return 0;
	}
	r->running = false;
	return unit_fault(exec, r);
}

static int cuda_service(struct spw_exec *exec)
{
	struct cuda_exec *c = exec->backend;
	int rc = 0;

	if (exec->conf.kind != SPW_EXEC_CUDA_PERSISTENT) {
		if (c->failed)
			return cuda_err(c->failed, "a launch for a batch");
		for (uint16_t i = 0; i < exec->conf.ring_cnt; i++)
			for (uint32_t u = 0; u < exec->unit_cnt; u++) {
				rc = (int)cudaStreamQuery(c->ring[i].stream[u]);
				if (rc && rc != cudaErrorNotReady)
					return cuda_err(rc, "a batch kernel");
			}
		return 0;
	}
	for (uint16_t i = 0; !rc && i < exec->conf.ring_cnt; i++) {
		struct cuda_ring *r = &c->ring[i];

		if (!r->running)
			continue;
		rc = persistent_look(exec, r);
		if (!rc && !r->running) {
			spw_thr_count(&c->relaunched, 1);
			rc = persistent_launch(exec, r, SPW_KERNEL_RUN);
		}
	}
	return rc;
}

/* ---- stop --------------------------------------------------------------------------------------------------------- */

static bool work_left(const struct spw_exec *exec, uint16_t index)
{
	const struct cuda_exec *c = exec->backend;
	const struct spw_gring *ring = &exec->ring[index];

	for (uint32_t u = 0; u < exec->unit_cnt; u++)
		if (c->ring[index].unit[u].next_seq < ring->head_seq)
			return true;
	return false;
}

/* One turn of waiting for a ring's kernel. Returns 1 while it runs, 0 when it ended, or -EIO. */
static int persistent_stop_turn(struct spw_exec *exec, uint16_t index, enum spw_kernel_stop stop)
{
	struct cuda_exec *c = exec->backend;
	struct cuda_ring *r = &c->ring[index];
	int rc;

	if (!r->running)
		return 0;
	if (!r->asked_to_leave)
		spw_gpu_store_rel64(&r->ctl->stop, stop); /* [G3 release, pairs with the pollers' acquire] */
	cuda_beat(exec, index);
	rc = persistent_look(exec, r);
	if (rc || r->running)
		return rc ? rc : 1;
	if (stop == SPW_KERNEL_STOP_EMPTY && work_left(exec, index)) { /* it had left for another reason */
		spw_thr_count(&c->relaunched, 1);
		rc = persistent_launch(exec, r, stop);
		return rc ? rc : 1;
	}
	return 0;
}

static int launch_stop_turn(struct spw_exec *exec, uint16_t index)
{
	struct cuda_exec *c = exec->backend;

	for (uint32_t u = 0; u < exec->unit_cnt && c->ring[index].stream[u]; u++) {
		int rc = (int)cudaStreamQuery(c->ring[index].stream[u]);

		if (rc == cudaErrorNotReady)
			return 1;
		if (rc)
			return cuda_err(rc, "a batch kernel");
	}
	return 0;
}

/* Returns 0 when all have ended, 1 on timeout, -EIO. */
static int stop_wait(struct spw_exec *exec, enum spw_kernel_stop stop, uint32_t timeout_ms)
{
	uint64_t begin = spw_tsc_now(), limit = spw_tsc_from_ns(&exec->tsc, timeout_ms * 1000000ull);
	const struct timespec nap = {.tv_nsec = 50000};

	for (;;) {
		int busy = 0;

		for (uint16_t i = 0; i < exec->conf.ring_cnt; i++) {
			int rc = exec->conf.kind == SPW_EXEC_CUDA_PERSISTENT ? persistent_stop_turn(exec, i, stop)
									    : launch_stop_turn(exec, i);

			if (rc < 0)
				return rc;
			busy |= rc;
		}
		if (!busy || spw_tsc_now() - begin > limit)
			return busy;
		nanosleep(&nap, NULL);
	}
}

static int cuda_stop(struct spw_exec *exec, uint32_t timeout_ms)
{
	struct cuda_exec *c = exec->backend;
	int rc;

	if (!c || !c->ring)
		return 0;
	rc = stop_wait(exec, SPW_KERNEL_STOP_EMPTY, timeout_ms);
	if (rc <= 0)
		return rc;
	rc = stop_wait(exec, SPW_KERNEL_STOP_NOW, 2000);
	if (rc < 0)
		return rc;
	return spw_err(ETIME, rc ? "executor: a kernel does not end; its handler does not return"
				 : "executor: stopped with batches undone");
}

static void cuda_stat(struct spw_exec *exec, struct spw_exec_stat *stat)
{
	struct cuda_exec *c = exec->backend;

	stat->relaunched = spw_thr_load_rlx(&c->relaunched);
	for (uint16_t i = 0; i < exec->conf.ring_cnt; i++) {
		stat->frames += spw_gring_executed(&exec->ring[i]);
		stat->batches += spw_thr_load_rlx(&exec->ring[i].tail_seq);
		stat->kernel_launches += spw_thr_load_rlx(&c->ring[i].launches);
	}
}

static void ring_close(struct spw_exec *exec, struct cuda_ring *r)
{
	for (uint32_t u = 0; u < SPW_GRING_UNIT_MAX; u++) {
		if (r->graph_exec[u])
			cudaGraphExecDestroy(r->graph_exec[u]);
		if (r->graph[u])
			cudaGraphDestroy(r->graph[u]);
		if (r->stream[u])
			cudaStreamDestroy(r->stream[u]);
	}
	if (r->unit && exec->conf.kind == SPW_EXEC_CUDA_PERSISTENT)
		cudaFreeHost(r->unit);
	else if (r->unit)
		cudaFree(r->unit);
	cudaFree(r->args.frontier);
	if (r->ctl)
		cudaFreeHost(r->ctl);
}

static void cuda_close(struct spw_exec *exec)
{
	struct cuda_exec *c = exec->backend;

	cuda_stop(exec, 1000);
	for (uint16_t i = 0; c->ring && i < exec->conf.ring_cnt; i++)
		ring_close(exec, &c->ring[i]);
	if (c->clock_stream)
		cudaStreamDestroy(c->clock_stream);
	if (c->clock)
		cudaFreeHost(c->clock);
	free(c->ring);
	free(c);
}

const struct spw_exec_ops spw_exec_cuda_ops = {
	.device = "GPU",
	.batch_cnt = 256,
	.open = cuda_open,
	.alloc = cuda_host_alloc,
	.free = cuda_host_free,
	.start = cuda_start,
	.beat = cuda_beat,
	.service = cuda_service,
	.stop = cuda_stop,
	.stat = cuda_stat,
	.pair_clock = cuda_pair_clock,
	.close = cuda_close,
};
