/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Executors: who runs the handler. Five backends behind one header and one ring
 * (exec/spw_gring.h).
 *
 *   kind             runs the handler in                   driver calls in push    needs
 *   ---------------  ------------------------------------  ----------------------  -----------
 *   inline           the lcore itself, within push         none                    nothing
 *   cpu              a thread that polls the ring          none                    a spare core
 *   cuda-persistent  resident CTAs that poll the ring      none                    a GPU
 *   cuda-graph       one graph launch per push             one                     a GPU
 *   cuda-launch      one kernel launch per push            one                     a GPU
 *
 * A resident kernel ends on stop, on the death of the process (the driver tears the context down),
 * when the host's heartbeat fails, and at the end of a bounded life where the device has an
 * execution time limit. In the last two cases each CTA leaves between two batches; all its state is
 * in host memory, so spw_exec_service launches it again and no batch is lost or executed twice.
 * Each such event is counted.
 *
 *   owner    beat  beat  beat │ stopped by a debugger  │ beat
 *   kernel   polls ───────────┼─ beat_timeout_ms ─> left        polls ───>
 *   control                   │                        │ service: launches it again
 *
 * Threads: "setup" is the main thread before start and after stop; "owner" is the lcore that owns
 * the ring; "control" is the program's one control thread.
 */
#ifndef SPW_EXEC_H
#define SPW_EXEC_H

#include "exec/spw_gring.h"
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

/* Purpose: the kind's name, as users write it. Thread: any. */
const char *spw_exec_kind_name(enum spw_exec_kind kind);

struct spw_handler; /* exec/spw_handler.h */

#define SPW_EXEC_WHY_BYTES 512

/* Purpose: whether an executor of that kind, with that many rings, can run the handler on this
 *          machine. For the CUDA kinds its kernels are loaded onto the GPU. handler NULL: only
 *          whether the GPU and its driver are usable, which needs no context.
 * Errors:  -ENOTSUP with a text that names the GPU, what this build has and what to do.
 * Thread:  setup, before any executor is started. */
int spw_exec_check(enum spw_exec_kind kind, const struct spw_handler *handler, uint32_t ring_cnt);

/* Purpose: resolves AUTO: cuda-persistent if spw_exec_check lets it, else cpu if spare_cores > 0,
 *          else inline. why_out gets the reason in one clause, for the log and the summary.
 * Shape:   handler, ring_cnt as in spw_exec_check; why_bytes: SPW_EXEC_WHY_BYTES, else it is cut.
 * Thread:  as spw_exec_check. */
enum spw_exec_kind spw_exec_choose(const struct spw_handler *handler, uint32_t ring_cnt,
				   uint32_t spare_cores, char *why_out, size_t why_bytes);

struct spw_exec_conf {
	enum spw_exec_kind kind;           /* not AUTO */
	const struct spw_handler *handler; /* outlives the executor */
	/* [ring_cnt], outlives the executor: a handler for each ring; NULL: `handler` for all. */
	const struct spw_handler *const *ring_handler;
	uint16_t ring_cnt; /* rings, one per lcore */
	/* Batches per ring, a power of 2, 2 .. SPW_GRING_BATCH_MAX; 0: the backend's default. */
	uint32_t batch_cnt;
	/* [region_cnt], by region id. A frame's address is dev_va (GPU) or host_va + its offset. */
	const struct spw_region *region;
	uint16_t region_cnt;
	/* cpu: the core of each ring's thread, -1 for not bound; NULL: none is bound. Outlives the
	 * executor. */
	const int *cpu;
	uint16_t cta_per_ring; /* CUDA; 0: measured default */
	/* persistent: CTAs of other resident kernels of this process, which need a place beside. */
	uint32_t cta_beside;
	/* persistent: a unit's share of a large batch (spw_gring_push), a power of 2; 0: measured
	 * default. */
	uint32_t share_bytes;
	uint32_t beat_timeout_ms; /* persistent; 0: 1000 */
	/* persistent: relaunched after so long; 0: only where the device has an execution time
	 * limit. */
	uint32_t life_ms;
	int numa_node; /* of ring memory; -1: any */
};

