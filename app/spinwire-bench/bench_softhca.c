/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * How fast the software ConnectX is, as third-party programs see it: perftest pairs, raw frames through
 * direct verbs, and what an idle NIC thread costs. Cases are taken in turn, so many times. testpmd on net_mlx5
 * wants root and a network namespace: tests/softhca/testpmd.py --rate SECONDS.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "core_pair.h"
#include "softhca_raw.h"

#define RUNS_MAX 32u
#define OUT_BYTES 16384u
#define ARGS_MAX 48u

struct proc {
	pid_t pid;
	int fd;
	char out[OUT_BYTES];
	size_t len;
};

static const char *with_softhca = "tools/with-softhca";
static char self[4096];
static unsigned cable_no;

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void nap_ms(long ms)
{
	nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* ---- children ------------------------------------------------------------------------------------ */

/* tools/with-softhca --cable shm:bench-PID-N [extra words] program words. Words are separated by one blank. */
static void split(char *words, char **argv, size_t *argc)
{
	for (char *w = strtok(words, " "); w && *argc + 1 < ARGS_MAX; w = strtok(NULL, " "))
		argv[(*argc)++] = w;
	argv[*argc] = NULL;
}

static int start(struct proc *p, const char *extra, const char *program)
{
	char cable[64], words[1024], options[256], *argv[ARGS_MAX];
	size_t argc = 0;
	int pipe_fd[2];

	memset(p, 0, sizeof(*p));
	if (pipe2(pipe_fd, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	snprintf(cable, sizeof(cable), "shm:bench-%d-%u", (int)getpid(), cable_no);
	snprintf(options, sizeof(options), "%s", extra);
	snprintf(words, sizeof(words), "%s", program);
	argv[argc++] = (char *)with_softhca;
	argv[argc++] = "--cable";
	argv[argc++] = cable;
	split(options, argv, &argc);
	split(words, argv, &argc);
	p->fd = pipe_fd[0];
	p->pid = fork();
	if (p->pid == 0) {
		setpgid(0, 0);
		dup2(pipe_fd[1], 1);
		dup2(pipe_fd[1], 2);
		execvp(argv[0], argv);
		_exit(127);
	}
	close(pipe_fd[1]);
	return p->pid > 0 ? 0 : -errno;
}

static void drain(struct proc *p)
{
	ssize_t n;

	while (p->len + 1 < sizeof(p->out) && (n = read(p->fd, p->out + p->len, sizeof(p->out) - 1 - p->len)) > 0)
		p->len += (size_t)n;
	p->out[p->len] = '\0';
}

static void finish(struct proc *p)
{
	if (p->pid > 0) {
		kill(-p->pid, SIGKILL);
		waitpid(p->pid, NULL, 0);
		close(p->fd);
	}
	p->pid = 0;
}

/* True when the child has ended well before the time is over. */
static bool ended(struct proc *p, double deadline)
{
	int status = 0;

	while (waitpid(p->pid, &status, WNOHANG) == 0) {
		drain(p);
		if (now_s() > deadline)
			return false;
		nap_ms(5);
	}
	drain(p);
	close(p->fd);
	p->pid = 0;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool saw(struct proc *p, const char *text, double deadline)
{
	while (!strstr(p->out, text)) {
		if (now_s() > deadline || waitpid(p->pid, NULL, WNOHANG) > 0)
			return false;
		nap_ms(5);
		drain(p);
	}
	return true;
}

static bool listens(unsigned port, double deadline)
{
	char line[256], want[16];

	snprintf(want, sizeof(want), ":%04X ", port);
	while (now_s() < deadline) {
		for (int v6 = 0; v6 < 2; v6++) {
			FILE *f = fopen(v6 ? "/proc/net/tcp6" : "/proc/net/tcp", "r");
			bool found = false;

			while (f && fgets(line, sizeof(line), f)) {
				const char *at = strstr(line, want);

				found |= at && strstr(at, " 0A ");
			}
			if (f)
				fclose(f);
			if (found)
				return true;
		}
		nap_ms(5);
	}
	return false;
}

/* ---- cases --------------------------------------------------------------------------------------- */

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
	for (const char *line = out; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
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
	static struct proc server, client;
	char words[512];
	int err = -EIO;

	snprintf(words, sizeof(words), "%s -F -p %u", c->program, port);
	if (start(&server, c->extra, words))
		return -errno;
	snprintf(words, sizeof(words), "%s -F -p %u 127.0.0.1", c->program, port);
	if (listens(port, deadline) && start(&client, c->extra, words) == 0 && ended(&client, deadline))
		err = column_of(client.out, c->column, value_out);
	if (err)
		fprintf(stderr, "spinwire-bench: %s: no result\n%s\n%s\n", c->program, server.out, client.out);
	ended(&server, now_s() + 2);
	finish(&server);
	finish(&client);
	*value_out *= c->scale;
	return err;
}

static int run_raw(double *value_out)
{
	const double deadline = now_s() + 60;
	unsigned long long frames = 0, bad = 1, lost = 0;
	static struct proc rx, tx;
	char words[4352];
	double seconds = 0;
	int err = -EIO;

	snprintf(words, sizeof(words), "%s softhca --raw rx 2000000 60 500", self);
	if (start(&rx, "", words))
		return -errno;
	snprintf(words, sizeof(words), "%s softhca --raw tx 2000000 60", self);
	if (saw(&rx, "ready", deadline) && start(&tx, "", words) == 0 && ended(&tx, deadline) && ended(&rx, deadline) &&
	    sscanf(strstr(rx.out, "ready") + 6, "frames %llu bad %llu lost %llu seconds %lf", &frames, &bad, &lost, &seconds) == 4 &&
	    frames && bad == 0 && seconds > 0)
		err = 0;
	else
		fprintf(stderr, "spinwire-bench: raw frames: no result\n%s\n%s\n", rx.out, tx.out);
	finish(&rx);
	finish(&tx);
	*value_out = err ? 0 : (double)frames / seconds * 1e-6;
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
		sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &sys);
	if (f)
		fclose(f);
	return (double)(user + sys) / (double)sysconf(_SC_CLK_TCK);
}

/* A server that waits for its client has a device open and its QPs made: all that runs is the NIC thread. */
static int run_idle(double *value_out)
{
	const unsigned port = 32500u + (unsigned)getpid() % 2000u;
	static struct proc server;
	char words[128];
	double before;

	snprintf(words, sizeof(words), "ibv_rc_pingpong -g 3 -p %u", port);
	if (start(&server, "", words))
		return -errno;
	if (!listens(port, now_s() + 20)) {
		finish(&server);
		return -EIO;
	}
	nap_ms(100);
	before = cpu_s(server.pid);
	nap_ms(5000);
	*value_out = (cpu_s(server.pid) - before) / 5 * 100;
	finish(&server);
	return 0;
}

static const struct bench_case cases[] = {
	{"a cache line, core to core and back", "worst pair", "ns", "", NULL, 0, 1, core_pair_ns},
	{"ib_send_bw 64 B", "throughput", "Mmessages/s", "", "ib_send_bw -s 64 -n 2000000", 4, 1, NULL},
	{"ib_send_bw 64 KB", "throughput", "GB/s", "", "ib_send_bw -s 65536 -n 50000", 3, 1.048576e-3, NULL},
	{"ib_send_bw 64 KB, ICRC made and checked", "throughput", "GB/s", "--fault icrc", "ib_send_bw -s 65536 -n 50000", 3,
	 1.048576e-3, NULL},
	{"ib_write_bw 64 KB", "throughput", "GB/s", "", "ib_write_bw -s 65536 -n 50000", 3, 1.048576e-3, NULL},
	{"ib_read_bw 64 KB", "throughput", "GB/s", "", "ib_read_bw -s 65536 -n 50000", 3, 1.048576e-3, NULL},
	{"ib_write_lat 8 B", "typical", "us", "", "ib_write_lat -s 8 -n 200000", 4, 1, NULL},
	{"ib_write_lat 8 B", "p99", "us", "", "ib_write_lat -s 8 -n 200000", 7, 1, NULL},
	{"ib_send_lat 8 B", "typical", "us", "", "ib_send_lat -s 8 -n 200000", 4, 1, NULL},
	{"ib_read_lat 8 B", "typical", "us", "", "ib_read_lat -s 8 -n 200000", 4, 1, NULL},
	{"raw 64 B frames, direct verbs, one queue", "throughput", "Mframes/s", "", NULL, 0, 1, run_raw},
	{"idle NIC thread", "CPU", "%", "", NULL, 0, 1, run_idle},
};

static int usage(int status)
{
	fprintf(stderr, "usage: spinwire-bench softhca [--with PATH-OF-with-softhca] [--runs N] [--case TEXT]\n"
			"  --case TEXT  only cases whose name has TEXT in it\n");
	return status;
}

static void clean_cable(void)
{
	char path[128];

	snprintf(path, sizeof(path), "/dev/shm/spinwire-%u-bench-%d-%u", (unsigned)getuid(), (int)getpid(), cable_no);
	unlink(path);
	cable_no++;
}

int spw_bench_softhca(int argc, char **argv, struct spw_bench_out *out)
{
	static const struct option options[] = {{"with", 1, NULL, 'w'}, {"runs", 1, NULL, 'r'}, {"case", 1, NULL, 'c'},
						{"help", 0, NULL, 'h'}, {0}};
	static double value[SPW_ARRAY_CNT(cases)][RUNS_MAX];
	uint32_t got[SPW_ARRAY_CNT(cases)] = {0};
	const char *only = "";
	uint32_t runs = 3;
	ssize_t n;
	int o;

	if (argc > 1 && strcmp(argv[1], "--raw") == 0)
		exit(softhca_raw_main(argc - 1, argv + 1));
	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (o) {
		case 'w': with_softhca = optarg; break;
		case 'r': runs = (uint32_t)SPW_MIN(strtoul(optarg, NULL, 0), (unsigned long)RUNS_MAX); break;
		case 'c': only = optarg; break;
		default: return usage(o == 'h' ? 0 : 1);
		}
	}
	if (!runs || access(with_softhca, X_OK))
		return usage(1);
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[n > 0 ? n : 0] = '\0';
	for (uint32_t r = 0; r < runs; r++) {
		for (size_t i = 0; i < SPW_ARRAY_CNT(cases); i++) {
			double *v = &value[i][got[i]];

			if (!strstr(cases[i].name, only))
				continue;
			if ((cases[i].run ? cases[i].run(v) : run_perftest(&cases[i], v)) == 0)
				got[i]++;
			clean_cable();
		}
	}
	for (size_t i = 0; i < SPW_ARRAY_CNT(cases); i++)
		if (got[i])
			spw_bench_add(out, cases[i].name, cases[i].metric, cases[i].unit, value[i], got[i]);
	return out->row_cnt ? 0 : 2;
}
