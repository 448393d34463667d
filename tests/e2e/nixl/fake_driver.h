/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the driver of fake_driver.c knows: the symbol fake_ranges of libcuda.so.1.
 */
#ifndef SPW_NIXL_FAKE_DRIVER_H
#define SPW_NIXL_FAKE_DRIVER_H

#include <stdint.h>

#define FAKE_RANGES 4

struct fake_range {
	uint64_t at, bytes;
	unsigned int type; /* CUmemorytype: 1 host, 2 device */
	unsigned int managed;
	int dmabuf; /* of the range from its first byte; -1: the driver exports none */
};

#endif
