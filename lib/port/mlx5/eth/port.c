/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * mlx5, mode=eth: the control calls of a raw Ethernet port. mlx5/port.c chooses the mode and calls
 * mlx5_eth_open; lib/port/port.c calls the rest through the driver's table, all in setup.
 *
 * start brings up queues before flow rules, stop takes down flow rules before queues: a frame never
 * reaches a queue that is not ready. The litmus may have brought up the queues before
 * (mlx5_eth_loop). stop gives the device 200 ms to send what was posted.
 *
 *   open    keys ─► device (dev.c) ─► port_eth_open: link, use, control thread, caps
 *   set-up  plan (plan.c) ─► objects (obj.c) ─► queue over their memory (queue.c) ─► variants
 *   start   WQ to RDY, QP to RTS, receives posted ─► flow rules
 *   stop    flow rules ─► sends complete ─► WQ, QP to RESET ─► what arrived counted, slots returned
 *
 * A new key is a row of the table, which spinwire-ports(7) is made of too, and a line of
 * mlx5_eth_check_spec; keys of flow rules are in rdma/flow_keys.c, for all drivers.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "port/mlx5/eth/eth.h"

/* With the least, Ethernet, IPv4 and UDP leave room for a header; slots hold more than the most. */
#define SPLIT_MIN 64
#define SPLIT_MAX 1024

static const struct spw_port_key mlx5_eth_key[] = {
	{"mode", "eth", "Raw Ethernet: frames of the flow rules below.", "eth", 0, 0},
	PORT_ETH_KEY_MTU,
	{"tx_inline", "0|18", "Bytes of a frame's head inside the send WQE.", "what the card needs",
	 0, 0},
	{"split", "BYTES",
	 "The first BYTES of each frame go to memory that the CPU reads, the rest to that of "
	 "--memory, which may be gpu. For a port with objects: fields of their description "
	 "must lie in front of the split, and payload that does is copied once more. The ring is "
	 "cyclic, and nothing is sent.",
	 "frames lie in one piece", SPLIT_MIN, SPLIT_MAX},
};
const struct spw_port_keys mlx5_eth_keys = {"mode=eth", mlx5_eth_key, SPW_ARRAY_CNT(mlx5_eth_key)};
static const struct spw_port_keys *const mlx5_eth_sets[] = {&mlx5_eth_keys, &rdma_flow_keys, NULL};

/* ---- a queue's start and stop ---- */

/* In this order: a queue in RESET takes no WQEs. */
static int mlx5_eth_queue_start(struct port_eth *pe, uint16_t queue)
{
	struct mlx5_eth_queue_ctl *eq = &mlx5_eth_of(&pe->base)->queue[queue];
	int rc = port_eth_wq_state(eq->rx.wq, IBV_WQS_RDY);

	rc = rc ? rc : port_eth_sq_ready(pe->dev, eq->tx.qp);
	if (!rc)
		mlx5_eth_queue_arm(&eq->q);
	return rc;
}

/* Sent frames must be counted as sent: the NIC gets a moment to finish before its queue is reset.
 * What it has not sent in time is counted as tx_flushed. */
static void mlx5_eth_tx_wait(struct mlx5_eth_queue_ctl *eq)
{
	struct rdma_drain drain = {0};
	bool more = true;

	while (more && eq->q.sq_ci != eq->q.sq_pi && eq->q.tx_err.state == MLX5_ERR_NONE) {
		more = rdma_drain_wait(&eq->port->dev.rdma, &drain);
		mlx5_eth_tx_reap(&eq->q);
	}
}

/* Counts frames that arrived before the rules were removed and were not polled; returns their
 * slots. */
static int mlx5_eth_queue_stop(struct port_eth *pe, uint16_t queue)
{
	struct mlx5_eth_queue_ctl *eq = &mlx5_eth_of(&pe->base)->queue[queue];
	int rc, rc_tx;

	mlx5_eth_tx_wait(eq);
	rc = port_eth_wq_state(eq->rx.wq, IBV_WQS_RESET);
	rc_tx = port_eth_sq_reset(eq->tx.qp);
	mlx5_eth_queue_drain(&eq->q);
	mlx5_eth_queue_disarm(&eq->q);
	return rc ? rc : rc_tx;
}

