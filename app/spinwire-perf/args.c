/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The command line (args.h).
 */
#include "args.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"

#define SIZE_BYTES_MAX (16ull << 30)

static void args_help(void)
{
	printf("Usage: spinwire-perf                  two software devices of this machine\n"
	       "  or:  spinwire-perf serve            on one machine, and on the other one\n"
	       "  or:  spinwire-perf HOST[:PORT]      measures and prints\n"
	       "  or:  spinwire-perf --ssh HOST       starts the other end there first\n\n"
	       "Bandwidth, messages/s and latency of RDMA write, send and read over each\n"
	       "rail and all of them, with TCP beside them. Every row is checked: its bytes,\n"
	       "and that they crossed the wire.\n"
	       "  --full          all sizes of 2 B to 64 MB, 1 s each\n"
	       "  --rows LIST     of write,send,read,egress,gpu,tcp,bond,coll (all)\n"
	       "  --sizes LIST    2,64,4K,1M... of messages, up to 16G\n"
	       "  --rails A+B     RDMA devices of this machine, at most 4; A=X+B=Y also names\n"
	       "                  those they face (by default: whoever shares a subnet)\n"
	       "  --memory KIND   of GPU rows at this end: auto, cuda-host, cuda-reg or gpu\n"
	       "  --time MS       how long each row is timed, 20 to 60000\n"
	       "  --secret FILE   16 to 256 bytes that both ends must have\n"
	       "  --port N        TCP port of the server (18515); it takes the next two as well\n"
	       "  --json FILE     everything as JSON (-: stdout, and no tables)\n"
	       "  --csv FILE      one line a row (-: stdout, and no tables)\n"
	       "  --html FILE     tables, and curves over size\n"
	       "  --once          serve: leave after one session\n"
	       "exit status: 0 all rows are good, 1 usage, 2 nothing could be measured,\n"
	       "             3 a row is invalid, 4 a row or a rail failed\n"
	       "More: man spinwire-perf, docs/100-two-machines.md\n");
}

/* "64K". Returns: false if it is no size. */
static bool size_parse(const char *text, uint64_t *bytes_out)
{
	static const char unit[] = "KMG";
	const char *at;
	char *end;

	*bytes_out = strtoull(text, &end, 10);
	if (end == text || *text == '-')
		return false;
	if (*end && (at = strchr(unit, *end))) {
		*bytes_out <<= 10 * (at - unit + 1);
		end++;
	}
	return *end == '\0' && spw_in_range(*bytes_out, 2, SIZE_BYTES_MAX);
}

static int sizes_take(struct perf_args *args, const char *list)
{
	char text[512], *rest = NULL;

	snprintf(text, sizeof(text), "%s", list);
	for (char *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
		if (args->size_cnt == PERF_SIZE_MAX)
			return spw_err(EINVAL, "--sizes: more than %u sizes", PERF_SIZE_MAX);
		if (!size_parse(word, &args->size[args->size_cnt++]))
			return spw_err(EINVAL, "--sizes %s: a size is 2 to 16G, as in 64K", word);
	}
	return args->size_cnt ? 0 : spw_err(EINVAL, "--sizes: there is no size in it");
}

static const struct spw_enum_word row_word[] = {SPW_ENUM_WORDS(PERF_ROW)};

static int row_take(struct perf_args *args, const char *word)
{
	for (uint32_t i = 0; i < PERF_ROW_CNT; i++)
		if (!strcmp(word, row_word[i].text)) {
			args->rows |= 1u << i;
			return 0;
		}
	return spw_err(
		EINVAL,
		"%s: no such row; there are write, send, read, egress, gpu, tcp, bond and coll",
		word);
}

static int rows_take(struct perf_args *args, const char *list)
{
	char text[128], *rest = NULL;
	int rc = 0;

	args->rows = 0;
	args->rows_named = true;
	snprintf(text, sizeof(text), "%s", list);
	for (char *word = strtok_r(text, ",", &rest); word && rc == 0;
	     word = strtok_r(NULL, ",", &rest))
		rc = row_take(args, word);
	return rc;
}

