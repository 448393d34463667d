/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * In place of cuda/ in a build without CUDA: no executor runs on a GPU, and where there is one, the
 * user learns what is missing.
 */
#include <errno.h>

#include "base/spw_err.h"
#include "exec/exec.h"
#include "plat/spw_plat.h"

/* With a GPU at hand the remedy is a build with CUDA; without one there is none to name. */
static int nocuda_check(enum spw_exec_kind kind SPW_UNUSED,
			const struct spw_handler *handler SPW_UNUSED, uint32_t ring_cnt SPW_UNUSED,
			char name_out[static 96] SPW_UNUSED)
{
	struct spw_plat_gpu gpu;

	if (spw_plat_gpu_read(0, &gpu) < 0)
		return spw_err_ctx(-ENOTSUP, "this build has no CUDA; no usable GPU");
	return spw_err(
		ENOTSUP,
		"%s is there, but this build has no CUDA: install an nvcc (nvidia-cuda-toolkit "
		"or NVIDIA's cuda-toolkit; CUDA_HOME names its folder), then meson setup "
		"--reconfigure build and ninja -C build",
		gpu.name);
}

/* spw_exec_open has refused it before anything else is called. */
const struct spw_exec_ops spw_exec_cuda_ops = {.check = nocuda_check};
