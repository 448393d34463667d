/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The programs that a benchmark of the software ConnectX starts: what they print, when they end, and that none stays behind.
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

/* Purpose: runs argv[0], found by PATH. Errors: -errno. Thread: owner, for all of a child's calls. */
int child_start(struct child *c, char *const argv[]);

/* Purpose: waits until it has ended, or printed the text. Returns: true if it did (ended: with status 0) before the deadline,
 *          which is a time of now_s. */
bool child_ended(struct child *c, double deadline);
bool child_says(struct child *c, const char *text, double deadline);

/* Purpose: reads what it prints until then. */
void child_read(struct child *c, double until);

/* Purpose: ends it and its group, if it has not ended. A zeroed one is fine. */
void child_stop(struct child *c);

/* Purpose: waits until someone listens on a TCP port of this machine. */
bool port_listens(unsigned int port, double deadline);

#endif
