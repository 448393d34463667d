/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Counts forks in the child (spw_fork.h).
 */
#include <pthread.h>

#include "base/spw_fork.h"

uint32_t spw_fork_cnt;

static void in_child(void)
{
	spw_fork_cnt++;
}

static void begin(void)
{
	pthread_atfork(NULL, NULL, in_child);
}

void spw_fork_watch(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, begin);
}
