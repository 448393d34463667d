/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The command line (args.h): main.c calls perf_args once, before anything is opened. The table
 * below also makes --help, the man page and the shell completion (lib/opt), so a new option has its
 * help text here. Lists with commas are options of kind OWN; their setters clear what a former
 * --rows or --sizes has set, so the last one on the command line counts.
 */
#include "args.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "app_file.h"
#include "app_opt.h"
#include "app_program.h"
#include "base/spw_err.h"

#define SIZE_BYTES_MAX (16ull << 30)
#define MS             1000000ull

/* ---- lists ---- */

/* 0 is no size of a row: a message of 0 bytes ends a row of SENDs (queue.h). */
static int size_add(struct perf_args *args, const char *word)
{
	uint64_t bytes;

	if (args->size_cnt == PERF_SIZE_MAX)
		return spw_err(EINVAL, "more than %u sizes", PERF_SIZE_MAX);
	if (spw_opt_quantity(word, SPW_OPT_UNIT_BYTES, 1, &bytes) ||
	    !spw_in_range(bytes, 2, SIZE_BYTES_MAX))
		return spw_err(EINVAL, "'%.64s': a size is 2 to 16G, as in 64K", word);
	args->size[args->size_cnt++] = bytes;
	return 0;
}

/* Each word of a list with commas. */
static int list_each(struct perf_args *args, const char *list,
		     int (*add)(struct perf_args *args, const char *word))
{
	char text[512], *rest = NULL;
	int rc = 0;

	if (strlen(list) >= sizeof(text))
		return spw_err(EINVAL, "the list has more than %zu characters", sizeof(text) - 1);
	snprintf(text, sizeof(text), "%s", list);
	for (char *word = strtok_r(text, ",", &rest); word && rc == 0;
	     word = strtok_r(NULL, ",", &rest))
		rc = add(args, word);
	return rc;
}

/* Setters of options get the struct that the table's offsets refer to: struct perf_args. */
static int sizes_set(void *base, const char *list)
{
	struct perf_args *args = base;
	int rc;

	args->size_cnt = 0;
	rc = list_each(args, list, size_add);
	return rc || args->size_cnt ? rc : spw_err(EINVAL, "there is no size in it");
}

static const struct spw_enum_word row_word[] = {SPW_ENUM_WORDS(PERF_ROW)};

static const char *row_at(uint32_t idx, const void *arg SPW_UNUSED)
{
	return row_word[idx].text;
}

static int row_add(struct perf_args *args, const char *word)
{
	char all[128];

	for (uint32_t i = 0; i < PERF_ROW_CNT; i++)
		if (!strcmp(word, row_word[i].text)) {
			args->rows |= 1u << i;
			return 0;
		}
	spw_opt_join(all, sizeof(all), PERF_ROW_CNT, row_at, NULL);
	return spw_err(EINVAL, "%.64s: no such row; there are %s", word, all);
}

/* A list that the user gave makes a row that cannot be measured an error instead of a row left
 * out. */
static int rows_set(void *base, const char *list)
{
	struct perf_args *args = base;

	int rc;

	args->rows = 0;
	args->rows_named = true;
	rc = list_each(args, list, row_add);
	return rc || args->rows ? rc : spw_err(EINVAL, "there is no row in it");
}

/* The choices are the kinds up to SPW_MEM_GPU; what follows in the enumeration is no choice of a
 * user. */
static const char *memory_choice(uint32_t idx)
{
	return idx <= SPW_MEM_GPU ? spw_mem_kind_name((enum spw_mem_kind)idx) : NULL;
}

/* lib/mem knows why. */
static int args_memory_refused(const char *text)
{
	enum spw_mem_kind kind;

	return strcmp(text, "managed") ? 0 : spw_mem_kind_parse(text, &kind);
}

/* ---- the table ---- */

#define FIELD(member) SPW_OPT_FIELD(struct perf_args, member)

/* Ends of a pair take options of their own: --memory, --port and --secret at either end, the rest
 * at the client. */
static const struct spw_opt table[] = {
	{FIELD(full), .name = "full", .kind = SPW_OPT_FLAG,
	 .help = "print every row of every table as it is measured; without it a line a table"},
	{FIELD(all_sizes), .name = "all-sizes", .kind = SPW_OPT_FLAG,
	 .help = "all sizes of 2 B to 64 MB, 1 s each"},
	{SPW_OPT_SETTER(rows_set, "LIST"), .name = "rows",
	 .help = "of write,send,read,egress,gpu,tcp,bond,coll (all)"},
	{SPW_OPT_SETTER(sizes_set, "LIST"), .name = "sizes",
	 .help = "2,64,4K,1M... of messages, up to 16G"},
	{FIELD(rails), .name = "rails", .kind = SPW_OPT_STRING, .value = "A+B",
	 .help = "up to 4 devices here; A=X+B=Y: and those they face"},
	{FIELD(memory), .name = "memory", .kind = SPW_OPT_CHOICE, .choice = memory_choice,
	 .refused = args_memory_refused, .dflt = "auto", .help = "memory of GPU rows at this end"},
	{FIELD(row_ns), .name = "time", .kind = SPW_OPT_TIME, .min = 20 * MS, .max = 60000 * MS,
	 .help = "how long each row is timed, 20ms to 60s"},
	{FIELD(secret), .name = "secret", SPW_OPT_FILE,
	 .help = "16 to 256 bytes, alike at both ends; -: from stdin"},
	{FIELD(port), .name = "port", .kind = SPW_OPT_NUMBER, .max = 65533, .dflt = "18515",
	 .help = "TCP port of the server; it takes the next two too"},
	{FIELD(json), .name = "json", SPW_OPT_FILE,
	 .help = "everything as JSON; -: stdout, and no tables"},
	{FIELD(csv), .name = "csv", SPW_OPT_FILE,
	 .help = "one line a row; -: stdout, and no tables"},
	{FIELD(html), .name = "html", SPW_OPT_FILE, .help = "tables, and curves over size"},
	{FIELD(ssh), .name = "ssh", .kind = SPW_OPT_STRING, .value = "HOST",
	 .help = "start the other end there first"},
	{FIELD(once), .name = "once", .kind = SPW_OPT_FLAG,
	 .help = "serve: leave after one session"},
	SPW_OPT_VERBOSITY(struct perf_args, verbosity, NULL),
};
_Static_assert(PERF_PORT == 18515, "the default of --port");

