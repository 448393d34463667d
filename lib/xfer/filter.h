/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/xfer: the syntax of NCCL_IB_HCA (NCCL's manual, "Environment Variables"). Pure.
 * Thread of all: any.
 */
#ifndef SPW_XFER_FILTER_H
#define SPW_XFER_FILTER_H

#include "base/spw_types.h"

/* Purpose: whether a list admits a port of a device.
 * Shape: "mlx5", "=mlx5_0:1,mlx5_1", "^mlx5_3", "^=mlx5_1": beginnings of names, after '=' whole
 *   names, each with a port if it has one; after '^' those that are left out. NULL, "": all.
 */
bool xfer_filter_has(const char *list, const char *device, uint32_t port);

#endif
