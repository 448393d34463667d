/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The NIC thread, rounds, and the start and end of devices: what the files of run/ share, and what
 * the control socket asks of them.
 */
#ifndef SPW_SOFTHCA_RUN_RUN_H
#define SPW_SOFTHCA_RUN_RUN_H

#include "softhca/nic/dev.h"

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
/* Copies made by helpers. */
uint64_t nic_helped(void);

/* ---- memory that is gone: gone.c. With the device lock held. ---- */

/* An access met it: what was at work fails. */
void nic_memory_gone(struct nic_dev *nd);
/* Copies met it: their QPs fail. */
void nic_copies_gone(struct nic_dev *nd);

/* ---- rounds: dev.c ---- */

/* One round of work. Returns how much was done; 0: idle. */
uint32_t nic_round(struct nic_dev *nd);

/* ---- doorbells: doorbell.c ---- */

/* Takes what was written to the register pages. Returns how many pages were rung. */
uint32_t nic_doorbells(struct nic_dev *nd);
/* The producer index in the SQ's doorbell record. [N6] */
uint16_t nic_sq_record(const struct hca_qp *qp);
/* At detach: logs one line if any doorbell was wrong. */
void nic_doorbells_report(const struct nic_dev *nd);
/* Before a QP is reset or destroyed: drops its doorbells that have not been taken. */
void nic_doorbells_forget(struct nic_qp *q);

#endif
