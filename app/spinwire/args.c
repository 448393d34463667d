/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The command line. Called first by main: the part behind "--" is read before EAL starts, because
 * the ports that it names decide which devices EAL may touch.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_version.h>

#include "app.h"
#include "app_file.h"
#include "app_json.h"
#include "base/spw_err.h"

#define HELP_COLUMNS 80

/* One line, or more, of option names for each section of the configuration. */
static void help_sections(void)
{
	struct spw_conf_key_help key;
	char section[32] = "";
	int column = 0;

	for (uint32_t i = 0; spw_conf_key_help(i, &key); i++) {
		int bytes = (int)strcspn(key.key, ".[");
		bool same = (int)strlen(section) == bytes && !strncmp(section, key.key, bytes);

		if (!same)
			snprintf(section, sizeof(section), "%.*s", bytes, key.key);
		if (!same || column + (int)strlen(key.option) + 3 > HELP_COLUMNS)
			column = printf("%s%-10s", i ? "\n" : "", same ? "" : section);
		column += printf(" --%s", key.option);
	}
	printf("\n");
}

/* One line per key of the table in lib/conf. */
static void help_keys(void)
{
	struct spw_conf_key_help key;

	for (uint32_t i = 0; spw_conf_key_help(i, &key); i++) {
		char left[64];

		snprintf(left, sizeof(left), "--%s <%s>", key.option, key.type);
		printf("  %-34s %s", left, key.help);
		if (key.range[0])
			printf(" (%s)", key.range);
		printf("%s%s\n", key.dflt[0] ? ", default " : "", key.dflt);
	}
}

static void help_replay(void)
{
	printf("\nA recording of --record, run through the same loop again without NIC and GPU:\n"
	       "the same ledger, the same causes, the same worst frames.\n\n"
	       "  --replay FILE           the recording\n"
	       "  --handler NAME          the handler to run on frames that --record-snap kept\n"
	       "                          whole; a plug-in's path; the recorded one if built in\n"
	       "  --json FILE             the result as JSON (-: stdout, and no table)\n"
	       "  --explain FLOW:NUMBER   where one of the worst frames spent its time\n\n"
	       "Its exit status is 3 if anything came out otherwise than it was recorded.\n");
}

/* Purpose: prints one screen, or with all every option with its range and default; the man page is
 * made from the latter. */
static void help(bool all)
{
	printf("Usage: spinwire [EAL arguments] -- --port SPEC [options]\n"
	       "  or:  spinwire [EAL arguments] -- --config FILE [options]\n"
	       "  or:  spinwire --replay FILE [--explain FLOW:NUMBER]\n"
	       "  or:  spinwire --help | --help-all\n\n"
	       "Receives frames, hands them to an executor without a copy, accounts for each.\n"
	       "EAL arguments are those of any DPDK program (-l, --lcores, --no-huge, -a ...).\n"
	       "The main lcore controls, each other lcore runs one receive queue, and spare ones\n"
	       "serve the cpu executor; -l auto chooses fast, isolated, near cores.\n\n");
	if (all)
		help_keys();
	else
		help_sections();
	if (all)
		help_replay();
	printf("\nport drivers: %s\n", spw_port_driver_names());
	printf("exit status: 0 good, 1 usage or config, 2 the machine cannot do it,\n"
	       "             3 ledger or pool did not balance, 4 an unrecoverable fault\n");
	if (!all)
		printf("example: spinwire -l 0,1 --no-huge -m 128 -- --port null --seconds 10\n"
		       "Every option, range and default: man spinwire, or spinwire --help-all\n");
}

/* A path that cannot be written must not be found after an hour's run. Logs and captures are opened
 * before it. */
static int outputs_try(const struct spw_conf *conf)
{
	int rc = app_json_try(conf->run.json);

	rc = rc ? rc : app_file_try("--record", conf->run.record);
	return rc ? rc : app_file_try("--trail", conf->run.trail);
}

/* --replay takes the place of a run; main.c has found none before "--". */
static int replay_refuse(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!strncmp(argv[i], "--replay", 8))
			return spw_err(EINVAL, "--replay takes no \"--\" and no EAL arguments: "
					       "spinwire --replay FILE");
		if (!strncmp(argv[i], "--explain", 9))
			return spw_err(EINVAL, "--explain is of --replay: spinwire --replay FILE "
					       "--explain FLOW:NUMBER");
	}
	return 0;
}

/* --help needs neither EAL nor a port, so it comes first. */
int app_args(struct app *app, int argc, char **argv)
{
	int rc;

	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		help(false);
		return 1;
	}
	if (argc > 1 && !strcmp(argv[1], "--help-all")) {
		help(true);
		return 1;
	}
	if ((rc = replay_refuse(argc, argv)) < 0)
		return rc;
	if ((rc = app_eal_split(&app->eal, argc, argv)) < 0)
		return rc;
	if (app->eal.split == argc)
		return spw_err(EINVAL, "spinwire's own arguments follow \"--\", at least one "
				       "--port or a --config; see "
				       "spinwire --help");
	rc = spw_conf_args(&app->conf, argc - app->eal.split, argv + app->eal.split);
	if (rc == SPW_CONF_HELP)
		help(false);
	if (rc == SPW_CONF_VERSION)
		printf("spinwire %s, %s\n", SPW_VERSION, rte_version());
	for (uint32_t i = 0; rc == 0 && i < app->conf.port_cnt; i++)
		rc = app_eal_port(&app->eal, &app->conf.port[i].spec);
	return rc ? rc : outputs_try(&app->conf);
}
