/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a port costs: spinwire's receive + release beside rte_eth_rx_burst + rte_pktmbuf_free_bulk
 * on the same PMD, in turn in one run. net_null makes frames in the receive call and never writes
 * them, so its mbufs alone load the caches and the TLB: DPDK's side is measured with its usual pool
 * and with one whose mbufs lie close together. With net_memif only the receiver is timed: the
 * sender fills the ring and pauses, then the ring is drained.
 */
#include <errno.h>
#include <inttypes.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "bench.h"
#include "port/spw_port.h"
#include "time/spw_time.h"

#define SLOT_BYTES   2176u
#define SLOT_CNT     4096u
#define RUNS_MAX     101u
#define NULL_FRAMES  400000u /* per run */
#define MEMIF_ROUNDS 64u     /* fillings of the ring per run */

struct raw_port {
	uint16_t id;
	struct rte_mempool *mp;
};

struct spw_side {
	struct spw_port *port;
	struct spw_region region;
	struct spw_pool pool;
};

static int complain(const char *what)
{
	fprintf(stderr, "spinwire-bench port: %s: %s\n", what, spw_err_text());
	return 2;
}

/* ---- the two sides ---- */

static int raw_open(struct raw_port *raw, const char *name, const char *args, uint16_t room)
{
	struct rte_eth_conf conf = {0};
	char pool[32];

	snprintf(pool, sizeof(pool), "raw_%s", name);
	raw->mp = rte_pktmbuf_pool_create(pool, SLOT_CNT - 1, 256, 0, room, SOCKET_ID_ANY);
	if (!raw->mp || rte_eal_hotplug_add("vdev", name, args) ||
	    rte_eth_dev_get_port_by_name(name, &raw->id) ||
	    rte_eth_dev_configure(raw->id, 1, 1, &conf) ||
	    rte_eth_rx_queue_setup(raw->id, 0, 1024, SOCKET_ID_ANY, NULL, raw->mp) ||
	    rte_eth_tx_queue_setup(raw->id, 0, 1024, SOCKET_ID_ANY, NULL) ||
	    rte_eth_dev_start(raw->id))
		return spw_err(EIO, "%s cannot be set up", name);
	return 0;
}

static int side_open(struct spw_side *side, const char *text)
{
	struct spw_mem_req req = {
		.kind = SPW_MEM_HOST, .bytes = (size_t)SLOT_CNT * SLOT_BYTES, .numa_node = -1};
	struct spw_port_queue_conf conf = {.pool = &side->pool, .ring_size = 1024, .numa_node = -1};
	struct spw_port_spec spec;
	int rc = spw_port_spec_parse(text, &spec);

	rc = rc ? rc : spw_region_alloc(&req, &side->region);
	rc = rc ? rc : spw_pool_init(&side->pool, &side->region, 0, SLOT_BYTES, SLOT_CNT);
	rc = rc ? rc : spw_port_open(&spec, 0, 1, &side->port);
	rc = rc ? rc : spw_port_region_attach(side->port, &side->region);
	rc = rc ? rc : spw_port_queue_setup(side->port, 0, &conf);
	return rc ? rc : spw_port_start(side->port);
}

static uint16_t raw_take(void *arg, uint16_t burst)
{
	struct raw_port *raw = arg;
	struct rte_mbuf *mbuf[SPW_BURST_MAX];
	uint16_t n = rte_eth_rx_burst(raw->id, 0, mbuf, burst);

	rte_pktmbuf_free_bulk(mbuf, n);
	return n;
}

static uint16_t side_take(void *arg, uint16_t burst)
{
	struct spw_port_queue *pq = &((struct spw_side *)arg)->port->queue[0];
	struct spw_desc desc[SPW_BURST_MAX];
	uint32_t slot[SPW_BURST_MAX];
	uint16_t n = spw_port_rx_burst(pq, desc, burst);

	for (uint16_t i = 0; i < n; i++)
		slot[i] = desc[i].slot;
	spw_port_release_burst(pq, slot, n);
	return n;
}

