/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The guard around the NIC's accesses to memory of the application.
 *
 * Memory that the application unmaps under a region: a card pins its pages, this NIC cannot. A
 * guard (SIGSEGV and SIGBUS handlers) turns a fault of the NIC thread, or of a command under
 * nic_guarded(), into a siglongjmp; nic_memory_gone() then fails the QP at work. The guard costs
 * nothing until a fault happens. Faults of other threads go to the program's own handlers, which
 * nic_guard_sigaction() keeps.
 *
 *   NIC thread   guard_begin(nd) ... access ... guard_end           a device's part of each turn
 *                               └ fault ─► guard_fault ─ siglongjmp ─► run/thread.c: run_main
 *   command      nic_guarded: the same around one function; may be nested
 *
 * What to know before changing it: between begin and end nothing may be owned that a jump would
 * lose: memory, or a lock beyond the device's. The handler runs in whatever thread faults, so it
 * uses thread-local state and async-signal-safe calls only.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>

#include "softhca/cable/cable.h"
#include "softhca/nic/dev.h"
#include "softhca/nic/host/host.h"

static struct {
	/* 1: guard_fault is installed; the program's own handlers are in the next two. */
	uint32_t guarding;
	struct sigaction old_segv, old_bus;
} own;

static _Thread_local sigjmp_buf *guard_env;
static _Thread_local struct nic_dev *guard_dev;

/* In this order: a cable whose file was cut, the NIC at work, the program. */
static void guard_fault(int sig, siginfo_t *info, void *context)
{
	const struct sigaction *old = sig == SIGSEGV ? &own.old_segv : &own.old_bus;

	if (sig == SIGBUS && cable_shm_repair(info->si_addr))
		return;
	if (guard_env && guard_dev)
		siglongjmp(*guard_env, 1);
	if (old->sa_flags & SA_SIGINFO) {
		old->sa_sigaction(sig, info, context);
	} else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN) {
		old->sa_handler(sig);
	} else {
		/* The instruction runs again, and the program dies as it would without the NIC. */
		own.guarding = 0;
		sigaction(sig, old, NULL);
	}
}

/* SA_NODEFER: the jump leaves the handler without restoring the mask, and the next fault must come
 * through as well. SA_ONSTACK: the program may have a stack for signals. */
void guard_install(void)
{
	struct sigaction sa = {.sa_sigaction = guard_fault,
			       .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};

	if (own.guarding)
		return;
	sigemptyset(&sa.sa_mask);
	sigaction(SIGSEGV, &sa, &own.old_segv);
	sigaction(SIGBUS, &sa, &own.old_bus);
	own.guarding = 1;
}

bool nic_guard_sigaction(int sig, const struct sigaction *act, struct sigaction *old_out)
{
	struct sigaction *kept = sig == SIGSEGV ? &own.old_segv : &own.old_bus;
	const struct sigaction before = *kept;

	if (!own.guarding || (sig != SIGSEGV && sig != SIGBUS))
		return false;
	if (act)
		*kept = *act;
	if (old_out)
		*old_out = before;
	return true;
}

/* env is on this stack, so the outer place is put back before it returns. */
int nic_guarded(struct hca_dev *dev, int (*command)(void *arg), void *arg)
{
	sigjmp_buf env, *const outer = guard_env;
	struct nic_dev *const outer_dev = guard_dev;
	int rc = -EFAULT;

	if (sigsetjmp(env, 0) == 0) {
		guard_env = &env;
		guard_dev = dev->nic;
		rc = command(arg);
	}
	guard_env = outer;
	guard_dev = outer_dev;
	return rc;
}

void guard_return_to(sigjmp_buf *env)
{
	guard_env = env;
}

void guard_begin(struct nic_dev *nd)
{
	guard_dev = nd;
}

void guard_end(void)
{
	guard_dev = NULL;
}

struct nic_dev *guard_device(void)
{
	return guard_dev;
}
