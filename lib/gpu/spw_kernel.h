/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the host gives a kernel of the executor, and the words that they share besides the ring (spw_gring.h).
 *
 *   field            place          writer   reader   order
 *   ---------------  -------------  -------  -------  ---------------------------------------------------------
 *   ctl.stop, .beat  host memory    owner    kernel   relaxed stores; read by unit 0 about every 20 µs. stop = 1: leave when
 *                                                     the ring is empty (G3: stored with release after the last push,
 *                                                     read with acquire before the last look at the ring); stop = 2:
 *                                                     leave after the batches that were taken
 *   relay.stop,.beat device memory  unit 0   units    what unit 0 last read of ctl, at device scope, stop with release: CTAs that
 *                                                     read one address of host memory wait for each other, 1.4 µs each
 *                                                     on an H100, so only one of them reads ctl
 *   unit[u].left     host memory    kernel   host     relaxed, system scope (G4): some unit left, so the host tells the
 *                    (persistent)                     others to leave (stop = 2) and launches all of them again
 *   unit[u]          host memory    kernel   kernel   read when the kernel starts, written when it ends; the host looks
 *                    (persistent)            or host  only while no kernel runs (stream order)
 *   unit[u]          device memory  kernel   kernel   read and written by one launch after the other (stream order)
 *                    (graph,launch)
 */
#ifndef SPW_GPU_KERNEL_H
#define SPW_GPU_KERNEL_H

#include "gpu/spw_gring.h"
#include "gpu/spw_pause.h"
#include "mem/spw_mem.h"

enum spw_kernel_stop {
	SPW_KERNEL_RUN = 0,
	SPW_KERNEL_STOP_EMPTY = 1,
	SPW_KERNEL_STOP_NOW = 2,
};

struct spw_kernel_ctl {
	uint64_t stop; /* enum spw_kernel_stop */
	uint64_t beat; /* any other value than last time means "alive" */
} SPW_ALIGNED(128);

/* Why a unit left. */
enum spw_kernel_left {
	SPW_KERNEL_LEFT_NOT,
	SPW_KERNEL_LEFT_STOP,
	SPW_KERNEL_LEFT_BEAT,  /* the host stopped beating */
	SPW_KERNEL_LEFT_LIFE,  /* end of a bounded life */
	SPW_KERNEL_LEFT_FAULT, /* a descriptor was announced and never came: the ring is damaged */
};

/* One executing unit: where it goes on. */
struct spw_kernel_unit {
	uint64_t next_seq; /* first batch that it has not finished */
	uint64_t frames;   /* executed since the executor started */
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
	uint64_t region_base[SPW_REGION_MAX];
	uint64_t beat_timeout_ns;
	uint64_t life_ns; /* the kernel leaves after this long, whatever happens; 0: unbounded */
	uint32_t batch_log2;
	uint32_t unit_cnt;
};

struct spw_kernel_info {
	uint32_t cta_max;     /* CTAs of the persistent kernel that are resident at once on the device */
	uint32_t threads_max; /* per CTA */
	uint32_t regs;
	uint32_t local_bytes; /* 0, or something spills */
};

#endif
