/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include <stdio.h>

#include "bench.h"

int spw_bench_handoff(int argc, char **argv, struct spw_bench_out *out)
{
	(void)argc;
	(void)argv;
	(void)out;
	fprintf(stderr, "spinwire-bench: handoff needs the CUDA backends, which this build leaves out\n");
	return 2;
}
