/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Completion of a program's command line for bash and zsh (app_opt.h). The build runs each program
 * with --help-bash and --help-zsh and installs what it prints, so it never differs from the table
 * of options. What an option takes decides what is offered: names of a choice, files, or nothing.
 */
#include <string.h>

#include "app_opt.h"

/* "auto host gpu": the values of an option that are names; false: they are not. */
static bool values_join(const struct spw_opt *opt, char *out, size_t bytes)
{
	size_t used = 0;

	out[0] = '\0';
	if (opt->kind == SPW_OPT_BOOL)
		snprintf(out, bytes, "yes no");
	for (uint32_t i = 0; opt->kind == SPW_OPT_CHOICE && opt->choice(i) && used < bytes; i++)
		used += (size_t)snprintf(out + used, bytes - used, "%s%s", i ? " " : "",
					 opt->choice(i));
	return out[0] != '\0';
}

static bool is_path(const struct spw_opt *opt)
{
	return !strcmp(app_opt_value(opt), "FILE") || !strcmp(app_opt_value(opt), "DIR");
}

/* A shell function's name has no dash. */
static void function_write(FILE *out, const char *name)
{
	fputc('_', out);
	for (; *name; name++)
		fputc(*name == '-' ? '_' : *name, out);
}

/* A case for each option with a value: what may follow it. */
static void bash_values(FILE *out, const struct spw_opt_program *program)
{
	char values[256];

	for (uint32_t i = 0; i < program->opt_cnt; i++) {
		const struct spw_opt *opt = &program->opt[i];

		if (opt->kind == SPW_OPT_FLAG)
			continue;
		fprintf(out, "\t--%s) ", opt->name);
		if (values_join(opt, values, sizeof(values)))
			fprintf(out, "COMPREPLY=($(compgen -W '%s' -- \"$word\")); ", values);
		else if (is_path(opt))
			fputs("COMPREPLY=($(compgen -f -- \"$word\")); ", out);
		fputs("return ;;\n", out);
	}
}

/* Both the previous word and the present one count: after an option its values, else options and
 * commands. */
void app_opt_bash(FILE *out, const struct spw_opt_program *program)
{
	fprintf(out, "# bash completion of %s\n", program->name);
	function_write(out, program->name);
	fputs("()\n{\n\tlocal word=${COMP_WORDS[COMP_CWORD]}\n\tCOMPREPLY=()\n"
	      "\tcase ${COMP_WORDS[COMP_CWORD-1]} in\n",
	      out);
	bash_values(out, program);
	fputs("\tesac\n\tCOMPREPLY=($(compgen -W '", out);
	for (uint32_t i = 0; program->command && program->command[i].name; i++)
		fprintf(out, "%s ", program->command[i].name);
	for (uint32_t i = 0; i < program->opt_cnt; i++) {
		fprintf(out, "--%s ", program->opt[i].name);
		if (program->opt[i].letter)
			fprintf(out, "-%c ", program->opt[i].letter);
	}
	fputs("--help --help-all --version' -- \"$word\"))\n}\ncomplete -o default -F ", out);
	function_write(out, program->name);
	fprintf(out, " %s\n", program->name);
}

/* Inside '...[text]': quotes, brackets and colons have a meaning. */
static void zsh_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", out);
		else if (strchr("[]:\\", *text))
			fprintf(out, "\\%c", *text);
		else
			fputc(*text, out);
	}
}

/* "'*--name[help]:FILE:_files'" */
static void zsh_option(FILE *out, const struct spw_opt *opt)
{
	char values[256];

	if (opt->letter)
		fprintf(out, "\t'-%c[--%s]' \\\n", opt->letter, opt->name);
	fprintf(out, "\t'*--%s[", opt->name);
	zsh_text(out, opt->help);
	fputs("]", out);
	if (opt->kind != SPW_OPT_FLAG)
		fprintf(out, ":%s:", app_opt_value(opt));
	if (values_join(opt, values, sizeof(values)))
		fprintf(out, "(%s)", values);
	else if (is_path(opt))
		fputs("_files", out);
	fputs("' \\\n", out);
}

/* The star lets an option be given more than once. */
void app_opt_zsh(FILE *out, const struct spw_opt_program *program)
{
	fprintf(out, "#compdef %s\n_arguments \\\n", program->name);
	for (uint32_t i = 0; i < program->opt_cnt; i++)
		zsh_option(out, &program->opt[i]);
	if (program->command) {
		fputs("\t'1:command:(", out);
		for (uint32_t i = 0; program->command[i].name; i++)
			fprintf(out, "%s%s", i ? " " : "", program->command[i].name);
		fputs(")' \\\n", out);
	}
	fputs("\t'--help[one screen]' '--help-all[every option]' '--version[the version]' \\\n"
	      "\t'*:file:_files'\n",
	      out);
}
