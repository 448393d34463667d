/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#ifndef SPW_SOFTHCA_NIC_RUN_H
#define SPW_SOFTHCA_NIC_RUN_H

struct nic_dev;

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
