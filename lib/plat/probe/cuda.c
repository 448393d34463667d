/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * GPUs, as the CUDA driver library reports them, put into a live tree: cuda/N/ATTRIBUTE. It is
 * opened at run time: no CUDA is needed to build this, and a machine without the library has no
 * GPU. Only queries are made; no context is created. Source of names and numbers: CUDA driver API,
 * cuda.h.
 *
 * plat.c calls plat_probe_cuda for a live tree; gpus.c reads the answers from the tree. A recorded
 * machine has them in its file, and no library is opened for it. spw_plat_gpu_open asks for one GPU
 * by spw_plat_gpu_read.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "cuda/spw_cuda.h"
#include "cuda/spw_cuda_library.h"
#include "plat/plat_impl.h"

#define CUDA_FUNCTIONS(X)                                             \
	X(init, cuInit, (unsigned int flags))                         \
	X(driver_version, cuDriverGetVersion, (int *version))         \
	X(device_cnt, cuDeviceGetCount, (int *cnt))                   \
	X(device, cuDeviceGet, (int *device, int ordinal))            \
	X(name, cuDeviceGetName, (char *name, int bytes, int device)) \
	X(mem, cuDeviceTotalMem_v2, (size_t * bytes, int device))     \
	X(attr, cuDeviceGetAttribute, (int *value, int attr, int device))

struct cuda {
	CUDA_FUNCTIONS(SPW_CUDA_LIBRARY_MEMBER)
};

#define ATTR_ID(prefix, name, id)   id,
#define ATTR_NAME(prefix, name, id) #name,

static const int attr_id[] = {SPW_PLAT_GPU_ATTR_LIST(ATTR_ID, )};
static const char *const attr_name[] = {SPW_PLAT_GPU_ATTR_LIST(ATTR_NAME, )};

const char *spw_plat_gpu_attr_name(enum spw_plat_gpu_attr attr)
{
	return attr_name[attr];
}

static int probe_cuda_open(const char *path, struct cuda *of)
{
	const struct spw_cuda_symbol wanted[] = {CUDA_FUNCTIONS(SPW_CUDA_LIBRARY_SYMBOL)};
	int rc = spw_cuda_library_open(path, "CUDA driver", wanted, SPW_ARRAY_CNT(wanted));

	if (rc)
		return rc;
	rc = of->init(0);
	if (rc)
		return spw_err(ENODEV,
			       "the CUDA driver does not start (cuInit: error %d); no usable GPU",
			       rc);
	return 0;
}

/* An attribute that this driver does not know stays -1. */
static int probe_gpu_fill(const struct cuda *cuda, uint32_t ordinal, struct spw_plat_gpu *gpu)
{
	size_t mem = 0;
	int device;

	memset(gpu, 0, sizeof(*gpu));
	if (cuda->device(&device, (int)ordinal))
		return spw_err(ENODEV, "there is no GPU %u", ordinal);
	gpu->ordinal = ordinal;
	gpu->node = -1;
	gpu->clock_sm_mhz = gpu->clock_sm_max_mhz = -1;
	gpu->throttle = gpu->pcie_width = gpu->pcie_width_max = -1;
	cuda->name(gpu->name, (int)sizeof(gpu->name), device);
	cuda->mem(&mem, device);
	gpu->mem_bytes = mem;
	for (uint32_t i = 0; i < SPW_PLAT_GPU_ATTR_CNT; i++) {
		int value = -1;

		gpu->attr[i] = cuda->attr(&value, attr_id[i], device) ? -1 : value;
	}
	return 0;
}

/* Opens the library each time; dlopen of a loaded library is cheap. */
int spw_plat_gpu_read(uint32_t ordinal, struct spw_plat_gpu *gpu_out)
{
	struct cuda cuda;
	int rc = probe_cuda_open("libcuda.so.1", &cuda);

	return rc ? rc : probe_gpu_fill(&cuda, ordinal, gpu_out);
}

/* What is unknown is not put: reading it back gives -1 again (gpus.c). */
static void probe_gpu_put(struct plat_tree *tree, const struct spw_plat_gpu *gpu)
{
	char path[96], text[32];

	snprintf(path, sizeof(path), "cuda/%u/name", gpu->ordinal);
	plat_tree_put(tree, path, gpu->name);
	snprintf(path, sizeof(path), "cuda/%u/memory", gpu->ordinal);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)gpu->mem_bytes);
	plat_tree_put(tree, path, text);
	for (uint32_t i = 0; i < SPW_PLAT_GPU_ATTR_CNT; i++) {
		if (gpu->attr[i] < 0)
			continue;
		snprintf(path, sizeof(path), "cuda/%u/%s", gpu->ordinal, attr_name[i]);
		snprintf(text, sizeof(text), "%d", gpu->attr[i]);
		plat_tree_put(tree, path, text);
	}
}

void plat_probe_cuda(struct plat_tree *tree, const char *lib)
{
	const struct spw_cuda_module *module;
	struct spw_plat_gpu gpu;
	struct cuda cuda;
	int cnt = 0, version = 0;
	char text[16];

	if (probe_cuda_open(lib, &cuda)) {
		plat_tree_put(tree, "cuda/why", spw_err_text());
		return;
	}
	if (cuda.driver_version(&version) == 0) {
		snprintf(text, sizeof(text), "%d", version);
		plat_tree_put(tree, "cuda/driver", text);
	}
	plat_tree_put(tree, "build/cuda", spw_cuda_open(&module) ? "0" : "1");
	cuda.device_cnt(&cnt);
	if (cnt <= 0)
		plat_tree_put(tree, "cuda/why", "the CUDA driver reports no GPU");
	for (uint32_t i = 0; i < (uint32_t)SPW_MAX(cnt, 0) && i < SPW_PLAT_GPU_MAX; i++)
		if (probe_gpu_fill(&cuda, i, &gpu) == 0)
			probe_gpu_put(tree, &gpu);
}
