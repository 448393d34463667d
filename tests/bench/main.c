/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * spinwire-bench [--json FILE] NAME [options]: runs one benchmark, sorts the values of each row,
 * and prints the rows as a table and, if asked for, as JSON. A new benchmark is bench_NAME.c and a
 * line in bench_list.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <jansson.h>

#include "app_eal.h"
#include "app_file.h"
#include "app_json.h"
#include "app_text.h"
#include "base/spw_err.h"
#include "bench.h"

static const struct {
	const char *name, *what;
	int (*run)(int argc, char **argv, struct spw_bench_out *out);
} bench_list[] = {
	{"handoff", "hand-off to a GPU: latency by payload, throughput by frame size",
	 spw_bench_handoff},
#if SPW_HAVE_CUDA
	{"poll", "how long a GPU warp takes to poll host memory, by how it polls", spw_bench_poll},
	{"beside", "what the resident kernel takes from a GEMM beside it, and in watts",
	 spw_bench_beside},
#endif
	{"loop", "the pipe per frame, beside the null port alone and net_null", spw_bench_loop},
	{"slo", "--slo: executor and burst chosen, beside every fixed choice", spw_bench_slo},
	{"port", "receiving and releasing a frame, beside DPDK's own calls", spw_bench_port},
	{"rails", "receiving in order over several ports, beside the same ports alone",
	 spw_bench_rails},
#if SPW_HAVE_MLX5DV
	{"cq", "polling a full completion queue, beside two calls of libibverbs", spw_bench_cq},
	{"rx", "receiving a frame on an mlx5 device, beside DPDK's mlx5 PMD", spw_bench_rx},
	{"rc", "messages over reliable connections, beside plain verbs by hand", spw_bench_rc},
	{"xfer", "messages and puts of lib/xfer, beside WRITEs by plain verbs", spw_bench_xfer},
	{"kv", "lists of pieces by lib/kv, beside WRITEs by plain verbs", spw_bench_kv},
	{"softhca", "the software ConnectX under perftest and direct verbs, and idle",
	 spw_bench_softhca},
#endif
};

static int list(FILE *f)
{
	for (size_t i = 0; i < SPW_ARRAY_CNT(bench_list); i++)
		fprintf(f, "  %-10s %s\n", bench_list[i].name, bench_list[i].what);
	return 0;
}

static int usage(FILE *f, int status)
{
	fprintf(f, "Usage: spinwire-bench [--json FILE] NAME [options of NAME]\n"
		   "  or:  spinwire-bench --list\n"
		   "  or:  spinwire-bench NAME --help\n\n"
		   "Measures what one part of spinwire costs, beside what else does its work.\n\n");
	list(f);
	fprintf(f, "\nFigures, with machine and date: docs/benchmarks.md\n");
	return status;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void spw_bench_add(struct spw_bench_out *out, const char *name, const char *metric,
		   const char *unit, double *value, uint32_t cnt)
{
	struct spw_bench_row *r;

	if (out->row_cnt == out->row_max) {
		out->row_max = out->row_max ? 2 * out->row_max : 64;
		out->row = realloc(out->row, out->row_max * sizeof(*out->row));
		if (!out->row) {
			fprintf(stderr, "spinwire-bench: out of memory\n");
			exit(2);
		}
	}
	qsort(value, cnt, sizeof(*value), by_value);
	r = &out->row[out->row_cnt++];
	snprintf(r->name, sizeof(r->name), "%s", name);
	snprintf(r->metric, sizeof(r->metric), "%s", metric);
	snprintf(r->unit, sizeof(r->unit), "%s", unit);
	r->median = cnt % 2 ? value[cnt / 2] : (value[cnt / 2 - 1] + value[cnt / 2]) / 2;
	r->min = value[0];
	r->max = value[cnt - 1];
	r->runs = cnt;
}

void spw_bench_add1(struct spw_bench_out *out, const char *name, const char *metric,
		    const char *unit, double value)
{
	spw_bench_add(out, name, metric, unit, &value, 1);
}

static void machine_text(char *text, size_t bytes)
{
	char model[128] = "unknown CPU", line[256];
	struct utsname u;
	FILE *f = fopen("/proc/cpuinfo", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "model name : %127[^\n]", model) == 1)
			break;
	if (f)
		fclose(f);
	uname(&u);
	snprintf(text, bytes, "%s x %ld, Linux %.40s %.20s", model, sysconf(_SC_NPROCESSORS_ONLN),
		 u.release, u.machine);
}

