/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * How fast the software ConnectX is for third-party programs: perftest pairs, raw frames through
 * direct verbs, DPDK's testpmd, and what an idle NIC thread costs. The cases take turns, for
 * several rounds.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app_tool.h"
#include "base/spw_uid.h"
#include "bench.h"
#include "core_pair.h"
#include "softhca_proc.h"
#include "softhca_raw.h"

#define RUNS_MAX 32u
#define ARGS_MAX 48u

static const char *with_softhca; /* the script */
static char self[4096];
static unsigned cable_no;

/* ---- children ---- */

static void split(char *words, char **argv, size_t *argc)
{
	for (char *w = strtok(words, " "); w && *argc + 1 < ARGS_MAX; w = strtok(NULL, " "))
		argv[(*argc)++] = w;
	argv[*argc] = NULL;
}

static void cable_name(char *buf, size_t bytes)
{
	snprintf(buf, bytes, "shm:bench-%d-%u", (int)getpid(), cable_no);
}

/* tools/with-softhca --cable shm:bench-PID-N [extra words] program words. Words are separated by
 * one blank. */
static int plugged_in(struct child *c, const char *extra, const char *program)
{
	char cable[64], words[4608], options[256], *argv[ARGS_MAX];
	size_t argc = 0;

	cable_name(cable, sizeof(cable));
	snprintf(options, sizeof(options), "%s", extra);
	snprintf(words, sizeof(words), "%s", program);
	argv[argc++] = (char *)with_softhca;
	argv[argc++] = "--cable";
	argv[argc++] = cable;
	split(options, argv, &argc);
	split(words, argv, &argc);
	return child_start(c, argv);
}

/* ---- cases ---- */

struct bench_case {
	const char *name, *metric, *unit;
	const char *extra;   /* options of with-softhca */
	const char *program; /* perftest and its options; NULL: run() */
	uint32_t column;     /* of perftest's result line, from 0 */
	double scale;
	int (*run)(double *value_out);
};

/* The last line of numbers in perftest's table. */
static int column_of(const char *out, uint32_t column, double *value_out)
{
	const char *row = NULL;

	if (strstr(out, "Correlation coefficient")) /* perftest could not measure the CPU's clock */
		return -EAGAIN;
	for (const char *line = out; line;
	     line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
		double a, b, c;

		if (sscanf(line, " %lf %lf %lf", &a, &b, &c) == 3)
			row = line;
	}
	for (uint32_t i = 0; row && i <= column; i++) {
		char *end;

		*value_out = strtod(row, &end);
		row = end == row ? NULL : end;
	}
	return row ? 0 : -EIO;
}

static int run_perftest(const struct bench_case *c, double *value_out)
{
	const unsigned port = 30000u + (unsigned)getpid() % 2000u + cable_no % 500u;
	const double deadline = now_s() + 120;
	static struct child server, client;
	char words[512];
	int err = -EIO;

	snprintf(words, sizeof(words), "%s -F -p %u", c->program, port);
	if (plugged_in(&server, c->extra, words))
		return -errno;
	snprintf(words, sizeof(words), "%s -F -p %u 127.0.0.1", c->program, port);
	if (port_listens(port, deadline) && plugged_in(&client, c->extra, words) == 0 &&
	    child_ended(&client, deadline))
		err = column_of(client.out, c->column, value_out);
	if (err)
		fprintf(stderr, "spinwire-bench: %s: no result\n%s\n%s\n", c->program, server.out,
			client.out);
	child_ended(&server, now_s() + 2);
	child_stop(&server);
	child_stop(&client);
	*value_out *= c->scale;
	return err;
}

static int run_raw(double *value_out)
{
	const double deadline = now_s() + 60;
	unsigned long long frames = 0, bad = 1, lost = 0;
	static struct child rx, tx;
	char words[4352];
	double seconds = 0;
	int err = -EIO;

	snprintf(words, sizeof(words), "%s softhca --raw rx 2000000 60 500", self);
	if (plugged_in(&rx, "", words))
		return -errno;
	snprintf(words, sizeof(words), "%s softhca --raw tx 2000000 60", self);
	if (child_prints(&rx, "ready", deadline) && plugged_in(&tx, "", words) == 0 &&
	    child_ended(&tx, deadline) && child_ended(&rx, deadline) &&
	    sscanf(strstr(rx.out, "ready") + 6, "frames %llu bad %llu lost %llu seconds %lf",
		   &frames, &bad, &lost, &seconds) == 4 &&
	    frames && bad == 0 && seconds > 0)
		err = 0;
	else
		fprintf(stderr, "spinwire-bench: raw frames: no result\n%s\n%s\n", rx.out, tx.out);
	child_stop(&rx);
	child_stop(&tx);
	*value_out = err ? 0 : (double)frames / seconds * 1e-6;
	return err;
}

