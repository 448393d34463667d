/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Each machine of the file "variants" yields exactly the findings that it names, and each finding
 * says what to do.
 * Usage: variants_test PLATFORMS VARIANTS
 */
#include <stdio.h>
#include <stdlib.h>

#include "plat/spw_plat.h"
#include "unit_file.h"

#define VARIANTS_MIN 20

static const char *platforms, *variants;
static uint32_t misconfigured;

static bool is_named(const char *list, const char *code)
{
	size_t len = strlen(code);

	for (const char *at = list; (at = strstr(at, code)); at += len)
		if (at > list && at[-1] == ' ' && strchr(" ", at[len]))
			return true;
	return false;
}

static bool is_found(const struct spw_plat *plat, const char *code, size_t len)
{
	for (uint32_t i = 0; i < plat->finding_cnt; i++)
		if (strlen(plat->finding[i].code) == len &&
		    !strncmp(plat->finding[i].code, code, len))
			return true;
	return false;
}

/* An empty list leaves two spaces, or a space before a comma. */
static bool has_hole(const char *text)
{
	return strstr(text, "  ") || strstr(text, " ,") || strstr(text, " ;") ||
	       strstr(text, " :") || text[strlen(text) - 1] == ' ';
}

/* head: "@ PLATFORM FINDING...", one line. */
static void judge(const struct spw_plat *plat, const char *head)
{
	const char *at = head + 2 + strcspn(head + 2, " \n");

	for (uint32_t i = 0; i < plat->finding_cnt; i++) {
		const struct spw_plat_finding *f = &plat->finding[i];

		if (!is_named(head, f->code))
			fail_msg("%s: false finding %s: %s", head, f->code, f->what);
		if (!f->todo[0] || strlen(f->todo) == sizeof(f->todo) - 1 ||
		    strlen(f->what) == sizeof(f->what) - 1)
			fail_msg("%s: %s says nothing to do, or is cut", head, f->code);
		if (has_hole(f->what) || has_hole(f->todo))
			fail_msg("%s: %s has a hole: %s; %s", head, f->code, f->what, f->todo);
	}
	misconfigured += *at == ' ';
	while (*at == ' ') {
		size_t len = strcspn(++at, " \n");

		if (!is_found(plat, at, len))
			fail_msg("%s: not found: %.*s", head, (int)len, at);
		at += len;
	}
}

static void run(char *head, char *changes)
{
	char *text =
		unit_file_text("%s/%.*s.tree", platforms, (int)strcspn(head + 2, " \n"), head + 2);
	struct spw_plat *plat;
	struct spw_plat_from from = {.name = {"platform", "changes"}};

	from.text[0] = text;
	from.text_bytes[0] = strlen(text);
	from.text[1] = changes;
	from.text_bytes[1] = strlen(changes);
	if (spw_plat_read(&from, &plat))
		fail_msg("%s: %s", head, spw_err_text());
	judge(plat, head);
	spw_plat_free(plat);
	free(text);
}

/* Cuts the text where each next variant begins; the newline before it ends the one before. */
static void each_variant_yields_its_findings(void **state)
{
	char *text = unit_file_text("%s", variants), *at = strstr(text, "\n@ ") + 1;

	(void)state;
	while (at) {
		char head[256], *next = strstr(at, "\n@ "), *changes = strchr(at, '\n') + 1;
		char kept = '\0';

		snprintf(head, sizeof(head), "%.*s", (int)(changes - at - 1), at);
		if (next) {
			kept = next[1];
			next[1] = '\0';
		}
		run(head, next && next < changes ? next + 1 : changes);
		if (next)
			next[1] = kept;
		at = next ? next + 1 : NULL;
	}
	assert_true(misconfigured >= VARIANTS_MIN);
	free(text);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(each_variant_yields_its_findings)};

	if (argc != 3)
		return 1;
	platforms = argv[1];
	variants = argv[2];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
