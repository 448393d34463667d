/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Collectives between the two ends, rank 0 the client: what they are called, and what nccl-tests
 * makes of their time.
 *
 *   size            of a row: what nccl-tests calls so; of a gather all that a rank gets
 *   bus bandwidth   size / time * factor: what a link carries, whatever the algorithm
 */
#ifndef PERF_COLL_H
#define PERF_COLL_H

#include "perf.h"

#define PERF_COLL_RANKS 2u

/* Purpose: names in both directions; NULL, or PERF_COLL_NONE: none of them. Thread: any. */
const char *perf_coll_name(enum perf_coll coll);
const char *perf_net_name(enum perf_net net);
enum perf_coll perf_coll_parse(const char *name);
/* Returns: false if there is no such net. */
bool perf_net_parse(const char *name, enum perf_net *net_out);

/* Returns: bus bytes of one call, and bytes that a rank contributes. Pure. Thread: any. */
uint64_t perf_coll_bus_bytes(const struct perf_case *what);
uint64_t perf_coll_part_bytes(const struct perf_case *what);

/* Purpose: rank's contribution: small whole numbers, so that sums of f32 are exact. Pure. */
float perf_coll_value(uint32_t rank, uint64_t idx);

#endif