struct spw_exec; /* opaque */

struct spw_exec_stat {
	uint64_t batches, frames; /* by the executor's own counters */
	uint64_t relaunched;      /* times the resident kernel was launched again */
	uint64_t kernel_launches; /* driver calls made by kick */
	uint64_t faults;          /* completions that spw_gring_reap refused */
	uint64_t flushes;         /* of a NIC's writes into GPU memory, one a push where needed */
	uint64_t h2d_copies;      /* host-to-device copies, counted where one could be made */
	char device[128];         /* "NVIDIA H100 80GB HBM3", "CPU thread" or "lcore" */
};

/* Purpose: allocates everything (rings, streams; modules are loaded now), starts nothing.
 * Shape:   no executor of the process runs a resident kernel: allocation would wait for its end.
 * Owner:   the caller, until spw_exec_close; conf's pointers as stated there.
 * Errors:  -ENOTSUP no such backend or device here (the text has the reason and a kind that would
 * work), -ENOMEM, -EINVAL. Thread:  setup. */
int spw_exec_open(const struct spw_exec_conf *conf, struct spw_exec **exec_out);

/* Purpose:  the ring with that index, below ring_cnt.
 * Lifetime: until spw_exec_close.
 * Thread:   any; the ring's calls belong to its owner. */
struct spw_gring *spw_exec_ring(struct spw_exec *exec, uint16_t ring);

/* Purpose: starts threads or kernels; batches may be pushed from now on.
 * Errors:  -errno with a text; nothing runs then.
 * Thread:  setup. */
int spw_exec_start(struct spw_exec *exec);

/* Purpose: the host's heartbeat for the executor of that ring.
 * Order:   none: one relaxed store.
 * Thread:  owner of that ring, in housekeeping. */
void spw_exec_beat(struct spw_exec *exec, uint16_t ring);

/* Purpose: the control thread's turn, about every millisecond: relaunches a kernel that left or
 *          whose bounded life ends, and detects a dead device.
 * Errors:  -EIO if the executor cannot go on (the program's exit status is then 4).
 * Thread:  control. */
int spw_exec_service(struct spw_exec *exec);

/* Purpose: stops the executor once everything pushed is done, or after timeout_ms.
 * Errors:  -ETIME if units were stopped with batches left in their rings (spw_pipe_reclaim returns
 *          the slots); -EBUSY if a handler does not return: its thread or kernel still runs and may
 *          touch rings and regions, so nothing may be freed; end the process by _exit.
 * Thread:  setup. */
int spw_exec_stop(struct spw_exec *exec, uint32_t timeout_ms);

/* Purpose: samples the executor's counters.
 * Thread:  any. */
void spw_exec_stat(struct spw_exec *exec, struct spw_exec_stat *stat_out);

/* Purpose: adds to sum, a block of the handler's state, what the handler counted on every ring that
 *          runs it.
 * Order:   relaxed samples while batches run; exact after spw_exec_stop.
 * Errors:  -EIO.
 * Thread:  any, one for each sum. */
int spw_exec_counters_add(struct spw_exec *exec, const struct spw_handler *handler, void *sum);

/* Purpose: reads the executor's clock and the CPU's as close together as possible; the uncertainty
 *          is half the bracket. CPU backends have the CPU's clock, and the uncertainty is 0.
 * Errors:  -EIO.
 * Thread:  control. */
int spw_exec_pair_clock(struct spw_exec *exec, uint64_t *exec_ticks_out, uint64_t *tsc_out,
			uint64_t *uncertainty_ns_out);

/* Purpose: the nominal rate of the executor's clock, ticks per second. Thread: any. */
uint64_t spw_exec_clock_hz(struct spw_exec *exec);

/* Purpose: stops and frees the executor, and adds what was counted to the handlers' totals; NULL is
 *          allowed. If a handler does not return (stop:
 *          -EBUSY), everything is left allocated, with a warning.
 * Thread:  setup. */
void spw_exec_close(struct spw_exec *exec);

#ifdef __cplusplus
}
#endif
#endif
