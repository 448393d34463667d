/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Receive interrupts of DPDK's net_mlx5: frames to the port's own MAC wake rte_epoll_wait, one
 * interrupt each time that the queue was armed, none otherwise. Arguments: those of EAL.
 */
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <rte_mbuf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LEN     100u
#define DESCS   256u
#define ROUNDS  20u
#define WAIT_MS 10000 /* for what must happen */

static int fail(const char *what)
{
	fprintf(stderr, "rx_intr_test: %s\n", what);
	return 1;
}

static int port_start(struct rte_mempool *pool)
{
	const struct rte_eth_conf conf = {.intr_conf = {.rxq = 1}};

	if (rte_eth_dev_configure(0, 1, 1, &conf) ||
	    rte_eth_rx_queue_setup(0, 0, DESCS, SOCKET_ID_ANY, NULL, pool) ||
	    rte_eth_tx_queue_setup(0, 0, DESCS, SOCKET_ID_ANY, NULL) || rte_eth_dev_start(0))
		return fail("the port does not start");
	return rte_eth_dev_rx_intr_ctl_q(0, 0, RTE_EPOLL_PER_THREAD, RTE_INTR_EVENT_ADD, NULL)
		       ? fail("the queue has no interrupt")
		       : 0;
}

/* A frame that the cable returns. */
static int frame_send(struct rte_mempool *pool)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	struct rte_ether_hdr *eth;

	if (!m)
		return fail("no mbuf");
	eth = (void *)rte_pktmbuf_append(m, LEN);
	memset(eth, 0, LEN);
	rte_eth_macaddr_get(0, &eth->dst_addr);
	rte_eth_macaddr_get(0, &eth->src_addr);
	eth->ether_type = rte_cpu_to_be_16(0x88b5);
	return rte_eth_tx_burst(0, 0, &m, 1) == 1 ? 0 : fail("the frame does not leave");
}

/* Returns: frames, until one has come or the time is over. */
static unsigned frames_take(void)
{
	struct rte_mbuf *m[32];
	unsigned n = 0;

	for (int ms = 0; ms < WAIT_MS && !n; ms++) {
		n = rte_eth_rx_burst(0, 0, m, 32);
		rte_pktmbuf_free_bulk(m, n);
		if (!n)
			usleep(1000);
	}
	return n;
}

/* As l3fwd-power: enable, wait, disable, poll. */
static int round_run(struct rte_mempool *pool)
{
	struct rte_epoll_event ev;

	if (rte_eth_dev_rx_intr_enable(0, 0))
		return fail("not enabled");
	if (frame_send(pool))
		return 1;
	if (rte_epoll_wait(RTE_EPOLL_PER_THREAD, &ev, 1, WAIT_MS) != 1)
		return fail("no interrupt");
	if (rte_eth_dev_rx_intr_disable(0, 0))
		return fail("not disabled");
	if (frames_take() != 1)
		return fail("no frame behind the interrupt");
	if (frame_send(pool))
		return 1;
	if (rte_epoll_wait(RTE_EPOLL_PER_THREAD, &ev, 1, 50) != 0)
		return fail("an interrupt though none was enabled");
	return frames_take() == 1 ? 0 : fail("a frame was lost");
}

int main(int argc, char **argv)
{
	struct rte_mempool *pool;
	int rc;

	if (rte_eal_init(argc, argv) < 0 || rte_eth_dev_count_avail() != 1)
		return fail("no port");
	pool = rte_pktmbuf_pool_create("frames", 2048, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE,
				       SOCKET_ID_ANY);
	rc = pool ? port_start(pool) : fail("no pool");
	for (unsigned i = 0; i < ROUNDS && !rc; i++)
		rc = round_run(pool);
	rte_eth_dev_stop(0);
	rte_eth_dev_close(0);
	rte_eal_cleanup();
	return rc;
}
