/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Threads of a library. They block all signals: those are the program's, whose handlers expect to
 * end the waits of its own threads.
 */
#ifndef SPW_BASE_THREAD_H
#define SPW_BASE_THREAD_H

#include <pthread.h>

/* Purpose: starts a thread that runs body(arg) with all signals blocked.
 * Owner: the caller, who joins it. Thread: any.
 * Returns: 0, or -errno of pthread_create(3), without a text. */
int spw_thread_start(pthread_t *thread_out, void *(*body)(void *), void *arg);

#endif
