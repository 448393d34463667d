/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * GPUs, as the CUDA driver library reports them. It is opened at run time: no CUDA is needed to
 * build this, and a machine without the library has no GPU. Only queries are made; no context is
 * created. Source of names and numbers: CUDA driver API, cuda.h.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "plat/plat_impl.h"

struct cuda {
	void *lib;
	int (*init)(unsigned int flags);
	int (*driver_version)(int *version);
	int (*device_cnt)(int *cnt);
	int (*device)(int *device, int ordinal);
	int (*name)(char *name, int bytes, int device);
	int (*mem)(size_t *bytes, int device);
	int (*attr)(int *value, int attr, int device);
};

static const int attr_id[SPW_PLAT_GPU_ATTR_CNT] = {
#define X(name, id) id,
	SPW_PLAT_GPU_ATTR_LIST(X)
#undef X
};

static const char *const attr_name[SPW_PLAT_GPU_ATTR_CNT] = {
#define X(name, id) #name,
	SPW_PLAT_GPU_ATTR_LIST(X)
#undef X
};

const char *spw_plat_gpu_attr_name(enum spw_plat_gpu_attr attr)
{
	return attr_name[attr];
}

/* The library is never closed: unloading a driver that may have started threads is not safe. */
static int cuda_open(const char *path, struct cuda *cuda)
{
	const struct {
		const char *symbol;
		void *at;
	} wanted[] = {
		{"cuInit", &cuda->init},
		{"cuDriverGetVersion", &cuda->driver_version},
		{"cuDeviceGetCount", &cuda->device_cnt},
		{"cuDeviceGet", &cuda->device},
		{"cuDeviceGetName", &cuda->name},
		{"cuDeviceTotalMem_v2", &cuda->mem},
		{"cuDeviceGetAttribute", &cuda->attr},
	};
	int rc;

	cuda->lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!cuda->lib)
		return spw_err(
			ENODEV,
			"no CUDA driver library (%s); install the NVIDIA driver to use a GPU",
			path);
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(wanted); i++) {
		void *symbol = dlsym(cuda->lib, wanted[i].symbol);

		if (!symbol)
			return spw_err(ENODEV, "%s has no %s; it is not a CUDA driver library",
				       path, wanted[i].symbol);
		memcpy(wanted[i].at, &symbol, sizeof(symbol));
	}
	rc = cuda->init(0);
	if (rc)
		return spw_err(ENODEV,
			       "the CUDA driver does not start (cuInit: error %d); no usable GPU",
			       rc);
	return 0;
}

/* An attribute that this driver does not know stays -1. The PCI address is put together from three
 * attributes, as sysfs names it. */
static int gpu_fill(const struct cuda *cuda, uint32_t ordinal, struct spw_plat_gpu *gpu)
{
	size_t mem = 0;
	int device;

	memset(gpu, 0, sizeof(*gpu));
	if (cuda->device(&device, (int)ordinal))
		return spw_err(ENODEV, "there is no GPU %u", ordinal);
	gpu->ordinal = ordinal;
	gpu->node = -1;
	cuda->name(gpu->name, (int)sizeof(gpu->name), device);
	cuda->mem(&mem, device);
	gpu->mem_bytes = mem;
	for (uint32_t i = 0; i < SPW_PLAT_GPU_ATTR_CNT; i++) {
		int value = -1;

		gpu->attr[i] = cuda->attr(&value, attr_id[i], device) ? -1 : value;
	}
	snprintf(gpu->pci, sizeof(gpu->pci), "%04x:%02x:%02x.0",
		 (unsigned int)gpu->attr[SPW_PLAT_GPU_PCI_DOMAIN_ID],
		 (unsigned int)gpu->attr[SPW_PLAT_GPU_PCI_BUS_ID],
		 (unsigned int)gpu->attr[SPW_PLAT_GPU_PCI_DEVICE_ID]);
	return 0;
}

/* Opens the library each time; dlopen of a loaded library is cheap. */
int spw_plat_gpu_read(uint32_t ordinal, struct spw_plat_gpu *gpu_out)
{
	struct cuda cuda;
	int rc = cuda_open("libcuda.so.1", &cuda);

	return rc ? rc : gpu_fill(&cuda, ordinal, gpu_out);
}

void plat_gpus_read(const struct plat_root *root, struct spw_plat *plat)
{
	struct cuda cuda;
	int cnt = 0;

	plat_copy(plat->cuda_why, sizeof(plat->cuda_why), "GPUs were not searched for");
	if (root->cuda_lib[0] == '\0')
		return;
	if (cuda_open(root->cuda_lib, &cuda)) {
		plat_copy(plat->cuda_why, sizeof(plat->cuda_why), spw_err_text());
		return;
	}
	cuda.driver_version(&plat->cuda_driver);
	cuda.device_cnt(&cnt);
	plat_copy(plat->cuda_why, sizeof(plat->cuda_why),
		  cnt > 0 ? "" : "the CUDA driver reports no GPU");
	for (uint32_t i = 0; i < (uint32_t)SPW_MAX(cnt, 0) && plat->gpu_cnt < SPW_PLAT_GPU_MAX;
	     i++) {
		struct spw_plat_gpu *gpu = &plat->gpu[plat->gpu_cnt];

		if (gpu_fill(&cuda, i, gpu))
			continue;
		gpu->node = (int32_t)plat_number(-1, root->sys, "bus/pci/devices/%s/numa_node",
						 gpu->pci);
		plat->gpu_cnt++;
	}
}
