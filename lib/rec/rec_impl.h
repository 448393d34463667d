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
void rec_worst_put(struct spw_rec_worst *heap, uint32_t *cnt, const struct spw_rec_worst *one);

#endif
