/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * "spinwire-doctor cores N": the picker of lib/plat, for scripts (tools/lib). They read one line of
 * numbers, the main lcore's core first: nothing else may be printed to stdout. CUDA and NVML are
 * not opened.
 */
#include <stdio.h>

#include "app_file.h"
#include "app_json.h"
#include "doctor.h"

/* A recorded machine is picked from as it was: its cpuset and isolation are in the file. */
static int cores_machine_read(const struct doctor_args *args, struct spw_plat **plat_out)
{
	return args->file_cnt
		       ? doctor_load(args->file, args->file_cnt, plat_out)
		       : spw_plat_read(&(struct spw_plat_from){.cuda_lib = "", .nvml_lib = ""},
				       plat_out);
}

static int cores_put(const struct doctor_args *args, const uint32_t *cpu, uint32_t cnt)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < cnt; i++) {
		json_array_append_new(list, json_integer(cpu[i]));
		if (!doctor_is_quiet(args))
			printf("%u%c", cpu[i], i + 1 < cnt ? ' ' : '\n');
	}
	if (args->json)
		return app_json_write("--json",
				      json_pack("{s:s,s:s,s:o}", "schema", "spinwire.cores/1",
						"version", SPW_VERSION, "cores", list),
				      args->json);
	json_decref(list);
	return 0;
}

/* More cores than this process may use are no error here: all of those are picked. */
int doctor_cores(const struct doctor_args *args)
{
	static uint32_t cpu[SPW_PLAT_CORE_MAX];
	struct spw_plat_pick pick = {.nic = args->near};
	struct spw_plat *plat;
	int rc = app_file_take("--json", args->json);

	rc = rc ? rc : cores_machine_read(args, &plat);
	if (rc < 0)
		return rc;
	pick.cnt = SPW_MIN((uint32_t)args->core_cnt, spw_plat_core_cnt(plat));
	rc = spw_plat_pick(plat, &pick, cpu);
	spw_plat_free(plat);
	return rc ? rc : cores_put(args, cpu, pick.cnt);
}
