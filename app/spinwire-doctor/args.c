/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The command line: a command, its files, and options anywhere. main.c calls doctor_args once. The
 * table also makes --help, the man page and completion (lib/opt), so an option is described here
 * and nowhere else.
 *
 *    spinwire-doctor [COMMAND] [WORD...] [--option value]...
 *                     │         └ files; of cores first their number
 *                     └ one of command[]; without it: check
 *
 * An option that belongs to one command is refused with the others, so that a typing error does
 * not pass as a run that ignored it. To add a command: command[], file_range[] in the same order,
 * and main.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "app_opt.h"
#include "app_program.h"
#include "base/spw_err.h"
#include "doctor.h"

#define SECOND 1000000000ull

static const struct spw_opt_command command[] = {
	{"check", "", "findings of this machine (also without a command)"},
	{"record", "FILE", "write all that was read, to be replayed elsewhere"},
	{"replay", "FILE...", "findings of a recorded machine, or of one in a receipt"},
	{"diff", "A B", "in what two recorded machines differ"},
	{"plan", "", "addresses and variables of NCCL and MPI for its peers"},
	{"cores", "N", "what --lcores auto takes for N lcores"},
	{"idle", "", "what the machine takes from cores that only spin"},
	{"hang", "[CASE...]", "who hangs NCCL's collective here and on --hosts"},
	{"answer", "", "what --measure --peer starts on HOST"},
	{NULL, NULL, NULL}};

/* How many files each takes, in the same order. */
static const struct {
	uint32_t min, max;
} file_range[] = {{0, 0},
		  {1, 1},
		  {1, DOCTOR_FILE_MAX},
		  {2, 2},
		  {0, DOCTOR_FILE_MAX},
		  {0, DOCTOR_FILE_MAX},
		  {0, 0},
		  {0, DOCTOR_FILE_MAX},
		  {0, 0}};
_Static_assert(SPW_ARRAY_CNT(file_range) == SPW_ARRAY_CNT(command) - 1, "a range for each command");

/* Used for words and for --replay alike: both name recorded machines. */
static int file_add(void *base, const char *file)
{
	struct doctor_args *args = base;

	if (args->file_cnt == DOCTOR_FILE_MAX)
		return spw_err(EINVAL, "%s: more than %u files", file, DOCTOR_FILE_MAX);
	args->file[args->file_cnt++] = file;
	return 0;
}

static int peer_add(void *base, const char *peer)
{
	struct doctor_args *args = base;
	uint32_t i = 0;

	if (!*peer)
		return spw_err(EINVAL, "'' is not allowed; it takes a HOST");
	while (i < DOCTOR_PEER_MAX && args->peer[i])
		i++;
	if (i == DOCTOR_PEER_MAX)
		return spw_err(EINVAL,
			       "more than %u: a plan is for two machines, or three in a "
			       "triangle",
			       DOCTOR_PEER_MAX);
	args->peer[i] = peer;
	return 0;
}

/* A second --cores replaces the first. */
static int idle_cores_set(void *base, const char *text)
{
	struct doctor_args *args = base;

	args->idle_cnt = 0;
	return spw_opt_cores(text, args->idle_core, DOCTOR_IDLE_MAX, &args->idle_cnt);
}

#define FIELD(member) SPW_OPT_FIELD(struct doctor_args, member)

