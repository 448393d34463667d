/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Mending a queue, called from spw_port_queue.events by its lcore: reset and ready of the objects, a new memory key where the
 * device refused the old one, and new objects where a completion queue itself failed (nothing else brings it back).
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "port/mlx5/mlx5_eth.h"

static uint16_t eth_async(void *obj, struct spw_port_event *event, uint16_t cnt)
{
	struct mlx5_eth_queue *eq = obj;
	const char *rx = rdma_side_take(&eq->rx_side), *tx = rdma_side_take(&eq->tx_side);

	if (rx)
		spw_mlx5_rx_told(&eq->q, rx);
	if (tx)
		spw_mlx5_tx_told(&eq->q, tx);
	return rdma_ctl_events(eq->port->ctl, eq->q.index, event, cnt);
}

static uint64_t eth_tsc_to_ns(void *obj, uint64_t ticks)
{
	return spw_tsc_to_ns(&((struct mlx5_eth_queue *)obj)->port->dev.rdma.tsc, ticks);
}

/* ---- receive --------------------------------------------------------------------------------------------------- */

/* What was told until now is what this reset mends. */
static int eth_rq_reset(void *obj)
{
	struct mlx5_eth_queue *eq = obj;

	rdma_side_take(&eq->rx_side);
	return mlx5_wq_state(eq->rx.wq, IBV_WQS_RESET);
}

/* New objects first: where they cannot be had, the old ones stay and the next try finds them. */
static int rx_renew_objects(struct mlx5_eth_queue *eq)
{
	struct mlx5_eth_port *ep = eq->port;
	struct mlx5_rx_obj fresh;
	int rc = mlx5_rx_make(&ep->dev, &eq->plan, &eq->rx_side, eq->q.rq_lkey, &fresh);

	if (rc)
		return rc;
	rc = spw_mlx5_rx_renew(&eq->q, &fresh.cqmem, &fresh.rqmem, true);
	if (rc) {
		mlx5_rx_free(&fresh);
		return rc;
	}
	rdma_steer_down(&ep->steer); /* it holds the old work queue */
	mlx5_rx_free(&eq->rx);
	eq->rx = fresh;
	ep->wq[eq->q.index] = fresh.wq;
	eq->rx_side.renew = false;
	return 0;
}

static int rx_renew_key(struct mlx5_eth_queue *eq)
{
	uint32_t lkey;
	int rc = rdma_dev_key_renew(&eq->port->dev.rdma, eq->q.pool->region->id, eq->q.rq_lkey, &lkey);

	if (rc)
		return rc;
	eq->rx.rqmem.lkey = lkey;
	return spw_mlx5_rx_renew(&eq->q, &eq->rx.cqmem, &eq->rx.rqmem, false);
}

static int rx_renew_shared(struct mlx5_eth_queue *eq)
{
	struct mlx5_eth_port *ep = eq->port;
	int rc = eq->rx_side.renew ? rx_renew_objects(eq) : 0;

	rc = rc ? rc : mlx5_wq_state(eq->rx.wq, IBV_WQS_RDY);
	return rc ? rc : rdma_steer_up(&ep->dev.rdma, &ep->flow, ep->wq, ep->base.queue_cnt, &ep->steer);
}

static int eth_rq_ready(void *obj)
{
	struct mlx5_eth_queue *eq = obj;
	int rc = eq->q.rx_err.syndrome == SPW_PRM_SYN_LOCAL_PROT_ERR ? rx_renew_key(eq) : 0;

	if (rc)
		return rc;
	pthread_mutex_lock(&eq->port->dev.rdma.lock);
	rc = rx_renew_shared(eq);
	pthread_mutex_unlock(&eq->port->dev.rdma.lock);
	return rc;
}

/* ---- send -------------------------------------------------------------------------------------------------------- */

static int eth_sq_reset(void *obj)
{
	struct mlx5_eth_queue *eq = obj;

	rdma_side_take(&eq->tx_side);
	return mlx5_sq_reset(eq->tx.qp);
}

static int tx_renew_objects(struct mlx5_eth_queue *eq)
{
	struct mlx5_tx_obj fresh;
	int rc = mlx5_tx_make(&eq->port->dev, &eq->plan, &eq->tx_side, eq->q.sq_lkey, &fresh);

	if (rc)
		return rc;
	rc = spw_mlx5_tx_renew(&eq->q, &fresh.cqmem, &fresh.sqmem, true);
	if (rc) {
		mlx5_tx_free(&fresh);
		return rc;
	}
	mlx5_tx_free(&eq->tx);
	eq->tx = fresh;
	eq->tx_side.renew = false;
	return 0;
}

static int eth_sq_ready(void *obj)
{
	struct mlx5_eth_queue *eq = obj;
	int rc = 0;

	if (eq->q.tx_err.syndrome == SPW_PRM_SYN_LOCAL_PROT_ERR)
		rc = rdma_dev_key_renew(&eq->port->dev.rdma, eq->q.pool->region->id, eq->q.sq_lkey, &eq->q.sq_lkey);
	if (!rc && eq->tx_side.renew)
		rc = tx_renew_objects(eq);
	return rc ? rc : mlx5_sq_ready(&eq->port->dev, eq->tx.qp);
}

const struct spw_mlx5_ops mlx5_eth_ops = {
	.rq_reset = eth_rq_reset,
	.rq_ready = eth_rq_ready,
	.sq_reset = eth_sq_reset,
	.sq_ready = eth_sq_ready,
	.async = eth_async,
	.tsc_to_ns = eth_tsc_to_ns,
};
