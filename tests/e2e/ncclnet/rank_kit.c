/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 */
#include "rank_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ncclnet/nccl_abi.h"

void rank_nap(uint32_t us)
{
	nanosleep(&(struct timespec){.tv_nsec = us * 1000l}, NULL);
}

void rank_must(int result)
{
	if (!result)
		return;
	printf("result %d\n", result);
	exit(3);
}

void rank_handle_share(const char *path, const void *handle)
{
	char part[520];
	FILE *f;

	snprintf(part, sizeof(part), "%s.part", path);
	f = fopen(part, "w");
	if (!f || fwrite(handle, NCCL_HANDLE_BYTES, 1, f) != 1 || fclose(f) || rename(part, path))
		exit(2);
}

void rank_handle_learn(const char *path, void *handle_out)
{
	FILE *f = NULL;

	while (!f) {
		rank_nap(200);
		f = fopen(path, "r");
	}
	if (fread(handle_out, NCCL_HANDLE_BYTES, 1, f) != 1)
		exit(2);
	fclose(f);
}

void rank_fill(uint8_t *at, size_t bytes, uint32_t seed)
{
	for (size_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)((i * 2654435761u + seed * 40503u) >> 7);
}

bool rank_is_right(const uint8_t *at, size_t bytes, uint32_t seed)
{
	for (size_t i = 0; i < bytes; i++)
		if (at[i] != (uint8_t)((i * 2654435761u + seed * 40503u) >> 7))
			return false;
	return true;
}
