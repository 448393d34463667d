/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The NIC thread reads and writes the program's memory under a guard: a fault there is an error CQE. So
 * its handler stays in place when the program (a test framework, a sanitizer, a language runtime) installs
 * one of its own; the program's is called for all other faults.
 */
#include "softhca/nic.h"
#include "softhca/preload.h"

EXPORT int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	if (nic_guard_sigaction(sig, act, old))
		return 0;
	return NEXT(sigaction, int, (int, const struct sigaction *, struct sigaction *))(sig, act, old);
}

EXPORT sighandler_t signal(int sig, sighandler_t handler)
{
	const struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART};
	struct sigaction old;

	if (nic_guard_sigaction(sig, &act, &old))
		return old.sa_flags & SA_SIGINFO ? SIG_DFL : old.sa_handler;
	return NEXT(signal, sighandler_t, (int, sighandler_t))(sig, handler);
}