typedef uint16_t take_burst(void *arg, uint16_t burst);

/* ---- net_null and null: frames are always there ---- */

static double ticks_endless(take_burst *take, void *arg, uint16_t burst)
{
	uint64_t begin = spw_tsc_now_ordered(), frames = 0;

	while (frames < NULL_FRAMES)
		frames += take(arg, burst);
	return (double)(spw_tsc_now_ordered() - begin) / (double)frames;
}

/* ---- net_memif: fill, hold, drain ---- */

static bool link_up(uint16_t id)
{
	struct rte_eth_link link;

	for (int i = 0; i < 5000; i++) {
		if (rte_eth_link_get_nowait(id, &link) == 0 && link.link_status == RTE_ETH_LINK_UP)
			return true;
		usleep(1000);
	}
	return false;
}

static uint32_t fill(struct raw_port *sender)
{
	struct rte_mbuf *mbuf[SPW_BURST_MAX];
	uint32_t sent = 0;
	uint16_t n;

	do {
		if (rte_pktmbuf_alloc_bulk(sender->mp, mbuf, SPW_BURST_MAX))
			return sent;
		for (int i = 0; i < (int)SPW_BURST_MAX; i++)
			mbuf[i]->data_len = (uint16_t)(mbuf[i]->pkt_len = 64);
		n = rte_eth_tx_burst(sender->id, 0, mbuf, SPW_BURST_MAX);
		rte_pktmbuf_free_bulk(mbuf + n, SPW_BURST_MAX - n);
		sent += n;
	} while (n == SPW_BURST_MAX);
	return sent;
}

static double ticks_drain(take_burst *take, void *arg, uint16_t burst, struct raw_port *sender)
{
	uint64_t ticks = 0, frames = 0;

	for (uint32_t round = 0; round < MEMIF_ROUNDS; round++) {
		uint32_t waiting = fill(sender), drained = 0;
		uint64_t begin = spw_tsc_now_ordered();

		while (drained < waiting)
			drained += take(arg, burst);
		ticks += spw_tsc_now_ordered() - begin;
		frames += drained;
	}
	return (double)ticks / (double)frames;
}

/* ---- rows ---- */

struct port_bench {
	struct raw_port null_raw, null_packed, memif_raw, sender[2];
	struct spw_side null_dpdk, null_own, memif;
	uint32_t runs;
};

static void run_null(struct port_bench *b, uint16_t burst, struct spw_bench_out *out)
{
	double raw[RUNS_MAX], packed[RUNS_MAX], dpdk[RUNS_MAX], own[RUNS_MAX];
	char name[72];

	for (uint32_t i = 0; i < b->runs; i++) {
		raw[i] = ticks_endless(raw_take, &b->null_raw, burst);
		packed[i] = ticks_endless(raw_take, &b->null_packed, burst);
		dpdk[i] = ticks_endless(side_take, &b->null_dpdk, burst);
		own[i] = ticks_endless(side_take, &b->null_own, burst);
	}
	snprintf(name, sizeof(name), "net_null, rte_eth_rx_burst + free, burst %u", burst);
	spw_bench_add(out, name, "receive + release", "ticks/frame", raw, b->runs);
	snprintf(name, sizeof(name), "the same, mbufs close together, burst %u", burst);
	spw_bench_add(out, name, "receive + release", "ticks/frame", packed, b->runs);
	snprintf(name, sizeof(name), "net_null, ethdev port, burst %u", burst);
	spw_bench_add(out, name, "receive + release", "ticks/frame", dpdk, b->runs);
	snprintf(name, sizeof(name), "null port, burst %u", burst);
	spw_bench_add(out, name, "receive + release", "ticks/frame", own, b->runs);
}

