/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Contributions that every rank can compute for every other, and what must become of them.
 */
#ifndef SPW_COLL_NUMBERS_H
#define SPW_COLL_NUMBERS_H

#include "coll/spw_coll.h"

/* The contribution of a rank in a round: numbers whose sums are rounded, and now and then a NaN, an
 * infinity or a denormal. */
void numbers_fill(void *at, uint64_t count, enum spw_coll_type type, uint32_t rank, uint64_t round);
/* What the call gives in this round; out as long as the call's. In the order of ranks; the
 * arithmetic of one element is judged by tests/unit/coll. */
void numbers_reference(const struct spw_coll_call *call, uint32_t rank_cnt, uint64_t round,
		       uint8_t *out);

#endif
