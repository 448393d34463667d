/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Whether there is a GPU for an executor, and the CUDA module (cuda/spw_cuda.h) to use it with.
 * exec.c calls it for the CUDA kinds. The module is opened only where the driver reports a GPU that
 * it has code for.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/spw_err.h"
#include "cuda/spw_cuda.h"
#include "exec/exec.h"

/* Asks the driver alone; creates nothing on the GPU. */
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
int spw_exec_gpu_find(const struct spw_handler *handler, struct spw_exec_gpu *gpu_out)
{
	int rc;

	setenv("CUDA_MODULE_LOADING", "EAGER", 0);
	if (spw_plat_gpu_read(0, &gpu_out->plat) < 0)
		return spw_err_ctx(-ENOTSUP, "no usable GPU");
	rc = gpu_capability_check(&gpu_out->plat);
	if (rc)
		return rc;
	rc = spw_cuda_open(&gpu_out->module);
	if (rc)
		return spw_err_ctx(rc, "%s cannot be used", gpu_out->plat.name);
	gpu_out->ops = gpu_out->module->exec;
	gpu_out->code = handler ? spw_exec_device_code(handler, gpu_out->module) : NULL;
	if (handler && !gpu_out->code)
		return spw_err(ENOTSUP,
			       "handler %s has no device code: build it with nvcc, or use the cpu "
			       "executor",
			       handler->name);
	return 0;
}
