/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The host's part of a JSON summary, for spinwire and spinwire-gen. A file of its own because it
 * names DPDK's version: a program that does not call it needs no DPDK to run. What cannot be read
 * is "unknown", never an error.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <rte_version.h>

#include "app_json.h"
#include "app_text.h"

/* One boot has one tick counter, so files with the same id can be joined by their ticks. */
static const char *boot_id(char *out, size_t bytes)
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
	bool got = file && fgets(out, (int)bytes, file);

	if (file)
		fclose(file);
	if (!got)
		return "unknown";
	out[strcspn(out, "\n")] = '\0';
	return out;
}

json_t *app_json_host(uint64_t tsc_hz)
{
	char model[128] = "unknown", line[256], boot[64];
	FILE *file = fopen("/proc/cpuinfo", "r");
	struct utsname os;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "model name : %127[^\n]", model) == 1)
			break;
	if (file)
		fclose(file);
	uname(&os);
	return json_pack("{s:o,s:o,s:o,s:I,s:I,s:s,s:s}", "cpu", app_json_text(model), "arch",
			 app_json_text(os.machine), "kernel", app_json_text(os.release), "cores",
			 (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "tsc_hz", (json_int_t)tsc_hz,
			 "dpdk", rte_version(), "boot_id", boot_id(boot, sizeof(boot)));
}