static int number_take(const char *option, const char *text, uint64_t min, uint64_t max,
		       uint64_t *value_out)
{
	char *end;

	*value_out = strtoull(text, &end, 10);
	if (end == text || *end || !spw_in_range(*value_out, min, max))
		return spw_err(EINVAL, "%s %s: %llu to %llu", option, text, (unsigned long long)min,
			       (unsigned long long)max);
	return 0;
}

/* Where the text of an option goes; NULL: it is not one of these. */
static const char **text_of(struct perf_args *args, const char *option)
{
	const struct {
		const char *name;
		const char **value;
	} known[] = {{"--json", &args->json},   {"--csv", &args->csv}, {"--html", &args->html},
		     {"--rails", &args->rails}, {"--ssh", &args->ssh}, {"--secret", &args->secret}};

	for (size_t i = 0; i < SPW_ARRAY_CNT(known); i++)
		if (!strcmp(option, known[i].name))
			return known[i].value;
	return NULL;
}

static int value_take(struct perf_args *args, const char *option, const char *value)
{
	const char **text = text_of(args, option);
	uint64_t number = 0;
	int rc = 0;

	if (text)
		*text = value;
	else if (!strcmp(option, "--rows"))
		rc = rows_take(args, value);
	else if (!strcmp(option, "--sizes"))
		rc = sizes_take(args, value);
	else if (!strcmp(option, "--memory"))
		rc = spw_mem_kind_parse(value, &args->memory);
	else if (!strcmp(option, "--port")) {
		rc = number_take(option, value, 0, 65533, &number);
		args->port = (uint16_t)number;
	} else {
		rc = number_take(option, value, 20, 60000, &number);
		args->ms = (uint32_t)number;
	}
	return rc;
}

static bool has_value(const char *option)
{
	static const char *const name[] = {"--json", "--csv",    "--html",  "--rails",
					   "--ssh",  "--rows",   "--port",  "--sizes",
					   "--time", "--secret", "--memory"};

	for (size_t i = 0; i < SPW_ARRAY_CNT(name); i++)
		if (!strcmp(option, name[i]))
			return true;
	return false;
}

/* Returns: how many arguments were used, or -EINVAL. */
static int args_take(struct perf_args *args, int argc, char **argv)
{
	int rc;

	if (!strcmp(argv[0], "--full"))
		args->full = true;
	else if (!strcmp(argv[0], "--once"))
		args->once = true;
	else if (!strcmp(argv[0], "serve") && !args->host && !args->serve)
		args->serve = true;
	else if (argv[0][0] != '-' && !args->host && !args->serve)
		args->host = argv[0];
	else if (!has_value(argv[0]))
		return spw_err(EINVAL, "%s: no such option; see spinwire-perf --help", argv[0]);
	else if (argc < 2)
		return spw_err(EINVAL, "%s wants a value; see spinwire-perf --help", argv[0]);
	else if ((rc = value_take(args, argv[0], argv[1])) < 0)
		return rc;
	else
		return 2;
	return 1;
}

int perf_args(struct perf_args *args, int argc, char **argv)
{
	args->port = PERF_PORT;
	args->rows = (1u << PERF_ROW_CNT) - 1;
	for (int i = 1, used; i < argc; i += used) {
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			args_help();
			return 1;
		}
		if (!strcmp(argv[i], "--version")) {
			printf(PERF_PROGRAM " %s\n", SPW_VERSION);
			return 1;
		}
		if ((used = args_take(args, argc - i, argv + i)) < 0)
			return used;
	}
	if (args->host && args->ssh)
		return spw_err(EINVAL, "HOST and --ssh exclude each other: --ssh connects to its "
				       "host by itself");
	if (args->serve && (args->ssh || args->json || args->csv || args->html))
		return spw_err(EINVAL, "serve measures for the other end, which prints: --ssh, "
				       "--json, --csv and --html belong there");
	return 0;
}
