/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The three CUDA executors, host side: start, the launches on the data path, the control of the
 * resident kernel, stop.
 *
 * Only the launch and graph backends call the driver from the lcore, in their launch. The resident
 * kernel is controlled through spw_kernel_ctl alone (exec/spw_kernel.h); the control thread finds
 * out that it left by cudaStreamQuery and launches it again.
 *
 * Who does what with a resident kernel:
 *
 *   setup     open (prepare): allocates everything; start: launches one kernel per ring
 *   owner     push writes descriptors; beat: ctl.beat = now, in housekeeping
 *   kernel    polls descriptors; every 20 µs unit 0 reads ctl (stop, beat), relays it to the others
 *   control   service: cudaStreamQuery; a unit that left (no beat, end of life) ─► stop = NOW for
 *             the others ─► stream is done ─► launch again; next_seq of each unit says where
 *             it continues, so no batch is executed twice and none is skipped
 *
 * cudaMalloc waits for running kernels, and a resident one does not end: so nothing is allocated
 * after open, and an executor can be started while the kernel of another is resident. All executors
 * of a process are opened before the first is started.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/spw_err.h"
#include "exec/cuda/cuda.h"

#define BEAT_TIMEOUT_MS 1000u

/* ---- prepare ---- */

/* Unit u begins with batch u and takes every unit_cnt-th. A resident kernel's state is in host
 * memory, where the host can read it after the kernel has left; the others keep it on the device.
 */
static int cuda_unit_state_make(struct spw_exec *exec, struct spw_cuda_ring *r)
{
	struct spw_kernel_unit first[SPW_GRING_UNIT_MAX];
	size_t bytes = exec->unit_cnt * sizeof(first[0]);

	memset(first, 0, sizeof(first));
	for (uint32_t u = 0; u < exec->unit_cnt; u++)
		first[u].next_seq = u;
	if (exec->conf.kind != SPW_EXEC_CUDA_PERSISTENT) {
		SPW_CUDA_TRY(cudaMalloc((void **)&r->unit, bytes));
		SPW_CUDA_TRY(cudaMemcpy(r->unit, first, bytes, cudaMemcpyHostToDevice));
		r->args.unit = r->unit;
		return 0;
	}
	r->unit = spw_cuda_host_alloc(exec, bytes);
	if (!r->unit)
		return -ENOMEM;
	memcpy(r->unit, first, bytes);
	SPW_CUDA_TRY(cudaHostGetDevicePointer((void **)&r->args.unit, r->unit, 0));
	return 0;
}

/* The launch of a batch as a graph of one kernel node: replaying it costs the driver less than a
 * launch. The batch number is not a parameter; each unit's next_seq in device memory is. */
static int cuda_graph_make(struct spw_exec *exec, struct spw_cuda_ring *r, uint32_t u)
{
	struct spw_cuda_exec *c = exec->backend;
	int rc;

	SPW_CUDA_TRY(cudaStreamBeginCapture(r->stream[u], cudaStreamCaptureModeThreadLocal));
	rc = r->code->batch(&r->args, u, c->threads, r->stream[u]);
	SPW_CUDA_TRY(cudaStreamEndCapture(r->stream[u], &r->graph[u]));
	if (rc)
		return spw_cuda_err(rc, "capturing the batch kernel");
	SPW_CUDA_TRY(cudaGraphInstantiate(&r->graph_exec[u], r->graph[u], 0));
	SPW_CUDA_TRY(cudaGraphUpload(r->graph_exec[u], r->stream[u]));
	SPW_CUDA_TRY(cudaStreamSynchronize(r->stream[u]));
	return 0;
}

/* The block lies in device memory, where the additions of all warps meet; the host reads copies
 * (cuda_state). */
static int cuda_state_make(struct spw_cuda_ring *r, const struct spw_handler *handler)
{
	if (!handler->state)
		return 0;
	SPW_CUDA_TRY(cudaMalloc(&r->args.state, handler->state->bytes));
	SPW_CUDA_TRY(cudaMemcpy(r->args.state, handler->initial, handler->state->bytes,
				cudaMemcpyHostToDevice));
	return 0;
}

