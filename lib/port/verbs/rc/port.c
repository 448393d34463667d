/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The verbs driver's calls for mode=rc: open, set up, start, stop, counters (port/spw_port.h has
 * the contracts).
 *
 * Order at stop: spw_peer_conn_stop leaves QPs that were in use in ERR; drain takes their flush, so
 * that slots return one by one and what arrived is counted; verbs_rc_queue_unmake destroys the QPs,
 * after which the device touches no slot, and returns the rest. The tables live until close,
 * because lent slots may be released after stop.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "port/peer_loop.h"
#include "port/port.h"
#include "port/verbs/verbs.h"
#include "port/verbs/rc/rc.h"

#define USAGE "mode=rc, port=N, gid=INDEX, " SPW_PEER_USAGE

static struct verbs_rc_port *verbs_rc_of(struct spw_port *port)
{
	return spw_container_of(port, struct verbs_rc_port, base);
}

/* ---- open ---- */

static int verbs_rc_stop(struct spw_port *port);

/* Once, at close: an error completion itself only counts. */
static void verbs_rc_log_errors(const struct spw_port *port, const struct verbs_rc_queue *q)
{
	for (unsigned i = 0; i < SPW_ARRAY_CNT(q->status); i++)
		if (q->status[i])
			spw_info("port %s queue %u: error completions: %llu, %s", port->name,
				 q->index, (unsigned long long)q->status[i],
				 ibv_wc_status_str((enum ibv_wc_status)i));
}

/* Also undoes a failed open or set-up. q->port marks queues that were set up. The secret is
 * wiped in this copy of conf; lib/peer wipes its own. */
static void verbs_rc_close(struct spw_port *port)
{
	struct verbs_rc_port *vp = verbs_rc_of(port);

	verbs_rc_stop(port);
	for (uint16_t i = 0; i < port->queue_cnt && vp->queue; i++) {
		verbs_rc_log_errors(port, &vp->queue[i]);
		if (vp->queue[i].port)
			verbs_rc_queue_unmake(&vp->queue[i]);
		verbs_rc_queue_free(&vp->queue[i]);
	}
	spw_peer_conn_close(vp->conn);
	rdma_dev_close(&vp->dev);
	spw_oob_secret_wipe(&vp->conf.secret);
	free(vp->queue);
	free(vp);
}

static int verbs_rc_open_device(const struct spw_port_spec *spec, struct verbs_rc_port *vp,
				struct spw_peer_dev *dev)
{
	uint64_t port_num;
	uint32_t mtu;
	int rc;

	rc = spw_port_spec_u64(spec, "port", 1, 1, 255, &port_num);
	rc = rc ? rc : rdma_dev_open(spec->device, (uint8_t)port_num, &vp->dev);
	rc = rc ? rc : rdma_dev_check_link(&vp->dev);
	rc = rc ? rc : rdma_dev_gid(&vp->dev, spw_port_spec_find(spec, "gid"), &dev->gid);
	if (rc)
		return rc;
	mtu = rdma_dev_mtu_bytes(&vp->dev);
	if (vp->conf.mtu > mtu)
		return spw_err(EINVAL,
			       "mtu=%u is more than the port's %u: make the interface's MTU larger "
			       "or this smaller",
			       vp->conf.mtu, mtu);
	dev->rdma = &vp->dev;
	dev->mtu = (uint16_t)(vp->conf.mtu ? vp->conf.mtu : mtu);
	dev->name = vp->base.name;
	return 0;
}

static int verbs_rc_parse(const struct spw_port_spec *spec, struct verbs_rc_port *vp)
{
	static const char *const known[] = {"mode", "port", "gid", SPW_PEER_KEYS};
	int rc = spw_port_spec_check_keys(spec, known, SPW_ARRAY_CNT(known), USAGE);

	rc = rc ? rc : spw_peer_conf_parse(spec, &vp->conf);
	if (!rc && vp->base.queue_cnt > vp->conf.peer_max)
		rc = spw_err(ERANGE,
			     "%u queues for %u peers: each peer has one queue, so use at most %u "
			     "(or peer_max=)",
			     vp->base.queue_cnt, vp->conf.peer_max, vp->conf.peer_max);
	return rc;
}

