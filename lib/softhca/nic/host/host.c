/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Time, cores and threads of the NIC (host.h).
 *
 * What to know before changing it: DPDK's EAL and others pin the thread that first opens a device,
 * and a new thread inherits that. So the NIC's threads are placed by the mask that the process had
 * when the library was loaded (nic_mask_save), or by --nic-cpu.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "softhca/nic/host/host.h"
#include "softhca/nic/nic.h"

static cpu_set_t mask; /* of the process, when the library was loaded */
static bool mask_saved;

/* RAW: a card's crystal is not slewed by NTP. */
uint64_t nic_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* If it cannot be read, threads inherit the mask of their creator. */
void nic_mask_save(void)
{
	mask_saved = sched_getaffinity(0, sizeof(mask), &mask) == 0;
}

/* Without a mask, as in a unit test, all cores of the machine count. */
uint32_t host_cores(void)
{
	return (uint32_t)(mask_saved ? CPU_COUNT(&mask) : sysconf(_SC_NPROCESSORS_ONLN));
}

/* The core that was asked for, or any that the process had. */
static void attr_place(pthread_attr_t *attr, int32_t cpu)
{
	cpu_set_t one;

	if (cpu >= 0) {
		CPU_ZERO(&one);
		CPU_SET((unsigned)cpu, &one);
		pthread_attr_setaffinity_np(attr, sizeof(one), &one);
	} else if (mask_saved) {
		pthread_attr_setaffinity_np(attr, sizeof(mask), &mask);
	}
}

int nic_thread_create(pthread_t *thread_out, void *(*main)(void *arg), void *arg, int32_t cpu)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int rc;

	pthread_attr_init(&attr);
	attr_place(&attr, cpu);
	/* Signals are the program's; the two that the guard needs stay unblocked. */
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(thread_out, &attr, main, arg);
	/* The container may no longer allow the mask that the process started with. */
	if (cpu < 0 && (rc == EINVAL || rc == EPERM)) {
		pthread_attr_destroy(&attr);
		pthread_attr_init(&attr);
		rc = pthread_create(thread_out, &attr, main, arg);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return rc;
}