static int cuda_ring_open(struct spw_exec *exec, uint16_t index)
{
	struct spw_cuda_exec *c = exec->backend;
	struct spw_cuda_ring *r = &c->ring[index];
	struct spw_gring *ring = &exec->ring[index];
	bool persistent = exec->conf.kind == SPW_EXEC_CUDA_PERSISTENT;
	int rc;

	r->code = exec->code[index];
	r->ctl = spw_cuda_host_alloc(exec, sizeof(*r->ctl));
	if (!r->ctl)
		return -ENOMEM;
	SPW_CUDA_TRY(cudaHostGetDevicePointer((void **)&r->args.ctl, r->ctl, 0));
	SPW_CUDA_TRY(cudaMalloc((void **)&r->args.relay, sizeof(*r->args.relay)));
	SPW_CUDA_TRY(cudaHostGetDevicePointer((void **)&r->args.desc, ring->desc, 0));
	SPW_CUDA_TRY(cudaHostGetDevicePointer((void **)&r->args.done, ring->done, 0));
	SPW_CUDA_TRY(cudaHostGetDevicePointer((void **)&r->args.pauses, ring->pauses, 0));
	memcpy(r->args.region_base, exec->region_base, sizeof(r->args.region_base));
	r->args.batch_log2 = ring->batch_log2;
	r->args.unit_cnt = exec->unit_cnt;
	r->args.life_ns = c->life_ns;
	r->args.beat_timeout_ns =
		(exec->conf.beat_timeout_ms ? exec->conf.beat_timeout_ms : BEAT_TIMEOUT_MS) *
		1000000ull;
	for (uint32_t u = 0; u < (persistent ? 1 : exec->unit_cnt); u++)
		SPW_CUDA_TRY(cudaStreamCreateWithFlags(&r->stream[u], cudaStreamNonBlocking));
	ring->exec_now = spw_cuda_exec_now;
	rc = cuda_state_make(r, spw_exec_handler(exec, index));
	return rc ? rc : cuda_unit_state_make(exec, r);
}

/* The data path cannot report: the first error is kept for spw_cuda_service. */
static void cuda_kick_failed(struct spw_cuda_exec *c, int rc)
{
	if (rc && !c->failed)
		c->failed = rc;
}

/* Makes what the NIC wrote into the GPU's memory visible to its kernels, for devices that do not
 * keep such writes in order (CUDA driver API, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING;
 * a resident kernel belongs to the owner of the memory). The caller has polled the completion. */
static void cuda_flush_writes(struct spw_gring *ring)
{
	struct spw_exec *exec = ring->exec;
	struct spw_cuda_exec *c = exec->backend;

	cuda_kick_failed(c, (int)cudaDeviceFlushGPUDirectRDMAWrites(
				    cudaFlushGPUDirectRDMAWritesTargetCurrentDevice,
				    cudaFlushGPUDirectRDMAWritesToOwner));
	spw_thr_count(&c->ring[spw_exec_ring_index(exec, ring)].flushes, 1);
}

static bool cuda_needs_flush(const struct spw_exec *exec)
{
	for (uint16_t i = 0; i < exec->conf.region_cnt; i++)
		if (exec->conf.region[i].flush)
			return true;
	return false;
}

/* The data path of the launch backend: one driver call per batch, on the stream of the batch's
 * unit. */
static void cuda_launch_kick(struct spw_gring *ring)
{
	struct spw_exec *exec = ring->exec;
	struct spw_cuda_exec *c = exec->backend;
	struct spw_cuda_ring *r = &c->ring[spw_exec_ring_index(exec, ring)];
	uint32_t u = (uint32_t)((ring->head_seq - 1) % exec->unit_cnt);

	cuda_kick_failed(c, r->code->batch(&r->args, u, c->threads, r->stream[u]));
	spw_thr_count(&r->launches, 1);
}

static void cuda_graph_kick(struct spw_gring *ring)
{
	struct spw_exec *exec = ring->exec;
	struct spw_cuda_exec *c = exec->backend;
	struct spw_cuda_ring *r = &c->ring[spw_exec_ring_index(exec, ring)];
	uint32_t u = (uint32_t)((ring->head_seq - 1) % exec->unit_cnt);

	cuda_kick_failed(c, (int)cudaGraphLaunch(r->graph_exec[u], r->stream[u]));
	spw_thr_count(&r->launches, 1);
}

