/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A CUDA driver library that answers queries as a GB10 does (attributes from NVIDIA's porting
 * guide), so that lib/plat is tested on machines without a GPU. FAKE_GPU="8.9 NVIDIA RTX 4090"
 * gives it another compute capability and name. The CUDA runtime does not start on it.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int cuInit(unsigned int flags);
int cuDriverGetVersion(int *version);
int cuDeviceGetCount(int *cnt);
int cuDeviceGet(int *device, int ordinal);
int cuDeviceGetName(char *name, int bytes, int device);
int cuDeviceTotalMem_v2(size_t *bytes, int device);
int cuDeviceGetAttribute(int *value, int attr, int device);
int cuDevicePrimaryCtxRetain(void **ctx, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuCtxSetCurrent(void *ctx);
int cuMemAlloc_v2(unsigned long long *ptr, size_t bytes);
int cuMemFree_v2(unsigned long long ptr);
int cuMemHostAlloc(void **ptr, size_t bytes, unsigned int flags);
int cuMemFreeHost(void *ptr);
int cuMemcpyAsync(unsigned long long to, unsigned long long from, size_t bytes, void *stream);
int cuCtxSynchronize(void);

int cuInit(unsigned int flags)
{
	return (int)flags;
}

int cuDriverGetVersion(int *version)
{
	*version = 13000;
	return 0;
}

int cuDeviceGetCount(int *cnt)
{
	*cnt = 1;
	return 0;
}

int cuDeviceGet(int *device, int ordinal)
{
	*device = 40 + ordinal;
	return ordinal == 0 ? 0 : 101;
}

int cuDeviceGetName(char *name, int bytes, int device)
{
	const char *fake = getenv("FAKE_GPU");

	snprintf(name, (size_t)bytes, "%s", fake ? fake + 4 : "NVIDIA GB10");
	return device == 40 ? 0 : 101;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	*bytes = 128524689408u;
	return device == 40 ? 0 : 101;
}

int cuDeviceGetAttribute(int *value, int attr, int device)
{
	static const int table[][2] = {
		{16, 48},  {17, 0},  {18, 1},  {19, 1},  {20, 0}, {33, 1}, {34, 0}, {36, 4266000},
		{37, 256}, {50, 15}, {75, 12}, {76, 1},  {86, 1}, {88, 1}, {89, 1}, {91, 1},
		{99, 1},   {100, 1}, {116, 0}, {117, 0}, {118, 0}}; /* 124: not known */
	const char *fake = getenv("FAKE_GPU");

	if (fake && (attr == 75 || attr == 76)) {
		*value = fake[attr == 75 ? 0 : 2] - '0';
		return 0;
	}
	for (size_t i = 0; device == 40 && i < sizeof(table) / sizeof(table[0]); i++) {
		if (table[i][0] == attr) {
			*value = table[i][1];
			return 0;
		}
	}
	return 1;
}

/* ---- copies: each takes a millisecond ---- */

static unsigned int retained, queued, used;
static void *current;

int cuDevicePrimaryCtxRetain(void **ctx, int device)
{
	*ctx = &retained;
	retained++;
	return device == 40 ? 0 : 101;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
	if (used || current)
		abort(); /* memory, or the thread's context, was forgotten */
	return device == 40 && retained-- ? 0 : 201;
}

int cuCtxSetCurrent(void *ctx)
{
	current = ctx;
	return 0;
}

int cuMemAlloc_v2(unsigned long long *ptr, size_t bytes)
{
	*ptr = 0x7000000000ull + used++ * bytes;
	return current ? 0 : 201;
}

int cuMemFree_v2(unsigned long long ptr)
{
	used--;
	return ptr ? 0 : 1;
}

int cuMemHostAlloc(void **ptr, size_t bytes, unsigned int flags)
{
	*ptr = malloc(bytes);
	return *ptr && flags == 0 && current ? 0 : 2;
}

int cuMemFreeHost(void *ptr)
{
	free(ptr);
	return 0;
}

int cuMemcpyAsync(unsigned long long to, unsigned long long from, size_t bytes, void *stream)
{
	queued++;
	return to && from && bytes && !stream && current ? 0 : 1;
}

int cuCtxSynchronize(void)
{
	usleep(1000 * queued);
	queued = 0;
	return 0;
}