/* The n-th CPU that this process may use, round and round. */
static int nth_cpu(int n)
{
	cpu_set_t set;
	int cpu = 0;

	if (sched_getaffinity(0, sizeof(set), &set) || !CPU_COUNT(&set))
		return 0;
	for (n %= CPU_COUNT(&set); !CPU_ISSET(cpu, &set) || n--; cpu++)
		;
	return cpu;
}

/* In a separate network namespace, because net_mlx5 requires a network interface for the device.
 * EAL makes a folder in RUNTIME_DIRECTORY that nobody removes; with --no-shconf it does without one
 * where it cannot make it. */
static int testpmd(struct child *c, const char *mode, int lcore)
{
	char cable[64], script[2048], *argv[] = {"unshare", "-rn", "sh", "-c", script, NULL};

	cable_name(cable, sizeof(cable));
	snprintf(script, sizeof(script),
		 "ip link add spwb0 type veth peer name spwb1 && ip link set spwb0 up && ip link "
		 "set spwb1 up && "
		 "RUNTIME_DIRECTORY=/dev/null exec %s --cable %s --netdev spwb0 dpdk-testpmd "
		 "--no-huge -m 256 --no-telemetry "
		 "--no-shconf --file-prefix %s%d "
		 "--lcores 0@%d,1@%d -a 5c00:01:00.0,dv_flow_en=0,rxq_cqe_comp_en=0 -- "
		 "--forward-mode=%s --txpkts=64 --stats-period=1 "
		 "--nb-cores=1 --total-num-mbufs=16384 --rxd=1024 --txd=1024 --no-lsc-interrupt "
		 "--disable-rss",
		 with_softhca, cable, mode, (int)getpid(), nth_cpu(0), nth_cpu(lcore), mode);
	return child_start(c, argv);
}

/* The mean of three seconds, after one in which frames have begun to come. */
static bool testpmd_rate(struct child *rx, double deadline, double *pps_out)
{
	static const char key[] = "Rx-pps:";
	uint32_t seconds = 0;

	*pps_out = 0;
	while (seconds < 5) {
		seconds = 0;
		*pps_out = 0;
		child_read(rx, now_s() + 0.5);
		for (const char *at = strstr(rx->out, key); at && seconds < 5;
		     at = strstr(at + 1, key)) {
			const double pps = strtod(at + strlen(key), NULL);

			seconds += pps > 0;
			*pps_out += seconds > 1 && seconds < 5 ? pps / 3 : 0;
		}
		if (now_s() > deadline)
			return false;
	}
	return true;
}

static int run_testpmd(double *value_out)
{
	const double deadline = now_s() + 60;
	static struct child rx, tx;
	static bool reported;
	double pps = 0;
	int err = -EIO;

	if (system("command -v dpdk-testpmd >/dev/null")) {
		if (!reported)
			fprintf(stderr, "spinwire-bench: no row for testpmd: dpdk-testpmd is not "
					"installed (tools/deps run)\n");
		reported = true;
		return -ENOENT;
	}
	if (!testpmd(&rx, "rxonly", 1) && child_prints(&rx, "Rx-pps", deadline) &&
	    !testpmd(&tx, "txonly", 2) && testpmd_rate(&rx, deadline, &pps))
		err = 0;
	else
		fprintf(stderr, "spinwire-bench: testpmd: no result\n%s\n%s\n", rx.out, tx.out);
	child_stop(&tx);
	child_stop(&rx);
	*value_out = pps * 1e-6;
	return err;
}

/* CPU seconds of a process and its threads so far. */
static double cpu_s(pid_t pid)
{
	unsigned long long user = 0, sys = 0;
	char path[64], line[1024], *at;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "r");
	if (f && fgets(line, sizeof(line), f) && (at = strrchr(line, ')')))
		sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
		       &sys);
	if (f)
		fclose(f);
	return (double)(user + sys) / (double)sysconf(_SC_CLK_TCK);
}

/* A server that waits for its client has a device open and its QPs made: all that runs is the NIC
 * thread. */
static int run_idle(double *value_out)
{
	const unsigned port = 32500u + (unsigned)getpid() % 2000u;
	static struct child server;
	char words[128];
	double before;

	snprintf(words, sizeof(words), "ibv_rc_pingpong -g 3 -p %u", port);
	if (plugged_in(&server, "", words))
		return -errno;
	if (!port_listens(port, now_s() + 20)) {
		child_stop(&server);
		return -EIO;
	}
	nap_ms(100);
	before = cpu_s(server.pid);
	nap_ms(5000);
	*value_out = (cpu_s(server.pid) - before) / 5 * 100;
	child_stop(&server);
	return 0;
}

