/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#ifndef SPW_BENCH_POLL_DEV_H
#define SPW_BENCH_POLL_DEV_H

#include "base/spw_types.h"

struct poll_way {
	uint32_t ctas;
	uint32_t pollers; /* warps of a CTA that poll */
	uint32_t warps;   /* of a CTA; the others spin on shared memory */
	uint32_t lanes;   /* of a polling warp, 16 bytes each */
	uint32_t stride;  /* bytes between what two CTAs poll */
	uint32_t acquire; /* else relaxed */
	uint32_t timer;   /* reads the global timer each turn */
};

#ifdef __cplusplus
extern "C" {
#endif
/* Purpose: polls dev_mem for life_ns (bounded by the SM's clock) and writes how long a turn of a
 * warp took on average, in picoseconds, to dev_ps[cta * pollers + warp]. */
int poll_launch(const void *dev_mem, struct poll_way way, uint64_t life_ns, uint64_t *dev_ps,
		void *stream);
#ifdef __cplusplus
}
#endif
#endif