static void mlx5_eth_stat_reset(struct port_eth *pe, uint16_t queue)
{
	struct mlx5_eth_queue *q = &mlx5_eth_of(&pe->base)->queue[queue].q;

	memset(&q->stat, 0, sizeof(q->stat));
	for (uint32_t i = 0; i < MLX5_ETH_TAGS; i++)
		q->tag[i].frames = 0;
	q->rx_nic_drops = 0;
	q->sent.cnt = 0;
}

_Static_assert(MLX5_ETH_TAGS == RDMA_FLOW_TAGS, "rules that stand share no place of q->tag");

/* Each queue counts its own frames, since RSS spreads a rule's over all of them. The sum is of
 * moments that differ, and never more than what came: a count only grows while its rule stands.
 * Who asks holds the device's lock, so no other rule can take the tag's place meanwhile. */
static uint64_t mlx5_eth_tag_frames(struct port_eth *pe, uint32_t tag)
{
	const struct mlx5_eth_port *ep = mlx5_eth_of(&pe->base);
	uint64_t frames = 0;

	for (uint16_t i = 0; i < pe->base.queue_cnt; i++)
		frames += mlx5_eth_queue_tag_frames(&ep->queue[i].q, tag);
	return frames;
}

static const struct port_eth_ops mlx5_eth_ops = {
	.queue_start = mlx5_eth_queue_start,
	.queue_stop = mlx5_eth_queue_stop,
	.stat_reset = mlx5_eth_stat_reset,
	.tag_frames = mlx5_eth_tag_frames,
};

/* ---- open ---- */

/* dev.c knows which cards require inline headers. An embedded switch may require them of any card
 * (devlink: inline-mode), and rdma-core does not pass that on, so the user can set it. */
static int mlx5_eth_check_inline(const struct spw_port_spec *spec)
{
	const char *text = spw_port_spec_find(spec, "tx_inline");

	if (!text || !strcmp(text, "0") || !strcmp(text, "18"))
		return 0;
	return spw_err(EINVAL,
		       "tx_inline=%s: bytes of each frame's head inside the send WQE: 0 or 18, or "
		       "leave it to the device",
		       text);
}

static void mlx5_eth_choose_inline(const struct spw_port_spec *spec, struct mlx5_dev *dev)
{
	const char *text = spw_port_spec_find(spec, "tx_inline");

	if (text)
		dev->wants_inline = text[0] == '1';
}

/* All that can be checked without the device comes first, so its message does too. */
static int mlx5_eth_check_spec(const struct spw_port_spec *spec, struct mlx5_eth_port *ep,
			       uint64_t *mtu_out)
{
	uint64_t split = 0;
	int rc = spw_port_spec_check_keys(spec, mlx5_eth_sets);

	rc = rc ? rc : spw_port_spec_number(spec, &mlx5_eth_keys, "mtu", mtu_out);
	if (!rc && spw_port_spec_find(spec, "split"))
		rc = spw_port_spec_number(spec, &mlx5_eth_keys, "split", &split);
	ep->split = (uint32_t)split;
	rc = rc ? rc : mlx5_eth_check_inline(spec);
	rc = rc ? rc : rdma_flow_parse(spec, &ep->eth.flow);
	ep->eth.flow.tags = true;
	if (!rc && !spec->device[0])
		rc = spw_err(EINVAL,
			     "no device: use mlx5:mlx5_0,mode=eth (ibv_devices lists them)");
	return rc;
}

static void mlx5_eth_close(struct spw_port *port)
{
	struct mlx5_eth_port *ep = mlx5_eth_of(port);

	port_eth_stop(port);
	port_eth_close(&ep->eth);
	for (uint16_t i = 0; i < port->queue_cnt && ep->queue; i++) {
		struct mlx5_eth_queue_ctl *eq = &ep->queue[i];

		mlx5_log_syndromes(port->name, i, eq->q.syndrome);
		mlx5_eth_rx_free(&eq->rx);
		mlx5_eth_tx_free(&eq->tx);
		mlx5_eth_queue_fini(&eq->q);
	}
	mlx5_dev_close(&ep->dev);
	free(ep->queue);
	free(ep);
}

/* With inline headers the CPU reads the first bytes of each frame to send: no GPU memory then. A
 * frame that is split is not sent: it lies in two pieces, and what makes objects of frames, which
 * splitting is for, sends none. */
