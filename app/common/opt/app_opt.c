/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * --help, --help-all and --version, and what stands on the wrong side of "--" (app_opt.h). --help
 * fits a screen of 24 lines and 80 columns: it has a line for each option where there is room, else
 * the options' names by section.
 *
 *   app_opt_split     EAL's arguments in front of "--", own ones behind it: the wrong side is
 *                     answered with the corrected line, before EAL starts
 *   app_opt_answer    a question, by number (enum spw_opt_ask)
 *   app_opt_begins    where a section begins, for every format
 *
 * EAL's options are those of DPDK 22.11 to 24.11 (lib/eal/common/eal_common_options.c).
 * app_opt_man.c and app_opt_complete.c make the other formats from the same table, so help never
 * differs between them.
 */
#include "app_opt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"

#define SCREEN_LINES   24
#define SCREEN_COLUMNS 80
#define TEXT_COLUMN    26 /* where help begins */

/* The word that the table has for the value, else that of its kind. */
const char *app_opt_value(const struct spw_opt *opt)
{
	static const char *const by_kind[] = {
		[SPW_OPT_NUMBER] = "NUMBER", [SPW_OPT_BYTES] = "SIZE",  [SPW_OPT_TIME] = "TIME",
		[SPW_OPT_RATE] = "RATE",     [SPW_OPT_BITS] = "RATE",   [SPW_OPT_BOOL] = "yes|no",
		[SPW_OPT_TEXT] = "TEXT",     [SPW_OPT_STRING] = "TEXT", [SPW_OPT_CHOICE] = "KIND",
		[SPW_OPT_FLAG] = "",         [SPW_OPT_OWN] = "VALUE"};

	return opt->value ? opt->value : by_kind[opt->kind];
}

const char *app_opt_name(const struct spw_opt *opt, char out[APP_OPT_NAME_BYTES])
{
	int used = snprintf(out, APP_OPT_NAME_BYTES, "--%s", opt->name);

	if (opt->letter)
		snprintf(out + used, APP_OPT_NAME_BYTES - (size_t)used, ", -%c", opt->letter);
	return out;
}

/* BOOL and TEXT show no range: "yes, no" stands in the value already, and a length helps nobody. */
void app_opt_text(const struct spw_opt *opt, char *out, size_t bytes)
{
	const char *dflt = opt->dflt ? opt->dflt : "";
	char range[160] = "";

	if (opt->kind != SPW_OPT_TEXT && opt->kind != SPW_OPT_BOOL)
		spw_opt_range(opt, range, sizeof(range));
	snprintf(out, bytes, "%s%s%s%s%s%s", opt->help, range[0] ? " (" : "", range,
		 range[0] ? ")" : "", dflt[0] ? "; default " : "", dflt);
}

/* Text from a column on, broken at spaces; column is where the line stands now. */
static void text_wrap(FILE *out, int column, int indent, const char *text)
{
	while (*text) {
		int word = (int)strcspn(text, " ");

		if (column > indent && column + 1 + word > SCREEN_COLUMNS)
			column = fprintf(out, "\n%*s", indent, "") - 1;
		else if (column > indent)
			column += fprintf(out, " ");
		column += fprintf(out, "%.*s", word, text);
		text += word + (text[word] == ' ');
	}
	fprintf(out, "\n");
}

/* A left part that is too long gets a line of its own. */
static void line_print(FILE *out, const char *left, const char *text)
{
	int column = fprintf(out, "  %s", left);

	if (column > TEXT_COLUMN - 2)
		column = fprintf(out, "\n") - 1;
	column += fprintf(out, "%*s", TEXT_COLUMN - column, "");
	text_wrap(out, column, TEXT_COLUMN, text);
}

/* Every form of the command line, then what the program is for. */
static void usage_print(FILE *out, const struct spw_opt_program *program)
{
	for (uint32_t i = 0; program->usage[i]; i++)
		fprintf(out, "%s %s %s\n", i ? "  or: " : "Usage:", program->name,
			program->usage[i]);
	fprintf(out, "\n%s\n", program->about);
	for (uint32_t i = 0; program->command && program->command[i].name; i++) {
		const struct spw_opt_command *command = &program->command[i];
		char left[64];

		snprintf(left, sizeof(left), "%s %s", command->name, command->args);
		line_print(out, left, command->help);
	}
}

bool app_opt_begins(const struct spw_opt_program *program, uint32_t idx)
{
	const char *own = program->opt[idx].section;
	const char *before = idx ? program->opt[idx - 1].section : NULL;

	return !idx || (own != before && (!own || !before || strcmp(own, before)));
}

/* all: the range and the default of each option, and headings of sections. */
static void options_print(FILE *out, const struct spw_opt_program *program, bool all)
{
	for (uint32_t i = 0; i < program->opt_cnt; i++) {
		const struct spw_opt *opt = &program->opt[i];
		char left[80], text[512], name[APP_OPT_NAME_BYTES];

		if (all && opt->section && app_opt_begins(program, i))
			fprintf(out, "%s%s:\n", i ? "\n" : "", opt->section);
		snprintf(left, sizeof(left), "%s %s", app_opt_name(opt, name), app_opt_value(opt));
		snprintf(text, sizeof(text), "%s", opt->help);
		if (all)
			app_opt_text(opt, text, sizeof(text));
		line_print(out, left, text);
	}
}

