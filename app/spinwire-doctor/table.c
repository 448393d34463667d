/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Findings and facts for people, on stdout. main.c calls this after a machine was read, and not
 * where stdout has JSON. Text of a machine may come from a file or another host: it is printed by
 * doctor_put and table_put only, which make one line of it that does not move the cursor.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "app_program.h"
#include "base/spw_text.h"
#include "doctor.h"

/* Character by character, without a bound on the length; where a column is wanted, table_put. */
void doctor_put(const char *text)
{
	char shown[SPW_TEXT_SHOWN_BYTES];

	for (size_t left = strlen(text); left;) {
		const uint32_t n = spw_text_next(text, left, shown);

		fputs(shown, stdout);
		text += n;
		left -= n;
	}
}

/* For columns: cut to a line, padded to width. */
static void table_put(const char *text, int width, const char *behind)
{
	char shown[256];

	spw_text_show(text, shown, sizeof(shown));
	printf("%-*s%s", width, shown, behind);
}

static uint32_t table_unknown_cnt(const struct spw_plat *plat)
{
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < plat->fact_cnt; i++)
		cnt += plat->fact[i].why[0] != '\0';
	return cnt;
}

/* A finding behind the name of what it is about. */
static const char *table_rest(const struct spw_plat_finding *f)
{
	return f->what + strcspn(f->what, ": ");
}

/* The same about another device. */
static bool table_is_alike(const struct spw_plat_finding *a, const struct spw_plat_finding *b)
{
	return a->severity == b->severity && !strcmp(a->code, b->code) &&
	       !strcmp(table_rest(a), table_rest(b));
}

static uint32_t table_first_alike(const struct spw_plat *plat, uint32_t i)
{
	uint32_t k = 0;

	while (!table_is_alike(&plat->finding[k], &plat->finding[i]))
		k++;
	return k;
}

/* One line for a finding and all that are alike: their names, what was found, and what to do about
 * the first. */
static void table_put_alike(const struct spw_plat *plat, uint32_t i)
{
	const struct spw_plat_finding *f = &plat->finding[i];
	uint32_t cnt = 0;

	printf("%-6s %-20s ", spw_plat_severity_name(f->severity), f->code);
	for (uint32_t k = i; k < plat->finding_cnt; k++) {
		const struct spw_plat_finding *one = &plat->finding[k];
		char name[sizeof(one->what)];

		if (!table_is_alike(f, one))
			continue;
		snprintf(name, sizeof(name), "%s%.*s", cnt++ ? ", " : "",
			 (int)(table_rest(one) - one->what), one->what);
		doctor_put(name);
	}
	doctor_put(table_rest(f));
	if (f->todo[0]) {
		printf("\n%27s mend: ", "");
		doctor_put(f->todo);
		if (cnt > 1)
			printf("; the other%s alike", cnt > 2 ? "s" : "");
	}
	printf("\n");
}

/* The worst first. */
static void table_put_findings(const struct spw_plat *plat, enum spw_plat_severity severity)
{
	for (uint32_t i = 0; i < plat->finding_cnt; i++)
		if (plat->finding[i].severity == severity && table_first_alike(plat, i) == i)
			table_put_alike(plat, i);
}

/* What may stay as it is takes one line; its codes are those of the JSON findings. */
static void table_put_notes(const struct spw_plat *plat)
{
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < plat->finding_cnt; i++)
		if (plat->finding[i].severity == SPW_PLAT_NOTE && table_first_alike(plat, i) == i)
			printf("%s%s", cnt++ ? ", " : "note   ", plat->finding[i].code);
	if (cnt)
		printf(": what to do is in --full\n");
}

/* Gb/s with as many digits as the figure is worth. */
static void table_put_rate(int64_t mbps)
{
	if (mbps < 0)
		printf(" %9s", "-");
	else if (mbps < 10000)
		printf(" %9.3f", (double)mbps / 1000);
	else
		printf(" %9.1f", (double)mbps / 1000);
}

