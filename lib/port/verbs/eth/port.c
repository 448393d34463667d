/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The verbs driver's calls for mode=eth: open, set up, start, stop, counters (port/spw_port.h has
 * the contracts).
 *
 *   start   control thread, WQs to RDY and QPs to RTS, receives posted, rules last
 *   stop    control thread, rules first; sends complete; QPs and WQs to RESET; slots return
 *
 * Nothing is steered here before the rules exist or after they are gone, so the counters of a run
 * cover exactly the frames that the rules led here.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "port/port.h"
#include "port/verbs/eth/eth.h"
#include "port/verbs/verbs.h"

static struct verbs_eth_port *verbs_eth_of(struct spw_port *port)
{
	return spw_container_of(port, struct verbs_eth_port, eth.base);
}

/* ---- open ---- */

static int verbs_eth_stop(struct spw_port *port);

/* Also undoes a failed open. */
static void verbs_eth_close(struct spw_port *port)
{
	struct verbs_eth_port *ep = verbs_eth_of(port);

	verbs_eth_stop(port);
	port_eth_close(&ep->eth);
	for (uint16_t i = 0; i < port->queue_cnt && ep->queue; i++)
		verbs_eth_queue_free(&ep->queue[i]);
	rdma_dev_close(&ep->dev);
	free(ep->queue);
	free(ep);
}

/* rxe, EFA and others have no raw packets: check it here, where the message can say so. */
static int verbs_eth_check_device(struct verbs_eth_port *ep)
{
	const struct ibv_rss_caps *rss = &ep->dev.attr.rss_caps;

	if (ep->dev.port.link_layer != IBV_LINK_LAYER_ETHERNET)
		return spw_err(ENOTSUP, "%s port %u is no Ethernet: use mode=rc", ep->dev.name,
			       ep->dev.port_num);
	if (!(rss->supported_qpts & 1u << IBV_QPT_RAW_PACKET) || !rss->max_rwq_indirection_tables)
		return spw_err(ENOTSUP,
			       "%s has no raw Ethernet receive queues with flow steering: use "
			       "mode=rc, or ethdev:",
			       ep->dev.name);
	if (ep->eth.base.queue_cnt > rss->max_rwq_indirection_table_size)
		return spw_err(ERANGE, "%u queues were asked for, and %s spreads over %u at most",
			       ep->eth.base.queue_cnt, ep->dev.name,
			       rss->max_rwq_indirection_table_size);
	return 0;
}

/* poll=: ibv_start_poll with timestamps, or ibv_poll_cq; by default the best that the device has.
 */
static int verbs_eth_choose_poll(const struct spw_port_spec *spec, struct verbs_eth_port *ep)
{
	const char *text = spw_port_spec_find(spec, "poll");

	if (text && strcmp(text, "plain") && strcmp(text, "extended"))
		return spw_err(EINVAL,
			       "poll=%s: plain (ibv_poll_cq), extended (ibv_start_poll), or leave "
			       "it to the device",
			       text);
	ep->extended = (!text || !strcmp(text, "extended")) && verbs_eth_can_extend(&ep->dev);
	if (text && !strcmp(text, "extended") && !ep->extended)
		return spw_err(
			ENOTSUP,
			"poll=extended: %s has no completion queues with timestamps: leave it out",
			ep->dev.name);
	return 0;
}

static const struct spw_port_key verbs_eth_key[] = {
	{"mode", "eth", "Raw Ethernet: frames of the flow rules, which are those of mlx5.", "eth",
	 0, 0},
	VERBS_KEY_PORT,
	PORT_ETH_KEY_MTU,
	{"poll", "plain|extended",
	 "ibv_poll_cq without stamps, or ibv_start_poll, where each frame has its NIC timestamp.",
	 "extended, where the device has it", 0, 0},
};
const struct spw_port_keys verbs_eth_keys = {"mode=eth", verbs_eth_key,
					     SPW_ARRAY_CNT(verbs_eth_key)};
static const struct spw_port_keys *const verbs_eth_sets[] = {&verbs_eth_keys, &rdma_flow_keys,
							     NULL};

/* Text first, as far as it can be checked without the device. */
static int verbs_eth_open_all(const struct spw_port_spec *spec, struct verbs_eth_port *ep)
{
	uint64_t port_num, mtu = 0;
	int rc = spw_port_spec_check_keys(spec, verbs_eth_sets);

	rc = rc ? rc : spw_port_spec_number(spec, &verbs_eth_keys, "mtu", &mtu);
	rc = rc ? rc : spw_port_spec_number(spec, &verbs_eth_keys, "port", &port_num);
	rc = rc ? rc : rdma_flow_parse(spec, &ep->eth.flow);
	rc = rc ? rc : rdma_dev_open(spec->device, (uint8_t)port_num, &ep->dev);
	rc = rc ? rc : port_eth_open(&ep->dev, mtu, &ep->eth);
	rc = rc ? rc : verbs_eth_check_device(ep);
	return rc ? rc : verbs_eth_choose_poll(spec, ep);
}

int verbs_eth_open(const struct spw_port_spec *spec, uint16_t index, uint16_t queue_cnt,
		   struct spw_port **port_out)
{
	struct verbs_eth_port *ep =
		port_alloc(&verbs_eth_driver, spec, index, queue_cnt, sizeof(*ep));
	int rc;

	if (!ep)
		return -ENOMEM;
	ep->queue = port_queues_alloc(queue_cnt, sizeof(*ep->queue));
	rc = ep->queue ? verbs_eth_open_all(spec, ep) : -ENOMEM;
	if (rc) {
		verbs_eth_close(&ep->eth.base);
		return rc;
	}
	if (!ep->extended)
		ep->eth.base.caps.nic_clock_hz = 0;
	*port_out = &ep->eth.base;
	return 0;
}

