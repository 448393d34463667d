/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The mlx5 driver's calls for mode=rc: open, set up, start, stop, counters (port/spw_port.h has the
 * contracts).
 *
 * Where the peers' slots are (enum mlx5_rc_slots_at), so that each exit returns them once:
 *
 *   pool           mlx5_rc_peers_setup     ─► taken
 *   taken          mlx5_rc_lay             ─► in the queue
 *   in the queue   mlx5_rc_slots_to_pool   ─► pool
 *
 * Order at stop, where nothing may be lost without being counted:
 *
 *   mlx5_rc_send_out         what was sent is acknowledged, or its time is over
 *   spw_peer_conn_stop       no control thread any more; QPs that were in use are in ERR
 *   mlx5_rc_drain            the flush is taken; messages that nobody polls are counted
 *   mlx5_rc_obj_destroy_qps  the NIC touches no slot from here on
 *   mlx5_rc_slots_to_pool    all slots that are not lent go to the pool
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "port/mlx5/rc/rc.h"
#include "port/peer_slots.h"

#define SQ_LIMIT_LATENCY    128u /* sends under way of one peer, by profile */
#define SQ_LIMIT_THROUGHPUT 512u
#define SQ_LIMIT_MIN        64u
#define SQ_LIMIT_MAX        4096u

static const struct spw_port_key mlx5_rc_key[] = {
	{"mode", "rc", "Reliable connections: messages of 1 byte to 64 MiB between peers.", NULL, 0,
	 0},
	PORT_PEERS_KEY_GID,
};
const struct spw_port_keys mlx5_rc_keys = {"mode=rc", mlx5_rc_key, SPW_ARRAY_CNT(mlx5_rc_key)};
static const struct spw_port_keys *const mlx5_rc_sets[] = {&mlx5_rc_keys, &spw_peer_keys, NULL};

/* ---- open ---- */

static int mlx5_rc_check_spec(const struct spw_port_spec *spec, struct mlx5_rc_port *rp)
{
	int rc = port_peers_parse(spec, mlx5_rc_sets, &rp->peers);

	if (!rc && !spec->device[0])
		rc = spw_err(EINVAL, "no device: use mlx5:mlx5_0,mode=rc,listen=ADDR:PORT "
				     "(ibv_devices lists them)");
	return rc;
}

static int mlx5_rc_stop(struct spw_port *port);

/* Returns the slots of the peers to the pool. The QPs are destroyed. */
static void mlx5_rc_slots_to_pool(struct mlx5_rc_queue_ctl *rq)
{
	if (rq->slots_at == SLOTS_IN_QUEUE)
		mlx5_rc_return_slots(&rq->q);
	else if (rq->slots_at == SLOTS_TAKEN)
		port_slots_give(rq->pool, rq->slot_first, rq->plan.peers * rq->plan.share);
	rq->slots_at = SLOTS_IN_POOL;
}

/* Also undoes a failed open, so every step accepts what was not made. The objects are freed
 * before the connections: a QP refers to a peer's PD, which lib/peer owns. */
static void mlx5_rc_close(struct spw_port *port)
{
	struct mlx5_rc_port *rp = mlx5_rc_of(port);

	mlx5_rc_stop(port);
	for (uint16_t i = 0; i < port->queue_cnt && rp->queue; i++) {
		mlx5_log_syndromes(port->name, i, rp->queue[i].q.syndrome);
		mlx5_rc_obj_free(&rp->queue[i], rp->queue[i].obj);
		mlx5_rc_slots_to_pool(&rp->queue[i]);
		mlx5_rc_queue_fini(&rp->queue[i].q);
	}
	port_peers_close(&rp->peers);
	mlx5_dev_close(&rp->dev);
	free(rp->queue);
	free(rp);
}

static int mlx5_rc_open(const struct spw_port_spec *spec, uint16_t index, uint16_t queue_cnt,
			struct spw_port **port_out)
{
	struct mlx5_rc_port *rp =
		port_alloc(&port_mlx5_rc_driver, spec, index, queue_cnt, sizeof(*rp));
	int rc;

	if (!rp)
		return -ENOMEM;
	rp->queue = port_queues_alloc(queue_cnt, sizeof(*rp->queue));
	rc = rp->queue ? mlx5_rc_check_spec(spec, rp) : -ENOMEM;
	rc = rc ? rc : mlx5_dev_open(spec->device, &rp->dev);
	rc = rc ? rc : rdma_dev_check_link(&rp->dev.rdma);
	rc = rc ? rc : port_peers_open(spec, &rp->dev.rdma, mlx5_rc_async, &rp->peers);
	if (rc) {
		mlx5_rc_close(&rp->peers.base);
		return rc;
	}
	rp->peers.base.caps.nic_clock_hz = rdma_dev_clock_hz(&rp->dev.rdma);
	*port_out = &rp->peers.base;
	return 0;
}

/* ---- set-up ---- */