int verbs_rc_open(const struct spw_port_spec *spec, uint16_t index, uint16_t queue_cnt,
		  struct spw_port **port_out)
{
	struct verbs_rc_port *vp =
		port_alloc(&verbs_rc_driver, spec, index, queue_cnt, sizeof(*vp));
	struct spw_peer_dev dev = {0};
	int rc;

	if (!vp)
		return -ENOMEM;
	vp->queue = port_queues_alloc(queue_cnt, sizeof(*vp->queue));
	rc = vp->queue ? verbs_rc_parse(spec, vp) : -ENOMEM;
	rc = rc ? rc : verbs_rc_open_device(spec, vp, &dev);
	rc = rc ? rc : spw_peer_conn_open(&vp->conf, &dev, queue_cnt, &vp->conn);
	if (rc) {
		verbs_rc_close(&vp->base);
		return rc;
	}
	vp->base.caps = (struct spw_port_caps){
		.queue_max = (uint16_t)vp->conf.peer_max,
		.slot_align = SPW_CACHE_LINE,
		.slot_bytes_min = SPW_CACHE_LINE,
		.slot_cnt_min = 1,
		.mtu = dev.mtu,
		.can_tx = true,
		.messages = true,
		.numa_node = vp->dev.numa_node,
	};
	*port_out = &vp->base;
	return 0;
}

/* ---- set-up, start, stop ---- */

static int verbs_rc_region_attach(struct spw_port *port, const struct spw_region *region)
{
	return rdma_dev_attach(&verbs_rc_of(port)->dev, region);
}

/* After an error q->port stays set: verbs_rc_close then frees what was made. */
static int verbs_rc_queue_setup(struct spw_port *port, uint16_t queue,
				const struct spw_port_queue_conf *conf)
{
	struct verbs_rc_port *vp = verbs_rc_of(port);
	struct verbs_rc_queue *q = &vp->queue[queue];
	int rc;

	if (q->port)
		return spw_err(EBUSY, "it was set up before");
	rc = rdma_dev_key(&vp->dev, conf->pool->region->id, &q->lkey);
	if (rc)
		return rc;
	q->port = vp;
	q->index = queue;
	q->op = vp->conf.op;
	q->region_id = conf->pool->region->id;
	rc = verbs_rc_queue_make(q, conf);
	if (rc)
		return rc;
	port->queue[queue] = (struct spw_port_queue){
		.rx_burst = verbs_rc_rx,
		.release_burst = verbs_rc_release,
		.tx_burst = verbs_rc_tx,
		.events = verbs_rc_events,
		.lend_burst = verbs_rc_lend,
		.q = q,
		.no_slot = &q->stat.err[SPW_PORT_ERR_no_slot],
	};
	return 0;
}

/* The litmus asks for one queue after the other; the last one is taken down by the next call or by
 * start. */
static int verbs_rc_loop_end(struct verbs_rc_port *vp)
{
	uint16_t i = vp->loop;
	int rc;

	if (!i--)
		return 0;
	rc = port_peer_loop_end(vp->conn, i, &vp->base.queue[i]);
	vp->loop = 0;
	return rc ? rc : verbs_rc_qp_again(&vp->queue[i], vp->queue[i].peer);
}

/* Messages of RC have no frame header: head_out is zeros. */
static int verbs_rc_loop(struct spw_port *port, uint16_t queue, uint8_t *head_out)
{
	struct verbs_rc_port *vp = verbs_rc_of(port);
	int rc = verbs_rc_loop_end(vp);

	if (rc)
		return rc;
	memset(head_out, 0, SPW_PORT_LOOP_HEAD);
	vp->started = true;
	vp->loop = (uint16_t)(queue + 1);
	return port_peer_loop(vp->conn, queue, &port->queue[queue]);
}

