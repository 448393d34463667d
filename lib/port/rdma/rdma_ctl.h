/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The control thread of an RDMA port: whatever would make an lcore wait happens here. It reads the device's asynchronous
 * events, runs a client's control work (rc_conn.h), and hands events to the lcores through memory, so that a port's events
 * call makes no system call. It sleeps in poll(2). Private to lib/port.
 */
#ifndef SPW_PORT_RDMA_CTL_H
#define SPW_PORT_RDMA_CTL_H

#include <poll.h>

#include "port/rdma/rdma_dev.h"

#define RDMA_CTL_FD_MAX    128u
#define RDMA_CTL_EVENT_CNT 32u /* events of a queue that nobody took yet; more are dropped, their counters stay right */

/* Work of the control thread besides the device's events. All are called in that thread. */
struct rdma_ctl_client {
	void *arg;
	/* Purpose: what to wait for. Shape: up to fd_max entries. timeout_ms is lowered as needed. Returns: entries filled. */
	uint32_t (*prepare)(void *arg, uint64_t now_ms, struct pollfd *fd, uint32_t fd_max, int *timeout_ms);
	/* Purpose: goes on with all that can go on; never waits. */
	void (*turn)(void *arg, uint64_t now_ms);
	/* Purpose: an event of a QP, CQ, SRQ or WQ. */
	rdma_dev_object_fn *async;
};

struct rdma_ctl;

/* Purpose: makes it, without its thread. dev outlives it. client NULL: only the device's events. Errors: -ENOMEM, -EMFILE.
 * Owner: the caller, until rdma_ctl_close. Thread: setup. */
int rdma_ctl_open(struct rdma_dev *dev, uint16_t queue_cnt, const struct rdma_ctl_client *client, struct rdma_ctl **ctl_out);

/* Purpose: starts the thread, with all signals blocked; a link that is up is told to queue 0. Errors: -EAGAIN. Thread: setup. */
int rdma_ctl_start(struct rdma_ctl *ctl);

/* Purpose: ends the thread; when it returns, no client call runs or will. Not started: fine. Thread: setup. */
void rdma_ctl_stop(struct rdma_ctl *ctl);

/* NULL is fine. Thread: setup. */
void rdma_ctl_close(struct rdma_ctl *ctl);

/* Purpose: another turn soon. One write to an eventfd. Thread: any, outside the bursts. */
void rdma_ctl_wake(struct rdma_ctl *ctl);

/* Purpose: an event for the owner of a queue. Thread: control. Order: [RD1 release, pairs with RD2]. */
void rdma_ctl_tell(struct rdma_ctl *ctl, uint16_t queue, const struct spw_port_event *event);

/* Purpose: takes a queue's events; those of port and device come to queue 0. Memory only.
 * Returns: events written, 0 .. cnt. Thread: owner. Order: [RD2 acquire, pairs with RD1]. */
uint16_t rdma_ctl_events(struct rdma_ctl *ctl, uint16_t queue, struct spw_port_event *event, uint16_t cnt);

/* CLOCK_MONOTONIC in milliseconds. Thread: any. */
uint64_t rdma_ctl_now_ms(void);

#endif
