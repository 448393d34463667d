/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * How near `--slo` comes to the best fixed setting: at each load every fixed choice of executor and
 * burst, and the policy (topo/spw_slo.h), which begins without knowledge each time. The null port
 * is an open-loop source and stamps frames when they are due, so waiting in the port counts. All of
 * a load's cases take turns, for several rounds.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "bench.h"
#include "exec/spw_handler.h"
#include "topo/spw_slo.h"

#define ROUNDS_MAX   9u
#define CASE_MAX     (SPW_SLO_SETTING_MAX + 1)
#define EXEC_STOP_MS 2000u
#define TURN_NS      1000000
#define VIEW_TURNS   20

struct slo_bench {
	struct spw_tsc tsc;
	const char *handler_name;
	const struct spw_handler *handler;
	struct spw_topo_exec backend[SPW_PIPE_BACKEND_MAX];
	uint32_t backend_cnt, rounds;
	uint64_t limit_ns, fixed_ns, learn_ns;
	uint32_t ppm; /* of the percentile that is compared */
	char point[16];
	int lane_cpu, exec_cpu;
	struct spw_rec_view *view;
};

/* A running lane. */
struct lane {
	struct spw_topo topo;
	struct spw_port_spec spec;
	pthread_t thread;
	int cpu;
	uint32_t stop;
};

struct slo_case {
	char name[72];
	double value[ROUNDS_MAX], lost[ROUNDS_MAX];
};

/* ---- one lane ---- */

static void *lane_main(void *arg)
{
	struct lane *lane = arg;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(lane->cpu, &set);
	pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	spw_pipe_run(&lane->topo.lane[0]->pipe, &lane->stop);
	return NULL;
}

/* Executors backend[0 .. backend_cnt - 1]; the lane begins with the first. */
static int lane_open(const struct slo_bench *b, struct lane *lane, uint64_t pps,
		     const struct spw_topo_exec *backend, uint32_t backend_cnt, uint16_t burst)
{
	struct spw_topo_conf conf = {
		.tsc = b->tsc,
		.port[0] = {.spec = &lane->spec, .queue_cnt = 1, .profile = "latency"},
		.port_cnt = 1,
		.lane[0] = {.numa_node = -1},
		.lane_cnt = 1,
		.memory = {.kind = SPW_MEM_AUTO, .slots = 8192, .slot_bytes = 2048},
		.exec = {.backend_cnt = backend_cnt, .handler = b->handler, .cpu = &b->exec_cpu},
		.pipe = {.burst = burst, .record = true, .nic_frames = true},
	};
	char spec[64];
	int rc;

	memset(lane, 0, sizeof(*lane));
	memcpy(conf.exec.backend, backend, backend_cnt * sizeof(*backend));
	lane->cpu = b->lane_cpu;
	snprintf(spec, sizeof(spec), "null:size=64,rate=%lu", (unsigned long)pps);
	rc = spw_port_spec_parse(spec, &lane->spec);
	rc = rc < 0 ? rc : spw_topo_open(&lane->topo, &conf);
	rc = rc < 0 ? rc : spw_topo_start(&lane->topo);
	if (rc == 0)
		rc = -pthread_create(&lane->thread, NULL, lane_main, lane);
	if (rc < 0)
		spw_topo_close(&lane->topo);
	return rc;
}

static int lane_close(struct lane *lane)
{
	struct spw_topo_end end;
	int rc;

	spw_thr_store_rlx(&lane->stop, 1);
	pthread_join(lane->thread, NULL);
	rc = spw_topo_stop(&lane->topo, EXEC_STOP_MS, &end);
	spw_topo_close(&lane->topo);
	return rc;
}

/* The control thread's work for so long. watch NULL: nothing is chosen. */
static int serve(struct slo_bench *b, struct lane *lane, uint64_t ns, struct spw_slo_watch *watch)
{
	const uint64_t end = spw_tsc_now() + spw_tsc_from_ns(&b->tsc, ns);
	const struct timespec nap = {.tv_nsec = TURN_NS};
	struct spw_slo_sample sample;
	struct spw_slo_step step;

	for (uint32_t turn = 0; spw_tsc_now() < end; turn++) {
		if (spw_topo_service(&lane->topo) < 0)
			return -EIO;
		if (turn % VIEW_TURNS == 0) {
			spw_topo_clocks_pair(&lane->topo);
			spw_topo_collect_more(&lane->topo, b->view);
			if (watch &&
			    spw_slo_watch_turn(watch, &lane->topo, b->view, &sample, &step) < 0)
				return -EIO;
		}
		nanosleep(&nap, NULL);
	}
	return 0;
}

