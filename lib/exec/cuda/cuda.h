/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What cuda.c (open, clocks, memory, close) and run.c (start, service, stop) share.
 */
#ifndef EXEC_CUDA_H
#define EXEC_CUDA_H

#include <cuda_runtime_api.h>

#include "exec/cuda/clock.h"
#include "exec/exec.h"
#include "exec/spw_kernel.h"

/* The device side of one ring. */
struct spw_cuda_ring {
	struct spw_kernel_ring args;
	const struct spw_handler_cuda *code;     /* of the ring's handler */
	struct spw_kernel_ctl *ctl;              /* host address */
	struct spw_kernel_unit *unit;            /* persistent: host address; else device */
	cudaStream_t stream[SPW_GRING_UNIT_MAX]; /* persistent: [0]; else one per unit */
	cudaGraph_t graph[SPW_GRING_UNIT_MAX];
	cudaGraphExec_t graph_exec[SPW_GRING_UNIT_MAX];
	bool running, asked_to_leave;
	uint64_t launches, flushes;
};

/* The backend's part of an executor (spw_exec.backend). */
struct spw_cuda_exec {
	struct spw_cuda_ring *ring; /* [ring_cnt] */
	cudaStream_t clock_stream;
	cudaStream_t state_stream; /* copies of states, while kernels run */
	void *state_copy;          /* as large as the largest state; NULL: no handler has one */
	struct spw_clock_words *clock;
	uint64_t pair_exec, pair_tsc; /* one pair of clock readings, to extend stamps */
	uint64_t relaunched, life_ns;
	uint32_t threads;
	int failed; /* first error of a launch or flush on the data path */
};

/* Purpose: error text "CUDA: what: reason". Returns -ENOMEM or -EIO. */
int spw_cuda_err(int rc, const char *what);
void *spw_cuda_host_alloc(struct spw_exec *exec, size_t bytes);
uint64_t spw_cuda_exec_now(struct spw_gring *ring);
int spw_cuda_prepare(struct spw_exec *exec);
int spw_cuda_start(struct spw_exec *exec);
void spw_cuda_beat(struct spw_exec *exec, uint16_t ring);
int spw_cuda_service(struct spw_exec *exec);
int spw_cuda_stop(struct spw_exec *exec, uint32_t timeout_ms);

#define SPW_CUDA_TRY(call)                                  \
	do {                                                \
		int try_rc = (int)(call);                   \
		if (try_rc)                                 \
			return spw_cuda_err(try_rc, #call); \
	} while (0)

#endif
