/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The objects of a queue of mode=eth and their states.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "port/verbs/verbs_eth.h"

#define RING_DFLT 1024u
#define SQ_DFLT   512u

static uint32_t ring_size(uint32_t want, uint32_t dflt, uint32_t max)
{
	want = want ? want : dflt;
	while (want > max && want > 1)
		want /= 2;
	return want;
}

static int make_rx(struct verbs_eth_queue *q)
{
	struct rdma_dev *dev = &q->port->dev;
	struct ibv_wq_init_attr attr = {.wq_type = IBV_WQT_RQ, .max_wr = q->ring, .max_sge = 1, .pd = dev->pd};

	q->rx_cq = ibv_create_cq(dev->ctx, (int)q->ring, NULL, NULL, 0);
	if (!q->rx_cq)
		return spw_err(errno, "no completion queue of %u: %s", q->ring, strerror(errno));
	attr.cq = q->rx_cq;
	q->wq = ibv_create_wq(dev->ctx, &attr);
	return q->wq ? 0 : spw_err(errno, "no receive work queue of %u: %s", q->ring, strerror(errno));
}

static int make_tx(struct verbs_eth_queue *q)
{
	struct rdma_dev *dev = &q->port->dev;
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RAW_PACKET, .cap = {.max_send_wr = q->sq_mask + 1, .max_send_sge = 1}};

	q->tx_cq = ibv_create_cq(dev->ctx, (int)q->sq_mask + 1, NULL, NULL, 0);
	if (!q->tx_cq)
		return spw_err(errno, "no completion queue of %u: %s", q->sq_mask + 1, strerror(errno));
	attr.send_cq = attr.recv_cq = q->tx_cq;
	q->qp = ibv_create_qp(dev->pd, &attr);
	if (q->qp)
		return 0;
	if (errno == EPERM)
		return spw_err(EPERM, "raw Ethernet needs CAP_NET_RAW: run as root, or setcap cap_net_raw+ep on the program");
	return spw_err(errno, "no raw Ethernet send queue of %u: %s", q->sq_mask + 1, strerror(errno));
}

int verbs_eth_queue_make(struct verbs_eth_queue *q, const struct spw_port_queue_conf *conf)
{
	const uint32_t max = (uint32_t)q->port->dev.attr.orig_attr.max_qp_wr, half = conf->pool->slot_cnt / 2;
	int rc;

	q->pool = conf->pool;
	q->ring = ring_size(conf->ring_size, SPW_MIN(RING_DFLT, spw_pow2_ceil32(half + 1) / 2), max);
	q->sq_mask = ring_size(conf->ring_size, SQ_DFLT, max) - 1;
	q->frame_max = (uint32_t)conf->pool->slot_bytes;
	if (q->ring + SPW_BURST_MAX > conf->pool->slot_cnt)
		return spw_err(EINVAL, "%u slots cannot fill a receive ring of %u and leave a burst of %u: use more slots or a "
			       "smaller ring", conf->pool->slot_cnt, q->ring, SPW_BURST_MAX);
	q->posted = calloc(conf->pool->slot_cnt, 1);
	q->tx_slot = calloc(q->sq_mask + 1, sizeof(*q->tx_slot));
	q->tx_len = calloc(q->sq_mask + 1, sizeof(*q->tx_len));
	if (!q->posted || !q->tx_slot || !q->tx_len)
		return spw_err(ENOMEM, "no memory for rings of %u", q->ring);
	rc = make_rx(q);
	return rc ? rc : make_tx(q);
}

void verbs_eth_queue_free(struct verbs_eth_queue *q)
{
	if (q->qp)
		ibv_destroy_qp(q->qp);
	if (q->wq)
		ibv_destroy_wq(q->wq);
	if (q->rx_cq)
		ibv_destroy_cq(q->rx_cq);
	if (q->tx_cq)
		ibv_destroy_cq(q->tx_cq);
	free(q->posted);
	free(q->tx_slot);
	free(q->tx_len);
}

static int wq_state(struct verbs_eth_queue *q, enum ibv_wq_state state)
{
	struct ibv_wq_attr attr = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = state};
	int error = ibv_modify_wq(q->wq, &attr);

	return error ? spw_err(error, "queue %u: its receive work queue to state %d: %s", q->index, state, strerror(error)) : 0;
}

int verbs_eth_rx_ready(struct verbs_eth_queue *q)
{
	return wq_state(q, IBV_WQS_RDY);
}

int verbs_eth_rx_reset(struct verbs_eth_queue *q)
{
	return wq_state(q, IBV_WQS_RESET);
}

static int qp_state(struct verbs_eth_queue *q, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state, .port_num = q->port->dev.port_num};
	int error = ibv_modify_qp(q->qp, &attr, IBV_QP_STATE | (state == IBV_QPS_INIT ? IBV_QP_PORT : 0));

	return error ? spw_err(error, "queue %u: its send queue to state %d: %s", q->index, state, strerror(error)) : 0;
}

int verbs_eth_tx_ready(struct verbs_eth_queue *q)
{
	int rc = qp_state(q, IBV_QPS_INIT);

	rc = rc ? rc : qp_state(q, IBV_QPS_RTR);
	return rc ? rc : qp_state(q, IBV_QPS_RTS);
}

int verbs_eth_tx_reset(struct verbs_eth_queue *q)
{
	return qp_state(q, IBV_QPS_RESET);
}
