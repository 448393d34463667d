/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The part of mode=rc that needs no queue (peer_port.h). Called by mlx5/rc/port.c and
 * verbs/rc/port.c.
 *
 *   parse   keys ─► conf (lib/peer), before any device is opened
 *   open    GID, MTU ─► spw_peer_conn_open ─► caps                the driver has opened the device
 *   loop    the litmus: the first peer of a queue is connected to itself (peer_loop.c)
 *   start   bases of the counters ─► spw_peer_conn_start: control thread, listener, connections
 *
 * The driver has the queues: objects, bursts, recovery. Thread: setup, except stat (any).
 */
#include "port/peer_port.h"

#include <errno.h>
#include <string.h>

#include "rdma/spw_rdma_flow.h"
#include "base/spw_err.h"
#include "port/peer_loop.h"

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
	return rdma_dev_attach(spw_container_of(port, struct port_peers, base)->dev, region);
}

/* Messages of RC have no frame header: head_out is zeros. */
int port_peers_loop(struct port_peers *pp, uint16_t queue, uint8_t *head_out)
{
	memset(head_out, 0, SPW_PORT_LOOP_HEAD);
	pp->started = true;
	pp->loop = (uint16_t)(queue + 1);
	return port_peer_loop(pp->conn, queue, &pp->base.queue[queue]);
}

/* Idempotent. The peer is down afterwards, as before. */
int port_peers_loop_end(struct port_peers *pp)
{
	uint16_t i = pp->loop;
	int rc;

	if (!i--)
		return 0;
	rc = port_peer_loop_end(pp->conn, i, &pp->base.queue[i]);
	pp->loop = 0;
	return rc;
}

int port_peers_start(struct port_peers *pp)
{
	pp->started = true;
	rdma_phy_start(pp->dev, &pp->phy);
	rdma_retransmits_start(pp->dev, &pp->retransmits);
	return spw_peer_conn_start(pp->conn);
}

/* A reliable connection misses nothing: a message without a receive is retransmitted. A breach of
 * the protocol is counted once, by lib/peer, when the peer goes down for it. */
void port_peers_stat(struct port_peers *pp, struct spw_port_stat *stat)
{
	stat->missed_known = true;
	stat->err[SPW_PORT_ERR_protocol] = 0;
	spw_peer_conn_stat(pp->conn, stat);
	rdma_phy_stat(&pp->phy, stat);
	stat->link_bps = rdma_dev_speed_mbps(pp->dev) * 1000000ull;
	rdma_retransmits_stat(pp->dev, &pp->retransmits, stat);
}
