/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What receiving a frame costs on an mlx5 device, including posting the receive buffer again:
 * lib/port/mlx5 beside DPDK's mlx5 PMD, in one process. A third device broadcasts a series that
 * fills both rings; then it is silent, and each side drains its own ring, in turn. tools/bench_rx
 * makes the devices.
 */
#include <errno.h>
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
#include "raw_side.h"
#include "time/spw_time.h"

#define RING       1024u
#define ROUNDS     301u
#define SLOT_BYTES 2048u
#define SLOTS      8192u
#define EMPTY_MAX  64u /* polls in a row that find nothing: drained */

struct receiver {
	const char *name;
	uint16_t eth; /* DPDK's own */
	struct rte_mempool *mp;
	struct spw_port *port; /* ours; NULL for DPDK's */
	struct spw_region region;
	struct spw_pool pool;
	double ticks[ROUNDS]; /* per frame */
	uint64_t frames;
};

/* ---- draining ---- */

static uint16_t take_pmd(struct receiver *r)
{
	struct rte_mbuf *mbuf[SPW_BURST_MAX];
	uint16_t n = rte_eth_rx_burst(r->eth, 0, mbuf, SPW_BURST_MAX);

	rte_pktmbuf_free_bulk(mbuf, n);
	return n;
}

static uint16_t take_own(struct receiver *r)
{
	struct spw_port_queue *pq = &r->port->queue[0];
	struct spw_desc desc[SPW_BURST_MAX];
	uint32_t slot[SPW_BURST_MAX];
	uint16_t n = spw_port_rx_burst(pq, desc, SPW_BURST_MAX);

	for (uint16_t i = 0; i < n; i++)
		slot[i] = desc[i].slot;
	spw_port_release_burst(pq, slot, n);
	return n;
}

/* Ticks per frame from the first burst to the last that brought something; 0 when none came. */
static double drain(struct receiver *r, uint16_t (*take)(struct receiver *r))
{
	uint64_t begin = spw_tsc_now_ordered(), end = begin, frames = 0;

	for (uint32_t empty = 0; empty < EMPTY_MAX;) {
		uint16_t n = take(r);

		if (!n) {
			empty++;
			continue;
		}
		end = spw_tsc_now_ordered();
		frames += n;
		empty = 0;
	}
	r->frames += frames;
	return frames ? (double)(end - begin) / (double)frames : 0;
}

/* ---- set-up ---- */

static int pmd_open(struct receiver *r, uint16_t eth)
{
	struct rte_eth_conf conf = {0};
	char pool[32];

	r->eth = eth;
	snprintf(pool, sizeof(pool), "bench_rx%u", eth);
	r->mp = rte_pktmbuf_pool_create(pool, SLOTS - 1, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE,
					SOCKET_ID_ANY);
	if (!r->mp || rte_eth_dev_configure(eth, 1, 1, &conf) ||
	    rte_eth_rx_queue_setup(eth, 0, RING, SOCKET_ID_ANY, NULL, r->mp) ||
	    rte_eth_tx_queue_setup(eth, 0, RING, SOCKET_ID_ANY, NULL) || rte_eth_dev_start(eth) ||
	    rte_eth_promiscuous_enable(eth))
		return spw_err(EIO, "DPDK's mlx5 PMD cannot be set up on port %u", eth);
	return 0;
}

static int own_open(struct receiver *r, const char *device, const char *profile)
{
	struct spw_mem_req req = {
		.kind = SPW_MEM_HOST, .bytes = (size_t)SLOTS * SLOT_BYTES, .numa_node = -1};
	struct spw_port_queue_conf conf = {
		.pool = &r->pool, .ring_size = RING, .numa_node = -1, .profile = profile};
	struct spw_port_spec spec;
	char text[96];
	int rc;

	snprintf(text, sizeof(text), "mlx5:%s,mode=eth,flow=all,mtu=1500", device);
	rc = spw_port_spec_parse(text, &spec);
	rc = rc ? rc : spw_region_alloc(&req, &r->region);
	rc = rc ? rc : spw_pool_init(&r->pool, &r->region, 0, SLOT_BYTES, SLOTS);
	rc = rc ? rc : spw_port_open(&spec, 0, 1, &r->port);
	rc = rc ? rc : spw_port_region_attach(r->port, &r->region);
	rc = rc ? rc : spw_port_queue_setup(r->port, 0, &conf);
	return rc ? rc : spw_port_start(r->port);
}

static void own_close(struct receiver *r)
{
	if (r->port) {
		spw_port_stop(r->port);
		spw_port_close(r->port);
	}
	if (r->region.host_va && spw_pool_fini(&r->pool))
		fprintf(stderr, "spinwire-bench rx: slots were lost\n");
	spw_region_free(&r->region);
}

