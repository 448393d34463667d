/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Each machine of variants.json (a platform "of" config/platforms, changed "with" members) yields
 * exactly the findings that it names, and each finding says what to do. Usage: variants_test
 * PLATFORMS VARIANTS
 */
#include <jansson.h>

#include "plat_kit.h"

#define VARIANTS_MIN 20

static const char *variants;

static bool is_named(const json_t *list, const char *code)
{
	const json_t *name;
	size_t i;

	json_array_foreach (list, i, name)
		if (!strcmp(json_string_value(name), code))
			return true;
	return false;
}

/* An empty list leaves two spaces, or a space before a comma. */
static bool has_hole(const char *text)
{
	return strstr(text, "  ") || strstr(text, " ,") || strstr(text, " ;") ||
	       strstr(text, " :") || text[strlen(text) - 1] == ' ';
}

static void judge(const struct spw_plat *plat, const char *of, const json_t *finds)
{
	const json_t *name;
	size_t i;

	for (i = 0; i < plat->finding_cnt; i++) {
		const struct spw_plat_finding *f = &plat->finding[i];

		if (!is_named(finds, f->code))
			fail_msg("%s: false finding %s: %s", of, f->code, f->what);
		if (!f->todo[0] || strlen(f->todo) == sizeof(f->todo) - 1 ||
		    strlen(f->what) == sizeof(f->what) - 1)
			fail_msg("%s: %s says nothing to do, or is cut", of, f->code);
		if (has_hole(f->what) || has_hole(f->todo))
			fail_msg("%s: %s has a hole: %s; %s", of, f->code, f->what, f->todo);
	}
	json_array_foreach (finds, i, name)
		if (!finding(plat, json_string_value(name)))
			fail_msg("%s: not found: %s", of, json_string_value(name));
}

static void run(const json_t *variant)
{
	const char *platform = json_string_value(json_object_get(variant, "of"));
	char path[512], *of = json_dumps(variant, JSON_COMPACT);
	struct spw_plat *plat;
	json_t *machine;

	snprintf(path, sizeof(path), "%s/%s.json", platforms, platform);
	machine = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
	if (!machine ||
	    spw_plat_read(
		    &(struct spw_plat_from){.record = {machine, json_object_get(variant, "with")},
					    .name = {platform, "changes"}},
		    &plat))
		fail_msg("%s: %s", of, spw_err_text());
	judge(plat, of, json_object_get(variant, "finds"));
	spw_plat_free(plat);
	json_decref(machine);
	free(of);
}

static void each_variant_yields_its_findings(void **state)
{
	json_error_t error;
	json_t *list = json_load_file(variants, JSON_REJECT_DUPLICATES, &error), *variant;
	uint32_t misconfigured = 0;
	size_t i;

	(void)state;
	if (!list)
		fail_msg("%s:%d: %s", variants, error.line, error.text);
	json_array_foreach (list, i, variant) {
		run(variant);
		misconfigured += json_array_size(json_object_get(variant, "finds")) > 0;
	}
	assert_true(misconfigured >= VARIANTS_MIN);
	json_decref(list);
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