int mlx5_eth_open(const struct spw_port_spec *spec, uint16_t index, uint16_t queue_cnt,
		  struct spw_port **port_out)
{
	struct mlx5_eth_port *ep =
		port_alloc(&mlx5_eth_driver, spec, index, queue_cnt, sizeof(*ep));
	uint64_t mtu;
	int rc;

	if (!ep)
		return -ENOMEM;
	ep->eth.ops = &mlx5_eth_ops;
	ep->queue = port_queues_alloc(queue_cnt, sizeof(*ep->queue));
	rc = ep->queue ? mlx5_eth_check_spec(spec, ep, &mtu) : -ENOMEM;
	rc = rc ? rc : mlx5_dev_open(spec->device, &ep->dev);
	rc = rc ? rc : port_eth_open(&ep->dev.rdma, mtu, &ep->eth);
	if (!rc) {
		mlx5_eth_choose_inline(spec, &ep->dev);
		ep->eth.base.caps.gpu_memory = !ep->dev.wants_inline || ep->split;
		ep->eth.base.caps.head_bytes = ep->split;
		ep->eth.base.caps.can_tx &= !ep->split;
		if (queue_cnt > ep->eth.base.caps.queue_max)
			rc = spw_err(ERANGE,
				     "%u queues were asked for, and %s spreads over %u at most",
				     queue_cnt, spec->device, ep->eth.base.caps.queue_max);
	}
	if (rc) {
		mlx5_eth_close(&ep->eth.base);
		return rc;
	}
	*port_out = &ep->eth.base;
	return 0;
}

/* ---- set-up ---- */

/* Joins the memory of the objects with the pool and with the operations of recovery. */
static int mlx5_eth_queue_lay(struct mlx5_eth_queue_ctl *eq, const struct spw_port_queue_conf *conf,
			      uint16_t queue)
{
	const struct mlx5_eth_plan *plan = &eq->plan;
	struct mlx5_eth_queue_conf qc = {
		.cq = eq->rx.cqmem,
		.tx_cq = eq->tx.cqmem,
		.rq = eq->rx.rqmem,
		.sq = eq->tx.sqmem,
		.pool = conf->pool,
		.ops = mlx5_eth_recover_ops,
		.flags = plan->flags,
		.index = queue,
		.port = eq->port->eth.base.index,
		.refill_min = plan->refill_min,
	};

	qc.ops.obj = eq;
	return mlx5_eth_queue_init(&eq->q, &qc);
}

/* A device whose stamps are of another clock refuses the queue: then frames go without. */
static int mlx5_eth_setup_rx(struct mlx5_eth_queue_ctl *eq, uint32_t lkey, uint32_t head_lkey,
			     uint16_t queue)
{
	struct mlx5_dev *dev = &eq->port->dev;
	int rc = mlx5_eth_rx_make(dev, &eq->plan, &eq->rx_side, lkey, head_lkey, &eq->rx);

	if (rc != -EOPNOTSUPP || !(eq->plan.flags & MLX5_F_STAMP))
		return rc;
	eq->plan.flags &= ~(unsigned int)MLX5_F_STAMP;
	eq->port->eth.base.caps.nic_clock_hz = 0;
	rc = mlx5_eth_rx_make(dev, &eq->plan, &eq->rx_side, lkey, head_lkey, &eq->rx);
	if (!rc)
		spw_info("port %s, queue %u: " MLX5_NO_STAMPS, eq->port->eth.base.name, queue);
	return rc;
}

/* As mlx5_eth_setup_rx: without stamps no send completions are kept. */
static int mlx5_eth_setup_tx(struct mlx5_eth_queue_ctl *eq, uint32_t lkey)
{
	struct mlx5_dev *dev = &eq->port->dev;
	int rc;

	if (!eq->port->eth.base.caps.nic_clock_hz)
		eq->plan.tx_stamps = false;
	rc = mlx5_eth_tx_make(dev, &eq->plan, &eq->tx_side, lkey, &eq->tx);
	if (rc != -EOPNOTSUPP || !eq->plan.tx_stamps)
		return rc;
	eq->plan.tx_stamps = false;
	return mlx5_eth_tx_make(dev, &eq->plan, &eq->tx_side, lkey, &eq->tx);
}

