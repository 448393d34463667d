/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The command line: a command, its files, and options anywhere.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "doctor.h"

static void help(void)
{
	printf("Usage: spinwire-doctor [check] [--facts] [--json FILE] [--receipt FILE]\n"
	       "  or:  spinwire-doctor --measure [--peer HOST] [--expect GBPS] [--json FILE]...\n"
	       "  or:  spinwire-doctor record FILE | replay FILE [CHANGES]... | diff A B\n"
	       "  or:  spinwire-doctor plan --peer HOST|FILE [--apply ROOT]\n"
	       "  or:  spinwire-doctor cores N [--near NIC] | idle [--cores LIST] [--seconds N]\n"
	       "Says what on this machine hurts RDMA or spinwire, and a mend; changes nothing.\n"
	       "  check           findings of this machine (also without a command)\n"
	       "  record FILE     write all that was read, to be replayed elsewhere\n"
	       "  replay FILE     findings of a recorded machine, or of one in a receipt\n"
	       "  diff A B        facts and findings in which two recorded machines differ\n"
	       "  plan            addresses, netplan files, NCCL/UCX/MPI variables for a peer\n"
	       "  cores N         what --lcores auto takes for N lcores, the main one first\n"
	       "  idle            what the machine takes from cores that only spin (2 s, one "
	       "core)\n"
	       "  --measure       also what RDMA ports carry (--peer: to another machine), if it\n"
	       "                  crossed the cable, and what each GPU does under load\n"
	       "  --expect GBPS   measure: what one function should carry (as its links promise)\n"
	       "  --facts         print every fact with its source, or why it is unknown\n"
	       "  --json FILE     the findings as JSON (-: stdout, and no table)\n"
	       "  --receipt FILE  facts, findings, recorded machine and a SHA-256, as JSON\n"
	       "  --replay FILE   plan, cores: of a recorded machine in place of this one\n"
	       "  --apply ROOT    plan: write ROOT/etc/netplan/60-spinwire.yaml by a rename\n"
	       "  answer          what --measure --peer starts on HOST (by ssh, as plan does)\n"
	       "exit status: 0 no finding is an error (diff: nothing differs), 1 usage, 2 one is\n"
	       "More: man spinwire-doctor\n");
}

static bool is_command(const char *text)
{
	static const char *const command[] = {"check", "record", "replay", "diff",
					      "plan",  "answer", "cores",  "idle"};

	for (size_t i = 0; i < SPW_ARRAY_CNT(command); i++)
		if (!strcmp(text, command[i]))
			return true;
	return false;
}

static int file_add(struct doctor_args *args, const char *file)
{
	if (args->file_cnt == DOCTOR_FILE_MAX)
		return spw_err(EINVAL, "%s: more than %u files", file, DOCTOR_FILE_MAX);
	args->file[args->file_cnt++] = file;
	return 0;
}

/* Where the value of an option goes; NULL: there is no such option. */
static const char **value_of(struct doctor_args *args, const char *option)
{
	const struct {
		const char *name;
		const char **value;
	} known[] = {{"--json", &args->json},     {"--receipt", &args->receipt},
		     {"--peer", &args->peer},     {"--apply", &args->apply},
		     {"--expect", &args->expect}, {"--near", &args->near},
		     {"--cores", &args->list},    {"--seconds", &args->seconds}};

	for (size_t i = 0; i < SPW_ARRAY_CNT(known); i++)
		if (!strcmp(option, known[i].name))
			return known[i].value;
	return NULL;
}

/* Returns: how many arguments were used. */
static int option_take(struct doctor_args *args, int argc, char **argv)
{
	const char **value = value_of(args, argv[0]);

	if (!strcmp(argv[0], "--facts") || !strcmp(argv[0], "--measure")) {
		*(argv[0][2] == 'f' ? &args->facts : &args->measure) = true;
		return 1;
	}
	if (!value && strcmp(argv[0], "--replay"))
		return spw_err(EINVAL, "%s: no such option; see spinwire-doctor --help", argv[0]);
	if (argc < 2)
		return spw_err(EINVAL, "%s wants a value; see spinwire-doctor --help", argv[0]);
	if (value)
		*value = argv[1];
	else if (file_add(args, argv[1]) < 0)
		return -EINVAL;
	return 2;
}

static int expect_take(struct doctor_args *args)
{
	double gbps = 0;
	char *end;

	if (!args->expect)
		return 0;
	gbps = strtod(args->expect, &end);
	if (end == args->expect || *end || !(gbps >= 0.001 && gbps <= 10000))
		return spw_err(EINVAL, "--expect %s: Gb/s, 0.001 to 10000", args->expect);
	args->expect_mbps = (int64_t)(gbps * 1000 + 0.5);
	return 0;
}

