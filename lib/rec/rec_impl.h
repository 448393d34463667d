/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/rec.
 */
#ifndef REC_IMPL_H
#define REC_IMPL_H

#include "rec/spw_rec.h"

/* Purpose: puts one into a heap of at most SPW_REC_WORST_CNT, the least at [0]; a full heap gives up its least for a
 *          longer one. */
void rec_worst_put(struct spw_rec_slow *heap, uint32_t *cnt, const struct spw_rec_slow *one);

/* Purpose: sets the trap for whoever takes this thread's core, and the base that time off the core counts from. Thread: owner. */
void rec_away_begin(struct spw_rec_away *away);
void rec_away_end(struct spw_rec_away *away);
/* Purpose: whether the core was taken since the last look; if so, or if the kernel does not tell, ticks_out is how long
 *          in all. now: ticks. Thread: owner. Cost: a load; a system call after the core was taken. */
bool rec_away_look(struct spw_rec_away *away, uint64_t now, uint64_t *ticks_out);

#endif
