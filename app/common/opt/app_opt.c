/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * --help, --help-all and --version (app_opt.h). --help fits a screen of 24 lines and 80 columns: it
 * has a line for each option where there is room, else the options' names by section.
 *
 *    app_opt_split    words before "--": questions are answered there too, own options refused
 *    app_opt_answer   the question, by number (enum spw_opt_ask)
 *    app_opt_begins   where a section begins, for every format
 *
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

/* EAL has a --lcores of its own. */
static bool is_own_option(const struct spw_opt_program *program, const char *word)
{
	size_t bytes = strncmp(word, "--", 2) ? 0 : strcspn(word + 2, "=");

	return bytes && spw_opt_find(program, word + 2, bytes) &&
	       (bytes != 6 || strncmp(word + 2, "lcores", 6));
}

/* The command line with "--" in front of the first own option. */
static int dashes_missing(const struct spw_opt_program *program, int argc, char **argv, int first)
{
	char line[400] = "";
	size_t used = 0;

	for (int i = 1; i < argc && used < sizeof(line); i++)
		if (strcmp(argv[i], "--"))
			used += (size_t)snprintf(line + used, sizeof(line) - used, "%s %s",
						 i == first ? " --" : "", argv[i]);
	return spw_err(EINVAL, "%s stands before \"--\", where EAL's arguments are: %s%s",
		       argv[first], program->name, line);
}

/* Own options before "--" would reach EAL, whose error names no remedy. */
int app_opt_split(const struct spw_opt_program *program, int argc, char **argv, int split)
{
	for (int i = 1; i < split; i++) {
		if (spw_opt_asked(argv[i]) != SPW_OPT_RUN)
			return (int)spw_opt_asked(argv[i]);
		if (is_own_option(program, argv[i]))
			return dashes_missing(program, argc, argv, i);
	}
	if (split == argc)
		return spw_err(EINVAL,
			       "%s's own arguments follow \"--\", at least a --port; see "
			       "%s --help",
			       program->name, program->name);
	return SPW_OPT_RUN;
}
