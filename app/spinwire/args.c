/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The command line. Called first by main: the part behind "--" is read before EAL starts, because
 * the ports that it names decide which devices EAL may touch.
 *
 *    EAL arguments ─── "--" ─── own options, or --config FILE and options that override it
 *    app_eal_split              spw_conf_args: the keys are the options (lib/conf)
 *
 * Options that a file may hold too are in lib/conf; own_table has the few that belong to a command
 * line alone. After they are read everything is tried that needs no EAL: handlers, descriptions of
 * objects, output files. --check ends there.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <rte_version.h>

#include "app.h"
#include "app_file.h"
#include "app_limits.h"
#include "app_opt.h"
#include "base/spw_err.h"

static const char *const usage[] = {
	"[EAL arguments] -- --port SPEC [options]", "[EAL arguments] -- --config FILE [options]",
	"--replay FILE [--handler NAME] [--json FILE] [--explain ...]", NULL};
static const struct spw_opt_pair status[] = {
	{"0", "good"},
	{"1", "usage or configuration"},
	{"2", "the machine cannot do it, or a file could not be written"},
	{"3", "ledger or pool did not balance"},
	{"4", "a fault that could not be recovered"},
	{"130 or 143", "interrupted"},
	{NULL, NULL}};
static const struct spw_opt_pair example[] = {
	{"spinwire -l 0,1 --no-huge -m 128 -- --port null:rate=50kpps --seconds 5",
	 "Five seconds of frames that the null port makes, 50,000 a second, on any machine."},
	{"spinwire --lcores auto -- --port mlx5:mlx5_0,mode=eth,udp=5357 --handler echo",
	 "Echo UDP frames to port 5357 of an RDMA device until Ctrl-C."},
	{"spinwire -- --config /etc/spinwire.yaml --json summary.json --slow-threshold 50us",
	 "Ports and executor from a file, the summary to a file; two options override the file."},
	{"spinwire --replay flight.rec --explain 3:1234",
	 "Where frame 1234 of flow 3 of a recording spent its time."},
	{NULL, NULL}};

/* --replay takes the place of a run (replay.c); main.c has found none before "--". */
static int replay_refuse(void *unused SPW_UNUSED, const char *text SPW_UNUSED)
{
	return spw_err(EINVAL, "takes no \"--\" and no EAL arguments: spinwire --replay FILE");
}

static int explain_refuse(void *unused SPW_UNUSED, const char *text SPW_UNUSED)
{
	return spw_err(EINVAL, "is of --replay: spinwire --replay FILE --explain FLOW:NUMBER");
}

static const struct spw_opt own_table[] = {
	{SPW_OPT_FIELD(struct spw_conf, run.full), .section = "run", .name = "full",
	 .kind = SPW_OPT_FLAG, .help = "print every table of the result; without it ten lines"},
	SPW_OPT_VERBOSITY(struct spw_conf, run.verbosity, "run"),
	{SPW_OPT_SETTER(replay_refuse, "FILE"), .section = "replay", .name = "replay",
	 .help = "run a recording again, with neither EAL, NIC nor GPU; takes --handler, --json "
		 "and --explain"},
	{SPW_OPT_SETTER(explain_refuse, "FLOW:NUMBER"), .section = "replay", .name = "explain",
	 .help = "print where one frame of the recording spent its time"},
};

/* The keys of a file, and what is no key. */
static const struct spw_opt *table_fill(uint32_t *cnt_out)
{
	static struct spw_opt table[SPW_CONF_OPTION_MAX + SPW_ARRAY_CNT(own_table)];
	const struct spw_opt *keys = spw_conf_options(cnt_out);

	memcpy(table, keys, *cnt_out * sizeof(*table));
	memcpy(table + *cnt_out, own_table, sizeof(own_table));
	*cnt_out += SPW_ARRAY_CNT(own_table);
	return table;
}