static void print_table(const struct spw_bench_out *out)
{
	printf("%s\n%-48s %-14s %12s %12s %12s %5s  %s\n", out->machine, "case", "metric", "median",
	       "min", "max", "runs", "unit");
	for (size_t i = 0; i < out->row_cnt; i++) {
		const struct spw_bench_row *r = &out->row[i];

		printf("%-48s %-14s %12.3f %12.3f %12.3f %5u  %s\n", r->name, r->metric, r->median,
		       r->min, r->max, r->runs, r->unit);
	}
}

static int complain(void)
{
	fprintf(stderr, "spinwire-bench: %s\n", spw_err_text());
	return 2;
}

static int write_json(const struct spw_bench_out *out, const char *bench, const char *path)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < out->row_cnt; i++) {
		const struct spw_bench_row *r = &out->row[i];

		json_array_append_new(rows, json_pack("{s:s,s:s,s:s,s:f,s:f,s:f,s:i}", "case",
						      r->name, "metric", r->metric, "unit", r->unit,
						      "median", r->median, "min", r->min, "max",
						      r->max, "runs", (int)r->runs));
	}
	return app_json_write("--json",
			      json_pack("{s:s,s:s,s:o,s:o}", "schema", "spinwire.bench/1", "bench",
					bench, "machine", app_json_text(out->machine), "rows",
					rows),
			      path)
		       ? complain()
		       : 0;
}

static int run_one(size_t i, int argc, char **argv, const char *json_path)
{
	struct spw_bench_out out = {.what = bench_list[i].what};
	int status;

	if (app_file_take("--json", json_path))
		return complain();
	machine_text(out.machine, sizeof(out.machine));
	status = bench_list[i].run(argc, argv, &out);
	if (out.row_cnt && !app_file_is_stdout(json_path))
		print_table(&out);
	if (!status && json_path)
		status = write_json(&out, bench_list[i].name, json_path);
	free(out.row);
	return status;
}

/* Takes --json FILE out of argv, wherever it stands. Returns the new argc, or -1. */
static int take_json(int argc, char **argv, const char **path_out)
{
	int n = 0;

	for (int i = 0; i < argc; i++) {
		if (strcmp(argv[i], "--json")) {
			argv[n++] = argv[i];
			continue;
		}
		if (++i == argc)
			return -1;
		*path_out = argv[i];
	}
	return n;
}

/* Returns: the exit status. */
static int command(int argc, char **argv)
{
	const char *json_path = NULL;

	argc = take_json(argc, argv, &json_path);
	if (argc < 2)
		return usage(stderr, 1);
	if (!strcmp(argv[1], "--list"))
		return list(stdout);
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		return usage(stdout, 0);
	for (size_t i = 0; i < SPW_ARRAY_CNT(bench_list); i++)
		if (!strcmp(argv[1], bench_list[i].name))
			return run_one(i, argc - 1, argv + 1, json_path);
	fprintf(stderr, "spinwire-bench: no benchmark is called %s; there are:\n", argv[1]);
	list(stdout);
	return 1;
}

int main(int argc, char **argv)
{
	app_program_start("spinwire-bench");
	setvbuf(stdout, NULL, _IOLBF, 0);
	return app_end("spinwire-bench", command(argc, argv));
}
