/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Commands of the control socket, for those who run one: the socket's thread, and faults with a
 * time (at=).
 */
#ifndef SPW_SOFTHCA_INJECT_CONTROL_H
#define SPW_SOFTHCA_INJECT_CONTROL_H

#include <stddef.h>

struct nic_dev;

/* Executes one command and writes its answer. With the device lock held. */
int control_exec(struct nic_dev *nd, const char *line, char *answer, size_t bytes);

#endif
