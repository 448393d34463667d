/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * GPUs: what CUDA (probe/cuda.c) and NVML (probe/nvml.c) answered, from the tree.
 *
 * GPUs are listed by CUDA's ordinals; NVML and sysfs are joined by PCI address. -1 stands for
 * unknown.
 *
 * A GPU that CUDA does not list is no executor, so it is no row here. NVML may be missing while
 * CUDA is there: its values are then unknown. plat.c calls plat_gpus_read after the probes;
 * spw_plat_gpus_load adds what a load shows.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "plat/plat_impl.h"

/* The PCI address is made of CUDA's attributes in the form that sysfs and NVML use, to join them.
 */
static void gpu_cuda_read(struct plat_read *r, struct spw_plat_gpu *gpu, const char *number)
{
	plat_text(r, "name", gpu->name, sizeof(gpu->name), "cuda/%s/name", number);
	gpu->mem_bytes = plat_count(r, "memory_bytes", "cuda/%s/memory", number);
	for (uint32_t i = 0; i < SPW_PLAT_GPU_ATTR_CNT; i++) {
		const char *name = spw_plat_gpu_attr_name((enum spw_plat_gpu_attr)i);

		gpu->attr[i] = (int32_t)plat_number(r, name, -1, "cuda/%s/%s", number, name);
	}
	snprintf(gpu->pci, sizeof(gpu->pci), "%04x:%02x:%02x.0",
		 (uint32_t)gpu->attr[SPW_PLAT_GPU_PCI_DOMAIN_ID] & 0xffff,
		 (uint32_t)gpu->attr[SPW_PLAT_GPU_PCI_BUS_ID] & 0xff,
		 (uint32_t)gpu->attr[SPW_PLAT_GPU_PCI_DEVICE_ID] & 0x1f);
	gpu->node = (int32_t)plat_number(r, "numa_node", -1, "sys/bus/pci/devices/%s/numa_node",
					 gpu->pci);
}

static void gpu_nvml_read(struct plat_read *r, struct spw_plat_gpu *gpu)
{
	const char *pci = gpu->pci;
	char text[64];

	gpu->clock_sm_mhz = (int32_t)plat_number(r, "clock_sm", -1, "nvml/%s/clock_sm", pci);
	gpu->clock_sm_max_mhz =
		(int32_t)plat_number(r, "clock_sm_max", -1, "nvml/%s/clock_sm_max", pci);
	plat_text(r, "clock_mem", text, sizeof(text), "nvml/%s/clock_mem", pci);
	gpu->throttle = plat_number(r, "throttle", -1, "nvml/%s/throttle", pci);
	plat_text(r, "temperature", text, sizeof(text), "nvml/%s/temperature", pci);
	gpu->power_mw = (int32_t)plat_number(r, "power_mw", -1, "nvml/%s/power_mw", pci);
	gpu->pcie_width = (int32_t)plat_number(r, "pcie_width", -1, "nvml/%s/pcie_width", pci);
	gpu->pcie_width_max =
		(int32_t)plat_number(r, "pcie_width_max", -1, "nvml/%s/pcie_width_max", pci);
}

/* What a short load showed (probe/load.c); all -1 if there was none. */
static void gpu_load_read(struct plat_read *r, struct spw_plat_gpu *gpu)
{
	struct spw_plat_gpu_load *load = &gpu->load;
	char text[160];

	*load = (struct spw_plat_gpu_load){-1, -1, -1, -1, -1};
	if (plat_is_there(r, "measured/gpu/%s", gpu->pci) &&
	    plat_text(r, "load", text, sizeof(text), "measured/gpu/%s", gpu->pci) &&
	    sscanf(text,
		   "memory %" SCNd64 " promised %" SCNd64 " host %" SCNd64 " clock %" SCNd64
		   " throttle %" SCNd64,
		   &load->memory_mbs, &load->promised_mbs, &load->host_mbs, &load->clock_mhz,
		   &load->throttle) != 5)
		*load = (struct spw_plat_gpu_load){-1, -1, -1, -1, -1};
}

/* Names that are no ordinal, such as "driver" and "why", stand in the same folder. */
static bool gpu_read(const char *number, void *arg)
{
	struct plat_read *r = arg;
	struct spw_plat *plat = r->plat;
	struct spw_plat_gpu *gpu = &plat->gpu[plat->gpu_cnt];

	if (number[0] < '0' || number[0] > '9')
		return true;
	gpu->ordinal = (uint32_t)strtoul(number, NULL, 10);
	plat_of(r, "gpu %u", gpu->ordinal);
	gpu_cuda_read(r, gpu, number);
	gpu_nvml_read(r, gpu);
	gpu_load_read(r, gpu);
	return ++plat->gpu_cnt < SPW_PLAT_GPU_MAX;
}

/* Judged again with the load: an idle GPU's clocks say nothing. */
void spw_plat_gpus_load(struct spw_plat *plat, const char *cuda_lib, const char *nvml_lib)
{
	struct plat_read r = {.tree = plat->tree, .plat = plat};

	plat_probe_load(plat->tree, cuda_lib ? cuda_lib : "libcuda.so.1",
			nvml_lib ? nvml_lib : "libnvidia-ml.so.1");
	for (uint32_t i = 0; i < plat->gpu_cnt; i++) {
		plat_of(&r, "gpu %u", plat->gpu[i].ordinal);
		gpu_load_read(&r, &plat->gpu[i]);
		plat_load_judge(plat, &plat->gpu[i]);
	}
}

/* Without a GPU the reason is kept for the findings: a driver that does not start is an error, no
 * driver is none. */
void plat_gpus_read(struct plat_read *r)
{
	struct spw_plat *plat = r->plat;

	plat_tree_each(r->tree, "cuda", gpu_read, r);
	plat_of(r, "host");
	plat->cuda_driver = (int32_t)plat_number(r, "cuda_driver", 0, "cuda/driver");
	plat->cuda_built = plat_is_there(r, "build/cuda")
				   ? (int32_t)plat_number(r, "cuda_built", -1, "build/cuda")
				   : -1;
	if (plat->gpu_cnt)
		return;
	if (!plat_text(r, "cuda", plat->cuda_why, sizeof(plat->cuda_why), "cuda/why"))
		plat_copy(plat->cuda_why, sizeof(plat->cuda_why), "GPUs were not searched for");
}
