/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The word that TSan's edges meet at (spw_order.h). Only a build under TSan has it: TSan does not
 * see fences, so there each fence also adds to this word, which orders it after those before.
 */
#include "base/spw_order.h"

#ifdef SPW_TSAN
uint32_t spw_tsan_word;
#endif
