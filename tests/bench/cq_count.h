/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Instructions of one function by callgrind: the same for the same binary and inputs, whatever the
 * machine is doing.
 */
#ifndef SPW_BENCH_CQ_COUNT_H
#define SPW_BENCH_CQ_COUNT_H

#include "base/spw_types.h"

/* Purpose: runs this program again under valgrind with argv (NULL at the end, without the
 *          program's name) and counts the instructions inside function and what it calls.
 * Errors:  -1, a text is on stderr.
 * Thread:  setup. */
int cq_count(const char *function, char *const *argv, uint64_t *total_out);

#endif
