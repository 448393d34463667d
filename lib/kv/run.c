/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * An agent's own thread (conf.thread): turns as long as they find work, and SPW_KV_SPIN_US more;
 * then it sleeps until a NIC, a socket, a deadline or another thread's call wakes it.
 *
 *   turn ─► work? ─ yes ─► turn
 *             └─ not for SPW_KV_SPIN_US ─► spw_xfer_arm ─ 0 ─► poll(2) ─► turn
 *                                               └ -EAGAIN ─► turn
 *
 * Calls of other threads make no turns then (kv_ask): an event of a NIC that one of them took would
 * be slept over. Whoever changes what the thread has to do wakes it (kv_wake), after the lock is
 * free again: else it would wake to wait.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_monotonic.h"
#include "base/spw_thread.h"
#include "kv/agent.h"

#define DEADLINE_MS 1000 /* guests that have not said their name are looked at so often */

void kv_wake(struct spw_kv *kv)
{
	kv->wake |= kv->asleep;
}

/* Guests have a deadline until they have said their name. */
static bool run_has_deadline(const struct spw_kv *kv)
{
	const struct kv_guest *guest;

	TAILQ_FOREACH(guest, &kv->guests, link)
	if (!guest->named)
		return true;
	return false;
}

/* Returns: whether it may sleep, at most so long. */
static bool run_may_sleep(struct spw_kv *kv, int *wait_ms_out)
{
	if (spw_xfer_arm(kv->x, wait_ms_out))
		return false;
	if (*wait_ms_out < 0 && run_has_deadline(kv))
		*wait_ms_out = DEADLINE_MS;
	kv->asleep = true;
	kv->stat.sleeps++;
	return true;
}

static void run_sleep(const struct spw_kv *kv, int wait_ms)
{
	struct pollfd fd[2] = {{.fd = spw_xfer_fd(kv->x), .events = POLLIN},
			       {.fd = kv->wake_fd, .events = POLLIN}};
	eventfd_t cnt;

	(void)poll(fd, 2, wait_ms);
	(void)eventfd_read(kv->wake_fd, &cnt);
}

static void *run_body(void *arg)
{
	struct spw_kv *kv = arg;
	uint64_t worked_ns = spw_monotonic_ns();
	bool stop = false;
	int wait_ms;

	pthread_setname_np(pthread_self(), "spw-kv");
	while (!stop) {
		bool sleeps = false;

		kv_lock(kv);
		kv->asleep = false;
		stop = kv->stop;
		if (kv_turn(kv))
			worked_ns = spw_monotonic_ns();
		else if (!stop && spw_monotonic_ns() - worked_ns > SPW_KV_SPIN_US * 1000u)
			sleeps = run_may_sleep(kv, &wait_ms);
		kv_unlock(kv);
		if (!sleeps)
			continue;
		run_sleep(kv, wait_ms);
		worked_ns = spw_monotonic_ns();
	}
	return NULL;
}

int kv_run_start(struct spw_kv *kv)
{
	int rc;

	kv->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (kv->wake_fd < 0)
		return spw_err(errno, "eventfd: %s", strerror(errno));
	rc = spw_thread_start(&kv->thread, run_body, kv);
	kv->running = !rc;
	return rc ? spw_err(-rc, "no thread for an agent: %s", strerror(-rc)) : 0;
}

void kv_run_stop(struct spw_kv *kv)
{
	if (kv->running) {
		kv_lock(kv);
		kv->stop = true;
		kv_wake(kv);
		kv_unlock(kv);
		pthread_join(kv->thread, NULL);
		kv->running = false;
	}
	if (kv->wake_fd >= 0)
		close(kv->wake_fd);
}
