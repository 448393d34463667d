/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#ifndef SPW_SOFTHCA_NIC_RUN_H
#define SPW_SOFTHCA_NIC_RUN_H

#include "base/spw_types.h"

struct nic_dev;

/* What the NIC thread did besides work, since it was first started. */
struct nic_thread_stat {
	uint64_t naps;
	uint64_t switches;  /* times that somebody else got its core, when it last looked */
	uint64_t lost_ns;   /* idle turns that took long because of that, */
	uint64_t other_ns;  /* or because a command had the lock, or the hypervisor the core */
};
void nic_thread_stat(struct nic_thread_stat *stat_out);

/* The thread works for this device no more; with the last one it ends. Without the device lock. */
void nic_run_forget(struct nic_dev *nd);
/* An access of the NIC met memory that is gone: fail what was at work. With the device lock. */
void nic_memory_gone(struct nic_dev *nd);
/* Control socket of a device: opened and closed with it. */
int control_open(struct nic_dev *nd, const char *path);
void control_close(struct nic_dev *nd);
/* One command. With the device lock. */
int control_exec(struct nic_dev *nd, const char *line, char *answer, size_t bytes);

#endif
