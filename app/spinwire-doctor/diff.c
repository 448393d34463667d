/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * In what two machines, or one machine at two times, differ. Facts that never stand still
 * (counters, free memory, temperatures) are left out.
 *
 * main.c loads two files and calls doctor_diff; its exit status reports whether anything differs.
 * Text is printed by doctor_put, since both files may come from anywhere.
 *
 *    - code: what     a finding that only A has        + code: what   one that only B has
 *      of name: a | b a fact whose values differ
 */
#include <stdio.h>
#include <string.h>

#include "doctor.h"

/* By the source of a fact: where it was read from says whether it moves. */
static bool diff_stands_still(const struct spw_plat_fact *f)
{
	static const char *const moving[] = {"/stats",  "hw_counters", "later/",
					     "MemFree", "/nvml/",      "free_hugepages"};

	for (size_t i = 0; i < SPW_ARRAY_CNT(moving); i++)
		if (strstr(f->source, moving[i]))
			return false;
	return true;
}

/* A fact is the same one if it is of the same object and has the same name. */
static const struct spw_plat_fact *diff_fact_like(const struct spw_plat *plat,
						  const struct spw_plat_fact *like)
{
	for (uint32_t i = 0; i < plat->fact_cnt; i++)
		if (!strcmp(plat->fact[i].name, like->name) && !strcmp(plat->fact[i].of, like->of))
			return &plat->fact[i];
	return NULL;
}

/* A reason why a fact is unknown is compared like a value: it may be what changed. */
static const char *diff_value(const struct spw_plat_fact *f)
{
	return !f ? "(not there)" : f->why[0] ? f->why : f->value;
}

static void diff_line(const struct spw_plat_fact *f, const char *a, const char *b)
{
	printf("  ");
	doctor_put(f->of);
	printf(" ");
	doctor_put(f->name);
	printf(": ");
	doctor_put(a);
	printf(" | ");
	doctor_put(b);
	printf("\n");
}

static const struct spw_plat_finding *diff_finding_like(const struct spw_plat *plat,
							const struct spw_plat_finding *like)
{
	for (uint32_t i = 0; i < plat->finding_cnt; i++)
		if (!strcmp(plat->finding[i].code, like->code) &&
		    !strcmp(plat->finding[i].what, like->what))
			return &plat->finding[i];
	return NULL;
}

/* Findings of `plat` that `other` lacks. */
static uint32_t diff_findings(const struct spw_plat *plat, const struct spw_plat *other, char sign)
{
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < plat->finding_cnt; i++)
		if (!diff_finding_like(other, &plat->finding[i])) {
			printf("%c %s: ", sign, plat->finding[i].code);
			doctor_put(plat->finding[i].what);
			printf("\n");
			cnt++;
		}
	return cnt;
}

/* Facts of both are compared in the order of A; those that only B has follow. */
uint32_t doctor_diff(const struct spw_plat *a, const struct spw_plat *b)
{
	uint32_t cnt = diff_findings(a, b, '-') + diff_findings(b, a, '+');

	for (uint32_t i = 0; i < a->fact_cnt; i++) {
		const struct spw_plat_fact *f = &a->fact[i], *g = diff_fact_like(b, f);

		if (!diff_stands_still(f) || !strcmp(diff_value(f), diff_value(g)))
			continue;
		diff_line(f, diff_value(f), diff_value(g));
		cnt++;
	}
	for (uint32_t i = 0; i < b->fact_cnt; i++) {
		if (!diff_stands_still(&b->fact[i]) || diff_fact_like(a, &b->fact[i]))
			continue;
		diff_line(&b->fact[i], diff_value(NULL), diff_value(&b->fact[i]));
		cnt++;
	}
	return cnt;
}