static void run_memif(struct port_bench *b, uint16_t burst, struct spw_bench_out *out)
{
	double raw[RUNS_MAX], own[RUNS_MAX];
	char name[72];

	for (uint32_t i = 0; i < b->runs; i++) {
		raw[i] = ticks_drain(raw_take, &b->memif_raw, burst, &b->sender[0]);
		own[i] = ticks_drain(side_take, &b->memif, burst, &b->sender[1]);
	}
	snprintf(name, sizeof(name), "net_memif 64 B, rte_eth_rx_burst + free, burst %u", burst);
	spw_bench_add(out, name, "receive + release", "ticks/frame", raw, b->runs);
	snprintf(name, sizeof(name), "net_memif 64 B, ethdev port, burst %u", burst);
	spw_bench_add(out, name, "receive + release", "ticks/frame", own, b->runs);
}

static int open_memif(struct port_bench *b)
{
	char args[160];
	int rc, pid = (int)getpid();

	snprintf(args, sizeof(args), "role=server,socket=spw-bench-%d-a,rsize=10", pid);
	rc = raw_open(&b->memif_raw, "net_memif0", args, SLOT_BYTES);
	snprintf(args, sizeof(args), "role=client,socket=spw-bench-%d-a,rsize=10", pid);
	rc = rc ? rc : raw_open(&b->sender[0], "net_memif1", args, SLOT_BYTES);
	snprintf(args, sizeof(args), "ethdev:net_memif2,role=server,socket=spw-bench-%d-b,rsize=10",
		 pid);
	rc = rc ? rc : side_open(&b->memif, args);
	snprintf(args, sizeof(args), "role=client,socket=spw-bench-%d-b,rsize=10", pid);
	rc = rc ? rc : raw_open(&b->sender[1], "net_memif3", args, SLOT_BYTES);
	if (!rc && !(link_up(b->sender[0].id) && link_up(b->sender[1].id)))
		rc = spw_err(EIO, "the memif pairs did not connect within 5 s");
	return rc;
}

static void side_close(struct spw_side *side)
{
	spw_port_stop(side->port);
	spw_port_close(side->port);
	if (spw_pool_fini(&side->pool))
		fprintf(stderr, "spinwire-bench port: slots were lost\n");
	spw_region_free(&side->region);
}

static int eal_init(void)
{
	char *argv[] = {(char *)"spinwire-bench",
			(char *)"--no-huge",
			(char *)"--no-shconf",
			(char *)"--no-pci",
			(char *)"--no-telemetry",
			(char *)"-m",
			(char *)"256",
			(char *)"--log-level=error",
			NULL};

	return rte_eal_init((int)SPW_ARRAY_CNT(argv) - 1, argv) < 0
		       ? spw_err(EIO, "rte_eal_init failed")
		       : 0;
}

int spw_bench_port(int argc, char **argv, struct spw_bench_out *out)
{
	static const struct spw_opt opt[] = {{.name = "runs",
					      SPW_BENCH_FIELD(struct port_bench, runs),
					      .kind = SPW_OPT_NUMBER,
					      .min = 1,
					      .max = RUNS_MAX,
					      .dflt = "11",
					      .help = "of each case"}};
	static struct port_bench bench;
	struct port_bench *b = &bench;
	const struct spw_opt_take take = {.base = b};
	int rc;

	rc = spw_bench_args(out, opt, SPW_ARRAY_CNT(opt), argc, argv, &take);
	if (rc != SPW_BENCH_RUN)
		return rc;
	rc = eal_init();
	rc = rc ? rc : raw_open(&b->null_raw, "net_null0", "size=64", SLOT_BYTES);
	rc = rc ? rc : raw_open(&b->null_packed, "net_null2", "size=64", RTE_PKTMBUF_HEADROOM);
	rc = rc ? rc : side_open(&b->null_dpdk, "ethdev:net_null1,size=64");
	rc = rc ? rc : side_open(&b->null_own, "null:size=64");
	rc = rc ? rc : open_memif(b);
	if (rc)
		return complain("set-up");
	for (uint16_t burst = 32; burst <= 64; burst *= 2) {
		run_null(b, burst, out);
		run_memif(b, burst, out);
	}
	side_close(&b->memif);
	side_close(&b->null_dpdk);
	side_close(&b->null_own);
	return 0;
}
