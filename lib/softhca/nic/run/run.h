/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The NIC thread, rounds, and the start and end of devices: what the files of run/ share, and what
 * the control socket asks of them.
 */
#ifndef SPW_SOFTHCA_RUN_RUN_H
#define SPW_SOFTHCA_RUN_RUN_H

#include <pthread.h>

#include "base/spw_types.h"

struct nic_dev;
struct nic_qp;

/* What the NIC thread did besides work, since it was first started. Written by it alone. */
struct nic_thread_stat {
	uint64_t naps;
	uint64_t switches; /* involuntary context switches, as last read */
	uint64_t lost_ns;  /* idle turns that took long: the scheduler took the core */
	uint64_t other_ns; /* idle turns that took long: a command's lock, or the hypervisor */
	uint64_t late_ns;  /* the longest that work may have waited for a round, naps included */
};
void nic_thread_stat(struct nic_thread_stat *stat_out);

/* The thread stops working for this device; with the last device it ends. Call without the device
 * lock, which the thread may need to get there. */
void nic_run_forget(struct nic_dev *nd);
/* The function has left the bus: no frame arrives, every command fails, DEVICE_FATAL is raised. */
void nic_gone(struct nic_dev *nd);
/* Creates a thread of the NIC: on CPU `cpu`, or -1: on any that the process had. Returns 0 or an
 * errno. */
int nic_thread_create(pthread_t *thread_out, void *(*main)(void *arg), void *arg, int32_t cpu);
/* Copies made by helpers. */
uint64_t nic_helped(void);
/* An access met memory that is gone: what was at work fails. With the device lock held. */
void nic_memory_gone(struct nic_dev *nd);
/* Before an RC QP goes: sends the ACK that its peer may still wait for. */
void nic_last_ack(struct nic_qp *q);

#endif