static int mlx5_eth_queue_setup(struct spw_port *port, uint16_t queue,
				const struct spw_port_queue_conf *conf)
{
	struct mlx5_eth_port *ep = mlx5_eth_of(port);
	struct mlx5_eth_queue_ctl *eq = &ep->queue[queue];
	uint32_t lkey, head_lkey;
	int rc;

	if (eq->port)
		return spw_err(EBUSY, "it was set up before");
	eq->port = ep;
	rc = rdma_dev_key(&ep->dev.rdma, conf->pool->region->id, &lkey);
	rc = rc ? rc : rdma_dev_key(&ep->dev.rdma, conf->pool->head_region->id, &head_lkey);
	rc = rc ? rc : mlx5_eth_plan_make(&ep->dev, conf, &eq->plan);
	rc = rc ? rc : mlx5_eth_setup_rx(eq, lkey, head_lkey, queue);
	rc = rc ? rc : mlx5_eth_setup_tx(eq, lkey);
	rc = rc ? rc : mlx5_eth_queue_lay(eq, conf, queue);
	if (rc)
		return rc;
	if (eq->plan.why[0])
		spw_info(
			"port %s, queue %u: a cyclic receive ring of %u for profile throughput: %s",
			port->name, queue, eq->plan.rq_cnt, eq->plan.why);
	ep->eth.wq[queue] = eq->rx.wq;
	mlx5_eth_queue_calls(&eq->q, &port->queue[queue]);
	return 0;
}

static int mlx5_eth_raw_keep(struct spw_port *port, uint16_t queue)
{
	return mlx5_eth_queue_raw_keep(&mlx5_eth_of(port)->queue[queue].q, &port->queue[queue]);
}

static int mlx5_eth_sent_keep(struct spw_port *port, uint16_t queue,
			      const struct spw_port_sent **sent_out)
{
	struct mlx5_eth_queue_ctl *eq = &mlx5_eth_of(port)->queue[queue];
	int rc;

	if (!eq->plan.tx_stamps)
		return spw_err(ENOTSUP, "port %s: the device does not stamp what it has sent",
			       port->name);
	rc = mlx5_eth_queue_sent_keep(&eq->q, &port->queue[queue]);
	if (!rc)
		*sent_out = &eq->q.sent;
	return rc;
}

static int mlx5_eth_loop(struct spw_port *port, uint16_t queue, uint8_t *head_out)
{
	return mlx5_eth_of(port)->split ? spw_err(ENOTSUP, "with split it sends nothing")
					: port_eth_loop(port, queue, head_out);
}

/* ---- counters ---- */

/* Bursts go on meanwhile: counters are sampled one by one. */
static void mlx5_eth_stat(struct spw_port *port, struct spw_port_stat *stat)
{
	struct mlx5_eth_port *ep = mlx5_eth_of(port);
	uint64_t drops = 0;

	for (uint16_t i = 0; i < port->queue_cnt; i++) {
		port_stat_add(stat, &ep->queue[i].q.stat);
		drops += spw_thr_load_rlx(&ep->queue[i].q.rx_nic_drops);
	}
	port_eth_stat(&ep->eth, drops, stat);
}

static void mlx5_eth_slots(struct spw_port *port, uint16_t queue, struct spw_port_slots *slots)
{
	mlx5_eth_queue_slots(&mlx5_eth_of(port)->queue[queue].q, slots);
}

const struct spw_port_driver mlx5_eth_driver = {
	.name = "mlx5",
	.keys = mlx5_eth_sets,
	.open = mlx5_eth_open,
	.region_attach = port_eth_region_attach,
	.queue_setup = mlx5_eth_queue_setup,
	.loop = mlx5_eth_loop,
	.loop_end = port_eth_loop_end,
	.raw_keep = mlx5_eth_raw_keep,
	.sent_keep = mlx5_eth_sent_keep,
	.start = port_eth_start,
	.stop = port_eth_stop,
	.rule = port_eth_rule,
	.rules = port_eth_rules,
	.stat = mlx5_eth_stat,
	.slots = mlx5_eth_slots,
	.pair_clock = port_eth_pair_clock,
	.close = mlx5_eth_close,
};
