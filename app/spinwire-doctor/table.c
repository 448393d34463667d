/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Findings and facts for people.
 */
#include <ctype.h>
#include <stdio.h>

#include "app_program.h"
#include "doctor.h"

void doctor_put(const char *text)
{
	for (; *text; text++)
		putchar((unsigned char)*text < 32 || *text == 127 ? '?' : *text);
}

static uint32_t unknown_cnt(const struct spw_plat *plat)
{
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < plat->fact_cnt; i++)
		cnt += plat->fact[i].why[0] != '\0';
	return cnt;
}

/* The worst first. */
static void findings_print(const struct spw_plat *plat, enum spw_plat_severity severity)
{
	for (uint32_t i = 0; i < plat->finding_cnt; i++) {
		const struct spw_plat_finding *f = &plat->finding[i];

		if (f->severity != severity)
			continue;
		printf("%-6s %-20s ", spw_plat_severity_name(severity), f->code);
		doctor_put(f->what);
		if (f->todo[0]) {
			printf("\n%27s mend: ", "");
			doctor_put(f->todo);
		}
		printf("\n");
	}
}

void doctor_table(const struct spw_plat *plat)
{
	doctor_put(plat->machine[0] ? plat->machine : "a machine of unknown make");
	printf(": cores %u, network functions %u, GPUs %u; facts %u, unknown %u (--facts)\n",
	       plat->core_cnt, plat->nic_cnt, plat->gpu_cnt, plat->fact_cnt, unknown_cnt(plat));
	for (int severity = SPW_PLAT_ERROR; severity >= SPW_PLAT_NOTE; severity--)
		findings_print(plat, (enum spw_plat_severity)severity);
	if (plat->finding_cnt == 0)
		printf("no finding\n");
}

void doctor_facts(const struct spw_plat *plat)
{
	for (uint32_t i = 0; i < plat->fact_cnt; i++) {
		const struct spw_plat_fact *f = &plat->fact[i];

		printf("%-24s %-28s ", f->of, f->name);
		if (f->why[0])
			printf("unknown: %-22s ", f->why);
		else
			doctor_put(f->value);
		printf("  [%s]\n", f->source);
	}
}

int doctor_status(const struct spw_plat *plat)
{
	for (uint32_t i = 0; i < plat->finding_cnt; i++)
		if (plat->finding[i].severity == SPW_PLAT_ERROR)
			return APP_MACHINE;
	return APP_GOOD;
}
