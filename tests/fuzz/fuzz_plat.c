/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Fuzzing recorded machines: any lines after those of a small machine with a NIC. What is read can
 * be saved, and read again it yields the same facts and findings; cores can be picked from it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_port.h"
#include "plat/spw_plat.h"

static const char machine[] =
	"sys/devices/system/cpu/online = 0-3\n"
	"proc/self/status = Cpus_allowed_list:\\t0-3\n"
	"sys/bus/pci/devices/0000:01:00.0/vendor = 0x15b3\n"
	"sys/bus/pci/devices/0000:01:00.0/class = 0x020000\n"
	"sys/class/net/eth0/device -> /sys/devices/pci0000:00/0000:01:00.0\n"
	"sys/class/infiniband/mlx5_0/device -> /sys/devices/pci0000:00/0000:01:00.0\n"
	"sys/devices/pci0000:00/0000:01:00.0/vendor = 0x15b3\n";

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
	struct spw_plat_from from = {.text = {machine, (const char *)data},
				     .text_bytes = {sizeof(machine) - 1, size}};
	struct spw_plat *plat, *again;
	char *text;
	FILE *file;

	if (size == 0)
		from.text[1] = NULL;
	if (spw_plat_read(&from, &plat))
		return 0;
	pick(plat);
	file = open_memstream(&text, &size);
	fuzz_demand(file && spw_plat_save(plat, file) == 0);
	fclose(file);
	from = (struct spw_plat_from){.text = {text}, .text_bytes = {size}};
	fuzz_demand(spw_plat_read(&from, &again) == 0);
	same(plat, again);
	spw_plat_free(plat);
	spw_plat_free(again);
	free(text);
	return 0;
}
