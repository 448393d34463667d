/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#ifndef CORE_PAIR_H
#define CORE_PAIR_H

/* Purpose: what one cache line costs that two CPUs write in turn: there and back, in ns, between the worst pair of the first
 *          four CPUs that this process may use (each pair's best of several tries). The speed of everything that is handed from
 *          thread to thread goes with it, and on a shared host it changes from minute to minute.
 * Returns: 0, -ENODEV with fewer than two CPUs, or a negative errno. Thread: setup; takes about 50 ms. */
int core_pair_ns(double *ns_out);

#endif
