/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The command line of every program. What is not in the table is an error that names the option
 * which was probably meant, before anything of the program has started.
 *
 *    word          --help, --version ...   the question is returned, and the rest is not read
 *                  --NAME VALUE, =VALUE    table: take->option, or the field (value.c)
 *                  other                   take->word: commands, files, hosts
 *
 * Options are found by their whole name: a prefix that is unique today would not be when an option
 * is added.
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "opt/spw_opt.h"

static const struct {
	const char *word;
	enum spw_opt_ask ask;
} ask_list[] = {
	{"--help", SPW_OPT_HELP},         {"-h", SPW_OPT_HELP},
	{"--help-all", SPW_OPT_HELP_ALL}, {"--version", SPW_OPT_VERSION},
	{"--help-man", SPW_OPT_MAN},      {"--help-man-ports", SPW_OPT_MAN_PORTS},
	{"--help-bash", SPW_OPT_BASH},    {"--help-zsh", SPW_OPT_ZSH},
};

/* Questions are the same in every program, so they stand in no program's table. */
enum spw_opt_ask spw_opt_asked(const char *word)
{
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(ask_list); i++)
		if (!strcmp(word, ask_list[i].word))
			return ask_list[i].ask;
	return SPW_OPT_RUN;
}

/* name need not end with a 0: it may be followed by "=VALUE". */
const struct spw_opt *spw_opt_find(const struct spw_opt_program *program, const char *name,
				   size_t name_bytes)
{
	for (uint32_t i = 0; i < program->opt_cnt; i++) {
		const char *own = program->opt[i].name;

		if (strlen(own) == name_bytes && !strncmp(own, name, name_bytes))
			return &program->opt[i];
	}
	return NULL;
}

/* "-v": the flag of that letter, or NULL. */
static const struct spw_opt *option_of_letter(const struct spw_opt_program *program,
					      const char *word)
{
	for (uint32_t i = 0; i < program->opt_cnt && word[0] == '-' && word[1] && !word[2]; i++)
		if (program->opt[i].letter == word[1])
			return &program->opt[i];
	return NULL;
}

/* The table's names, and those that every program has. */
static const char *option_name(uint32_t idx, const void *arg)
{
	static const char *const all[] = {"help", "help-all", "version"};
	const struct spw_opt_program *program = arg;

	return idx < program->opt_cnt ? program->opt[idx].name : all[idx - program->opt_cnt];
}

static int option_unknown(const struct spw_opt_program *program, const char *name, size_t bytes)
{
	const char *nearest;
	char word[64];

	bytes = SPW_MIN(bytes, sizeof(word) - 1);
	memcpy(word, name, bytes);
	word[bytes] = '\0';
	nearest = spw_opt_nearest(word, program->opt_cnt + 3, option_name, program);
	return spw_err(EINVAL, "--%s: no such option%s%s; %s --help lists them", word,
		       nearest ? ", did you mean --" : "", nearest ? nearest : "", program->name);
}

static const char *command_name(uint32_t idx, const void *arg)
{
	return ((const struct spw_opt_command *)arg)[idx].name;
}

/* For programs whose first word is a command. */
int spw_opt_no_command(const struct spw_opt_program *program, const char *word)
{
	uint32_t cnt = 0;
	const char *nearest;

	while (program->command && program->command[cnt].name)
		cnt++;
	nearest = spw_opt_nearest(word, cnt, command_name, program->command);
	return spw_err(EINVAL, "'%.64s': no such command%s%s; %s --help lists them", word,
		       nearest ? ", did you mean " : "", nearest ? nearest : "", program->name);
}

/* "--name", behind which the value stands, or "--name=value". *idx moves on to the last word. */
static int option_read(const struct spw_opt_program *program, int argc, char **argv, int *idx,
		       const struct spw_opt_take *take)
{
	const char *name = argv[*idx] + 2, *equals = strchr(name, '='), *value = NULL;
	size_t bytes = equals ? (size_t)(equals - name) : strlen(name);
	const struct spw_opt *opt = spw_opt_find(program, name, bytes);
	int rc;

	if (!opt)
		return option_unknown(program, name, bytes);
	if (equals)
		value = equals + 1;
	else if (opt->kind != SPW_OPT_FLAG && *idx + 1 < argc && strncmp(argv[*idx + 1], "--", 2))
		value = argv[++*idx];
	if (!value && opt->kind != SPW_OPT_FLAG)
		return spw_err(EINVAL, "--%s needs a value: %s", opt->name, opt->help);
	if (value && opt->kind == SPW_OPT_FLAG)
		return spw_err(EINVAL, "--%s takes no value", opt->name);
	rc = take->option ? take->option(take->base, opt, value ? value : "")
			  : spw_opt_set(opt, take->base, value ? value : "");
	return rc ? spw_err_ctx(rc, "--%s", opt->name) : 0;
}

/* An option that every program has, with a value. */
static bool ask_with_value(const char *word)
{
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(ask_list); i++) {
		size_t bytes = strlen(ask_list[i].word);

		if (!strncmp(word, ask_list[i].word, bytes) && word[bytes] == '=')
			return true;
	}
	return false;
}

/* The first error ends it; options before it have been set. */
int spw_opt_parse(const struct spw_opt_program *program, int argc, char **argv,
		  const struct spw_opt_take *take)
{
	int rc = 0;

	for (int i = 1; i < argc && rc == 0; i++) {
		const char *word = argv[i];
		enum spw_opt_ask ask = spw_opt_asked(word);
		const struct spw_opt *flag;

		if (ask != SPW_OPT_RUN)
			return (int)ask;
		if (ask_with_value(word))
			rc = spw_err(EINVAL, "%.*s takes no value", (int)strcspn(word, "="), word);
		else if (!strncmp(word, "--", 2) && word[2])
			rc = option_read(program, argc, argv, &i, take);
		else if ((flag = option_of_letter(program, word)))
			rc = take->option ? take->option(take->base, flag, "")
					  : spw_opt_set(flag, take->base, "");
		else if (take->word && (word[0] != '-' || !word[1]))
			rc = take->word(take->base, word);
		else
			rc = spw_err(EINVAL,
				     "'%.64s' is not an option; options are --NAME VALUE or "
				     "--NAME=VALUE, and %s --help lists them",
				     word, program->name);
	}
	return rc;
}
