/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The objects' part of recovery (struct mlx5_eth_ops), called from eth/err.c by the queue's lcore:
 * reset and ready; a new memory key where the device refused the old one; re-created objects where
 * a completion queue itself failed, which no reset repairs.
 *
 * What queues share (flow rules, the indirection table, memory keys) is changed under
 * rdma_dev.lock.
 */

#include "port/mlx5/eth/eth.h"

/* Asynchronous events come to the control thread; rdma_side_take moves them to the owner and
 * filters late ones. */
static uint16_t mlx5_eth_ops_async(void *obj, struct spw_port_event *event, uint16_t cnt)
{
	struct mlx5_eth_queue_ctl *eq = obj;
	const char *rx = rdma_side_take(&eq->rx_side, eq->q.cq_ci),
		   *tx = rdma_side_take(&eq->tx_side, eq->q.tx_cq_ci);

	if (rx)
		mlx5_eth_rx_failed(&eq->q, rx);
	if (tx)
		mlx5_eth_tx_failed(&eq->q, tx);
	return rdma_ctl_events(eq->port->eth.ctl, eq->q.index, event, cnt);
}

static uint64_t mlx5_eth_ops_tsc_to_ns(void *obj, uint64_t ticks)
{
	return spw_tsc_to_ns(&((struct mlx5_eth_queue_ctl *)obj)->port->dev.rdma.tsc, ticks);
}

/* ---- receive ---- */

static int mlx5_eth_ops_rq_reset(void *obj)
{
	struct mlx5_eth_queue_ctl *eq = obj;

	rdma_side_reset(&eq->rx_side);
	return port_eth_wq_state(eq->rx.wq, IBV_WQS_RESET);
}

/* Creates the new objects first: if that fails, the old ones stay for the next attempt. */
static int mlx5_eth_rx_recreate_objects(struct mlx5_eth_queue_ctl *eq)
{
	struct mlx5_eth_port *ep = eq->port;
	struct mlx5_eth_rx_obj fresh;
	int rc = mlx5_eth_rx_make(&ep->dev, &eq->plan, &eq->rx_side, eq->q.rq_lkey,
				  eq->q.rq_head_lkey, &fresh);

	if (rc)
		return rc;
	rc = mlx5_eth_rx_attach(&eq->q, &fresh.cqmem, &fresh.rqmem, true);
	if (rc) {
		mlx5_eth_rx_free(&fresh);
		return rc;
	}
	rdma_steer_down(&ep->eth.steer); /* its rules refer to the old work queue */
	mlx5_eth_rx_free(&eq->rx);
	rdma_side_reset(&eq->rx_side); /* no event of the old objects follows */
	eq->rx = fresh;
	ep->eth.wq[eq->q.index] = fresh.wq;
	eq->rx_side.recreate = false;
	return 0;
}

/* Whether it is known what made the direction fail: a CQE names it, or the CQ itself failed. */
static bool mlx5_eth_is_known(const struct rdma_side *side, const struct mlx5_err *err)
{
	return err->syndrome || side->recreate;
}

/* Whether the device no longer takes the key; where nothing says what is wrong, it is suspected. A
 * new key costs all queues a reset, since the old one ends for them, too. */
static bool mlx5_eth_is_dead_key(const struct rdma_side *side, const struct mlx5_err *err)
{
	return err->syndrome == SPW_PRM_SYN_LOCAL_PROT_ERR ||
	       (!err->syndrome && rdma_side_is_stuck(side));
}

/* After a local protection error the key itself may be broken: the region is registered again, and
 * that of the heads, since the error does not say which. */
static int mlx5_eth_rx_recreate_key(struct mlx5_eth_queue_ctl *eq)
{
	struct rdma_dev *dev = &eq->port->dev.rdma;
	const struct spw_pool *pool = eq->q.pool;
	uint32_t lkey, head_lkey = 0;
	int rc = rdma_dev_key_replace(dev, pool->region->id, eq->q.rq_lkey, &lkey);

	if (!rc && spw_pool_is_split(pool))
		rc = rdma_dev_key_replace(dev, pool->head_region->id, eq->q.rq_head_lkey,
					  &head_lkey);
	if (rc)
		return rc;
	eq->rx.rqmem.lkey = lkey;
	eq->rx.rqmem.head_lkey = head_lkey;
	return mlx5_eth_rx_attach(&eq->q, &eq->rx.cqmem, &eq->rx.rqmem, false);
}

