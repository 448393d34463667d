/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What makes figures those of the machines' schedulers: threads that poll on too few cores, other
 * programs, a frequency governor. Printed before the figures.
 */
#ifndef PERF_BUSY_H
#define PERF_BUSY_H

#include <sched.h>

#include "session.h"

/* Purpose: what others take of the cores that this process may use, in percent of one core, over a
 *   tenth of a second in which this process sleeps. Returns: 0 too if it cannot be read. */
uint32_t perf_busy_read(void);
/* The same from two readings of /proc/stat (proc(5)). */
uint32_t perf_busy_between(const char *before, const char *after, const cpu_set_t *cores);
/* Purpose: one line for both ends; "" if nothing is wrong. one_host: they share the cores. */
void perf_busy_text(const struct perf_session *s, bool one_host, char *out, size_t bytes);
/* Purpose: the rows begin now; prints that line, if quiet does not hold it back. */
void perf_busy_begin(struct perf_session *s, bool quiet);
/* Purpose: after the rows, of machines that were quiet before: prints for how long this end's
 * thread waited for a core, if that is much. */
void perf_busy_rows(const struct perf_session *s);

#endif
