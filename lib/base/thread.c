/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Starts threads (spw_thread.h): resolvers, control threads, the watch of the NCCL plugin.
 *
 * The caller's mask is changed around pthread_create, because a new thread inherits the mask of its
 * creator: if body blocked the signals itself, one could reach the thread before it does.
 */
#include "base/spw_thread.h"

#include <signal.h>

/* The mask is the calling thread's alone, so other threads of the program take signals meanwhile;
 * one that is directed at the caller stays pending until its mask is back. pthread_create returns
 * its error and leaves errno alone. */
int spw_thread_start(pthread_t *thread_out, void *(*body)(void *), void *arg)
{
	sigset_t all, was;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	error = pthread_create(thread_out, NULL, body, arg);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	return -error;
}
