/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * net_memif's control channel, kept apart from the data path.
 *
 * When a memif peer leaves, net_memif unmaps the rings in EAL's interrupt thread, while lcores read
 * and write them (memif_socket.c, memif_disconnect; DPDK v22.11 to v24.11), and its listener is
 * never unregistered, so the interrupt thread uses it after close and after rte_eal_cleanup. There
 * is no option against either. Every callback of that PMD passes through
 * rte_intr_callback_register, a public symbol that this file defines in front of libeal's: what
 * net_memif registers is called by memif_run(), which first takes the gate of every memif queue. An
 * owner only tries its gate (ethdev_gate_try) and polls nothing while it is shut; so it never
 * waits, and a callback waits for one burst at most.
 *
 * Locks: ctl is held by whoever runs control code of net_memif (a callback; open, start, stop,
 * close); list guards the list of registrations and is never held across a call to EAL, whose own
 * lock is held when it calls memif_removed().
 *
 * Who takes the gate of a queue (P3, P4), and what the owner does meanwhile:
 *
 *   owner's lcore      ─[try: open]─ burst ─[open]─ [try: shut ─► returns 0] ─── [try: open]─ burst
 *   interrupt thread               wait ─► shut all ─► net_memif's callback ─► open all
 *                                          (rings may be unmapped here)
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <rte_alarm.h>
#include <rte_interrupts.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "port/ethdev/ethdev.h"

#define SETTLE_MS 2000

/* One registration of net_memif with EAL's interrupt thread. */
struct watch {
	struct watch *next;
	rte_intr_callback_fn fn;
	void *arg;
	rte_intr_unregister_callback_fn after; /* what net_memif wants called when it is removed;
						  NULL: close the descriptor */
	const struct rte_intr_handle *handle;
	struct ethdev_port *port;
	bool dead;    /* under ctl: unregistered, must not run again */
	bool leaving; /* under list: EAL removes it by itself, soon */
};

static pthread_mutex_t ctl = PTHREAD_MUTEX_INITIALIZER, list = PTHREAD_MUTEX_INITIALIZER;
static struct watch *watches;
static struct ethdev_port *ports; /* memif ports, under ctl */
static _Thread_local struct ethdev_port
	*inside;        /* whose control code this thread runs; NULL: none */
static uint32_t alarms; /* that the interrupt thread ran for memif_settle() */

/* ---- libeal's own ---- */

/* The control path may look it up each time. */
#define LIBEAL(fn) ((__typeof__(fn) *)(uintptr_t)dlsym(RTLD_NEXT, #fn))

/* ---- registrations ---- */

/* A registration made while a port's control code runs belongs to that port (inside). */
static struct watch *memif_watch_add(const struct rte_intr_handle *handle, rte_intr_callback_fn fn,
				     void *arg)
{
	struct watch *w = malloc(sizeof(*w));

	if (!w)
		return NULL;
	pthread_mutex_lock(&list);
	*w = (struct watch){
		.next = watches, .fn = fn, .arg = arg, .handle = handle, .port = inside};
	watches = w;
	pthread_mutex_unlock(&list);
	return w;
}

/* EAL calls memif_removed() under its own lock, so this takes the list's lock only for the
 * unlinking. */
static void memif_watch_free(struct watch *w)
{
	pthread_mutex_lock(&list);
	for (struct watch **at = &watches; *at; at = &(*at)->next) {
		if (*at == w) {
			*at = w->next;
			break;
		}
	}
	pthread_mutex_unlock(&list);
	free(w);
}

/* Finds what net_memif registered by what it registered: callback and argument. */
static struct watch *memif_watch_find(rte_intr_callback_fn fn, void *arg)
{
	struct watch *w;

	pthread_mutex_lock(&list);
	for (w = watches; w && (w->fn != fn || w->arg != arg || w->leaving); w = w->next)
		;
	pthread_mutex_unlock(&list);
	return w;
}

/* One of the port's that EAL does not remove by itself; any: one that it does, too. */
static struct watch *memif_watch_of(const struct ethdev_port *ep, bool any)
{
	struct watch *w;

	pthread_mutex_lock(&list);
	for (w = watches; w && (w->port != ep || (!any && w->leaving)); w = w->next)
		;
	pthread_mutex_unlock(&list);
	return w;
}

/* [P3 acquire, pairs with P4] Its owner may have lost the core within a burst. */
static void memif_gate_shut(struct ethdev_queue *q)
{
	spw_thr_store_rlx(&q->gate_wanted, 1);
	while (spw_thr_exchange(&q->gate, 1))
		sched_yield();
	spw_thr_store_rlx(&q->gate_wanted, 0);
}

static void memif_gates_shut(void)
{
	for (struct ethdev_port *ep = ports; ep; ep = ep->next_memif)
		for (uint16_t i = 0; i < ep->base.queue_cnt; i++)
			memif_gate_shut(&ep->queue[i]);
}

static void memif_gates_open(void)
{
	for (struct ethdev_port *ep = ports; ep; ep = ep->next_memif)
		for (uint16_t i = 0; i < ep->base.queue_cnt; i++)
			ethdev_gate_open(&ep->queue[i]);
}

/* EAL's interrupt thread, in place of net_memif's callback. After fn w may be freed. */
static void memif_run(void *arg)
{
	struct watch *w = arg;

	pthread_mutex_lock(&ctl);
	if (!w->dead) {
		memif_gates_shut();
		inside = w->port;
		w->fn(w->arg);
		inside = NULL;
		memif_gates_open();
	}
	pthread_mutex_unlock(&ctl);
}