/* What the litmus counted belongs to no run. */
static int verbs_rc_start(struct spw_port *port)
{
	struct verbs_rc_port *vp = verbs_rc_of(port);
	int rc = verbs_rc_loop_end(vp);

	if (rc)
		return rc;
	for (uint16_t i = 0; i < port->queue_cnt; i++) {
		memset(&vp->queue[i].stat, 0, sizeof(vp->queue[i].stat));
		memset(vp->queue[i].status, 0, sizeof(vp->queue[i].status));
	}
	vp->started = true;
	rdma_phy_start(&vp->dev, &vp->phy);
	rdma_retransmits_start(&vp->dev, &vp->retransmits);
	return spw_peer_conn_start(vp->conn);
}

/* With an SRQ recv_out counts nothing, so only sends are waited for: shared receives are not
 * flushed by a QP in ERR. */
static bool verbs_rc_is_out(const struct verbs_rc_queue *q)
{
	uint32_t out = q->sqe_out;

	for (uint32_t i = 0; i < q->peer_cnt; i++)
		out += q->peer[i].recv_out;
	return out != 0;
}

/* Takes the flush of a queue's QPs; every message that still arrives is dropped and counted. What
 * is not flushed in time is returned anyway. */
static void verbs_rc_drain(struct verbs_rc_queue *q)
{
	struct spw_desc desc[SPW_BURST_MAX];
	struct rdma_drain end = {0};
	bool more = true;

	for (uint32_t i = 0; i < q->peer_cnt; i++) {
		q->peer[i].side = SPW_PEER_SIDE_BROKEN;
		if (spw_peer_state(q->peer[i].rc) == SPW_PEER_DRAIN && !q->peer[i].marked)
			verbs_rc_mark_end(q, &q->peer[i]);
		verbs_rc_flush(q, &q->peer[i]);
	}
	while (more && verbs_rc_is_out(q)) {
		more = rdma_drain_wait(&q->port->dev, &end);
		verbs_rc_rx(q, desc, SPW_BURST_MAX);
		verbs_rc_reap(q);
	}
}

static int verbs_rc_stop(struct spw_port *port)
{
	struct verbs_rc_port *vp = verbs_rc_of(port);

	if (!vp->started)
		return 0;
	vp->started = false;
	spw_peer_conn_stop(vp->conn);
	for (uint16_t i = 0; i < port->queue_cnt; i++) {
		verbs_rc_drain(&vp->queue[i]);
		verbs_rc_queue_unmake(&vp->queue[i]);
	}
	return 0;
}

/* ---- counters ---- */

static void verbs_rc_stat(struct spw_port *port, struct spw_port_stat *stat)
{
	struct verbs_rc_port *vp = verbs_rc_of(port);

	for (uint16_t i = 0; i < port->queue_cnt; i++)
		port_stat_add(stat, &vp->queue[i].stat);
	stat->missed_known = true; /* a reliable connection misses nothing */
	spw_peer_conn_stat(vp->conn, stat);
	rdma_phy_stat(&vp->phy, stat);
	rdma_retransmits_stat(&vp->dev, &vp->retransmits, stat);
}

/* Walks the table of slots. Called outside the bursts. */
static void verbs_rc_slots(struct spw_port *port, uint16_t queue, struct spw_port_slots *slots)
{
	const struct verbs_rc_queue *q = &verbs_rc_of(port)->queue[queue];

	slots->lent = q->lent_cnt;
	slots->in_tx = q->tx_cnt;
	for (uint32_t i = 0; i < q->pool->slot_cnt; i++)
		slots->in_rx += q->slot[i].where == VERBS_POSTED || q->slot[i].where == VERBS_FREE;
}

const struct spw_port_driver verbs_rc_driver = {
	.name = "verbs",
	.region_attach = verbs_rc_region_attach,
	.queue_setup = verbs_rc_queue_setup,
	.loop = verbs_rc_loop,
	.start = verbs_rc_start,
	.stop = verbs_rc_stop,
	.stat = verbs_rc_stat,
	.slots = verbs_rc_slots,
	.close = verbs_rc_close,
};
