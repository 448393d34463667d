/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The calls of a port with mode=rc that both drivers share (rc_port.h). Called through their tables
 * of calls, and by mlx5/rc/port.c and verbs/rc/port.c.
 *
 *   parse   keys ─► conf (lib/peer), before any device is opened
 *   open    GID, MTU ─► spw_peer_conn_open ─► caps                the driver has opened the device
 *   queue   slots leave the pool ─► lib/peer registers them ─► the driver's objects
 *   loop    the litmus: the first peer of a queue is connected to itself (rc_loop.c)
 *   start   bases of the counters ─► spw_peer_conn_start: control thread, listener, connections
 *
 * Where the peers' slots are (enum port_rc_slots_at), so that each exit returns them once:
 *
 *   pool ─ port_rc_queue_begin ─► peers ─ all attached ─► queue ─ port_rc_queue_close ─► pool
 *
 * Order at stop, where nothing may be lost without being counted:
 *
 *   port_rc_send_out      what was sent is acknowledged, or its time is over
 *   spw_peer_conn_stop    no control thread any more; QPs that were in use are in ERR
 *   port_rc_drain         the flush is taken; messages that nobody polls are counted
 *   port_rc_queue_close   the QPs are destroyed; all slots that are not lent go to the pool
 *
 * Thread: setup, except stat (any).
 */
#include "port/rc_port.h"

#include <errno.h>
#include <string.h>

#include "rdma/spw_rdma_flow.h"
#include "base/spw_err.h"
#include "port/rc_loop.h"
#include "port/rc_slots.h"

int port_rdma_need(const struct spw_port_spec *spec, struct spw_port_need *need_out)
{
	const char *mode = spw_port_spec_find(spec, "mode");
	struct rdma_flow_conf flow;

	need_out->caps = rdma_caps(spec);
	if (!spec->device[0])
		return spw_err(EINVAL, "no device: use %s:mlx5_0,mode=eth (ibv_devices lists them)",
			       spec->driver);
	if (!mode || !strcmp(mode, "eth"))
		return rdma_flow_parse(spec, &flow);
	if (!strcmp(mode, "rc"))
		return spw_peer_conf_check(spec);
	return spw_err(EINVAL, "mode=%s is not known: use mode=eth or mode=rc", mode);
}

int port_peers_parse(const struct spw_port_spec *spec, const struct spw_port_keys *const *sets,
		     struct port_peers *pp)
{
	int rc = spw_port_spec_check_keys(spec, sets);

	rc = rc ? rc : spw_peer_conf_parse(spec, &pp->conf);
	if (!rc && pp->base.queue_cnt > pp->conf.peer_max)
		rc = spw_err(ERANGE,
			     "%u queues were asked for, and %u peers (peer_max=) can spread over "
			     "%u at most",
			     pp->base.queue_cnt, pp->conf.peer_max, pp->conf.peer_max);
	return rc;
}

/* A queue without a peer would never receive, so there are at most as many as peers. */
static void port_peers_fill_caps(struct port_peers *pp, uint32_t mtu)
{
	pp->base.caps = (struct spw_port_caps){
		.queue_max = (uint16_t)SPW_MIN(pp->conf.peer_max, SPW_PORT_QUEUE_MAX),
		.slot_align = SPW_CACHE_LINE,
		.slot_bytes_min = SPW_CACHE_LINE,
		.slot_cnt_min = 1, /* spw_peer_conn_share checks the real need */
		.mtu = mtu,
		.can_tx = true,
		.messages = true,
		.numa_node = pp->dev->numa_node,
	};
}

