/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A libcuda.so.1 whose kernels end when the test says so. Addresses for the GPU are those of the
 * CPU plus FAKE_AT. The GPU's own memory is a memfd, in whole pages of FAKE_PAGE_BYTES; what stands
 * for it when it is exported is a socket in which a descriptor of it waits, since that cannot be
 * opened through /proc either (fake_share.c).
 */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H

#include <stdint.h>

#define FAKE_AT         0x1000000000000ull
#define FAKE_PAGE_BYTES 65536u
#define FAKE_DEVICE     7

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
	int shareable;      /* its own memory can be exported */
	int integrated;
	int no_memory; /* cuMemCreate finds none */
	int other_gpu; /* the process has another GPU */
	int handles;   /* of its own memory, that exist */
	int mappings;  /* of it */
};

extern struct fake_driver fake_driver;

#endif
