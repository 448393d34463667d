/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Findings about GPUs and GPUDirect (findings.c has the rules).
 *
 * plat.c calls plat_gpus_judge after all readers; spw_plat_gpus_load calls plat_load_judge again
 * with what a load showed. Remedies name the GPU by CUDA's ordinal.
 */
#include <string.h>

#include "plat/findings.h"

#define COMPUTE_PROHIBITED 2

/* Reasons that lower clocks below what was asked for. Source: nvml.h, nvmlClocksThrottleReasons. */
#define THROTTLE_HW_SLOWDOWN    0x08
#define THROTTLE_SW_THERMAL     0x20
#define THROTTLE_HW_THERMAL     0x40
#define THROTTLE_HW_POWER_BRAKE 0x80
#define THROTTLE_HURTS \
	(THROTTLE_HW_SLOWDOWN | THROTTLE_SW_THERMAL | THROTTLE_HW_THERMAL | THROTTLE_HW_POWER_BRAKE)

/* One of the two: a GPU that is too old gains nothing from the CUDA module. */
static void gpu_executor_judge(struct spw_plat *plat, const struct spw_plat_gpu *gpu)
{
	const int32_t major = gpu->attr[SPW_PLAT_GPU_COMPUTE_CAPABILITY_MAJOR],
		      minor = gpu->attr[SPW_PLAT_GPU_COMPUTE_CAPABILITY_MINOR];

	if (major < 0 || minor < 0)
		return;
	if (10 * major + minor < SPW_PLAT_GPU_CAPABILITY_MIN)
		plat_find(plat, GPU_TOO_OLD, gpu->name, major, minor,
			  SPW_PLAT_GPU_CAPABILITY_MIN / 10, SPW_PLAT_GPU_CAPABILITY_MIN % 10);
	else if (plat->cuda_built == 0)
		plat_find(plat, GPU_NOT_BUILT, gpu->name);
}

/* What a user can change: display, compute mode, cooling, the slot of the card. */
static void gpu_settings_judge(struct spw_plat *plat, const struct spw_plat_gpu *gpu)
{
	if (gpu->attr[SPW_PLAT_GPU_KERNEL_EXEC_TIMEOUT] == 1)
		plat_find(plat, GPU_TIME_LIMIT, gpu->name);
	if (gpu->attr[SPW_PLAT_GPU_COMPUTE_MODE] == COMPUTE_PROHIBITED)
		plat_find(plat, GPU_PROHIBITED, gpu->name, gpu->ordinal);
	if (gpu->throttle > 0 && gpu->throttle & THROTTLE_HURTS)
		plat_find(plat, GPU_THROTTLED, gpu->name, gpu->clock_sm_mhz, gpu->clock_sm_max_mhz,
			  (unsigned long long)gpu->throttle, gpu->ordinal);
	if (gpu->pcie_width > 0 && gpu->pcie_width < gpu->pcie_width_max)
		plat_find(plat, GPU_PCIE_NARROW, gpu->name, gpu->pcie_width, gpu->pcie_width_max,
			  gpu->ordinal);
}

/* nvidia-peermem lets a NIC reach the memory of a GPU that has its own. An integrated GPU has none,
 * and the module refuses to load there: "Invalid argument". Where the GPU offers dma-buf, that is
 * used and the module is not needed. */
static void gpu_peermem_judge(struct spw_plat *plat, const struct spw_plat_gpu *gpu)
{
	bool direct = gpu->attr[SPW_PLAT_GPU_GPU_DIRECT_RDMA_SUPPORTED] == 1;

	if (gpu->attr[SPW_PLAT_GPU_INTEGRATED] == 1 && !direct &&
	    (plat->peermem || plat->peermem_wanted))
		plat_find(plat, PEERMEM_USELESS, gpu->name);
	if (direct && gpu->attr[SPW_PLAT_GPU_DMA_BUF_SUPPORTED] != 1 && !plat->peermem)
		plat_find(plat, PEERMEM_ABSENT, gpu->name);
}

/* One RDMA device on the GPU's node is enough for silence. */
static void gpu_distance_judge(struct spw_plat *plat, const struct spw_plat_gpu *gpu)
{
	const struct spw_plat_nic *far = NULL;

	for (uint32_t i = 0; i < plat->nic_cnt && gpu->node >= 0; i++) {
		if (!plat->nic[i].rdma[0] || plat->nic[i].node < 0)
			continue;
		if (plat->nic[i].node == gpu->node)
			return;
		far = &plat->nic[i];
	}
	if (far)
		plat_find(plat, GPU_FAR, gpu->name, gpu->node, far->rdma, far->node);
}

#define LOAD_CLOCK_PERCENT 50 /* of the highest clock */
#define LOAD_MEMORY_PERCENT \
	40 /* of what the memory's clock and width give; copies reach 70 to 85 */

/* A GPU that is slow only while it works: "hidden" to whoever looks at it when it is idle. */
void plat_load_judge(struct spw_plat *plat, const struct spw_plat_gpu *gpu)
{
	const struct spw_plat_gpu_load *load = &gpu->load;
	bool throttled = load->throttle > 0 && load->throttle & THROTTLE_HURTS,
	     clock_low = load->clock_mhz > 0 &&
			 load->clock_mhz * 100 < gpu->clock_sm_max_mhz * LOAD_CLOCK_PERCENT,
	     memory_low = load->memory_mbs > 0 && load->promised_mbs > 0 &&
			  load->memory_mbs * 100 < load->promised_mbs * LOAD_MEMORY_PERCENT;

	if (throttled || clock_low || memory_low)
		plat_find(plat, MEASURED_GPU, gpu->name, (long long)load->clock_mhz,
			  gpu->clock_sm_max_mhz, (unsigned long long)SPW_MAX(load->throttle, 0),
			  (long long)load->memory_mbs / 1000, (long long)load->promised_mbs / 1000,
			  gpu->ordinal);
}

/* A driver that does not start is an error; a machine without a GPU is none. */
void plat_gpus_judge(struct spw_plat *plat)
{
	if (plat->gpu_cnt == 0 && strstr(plat->cuda_why, "does not start"))
		plat_find(plat, GPU_BROKEN, plat->cuda_why);
	for (uint32_t i = 0; i < plat->gpu_cnt; i++) {
		gpu_executor_judge(plat, &plat->gpu[i]);
		gpu_settings_judge(plat, &plat->gpu[i]);
		gpu_peermem_judge(plat, &plat->gpu[i]);
		gpu_distance_judge(plat, &plat->gpu[i]);
		plat_load_judge(plat, &plat->gpu[i]);
	}
}