static const char *const usage[] = {"                 two software devices of this machine",
				    "serve            on one machine, and on the other one",
				    "HOST[:PORT]      measures and prints",
				    "--ssh HOST       starts the other end there first", NULL};
static const struct spw_opt_command command[] = {
	{"serve", "", "be the end that answers, until it is interrupted"}, {NULL, NULL, NULL}};
static const struct spw_opt_pair status[] = {{"0", "all rows are good"},
					     {"1", "usage"},
					     {"2", "nothing could be measured"},
					     {"3", "a row is invalid"},
					     {"4", "a row or a rail failed"},
					     {"130 or 143", "interrupted"},
					     {NULL, NULL}};
static const struct spw_opt_pair example[] = {
	{"spinwire-perf --ssh spark2 --html perf.html",
	 "The tables of two machines, without a login on the other one; a page of curves."},
	{"spinwire-perf spark2 --rows write,read --sizes 64,4K,1M --time 200ms",
	 "Two rows at three sizes; on spark2 runs: spinwire-perf serve."},
	{NULL, NULL}};

static const struct spw_opt_program program = {
	.name = PERF_PROGRAM,
	.summary = "tables of RDMA and TCP between two machines",
	.usage = usage,
	.about = "Bandwidth, messages/s and latency of RDMA over each rail and all of them, TCP\n"
		 "beside them. Every row is checked: its bytes, and that they crossed the wire.",
	.command = command,
	.opt = table,
	.opt_cnt = SPW_ARRAY_CNT(table),
	.status = status,
	.example = example,
	.see = "spinwire-perf-report(1), spinwire-perf-collectives(1), spinwire-doctor(1), "
	       "with-softhca(1); docs/100-two-machines.md"};

bool perf_is_started(const struct perf_args *args)
{
	return args->serve && args->secret && !strcmp(args->secret, "-");
}

/* A word without dashes: "serve", or the host. Both together, or two hosts, are an error. */
static int args_word_take(void *base, const char *word)
{
	struct perf_args *args = base;

	if (args->host || args->serve)
		return spw_err(EINVAL, "'%.64s': %s was given already; see " PERF_PROGRAM " --help",
			       word, args->serve ? "serve" : "a HOST");
	if (!strcmp(word, "serve"))
		args->serve = true;
	else
		args->host = word;
	return 0;
}

/* Nothing is started for a result that cannot be written. */
static int args_outputs_check(const struct perf_args *args)
{
	const bool json = app_file_is_stdout(args->json), csv = app_file_is_stdout(args->csv);
	int rc = 0;

	if (json && csv)
		return spw_err(EINVAL, "--json - and --csv -: stdout can take one of them");
	if (!json)
		rc = app_file_try("--json", args->json);
	if (rc == 0 && !csv)
		rc = app_file_try("--csv", args->csv);
	return rc ? rc : app_file_try("--html", args->html);
}

/* Combinations are checked last, when all options are known: their order on the command line is
 * free. */
int perf_args(struct perf_args *args, int argc, char **argv)
{
	int rc = spw_opt_defaults(table, SPW_ARRAY_CNT(table), args);

	args->rows = (1u << PERF_ROW_CNT) - 1;
	if (rc == 0)
		rc = spw_opt_parse(&program, argc, argv,
				   &(struct spw_opt_take){.base = args, .word = args_word_take});
	if (rc > SPW_OPT_RUN)
		app_opt_answer(&program, rc);
	if (rc)
		return rc;
	args->ms = (uint32_t)(args->row_ns / MS);
	if (args->host && args->ssh)
		return spw_err(EINVAL, "HOST and --ssh exclude each other: --ssh connects to its "
				       "host by itself");
	if (args->serve && (args->ssh || args->json || args->csv || args->html))
		return spw_err(EINVAL, "serve measures for the other end, which prints: --ssh, "
				       "--json, --csv and --html belong there");
	if ((rc = args_outputs_check(args)) != 0)
		return rc;
	/* What libraries only note (which memory was chosen, and why) stands in the summary. */
	return app_program_verbosity(&args->verbosity, SPW_LOG_WARN);
}
