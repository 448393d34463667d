/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The user outside of a user namespace (spw_uid.h).
 *
 * Inside a user namespace geteuid() is 0 for a user without any right outside. All users of the
 * machine share /dev/shm, where the software ConnectX (lib/softhca) names its files by the number
 * that this file finds.
 */
#include "base/spw_uid.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOBODY 65534u /* kernel.overflowuid, by default */

/* By the lines "inside outside count" of the map. */
static uint32_t uid_by_map(FILE *map, uint32_t uid)
{
	unsigned int inside, outside, cnt;

	while (fscanf(map, "%u %u %u", &inside, &outside, &cnt) == 3)
		if (uid - inside < cnt)
			return outside + (uid - inside);
	return uid;
}

uint32_t spw_uid_outer(void)
{
	uint32_t uid = geteuid();
	FILE *map = fopen("/proc/self/uid_map", "re");
	struct stat st;

	if (map) {
		uid = uid_by_map(map, uid);
		fclose(map);
	}
	/* The map knows one level alone. Root's own files say whether its 0 is root. */
	return uid == 0 && stat("/dev/shm", &st) == 0 && st.st_uid != 0 ? NOBODY : uid;
}