/* What a running lane gives during fixed_ns: the percentile in ns, and the share of frames lost. */
static int measure(struct slo_bench *b, struct lane *lane, struct spw_slo_watch *watch,
		   double *ns_out, double *lost_out)
{
	static struct spw_hist before, diff;
	const struct spw_hist *stage = &b->view->total[SPW_STAGE_nic_sent];
	struct spw_topo_stat stat;
	uint64_t value, missed, wire;
	int rc;

	before = *stage;
	spw_topo_stat(&lane->topo, &stat);
	missed = stat.ledger.missed_frames;
	wire = stat.ledger.wire_frames;
	rc = serve(b, lane, b->fixed_ns, watch);
	spw_topo_stat(&lane->topo, &stat);
	spw_hist_difference(stage, &before, &diff);
	if (spw_hist_percentile(&diff, b->ppm, 0, &value) != SPW_HIST_VALUE)
		return rc < 0 ? rc : spw_err(EIO, "too few frames came for a percentile");
	*ns_out = (double)spw_tsc_to_ns(&b->tsc, value);
	wire = stat.ledger.wire_frames - wire;
	*lost_out = wire ? (double)(stat.ledger.missed_frames - missed) / (double)wire : 0;
	return rc;
}

/* ---- cases ---- */

static int run_fixed(struct slo_bench *b, uint64_t pps, uint32_t backend, uint16_t burst,
		     uint32_t round, struct slo_case *c)
{
	struct lane lane;
	int rc = lane_open(b, &lane, pps, &b->backend[backend], 1, burst);

	if (rc < 0)
		return rc;
	snprintf(c->name, sizeof(c->name), "%lu/s, %s, burst %u", (unsigned long)pps,
		 lane.topo.backend[0].name, burst);
	rc = serve(b, &lane, b->fixed_ns / 4, NULL);
	rc = rc < 0 ? rc : measure(b, &lane, NULL, &c->value[round], &c->lost[round]);
	return lane_close(&lane) < 0 ? -EIO : rc;
}

static int run_slo(struct slo_bench *b, uint64_t pps, uint32_t round, struct slo_case *c)
{
	static struct spw_slo_watch watch;
	struct spw_slo_conf conf = {b->limit_ns, b->ppm, 0, SPW_BURST_MAX};
	struct spw_slo_setting now;
	struct lane lane;
	int rc = lane_open(b, &lane, pps, b->backend, b->backend_cnt, SPW_BURST_MAX);

	if (rc < 0)
		return rc;
	conf.backend_cnt = lane.topo.backend_cnt;
	rc = spw_slo_watch_init(&watch, &conf);
	rc = rc < 0 ? rc : serve(b, &lane, b->learn_ns, &watch);
	rc = rc < 0 ? rc : measure(b, &lane, &watch, &c->value[round], &c->lost[round]);
	now = spw_slo_now(&watch.policy);
	fprintf(stderr, "%lu/s: chose %s, burst %u\n", (unsigned long)pps,
		lane.topo.backend[now.backend].name, now.burst);
	snprintf(c->name, sizeof(c->name), "%lu/s, --slo", (unsigned long)pps);
	return lane_close(&lane) < 0 ? -EIO : rc;
}

/* The least median of the fixed settings that lost as little as any. */
static double best_of(struct slo_case *c, uint32_t cnt, uint32_t rounds)
{
	double best = 0, least = 2;

	for (uint32_t i = 0; i < cnt; i++) {
		double lost = 0;

		for (uint32_t r = 0; r < rounds; r++)
			lost += c[i].lost[r] / rounds;
		if (lost < least - 1e-6 || (lost < least + 1e-6 && c[i].value[rounds / 2] < best)) {
			best = c[i].value[rounds / 2];
			least = SPW_MIN(least, lost);
		}
	}
	return best;
}

static int one_load(struct slo_bench *b, uint64_t pps, struct spw_bench_out *out)
{
	static struct slo_case c[CASE_MAX];
	uint32_t cnt = 0;
	double best;
	int rc = 0;

	for (uint32_t r = 0; r < b->rounds && rc == 0; r++) {
		cnt = 0;
		for (uint32_t w = 0; w < b->backend_cnt; w++)
			for (uint16_t burst = SPW_BURST_MAX; burst >= 4 && rc == 0; burst /= 4)
				rc = run_fixed(b, pps, w, burst, r, &c[cnt++]);
		rc = rc < 0 ? rc : run_slo(b, pps, r, &c[cnt]);
	}
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i <= cnt; i++) {
		spw_bench_add(out, c[i].name, b->point, "ns", c[i].value, b->rounds);
		spw_bench_add(out, c[i].name, "lost", "", c[i].lost, b->rounds);
	}
	best = best_of(c, cnt, b->rounds);
	spw_bench_add1(out, c[cnt].name, "of the best fixed", "",
		       c[cnt].value[b->rounds / 2] / best);
	return 0;
}