int spw_cuda_prepare(struct spw_exec *exec)
{
	struct spw_cuda_exec *c = exec->backend;
	const bool graph = exec->conf.kind == SPW_EXEC_CUDA_GRAPH;
	int rc = 0;

	for (uint16_t i = 0; !rc && i < exec->conf.ring_cnt; i++) {
		exec->ring[i].flush = cuda_needs_flush(exec) ? cuda_flush_writes : NULL;
		if (exec->conf.kind != SPW_EXEC_CUDA_PERSISTENT)
			exec->ring[i].kick = graph ? cuda_graph_kick : cuda_launch_kick;
		rc = cuda_ring_open(exec, i);
		for (uint32_t u = 0; graph && !rc && u < exec->unit_cnt; u++)
			rc = cuda_graph_make(exec, &c->ring[i], u);
	}
	return rc;
}

/* ---- start ---- */

/* The control words are set before the launch, and the relay in device memory is cleared in stream
 * order. Called with no kernel of this ring running. */
static int cuda_persistent_launch(struct spw_exec *exec, struct spw_cuda_ring *r,
				  enum spw_kernel_stop stop)
{
	struct spw_cuda_exec *c = exec->backend;
	int rc;

	for (uint32_t u = 0; u < exec->unit_cnt; u++)
		r->unit[u].left = SPW_KERNEL_LEFT_NOT;
	r->asked_to_leave = false;
	spw_gpu_store_rel64(&r->ctl->beat, spw_tsc_now());
	spw_gpu_store_rel64(&r->ctl->stop, stop);
	SPW_CUDA_TRY(cudaMemsetAsync(r->args.relay, 0, sizeof(*r->args.relay), r->stream[0]));
	rc = r->code->persistent(&r->args, c->threads, r->stream[0]);
	if (rc)
		return spw_cuda_err(rc, "launching the resident kernel");
	r->running = true;
	return 0;
}

int spw_cuda_start(struct spw_exec *exec)
{
	struct spw_cuda_exec *c = exec->backend;
	int rc = 0;

	if (exec->conf.kind == SPW_EXEC_CUDA_PERSISTENT)
		for (uint16_t i = 0; !rc && i < exec->conf.ring_cnt; i++)
			rc = cuda_persistent_launch(exec, &c->ring[i], SPW_KERNEL_RUN);
	return rc;
}

/* ---- while it runs ---- */

void spw_cuda_beat(struct spw_exec *exec, uint16_t ring)
{
	struct spw_cuda_exec *c = exec->backend;

	spw_gpu_store_rlx64(&c->ring[ring].ctl->beat, spw_tsc_now());
}

/* Whether a unit has left by itself: its batches then wait until all units have left and are
 * launched again. */
static bool cuda_some_unit_left(const struct spw_exec *exec, const struct spw_cuda_ring *r)
{
	for (uint32_t u = 0; u < exec->unit_cnt; u++) {
		uint64_t left = spw_gpu_load_acq64(&r->unit[u].left); /* [G4] */

		if (left != SPW_KERNEL_LEFT_NOT && left != SPW_KERNEL_LEFT_STOP)
			return true;
	}
	return false;
}

static int cuda_unit_fault(const struct spw_exec *exec, const struct spw_cuda_ring *r)
{
	for (uint32_t u = 0; u < exec->unit_cnt; u++)
		if (r->unit[u].left == SPW_KERNEL_LEFT_FAULT)
			return spw_err(EIO, "executor: unit %u found a damaged descriptor ring", u);
	return 0;
}

/* Updates r->running from the stream, and makes all units leave if one has. Returns 0 or -EIO. */
static int cuda_persistent_poll(struct spw_exec *exec, struct spw_cuda_ring *r)
{
	int rc = (int)cudaStreamQuery(r->stream[0]);

	if (rc && rc != cudaErrorNotReady)
		return spw_cuda_err(rc, "the resident kernel");
	if (rc == cudaErrorNotReady) {
		if (!r->asked_to_leave && cuda_some_unit_left(exec, r)) {
			spw_gpu_store_rel64(&r->ctl->stop, SPW_KERNEL_STOP_NOW);
			r->asked_to_leave = true;
		}
		return 0;
	}
	r->running = false;
	return cuda_unit_fault(exec, r);
}

