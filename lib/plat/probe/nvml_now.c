/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Every GPU now (spw_plat_gpus_now). A library of its own beside nvml.c: that one reads facts of a
 * machine into a tree, this one what moves. Source of names and numbers: NVIDIA Management Library,
 * nvml.h.
 *
 * lib/hang calls it for each snapshot. NVML counts its starts and is left open, as its next start
 * would take a second again. Before adding a function: one that is missing from the library makes
 * all of them unavailable, so it must be in every driver that is supported.
 */
#include <errno.h>

#include "base/spw_err.h"
#include "cuda/spw_cuda_library.h"
#include "plat/spw_plat.h"

#define NVML_CLOCK_SM 1

/* nvmlUtilization_t: percent of the last sample period. */
struct nvml_rates {
	unsigned int gpu, memory;
};

/* nvmlProcessInfo_t of the _v3 functions; earlier ones lack the instances. */
struct nvml_user {
	unsigned int pid;
	unsigned long long memory_bytes;
	unsigned int gpu_instance, compute_instance;
};

#define NVML_NOW_FUNCTIONS(X)                                                                \
	X(init, nvmlInit_v2, (void))                                                         \
	X(cnt, nvmlDeviceGetCount_v2, (unsigned int *cnt))                                   \
	X(handle, nvmlDeviceGetHandleByIndex_v2, (unsigned int idx, void **device))          \
	X(rates, nvmlDeviceGetUtilizationRates, (void *device, struct nvml_rates *rates))    \
	X(power, nvmlDeviceGetPowerUsage, (void *device, unsigned int *mw))                  \
	X(clock, nvmlDeviceGetClockInfo, (void *device, int kind, unsigned int *mhz))        \
	X(clock_max, nvmlDeviceGetMaxClockInfo, (void *device, int kind, unsigned int *mhz)) \
	X(reasons, nvmlDeviceGetCurrentClocksThrottleReasons,                                \
	  (void *device, unsigned long long *bits))                                          \
	X(users, nvmlDeviceGetComputeRunningProcesses_v3,                                    \
	  (void *device, unsigned int *cnt, struct nvml_user *user))

struct nvml_now {
	NVML_NOW_FUNCTIONS(SPW_CUDA_LIBRARY_MEMBER)
};

/* Any error is "not known": a GPU may answer "Not Supported" to each of them. */
static int64_t nvml_now_value(int rc, unsigned long long value)
{
	return rc == 0 && value <= INT64_MAX ? (int64_t)value : -1;
}

/* NVML fails where there are more than fit; then no process is named, rather than some of them:
 * that a process is alone on its GPU must not follow from a list that was cut. */
static void nvml_now_users(const struct nvml_now *nvml, void *device, struct spw_plat_gpu_now *gpu)
{
	struct nvml_user user[SPW_PLAT_GPU_PID_MAX];
	unsigned int cnt = SPW_PLAT_GPU_PID_MAX;

	gpu->pid_cnt = -1;
	if (nvml->users(device, &cnt, user) || cnt > SPW_PLAT_GPU_PID_MAX)
		return;
	gpu->pid_cnt = (int32_t)cnt;
	for (unsigned int i = 0; i < cnt; i++)
		gpu->pid[i] = user[i].pid;
}

static void nvml_now_gpu(const struct nvml_now *nvml, void *device, struct spw_plat_gpu_now *gpu)
{
	struct nvml_rates rates = {0};
	unsigned long long bits = 0;
	unsigned int value = 0;
	int rc = nvml->rates(device, &rates);

	gpu->busy = nvml_now_value(rc, rates.gpu);
	gpu->memory_busy = nvml_now_value(rc, rates.memory);
	rc = nvml->power(device, &value);
	gpu->power_mw = nvml_now_value(rc, value);
	rc = nvml->clock(device, NVML_CLOCK_SM, &value);
	gpu->sm_mhz = nvml_now_value(rc, value);
	rc = nvml->clock_max(device, NVML_CLOCK_SM, &value);
	gpu->sm_max_mhz = nvml_now_value(rc, value);
	rc = nvml->reasons(device, &bits);
	gpu->reasons = nvml_now_value(rc, bits);
	nvml_now_users(nvml, device, gpu);
}

/* A GPU without a handle keeps its place in the list, so that indexes are NVML's. */
int spw_plat_gpus_now(const char *lib, struct spw_plat_gpu_now *gpu_out)
{
	struct nvml_now nvml, *of = &nvml;
	const struct spw_cuda_symbol wanted[] = {NVML_NOW_FUNCTIONS(SPW_CUDA_LIBRARY_SYMBOL)};
	unsigned int cnt = 0;
	void *device;
	int rc = spw_cuda_library_open(lib ? lib : "libnvidia-ml.so.1", "NVML", wanted,
				       SPW_ARRAY_CNT(wanted));

	if (rc < 0)
		return rc;
	if (nvml.init() || nvml.cnt(&cnt))
		return spw_err(ENODEV, "NVML does not start: nvidia-smi says why");
	cnt = SPW_MIN(cnt, SPW_PLAT_GPU_MAX);
	for (unsigned int i = 0; i < cnt; i++) {
		gpu_out[i] = (struct spw_plat_gpu_now){-1, -1, -1, -1, -1, -1, -1, {0}};
		if (nvml.handle(i, &device) == 0)
			nvml_now_gpu(&nvml, device, &gpu_out[i]);
	}
	return (int)cnt;
}
