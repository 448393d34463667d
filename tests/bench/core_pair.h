/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The floor of every hand-off between two threads: what a cache line costs that two cores write in
 * turn.
 */
#ifndef CORE_PAIR_H
#define CORE_PAIR_H

/* Purpose: measures the round trip of one cache line that two CPUs write in turn, in ns: the worst
 *          pair of the first four CPUs that this process may use (each pair's best of several
 *          tries). Every hand-off between threads is bounded by it, and on a shared host it
 *          changes from minute to minute.
 * Returns: 0, -ENODEV with fewer than two CPUs, or a negative errno.
 * Thread:  setup; takes about 50 ms. */
int core_pair_ns(double *ns_out);

#endif