/* Under rdma_dev.lock: rules and the indirection table name the WQs of all queues. */
static int mlx5_eth_rx_recreate_shared(struct mlx5_eth_queue_ctl *eq)
{
	struct mlx5_eth_port *ep = eq->port;
	int rc = eq->rx_side.recreate ? mlx5_eth_rx_recreate_objects(eq) : 0;

	rc = rc ? rc : port_eth_wq_state(eq->rx.wq, IBV_WQS_RDY);
	return rc ? rc : port_eth_steer(&ep->eth);
}

/* Key, objects, state, rules, in this order; each may fail, and the whole is repeated then. */
static int mlx5_eth_ops_rq_ready(void *obj)
{
	struct mlx5_eth_queue_ctl *eq = obj;
	const bool known = mlx5_eth_is_known(&eq->rx_side, &eq->q.rx_err);
	int rc = mlx5_eth_is_dead_key(&eq->rx_side, &eq->q.rx_err) ? mlx5_eth_rx_recreate_key(eq)
								   : 0;

	if (rc)
		return rc;
	pthread_mutex_lock(&eq->port->dev.rdma.lock);
	rc = mlx5_eth_rx_recreate_shared(eq);
	pthread_mutex_unlock(&eq->port->dev.rdma.lock);
	if (!rc)
		rdma_side_recovered(&eq->rx_side, known);
	return rc;
}

/* ---- send ---- */

static int mlx5_eth_ops_sq_reset(void *obj)
{
	struct mlx5_eth_queue_ctl *eq = obj;

	rdma_side_reset(&eq->tx_side);
	return port_eth_sq_reset(eq->tx.qp);
}

static int mlx5_eth_tx_recreate_objects(struct mlx5_eth_queue_ctl *eq)
{
	struct mlx5_eth_tx_obj fresh;
	int rc = mlx5_eth_tx_make(&eq->port->dev, &eq->plan, &eq->tx_side, eq->q.sq_lkey, &fresh);

	if (rc)
		return rc;
	rc = mlx5_eth_tx_attach(&eq->q, &fresh.cqmem, &fresh.sqmem, true);
	if (rc) {
		mlx5_eth_tx_free(&fresh);
		return rc;
	}
	mlx5_eth_tx_free(&eq->tx);
	rdma_side_reset(&eq->tx_side);
	eq->tx = fresh;
	eq->tx_side.recreate = false;
	return 0;
}

static int mlx5_eth_ops_sq_ready(void *obj)
{
	struct mlx5_eth_queue_ctl *eq = obj;
	const bool known = mlx5_eth_is_known(&eq->tx_side, &eq->q.tx_err);
	int rc = 0;

	if (mlx5_eth_is_dead_key(&eq->tx_side, &eq->q.tx_err))
		rc = rdma_dev_key_replace(&eq->port->dev.rdma, eq->q.pool->region->id,
					  eq->q.sq_lkey, &eq->q.sq_lkey);
	if (!rc && eq->tx_side.recreate)
		rc = mlx5_eth_tx_recreate_objects(eq);
	rc = rc ? rc : port_eth_sq_ready(&eq->port->dev.rdma, eq->tx.qp);
	if (!rc)
		rdma_side_recovered(&eq->tx_side, known);
	return rc;
}

const struct mlx5_eth_ops mlx5_eth_recover_ops = {
	.rq_reset = mlx5_eth_ops_rq_reset,
	.rq_ready = mlx5_eth_ops_rq_ready,
	.sq_reset = mlx5_eth_ops_sq_reset,
	.sq_ready = mlx5_eth_ops_sq_ready,
	.async = mlx5_eth_ops_async,
	.tsc_to_ns = mlx5_eth_ops_tsc_to_ns,
};
