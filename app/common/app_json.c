/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <rte_version.h>

#include "app_json.h"
#include "base/spw_err.h"

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
	return json_pack("{s:s,s:s,s:s,s:I,s:I,s:s,s:s}", "cpu", model, "arch", os.machine, "kernel", os.release, "cores",
			 (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "tsc_hz", (json_int_t)tsc_hz, "dpdk", rte_version(),
			 "boot_id", boot_id(boot, sizeof(boot)));
}

int app_json_write(json_t *top, const char *path)
{
	int rc;

	if (!top)
		return spw_err(ENOMEM, "no memory for the JSON summary");
	if (!strcmp(path, "-"))
		rc = json_dumpf(top, stdout, JSON_INDENT(1)) || putchar('\n') == EOF;
	else
		rc = json_dump_file(top, path, JSON_INDENT(1));
	json_decref(top);
	return rc ? spw_err(EIO, "--json %s: cannot write: %s", path, strerror(errno)) : 0;
}
