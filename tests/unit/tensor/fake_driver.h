/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A libcuda.so.1 whose kernels end when the test says so. Addresses for the GPU are those of the
 * CPU plus FAKE_AT.
 */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H

#include <stdint.h>

#define FAKE_AT 0x1000000000000ull

struct fake_driver {
	int running;        /* kernels that events wait for */
	int capturing;      /* state of cuStreamIsCapturing */
	int record_error;   /* of cuEventRecord */
	int captured_once;  /* the next query finds an event that a capture took */
	int registered;     /* memories */
	int events;         /* that exist */
	int contexts;       /* retained */
	uint32_t records;   /* so far */
	uintptr_t recorded; /* stream of the last one */
};

extern struct fake_driver fake_driver;

#endif
