/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The three CUDA executors, host side: what they consist of; run.c has how they run. Persistent:
 * one kernel and one stream per ring, a CTA per unit. Graph and launch: a unit is a stream; a push
 * launches the kernel of one batch on the unit's stream. Kernels are launched through the
 * handler (exec/spw_handler.h), so a plug-in uses the CUDA runtime it was linked with; streams and
 * memory are shared, since both runtimes use the device's primary context.
 *
 * Clock. The GPU's global timer counts nanoseconds and cannot be read by the host. A one-thread
 * kernel answers questions through two words of mapped host memory, 64 times, and the narrowest
 * round trip becomes the pair:
 *
 *   host    before ── asked = i ───────────────> kernel: reads its timer
 *           after  <── answered = i, answer ────        G5
 *   pair    answer at (before + after) / 2, ± half the round trip, ± one step of the timer
 *
 * The first round waits for the kernel to start and is dropped. Resident kernels do not disturb it:
 * the clock has a stream of its own.
 */
#include <errno.h>
#include <numa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "exec/cuda/cuda.h"
#include "exec/exec.h"
#include "exec/spw_kernel.h"

#define BATCH_THREADS    512u
#define PERSISTENT_UNITS 16u          /* CTAs per ring, default */
#define LAUNCH_UNITS     4u           /* streams per ring */
#define SHARE_BYTES      4096u        /* a unit's share of a large batch, default */
#define BOUNDED_LIFE_NS  500000000ull /* below the driver's execution time limit of seconds */

int spw_cuda_err(int rc, const char *what)
{
	return spw_err(rc == cudaErrorMemoryAllocation ? ENOMEM : EIO, "CUDA: %s: %s", what,
		       cudaGetErrorString((cudaError_t)rc));
}

/* ---- whether this GPU can do it ---- */

/* The runtime refuses a driver that is older than itself. */
static int cuda_runtime_check(const struct spw_plat_gpu *gpu)
{
	int cnt = 0, driver = 0, rc = (int)cudaGetDeviceCount(&cnt);

	if (rc == cudaErrorInsufficientDriver) {
		cudaDriverGetVersion(&driver);
		return spw_err(ENOTSUP,
			       "%s: its driver is for CUDA %d.%d and the module for %d.%d: install "
			       "a newer driver, or build with an older nvcc",
			       gpu->name, driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
			       CUDART_VERSION % 1000 / 10);
	}
	if (rc || !cnt)
		return spw_err(ENOTSUP, "%s: the CUDA runtime cannot use it: %s", gpu->name,
			       rc ? cudaGetErrorString((cudaError_t)rc) : "it reports no GPU");
	return 0;
}

/* Creates the context. */
static int cuda_device_select(void)
{
	SPW_CUDA_TRY(cudaSetDevice(0));
	SPW_CUDA_TRY(cudaSetDeviceFlags(cudaDeviceMapHost | cudaDeviceScheduleSpin));
	SPW_CUDA_TRY(cudaFree(NULL));
	return 0;
}

/* The kernels of the handler, and the one that reads the clock. */
static int cuda_kernels_load(const struct spw_handler *handler, const struct spw_handler_cuda *code,
			     uint32_t threads, const struct spw_plat_gpu *gpu,
			     struct spw_kernel_info *info_out)
{
	const int major = gpu->attr[SPW_PLAT_GPU_COMPUTE_CAPABILITY_MAJOR],
		  minor = gpu->attr[SPW_PLAT_GPU_COMPUTE_CAPABILITY_MINOR];
	int rc = code->load(threads, info_out);
	const char *text = rc ? code->error_text(rc) : NULL;

	if (!rc && (rc = spw_cuda_clock_load()))
		text = cudaGetErrorString((cudaError_t)rc);
	if (!rc)
		return 0;
	cudaGetLastError(); /* it is reported here, and by no later call */
	return spw_err(ENOTSUP,
		       "handler %s does not load on %s (compute capability %d.%d): %s; the module "
		       "has " SPW_CUDA_BUILT ": build it, or a handler of your own, for sm_%d%d "
		       "(meson configure -Dgpu_arch=%d%d), or install a newer driver",
		       handler->name, gpu->name, major, minor, text, major, minor, major, minor);
}

static uint32_t cuda_kind_threads(enum spw_exec_kind kind)
{
	return kind == SPW_EXEC_CUDA_PERSISTENT ? SPW_KERNEL_THREADS : BATCH_THREADS;
}