/* A receive ring is rounded up to a power of 2 by libmlx5, and each of its entries can make a CQE:
 * the CQ counts the rounded sizes. A mini-CQE has neither the timestamp of the latency profile nor
 * the immediate of op=write. Stamps and compression that the device lacks are left out, not
 * refused. */
static int mlx5_rc_plan_make(const struct mlx5_rc_port *rp, const struct spw_port_queue_conf *conf,
			     uint16_t queue, struct mlx5_rc_plan *plan)
{
	bool latency = !conf->profile || strcmp(conf->profile, "throughput"),
	     write = rp->peers.conf.op == SPW_PEER_OP_WRITE;
	bool compressed = !latency && !write &&
			  rp->dev.dv.cqe_comp_caps.supported_format & MLX5DV_CQE_RES_FORMAT_HASH;
	uint32_t limit = conf->ring_size ? conf->ring_size
			 : latency       ? SQ_LIMIT_LATENCY
					 : SQ_LIMIT_THROUGHPUT;
	int rc = spw_peer_conn_share(rp->peers.conn, queue, port_conf_slots(conf), &plan->share);

	if (rc)
		return rc;
	if (!SPW_IS_POW2(limit) || limit < SQ_LIMIT_MIN || limit > SQ_LIMIT_MAX)
		return spw_err(EINVAL, "a ring of %u: mode=rc wants a power of 2 from %u to %u",
			       limit, SQ_LIMIT_MIN, SQ_LIMIT_MAX);
	plan->flags = (latency && rp->peers.base.caps.nic_clock_hz ? MLX5_RC_STAMP : 0) |
		      (rp->peers.conf.srq ? MLX5_RC_SRQ : 0) | (write ? MLX5_RC_WRITE : 0) |
		      (compressed ? MLX5_RC_COMPRESSED : 0);
	plan->peers = (rp->peers.conf.peer_max - queue + rp->peers.base.queue_cnt - 1) /
		      rp->peers.base.queue_cnt;
	plan->recvs = plan->share + (write ? SPW_PEER_CTRL_RESERVE : 0);
	plan->cq_cnt = spw_pow2_ceil32(plan->peers * spw_pow2_ceil32(plan->recvs));
	plan->tx_cq_cnt = spw_pow2_ceil32(plan->peers * limit);
	plan->sq_limit = limit;
	return 0;
}

/* After an error slots_at says what is to be returned; mlx5_rc_close does it. */
static int mlx5_rc_peers_setup(struct mlx5_rc_queue_ctl *rq)
{
	const uint32_t share = rq->plan.share;
	int rc = port_slots_take(rq->pool, rq->slot_first, rq->plan.peers * share);

	rq->slots_at = rc ? SLOTS_IN_POOL : SLOTS_TAKEN;
	for (uint32_t i = 0; i < rq->plan.peers && !rc; i++) {
		const struct spw_peer_memory memory =
			port_slots_memory(rq->pool, rq->slot_first + i * share, share, rq->lkey);

		rc = spw_peer_conn_peer_setup(rq->port->peers.conn, mlx5_rc_conn_peer(rq, i)->index,
					      &memory);
	}
	return rc;
}

/* A device whose stamps are of another clock refuses the QPs: then messages go without. */
static int mlx5_rc_setup_obj(struct mlx5_rc_queue_ctl *rq, struct mlx5_rc_obj **obj_out)
{
	int rc = mlx5_rc_obj_make(rq, obj_out);

	if (rc != -EOPNOTSUPP || !(rq->plan.flags & MLX5_RC_STAMP))
		return rc;
	rq->plan.flags &= ~(unsigned int)MLX5_RC_STAMP;
	rq->port->peers.base.caps.nic_clock_hz = 0;
	rc = mlx5_rc_obj_make(rq, obj_out);
	if (!rc)
		spw_info("port %s, queue %u: " MLX5_NO_STAMPS, rq->port->peers.base.name,
			 rq->index);
	return rc;
}

/* lib/peer registers the peers' memory before the QPs are made, since a QP needs the PD. Until
 * mlx5_rc_lay the objects are this function's, then the queue's. */
static int mlx5_rc_queue_setup(struct spw_port *port, uint16_t queue,
			       const struct spw_port_queue_conf *conf)
{
	struct mlx5_rc_port *rp = mlx5_rc_of(port);
	struct mlx5_rc_queue_ctl *rq = &rp->queue[queue];
	struct mlx5_rc_obj *obj = NULL;
	int rc;

	if (rq->port)
		return spw_err(EBUSY, "it was set up before");
	rq->port = rp;
	rq->index = queue;
	rq->pool = conf->pool;
	rq->slot_first = conf->slot_first;
	rc = rdma_dev_key(&rp->dev.rdma, conf->pool->region->id, &rq->lkey);
	rc = rc ? rc : mlx5_rc_plan_make(rp, conf, queue, &rq->plan);
	rc = rc ? rc : mlx5_rc_peers_setup(rq);
	rc = rc ? rc : mlx5_rc_setup_obj(rq, &obj);
	rc = rc ? rc : mlx5_rc_lay(rq, obj);
	if (rc) {
		mlx5_rc_obj_free(rq, obj);
		return rc;
	}
	rq->slots_at = SLOTS_IN_QUEUE;
	mlx5_rc_queue_calls(&rq->q, &port->queue[queue]);
	port->queue[queue].events = mlx5_rc_events;
	return 0;
}