static int cores_take(struct doctor_args *args)
{
	bool wanted = !strcmp(args->command, "cores");
	char *end = "";

	if (wanted)
		args->core_cnt = strtoul(args->cores ? args->cores : "", &end, 10);
	if (wanted && (*end || !spw_in_range(args->core_cnt, 1, SPW_PLAT_CORE_MAX)))
		return spw_err(EINVAL, "cores %s: how many lcores, 1 to %u",
			       args->cores ? args->cores : "", SPW_PLAT_CORE_MAX);
	if (args->near && !wanted)
		return spw_err(EINVAL, "--near belongs to cores");
	return 0;
}

static int idle_list_take(struct doctor_args *args)
{
	const char *text = args->list;
	char *end;

	for (; args->idle_cnt < DOCTOR_IDLE_MAX; text = end + 1) {
		unsigned long core = strtoul(text, &end, 10);

		if (end == text || core >= CPU_SETSIZE || (*end && *end != ','))
			break;
		args->idle_core[args->idle_cnt++] = (uint32_t)core;
		if (!*end)
			return 0;
	}
	return spw_err(EINVAL, "--cores: '%s' is no list of at most %u cores, as in 1,2",
		       args->list, DOCTOR_IDLE_MAX);
}

static int idle_take(struct doctor_args *args)
{
	double seconds = 2;
	char *end = "";

	if (strcmp(args->command, "idle"))
		return args->list || args->seconds
			       ? spw_err(EINVAL, "--cores and --seconds belong to idle")
			       : 0;
	if (args->seconds)
		seconds = strtod(args->seconds, &end);
	if (end == args->seconds || *end || !(seconds >= 0.01 && seconds <= 3600))
		return spw_err(EINVAL, "--seconds %s: 0.01 to 3600", args->seconds);
	args->idle_ns = (uint64_t)(seconds * 1e9);
	if (args->list)
		return idle_list_take(args);
	args->idle_core[args->idle_cnt++] = (uint32_t)SPW_MAX(sched_getcpu(), 0);
	return 0;
}

static int check(struct doctor_args *args)
{
	static const struct {
		const char *command;
		uint32_t min, max;
	} files[] = {{"check", 0, 0},
		     {"record", 1, 1},
		     {"replay", 1, DOCTOR_FILE_MAX},
		     {"diff", 2, 2},
		     {"plan", 0, DOCTOR_FILE_MAX},
		     {"answer", 0, 0},
		     {"cores", 0, DOCTOR_FILE_MAX},
		     {"idle", 0, 0}};

	for (size_t i = 0; i < SPW_ARRAY_CNT(files); i++)
		if (!strcmp(args->command, files[i].command) &&
		    !spw_in_range(args->file_cnt, files[i].min, files[i].max))
			return spw_err(EINVAL,
				       "%s takes %u to %u files; see spinwire-doctor --help",
				       args->command, files[i].min, files[i].max);
	if ((!strcmp(args->command, "plan") || args->measure) < (args->peer != NULL) ||
	    (!strcmp(args->command, "plan") && !args->peer))
		return spw_err(EINVAL, "--peer belongs to plan and --measure: plan --peer "
				       "HOST|FILE, --measure --peer HOST");
	if (args->apply && strcmp(args->command, "plan"))
		return spw_err(EINVAL, "--apply belongs to plan");
	if (args->measure && strcmp(args->command, "check"))
		return spw_err(EINVAL, "--measure is of this machine: it goes without a command");
	if (args->expect && !args->measure)
		return spw_err(EINVAL, "--expect belongs to --measure");
	return cores_take(args) < 0 || idle_take(args) < 0 ? -EINVAL : expect_take(args);
}

int doctor_args(struct doctor_args *args, int argc, char **argv)
{
	int used;

	args->command = "check";
	for (int i = 1; i < argc; i += used) {
		used = 1;
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			help();
			return 1;
		} else if (!strcmp(argv[i], "--version")) {
			printf("spinwire-doctor %s\n", SPW_VERSION);
			return 1;
		} else if (i == 1 && is_command(argv[i])) {
			args->command = argv[i];
		} else if (!strcmp(args->command, "cores") && !args->cores && argv[i][0] != '-') {
			args->cores = argv[i];
		} else if (argv[i][0] == '-' && argv[i][1]) {
			used = option_take(args, argc - i, argv + i);
		} else {
			used = file_add(args, argv[i]) < 0 ? -EINVAL : 1;
		}
		if (used < 0)
			return used;
	}
	return check(args);
}
