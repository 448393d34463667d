/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * An NVML that answers as a GB10 does, hot: no memory clock and no PCIe link of its own. Layout of
 * the PCI information and numbers: nvml.h.
 */
#include <string.h>

#define NOT_SUPPORTED   3
#define HW_THERMAL      0x40
#define PCI_INFO_DOMAIN 16 /* offsets in nvmlPciInfo_t */
#define PCI_INFO_BUS    20
#define PCI_INFO_DEVICE 24

int nvmlInit_v2(void);
int nvmlDeviceGetCount_v2(unsigned int *cnt);
int nvmlDeviceGetHandleByIndex_v2(unsigned int idx, void **device);
int nvmlDeviceGetPciInfo_v3(void *device, char *info);
int nvmlDeviceGetClockInfo(void *device, int kind, unsigned int *mhz);
int nvmlDeviceGetMaxClockInfo(void *device, int kind, unsigned int *mhz);
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *bits);
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned int *celsius);
int nvmlDeviceGetPowerUsage(void *device, unsigned int *mw);
int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned int *lanes);
int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned int *lanes);
int nvmlDeviceGetUtilizationRates(void *device, unsigned int *gpu_and_memory);
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *cnt, unsigned int *user);
const char *nvmlErrorString(int rc);

static int one_device;

static int answer(const void *device, unsigned int *out, unsigned int value)
{
	*out = value;
	return device == &one_device ? 0 : 2;
}

int nvmlInit_v2(void)
{
	return 0;
}

int nvmlDeviceGetCount_v2(unsigned int *cnt)
{
	*cnt = 1;
	return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int idx, void **device)
{
	*device = &one_device;
	return idx ? 6 : 0;
}

int nvmlDeviceGetPciInfo_v3(void *device, char *info)
{
	const unsigned int domain = 15, bus = 1, dev = 0;

	memcpy(info + PCI_INFO_DOMAIN, &domain, sizeof(domain));
	memcpy(info + PCI_INFO_BUS, &bus, sizeof(bus));
	memcpy(info + PCI_INFO_DEVICE, &dev, sizeof(dev));
	return device == &one_device ? 0 : 2;
}

int nvmlDeviceGetClockInfo(void *device, int kind, unsigned int *mhz)
{
	return kind == 1 ? answer(device, mhz, 500) : NOT_SUPPORTED;
}

int nvmlDeviceGetMaxClockInfo(void *device, int kind, unsigned int *mhz)
{
	return kind == 1 ? answer(device, mhz, 3003) : NOT_SUPPORTED;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *bits)
{
	*bits = HW_THERMAL;
	return device == &one_device ? 0 : 2;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned int *celsius)
{
	return sensor ? NOT_SUPPORTED : answer(device, celsius, 96);
}

int nvmlDeviceGetPowerUsage(void *device, unsigned int *mw)
{
	(void)device;
	(void)mw;
	return 999;
}

int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned int *lanes)
{
	(void)device;
	(void)lanes;
	return NOT_SUPPORTED;
}

int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned int *lanes)
{
	(void)device;
	(void)lanes;
	return NOT_SUPPORTED;
}

int nvmlDeviceGetUtilizationRates(void *device, unsigned int *gpu_and_memory)
{
	gpu_and_memory[0] = 96;
	gpu_and_memory[1] = 0;
	return device == &one_device ? 0 : 2;
}

/* A process with 24 bytes each: its id first. */
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *cnt, unsigned int *user)
{
	user[0] = 4711;
	user[6] = 4712;
	*cnt = 2;
	return device == &one_device ? 0 : 2;
}

const char *nvmlErrorString(int rc)
{
	return rc == 999 ? "Unknown Error" : "Error";
}
