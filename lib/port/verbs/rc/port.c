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
#include "port/verbs/verbs.h"
#include "port/verbs/rc/rc.h"

static const struct spw_port_key verbs_rc_key[] = {
	{"mode", "rc", "Reliable connections, as those of mlx5: either end can be either driver.",
	 NULL, 0, 0},
	VERBS_KEY_PORT,
	PORT_PEERS_KEY_GID,
};
const struct spw_port_keys verbs_rc_keys = {"mode=rc", verbs_rc_key, SPW_ARRAY_CNT(verbs_rc_key)};
static const struct spw_port_keys *const verbs_rc_sets[] = {&verbs_rc_keys, &spw_peer_keys, NULL};

static struct verbs_rc_port *verbs_rc_of(struct spw_port *port)
{
	return spw_container_of(port, struct verbs_rc_port, peers.base);
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

/* Also undoes a failed open or set-up. q->port marks queues that were set up. */
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
	port_peers_close(&vp->peers);
	rdma_dev_close(&vp->dev);
	free(vp->queue);
	free(vp);
}

/* Text first, as far as it can be checked without the device. */
static int verbs_rc_open_all(const struct spw_port_spec *spec, struct verbs_rc_port *vp)
{
	uint64_t port_num;
	int rc = port_peers_parse(spec, verbs_rc_sets, &vp->peers);

	rc = rc ? rc : spw_port_spec_number(spec, &verbs_rc_keys, "port", &port_num);
	rc = rc ? rc : rdma_dev_open(spec->device, (uint8_t)port_num, &vp->dev);
	rc = rc ? rc : rdma_dev_check_link(&vp->dev);
	return rc ? rc : port_peers_open(spec, &vp->dev, NULL, &vp->peers);
}

int verbs_rc_open(const struct spw_port_spec *spec, uint16_t index, uint16_t queue_cnt,
		  struct spw_port **port_out)
{
	struct verbs_rc_port *vp =
		port_alloc(&verbs_rc_driver, spec, index, queue_cnt, sizeof(*vp));
	int rc;

	if (!vp)
		return -ENOMEM;
	vp->queue = port_queues_alloc(queue_cnt, sizeof(*vp->queue));
	rc = vp->queue ? verbs_rc_open_all(spec, vp) : -ENOMEM;
	if (rc) {
		verbs_rc_close(&vp->peers.base);
		return rc;
	}
	*port_out = &vp->peers.base;
	return 0;
}

/* ---- set-up, start, stop ---- */

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
	q->op = vp->peers.conf.op;
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

/* The QP that was connected to itself is made again (verbs_rc_qp_again). */
static int verbs_rc_loop_end(struct verbs_rc_port *vp)
{
	const uint16_t loop = vp->peers.loop;
	int rc = port_peers_loop_end(&vp->peers);

	if (rc || !loop)
		return rc;
	return verbs_rc_qp_again(&vp->queue[loop - 1], vp->queue[loop - 1].peer);
}

static int verbs_rc_loop(struct spw_port *port, uint16_t queue, uint8_t *head_out)
{
	struct verbs_rc_port *vp = verbs_rc_of(port);
	int rc = verbs_rc_loop_end(vp);

	return rc ? rc : port_peers_loop(&vp->peers, queue, head_out);
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
	return port_peers_start(&vp->peers);
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

/* Idempotent; also called by close. */
static int verbs_rc_stop(struct spw_port *port)
{
	struct verbs_rc_port *vp = verbs_rc_of(port);

	if (!vp->peers.started)
		return 0;
	vp->peers.started = false;
	spw_peer_conn_stop(vp->peers.conn);
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
	port_peers_stat(&vp->peers, stat);
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
	.region_attach = port_peers_region_attach,
	.queue_setup = verbs_rc_queue_setup,
	.loop = verbs_rc_loop,
	.start = verbs_rc_start,
	.stop = verbs_rc_stop,
	.stat = verbs_rc_stat,
	.slots = verbs_rc_slots,
	.close = verbs_rc_close,
};