/* ---- the bench ---- */

/* Two cores for lane and executor thread; the control thread keeps another if there is one. */
static int cores_choose(struct slo_bench *b)
{
	int found[3] = {-1, -1, -1}, cnt = 0;
	cpu_set_t set;

	sched_getaffinity(0, sizeof(set), &set);
	for (int cpu = CPU_SETSIZE - 1; cpu >= 0 && cnt < 3; cpu--)
		if (CPU_ISSET(cpu, &set))
			found[cnt++] = cpu;
	b->lane_cpu = found[0];
	b->exec_cpu = cnt > 1 ? found[1] : found[0];
	return cnt;
}

static void backends_choose(struct slo_bench *b, int cores)
{
	const struct spw_slo_machine machine = {
		.cpu_reads = true,
		.cpu_spare = cores > 1,
		.gpu = spw_exec_check(SPW_EXEC_CUDA_PERSISTENT, spw_handler_builtin(0), 1) == 0,
	};

	b->backend_cnt = spw_slo_backends(&machine, b->backend);
}

static int run(struct slo_bench *b, struct spw_bench_out *out)
{
	static const uint64_t loads[] = {10000, 100000, 1000000, 5000000};
	int rc = spw_tsc_calibrate(100, &b->tsc);

	b->learn_ns = (uint64_t)SPW_SLO_BURST_CNT * b->backend_cnt * 400000000 + 2 * b->fixed_ns;
	rc = rc < 0 ? rc : spw_handler_open(b->handler_name, &b->handler);
	for (size_t i = 0; i < SPW_ARRAY_CNT(loads) && rc == 0; i++)
		rc = one_load(b, loads[i], out);
	if (rc < 0)
		fprintf(stderr, "spinwire-bench: slo: %s\n", spw_err_text());
	spw_handler_close(b->handler);
	return rc < 0 ? 2 : 0;
}

/* "99.9", as in --slo. */
static int percentile_set(void *field, const char *text)
{
	uint32_t *ppm = field;
	char *end;
	const double percent = strtod(text, &end);

	if (end == text || *end || !(percent >= 1 && percent <= 99.99))
		return spw_err(EINVAL, "'%s' is not allowed; allowed: 1 .. 99.99", text);
	*ppm = (uint32_t)(percent * 10000 + 0.5);
	return 0;
}

static const struct spw_opt slo_opt[] = {
	{.name = "handler",
	 SPW_BENCH_FIELD(struct slo_bench, handler_name),
	 .kind = SPW_OPT_STRING,
	 .value = "NAME",
	 .dflt = "sum",
	 .help = "what is executed"},
	{.name = "limit",
	 SPW_BENCH_FIELD(struct slo_bench, limit_ns),
	 .kind = SPW_OPT_TIME,
	 .min = 1000,
	 .max = 1000000000,
	 .dflt = "20us",
	 .help = "the objective's time"},
	{.name = "percentile",
	 SPW_BENCH_FIELD(struct slo_bench, ppm),
	 .kind = SPW_OPT_OWN,
	 .set = percentile_set,
	 .range = "1 .. 99.99",
	 .value = "P",
	 .dflt = "99",
	 .help = "the objective's"},
	{.name = "rounds",
	 SPW_BENCH_FIELD(struct slo_bench, rounds),
	 .kind = SPW_OPT_NUMBER,
	 .min = 1,
	 .max = ROUNDS_MAX,
	 .dflt = "3",
	 .help = "of each case"},
	{.name = "seconds",
	 SPW_BENCH_FIELD(struct slo_bench, fixed_ns),
	 .kind = SPW_OPT_TIME,
	 .min = 1000000,
	 .max = 3600ull * 1000000000,
	 .bare_unit = 1000000000,
	 .dflt = "1",
	 .help = "of a measurement"},
};

int spw_bench_slo(int argc, char **argv, struct spw_bench_out *out)
{
	struct slo_bench b = {0};
	const struct spw_opt_take take = {.base = &b};
	int status = spw_bench_args(out, slo_opt, SPW_ARRAY_CNT(slo_opt), argc, argv, &take);

	if (status != SPW_BENCH_RUN)
		return status;
	snprintf(b.point, sizeof(b.point), "p%g", b.ppm / 10000.0);
	b.view = aligned_alloc(_Alignof(struct spw_rec_view), sizeof(*b.view));
	if (!b.view)
		return 2;
	spw_rec_view_init(b.view);
	spw_log_sink_set(NULL, NULL); /* each case would report its memory again */
	backends_choose(&b, cores_choose(&b));
	status = run(&b, out);
	free(b.view);
	return status;
}
