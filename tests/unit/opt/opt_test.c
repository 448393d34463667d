/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * lib/opt: quantities, what a table refuses, and the command line.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "opt/spw_opt.h"
#include "unit_test.h"

static void assert_error(int rc, const char *part)
{
	if (rc >= 0)
		fail_msg("no error; expected one with \"%s\"", part);
	if (!strstr(spw_err_text(), part))
		fail_msg("error \"%s\" lacks \"%s\"", spw_err_text(), part);
}

static const char *cases_path;

static enum spw_opt_unit unit_named(const char *name)
{
	static const char *const list[] = {"none", "bytes", "time", "rate", "bits"};

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(list); i++)
		if (!strcmp(list[i], name))
			return (enum spw_opt_unit)i;
	fail_msg("no unit is called %s", name);
	return SPW_OPT_UNIT_NONE;
}

/* The cases are those of tools/lib/spwopt.py too. */
static void quantities_are_exact(void **state)
{
	FILE *file = fopen(cases_path, "r");
	char line[160], unit[16], text[64], want[32];
	uint32_t cnt = 0;

	(void)state;
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		uint64_t bare, value = 0;
		int rc;

		if (line[0] == '#')
			continue;
		assert_int_equal(
			sscanf(line, "%15s %" SCNu64 " %63s %31s", unit, &bare, text, want), 4);
		rc = spw_opt_quantity(text, unit_named(unit), bare, &value);
		if (rc != (!strcmp(want, "bad")     ? -EINVAL
			   : !strcmp(want, "large") ? -ERANGE
						    : 0) ||
		    (rc == 0 && value != strtoull(want, NULL, 10)))
			fail_msg("%s '%s' gave %" PRIu64 ", %d", unit, text, value, rc);
		cnt++;
	}
	fclose(file);
	assert_true(cnt > 30);
	assert_int_equal(spw_opt_quantity("", SPW_OPT_UNIT_NONE, 1, &(uint64_t){0}), -EINVAL);
	assert_int_equal(spw_opt_quantity("5 s", SPW_OPT_UNIT_NS, 1, &(uint64_t){0}), -EINVAL);
}

/* ---- a table ---- */

struct fields {
	uint64_t time_ns, rate_pps, bits;
	uint32_t burst;
	uint16_t port;
	bool full, echo;
	enum fields_color { FIELDS_RED, FIELDS_BLUE } color;
	const char *json;
	char name[8];
	uint32_t own;
	const char *word[2];
	uint32_t word_cnt;
};

static const char *color_choice(uint32_t idx)
{
	static const char *const name[] = {"red", "blue"};

	return idx < SPW_ARRAY_CNT(name) ? name[idx] : NULL;
}

static int own_set(void *field, const char *text)
{
	*(uint32_t *)field = (uint32_t)strlen(text);
	return text[0] == '!' ? spw_err(EINVAL, "'%s' is not allowed; allowed: words", text) : 0;
}

#define FIELD(field)                                                                            \
	.offset = offsetof(struct fields, field), .bytes = sizeof(((struct fields *)0)->field), \
	.help = "help"

static const struct spw_opt table[] = {
	{.name = "time", FIELD(time_ns), .kind = SPW_OPT_TIME, .min = 20000000, .dflt = "1s"},
	{.name = "rate", FIELD(rate_pps), .kind = SPW_OPT_RATE, .bare_unit = 1, .dflt = "1Mpps"},
	{.name = "expect", FIELD(bits), .kind = SPW_OPT_BITS},
	{.name = "burst", FIELD(burst), .kind = SPW_OPT_NUMBER, .max = 64, .demands = SPW_OPT_POW2},
	{.name = "port", FIELD(port), .kind = SPW_OPT_NUMBER, .dflt = "18515"},
	{.name = "full", FIELD(full), .kind = SPW_OPT_FLAG, .letter = 'f'},
	{.name = "echo", FIELD(echo), .kind = SPW_OPT_BOOL, .dflt = "yes"},
	{.name = "color", FIELD(color), .kind = SPW_OPT_CHOICE, .choice = color_choice},
	{.name = "json", FIELD(json), .kind = SPW_OPT_STRING},
	{.name = "name", FIELD(name), .kind = SPW_OPT_TEXT, .max = 7},
	{.name = "own", FIELD(own), .kind = SPW_OPT_OWN, .set = own_set, .range = "words"},
};
static const struct spw_opt_command command[] = {
	{"plan", "", "p"}, {"record", "FILE", "r"}, {NULL, NULL, NULL}};
static const struct spw_opt_program program = {
	.name = "prog", .opt = table, .opt_cnt = SPW_ARRAY_CNT(table), .command = command};

static struct fields fields;

static int word_take(void *base, const char *word)
{
	struct fields *f = base;

	if (f->word_cnt == SPW_ARRAY_CNT(f->word))
		return spw_opt_no_command(&program, word);
	f->word[f->word_cnt++] = word;
	return 0;
}

