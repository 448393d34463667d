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

/* ---- a queue's start and stop ---- */

static int verbs_eth_queue_start(struct port_eth *pe, uint16_t queue)
{
	struct verbs_eth_queue *q = &verbs_eth_of(&pe->base)->queue[queue];
	int rc = port_eth_wq_state(q->rx.wq, IBV_WQS_RDY);

	rc = rc ? rc : port_eth_sq_ready(pe->dev, q->tx.qp);
	if (!rc)
		verbs_eth_refill(q);
	return rc;
}

/* What the device has not sent in time counts as flushed. */
static int verbs_eth_queue_stop(struct port_eth *pe, uint16_t queue)
{
	struct verbs_eth_queue *q = &verbs_eth_of(&pe->base)->queue[queue];
	struct rdma_drain drain = {0};
	bool more = true;
	int rc, rc_tx;

	while (more && q->sq_pi != q->sq_ci && !q->tx_fault.bad) {
		more = rdma_drain_wait(pe->dev, &drain);
		verbs_eth_reap(q);
	}
	rc_tx = port_eth_sq_reset(q->tx.qp);
	verbs_eth_tx_return(q);
	rc = port_eth_wq_state(q->rx.wq, IBV_WQS_RESET);
	verbs_eth_rx_return(q);
	return rc ? rc : rc_tx;
}

static void verbs_eth_stat_reset(struct port_eth *pe, uint16_t queue)
{
	struct verbs_eth_queue *q = &verbs_eth_of(&pe->base)->queue[queue];

	memset(&q->stat, 0, sizeof(q->stat));
}

static const struct port_eth_ops verbs_eth_ops = {
	.queue_start = verbs_eth_queue_start,
	.queue_stop = verbs_eth_queue_stop,
	.stat_reset = verbs_eth_stat_reset,
};

/* ---- open ---- */

/* Also undoes a failed open. */
static void verbs_eth_close(struct spw_port *port)
{
	struct verbs_eth_port *ep = verbs_eth_of(port);

	port_eth_stop(port);
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
	ep->eth.ops = &verbs_eth_ops;
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

/* ---- set-up ---- */

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
	.loop = port_eth_loop,
	.loop_end = port_eth_loop_end,
	.start = port_eth_start,
	.stop = port_eth_stop,
	.rule = port_eth_rule,
	.rules = port_eth_rules,
	.stat = verbs_eth_stat,
	.slots = verbs_eth_slots,
	.pair_clock = port_eth_pair_clock,
	.close = verbs_eth_close,
};
