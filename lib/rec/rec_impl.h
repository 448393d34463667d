/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the files of lib/rec share: slow.c and view.c the list of the worst, rec.c and slow.c the
 * detection of a lost core (preempt.c).
 */
#ifndef REC_IMPL_H
#define REC_IMPL_H

#include "rec/spw_rec.h"

/* Purpose: puts one batch into a heap of at most SPW_REC_WORST_CNT, the shortest at [0]; a full
 * heap drops its shortest for a longer one. */
void rec_worst_put(struct spw_rec_slow *heap, uint32_t *cnt, const struct spw_rec_slow *one);

/* Purpose: sets the trap that detects preemption of this thread, and the base from which time off
 * the core counts.
 * Thread:  owner. */
void rec_preempt_begin(struct spw_rec_preempt *preempt);
void rec_preempt_end(struct spw_rec_preempt *preempt);
/* Purpose: whether the core was lost since the last check. If so, and always where there is no
 *          rseq, ticks_out is the time off the core since the last base.
 * Shape:   now: ticks.
 * Cost:    one load; two system calls if the core was lost.
 * Thread:  owner. */
bool rec_preempt_check(struct spw_rec_preempt *preempt, uint64_t now, uint64_t *ticks_out);

/* Whether the CPU quota stopped the control group since the last call. A system call, where there
 * is a quota. */
bool rec_preempt_throttled(struct spw_rec_preempt *preempt);

#endif
