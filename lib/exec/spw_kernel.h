/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the host gives a kernel of the executor, and the words that they share besides the ring
 * (spw_gring.h).
 *
 *   field        place          writer   reader   order
 *   -----------  -------------  -------  -------  ---------------------------------------------
 *   ctl          host memory    owner    kernel   G3: stop released, beat relaxed; unit 0 reads
 *                                                 both with acquire about every 20 µs
 *   relay        device memory  unit 0   units    what unit 0 last read of ctl, device scope, stop
 *                                                 released
 *   unit[u].left host memory    kernel   host     G4: relaxed, system scope
 *   unit[u]      host memory    kernel   kernel,  persistent: read when a kernel starts, written
 *                                        host     when it ends; by the host only in between
 *   unit[u]      device memory  kernel   kernel   graph, launch: one launch after the other
 *   state        device memory  kernel   host     relaxed additions at device scope; the host
 *                                                 samples a copy, exact once kernels have ended
 *
 * stop = 1: leave when the ring is empty. It is released after the last push and acquired before
 * the last poll of the ring, so that no batch is left (G3). stop = 2: leave after the batches that
 * were taken. Only unit 0 reads ctl, since CTAs that read one address of host memory wait for each
 * other, 1.4 µs each on an H100. When one unit has left, the host makes the others leave (stop = 2)
 * and launches all of them again. Stream order keeps one kernel's accesses to unit[] before the
 * next's.
 */
#ifndef SPW_EXEC_KERNEL_H
#define SPW_EXEC_KERNEL_H

#include "exec/spw_gring.h"
#include "exec/spw_pause.h"
#include "mem/spw_mem.h"

/* Threads of a CTA of the resident kernel, at most: 28 warps, 26 of them workers. With
 * SPW_WALK_DEPTH loads a lane they have 65 KiB in flight, so a frame of 64 KiB is read in one turn;
 * 72 registers a thread are enough for that. */
#define SPW_KERNEL_THREADS 896u

/* Values of spw_kernel_ctl.stop. */
enum spw_kernel_stop {
	SPW_KERNEL_RUN = 0,
	SPW_KERNEL_STOP_EMPTY = 1,
	SPW_KERNEL_STOP_NOW = 2,
};

/* The words by which the host controls resident kernels. */
struct spw_kernel_ctl {
	uint64_t stop; /* enum spw_kernel_stop */
	uint64_t beat; /* a change means that the host is alive */
} SPW_ALIGNED(128);

/* Why a unit left. */
enum spw_kernel_left {
	SPW_KERNEL_LEFT_NOT,
	SPW_KERNEL_LEFT_STOP,
	SPW_KERNEL_LEFT_BEAT,  /* no heartbeat for beat_timeout_ns */
	SPW_KERNEL_LEFT_LIFE,  /* end of a bounded life */
	SPW_KERNEL_LEFT_FAULT, /* entry 0 announced a descriptor that never came: must not happen */
};

/* One executing unit: where it continues. */
struct spw_kernel_unit {
	uint64_t next_seq; /* first batch that it has not finished */
	uint64_t frames;   /* executed since the executor started, modulo 2^32 */
	uint64_t left;     /* enum spw_kernel_left */
	uint64_t reserved;
} SPW_ALIGNED(32);

/* Kernel parameters, by value. All addresses are the device's. */
struct spw_kernel_ring {
	struct spw_gring_desc *desc;
	struct spw_gring_done *done;
	struct spw_kernel_ctl *ctl;
	struct spw_kernel_unit *unit;
	struct spw_kernel_ctl *relay;
	struct spw_pauses *pauses;
	void *state; /* the handler's block of this ring, device memory; NULL: it has none */
	uint64_t region_base[SPW_REGION_MAX];
	uint64_t beat_timeout_ns;
	uint64_t life_ns; /* the kernel leaves after this long, whatever happens; 0: unbounded */
	uint32_t batch_log2;
	uint32_t unit_cnt;
};

/* What loading a handler's kernels found out. */
struct spw_kernel_info {
	uint32_t cta_max;     /* CTAs of the persistent kernel that fit the device at once */
	uint32_t threads_max; /* per CTA */
	uint32_t regs;
	uint32_t local_bytes; /* per thread; not 0: registers spill */
};

#endif