/* EAL's interrupt thread, under its lock: the registration has ended. */
static void memif_removed(struct rte_intr_handle *handle, void *arg)
{
	struct watch *w = arg;

	if (w->after)
		w->after(handle, w->arg);
	else
		close(rte_intr_fd_get(handle));
	memif_watch_free(w);
}

static int memif_watch_leave(struct watch *w, rte_intr_unregister_callback_fn after)
{
	int rc;

	w->dead = true;
	w->after = after;
	w->leaving = true; /* before EAL knows: memif_removed() may free it at once */
	rc = LIBEAL(rte_intr_callback_unregister_pending)(w->handle, memif_run, w, memif_removed);
	if (rc <= 0)
		w->leaving = false; /* it was not running after all */
	return rc;
}

/* ---- in front of libeal ---- */

/* In front of libeal's symbol of the same name. Callers other than net_memif (inside is NULL) pass
 * straight through. */
int rte_intr_callback_register(const struct rte_intr_handle *handle, rte_intr_callback_fn fn,
			       void *arg)
{
	struct watch *w;
	int rc;

	if (!inside)
		return LIBEAL(rte_intr_callback_register)(handle, fn, arg);
	w = memif_watch_add(handle, fn, arg);
	if (!w)
		return -ENOMEM;
	rc = LIBEAL(rte_intr_callback_register)(handle, memif_run, w);
	if (rc < 0)
		memif_watch_free(w);
	return rc;
}

int rte_intr_callback_unregister(const struct rte_intr_handle *handle, rte_intr_callback_fn fn,
				 void *arg)
{
	struct watch *w = inside ? memif_watch_find(fn, arg) : NULL;
	int rc = w ? LIBEAL(rte_intr_callback_unregister)(handle, memif_run, w)
		   : LIBEAL(rte_intr_callback_unregister)(handle, fn, arg);

	if (w && rc > 0)
		memif_watch_free(w);
	return rc;
}

int rte_intr_callback_unregister_pending(const struct rte_intr_handle *handle,
					 rte_intr_callback_fn fn, void *arg,
					 rte_intr_unregister_callback_fn after)
{
	struct watch *w = inside ? memif_watch_find(fn, arg) : NULL;

	return w ? memif_watch_leave(w, after)
		 : LIBEAL(rte_intr_callback_unregister_pending)(handle, fn, arg, after);
}

/* ---- the port's calls ---- */

void memif_ctl_enter(struct ethdev_port *ep)
{
	if (!ep->is_memif)
		return;
	pthread_mutex_lock(&ctl);
	inside = ep;
}

void memif_ctl_leave(struct ethdev_port *ep)
{
	if (!ep->is_memif)
		return;
	inside = NULL;
	pthread_mutex_unlock(&ctl);
}

/* From here on, the gates of this port's queues are shut for every callback of any memif port: the
 * PMD shares its sockets between ports. */
void memif_ctl_add(struct ethdev_port *ep)
{
	if (!ep->is_memif)
		return;
	ep->next_memif = ports;
	ports = ep;
}

int memif_ctl_check(const struct ethdev_port *ep)
{
	if (!ep->is_memif || watches)
		return 0;
	return spw_err(ENOTSUP,
		       "net_memif's callbacks do not pass through spinwire, and a peer that "
		       "leaves could crash the "
		       "program: name the device in the port, not with --vdev, and link "
		       "DPDK as shared libraries");
}

static void memif_on_alarm(void *arg SPW_UNUSED)
{
	spw_thr_store_rel(&alarms, alarms + 1); /* [P5 release, pairs with P6] */
}

/* Waits until EAL's interrupt thread has ended its present callback: alarms run in that thread. */
static void memif_settle(void)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	uint32_t before = spw_thr_load_acq(&alarms); /* [P6 acquire, pairs with P5] */

	if (rte_eal_alarm_set(1, memif_on_alarm, NULL))
		return;
	for (int ms = 0; ms < SETTLE_MS && spw_thr_load_acq(&alarms) == before; ms++)
		nanosleep(&pause, NULL);
}

/* What net_memif leaves registered: its listener, and connections that named no interface yet. */
static void memif_take_back(const struct ethdev_port *ep)
{
	struct watch *w;

	while ((w = memif_watch_of(ep, false))) {
		int fd = rte_intr_fd_get(w->handle), rc;

		w->dead = true;
		rc = LIBEAL(rte_intr_callback_unregister)(w->handle, memif_run, w);
		if (rc > 0)
			close(fd);
		if (rc > 0 || (rc < 0 && rc != -EAGAIN))
			memif_watch_free(w);
		else
			memif_watch_leave(w, NULL);
	}
}

void memif_ctl_stop(struct ethdev_port *ep)
{
	if (ep->is_memif)
		memif_take_back(ep);
}

void memif_ctl_settle(struct ethdev_port *ep)
{
	if (!ep->is_memif)
		return;
	memif_settle();
	if (memif_watch_of(ep, true))
		spw_warn("port %s: EAL's interrupt thread has not released net_memif's control "
			 "channel",
			 ep->base.name);
}

void memif_ctl_remove(const struct ethdev_port *ep)
{
	for (struct ethdev_port **at = &ports; *at; at = &(*at)->next_memif) {
		if (*at == ep) {
			*at = ep->next_memif;
			return;
		}
	}
}