static const struct spw_opt table[] = {
	{FIELD(measure), .name = "measure", .kind = SPW_OPT_FLAG,
	 .help = "also measure what RDMA ports carry and each GPU does under load"},
	{SPW_OPT_SETTER(peer_add, "HOST"), .name = "peer",
	 .help = "measure: to that machine; plan: by ssh, or a FILE; twice: a triangle"},
	{FIELD(expect_bps), .name = "expect", .kind = SPW_OPT_BITS, .min = 1000000,
	 .max = 10000000000000ull,
	 .help = "measure: what one function should carry; else as its links promise"},
	{FIELD(full), .name = "full", .kind = SPW_OPT_FLAG,
	 .help = "print notes with what to do; without it their codes alone"},
	{FIELD(facts), .name = "facts", .kind = SPW_OPT_FLAG,
	 .help = "print every fact with its source, or why it is unknown"},
	{FIELD(json), .name = "json", SPW_OPT_FILE,
	 .help = "what is printed as JSON; -: stdout, and no table"},
	{FIELD(csv), .name = "csv", SPW_OPT_FILE,
	 .help = "measure, idle: the figures, one line a row; -: stdout"},
	{FIELD(receipt), .name = "receipt", SPW_OPT_FILE,
	 .help = "facts, findings, recorded machine and a SHA-256, as JSON"},
	{SPW_OPT_SETTER(file_add, "FILE"), .name = "replay",
	 .help = "plan, cores: of a recorded machine; hang: a saved case"},
	{FIELD(apply), .name = "apply", .kind = SPW_OPT_STRING, .value = "DIR",
	 .help = "plan: write DIR/etc/netplan/60-spinwire.yaml by a rename"},
	{FIELD(near), .name = "near", .kind = SPW_OPT_STRING, .value = "NIC",
	 .help = "cores: near this NIC"},
	{SPW_OPT_SETTER(idle_cores_set, "CORES"), .name = "cores", .range = SPW_OPT_CORES_RANGE,
	 .help = "idle: cores to spin on; else the one that this is on"},
	{FIELD(idle_ns), .name = "seconds", .kind = SPW_OPT_TIME, .min = SECOND / 100,
	 .max = 3600 * SECOND, .bare_unit = SECOND, .help = "idle: for how long; else 2"},
	{FIELD(hosts), .name = "hosts", .kind = SPW_OPT_STRING, .value = "A,B",
	 .help = "hang: hosts of the other ranks, by ssh"},
	{FIELD(save), .name = "save", SPW_OPT_FILE,
	 .help = "hang: all that was read, for --replay; -: stdout"},
	{FIELD(hang_pid), .name = "pid", .kind = SPW_OPT_NUMBER, .min = 1, .max = 4194304,
	 .help = "hang: this process of this host alone; else all with NCCL"},
	{FIELD(torch_dump), .name = "torch-dump", .kind = SPW_OPT_STRING, .value = "PREFIX",
	 .help = "hang: PyTorch's flight recorders were dumped to PREFIX<rank>"},
	{FIELD(stacks), .name = "stacks", .kind = SPW_OPT_FLAG,
	 .help = "hang: also stacks; each process stops while one is taken"},
	SPW_OPT_VERBOSITY(struct doctor_args, verbosity, NULL),
};

static const char *const usage[] = {"[check] [--facts] [--json FILE] [--receipt FILE]",
				    "--measure [--peer HOST] [--expect RATE] [--json FILE]...",
				    "record FILE | replay FILE [CHANGES]... | diff A B",
				    "plan --peer HOST|FILE [--peer HOST|FILE] [--apply DIR]",
				    "cores N [--near NIC] | idle [--cores CORES]",
				    "hang [--hosts A,B] [--save FILE] [--replay FILE]",
				    NULL};
static const struct spw_opt_pair status[] = {{"0", "no error (diff: equal; hang: it moves)"},
					     {"1", "usage (hang: or a rank is named)"},
					     {"2", "an error (hang: unknown)"},
					     {"130 or 143", "interrupted"},
					     {NULL, NULL}};
static const struct spw_opt_pair example[] = {
	{"spinwire-doctor", "What on this machine hurts RDMA or spinwire."},
	{"spinwire-doctor plan --peer spark2 --apply /",
	 "Addresses for two machines that are cabled to each other; this one's netplan file."},
	{"spinwire-doctor --measure --peer spark2 --receipt receipt.json",
	 "What the cables between two machines carry, with all that was read."},
	{"spinwire-doctor hang --hosts spark2 --save case.json",
	 "Which rank of a hanging job the others wait for, and why."},
	{NULL, NULL}};

static const struct spw_opt_program program = {
	.name = "spinwire-doctor",
	.summary = "what this machine is, and what will hurt RDMA on it",
	.usage = usage,
	.about = "Says what on this machine hurts RDMA or spinwire, and a remedy; changes "
		 "nothing.",
	.command = command,
	.opt = table,
	.opt_cnt = SPW_ARRAY_CNT(table),
	.status = status,
	.example = example,
	.see = "spinwire(1), spinwire-perf(1), spinwire-run(1)"};

/* Which of the commands a word is; -1: none. */
static int command_find(const char *word)
{
	for (int i = 0; command[i].name; i++)
		if (!strcmp(word, command[i].name))
			return i;
	return -1;
}

/* The first word is the command; without one it is check. */
static int doctor_word_take(void *base, const char *word)
{
	struct doctor_args *args = base;
	int at = command_find(word);

	if (!args->command && at < 0)
		return spw_opt_find(&program, word, strlen(word))
			       ? spw_err(EINVAL, "'%s': no such command, did you mean --%s", word,
					 word)
			       : spw_opt_no_command(&program, word);
	if (!args->command)
		args->command = command[at].name;
	else if (!strcmp(args->command, "cores") && !args->cores)
		args->cores = word;
	else
		return file_add(args, word);
	return 0;
}

/* The number comes as a word, not as an option, so its range is checked here. */
static int cores_wanted_check(struct doctor_args *args)
{
	bool wanted = !strcmp(args->command, "cores");

	if (wanted && (spw_opt_quantity(args->cores ? args->cores : "", SPW_OPT_UNIT_NONE, 1,
					&args->core_cnt) ||
		       !spw_in_range(args->core_cnt, 1, SPW_PLAT_CORE_MAX)))
		return spw_err(EINVAL, "cores %s: how many lcores, 1 to %u",
			       args->cores ? args->cores : "N", SPW_PLAT_CORE_MAX);
	if (args->near && !wanted)
		return spw_err(EINVAL, "--near belongs to cores");
	return 0;
}

