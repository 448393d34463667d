/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the pipe itself costs, in TSC ticks per frame: null port -> ring -> null handler -> recycle.
 * Beside it the null port alone, and rte_eth_rx_burst + free on net_null.
 *
 * The recorder's levels, each including those before it: off; stages; causes; the NIC stamp of each
 * burst's oldest frame; one stamp per burst; one stamp per frame (the null port needs ticks itself
 * to make stamps). The last level twice more: with the flight recorder, and with a trail of every
 * frame (its slot bears the generator's mark). The same with a handler that reads the 64 bytes of
 * each frame. All cases take turns, for several rounds of one
 * run.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "base/spw_err.h"
#include "frame/spw_ident.h"
#include "base/spw_log.h"
#include "trail/spw_trail.h"
#include "bench.h"
#include "exec/spw_handler.h"
#include "flight/spw_flight.h"
#include "topo/spw_topo.h"

#define SLOTS        8192u
#define SLOT_BYTES   2048u
#define FRAMES       (4u << 20)
#define ROUNDS       7u
#define FLIGHT_BYTES (64u << 20) /* the default of --record-memory */
#define EXEC_STOP_MS 2000u
#define SLOW_NS      100000u /* the default threshold */

/* What is recorded; each level includes those before it. */
enum level { OFF, STAMPS, CAUSES, NIC_OLDEST, NIC_BURST, NIC_FRAME, FLIGHT, TRAIL, LEVEL_CNT };

struct loop {
	struct spw_tsc tsc;
	struct spw_port_spec spec[LEVEL_CNT];
	struct spw_trail trail;
	struct spw_flight flight;
	const struct spw_handler *null, *sum;
	uint16_t eth;
	int exec_cpu; /* of the cpu executor; -1: none to spare */
};

struct loop_case {
	const char *name;
	double (*run)(struct loop *loop,
		      const struct loop_case *c); /* ticks per frame, negative on error */
	uint16_t burst;
	enum spw_exec_kind kind;
	enum level level;
	bool sum;
	double value[ROUNDS];
};

static double eth_null(struct loop *loop, const struct loop_case *c)
{
	struct rte_mbuf *m[SPW_BURST_MAX];
	uint64_t start = spw_tsc_now_ordered();

	for (uint32_t n = 0; n < FRAMES;) {
		uint16_t got = rte_eth_rx_burst(loop->eth, 0, m, c->burst);

		rte_pktmbuf_free_bulk(m, got);
		n += got;
	}
	return (double)(spw_tsc_now_ordered() - start) / FRAMES;
}

/* One lane over the null port of the case's level, started. */
static int case_open(struct loop *loop, const struct loop_case *c, struct spw_topo *topo)
{
	struct spw_topo_conf conf = {
		.tsc = loop->tsc,
		.port[0] = {.spec = &loop->spec[c->level], .queue_cnt = 1, .profile = "latency"},
		.port_cnt = 1,
		.lane[0] = {.numa_node = -1},
		.lane_cnt = 1,
		.memory = {.kind = SPW_MEM_HOST, .slots = SLOTS, .slot_bytes = SLOT_BYTES},
		.exec = {.backend[0].kind = c->kind,
			 .backend_cnt = 1,
			 .handler = c->sum ? loop->sum : loop->null,
			 .cpu = &loop->exec_cpu},
		.pipe = {.burst = c->burst,
			 .record = c->level >= STAMPS,
			 .nic_frames = c->level >= NIC_BURST,
			 .slow_ns = c->level >= CAUSES ? SLOW_NS : 0,
			 .flight = c->level == FLIGHT ? &loop->flight : NULL,
			 .trail = c->level == TRAIL ? &loop->trail : NULL},
	};
	int rc = spw_topo_open(topo, &conf);

	spw_log_sink_set(NULL, NULL); /* the memory of all cases is alike: reported once */
	return rc < 0 ? rc : spw_topo_start(topo);
}

static double port_turns(struct spw_port_queue *queue, uint16_t burst)
{
	struct spw_desc desc[SPW_BURST_MAX];
	uint32_t slot[SPW_BURST_MAX];
	uint64_t start = spw_tsc_now_ordered();

	for (uint32_t n = 0; n < FRAMES;) {
		uint16_t got = spw_port_rx_burst(queue, desc, burst);

		for (uint16_t i = 0; i < got; i++)
			slot[i] = desc[i].slot;
		spw_port_release_burst(queue, slot, got);
		n += got;
	}
	return (double)(spw_tsc_now_ordered() - start) / FRAMES;
}

static double port_alone(struct loop *loop, const struct loop_case *c)
{
	struct spw_topo_end end;
	struct spw_topo topo;
	double ticks = -1;

	if (case_open(loop, c, &topo) == 0) {
		ticks = port_turns(&topo.port[0]->queue[0], c->burst);
		spw_topo_stop(&topo, EXEC_STOP_MS, &end);
	}
	spw_topo_close(&topo);
	return ticks;
}

/* Turns until enough frames were executed. Frames that found the ring full cost time, but do not
 * count. */
static double pipe_turns(struct spw_pipe *pipe)
{
	struct spw_pipe_summary sum = {0};
	uint64_t start;

	spw_pipe_begin(pipe);
	start = spw_tsc_now_ordered();
	while (sum.ledger.reaped_frames < FRAMES) {
		for (int i = 0; i < 256; i++)
			spw_pipe_run_once(pipe);
		spw_pipe_summary(pipe, &sum);
	}
	return (double)(spw_tsc_now_ordered() - start) / (double)sum.ledger.reaped_frames;
}

/* A core for the executor's thread: any allowed one but ours; -1 if there is none. */
static int other_cpu(void)
{
	int here = sched_getcpu();
	cpu_set_t set;

	sched_getaffinity(0, sizeof(set), &set);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set) && cpu != here)
			return cpu;
	return -1;
}

