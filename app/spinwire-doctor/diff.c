/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * In what two machines, or one machine at two times, differ. Facts that never stand still
 * (counters, free memory, temperatures) are left out.
 *
 * main.c loads two files and calls doctor_diff; its exit status reports whether anything differs.
 * The table is printed from the JSON, by doctor_put, since both files may come from anywhere.
 *
 *    - code: what     a finding that only A has        + code: what   one that only B has
 *      of name: a | b a fact whose values differ
 */
#include <stdio.h>
#include <string.h>

#include "app_text.h"
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

/* A reason why a fact is unknown is compared like a value: it may be what changed. NULL: not
 * there. */
static const char *diff_value(const struct spw_plat_fact *f)
{
	return !f ? NULL : f->why[0] ? f->why : f->value;
}

static void diff_fact_add(json_t *facts, const struct spw_plat_fact *f, const char *a,
			  const char *b)
{
	json_array_append_new(facts,
			      json_pack("{s:o,s:s,s:o,s:o}", "of", app_json_text(f->of), "name",
					f->name, "a", a ? app_json_text(a) : json_null(), "b",
					b ? app_json_text(b) : json_null()));
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
static void diff_findings_add(json_t *findings, const char *in, const struct spw_plat *plat,
			      const struct spw_plat *other)
{
	for (uint32_t i = 0; i < plat->finding_cnt; i++)
		if (!diff_finding_like(other, &plat->finding[i]))
			json_array_append_new(findings,
					      json_pack("{s:s,s:s,s:o}", "in", in, "id",
							plat->finding[i].code, "evidence",
							app_json_text(plat->finding[i].what)));
}

/* Facts of both are compared in the order of A; those that only B has follow. */
json_t *doctor_diff(const struct spw_plat *a, const struct spw_plat *b)
{
	json_t *findings = json_array(), *facts = json_array();

	diff_findings_add(findings, "a", a, b);
	diff_findings_add(findings, "b", b, a);
	for (uint32_t i = 0; i < a->fact_cnt; i++) {
		const struct spw_plat_fact *f = &a->fact[i], *g = diff_fact_like(b, f);

		if (diff_stands_still(f) && (!g || strcmp(diff_value(f), diff_value(g))))
			diff_fact_add(facts, f, diff_value(f), diff_value(g));
	}
	for (uint32_t i = 0; i < b->fact_cnt; i++) {
		const struct spw_plat_fact *f = &b->fact[i];

		if (diff_stands_still(f) && !diff_fact_like(a, f))
			diff_fact_add(facts, f, NULL, diff_value(f));
	}
	return json_pack("{s:s,s:s,s:o,s:o}", "schema", "spinwire.diff/1", "version", SPW_VERSION,
			 "findings", findings, "facts", facts);
}

/* ---- text ---- */

static void diff_put(const char *before, const json_t *row, const char *key)
{
	const char *text = json_string_value(json_object_get(row, key));

	fputs(before, stdout);
	doctor_put(text ? text : "(not there)");
}

void doctor_diff_table(const json_t *diff)
{
	json_t *row;
	size_t i;

	json_array_foreach (json_object_get(diff, "findings"), i, row) {
		diff_put(json_string_value(json_object_get(row, "in"))[0] == 'a' ? "- " : "+ ", row,
			 "id");
		diff_put(": ", row, "evidence");
		printf("\n");
	}
	json_array_foreach (json_object_get(diff, "facts"), i, row) {
		diff_put("  ", row, "of");
		diff_put(" ", row, "name");
		diff_put(": ", row, "a");
		diff_put(" | ", row, "b");
		printf("\n");
	}
}
