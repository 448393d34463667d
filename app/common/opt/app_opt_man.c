/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The man page of a program (app_opt.h), in the macros of man(7). The build runs each program with
 * --help-man and installs what it prints. All text of the table passes app_roff_text: a dash would
 * else be printed as a hyphen, which a reader cannot paste into a shell.
 */
#include <ctype.h>
#include <string.h>

#include "app_opt.h"

/* Text with what groff would take for its own escaped. A line begins at *text. */
void app_roff_text(FILE *out, const char *text)
{
	for (bool begins = true; *text; text++) {
		if (begins && (*text == '.' || *text == '\''))
			fputs("\\&", out);
		if (*text == '-' || *text == '\\')
			fputs(*text == '-' ? "\\-" : "\\e", out);
		else
			fputc(*text, out);
		begins = *text == '\n';
	}
}

/* The value follows "key=" at once, and an option after a space. */
void app_roff_tag(FILE *out, const char *bold, const char *italic, const char *text)
{
	fputs(".TP\n\\fB", out);
	app_roff_text(out, bold);
	fputs("\\fR", out);
	if (italic[0]) {
		fputs(bold[strlen(bold) - 1] == '=' ? "\\fI" : " \\fI", out);
		app_roff_text(out, italic);
		fputs("\\fR", out);
	}
	fputs("\n", out);
	app_roff_text(out, text);
	fputs("\n", out);
}

/* Lines of text; an empty one begins a paragraph. */
static void roff_paragraphs(FILE *out, const char *text)
{
	while (*text) {
		int bytes = (int)strcspn(text, "\n");
		char line[256];

		snprintf(line, sizeof(line), "%.*s", bytes, text);
		app_roff_text(out, line);
		fputs(line[0] ? "\n" : ".PP\n", out);
		text += bytes + (text[bytes] == '\n');
	}
}

/* A section without entries is left out. */
static void pairs_write(FILE *out, const char *heading, const struct spw_opt_pair *pair)
{
	if (!pair || !pair->name)
		return;
	fprintf(out, ".SH %s\n", heading);
	for (; pair->name; pair++)
		app_roff_tag(out, pair->name, "", pair->help);
}

/* One line for each form, as --help has them. */
static void synopsis_write(FILE *out, const struct spw_opt_program *program)
{
	fputs(".SH SYNOPSIS\n", out);
	for (uint32_t i = 0; program->usage[i]; i++) {
		fprintf(out, "%s.B ", i ? ".br\n" : "");
		app_roff_text(out, program->name);
		fputs("\n", out);
		app_roff_text(out, program->usage[i]);
		fputs("\n", out);
	}
}

/* Sections in the order of the table; what every program has comes last. */
static void options_write(FILE *out, const struct spw_opt_program *program)
{
	fputs(".SH OPTIONS\n", out);
	for (uint32_t i = 0; i < program->opt_cnt; i++) {
		const struct spw_opt *opt = &program->opt[i];
		char name[APP_OPT_NAME_BYTES], text[512];

		if (opt->section && app_opt_begins(program, i))
			fprintf(out, ".SS %s\n", opt->section);
		app_opt_text(opt, text, sizeof(text));
		app_roff_tag(out, app_opt_name(opt, name), app_opt_value(opt), text);
	}
	if (program->opt_cnt && program->opt[0].section)
		fputs(".SS all programs\n", out);
	app_roff_tag(out, "--help", "", "One screen.");
	app_roff_tag(out, "--help-all", "", "Every option with its range and default.");
	app_roff_tag(out, "--version", "", "The version.");
}

/* The date is left out, so that a build can be reproduced. */
void app_roff_title(FILE *out, const char *name, int section, const char *summary)
{
	fputs(".TH ", out);
	for (const char *at = name; *at; at++)
		fputc(toupper((unsigned char)*at), out);
	fprintf(out, " %d \"\" \"spinwire %s\" \"%s\"\n.SH NAME\n", section, SPW_VERSION,
		section == 1 ? "User Commands" : "Ports");
	app_roff_text(out, name);
	fputs(" \\- ", out);
	app_roff_text(out, summary);
	fputs("\n", out);
}

void app_opt_man(FILE *out, const struct spw_opt_program *program)
{
	app_roff_title(out, program->name, 1, program->summary);
	synopsis_write(out, program);
	fputs(".SH DESCRIPTION\n", out);
	roff_paragraphs(out, program->about);
	if (program->notes) {
		fputs(".PP\n", out);
		roff_paragraphs(out, program->notes);
	}
	if (program->command)
		fputs(".SH COMMANDS\n", out);
	for (uint32_t i = 0; program->command && program->command[i].name; i++)
		app_roff_tag(out, program->command[i].name, program->command[i].args,
			     program->command[i].help);
	options_write(out, program);
	pairs_write(out, "EXIT STATUS", program->status);
	pairs_write(out, "EXAMPLES", program->example);
	fputs(".SH SEE ALSO\n", out);
	app_roff_text(out, program->see);
	fputs("\n", out);
}