/* The version names DPDK's too: a report of a fault then has both. */
const struct spw_opt_program *app_args_program(void)
{
	static char version[64], notes[160];
	static struct spw_opt_program program = {
		.name = "spinwire",
		.summary = "receive frames, hand them to an executor, account for every one",
		.usage = usage,
		.about = "Receives frames, hands them to an executor without a copy, accounts for "
			 "each.\n"
			 "EAL arguments are those of any DPDK program (-l, --lcores, --no-huge, -a "
			 "...).\n"
			 "The main lcore controls, each other lcore runs one receive queue, and "
			 "spare ones\n"
			 "serve the cpu executor; --lcores auto chooses fast, isolated, near "
			 "cores.\n",
		.status = status,
		.example = example,
		.see = "spinwire-ports(7), spinwire-gen(1), spinwire-run(1), spinwire-top(1), "
		       "spinwire-doctor(1), with-softhca(1)",
		.version = version,
		.notes = notes,
		.ports = app_opt_ports};

	snprintf(version, sizeof(version), "%s, %s", SPW_VERSION, rte_version());
	snprintf(notes, sizeof(notes), "port drivers (man spinwire-ports): %s",
		 spw_port_driver_names());
	program.opt = table_fill(&program.opt_cnt);
	return &program;
}

/* A plug-in is opened later; that its file is there can be seen now. */
static int args_try_handler(const char *spec)
{
	const struct spw_handler *unused;
	struct stat file;
	char path[512];

	snprintf(path, sizeof(path), "%.*s", (int)strcspn(spec, ":"), spec);
	if (strchr(path, '/') && stat(path, &file))
		return spw_err(errno, "--handler: %s: %s", path, strerror(errno));
	if (strchr(path, '/'))
		return S_ISREG(file.st_mode) ? 0
					     : spw_err(EINVAL, "--handler: %s: is no file", path);
	if (!spec[0] || spw_handler_open(spec, &unused) == 0)
		return 0;
	return spw_err_ctx(-EINVAL, "--handler");
}

/* What else can be refused before EAL starts. */
static int args_try_values(const struct spw_conf *conf)
{
	int rc = args_try_handler(conf->executor.handler);

	for (uint32_t i = 0; i < conf->port_cnt && rc == 0; i++)
		rc = args_try_handler(conf->port[i].handler);
	return rc ? rc : app_slo_try(conf->run.slo);
}

/* A path that cannot be written must not be found after an hour's run. */
static int args_try_outputs(const struct spw_conf *conf)
{
	int rc = app_file_take("--json", conf->run.json);

	rc = rc ? rc : app_file_try("--hdr", conf->run.hdr);
	rc = rc ? rc : app_file_try("--capture", conf->run.capture);
	rc = rc ? rc : app_file_try("--record", conf->run.record);
	rc = rc ? rc : app_file_try("--receipts", conf->run.receipts);
	return rc ? rc : app_file_try("--trail", conf->run.trail);
}

/* What can be refused without EAL is refused here: a user waits for no hugepages to learn of a
 * typing error. */
int app_args(struct app *app, int argc, char **argv)
{
	const struct spw_opt_program *program = app_args_program();
	int rc;

	if ((rc = app_eal_split(&app->eal, argc, argv)) < 0)
		return rc;
	rc = app_opt_split(program, argc, argv, app->eal.split);
	if (rc == SPW_OPT_RUN)
		rc = spw_conf_args(&app->conf, program, argc - app->eal.split,
				   argv + app->eal.split);
	if (rc > SPW_OPT_RUN)
		app_opt_answer(program, rc);
	app->eal.verbose = app->conf.run.verbosity.verbose;
	rc = rc ? rc : app_program_verbosity(&app->conf.run.verbosity, SPW_LOG_INFO);
	rc = rc ? rc : app_limits_args(&app->eal);
	for (uint32_t i = 0; rc == 0 && i < app->conf.port_cnt; i++)
		rc = app_eal_port(&app->eal, &app->conf.port[i].spec);
	rc = rc ? rc : args_try_values(&app->conf);
	rc = rc ? rc : app_objects_load(app);
	rc = rc ? rc : args_try_outputs(&app->conf);
	return rc == 0 && app->conf.check ? app_opt_checked(program) : rc;
}