static int parse_with(int (*word)(void *base, const char *word), char **argv)
{
	int argc = 0;

	while (argv[argc])
		argc++;
	memset(&fields, 0, sizeof(fields));
	assert_int_equal(spw_opt_defaults(table, SPW_ARRAY_CNT(table), &fields), 0);
	return spw_opt_parse(&program, argc, argv,
			     &(struct spw_opt_take){.base = &fields, .word = word});
}
#define PARSE(...) parse_with(NULL, (char *[]){"prog", __VA_ARGS__, NULL})
#define WORDS(...) parse_with(word_take, (char *[]){"prog", __VA_ARGS__, NULL})

static void values_reach_their_fields(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--time=40ms", "--burst", "32", "--full", "--json", "-", "--name",
			       "x", "--color", "blue", "--own=four", "--expect", "400Gbps"),
			 0);
	assert_true(fields.time_ns == 40000000 && fields.rate_pps == 1000000);
	assert_true(fields.bits == 400000000000ull);
	assert_int_equal(fields.burst, 32);
	assert_int_equal(fields.port, 18515);
	assert_true(fields.full && fields.echo);
	assert_int_equal(fields.color, FIELDS_BLUE);
	assert_string_equal(fields.json, "-");
	assert_string_equal(fields.name, "x");
	assert_int_equal(fields.own, 4);
	assert_int_equal(PARSE("-f"), 0);
	assert_true(fields.full);
	assert_int_equal(PARSE("--rate", "5", "--name", ""), 0);
	assert_int_equal(fields.rate_pps, 5);
}

static void what_is_wrong_names_the_option(void **state)
{
	(void)state;
	assert_error(PARSE("--time", "40"),
		     "--time: '40' has no unit: 40ms? allowed: ns, us, ms, s, min");
	assert_error(PARSE("--time", "5ms"), "--time: '5ms' is not allowed; allowed: 20ms ..");
	assert_error(PARSE("--burst", "-1"), "--burst: '-1' is not allowed; allowed: 0 or 1 .. 64");
	assert_error(PARSE("--burst", "33"), "a power of 2");
	assert_error(PARSE("--port", "65536"),
		     "--port: '65536' is not allowed; allowed: 0 .. 65535");
	assert_error(PARSE("--color", "green"), "'green' is not allowed; allowed: red, blue");
	assert_error(PARSE("--echo", "maybe"), "allowed: yes, no");
	assert_error(PARSE("--name", "12345678"), "allowed: 0 .. 7 characters");
	assert_error(PARSE("--own", "!"), "--own: '!' is not allowed; allowed: words");
	assert_error(PARSE("--tiem", "1s"),
		     "--tiem: no such option, did you mean --time; prog --help lists them");
	assert_error(PARSE("--versoin"), "did you mean --version");
	assert_error(PARSE("--json"), "--json needs a value: help");
	assert_error(PARSE("--json", "--full"), "--json needs a value");
	assert_error(PARSE("--full=yes"), "--full takes no value");
	assert_error(PARSE("--help=all"), "--help takes no value");
	assert_error(PARSE("full"), "'full' is not an option");
	assert_error(PARSE("-x"), "'-x' is not an option");
	assert_error(PARSE("-ff"), "'-ff' is not an option");
	assert_error(PARSE("-f=yes"), "'-f=yes' is not an option");
	assert_error(PARSE("--"), "'--' is not an option");
}

static void words_are_commands(void **state)
{
	(void)state;
	assert_int_equal(WORDS("record", "--full", "-"), 0);
	assert_int_equal(fields.word_cnt, 2);
	assert_string_equal(fields.word[1], "-");
	assert_error(WORDS("a", "b", "paln"), "'paln': no such command, did you mean plan");
	assert_error(WORDS("a", "b", "recrod"), "did you mean record;");
	assert_error(WORDS("a", "b", "nothing"), "no such command; prog --help");
}

static void questions_end_the_reading(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--help", "--nonsense"), SPW_OPT_HELP);
	assert_int_equal(PARSE("--burst", "2", "-h"), SPW_OPT_HELP);
	assert_int_equal(PARSE("--help-all"), SPW_OPT_HELP_ALL);
	assert_int_equal(PARSE("--version"), SPW_OPT_VERSION);
	assert_int_equal(PARSE("--help-man"), SPW_OPT_MAN);
	assert_error(PARSE("--nonsense", "--help"), "--nonsense");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantities_are_exact),
		cmocka_unit_test(values_reach_their_fields),
		cmocka_unit_test(what_is_wrong_names_the_option),
		cmocka_unit_test(words_are_commands),
		cmocka_unit_test(questions_end_the_reading),
	};

	cases_path = argc > 1 ? argv[1] : "quantities.txt";
	return cmocka_run_group_tests(tests, NULL, NULL);
}