static const struct bench_case cases[] = {
	{"a cache line, core to core and back", "worst pair", "ns", "", NULL, 0, 1, core_pair_ns},
	{"ib_send_bw 64 B", "throughput", "Mmessages/s", "", "ib_send_bw -s 64 -n 2000000", 4, 1,
	 NULL},
	{"ib_send_bw 64 KB", "throughput", "GB/s", "", "ib_send_bw -s 65536 -n 50000", 3,
	 1.048576e-3, NULL},
	{"ib_send_bw 64 KB, ICRC made and checked", "throughput", "GB/s", "--fault icrc",
	 "ib_send_bw -s 65536 -n 50000", 3, 1.048576e-3, NULL},
	{"ib_write_bw 64 KB", "throughput", "GB/s", "", "ib_write_bw -s 65536 -n 50000", 3,
	 1.048576e-3, NULL},
	{"ib_read_bw 64 KB", "throughput", "GB/s", "", "ib_read_bw -s 65536 -n 50000", 3,
	 1.048576e-3, NULL},
	{"ib_write_lat 8 B", "typical", "us", "", "ib_write_lat -s 8 -n 200000", 4, 1, NULL},
	{"ib_write_lat 8 B", "p99", "us", "", "ib_write_lat -s 8 -n 200000", 7, 1, NULL},
	{"ib_send_lat 8 B", "typical", "us", "", "ib_send_lat -s 8 -n 200000", 4, 1, NULL},
	{"ib_read_lat 8 B", "typical", "us", "", "ib_read_lat -s 8 -n 200000", 4, 1, NULL},
	{"raw 64 B frames, direct verbs, one queue", "throughput", "Mframes/s", "", NULL, 0, 1,
	 run_raw},
	{"testpmd rxonly on net_mlx5, 64 B", "throughput", "Mframes/s", "", NULL, 0, 1,
	 run_testpmd},
	{"idle NIC thread", "CPU", "%", "", NULL, 0, 1, run_idle},
};

struct softhca_args {
	const char *with, *only;
	uint32_t runs;
};

static const struct spw_opt softhca_opt[] = {
	{.name = "with",
	 SPW_BENCH_FIELD(struct softhca_args, with),
	 .kind = SPW_OPT_STRING,
	 .value = "FILE",
	 .help = "with-softhca; else the one of this build"},
	{.name = "runs",
	 SPW_BENCH_FIELD(struct softhca_args, runs),
	 .kind = SPW_OPT_NUMBER,
	 .min = 1,
	 .max = RUNS_MAX,
	 .dflt = "3",
	 .help = "of each case"},
	{.name = "case",
	 SPW_BENCH_FIELD(struct softhca_args, only),
	 .kind = SPW_OPT_STRING,
	 .value = "TEXT",
	 .help = "only cases whose name has TEXT in it"},
};

static void clean_cable(void)
{
	char path[128];

	snprintf(path, sizeof(path), "/dev/shm/spinwire-%u-bench-%d-%u", spw_uid_outer(),
		 (int)getpid(), cable_no);
	unlink(path);
	cable_no++;
}

int spw_bench_softhca(int argc, char **argv, struct spw_bench_out *out)
{
	static double value[SPW_ARRAY_CNT(cases)][RUNS_MAX];
	uint32_t got[SPW_ARRAY_CNT(cases)] = {0};
	struct softhca_args args = {.only = ""};
	const struct spw_opt_take take = {.base = &args};
	int status;
	ssize_t n;

	if (argc > 1 && strcmp(argv[1], "--raw") == 0)
		exit(softhca_raw_main(argc - 1, argv + 1));
	status = spw_bench_args(out, softhca_opt, SPW_ARRAY_CNT(softhca_opt), argc, argv, &take);
	if (status != SPW_BENCH_RUN)
		return status;
	with_softhca = args.with ? args.with : app_tool_find("with-softhca", "with-softhca");
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[n > 0 ? n : 0] = '\0';
	for (uint32_t r = 0; r < args.runs; r++) {
		for (size_t i = 0; i < SPW_ARRAY_CNT(cases); i++) {
			double *v = &value[i][got[i]];

			if (!strstr(cases[i].name, args.only))
				continue;
			if ((cases[i].run ? cases[i].run(v) : run_perftest(&cases[i], v)) == 0)
				got[i]++;
			clean_cable();
		}
	}
	for (size_t i = 0; i < SPW_ARRAY_CNT(cases); i++)
		if (got[i])
			spw_bench_add(out, cases[i].name, cases[i].metric, cases[i].unit, value[i],
				      got[i]);
	return out->row_cnt ? 0 : 2;
}
