/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Clocks, throttling and PCIe link of the GPUs by NVML, opened at run time and put into a live tree
 * as nvml/PCI-ADDRESS/NAME. "Not Supported" is an answer: GB10 has no memory clock of its own.
 * Source of names and numbers: NVIDIA Management Library, nvml.h.
 *
 * Declared here, not included: nvml.h is not on every machine that builds this. A function that is
 * missing means no NVML at all.
 *
 * plat.c calls plat_probe_nvml for a live tree, and load.c while a GPU is under load; gpus.c reads
 * the answers.
 */
#include <stdio.h>

#include "cuda/spw_cuda_library.h"
#include "plat/plat_impl.h"

#define NVML_CLOCK_SM       1
#define NVML_CLOCK_MEM      2
#define NVML_TEMPERATURE    0
#define NVML_NOT_SUPPORTED  3
#define NVML_PCI_INFO_BYTES 128 /* nvmlPciInfo_t is shorter; its last member is the long bus id */

struct nvml_pci {
	char bus_id_legacy[16];
	unsigned int domain, bus, device, pci_device, pci_subsystem;
	char bus_id[32];
	char room[NVML_PCI_INFO_BYTES - 68];
};

#define NVML_FUNCTIONS(X)                                                                    \
	X(init, nvmlInit_v2, (void))                                                         \
	X(cnt, nvmlDeviceGetCount_v2, (unsigned int *cnt))                                   \
	X(handle, nvmlDeviceGetHandleByIndex_v2, (unsigned int idx, void **device))          \
	X(pci, nvmlDeviceGetPciInfo_v3, (void *device, struct nvml_pci *pci))                \
	X(clock, nvmlDeviceGetClockInfo, (void *device, int kind, unsigned int *mhz))        \
	X(clock_max, nvmlDeviceGetMaxClockInfo, (void *device, int kind, unsigned int *mhz)) \
	X(throttle, nvmlDeviceGetCurrentClocksThrottleReasons,                               \
	  (void *device, unsigned long long *bits))                                          \
	X(temperature, nvmlDeviceGetTemperature,                                             \
	  (void *device, int sensor, unsigned int *celsius))                                 \
	X(power, nvmlDeviceGetPowerUsage, (void *device, unsigned int *mw))                  \
	X(width, nvmlDeviceGetCurrPcieLinkWidth, (void *device, unsigned int *lanes))        \
	X(width_max, nvmlDeviceGetMaxPcieLinkWidth, (void *device, unsigned int *lanes))

struct nvml {
	NVML_FUNCTIONS(SPW_CUDA_LIBRARY_MEMBER)
	const char *(*error)(int rc);
};

static bool probe_nvml_open(const char *path, struct nvml *of)
{
	const struct spw_cuda_symbol wanted[] = {
		NVML_FUNCTIONS(SPW_CUDA_LIBRARY_SYMBOL){"nvmlErrorString", &of->error}};

	return spw_cuda_library_open(path, "NVML", wanted, SPW_ARRAY_CNT(wanted)) == 0 &&
	       of->init() == 0;
}

struct gpu_put {
	struct plat_tree *tree;
	const struct nvml *nvml;
	char pci[16];
};

/* A query that fails leaves its reason as the text: it reads as "not a number", with the reason as
 * value. */
static void probe_nvml_put(const struct gpu_put *p, const char *name, int rc,
			   unsigned long long value)
{
	char path[64], text[64];

	snprintf(path, sizeof(path), "nvml/%s/%s", p->pci, name);
	if (rc == 0)
		snprintf(text, sizeof(text), "%llu", value);
	else if (rc == NVML_NOT_SUPPORTED)
		snprintf(text, sizeof(text), "Not Supported");
	else
		snprintf(text, sizeof(text), "%.60s", p->nvml->error(rc));
	plat_tree_put(p->tree, path, text);
}

/* The key is the PCI address, since NVML may count GPUs in another order than CUDA. */
static void probe_nvml_gpu(struct plat_tree *tree, const struct nvml *nvml, void *device)
{
	struct gpu_put p = {.tree = tree, .nvml = nvml};
	struct nvml_pci pci = {.domain = 0};
	unsigned long long bits = 0;
	unsigned int value = 0;
	int rc;

	if (nvml->pci(device, &pci))
		return;
	snprintf(p.pci, sizeof(p.pci), "%04x:%02x:%02x.0", pci.domain & 0xffff, pci.bus & 0xff,
		 pci.device & 0x1f);
	rc = nvml->clock(device, NVML_CLOCK_SM, &value);
	probe_nvml_put(&p, "clock_sm", rc, value);
	rc = nvml->clock_max(device, NVML_CLOCK_SM, &value);
	probe_nvml_put(&p, "clock_sm_max", rc, value);
	rc = nvml->clock(device, NVML_CLOCK_MEM, &value);
	probe_nvml_put(&p, "clock_mem", rc, value);
	rc = nvml->throttle(device, &bits);
	probe_nvml_put(&p, "throttle", rc, bits);
	rc = nvml->temperature(device, NVML_TEMPERATURE, &value);
	probe_nvml_put(&p, "temperature", rc, value);
	rc = nvml->power(device, &value);
	probe_nvml_put(&p, "power_mw", rc, value);
	rc = nvml->width(device, &value);
	probe_nvml_put(&p, "pcie_width", rc, value);
	rc = nvml->width_max(device, &value);
	probe_nvml_put(&p, "pcie_width_max", rc, value);
}

void plat_probe_nvml(struct plat_tree *tree, const char *lib)
{
	struct nvml nvml;
	unsigned int cnt = 0;
	void *device;

	if (!probe_nvml_open(lib, &nvml) || nvml.cnt(&cnt))
		return;
	for (unsigned int i = 0; i < cnt && i < SPW_PLAT_GPU_MAX; i++)
		if (nvml.handle(i, &device) == 0)
			probe_nvml_gpu(tree, &nvml, device);
}