/* Where a line for each option does not fit the screen: names alone, by section. */
static void names_print(FILE *out, const struct spw_opt_program *program)
{
	int column = 0;

	for (uint32_t i = 0; i < program->opt_cnt; i++) {
		const struct spw_opt *opt = &program->opt[i];
		bool begins = app_opt_begins(program, i);

		if (begins || column + (int)strlen(opt->name) + 3 > SCREEN_COLUMNS)
			column = fprintf(out, "%s%-10s", i ? "\n" : "",
					 !begins        ? ""
					 : opt->section ? opt->section
							: "options") -
				 (i ? 1 : 0);
		column += fprintf(out, " --%s", opt->name);
	}
	fprintf(out, "\n");
}

/* Exit statuses are part of the help: scripts depend on them. */
static void help_end_print(FILE *out, const struct spw_opt_program *program, bool lines, bool all)
{
	char status[512] = "";
	size_t used = 0;

	if (program->notes)
		fprintf(out, "%s\n", program->notes);
	for (uint32_t i = 0; program->status[i].name && used < sizeof(status); i++)
		used += (size_t)snprintf(status + used, sizeof(status) - used, "%s%s %s",
					 i ? ", " : "", program->status[i].name,
					 program->status[i].help);
	text_wrap(out, fprintf(out, "exit status: "), 13, status);
	for (uint32_t i = 0;
	     program->example && program->example[i].name && (all || (!lines && !i)); i++)
		fprintf(out, "example: %s\n", program->example[i].name);
	if (!all)
		fprintf(out, "More: man %s, or %s --help-all\n", program->name, program->name);
}

/* lines: a line for each option; all: with ranges, defaults and every example. */
static void help_write(FILE *out, const struct spw_opt_program *program, bool lines, bool all)
{
	usage_print(out, program);
	if (lines)
		options_print(out, program, all);
	else
		names_print(out, program);
	help_end_print(out, program, lines, all);
}

static bool fits_screen(const char *text)
{
	int lines = 0;

	for (; (text = strchr(text, '\n')); text++)
		lines++;
	return lines <= SCREEN_LINES;
}

/* Written to memory first, to see whether a line for each option fits. */
static void help_print(const struct spw_opt_program *program)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (out) {
		help_write(out, program, true, false);
		fclose(out);
	}
	if (text && fits_screen(text))
		fputs(text, stdout);
	else
		help_write(stdout, program, false, false);
	free(text);
}

/* ask is above SPW_OPT_RUN: one of the questions. */
void app_opt_answer(const struct spw_opt_program *program, int ask)
{
	if (ask == SPW_OPT_HELP)
		help_print(program);
	else if (ask == SPW_OPT_HELP_ALL)
		help_write(stdout, program, true, true);
	else if (ask == SPW_OPT_VERSION)
		printf("%s %s\n", program->name, program->version ? program->version : SPW_VERSION);
	else if (ask == SPW_OPT_MAN)
		app_opt_man(stdout, program);
	else if (ask == SPW_OPT_MAN_PORTS && program->ports)
		program->ports(stdout);
	else if (ask == SPW_OPT_BASH)
		app_opt_bash(stdout, program);
	else
		app_opt_zsh(stdout, program);
}

int app_opt_checked(const struct spw_opt_program *program)
{
	printf("%s: the command line is good; nothing was started\n", program->name);
	return SPW_OPT_HELP;
}

/* ---- the two sides of "--" ---- */

/* EAL has a --lcores of its own. */
static bool is_own_option(const struct spw_opt_program *program, const char *word)
{
	size_t bytes = strncmp(word, "--", 2) ? 0 : strcspn(word + 2, "=");

	return bytes && spw_opt_find(program, word + 2, bytes) &&
	       (bytes != 6 || strncmp(word + 2, "lcores", 6));
}

/* A command line for a message: the words of argv in another order, cut where it is too long. */
struct line {
	char text[400];
	size_t used;
};

static void words_add(struct line *line, char **argv, int from, int to)
{
	for (int i = from; i < to && line->used < sizeof(line->text); i++)
		if (strcmp(argv[i], "--"))
			line->used += (size_t)snprintf(line->text + line->used,
						       sizeof(line->text) - line->used, " %s",
						       argv[i]);
}

/* "--" belongs in front of the first own option. */
static int own_before(const struct spw_opt_program *program, int argc, char **argv, int first)
{
	struct line eal = {.used = 0}, own = {.used = 0};

	words_add(&eal, argv, 1, first);
	words_add(&own, argv, first, argc);
	return spw_err(EINVAL, "%s stands before \"--\", where EAL's arguments are: %s%s --%s",
		       argv[first], program->name, eal.text, own.text);
}