/* A started device cannot be closed, and EAL's interrupt thread would use it after rte_eal_cleanup.
 */
static void pmd_close(struct receiver *r)
{
	if (!r->mp)
		return;
	if (rte_eth_dev_stop(r->eth) || rte_eth_dev_close(r->eth))
		fprintf(stderr, "spinwire-bench rx: %s does not stop\n", r->name);
	rte_mempool_free(r->mp);
}

/* Devices in the order of tools/bench_rx: two for the PMD by PCI address, two for us, one that
 * sends. */
static int bench_open(struct receiver *r, char **device, struct raw_side *sender)
{
	char *argv[] = {(char *)(uintptr_t) "spinwire-bench",
			(char *)(uintptr_t) "--no-huge",
			(char *)(uintptr_t) "--no-shconf",
			(char *)(uintptr_t) "--no-telemetry",
			(char *)(uintptr_t) "-m",
			(char *)(uintptr_t) "256",
			(char *)(uintptr_t) "--log-level=error",
			(char *)(uintptr_t) "-a",
			device[0],
			(char *)(uintptr_t) "-a",
			device[1]};
	int rc = rte_eal_init((int)SPW_ARRAY_CNT(argv), argv) < 0
			 ? spw_err(EIO, "rte_eal_init failed")
			 : 0;

	if (!rc && rte_eth_dev_count_avail() != 2)
		rc = spw_err(ENODEV, "DPDK found %u of the two ports that it was given",
			     rte_eth_dev_count_avail());
	rc = rc ? rc : pmd_open(&r[0], 0);
	rc = rc ? rc : pmd_open(&r[2], 1);
	rc = rc ? rc : own_open(&r[1], device[2], "latency");
	rc = rc ? rc : own_open(&r[3], device[3], "throughput");
	if (rc) {
		fprintf(stderr, "spinwire-bench rx: %s\n", spw_err_text());
		return 2;
	}
	return raw_side_open(sender, device[4], SLOT_BYTES, RING, false);
}

/* ---- rounds ---- */

static int run_rounds(struct receiver *r, uint32_t cnt, struct raw_side *sender)
{
	static const uint8_t all[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

	for (uint32_t round = 0; round < ROUNDS; round++) {
		int status = raw_side_send(sender, all, RING);

		status = status ? status : raw_side_sent(sender, 5000);
		if (status)
			return status;
		usleep(1000); /* what is sent is not yet received */
		for (uint32_t i = 0; i < cnt; i++) {
			struct receiver *who = &r[(round + i) % cnt];

			who->ticks[round] = drain(who, who->port ? take_own : take_pmd);
			if (who->ticks[round] <= 0) {
				fprintf(stderr, "spinwire-bench rx: %s received nothing\n",
					who->name);
				return 3;
			}
		}
	}
	return 0;
}

static void add_rows(struct receiver *r, uint32_t cnt, struct spw_bench_out *out)
{
	double ratio[2][ROUNDS];

	for (uint32_t i = 0; i < ROUNDS; i++) {
		ratio[0][i] = r[1].ticks[i] / r[0].ticks[i];
		ratio[1][i] = r[3].ticks[i] / r[2].ticks[i];
	}
	spw_bench_add(out, "spinwire / PMD, one CQE a frame", "ratio", "", ratio[0], ROUNDS);
	spw_bench_add(out, "spinwire / PMD, compressed", "ratio", "", ratio[1], ROUNDS);
	for (uint32_t i = 0; i < cnt; i++) {
		spw_bench_add(out, r[i].name, "receive + release", "ticks/frame", r[i].ticks,
			      ROUNDS);
		spw_bench_add1(out, r[i].name, "frames", "per round", (double)r[i].frames / ROUNDS);
	}
}

int spw_bench_rx(int argc, char **argv, struct spw_bench_out *out)
{
	static struct receiver r[] = {
		{.name = "DPDK mlx5 PMD"},
		{.name = "spinwire, latency profile"},
		{.name = "DPDK mlx5 PMD, CQE compression, multi-packet RQ"},
		{.name = "spinwire, throughput profile"},
	};
	struct raw_side sender = {0};
	int status;

	if (argc != 6) {
		fprintf(stderr, "usage: spinwire-bench rx PCI,ARGS PCI,ARGS DEVICE DEVICE SENDER   "
				" (tools/bench_rx calls it)\n");
		return 1;
	}
	status = bench_open(r, argv + 1, &sender);
	if (!status)
		status = run_rounds(r, SPW_ARRAY_CNT(r), &sender);
	if (!status)
		add_rows(r, SPW_ARRAY_CNT(r), out);
	raw_side_close(&sender);
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(r); i++)
		r[i].mp ? pmd_close(&r[i]) : own_close(&r[i]);
	return rte_eal_cleanup() ? 2 : status;
}
