/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Counts forks in the child (spw_fork.h). lib/coll, lib/kv and lib/tensor compare the count with
 * that when an object was opened, lib/ncclnet with 0: a child has the memory of an object, but
 * neither its threads nor its NIC. pthread_atfork cannot be undone, so the handler is installed
 * once and only counts.
 */
#include <errno.h>
#include <pthread.h>

#include "base/spw_err.h"
#include "base/spw_fork.h"

uint32_t spw_fork_cnt;

static void fork_in_child(void)
{
	spw_fork_cnt++;
}

static void fork_begin(void)
{
	pthread_atfork(NULL, NULL, fork_in_child);
}

/* From any thread, any number of times. */
void spw_fork_watch(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, fork_begin);
}

int spw_fork_check(uint32_t forks, const char *what)
{
	return forks == spw_fork_cnt
		       ? 0
		       : spw_err(ECHILD,
				 "this process was forked after its %s was opened, and cannot use "
				 "it: open one here, or start it by fork and exec (Python: "
				 "multiprocessing's start method spawn)",
				 what);
}