/* A smaller MTU than the port's is a choice; a larger one cannot work on this link. */
int port_peers_open(const struct spw_port_spec *spec, struct rdma_dev *dev,
		    rdma_dev_object_fn *async, struct port_peers *pp)
{
	const uint32_t mtu = rdma_dev_mtu_bytes(dev);
	struct spw_peer_dev peer_dev = {.rdma = dev,
					.mtu = (uint16_t)(pp->conf.mtu ? pp->conf.mtu : mtu),
					.name = pp->base.name,
					.async = async,
					.async_arg = pp};
	int rc = rdma_dev_gid(dev, spw_port_spec_find(spec, "gid"), &peer_dev.gid);

	pp->dev = dev;
	if (!rc && pp->conf.mtu > mtu)
		rc = spw_err(EINVAL,
			     "mtu=%u is more than the %u of the port: raise the interface's MTU, "
			     "or use mtu=%u",
			     pp->conf.mtu, mtu, mtu);
	rc = rc ? rc : spw_peer_conn_open(&pp->conf, &peer_dev, pp->base.queue_cnt, &pp->conn);
	if (!rc)
		port_peers_fill_caps(pp, peer_dev.mtu);
	return rc;
}

void port_peers_close(struct port_peers *pp)
{
	spw_peer_conn_close(pp->conn);
	spw_oob_secret_wipe(&pp->conf.secret);
}

int port_peers_region_attach(struct spw_port *port, const struct spw_region *region)
{
	return rdma_dev_attach(port_peers_of(port)->dev, region);
}

/* ---- a queue ---- */

/* lib/peer registers the peers' memory before the QPs are made, since a QP needs the PD. */
static int port_rc_slots_take(struct port_rc_queue *q)
{
	int rc = port_slots_take(q->pool, q->slot_first, q->peer_cnt * q->share);

	q->slots_at = rc ? PORT_RC_AT_POOL : PORT_RC_AT_PEERS;
	for (uint32_t i = 0; i < q->peer_cnt && !rc; i++) {
		const struct spw_peer_memory memory =
			port_slots_memory(q->pool, q->slot_first + i * q->share, q->share, q->lkey);

		rc = spw_peer_conn_peer_setup(q->port->conn, port_rc_conn_peer(q, i)->index,
					      &memory);
	}
	return rc;
}

int port_rc_queue_begin(struct spw_port *port, uint16_t queue,
			const struct spw_port_queue_conf *conf)
{
	struct port_peers *pp = port_peers_of(port);
	struct port_rc_queue *q = port_rc_queue_at(pp, queue);
	int rc;

	if (q->port)
		return spw_err(EBUSY, "it was set up before");
	q->port = pp;
	q->index = queue;
	q->pool = conf->pool;
	q->slot_first = conf->slot_first;
	q->peer_cnt = (pp->conf.peer_max - queue + port->queue_cnt - 1) / port->queue_cnt;
	rc = rdma_dev_key(pp->dev, conf->pool->region->id, &q->lkey);
	rc = rc ? rc : spw_peer_conn_share(pp->conn, queue, port_conf_slots(conf), &q->share);
	return rc ? rc : port_rc_slots_take(q);
}

struct port_rc_peer_conf port_rc_peer_conf_of(const struct port_rc_queue *q, uint32_t local,
					      uint32_t sq_cnt, uint32_t rq_cnt)
{
	const struct spw_peer *peer = port_rc_conn_peer(q, local);

	return (struct port_rc_peer_conf){
		.ring_out = peer->ring_out,
		.ring_in = peer->ring_in,
		.index = peer->index,
		.slot_first = q->slot_first + local * q->share,
		.slot_cnt = q->share,
		.rq_cnt = rq_cnt,
		.sq_cnt = sq_cnt,
		.sq_limit = sq_cnt,
		.credits = peer->credit_cnt,
	};
}

void port_rc_queue_close(struct port_rc_queue *q)
{
	if (q->port)
		q->port->destroy_qps(q);
	if (q->slots_at == PORT_RC_AT_QUEUE)
		port_rc_return_slots(q);
	else if (q->slots_at == PORT_RC_AT_PEERS)
		port_slots_give(q->pool, q->slot_first, q->peer_cnt * q->share);
	q->slots_at = PORT_RC_AT_POOL;
}

/* ---- the litmus, start and stop ---- */