/* Without --cores the probe runs where this process is, which is what a caller under taskset
 * wants. */
static int idle_check(struct doctor_args *args)
{
	if (strcmp(args->command, "idle"))
		return args->idle_cnt || args->idle_ns
			       ? spw_err(EINVAL, "--cores and --seconds belong to idle")
			       : 0;
	if (!args->idle_ns)
		args->idle_ns = 2 * SECOND;
	if (!args->idle_cnt)
		args->idle_core[args->idle_cnt++] = (uint32_t)SPW_MAX(sched_getcpu(), 0);
	return 0;
}

/* command is one of command[] by now: doctor_word_take has refused others. */
static int files_cnt_check(const struct doctor_args *args)
{
	int at = command_find(args->command);

	if (spw_in_range(args->file_cnt, file_range[at].min, file_range[at].max))
		return 0;
	if (file_range[at].min == file_range[at].max)
		return spw_err(EINVAL, "%s takes %u file%s, not %u; see spinwire-doctor --help",
			       args->command, file_range[at].min,
			       file_range[at].min == 1 ? "" : "s", args->file_cnt);
	return spw_err(EINVAL, "%s takes %u to %u files; see spinwire-doctor --help", args->command,
		       file_range[at].min, file_range[at].max);
}

/* The path goes to other hosts by ssh, whose shell would take more than these characters apart. */
static bool path_is_plain(const char *path)
{
	return path[0] == '/' && !path[strspn(path, "/abcdefghijklmnopqrstuvwxyz"
						    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+@:")];
}

static int hang_check(const struct doctor_args *args)
{
	const bool here = args->hosts || args->hang_pid || args->torch_dump || args->stacks;

	if (strcmp(args->command, "hang"))
		return here || args->save ? spw_err(EINVAL, "--hosts, --save, --pid, --torch-dump "
							    "and --stacks belong to hang")
					  : 0;
	if (args->file_cnt && here)
		return spw_err(EINVAL, "hang: a saved case has its hosts and what was read there: "
				       "no --hosts, --pid, --torch-dump, --stacks with --replay");
	if (args->torch_dump && !path_is_plain(args->torch_dump))
		return spw_err(EINVAL,
			       "--torch-dump %s: a path that begins with / and has letters, "
			       "digits and ._-+@: only",
			       args->torch_dump);
	return 0;
}

/* An output that a command does not have would be missed only after it ran. */
static int outputs_check(const struct doctor_args *args)
{
	const bool check = !strcmp(args->command, "check") || !strcmp(args->command, "replay");

	if (args->json && (!strcmp(args->command, "record") || !strcmp(args->command, "answer")))
		return spw_err(EINVAL, "%s has no --json; a machine as JSON is --receipt",
			       args->command);
	if (args->receipt && !check)
		return spw_err(EINVAL, "--receipt belongs to check and replay");
	if (args->csv && !args->measure && strcmp(args->command, "idle"))
		return spw_err(EINVAL, "--csv belongs to --measure and idle");
	return 0;
}

/* What spans several options is checked after all of them, so their order is free. */
static int args_check(struct doctor_args *args)
{
	bool plan = !strcmp(args->command, "plan");

	if (files_cnt_check(args) < 0)
		return -EINVAL;
	if (plan && !args->peer[0])
		return spw_err(EINVAL, "plan is for two machines, or three: plan --peer HOST|FILE");
	if (args->measure && args->peer[1])
		return spw_err(EINVAL, "--measure is to one --peer");
	if (args->peer[0] && !plan && !args->measure)
		return spw_err(EINVAL, "--peer belongs to plan and --measure: plan --peer "
				       "HOST|FILE, --measure --peer HOST");
	if (args->apply && !plan)
		return spw_err(EINVAL, "--apply belongs to plan");
	if (args->measure && strcmp(args->command, "check"))
		return spw_err(EINVAL, "--measure is of this machine: it goes without a command");
	if (args->expect_bps && !args->measure)
		return spw_err(EINVAL, "--expect belongs to --measure");
	args->expect_mbps = (int64_t)(args->expect_bps / 1000000);
	return cores_wanted_check(args) < 0 || idle_check(args) < 0 || hang_check(args) < 0 ||
			       outputs_check(args) < 0
		       ? -EINVAL
		       : 0;
}

/* A question (--help) is answered here; the caller has nothing left to do then. */
int doctor_args(struct doctor_args *args, int argc, char **argv)
{
	int rc = spw_opt_parse(&program, argc, argv,
			       &(struct spw_opt_take){.base = args, .word = doctor_word_take});

	if (rc > SPW_OPT_RUN)
		app_opt_answer(&program, rc);
	if (!args->command)
		args->command = "check";
	rc = rc ? rc : args_check(args);
	return rc ? rc : app_program_verbosity(&args->verbosity, SPW_LOG_WARN);
}
