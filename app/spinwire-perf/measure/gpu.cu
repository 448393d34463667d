/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Kernels that make and compare the pattern (gpu.h). A thread takes a word of eight bytes at a
 * time, the words of a grid one after the other. What the NIC wrote is complete before a kernel is
 * launched (the control connection reported it), so plain loads will do.
 *
 * The case files reach this through bytes.c for rows with `gpu` set. Every call waits for its
 * kernel, so an error belongs to the call that returns it. A grid has at most BLOCKS_MAX blocks;
 * each thread goes on by the size of the grid.
 */
#include <cuda_runtime.h>
#include <errno.h>

#include "base/spw_err.h"
#include "gpu.h"
#include "pattern.h"

#define THREADS    256
#define BLOCKS_MAX 1024

typedef unsigned long long word_t; /* what atomicMin takes */

static __device__ word_t wrong;

/* How many bytes word i has; the last one may be short. */
static __device__ uint32_t word_bytes(uint64_t bytes, uint64_t i)
{
	return bytes - 8 * i < 8 ? (uint32_t)(bytes - 8 * i) : 8;
}

static __global__ void gpu_fill(uint8_t *at, uint64_t bytes, uint64_t seed, bool aligned)
{
	uint64_t step = (uint64_t)gridDim.x * blockDim.x;

	for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; 8 * i < bytes;
	     i += step) {
		uint64_t want = perf_pattern_word(seed, i);
		uint32_t cnt = word_bytes(bytes, i);

		if (aligned && cnt == 8)
			reinterpret_cast<uint64_t *>(at)[i] = want;
		else
			for (uint32_t k = 0; k < cnt; k++)
				at[8 * i + k] = (uint8_t)(want >> 8 * k);
	}
}

static __global__ void gpu_check(const uint8_t *at, uint64_t bytes, uint64_t seed, bool aligned)
{
	uint64_t step = (uint64_t)gridDim.x * blockDim.x;

	for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; 8 * i < bytes;
	     i += step) {
		uint64_t want = perf_pattern_word(seed, i);
		uint32_t cnt = word_bytes(bytes, i);

		if (aligned && cnt == 8 && reinterpret_cast<const uint64_t *>(at)[i] == want)
			continue;
		for (uint32_t k = 0; k < cnt; k++)
			if (at[8 * i + k] != (uint8_t)(want >> 8 * k)) {
				atomicMin(&wrong, (word_t)(8 * i + k));
				break;
			}
	}
}

static int gpu_done(cudaError_t rc, const char *what)
{
	if (rc == cudaSuccess)
		rc = cudaGetLastError(); /* of a launch */
	if (rc == cudaSuccess)
		rc = cudaDeviceSynchronize();
	return rc == cudaSuccess ? 0 : spw_err(EIO, "GPU, %s: %s", what, cudaGetErrorString(rc));
}

static uint32_t gpu_blocks(uint64_t bytes)
{
	uint64_t cnt = (bytes / 8 + THREADS) / THREADS;

	return (uint32_t)SPW_MIN(cnt, (uint64_t)BLOCKS_MAX);
}

static uint8_t *gpu_pointer(uint64_t at)
{
	return reinterpret_cast<uint8_t *>((uintptr_t)at);
}

/* PTX of compute_80 is always built (lib/cuda), so all GPUs from the oldest of the list on run the
 * kernels. Attributes are read without a context, which a server would hold for ever. */
static bool too_old(void)
{
	static const int built[] = {__CUDA_ARCH_LIST__};
	int major = 0, minor = 0;

	cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
	cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0);
	for (int arch : built)
		if (arch <= 100 * major + 10 * minor)
			return false;
	return true;
}

static const char *gpu_cuda_missing(void)
{
	int cnt = 0;
	cudaError_t rc = cudaGetDeviceCount(&cnt);

	if (rc == cudaErrorInsufficientDriver)
		return "its driver is older than the CUDA that the module was built with";
	if (rc != cudaSuccess || !cnt)
		return rc != cudaSuccess ? cudaGetErrorString(rc) : "CUDA reports no device";
	return too_old() ? "the CUDA module has no kernels for a GPU that old (-Dgpu_arch)" : "";
}

static int gpu_cuda_fill(uint64_t at, uint64_t bytes, uint64_t seed)
{
	gpu_fill<<<gpu_blocks(bytes), THREADS>>>(gpu_pointer(at), bytes, seed, at % 8 == 0);
	return gpu_done(cudaSuccess, "filling a message");
}

static int gpu_cuda_clear(uint64_t at, uint64_t bytes)
{
	return gpu_done(cudaMemset(gpu_pointer(at), 0, bytes), "clearing a message");
}

static int gpu_cuda_wait(void)
{
	return gpu_done(cudaSuccess, "waiting");
}

static int gpu_cuda_check(uint64_t at, uint64_t bytes, uint64_t seed, uint64_t *wrong_out)
{
	word_t first = bytes;
	int rc = gpu_done(cudaMemcpyToSymbol(wrong, &first, sizeof(first)), "comparing a message");

	if (rc < 0)
		return rc;
	gpu_check<<<gpu_blocks(bytes), THREADS>>>(gpu_pointer(at), bytes, seed, at % 8 == 0);
	rc = gpu_done(cudaSuccess, "comparing a message");
	if (rc == 0)
		rc = gpu_done(cudaMemcpyFromSymbol(&first, wrong, sizeof(first)),
			      "comparing a message");
	*wrong_out = first;
	return rc;
}

const struct perf_gpu_ops perf_gpu_cuda_ops = {gpu_cuda_missing, gpu_cuda_fill, gpu_cuda_clear,
					       gpu_cuda_wait, gpu_cuda_check};
