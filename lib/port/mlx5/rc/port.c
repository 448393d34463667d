/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The mlx5 driver's own calls for mode=rc: open, set up, close. The others are port/rc_port.c
 * (port/spw_port.h has the contracts).
 *
 *   open            keys ─► device ─► link ─► port_peers_open (lib/peer), with mlx5_rc_async for
 *                   the events of CQs and SRQs
 *   set-up          slots leave the pool ─► plan (sizes, flags) ─► objects (obj.c) ─► laid under
 *                   the queue's data path (mlx5_rc_lay) ─► the burst calls
 *   close           stop ─► QPs, slots back to the pool ─► objects ─► connections ─► device
 *
 * The plan is kept with the queue, because a CQ or SRQ that failed is replaced by one of the same
 * sizes (recover.c).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "port/mlx5/rc/rc.h"

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

static void mlx5_rc_destroy_qps(struct port_rc_queue *q)
{
	struct mlx5_rc_queue_ctl *rq =
		spw_container_of(mlx5_rc_queue_of(q), struct mlx5_rc_queue_ctl, q);

	mlx5_rc_obj_destroy_qps(rq, rq->obj);
}

/* Also undoes a failed open, so every step accepts what was not made. The objects are freed
 * before the connections: a QP refers to a peer's PD, which lib/peer owns. */
static void mlx5_rc_close(struct spw_port *port)
{
	struct mlx5_rc_port *rp = mlx5_rc_of(port);

	port_rc_stop(port);
	for (uint16_t i = 0; i < port->queue_cnt && rp->queue; i++) {
		struct mlx5_rc_queue_ctl *rq = &rp->queue[i];

		mlx5_log_syndromes(port->name, i, rq->q.rc.error);
		port_rc_queue_close(&rq->q.rc);
		mlx5_rc_obj_free(rq, rq->obj);
		mlx5_rc_queue_fini(&rq->q);
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
	rp->peers.queue = rp->queue = port_queues_alloc(queue_cnt, sizeof(*rp->queue));
	rp->peers.queue_bytes = sizeof(*rp->queue);
	rp->peers.destroy_qps = mlx5_rc_destroy_qps;
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
			     const struct port_rc_queue *q, struct mlx5_rc_plan *plan)
{
	bool latency = !conf->profile || strcmp(conf->profile, "throughput"),
	     write = rp->peers.conf.op == SPW_PEER_OP_WRITE;
	bool compressed = !latency && !write &&
			  rp->dev.dv.cqe_comp_caps.supported_format & MLX5DV_CQE_RES_FORMAT_HASH;
	uint32_t limit = conf->ring_size ? conf->ring_size
			 : latency       ? SQ_LIMIT_LATENCY
					 : SQ_LIMIT_THROUGHPUT;

	if (!SPW_IS_POW2(limit) || limit < SQ_LIMIT_MIN || limit > SQ_LIMIT_MAX)
		return spw_err(EINVAL, "a ring of %u: mode=rc wants a power of 2 from %u to %u",
			       limit, SQ_LIMIT_MIN, SQ_LIMIT_MAX);
	plan->flags = (latency && rp->peers.base.caps.nic_clock_hz ? MLX5_RC_STAMP : 0) |
		      (rp->peers.conf.srq ? PORT_RC_SRQ : 0) | (write ? PORT_RC_WRITE : 0) |
		      (compressed ? MLX5_RC_COMPRESSED : 0);
	plan->recvs = q->share + (write ? SPW_PEER_CTRL_RESERVE : 0);
	plan->cq_cnt = spw_pow2_ceil32(q->peer_cnt * spw_pow2_ceil32(plan->recvs));
	plan->tx_cq_cnt = spw_pow2_ceil32(q->peer_cnt * limit);
	plan->sq_limit = limit;
	return 0;
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
			 rq->q.rc.index);
	return rc;
}

/* Until mlx5_rc_lay the objects are this function's, then the queue's. */
static int mlx5_rc_queue_setup(struct spw_port *port, uint16_t queue,
			       const struct spw_port_queue_conf *conf)
{
	struct mlx5_rc_port *rp = mlx5_rc_of(port);
	struct mlx5_rc_queue_ctl *rq = &rp->queue[queue];
	struct mlx5_rc_obj *obj = NULL;
	int rc = port_rc_queue_begin(port, queue, conf);

	if (rc)
		return rc;
	rq->port = rp;
	rc = mlx5_rc_plan_make(rp, conf, &rq->q.rc, &rq->plan);
	rc = rc ? rc : mlx5_rc_setup_obj(rq, &obj);
	rc = rc ? rc : mlx5_rc_lay(rq, obj);
	if (rc) {
		mlx5_rc_obj_free(rq, obj);
		return rc;
	}
	rq->q.rc.slots_at = PORT_RC_AT_QUEUE;
	mlx5_rc_queue_calls(&rq->q, &port->queue[queue]);
	port->queue[queue].events = mlx5_rc_events;
	return 0;
}

/* For the stamps of CQEs: the caller maps NIC ticks to the TSC by such pairs. */
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
	.loop = port_rc_loop,
	.start = port_rc_start,
	.stop = port_rc_stop,
	.stat = port_rc_stat,
	.slots = port_rc_slots,
	.pair_clock = mlx5_rc_pair_clock,
	.close = mlx5_rc_close,
};
