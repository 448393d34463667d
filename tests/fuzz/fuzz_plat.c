/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Fuzzing recorded machines: any document after that of a small machine with a NIC. What is read
 * can be saved, and read again it yields the same facts and findings; cores can be picked from it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "fuzz_port.h"
#include "plat/spw_plat.h"

static const char machine[] =
	"{\"sys/devices/system/cpu/online\": \"0-3\","
	"\"proc/self/status\": \"Cpus_allowed_list:\\t0-3\","
	"\"sys/bus/pci/devices/0000:01:00.0/vendor\": \"0x15b3\","
	"\"sys/bus/pci/devices/0000:01:00.0/class\": \"0x020000\","
	"\"sys/class/net/eth0/device\": {\"->\": \"/sys/devices/pci0000:00/0000:01:00.0\"},"
	"\"sys/class/infiniband/mlx5_0/device\":"
	"{\"->\": \"/sys/devices/pci0000:00/0000:01:00.0\"},"
	"\"sys/devices/pci0000:00/0000:01:00.0/vendor\": \"0x15b3\"}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void pick(const struct spw_plat *plat)
{
	uint32_t cpu[SPW_PLAT_CORE_MAX];
	char text[64];

	if (spw_plat_pick(plat, &(struct spw_plat_pick){.cnt = 2, .nic = "mlx5_0"}, cpu) == 0)
		fuzz_demand(cpu[0] != cpu[1] && spw_plat_core_by_cpu(plat, cpu[1]));
	spw_plat_core_blame(plat, 0, text, sizeof(text));
}

static void same(const struct spw_plat *a, const struct spw_plat *b)
{
	fuzz_demand(a->fact_cnt == b->fact_cnt && a->finding_cnt == b->finding_cnt);
	for (uint32_t i = 0; i < a->fact_cnt; i++)
		fuzz_demand(!strcmp(a->fact[i].value, b->fact[i].value) &&
			    !strcmp(a->fact[i].why, b->fact[i].why));
	for (uint32_t i = 0; i < a->finding_cnt; i++)
		fuzz_demand(!strcmp(a->finding[i].what, b->finding[i].what));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *first, *record, *copy;
	json_t *change = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
	struct spw_plat *plat = NULL, *again;
	char *text;

	if (!change)
		return 0;
	first = json_loads(machine, 0, NULL);
	fuzz_demand(first != NULL);
	if (spw_plat_read(&(struct spw_plat_from){.record = {first, change}}, &plat) == 0) {
		pick(plat);
		record = spw_plat_record(plat);
		text = json_dumps(record, 0);
		copy = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
		fuzz_demand(copy &&
			    spw_plat_read(&(struct spw_plat_from){.record = {copy}}, &again) == 0);
		same(plat, again);
		spw_plat_free(plat);
		spw_plat_free(again);
		json_decref(record);
		json_decref(copy);
		free(text);
	}
	json_decref(first);
	json_decref(change);
	return 0;
}
