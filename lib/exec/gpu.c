/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Whether there is a GPU for an executor and a handler. exec.c calls it for the CUDA kinds, both to
 * check a configuration and before it opens an executor; nothing is made on the GPU yet.
 *
 *   GPU and module (lib/plat) ─► the module's backend ─► the handler's device code
 *
 * The first that is missing makes the message, so a machine without a GPU is not asked to build a
 * plug-in with nvcc. A missing GPU is -ENOTSUP, as all else that a backend cannot do: AUTO then
 * chooses another.
 */
#include <errno.h>

#include "base/spw_err.h"
#include "cuda/spw_cuda.h"
#include "exec/exec.h"

int spw_exec_gpu_find(const struct spw_handler *handler, struct spw_exec_gpu *gpu_out)
{
	int rc = spw_plat_gpu_open(&gpu_out->plat, &gpu_out->module);

	if (rc == -ENODEV)
		return spw_err_ctx(-ENOTSUP, "no usable GPU");
	if (rc)
		return rc;
	gpu_out->ops = gpu_out->module->exec;
	gpu_out->code = handler ? spw_exec_device_code(handler, gpu_out->module) : NULL;
	if (handler && !gpu_out->code)
		return spw_err(ENOTSUP,
			       "handler %s has no device code: build it with nvcc, or use the cpu "
			       "executor",
			       handler->name);
	return 0;
}
