/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A CUDA runtime that only answers questions, for gpu_check_test.c. It stands in front of the real
 * one in a CUDA module of its own (the linker takes the first definition). */
#include <cuda_runtime_api.h>

#include "base/spw_types.h"
#include "gpu_check.h"

extern struct gpu_check_machine gpu_check_machine;
struct gpu_check_machine gpu_check_machine;

cudaError_t cudaGetDeviceCount(int *cnt)
{
	*cnt = 1;
	return gpu_check_machine.driver < CUDART_VERSION / 1000 * 1000 ? cudaErrorInsufficientDriver
								       : cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
	*version = gpu_check_machine.driver;
	return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
	return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaSetDeviceFlags(unsigned int flags SPW_UNUSED)
{
	return cudaSuccess;
}

cudaError_t cudaFree(void *at SPW_UNUSED)
{
	return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
	return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t rc)
{
	return rc == cudaErrorNoKernelImageForDevice ? "no kernel image is available" : "?";
}

/* Of the clock's kernel alone: the handler below loads none. */
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr SPW_UNUSED,
				  const void *kernel SPW_UNUSED)
{
	return (cudaError_t)gpu_check_machine.clock_rc;
}