static int cuda_handler_check(enum spw_exec_kind kind, const struct spw_handler *handler,
			      uint32_t ring_cnt, const struct spw_exec_gpu *gpu)
{
	struct spw_kernel_info info = {0};
	int rc = cuda_device_select();

	if (rc)
		return spw_err_ctx(-ENOTSUP, "%s cannot be used", gpu->plat.name);
	rc = cuda_kernels_load(handler, gpu->code, cuda_kind_threads(kind), &gpu->plat, &info);
	if (!rc && kind == SPW_EXEC_CUDA_PERSISTENT && info.cta_max < ring_cnt)
		return spw_err(
			ENOTSUP,
			"only %u CTAs of handler %s are resident at once on %s, for %u rings",
			info.cta_max, handler->name, gpu->plat.name, ring_cnt);
	return rc;
}

static int cuda_check(enum spw_exec_kind kind, const struct spw_handler *handler, uint32_t ring_cnt,
		      const struct spw_exec_gpu *gpu)
{
	int rc = cuda_runtime_check(&gpu->plat);

	return rc || !handler ? rc : cuda_handler_check(kind, handler, ring_cnt, gpu);
}

/* ---- memory shared with the device ---- */

/* Memory that both sides map. It is allocated with the NUMA preference set, because CUDA offers no
 * way to name a node. */