/* ---- set-up, start, stop ---- */

/* Queues may come in any order; rules are made over all of them at start (port_eth_steer). */
static int verbs_eth_queue_setup(struct spw_port *port, uint16_t queue,
				 const struct spw_port_queue_conf *conf)
{
	struct verbs_eth_port *ep = verbs_eth_of(port);
	struct verbs_eth_queue *q = &ep->queue[queue];
	int rc;

	if (q->port)
		return spw_err(EBUSY, "it was set up before");
	rc = rdma_dev_key(&ep->dev, conf->pool->region->id, &q->rx_lkey);
	if (rc)
		return rc;
	q->port = ep;
	q->index = queue;
	q->region_id = conf->pool->region->id;
	q->tx_lkey = q->rx_lkey;
	q->csum_flags = ep->dev.attr.raw_packet_caps & IBV_RAW_PACKET_CAP_IP_CSUM
				? SPW_DESC_L3_OK | SPW_DESC_L4_OK
				: 0;
	rc = verbs_eth_queue_make(q, conf);
	if (rc)
		return rc;
	ep->eth.wq[queue] = q->rx.wq;
	verbs_eth_calls(q, &port->queue[queue]);
	return 0;
}

/* Queues that can take frames, once; no rule leads to them yet. The litmus may be the first to ask.
 */
static int verbs_eth_queues_start(struct verbs_eth_port *ep)
{
	int rc;

	if (ep->eth.started)
		return 0;
	ep->eth.started = true; /* also after a failure: stop undoes what was started */
	rc = rdma_ctl_start(ep->eth.ctl);
	for (uint16_t i = 0; i < ep->eth.base.queue_cnt && !rc; i++) {
		rc = verbs_eth_rx_ready(&ep->queue[i]);
		rc = rc ? rc : verbs_eth_tx_ready(&ep->queue[i]);
		if (!rc)
			verbs_eth_refill(&ep->queue[i]);
	}
	return rc;
}

/* The queues run from here on; start only adds the rules. */
static int verbs_eth_loop(struct spw_port *port, uint16_t queue, uint8_t *head_out)
{
	struct verbs_eth_port *ep = verbs_eth_of(port);
	int rc = verbs_eth_queues_start(ep);

	return rc ? rc : port_eth_loop(&ep->eth, queue, head_out);
}

/* The rules come last, so that receives are posted before the first frame arrives. What the litmus
 * counted belongs to no run. */
static int verbs_eth_start(struct spw_port *port)
{
	struct verbs_eth_port *ep = verbs_eth_of(port);
	int rc = verbs_eth_queues_start(ep);

	for (uint16_t i = 0; i < port->queue_cnt; i++)
		memset(&ep->queue[i].stat, 0, sizeof(ep->queue[i].stat));
	return rc ? rc : port_eth_start(&ep->eth);
}

/* What the device has not sent in time counts as flushed. */
static int verbs_eth_queue_stop(struct verbs_eth_queue *q)
{
	struct rdma_drain drain = {0};
	bool more = true;
	int rc, rc_tx;

	while (more && q->sq_pi != q->sq_ci && !q->tx_fault.bad) {
		more = rdma_drain_wait(&q->port->dev, &drain);
		verbs_eth_reap(q);
	}
	rc_tx = verbs_eth_tx_reset(q);
	verbs_eth_tx_return(q);
	rc = verbs_eth_rx_reset(q);
	verbs_eth_rx_return(q);
	return rc ? rc : rc_tx;
}

/* Idempotent; also called by close. All queues are stopped, and the first error is returned. */
static int verbs_eth_stop(struct spw_port *port)
{
	struct verbs_eth_port *ep = verbs_eth_of(port);
	int rc = 0;

	if (!ep->eth.started)
		return 0;
	port_eth_stop(&ep->eth);
	for (uint16_t i = 0; i < port->queue_cnt; i++) {
		int rc_queue = verbs_eth_queue_stop(&ep->queue[i]);

		rc = rc ? rc : rc_queue;
	}
	return ep->dev.gone ? 0 : rc; /* a removed device fails every call */
}

/* ---- counters ---- */

/* No CQE of plain verbs reports frames that found no WQE: only the device's counter does. */
static void verbs_eth_stat(struct spw_port *port, struct spw_port_stat *stat)
{
	struct verbs_eth_port *ep = verbs_eth_of(port);

	for (uint16_t i = 0; i < port->queue_cnt; i++)
		port_stat_add(stat, &ep->queue[i].stat);
	port_eth_stat(&ep->eth, 0, stat);
}

/* Frames of a failed queue are in recv_out until its recovery returns them. */
static void verbs_eth_slots(struct spw_port *port, uint16_t queue, struct spw_port_slots *slots)
{
	const struct verbs_eth_queue *q = &verbs_eth_of(port)->queue[queue];

	slots->lent = q->lent_cnt;
	slots->in_tx = q->sq_pi - q->sq_ci;
	slots->in_rx = q->recv_out;
}

const struct spw_port_driver verbs_eth_driver = {
	.name = "verbs",
	.region_attach = port_eth_region_attach,
	.queue_setup = verbs_eth_queue_setup,
	.loop = verbs_eth_loop,
	.loop_end = port_eth_loop_end,
	.start = verbs_eth_start,
	.stop = verbs_eth_stop,
	.stat = verbs_eth_stat,
	.slots = verbs_eth_slots,
	.pair_clock = port_eth_pair_clock,
	.close = verbs_eth_close,
};