/* The null port writes a slot once, so its mark stays. */
static void slots_mark(const struct spw_topo *topo)
{
	const struct spw_pool *pool = &topo->lane[0]->pool;
	const uint8_t mark[] = {SPW_IDENT_MAGIC >> 8, SPW_IDENT_MAGIC & 0xff, SPW_IDENT_VERSION};

	for (uint32_t slot = 0; slot < SLOTS; slot++)
		memcpy(spw_pool_slot_addr(pool, slot) + topo->port[0]->caps.slot_headroom +
			       SPW_IDENT_ETH_OFFSET,
		       mark, sizeof(mark));
}

static double whole(struct loop *loop, const struct loop_case *c)
{
	struct spw_topo_end end;
	struct spw_topo topo;
	double ticks = -1;

	if (case_open(loop, c, &topo) == 0) {
		if (c->level == TRAIL)
			slots_mark(&topo);
		ticks = pipe_turns(&topo.lane[0]->pipe);
		spw_pipe_end(&topo.lane[0]->pipe);
		spw_topo_stop(&topo, EXEC_STOP_MS, &end);
	}
	spw_topo_close(&topo);
	return ticks;
}

#define ALONE(text, run_)                                                 \
	{text ", burst 32", run_, 32, SPW_EXEC_INLINE, OFF, false, {0}},  \
	{                                                                 \
		text ", burst 64", run_, 64, SPW_EXEC_INLINE, OFF, false, \
		{                                                         \
			0                                                 \
		}                                                         \
	}
