/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The machine of gpu_check_test.c, which gpu_check_runtime.c has in the CUDA module. */
#ifndef UNIT_EXEC_GPU_CHECK_H
#define UNIT_EXEC_GPU_CHECK_H

#include <stdint.h>

struct gpu_check_machine {
	const char *name; /* NULL: no driver */
	int major, minor;
	int driver;     /* CUDA's version; below the runtime's major version: refused */
	int load_rc;    /* of the handler's kernels */
	int clock_rc;   /* of the clock's kernel */
	uint32_t ctas;  /* that are resident at once */
	uint32_t loads; /* how often kernels were loaded */
};

#endif
