/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Signal handlers for SIGSEGV and SIGBUS. The NIC thread accesses the program's memory under a
 * guard that turns a fault into an error CQE (nic/host/guard.c), so the guard's handler must stay
 * installed when the program (a test framework, a sanitizer, a language runtime) installs its own.
 * The program's handler is kept beside it and called for every fault that is not the NIC's.
 */
#include "softhca/nic/nic.h"
#include "softhca/preload/preload.h"

EXPORT int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	if (nic_guard_sigaction(sig, act, old))
		return 0;
	return NEXT(sigaction)(sig, act, old);
}

EXPORT sighandler_t signal(int sig, sighandler_t handler)
{
	const struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART};
	struct sigaction old;

	if (nic_guard_sigaction(sig, &act, &old))
		return old.sa_flags & SA_SIGINFO ? SIG_DFL : old.sa_handler;
	return NEXT(signal)(sig, handler);
}
