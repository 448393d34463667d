/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the backends share: the operations that each provides (exec.c calls through them), the
 * executor itself, and the parts of the two CPU backends.
 */
#ifndef EXEC_H
#define EXEC_H

#include <pthread.h>

#include "exec/spw_exec.h"
#include "exec/spw_handler.h"
#include "exec/spw_pause.h"
#include "plat/spw_plat.h"
#include "time/spw_time.h"

struct spw_cuda_module; /* cuda/spw_cuda.h */

/* The GPU of a CUDA executor, and what runs there (gpu.c). */
struct spw_exec_gpu {
	struct spw_plat_gpu plat;
	const struct spw_exec_ops *ops;
	const struct spw_cuda_module *module;
	const struct spw_handler_cuda *code; /* the handler's; NULL: no handler was given */
};

/* A backend. */
struct spw_exec_ops {
	const char *device; /* for CPU backends; CUDA fills exec->device */
	uint32_t batch_cnt; /* default */
	/* spw_exec_check on this GPU. NULL: it runs anywhere. */
	int (*check)(enum spw_exec_kind kind, const struct spw_handler *handler, uint32_t ring_cnt,
		     const struct spw_exec_gpu *gpu);
	/* Sets up one unit_cnt and share_log2 for all rings; called before the rings are made. */
	int (*open)(struct spw_exec *exec);
	/* Makes all else that start needs, once the rings are there; NULL: nothing. */
	int (*prepare)(struct spw_exec *exec);
	/* Memory of a ring: zeroed, aligned to 4096; NULL with a text. */
	void *(*alloc)(struct spw_exec *exec, size_t bytes);
	void (*free)(struct spw_exec *exec, void *p, size_t bytes);
	int (*start)(struct spw_exec *exec);
	void (*beat)(struct spw_exec *exec, uint16_t ring);
	int (*service)(struct spw_exec *exec);
	int (*stop)(struct spw_exec *exec, uint32_t timeout_ms);
	void (*stat)(struct spw_exec *exec, struct spw_exec_stat *stat);
	int (*pair_clock)(struct spw_exec *exec, uint64_t *exec_ticks_out, uint64_t *tsc_out,
			  uint64_t *unc_ns_out);
	/* A copy of a ring's block of handler state that the host can read, until the next call;
	 * NULL, with a text, if the device does not answer. No function: the blocks are host
	 * memory, which exec.c makes. */
	const void *(*state)(struct spw_exec *exec, uint16_t ring);
	/* After stop: frees what belongs to the backend; exec.c frees the rings afterwards. */
	void (*close)(struct spw_exec *exec);
};

extern const struct spw_exec_ops spw_exec_inline_ops, spw_exec_cpu_ops;
/* cuda/, in the CUDA module. */
extern const struct spw_exec_ops spw_exec_cuda_ops;

/* Purpose: the GPU, the module's backend, and the handler's device code.
 * Shape:   handler NULL: none is looked for.
 * Errors:  -ENOTSUP with a text that names the GPU and what to do.
 * Thread:  setup. */
int spw_exec_gpu_find(const struct spw_handler *handler, struct spw_exec_gpu *gpu_out);

/* Returns: the handler's device code, NULL: it has none. Thread: any. */
const struct spw_handler_cuda *spw_exec_device_code(const struct spw_handler *handler,
						    const struct spw_cuda_module *module);

/* One CPU unit: the inline executor's, or a thread's. It has its own cache lines: the thread
 * writes, others sample. */
struct spw_exec_cpu_unit {
	uint64_t next_seq; /* batches that it has executed, too */
	uint64_t frames;
	spw_handler_batch_fn *run; /* the handler's */
	struct spw_handler_env env;
} SPW_ALIGNED(2 * SPW_CACHE_LINE);
SPW_ASSERT_SIZE(struct spw_exec_cpu_unit, 2 * SPW_CACHE_LINE);

struct spw_exec {
	const struct spw_exec_ops *ops;
	struct spw_exec_conf conf;
	uint64_t region_base[SPW_REGION_MAX];
	struct spw_tsc tsc;
	struct spw_gring *ring;         /* [ring_cnt], each on lines of its own */
	struct spw_exec_cpu_unit *unit; /* [ring_cnt], CPU backends */
	pthread_mutex_t state_lock;     /* of ops->state */
	bool opened;                    /* spw_exec_open was good */
	uint32_t unit_cnt;              /* per ring */
	uint32_t share_log2;            /* spw_gring.share_log2 of each ring */
	uint64_t clock_hz;
	struct spw_exec_gpu gpu;              /* of a CUDA kind */
	const struct spw_handler_cuda **code; /* [ring_cnt], of a CUDA kind: the handlers' */
	char device[128];                     /* what spw_exec_stat shows */
	void *backend;
};

/* Index of a ring in its executor. */
SPW_INLINE uint16_t spw_exec_ring_index(const struct spw_exec *exec, const struct spw_gring *ring)
{
	return (uint16_t)(ring - exec->ring);
}

/* The handler that the ring's batches run. */
SPW_INLINE const struct spw_handler *spw_exec_conf_handler(const struct spw_exec_conf *conf,
							   uint16_t ring)
{
	return conf->ring_handler ? conf->ring_handler[ring] : conf->handler;
}

SPW_INLINE const struct spw_handler *spw_exec_handler(const struct spw_exec *exec, uint16_t ring)
{
	return spw_exec_conf_handler(&exec->conf, ring);
}

/* Purpose: executes the unit's next batch on this CPU if it has been pushed.
 * Shape:   start_tsc: a clock reading to be used as the batch's start; 0: read the clock once the
 *          batch is there.
 * Returns: whether there was one.
 * Order:   G1, G2. */
bool spw_exec_run_one(const struct spw_gring *ring, struct spw_exec_cpu_unit *unit,
		      uint64_t start_tsc);

/* What the CPU backends share: zeroed memory on conf.numa_node, the clock pair, the counters. */
void *spw_exec_host_alloc(struct spw_exec *exec, size_t bytes);
void spw_exec_host_free(struct spw_exec *exec, void *p, size_t bytes);
int spw_exec_cpu_pair_clock(struct spw_exec *exec, uint64_t *exec_ticks_out, uint64_t *tsc_out,
			    uint64_t *unc_ns_out);
void spw_exec_cpu_stat(struct spw_exec *exec, struct spw_exec_stat *stat);

#endif
