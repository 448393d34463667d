/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Answers of the kernel's netlink of RDMA as rows.
 */
#ifndef HANG_READ_QP_H
#define HANG_READ_QP_H

#include "hang/read_impl.h"

/* Purpose: adds the queue pairs in messages of a device, of processes that the snapshot has.
 * Returns: 1: more messages follow; 0: the last was among them; -errno: the kernel's, -EPROTO they
 * are malformed. Thread: control.
 */
int hang_qp_messages(struct hang_read *r, const char *device, const void *messages, size_t bytes);

#endif