/* ---- start and stop ---- */

/* Once: the litmus may be the first to ask. */
static void mlx5_rc_queues_post_shared(struct mlx5_rc_port *rp)
{
	for (uint16_t i = 0;
	     i < rp->peers.base.queue_cnt && rp->peers.conf.srq && !rp->peers.started; i++)
		mlx5_rc_post_shared(&rp->queue[i].q);
	rp->peers.started = true; /* even a failed start has to be stopped */
}

static int mlx5_rc_loop(struct spw_port *port, uint16_t queue, uint8_t *head_out)
{
	struct mlx5_rc_port *rp = mlx5_rc_of(port);
	int rc = port_peers_loop_end(&rp->peers);

	if (rc)
		return rc;
	mlx5_rc_queues_post_shared(rp);
	return port_peers_loop(&rp->peers, queue, head_out);
}

/* What the litmus counted belongs to no run. */
static void mlx5_rc_stat_reset(struct mlx5_rc_queue *q)
{
	memset(&q->stat, 0, sizeof(q->stat));
	memset(q->syndrome, 0, sizeof(q->syndrome));
	q->control_rx = q->control_tx = 0;
}

/* Shared receives are posted before anybody can connect: port_peers_start comes last. */
static int mlx5_rc_start(struct spw_port *port)
{
	struct mlx5_rc_port *rp = mlx5_rc_of(port);
	int rc = port_peers_loop_end(&rp->peers);

	if (rc)
		return rc;
	for (uint16_t i = 0; i < port->queue_cnt; i++)
		mlx5_rc_stat_reset(&rp->queue[i].q);
	mlx5_rc_queues_post_shared(rp);
	return port_peers_start(&rp->peers);
}

/* Waits for the acknowledgements of what was sent; what has none in time is flushed. */
static void mlx5_rc_send_out(struct mlx5_rc_queue_ctl *rq)
{
	struct rdma_drain drain = {0};
	bool more = true;

	while (more && rq->q.in_tx_cnt) {
		more = rdma_drain_wait(&rq->port->dev.rdma, &drain);
		mlx5_rc_reap(&rq->q);
	}
}

static int mlx5_rc_stop(struct spw_port *port)
{
	struct mlx5_rc_port *rp = mlx5_rc_of(port);

	if (!rp->peers.started)
		return 0;
	rp->peers.started = false;
	for (uint16_t i = 0; i < port->queue_cnt; i++)
		mlx5_rc_send_out(&rp->queue[i]);
	spw_peer_conn_stop(rp->peers.conn);
	for (uint16_t i = 0; i < port->queue_cnt; i++)
		mlx5_rc_drain(&rp->queue[i]);
	for (uint16_t i = 0; i < port->queue_cnt; i++) {
		mlx5_rc_obj_destroy_qps(&rp->queue[i], rp->queue[i].obj);
		mlx5_rc_slots_to_pool(&rp->queue[i]);
	}
	return 0;
}

/* ---- counters ---- */

static void mlx5_rc_stat(struct spw_port *port, struct spw_port_stat *stat)
{
	struct mlx5_rc_port *rp = mlx5_rc_of(port);

	for (uint16_t i = 0; i < port->queue_cnt; i++)
		port_stat_add(stat, &rp->queue[i].q.stat);
	port_peers_stat(&rp->peers, stat);
}

static void mlx5_rc_slots(struct spw_port *port, uint16_t queue, struct spw_port_slots *slots)
{
	mlx5_rc_queue_slots(&mlx5_rc_of(port)->queue[queue].q, slots);
}

static int mlx5_rc_pair_clock(struct spw_port *port, uint64_t *nic_ticks_out, uint64_t *tsc_out,
			      uint64_t *uncertainty_ns_out)
{
	return rdma_dev_pair_clock(&mlx5_rc_of(port)->dev.rdma, nic_ticks_out, tsc_out,
				   uncertainty_ns_out);
}

const struct spw_port_driver port_mlx5_rc_driver = {
	.name = "mlx5",
	.keys = mlx5_rc_sets,
	.open = mlx5_rc_open,
	.region_attach = port_peers_region_attach,
	.queue_setup = mlx5_rc_queue_setup,
	.loop = mlx5_rc_loop,
	.start = mlx5_rc_start,
	.stop = mlx5_rc_stop,
	.stat = mlx5_rc_stat,
	.slots = mlx5_rc_slots,
	.pair_clock = mlx5_rc_pair_clock,
	.close = mlx5_rc_close,
};