/* Once, before anybody can connect: the litmus may be the first to ask. */
static void port_rc_post_shared(struct port_peers *pp)
{
	for (uint16_t i = 0; i < pp->base.queue_cnt && pp->conf.srq && !pp->started; i++) {
		struct port_rc_queue *q = port_rc_queue_at(pp, i);

		q->ops->settle(q);
	}
	pp->started = true; /* even a failed start has to be stopped */
}

/* Idempotent. The litmus asks for one queue after the other, so the next loop, or the start, ends
 * the one before. The peer is down afterwards, as before. */
static int port_rc_loop_end(struct port_peers *pp)
{
	uint16_t i = pp->loop;
	int rc;

	if (!i--)
		return 0;
	rc = port_peer_loop_end(pp->conn, i, &pp->base.queue[i]);
	pp->loop = 0;
	return rc || !pp->loop_ended ? rc : pp->loop_ended(port_rc_queue_at(pp, i));
}

/* Messages of RC have no frame header: head_out is zeros. */
int port_rc_loop(struct spw_port *port, uint16_t queue, uint8_t *head_out)
{
	struct port_peers *pp = port_peers_of(port);
	int rc = port_rc_loop_end(pp);

	if (rc)
		return rc;
	memset(head_out, 0, SPW_PORT_LOOP_HEAD);
	port_rc_post_shared(pp);
	pp->loop = (uint16_t)(queue + 1);
	return port_peer_loop(pp->conn, queue, &port->queue[queue]);
}

/* What the litmus counted belongs to no run. */
static void port_rc_stat_reset(struct port_rc_queue *q)
{
	memset(&q->stat, 0, sizeof(q->stat));
	memset(q->error, 0, sizeof(q->error));
	q->control_rx = q->control_tx = 0;
}

/* Peers may connect from here on. */
int port_rc_start(struct spw_port *port)
{
	struct port_peers *pp = port_peers_of(port);
	int rc = port_rc_loop_end(pp);

	if (rc)
		return rc;
	for (uint16_t i = 0; i < port->queue_cnt; i++)
		port_rc_stat_reset(port_rc_queue_at(pp, i));
	port_rc_post_shared(pp);
	rdma_phy_start(pp->dev, &pp->phy);
	rdma_retransmits_start(pp->dev, &pp->retransmits);
	return spw_peer_conn_start(pp->conn);
}

/* Idempotent; also called by close. */
int port_rc_stop(struct spw_port *port)
{
	struct port_peers *pp = port_peers_of(port);

	if (!pp->started)
		return 0;
	pp->started = false;
	for (uint16_t i = 0; i < port->queue_cnt; i++)
		port_rc_send_out(port_rc_queue_at(pp, i));
	spw_peer_conn_stop(pp->conn);
	for (uint16_t i = 0; i < port->queue_cnt; i++)
		port_rc_drain(port_rc_queue_at(pp, i));
	for (uint16_t i = 0; i < port->queue_cnt; i++)
		port_rc_queue_close(port_rc_queue_at(pp, i));
	return 0;
}

/* ---- counters ---- */

/* A reliable connection misses nothing: a message without a receive is retransmitted. A breach of
 * the protocol is counted once, by lib/peer, when the peer goes down for it. */
void port_rc_stat(struct spw_port *port, struct spw_port_stat *stat)
{
	struct port_peers *pp = port_peers_of(port);

	for (uint16_t i = 0; i < port->queue_cnt; i++)
		port_stat_add(stat, &port_rc_queue_at(pp, i)->stat);
	stat->missed_known = true;
	stat->err[SPW_PORT_ERR_protocol] = 0;
	spw_peer_conn_stat(pp->conn, stat);
	rdma_phy_stat(&pp->phy, stat);
	stat->link_bps = rdma_dev_speed_mbps(pp->dev) * 1000000ull;
	rdma_retransmits_stat(pp->dev, &pp->retransmits, stat);
}

void port_rc_slots(struct spw_port *port, uint16_t queue, struct spw_port_slots *slots)
{
	port_rc_queue_slots(port_rc_queue_at(port_peers_of(port), queue), slots);
}