/* EAL's options: with a value, in the same word or behind it, and without. */
static const char eal_value[] =
	" -a -b -c -l -m -n --allow --base-virtaddr --block --file-prefix "
	"--force-max-simd-bitwidth --huge-dir --iova-mode --lcores --log-level --main-lcore "
	"--mbuf-pool-ops-name --proc-type --socket-limit --socket-mem --trace --trace-bufsz "
	"--trace-dir --trace-mode --vdev --vfio-intr --vfio-vf-token ";
static const char eal_flag[] =
	" --create-uio-dev --huge-unlink --huge-worker-stack --in-memory --legacy-mem "
	"--log-color --log-timestamp --match-allocations --no-hpet --no-huge --no-pci "
	"--no-shconf --no-telemetry --single-file-segments --syslog --telemetry "
	"--vmware-tsc-map ";

/* Of the name in a word: "-l" of "-l0-3", "--lcores" of "--lcores=0-3". */
static size_t eal_name_bytes(const char *word)
{
	return strncmp(word, "--", 2) ? SPW_MIN(strlen(word), 2) : strcspn(word, "=");
}

/* end: " " finds whole names, "" those that begin with the word. */
static bool eal_lists(const char *list, const char *word, const char *end)
{
	char name[64];

	snprintf(name, sizeof(name), " %.*s%s", (int)SPW_MIN(eal_name_bytes(word), 60), word, end);
	return strstr(list, name) != NULL;
}

static bool eal_is_option(const char *word)
{
	return eal_lists(eal_value, word, " ") || eal_lists(eal_flag, word, " ");
}

/* getopt_long(3) takes an option by its first letters. */
static bool eal_abbreviated(const char *word)
{
	return eal_lists(eal_value, word, "") || eal_lists(eal_flag, word, "");
}

/* EAL's option at `at`, which stands behind "--": it is moved, with its value. */
static int eal_behind(const struct spw_opt_program *program, int argc, char **argv, int split,
		      int at)
{
	bool joined = argv[at][eal_name_bytes(argv[at])] != '\0';
	int end = at + 1 + (eal_lists(eal_value, argv[at], " ") && !joined && at + 1 < argc);
	struct line eal = {.used = 0}, own = {.used = 0};

	words_add(&eal, argv, 1, split);
	words_add(&eal, argv, at, end);
	words_add(&own, argv, split, at);
	words_add(&own, argv, end, argc);
	return spw_err(EINVAL, "%s is EAL's, whose arguments stand before \"--\": %s%s --%s",
		       argv[at], program->name, eal.text, own.text);
}

static const char *own_name(uint32_t idx, const void *arg)
{
	return ((const struct spw_opt_program *)arg)->opt[idx].name;
}

/* Before "--": own options, misspelt ones too, and options of EAL without their value would reach
 * EAL, whose errors name no remedy. */
static int before_check(const struct spw_opt_program *program, int argc, char **argv, int split,
			int at)
{
	const char *meant = NULL;
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)SPW_MIN(eal_name_bytes(argv[at]), 63), argv[at]);
	if (!strncmp(name, "--", 2) && !eal_abbreviated(name))
		meant = spw_opt_nearest(name + 2, program->opt_cnt, own_name, program);
	if (is_own_option(program, argv[at]))
		return own_before(program, argc, argv, at);
	if (at + 1 == split && eal_lists(eal_value, argv[at], " ") &&
	    !argv[at][eal_name_bytes(argv[at])])
		return spw_err(EINVAL, "%s needs a value; it is EAL's", argv[at]);
	return meant ? spw_err(EINVAL,
			       "%s: no such option of EAL's; did you mean --%s, behind \"--\"?",
			       name, meant)
		     : 0;
}

/* A value of an own option may look like EAL's option: it is skipped. */
static int behind_check(const struct spw_opt_program *program, int argc, char **argv, int split)
{
	for (int i = split + 1; i < argc; i++) {
		const struct spw_opt *own =
			strncmp(argv[i], "--", 2)
				? NULL
				: spw_opt_find(program, argv[i] + 2, strcspn(argv[i] + 2, "="));

		/* The own --lcores takes numbers of lcores that EAL has. */
		if (!strcmp(argv[i], "--lcores") && i + 1 < argc && !strcmp(argv[i + 1], "auto"))
			return eal_behind(program, argc, argv, split, i);
		if (own)
			i += own->kind != SPW_OPT_FLAG && !strchr(argv[i], '=');
		else if (eal_is_option(argv[i]))
			return eal_behind(program, argc, argv, split, i);
	}
	return 0;
}

int app_opt_split(const struct spw_opt_program *program, int argc, char **argv, int split)
{
	int rc = 0;

	for (int i = 1; i < split && rc == 0; i++) {
		if (spw_opt_asked(argv[i]) != SPW_OPT_RUN)
			return (int)spw_opt_asked(argv[i]);
		rc = before_check(program, argc, argv, split, i);
	}
	if (rc == 0 && split == argc)
		return spw_err(EINVAL,
			       "%s's own arguments follow \"--\", at least a --port; see "
			       "%s --help",
			       program->name, program->name);
	return rc ? rc : behind_check(program, argc, argv, split);
}
