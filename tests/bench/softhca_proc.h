/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The programs that bench_softhca.c starts: reads what they print, waits for their end, and leaves
 * none running.
 */
#ifndef SPW_BENCH_SOFTHCA_PROC_H
#define SPW_BENCH_SOFTHCA_PROC_H

#include <sys/types.h>

#include "base/spw_types.h"

struct child {
	pid_t pid; /* 0: none; it leads a process group */
	int fd;
	char out[16384]; /* its stdout and stderr so far, as far as there is room; a string */
	size_t len;
};

double now_s(void); /* CLOCK_MONOTONIC */
void nap_ms(long ms);

/* Purpose: runs argv[0], found by PATH.
 * Errors:  -errno.
 * Thread:  owner, for all of a child's calls. */
int child_start(struct child *c, char *const argv[]);

/* Purpose: waits until the child has ended, or has printed text.
 * Returns: true if it ended with status 0, or printed text, before deadline (a time of now_s). */
bool child_ended(struct child *c, double deadline);
bool child_prints(struct child *c, const char *text, double deadline);

/* Purpose: collects what the child prints until then (a time of now_s). */
void child_read(struct child *c, double until);

/* Purpose: ends the child and its group, if it still runs. A zeroed one is fine. */
void child_stop(struct child *c);

/* Purpose: waits until someone listens on a TCP port of this machine. */
bool port_listens(unsigned int port, double deadline);

#endif
