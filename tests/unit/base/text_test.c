/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a terminal may have of a text from outside. tests/unit/tools/text_test.py checks that the
 * tools in Python show the same texts in the same way: text_cases.h is read by both.
 */
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "base/spw_text.h"
#include "unit_test.h"

static const struct {
	const char *text, *shown;
} text_case[] = {
#include "text_cases.h"
};

static void test_forms(void **state)
{
	char out[128], again[128];

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(text_case); i++) {
		spw_text_show(text_case[i].text, out, sizeof(out));
		assert_string_equal(out, text_case[i].shown);
		spw_text_show(out, again, sizeof(again));
		assert_string_equal(again, out);
	}
}

static void test_lengths(void **state)
{
	(void)state;
	assert_int_equal(spw_text_char("a", 1), 1);
	assert_int_equal(spw_text_char("\xc2\xb5", 2), 2);
	assert_int_equal(spw_text_char("\xe2\x82\xac", 3), 3);
	assert_int_equal(spw_text_char("\xf0\x9f\x98\x80", 4), 4);
	assert_int_equal(spw_text_char("\xf0\x9f\x98", 3), -1);
	assert_int_equal(spw_text_char("\xe2", 1), -1);
	assert_int_equal(spw_text_char("\xe0\x80", 2), 0);
	assert_int_equal(spw_text_char("\x80", 1), 0);
}

/* No room ends a text inside a character or inside an escape. */
static void test_cut(void **state)
{
	static const char text[] = "ab\xe2\x82\xac\x1b";
	static const char *const want[] = {"", "a", "ab", "ab", "ab", "ab\xe2\x82\xac"};
	char out[16];

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(want); i++) {
		spw_text_show(text, out, i + 1);
		assert_string_equal(out, want[i]);
	}
	spw_text_show(text, out, 11);
	assert_string_equal(out, want[5]);
	spw_text_show(text, out, 12);
	assert_string_equal(out, "ab\xe2\x82\xac\\u001b");
}

static char logged[1024];

static void keep(enum spw_log_level level, const char *text, void *arg)
{
	(void)level;
	(void)arg;
	strcpy(logged, text);
}

static void test_errors_and_log(void **state)
{
	(void)state;
	spw_err_ctx(spw_err(22, "a\x1b[2J\nb"), "\xc2\x9b");
	assert_string_equal(spw_err_text(), "\\u009b: a\\u001b[2J\\u000ab");
	spw_log_sink_set(keep, NULL);
	spw_warn("%s", "a\x1b]0;b\x07\n");
	spw_log_sink_set(NULL, NULL);
	assert_string_equal(logged, "a\\u001b]0;b\\u0007\\u000a");
	spw_err(22, "%*s\xe2\x82\xac", SPW_ERR_TEXT_BYTES - 3, "");
	assert_int_equal(strlen(spw_err_text()), SPW_ERR_TEXT_BYTES - 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_errors_and_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
