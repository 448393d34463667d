/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include "base/spw_thread.h"

#include <signal.h>

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