/* Columns are as wide as the longest name. */
static void table_put_pairs(const struct spw_plat *plat)
{
	int width = 4;

	for (uint32_t i = 0; i < plat->pair_cnt; i++)
		width = SPW_MAX(width,
				(int)SPW_MAX(strlen(plat->pair[i].from), strlen(plat->pair[i].to)));
	if (plat->pair_cnt)
		printf("%-*s  %-*s %9s %9s  %s\n", width, "from", width, "to", "Gb/s", "promised",
		       "crossed");
	for (uint32_t i = 0; i < plat->pair_cnt; i++) {
		const struct spw_plat_pair *pair = &plat->pair[i];

		table_put(pair->from, width, "  ");
		table_put(pair->to, width, "");
		table_put_rate(pair->mbps);
		table_put_rate(pair->nominal_mbps);
		if (pair->mbps < 0)
			printf("  no answer\n");
		else
			printf("  %s: %" PRId64 " packets sent, physical port %" PRId64 "\n",
			       spw_plat_wire_name(spw_plat_pair_wire(pair)), pair->packets,
			       pair->wire);
	}
}

/* GPUs that were not put under load have no line. */
static void table_put_loads(const struct spw_plat *plat)
{
	for (uint32_t i = 0; i < plat->gpu_cnt; i++) {
		const struct spw_plat_gpu *gpu = &plat->gpu[i];

		if (gpu->load.memory_mbs < 0)
			continue;
		doctor_put(gpu->name);
		printf(" under load: memory %.0f GB/s", (double)gpu->load.memory_mbs / 1000);
		if (gpu->load.promised_mbs > 0)
			printf(" of %.0f", (double)gpu->load.promised_mbs / 1000);
		printf(", reads of host memory %.1f GB/s", (double)gpu->load.host_mbs / 1000);
		if (gpu->load.clock_mhz > 0)
			printf(", clock %lld of %d MHz", (long long)gpu->load.clock_mhz,
			       gpu->clock_sm_max_mhz);
		printf("\n");
	}
}

/* The devices of the software ConnectX, if there are any, and what follows for all of them. */
static void table_put_software(const struct spw_plat *plat)
{
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < plat->nic_cnt; i++)
		if (plat->nic[i].is_software) {
			printf("%s", cnt++ ? ", " : "");
			doctor_put(plat->nic[i].rdma);
		}
	if (cnt)
		printf(": software ConnectX: cores decide what they carry, and --expect what they "
		       "should\n");
}

/* Unknown facts are counted, not listed: --facts has them with their reasons. */
void doctor_table(const struct spw_plat *plat, bool full)
{
	doctor_put(plat->machine[0] ? plat->machine : "a machine");
	printf(": cores %u, network functions %u, GPUs %u; facts %u, unknown %u (--facts)\n",
	       plat->core_cnt, plat->nic_cnt, plat->gpu_cnt, plat->fact_cnt,
	       table_unknown_cnt(plat));
	table_put_software(plat);
	table_put_pairs(plat);
	table_put_loads(plat);
	for (int severity = SPW_PLAT_ERROR; severity >= SPW_PLAT_WARN; severity--)
		table_put_findings(plat, (enum spw_plat_severity)severity);
	if (full)
		table_put_findings(plat, SPW_PLAT_NOTE);
	else
		table_put_notes(plat);
	if (plat->finding_cnt == 0)
		printf("no finding\n");
}

/* Every fact with its source, so that a reader can check it by hand. */
void doctor_facts(const struct spw_plat *plat)
{
	for (uint32_t i = 0; i < plat->fact_cnt; i++) {
		const struct spw_plat_fact *f = &plat->fact[i];

		table_put(f->of, 24, " ");
		table_put(f->name, 28, " ");
		if (f->why[0]) {
			printf("unknown: ");
			table_put(f->why, 22, " ");
		} else {
			doctor_put(f->value);
		}
		printf("  [");
		doctor_put(f->source);
		printf("]\n");
	}
}

/* Warnings and notes leave the status good: only an error means that something will not work. */
int doctor_status(const struct spw_plat *plat)
{
	for (uint32_t i = 0; i < plat->finding_cnt; i++)
		if (plat->finding[i].severity == SPW_PLAT_ERROR)
			return APP_MACHINE;
	return APP_GOOD;
}
