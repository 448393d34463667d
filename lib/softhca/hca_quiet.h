/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A mutex held with all signals blocked: a handler of the application that calls into this library,
 * as one that closes a descriptor does, must not interrupt the thread that has it.
 */
#ifndef SPW_SOFTHCA_HCA_QUIET_H
#define SPW_SOFTHCA_HCA_QUIET_H

#include <pthread.h>
#include <signal.h>

#include "base/spw_types.h"

/* Thread: any. old: the thread's mask, for hca_quiet_unlock. */
SPW_INLINE void hca_quiet_lock(pthread_mutex_t *mutex, sigset_t *old_out)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, old_out);
	pthread_mutex_lock(mutex);
}

SPW_INLINE void hca_quiet_unlock(pthread_mutex_t *mutex, const sigset_t *old)
{
	pthread_mutex_unlock(mutex);
	pthread_sigmask(SIG_SETMASK, old, NULL);
}

#endif