#define WHOLE(exec, kind_, sum_, burst_)                                                          \
	{"loop, " exec ", stamps off, burst " #burst_, whole, burst_, kind_, OFF, sum_, {0}},     \
		{"loop, " exec ", stamps on, burst " #burst_,                                     \
		 whole,                                                                           \
		 burst_,                                                                          \
		 kind_,                                                                           \
		 STAMPS,                                                                          \
		 sum_,                                                                            \
		 {0}},                                                                            \
		{"loop, " exec ", stamps and causes, burst " #burst_,                             \
		 whole,                                                                           \
		 burst_,                                                                          \
		 kind_,                                                                           \
		 CAUSES,                                                                          \
		 sum_,                                                                            \
		 {0}},                                                                            \
		{"loop, " exec ", and the oldest stamp, burst " #burst_,                          \
		 whole,                                                                           \
		 burst_,                                                                          \
		 kind_,                                                                           \
		 NIC_OLDEST,                                                                      \
		 sum_,                                                                            \
		 {0}},                                                                            \
		{"loop, " exec ", and a stamp a burst, burst " #burst_,                           \
		 whole,                                                                           \
		 burst_,                                                                          \
		 kind_,                                                                           \
		 NIC_BURST,                                                                       \
		 sum_,                                                                            \
		 {0}},                                                                            \
		{"loop, " exec ", and a stamp a frame, burst " #burst_,                           \
		 whole,                                                                           \
		 burst_,                                                                          \
		 kind_,                                                                           \
		 NIC_FRAME,                                                                       \
		 sum_,                                                                            \
		 {0}},                                                                            \
		{"loop, " exec ", and a flight recorder, burst " #burst_,                         \
		 whole,                                                                           \
		 burst_,                                                                          \
		 kind_,                                                                           \
		 FLIGHT,                                                                          \
		 sum_,                                                                            \
		 {0}},                                                                            \
	{                                                                                         \
		"loop, " exec ", and a trail, burst " #burst_, whole, burst_, kind_, TRAIL, sum_, \
		{                                                                                 \
			0                                                                         \
		}                                                                                 \
	}

static struct loop_case loop_cases[] = {
	ALONE("net_null: rte_eth_rx_burst + free", eth_null),
	ALONE("null port alone: rx + release", port_alone),
	WHOLE("inline", SPW_EXEC_INLINE, false, 32),
	WHOLE("inline", SPW_EXEC_INLINE, false, 64),
	WHOLE("inline sum", SPW_EXEC_INLINE, true, 32),
	WHOLE("inline sum", SPW_EXEC_INLINE, true, 64),
	WHOLE("cpu thread", SPW_EXEC_CPU, false, 32),
	WHOLE("cpu thread", SPW_EXEC_CPU, false, 64),
};

static int eth_open(struct loop *loop)
{
	static char a0[] = "spinwire-bench", a1[] = "--no-huge", a2[] = "-m", a3[] = "64",
		    a4[] = "--no-pci", a5[] = "--no-shconf", a6[] = "--no-telemetry",
		    a7[] = "--log-level=lib.eal:warning", a8[] = "--vdev=net_null0,copy=0,size=64",
		    a9[] = "--lcores", lcores[32];
	char *argv[] = {a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, lcores};
	struct rte_eth_conf conf = {0};
	struct rte_mempool *mp;

	snprintf(lcores, sizeof(lcores), "0@%d", sched_getcpu());
	if (rte_eal_init(SPW_ARRAY_CNT(argv), argv) < 0 ||
	    rte_eth_dev_get_port_by_name("net_null0", &loop->eth))
		return spw_err(ENODEV, "EAL with net_null did not start");
	mp = rte_pktmbuf_pool_create("bench_loop", SLOTS, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE,
				     SOCKET_ID_ANY);
	if (!mp || rte_eth_dev_configure(loop->eth, 1, 1, &conf) ||
	    rte_eth_rx_queue_setup(loop->eth, 0, 512, 0, NULL, mp) ||
	    rte_eth_tx_queue_setup(loop->eth, 0, 512, 0, NULL) || rte_eth_dev_start(loop->eth))
		return spw_err(EIO, "net_null cannot be set up");
	return 0;
}

static int loop_open(struct loop *loop)
{
	static const char *const port[LEVEL_CNT] = {
		[OFF] = "null:size=64",
		[STAMPS] = "null:size=64",
		[CAUSES] = "null:size=64",
		[NIC_OLDEST] = "null:size=64,stamps=1",
		[NIC_BURST] = "null:size=64,stamps=1",
		[NIC_FRAME] = "null:size=64,rate=1G",
		[FLIGHT] = "null:size=64,rate=1G",
		[TRAIL] = "null:size=64,rate=1G",
	};
	int rc;

	loop->exec_cpu = other_cpu(); /* before EAL ties this thread to one core */
	if ((rc = spw_trail_open(&loop->trail, 1)) < 0 ||
	    (rc = spw_flight_open(&loop->flight, FLIGHT_BYTES, 0, -1)) < 0 ||
	    (rc = eth_open(loop)) < 0 || (rc = spw_tsc_calibrate(50, &loop->tsc)) < 0)
		return rc;
	for (int i = 0; i < LEVEL_CNT; i++)
		if ((rc = spw_port_spec_parse(port[i], &loop->spec[i])) < 0)
			return rc;
	if ((rc = spw_handler_open("null", &loop->null)) < 0)
		return rc;
	return spw_handler_open("sum", &loop->sum);
}

int spw_bench_loop(int argc, char **argv, struct spw_bench_out *out)
{
	static struct loop loop;

	if (argc != 1) {
		fprintf(stderr, "usage: spinwire-bench %s    (no options)\n", argv[0]);
		return 1;
	}
	if (loop_open(&loop) < 0) {
		fprintf(stderr, "spinwire-bench: %s\n", spw_err_text());
		return 2;
	}
	for (uint32_t round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < SPW_ARRAY_CNT(loop_cases); i++) {
			struct loop_case *c = &loop_cases[i];

			if (c->kind == SPW_EXEC_CPU && loop.exec_cpu < 0)
				continue;
			c->value[round] = c->run(&loop, c);
			if (c->value[round] < 0) {
				fprintf(stderr, "spinwire-bench: %s: %s\n", c->name,
					spw_err_text());
				return 2;
			}
		}
	}
	for (size_t i = 0; i < SPW_ARRAY_CNT(loop_cases); i++)
		if (loop_cases[i].kind != SPW_EXEC_CPU || loop.exec_cpu >= 0)
			spw_bench_add(out, loop_cases[i].name, "cost", "ticks/frame",
				      loop_cases[i].value, ROUNDS);
	return rte_eal_cleanup() ? 2 : 0;
}
