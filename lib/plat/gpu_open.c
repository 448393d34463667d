/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The GPU that a program uses, with the CUDA module (cuda/spw_cuda.h): lib/exec, lib/mem and
 * spinwire-perf ask for both here. lib/coll opens the module alone, since its GPU is the one that
 * its caller has chosen.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/spw_err.h"
#include "cuda/spw_cuda.h"
#include "plat/spw_plat.h"

/* Asks the driver alone: the module is opened only where it has code for the GPU. */
static int gpu_capability_check(const struct spw_plat_gpu *gpu)
{
	const int major = gpu->attr[SPW_PLAT_GPU_COMPUTE_CAPABILITY_MAJOR],
		  minor = gpu->attr[SPW_PLAT_GPU_COMPUTE_CAPABILITY_MINOR];

	if (10 * major + minor >= SPW_PLAT_GPU_CAPABILITY_MIN)
		return 0;
	return spw_err(ENOTSUP,
		       "%s has compute capability %d.%d, and CUDA executors need %d.%d or later; "
		       "use cpu or inline",
		       gpu->name, major, minor, SPW_PLAT_GPU_CAPABILITY_MIN / 10,
		       SPW_PLAT_GPU_CAPABILITY_MIN % 10);
}

/* Modules are loaded onto the GPU eagerly: lazy loading takes a lock that waits for running
 * kernels, and a resident kernel never ends. The driver reads that when it is loaded, so it is set
 * first. */
int spw_plat_gpu_open(struct spw_plat_gpu *gpu_out, const struct spw_cuda_module **module_out)
{
	int rc;

	setenv("CUDA_MODULE_LOADING", "EAGER", 0);
	rc = spw_plat_gpu_read(0, gpu_out);
	rc = rc ? rc : gpu_capability_check(gpu_out);
	if (rc)
		return rc;
	rc = spw_cuda_open(module_out);
	return rc ? spw_err_ctx(rc, "%s cannot be used", gpu_out->name) : 0;
}