int spw_cuda_service(struct spw_exec *exec)
{
	struct spw_cuda_exec *c = exec->backend;
	int rc = 0;

	if (c->failed)
		return spw_cuda_err(c->failed, "a launch or flush for a batch");
	if (exec->conf.kind != SPW_EXEC_CUDA_PERSISTENT) {
		for (uint16_t i = 0; i < exec->conf.ring_cnt; i++)
			for (uint32_t u = 0; u < exec->unit_cnt; u++) {
				rc = (int)cudaStreamQuery(c->ring[i].stream[u]);
				if (rc && rc != cudaErrorNotReady)
					return spw_cuda_err(rc, "a batch kernel");
			}
		return 0;
	}
	for (uint16_t i = 0; !rc && i < exec->conf.ring_cnt; i++) {
		struct spw_cuda_ring *r = &c->ring[i];

		if (!r->running)
			continue;
		rc = cuda_persistent_poll(exec, r);
		if (!rc && !r->running) {
			spw_thr_count(&c->relaunched, 1);
			rc = cuda_persistent_launch(exec, r, SPW_KERNEL_RUN);
		}
	}
	return rc;
}

/* ---- stop ---- */

/* Whether a unit has not reached the head: it left before everything that was pushed was executed.
 */
static bool cuda_work_left(const struct spw_exec *exec, uint16_t index)
{
	const struct spw_cuda_exec *c = exec->backend;
	const struct spw_gring *ring = &exec->ring[index];

	for (uint32_t u = 0; u < exec->unit_cnt; u++)
		if (c->ring[index].unit[u].next_seq < ring->head_seq)
			return true;
	return false;
}

/* One turn of waiting for a ring's kernel. Returns 1 while it runs, 0 when it ended, or -EIO. */
static int cuda_persistent_stop_turn(struct spw_exec *exec, uint16_t index,
				     enum spw_kernel_stop stop)
{
	struct spw_cuda_exec *c = exec->backend;
	struct spw_cuda_ring *r = &c->ring[index];
	int rc;

	if (!r->running)
		return 0;
	if (!r->asked_to_leave)
		/* [G3 release, pairs with the pollers' acquire] */
		spw_gpu_store_rel64(&r->ctl->stop, stop);
	spw_cuda_beat(exec, index);
	rc = cuda_persistent_poll(exec, r);
	if (rc || r->running)
		return rc ? rc : 1;
	/* It left for another reason. */
	if (stop == SPW_KERNEL_STOP_EMPTY && cuda_work_left(exec, index)) {
		spw_thr_count(&c->relaunched, 1);
		rc = cuda_persistent_launch(exec, r, stop);
		return rc ? rc : 1;
	}
	return 0;
}

static int cuda_launch_stop_turn(struct spw_exec *exec, uint16_t index)
{
	struct spw_cuda_exec *c = exec->backend;

	for (uint32_t u = 0; u < exec->unit_cnt && c->ring[index].stream[u]; u++) {
		int rc = (int)cudaStreamQuery(c->ring[index].stream[u]);

		if (rc == cudaErrorNotReady)
			return 1;
		if (rc)
			return spw_cuda_err(rc, "a batch kernel");
	}
	return 0;
}

/* Returns 0 when all have ended, 1 on timeout, -EIO. */
static int cuda_stop_wait(struct spw_exec *exec, enum spw_kernel_stop stop, uint32_t timeout_ms)
{
	uint64_t begin = spw_tsc_now(),
		 limit = spw_tsc_from_ns(&exec->tsc, timeout_ms * 1000000ull);
	const struct timespec nap = {.tv_nsec = 50000};

	for (;;) {
		int busy = 0;

		for (uint16_t i = 0; i < exec->conf.ring_cnt; i++) {
			int rc = exec->conf.kind == SPW_EXEC_CUDA_PERSISTENT
					 ? cuda_persistent_stop_turn(exec, i, stop)
					 : cuda_launch_stop_turn(exec, i);

			if (rc < 0)
				return rc;
			busy |= rc;
		}
		if (!busy || spw_tsc_now() - begin > limit)
			return busy;
		nanosleep(&nap, NULL);
	}
}

/* As cpu_stop: leave when empty, then leave now, then -EBUSY. */
int spw_cuda_stop(struct spw_exec *exec, uint32_t timeout_ms)
{
	struct spw_cuda_exec *c = exec->backend;
	int rc;

	if (!c || !c->ring)
		return 0;
	rc = cuda_stop_wait(exec, SPW_KERNEL_STOP_EMPTY, timeout_ms);
	if (rc <= 0)
		return rc;
	rc = cuda_stop_wait(exec, SPW_KERNEL_STOP_NOW, SPW_MIN(timeout_ms, 2000u));
	if (rc < 0)
		return rc;
	if (rc)
		return spw_err(EBUSY, "executor: a kernel does not end: handler %s does not return",
			       spw_exec_handler(exec, 0)->name);
	return spw_err(ETIME, "executor: stopped with batches undone");
}