void *spw_cuda_host_alloc(struct spw_exec *exec, size_t bytes)
{
	bool bind = exec->conf.numa_node >= 0 && numa_available() >= 0 &&
		    exec->conf.numa_node <= numa_max_node();
	void *p = NULL;
	int rc;

	if (bind)
		numa_set_preferred(exec->conf.numa_node);
	rc = (int)cudaHostAlloc(&p, bytes, cudaHostAllocMapped | cudaHostAllocPortable);
	if (bind)
		numa_set_localalloc();
	if (rc) {
		spw_cuda_err(rc, "cudaHostAlloc of a ring");
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

/* ---- clocks ---- */

/* An estimate of the GPU's timer from the pair taken at open: good enough to extend 56-bit stamps,
 * without asking the GPU. */
uint64_t spw_cuda_exec_now(struct spw_gring *ring)
{
	struct spw_exec *exec = ring->exec;
	struct spw_cuda_exec *c = exec->backend;

	return c->pair_exec + spw_tsc_to_ns(&exec->tsc, spw_tsc_now() - c->pair_tsc);
}

static int cuda_pair_clock(struct spw_exec *exec, uint64_t *exec_ticks_out, uint64_t *tsc_out,
			   uint64_t *unc_ns_out)
{
	struct spw_cuda_exec *c = exec->backend;
	struct spw_clock_words *dev;
	uint64_t best = ~0ull, limit = spw_tsc_from_ns(&exec->tsc, 50000000);

	memset(c->clock, 0, sizeof(*c->clock));
	SPW_CUDA_TRY(cudaHostGetDevicePointer((void **)&dev, c->clock, 0));
	SPW_CUDA_TRY(spw_cuda_clock_launch(dev, c->clock_stream));
	for (uint64_t i = 1; i <= SPW_CLOCK_ROUNDS; i++) {
		uint64_t before = spw_tsc_now_ordered(), after, width;

		spw_gpu_store_rel64(&c->clock->asked, i);
		/* [G5 acquire, pairs with the fence in clock.cu] */
		while (spw_gpu_load_acq64(&c->clock->answered) != i &&
		       spw_tsc_now() - before < limit)
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
	/* At most 20 ms: the kernel is bounded. */
	SPW_CUDA_TRY(cudaStreamSynchronize(c->clock_stream));
	if (best == ~0ull)
		return spw_err(EIO, "CUDA: the device did not answer with its clock within 50 ms");
	*unc_ns_out = spw_tsc_to_ns(&exec->tsc, best) / 2 + c->clock->step_ns;
	return 0;
}

/* ---- open ---- */

/* The kernels of each ring's handler; info_out holds for all of them. */
static int cuda_rings_load(const struct spw_exec *exec, struct spw_kernel_info *info_out)
{
	const struct spw_cuda_exec *c = exec->backend;
	int rc = 0;

	*info_out = (struct spw_kernel_info){.cta_max = UINT32_MAX, .threads_max = UINT32_MAX};
	for (uint16_t r = 0; !rc && r < exec->conf.ring_cnt; r++) {
		struct spw_kernel_info info = {0};

		rc = cuda_kernels_load(spw_exec_handler(exec, r), exec->code[r], c->threads,
				       &exec->gpu.plat, &info);
		info_out->cta_max = SPW_MIN(info_out->cta_max, info.cta_max);
		info_out->threads_max = SPW_MIN(info_out->threads_max, info.threads_max);
	}
	return rc;
}

/* How many CTAs a ring gets: the configured number, else the default, cut to what the device can
 * hold at once. All CTAs of a resident kernel must be resident together: one that waits for another
 * to end would wait forever. */
static int cuda_units_choose(struct spw_exec *exec)
{
	struct spw_cuda_exec *c = exec->backend;
	struct spw_kernel_info info = {0};
	bool persistent = exec->conf.kind == SPW_EXEC_CUDA_PERSISTENT;
	int rc;

	c->threads = cuda_kind_threads(exec->conf.kind);
	if (persistent)
		exec->share_log2 = spw_log2_floor64(exec->conf.share_bytes ? exec->conf.share_bytes
									   : SHARE_BYTES);
	exec->unit_cnt = exec->conf.cta_per_ring;
	if (!exec->unit_cnt)
		exec->unit_cnt = persistent ? PERSISTENT_UNITS : LAUNCH_UNITS;
	rc = cuda_rings_load(exec, &info);
	if (rc)
		return rc;
	if (info.threads_max < c->threads)
		c->threads = info.threads_max & ~31u;
	info.cta_max -= SPW_MIN(info.cta_max, exec->conf.cta_beside);
	if (persistent && !exec->conf.cta_per_ring)
		exec->unit_cnt =
			SPW_MIN(exec->unit_cnt, SPW_MAX(1u, info.cta_max / exec->conf.ring_cnt));
	if (!exec->conf.cta_per_ring)
		exec->unit_cnt = SPW_MIN(exec->unit_cnt, exec->conf.batch_cnt);
	if (exec->unit_cnt > SPW_GRING_UNIT_MAX || exec->unit_cnt > exec->conf.batch_cnt)
		return spw_err(EINVAL,
			       "executor: %u CTAs a ring; at most %u, and at most one a batch (%u)",
			       exec->unit_cnt, SPW_GRING_UNIT_MAX, exec->conf.batch_cnt);
	if (persistent && exec->unit_cnt * exec->conf.ring_cnt > info.cta_max)
		return spw_err(ENOTSUP,
			       "executor: %u rings of %u CTAs; only %u CTAs of handler %s are "
			       "resident at once on %s",
			       exec->conf.ring_cnt, exec->unit_cnt, info.cta_max,
			       spw_exec_handler(exec, 0)->name, exec->gpu.plat.name);
	return 0;
}

/* A GPU that drives a display kills kernels that run for seconds. There the resident kernel ends
 * itself in time and is launched again; nothing is lost, and it is reported once. */
static int cuda_device_open(struct spw_exec *exec)
{
	struct spw_cuda_exec *c = exec->backend;
	int limited = 0, rc = cuda_device_select();

	if (rc)
		return rc;
	snprintf(exec->device, sizeof(exec->device), "%s", exec->gpu.plat.name);
	SPW_CUDA_TRY(cudaDeviceGetAttribute(&limited, cudaDevAttrKernelExecTimeout, 0));
	c->life_ns = exec->conf.life_ms * 1000000ull;
	if (limited && (!c->life_ns || c->life_ns > BOUNDED_LIFE_NS)) {
		c->life_ns = BOUNDED_LIFE_NS;
		spw_info("executor: %s has an execution time limit, so the resident kernel is "
			 "relaunched every %llu ms",
			 exec->gpu.plat.name, BOUNDED_LIFE_NS / 1000000);
	}
	return cuda_units_choose(exec);
}

static int cuda_clock_open(struct spw_exec *exec)
{
	struct spw_cuda_exec *c = exec->backend;
	uint64_t unused;

	SPW_CUDA_TRY(cudaStreamCreateWithFlags(&c->clock_stream, cudaStreamNonBlocking));
	c->clock = spw_cuda_host_alloc(exec, sizeof(*c->clock));
	if (!c->clock)
		return -ENOMEM;
	exec->clock_hz = 1000000000;
	return cuda_pair_clock(exec, &c->pair_exec, &c->pair_tsc, &unused);
}

/* What a copy of a state needs: made now, as nothing may be allocated while a kernel is resident.
 */
static int cuda_state_open(struct spw_exec *exec)
{
	struct spw_cuda_exec *c = exec->backend;
	size_t bytes = 0;

	for (uint16_t i = 0; i < exec->conf.ring_cnt; i++) {
		const struct spw_handler_state *state = spw_exec_handler(exec, i)->state;

		bytes = state ? SPW_MAX(bytes, state->bytes) : bytes;
	}
	if (!bytes)
		return 0;
	SPW_CUDA_TRY(cudaStreamCreateWithFlags(&c->state_stream, cudaStreamNonBlocking));
	c->state_copy = spw_cuda_host_alloc(exec, bytes);
	return c->state_copy ? 0 : -ENOMEM;
}

/* A stream of its own waits for no resident kernel. The copy goes through the L2 cache, where the
 * additions of the kernel are made. */
static const void *cuda_state(struct spw_exec *exec, uint16_t ring)
{
	struct spw_cuda_exec *c = exec->backend;
	int rc = (int)cudaMemcpyAsync(c->state_copy, c->ring[ring].args.state,
				      spw_exec_handler(exec, ring)->state->bytes,
				      cudaMemcpyDeviceToHost, c->state_stream);

	rc = rc ? rc : (int)cudaStreamSynchronize(c->state_stream);
	if (rc)
		spw_cuda_err(rc, "copying a handler's state");
	return rc ? NULL : c->state_copy;
}

static int cuda_exec_open(struct spw_exec *exec)
{
	struct spw_cuda_exec *c = calloc(1, sizeof(*c));
	int rc;

	exec->backend = c;
	if (!c)
		return spw_err(ENOMEM, "executor: no memory");
	rc = cuda_device_open(exec);
	if (rc)
		return rc;
	c->ring = calloc(exec->conf.ring_cnt, sizeof(*c->ring));
	if (!c->ring)
		return spw_err(ENOMEM, "executor: no memory");
	rc = cuda_state_open(exec);
	return rc ? rc : cuda_clock_open(exec);
}

static void cuda_stat(struct spw_exec *exec, struct spw_exec_stat *stat)
{
	struct spw_cuda_exec *c = exec->backend;

	stat->relaunched = spw_thr_load_rlx(&c->relaunched);
	for (uint16_t i = 0; i < exec->conf.ring_cnt; i++) {
		stat->frames += spw_gring_executed(&exec->ring[i]);
		stat->batches += spw_thr_load_rlx(&exec->ring[i].tail_seq);
		stat->kernel_launches += spw_thr_load_rlx(&c->ring[i].launches);
		stat->flushes += spw_thr_load_rlx(&c->ring[i].flushes);
	}
}

/* After stop: no kernel of the ring runs. */
static void cuda_ring_close(struct spw_exec *exec, struct spw_cuda_ring *r)
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
	cudaFree(r->args.relay);
	cudaFree(r->args.state);
	if (r->ctl)
		cudaFreeHost(r->ctl);
}

static void cuda_exec_close(struct spw_exec *exec)
{
	struct spw_cuda_exec *c = exec->backend;

	for (uint16_t i = 0; c->ring && i < exec->conf.ring_cnt; i++)
		cuda_ring_close(exec, &c->ring[i]);
	if (c->clock_stream)
		cudaStreamDestroy(c->clock_stream);
	if (c->clock)
		cudaFreeHost(c->clock);
	if (c->state_stream)
		cudaStreamDestroy(c->state_stream);
	if (c->state_copy)
		cudaFreeHost(c->state_copy);
	free(c->ring);
	free(c);
}

const struct spw_exec_ops spw_exec_cuda_ops = {
	.device = "GPU",
	.batch_cnt = 256,
	.check = cuda_check,
	.open = cuda_exec_open,
	.prepare = spw_cuda_prepare,
	.alloc = spw_cuda_host_alloc,
	.free = cuda_host_free,
	.start = spw_cuda_start,
	.beat = spw_cuda_beat,
	.service = spw_cuda_service,
	.stop = spw_cuda_stop,
	.stat = cuda_stat,
	.pair_clock = cuda_pair_clock,
	.state = cuda_state,
	.close = cuda_exec_close,
};
