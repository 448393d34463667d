/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A CUDA driver library that answers queries as a GB10 does (attributes from NVIDIA's porting
 * guide), so that lib/plat is tested on machines without a GPU.
 */
#include <stdio.h>
#include <stddef.h>

int cuInit(unsigned int flags);
int cuDriverGetVersion(int *version);
int cuDeviceGetCount(int *cnt);
int cuDeviceGet(int *device, int ordinal);
int cuDeviceGetName(char *name, int bytes, int device);
int cuDeviceTotalMem_v2(size_t *bytes, int device);
int cuDeviceGetAttribute(int *value, int attr, int device);

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
	snprintf(name, (size_t)bytes, "NVIDIA GB10");
	return device == 40 ? 0 : 101;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	*bytes = 128524689408u;
	return device == 40 ? 0 : 101;
}

int cuDeviceGetAttribute(int *value, int attr, int device)
{
	static const int table[][2] = {{16, 48}, {17, 0},  {18, 1},  {19, 1},  {20, 0},
				       {33, 1},  {34, 0},  {50, 15}, {75, 12}, {76, 1},
				       {86, 1},  {88, 1},  {89, 1},  {91, 1},  {99, 1},
				       {100, 1}, {116, 0}, {117, 0}, {118, 0}}; /* 124: not known */

	for (size_t i = 0; device == 40 && i < sizeof(table) / sizeof(table[0]); i++) {
		if (table[i][0] == attr) {
			*value = table[i][1];
			return 0;
		}
	}
	return 1;
}
