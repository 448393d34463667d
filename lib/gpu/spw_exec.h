/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Executors: who runs the handler. Five backends behind one header and one ring (gpu/spw_gring.h).
 *
 *   inline           the lcore itself, inside push                         no second core needed
 *   cpu              a thread of its own that spins on the ring            stands where the GPU would
 *   cuda-persistent  resident CTAs that spin on the ring                   no driver call on the data path
 *   cuda-graph       one graph launch per push                             kick calls the driver
 *   cuda-launch      one kernel launch per push                            kick calls the driver
 *
 * The resident kernel ends on stop, on the death of the process (the driver tears the context down), and when the host
 * stops beating: spw_exec_beat is called by the owner in housekeeping; after beat_timeout_ms without one, or at the end
 * of a bounded life where the device has an execution time limit, each CTA leaves between two batches. Its state is all in
 * host memory, spw_exec_service launches it again, and nothing is lost or done twice. Such an event is counted.
 */
#ifndef SPW_GPU_EXEC_H
#define SPW_GPU_EXEC_H

#include "gpu/spw_gring.h"
#include "mem/spw_mem.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spw_exec_kind {
	SPW_EXEC_AUTO, /* resolved by spw_exec_choose */
	SPW_EXEC_INLINE,
	SPW_EXEC_CPU,
	SPW_EXEC_CUDA_PERSISTENT,
	SPW_EXEC_CUDA_GRAPH,
	SPW_EXEC_CUDA_LAUNCH,
	SPW_EXEC_KIND_CNT
};

const char *spw_exec_kind_name(enum spw_exec_kind kind);
int spw_exec_kind_parse(const char *name, enum spw_exec_kind *kind_out); /* -EINVAL lists the names */

/* Purpose: what AUTO means here: a GPU if one is usable, else cpu if spare_cores > 0, else inline.
 * why_out gets one clause for the log and the summary. Thread: setup. */
enum spw_exec_kind spw_exec_choose(uint32_t spare_cores, char *why_out, size_t why_bytes);

struct spw_handler; /* gpu/spw_handler.h */

struct spw_exec_conf {
	enum spw_exec_kind kind;            /* not AUTO */
	const struct spw_handler *handler;  /* outlives the executor */
	uint16_t ring_cnt;                  /* one per lcore */
	uint32_t batch_cnt;                 /* per ring, a power of 2, 2 .. SPW_GRING_BATCH_MAX; 0: the backend's choice */
	const struct spw_region *region;    /* [region_cnt], indexed by region id; dev_va is what the executor adds to */
	uint16_t region_cnt;
	const int *cpu;                     /* CPU backend: core of each ring's thread, -1 not pinned; NULL: none pinned; outlives the executor */
	uint16_t cta_per_ring;              /* CUDA; 0: measured default */
	uint32_t beat_timeout_ms;           /* persistent; 0: 1000 */
	uint32_t life_ms;                   /* persistent: renewed after so long; 0: never, but where the device has an
	                                       execution time limit */
	int numa_node;                      /* for ring memory; -1 any */
};

struct spw_exec;

struct spw_exec_stat {
	uint64_t batches, frames;           /* by the executor's own counters */
	uint64_t relaunched;                /* times the resident kernel was launched again */
	uint64_t kernel_launches;           /* driver calls made by kick */
	uint64_t h2d_copies;                /* host-to-device copies made: counted at the only place that could make one */
	char device[128];                   /* "NVIDIA H100 80GB HBM3", or "CPU thread", "lcore" */
};

/* Purpose: allocates everything (rings, streams, modules loaded eagerly), starts nothing.
 * Errors: -ENOTSUP no such backend or device here (says why and what would do), -ENOMEM, -EINVAL. Thread: setup. */
int spw_exec_open(const struct spw_exec_conf *conf, struct spw_exec **exec_out);
/* Lifetime: until close. Thread: any. */
struct spw_gring *spw_exec_ring(struct spw_exec *exec, uint16_t ring);
int spw_exec_start(struct spw_exec *exec);
/* Purpose: tells the executor that the host lives. One relaxed store. Thread: owner of that ring, in housekeeping. */
void spw_exec_beat(struct spw_exec *exec, uint16_t ring);
/* Purpose: control-thread turn, about every millisecond: relaunches a kernel that left, renews a bounded life, notices a
 * dead device. Returns 0, or -EIO when the executor cannot go on (exit status 4). Thread: one control thread. */
int spw_exec_service(struct spw_exec *exec);
/* Purpose: stops after what was pushed is done. Call when rings are drained, or after timeout_ms gives up on them.
 * Returns 0, -ETIME if units had to be abandoned with work in them. No GPU or thread is left spinning. Thread: setup. */
int spw_exec_stop(struct spw_exec *exec, uint32_t timeout_ms);
void spw_exec_stat(struct spw_exec *exec, struct spw_exec_stat *stat_out);
/* Purpose: executor clock beside the CPU's: both are read as close together as can be. For CPU backends they are the same
 * clock and the uncertainty is 0. Errors: -EIO. Thread: control. */
int spw_exec_pair_clock(struct spw_exec *exec, uint64_t *exec_ticks_out, uint64_t *tsc_out, uint64_t *uncertainty_ns_out);
uint64_t spw_exec_clock_hz(struct spw_exec *exec);
/* NULL is fine. */
void spw_exec_close(struct spw_exec *exec);

#ifdef __cplusplus
}
#endif
#endif
