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

/* Purpose: sets a trap for whoever takes this thread's core. Returns: the word that the kernel will clear, NULL where it
 *          offers none. Thread: owner. */
uint64_t *rec_away_set(void);
/* Purpose: whether the core was taken since the trap was set; sets it again. Shape: word not NULL. Thread: owner. */
bool rec_away_look(uint64_t *word);
/* NULL is fine. Thread: owner. */
void rec_away_clear(uint64_t *word);

#endif
