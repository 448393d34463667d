/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The control thread of an RDMA port: everything that would make an lcore wait happens here. It
 * reads the device's asynchronous events, runs a client's control work (lib/peer), and passes
 * events to the lcores through one ring per queue, so that a port's events call makes no system
 * call. It sleeps in poll(2).
 *
 *   device events,
 *   fds of the client,  -> control thread --one ring per queue--> owner: rdma_ctl_events
 *   rdma_ctl_wake
 */
#ifndef SPW_RDMA_CTL_H
#define SPW_RDMA_CTL_H

#include <poll.h>

#include "rdma/spw_rdma.h"

#define RDMA_CTL_FD_MAX    128u
#define RDMA_CTL_EVENT_CNT 256u /* entries of the ring of a queue */

/* Work of the control thread besides the device's events; any of these may be NULL. All are called
 * in that thread. now_ms is rdma_ctl_clock_ms. */
struct rdma_ctl_client {
	void *arg;
	/* Purpose: lists descriptors to poll, and lowers *timeout_ms to the next deadline.
	 * Shape: up to fd_max entries.
	 * Returns: entries filled. */
	uint32_t (*prepare)(void *arg, uint64_t now_ms, struct pollfd *fd, uint32_t fd_max,
			    int *timeout_ms);
	/* Purpose: advances everything that can advance; never waits. */
	void (*turn)(void *arg, uint64_t now_ms);
	/* Purpose: an event of a QP, CQ, SRQ or WQ. */
	rdma_dev_object_fn *async;
};

struct rdma_ctl;

/* Purpose: makes the rings and the wake-up descriptor; the thread starts later.
 * Shape: client NULL: the device's events only. client is copied.
 * Owner: the caller, until rdma_ctl_close; dev outlives it.
 * Thread: setup.
 * Errors: -ENOMEM, -EMFILE. */
int rdma_ctl_open(struct rdma_dev *dev, uint16_t queue_cnt, const struct rdma_ctl_client *client,
		  struct rdma_ctl **ctl_out);

/* Purpose: starts the thread, with all signals blocked. A link that is up is reported to queue 0.
 * Thread: setup.
 * Errors: -EAGAIN. */
int rdma_ctl_start(struct rdma_ctl *ctl);

/* Purpose: ends the thread. After it no client call runs.
 * Shape: a ctl that was not started is fine.
 * Thread: setup. */
void rdma_ctl_stop(struct rdma_ctl *ctl);

/* Purpose: stops the thread and frees everything. NULL is fine. Thread: setup. */
void rdma_ctl_close(struct rdma_ctl *ctl);

/* Purpose: makes the thread run one more turn soon. One write to an eventfd.
 * Thread: any, outside the bursts. */
void rdma_ctl_wake(struct rdma_ctl *ctl);

/* Purpose: an event for the owner of a queue. When the ring is full:
 *   the end of the device   is never lost; the last entry is reserved for it
 *   link up, link down      the newest one waits and is reported as soon as there is room
 *   events of peers         are lost; their counters stay exact
 * Thread: control.
 * Order: R3 of spw_ring.h. */
void rdma_ctl_report(struct rdma_ctl *ctl, uint16_t queue, const struct spw_port_event *event);

/* Purpose: takes a queue's events; queue 0 also gets those of port and device. Memory only: no
 * system call.
 * Returns: events written, 0 .. cnt.
 * Thread: owner.
 * Order: R4 of spw_ring.h. */
uint16_t rdma_ctl_events(struct rdma_ctl *ctl, uint16_t queue, struct spw_port_event *event,
			 uint16_t cnt);

/* Returns: the clock of a client's waits in milliseconds: time for which the thread slept as it
 *   meant to, or ran. A pause beyond that (SIGSTOP, a paused machine) does not count, so a client
 *   gives up nobody for it.
 * Thread: control. */
uint64_t rdma_ctl_clock_ms(const struct rdma_ctl *ctl);

#endif
