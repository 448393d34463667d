/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The objects of a queue of mode=eth (receive: CQ and WQ; send: CQ and QP), and their replacement
 * after an error. Called by port.c at set-up and by recover.c.
 *
 *   receive   WQ   RESET ---> RDY --error--> ERR ---> RESET              port_eth_wq_state
 *   send      QP   RESET --INIT, RTR--> RTS --error--> ERR ---> RESET    port_eth_sq_ready, _reset
 *
 * The directions fail and recover apart from each other. A reset and a new start keep the objects;
 * a CQ that failed (side.recreate) cannot be reset, so its direction gets new ones. The context of
 * every object is its rdma_side, by which the control thread finds the direction of an event.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "port/verbs/eth/eth.h"

#define RING_DFLT 1024u
#define SQ_DFLT   512u

/* A size of the user's is lowered silently to what the device has, in steps of 2: rings stay powers
 * of 2 if they were. */
static uint32_t verbs_eth_ring_size(uint32_t want, uint32_t dflt, uint32_t max)
{
	want = want ? want : dflt;
	while (want > max && want > 1)
		want /= 2;
	return want;
}

/* ---- receive ---- */

/* Errors of creation are the caller's to report: verbs_eth_can_extend only asks. */
static struct ibv_cq_ex *verbs_eth_cq_extended(const struct rdma_dev *dev, uint32_t cnt,
					       struct rdma_side *side)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = cnt,
					   .cq_context = side,
					   .wc_flags = IBV_WC_EX_WITH_BYTE_LEN |
						       IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};

	return ibv_create_cq_ex(dev->ctx, &attr);
}

/* Creating one is the test: a driver may report a clock and still refuse such a CQ. */
bool verbs_eth_can_extend(struct rdma_dev *dev)
{
	struct ibv_cq_ex *cq = rdma_dev_clock_hz(dev) ? verbs_eth_cq_extended(dev, 1, NULL) : NULL;

	return cq && !ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
}

static void verbs_eth_rx_free(struct verbs_eth_rx *rx)
{
	if (rx->wq)
		ibv_destroy_wq(rx->wq);
	if (rx->cq)
		ibv_destroy_cq(rx->cq);
	*rx = (struct verbs_eth_rx){0};
}

/* On failure *rx holds what was made; the caller frees it with verbs_eth_rx_free, or at close. */
static int verbs_eth_rx_make(struct verbs_eth_queue *q, struct verbs_eth_rx *rx)
{
	const struct rdma_dev *dev = &q->port->dev;
	struct rdma_side *side = &q->rx_fault.side;
	struct ibv_wq_init_attr attr = {.wq_context = side,
					.wq_type = IBV_WQT_RQ,
					.max_wr = q->ring,
					.max_sge = 1,
					.pd = dev->pd};

	*rx = (struct verbs_eth_rx){0};
	if (q->port->extended)
		rx->ex = verbs_eth_cq_extended(dev, q->ring, side);
	rx->cq = rx->ex ? ibv_cq_ex_to_cq(rx->ex) : NULL;
	if (!q->port->extended)
		rx->cq = ibv_create_cq(dev->ctx, (int)q->ring, side, NULL, 0);
	if (!rx->cq)
		return spw_err(errno, "no completion queue of %u: %s", q->ring, strerror(errno));
	attr.cq = rx->cq;
	rx->wq = ibv_create_wq(dev->ctx, &attr);
	return rx->wq ? 0
		      : spw_err(errno, "no receive work queue of %u: %s", q->ring, strerror(errno));
}

/* ---- send ---- */

static void verbs_eth_tx_free(struct verbs_eth_tx *tx)
{
	if (tx->qp)
		ibv_destroy_qp(tx->qp);
	if (tx->cq)
		ibv_destroy_cq(tx->cq);
	*tx = (struct verbs_eth_tx){0};
}

/* The QP has no receives, but ibv_create_qp wants a receive CQ: it gets the one for sends. */
static int verbs_eth_tx_make(struct verbs_eth_queue *q, struct verbs_eth_tx *tx)
{
	const struct rdma_dev *dev = &q->port->dev;
	struct rdma_side *side = &q->tx_fault.side;
	struct ibv_qp_init_attr attr = {.qp_context = side,
					.qp_type = IBV_QPT_RAW_PACKET,
					.cap = {.max_send_wr = q->sq_mask + 1, .max_send_sge = 1}};

	*tx = (struct verbs_eth_tx){
		.cq = ibv_create_cq(dev->ctx, (int)q->sq_mask + 1, side, NULL, 0)};
	if (!tx->cq)
		return spw_err(errno, "no completion queue of %u: %s", q->sq_mask + 1,
			       strerror(errno));
	attr.send_cq = attr.recv_cq = tx->cq;
	tx->qp = ibv_create_qp(dev->pd, &attr);
	return tx->qp ? 0 : rdma_raw_denied("a send queue");
}

/* ---- both ---- */

/* The default ring is the largest power of 2 within half of the slots: the other half is lent or in
 * TX while the ring stays full. After an error verbs_eth_close frees what was made. */
int verbs_eth_queue_make(struct verbs_eth_queue *q, const struct spw_port_queue_conf *conf)
{
	const uint32_t max = (uint32_t)q->port->dev.attr.orig_attr.max_qp_wr,
		       slots = port_conf_slots(conf), half = slots / 2;
	int rc;

	q->pool = conf->pool;
	q->ring = verbs_eth_ring_size(conf->ring_size,
				      SPW_MIN(RING_DFLT, spw_pow2_ceil32(half + 1) / 2), max);
	q->sq_mask = verbs_eth_ring_size(conf->ring_size, SQ_DFLT, max) - 1;
	q->frame_max = (uint32_t)conf->pool->slot_bytes;
	if (q->ring + SPW_BURST_MAX > slots)
		return spw_err(EINVAL,
			       "%u slots cannot fill a receive ring of %u and leave a burst of %u: "
			       "use more slots or a "
			       "smaller ring",
			       slots, q->ring, SPW_BURST_MAX);
	q->posted = calloc(conf->pool->slot_cnt, 1);
	q->tx_slot = calloc(q->sq_mask + 1, sizeof(*q->tx_slot));
	q->tx_len = calloc(q->sq_mask + 1, sizeof(*q->tx_len));
	if (!q->posted || !q->tx_slot || !q->tx_len)
		return spw_err(ENOMEM, "no memory for rings of %u", q->ring);
	rc = verbs_eth_rx_make(q, &q->rx);
	return rc ? rc : verbs_eth_tx_make(q, &q->tx);
}

void verbs_eth_queue_free(struct verbs_eth_queue *q)
{
	verbs_eth_rx_free(&q->rx);
	verbs_eth_tx_free(&q->tx);
	free(q->posted);
	free(q->tx_slot);
	free(q->tx_len);
}

/* ---- restart ---- */

/* Creates new objects before it destroys the old ones: if that fails, the old ones stay for the
 * next attempt. */
static int verbs_eth_rx_replace(struct verbs_eth_queue *q)
{
	struct verbs_eth_port *ep = q->port;
	struct verbs_eth_rx fresh;
	int rc = verbs_eth_rx_make(q, &fresh);

	if (rc) {
		verbs_eth_rx_free(&fresh);
		return rc;
	}
	rdma_steer_down(&ep->eth.steer); /* it uses the old WQ */
	verbs_eth_rx_free(&q->rx);
	rdma_side_reset(&q->rx_fault.side); /* events of the old objects ended with them */
	q->rx = fresh;
	ep->eth.wq[q->index] = fresh.wq;
	q->rx_fault.side.recreate = false;
	return 0;
}

/* A local protection error means that the device no longer accepts the key; registering again gives
 * a new one. Any other error keeps it, an unknown one the first time. */
static int verbs_eth_replace_key(struct verbs_eth_queue *q, const struct verbs_eth_fault *fault,
				 uint32_t *lkey)
{
	return fault->status == IBV_WC_LOC_PROT_ERR ||
			       (!fault->status && rdma_side_is_stuck(&fault->side))
		       ? rdma_dev_key_replace(&q->port->dev, q->region_id, *lkey, lkey)
		       : 0;
}

/* dev->lock: the table of WQs and the rules belong to all queues, whose owners may recover at the
 * same time. The rules come last, as at start. A failed attempt is repeated from the reset on
 * (recover.c). */
int verbs_eth_rx_restart(struct verbs_eth_queue *q)
{
	int rc = verbs_eth_replace_key(q, &q->rx_fault, &q->rx_lkey);

	if (rc)
		return rc;
	pthread_mutex_lock(&q->port->dev.lock);
	rc = q->rx_fault.side.recreate ? verbs_eth_rx_replace(q) : 0;
	rc = rc ? rc : port_eth_wq_state(q->rx.wq, IBV_WQS_RDY);
	rc = rc ? rc : port_eth_steer(&q->port->eth);
	pthread_mutex_unlock(&q->port->dev.lock);
	return rc;
}

/* Nothing steers to a send QP, so its replacement concerns no other queue. */
static int verbs_eth_tx_replace(struct verbs_eth_queue *q)
{
	struct verbs_eth_tx fresh;
	int rc = verbs_eth_tx_make(q, &fresh);

	if (rc) {
		verbs_eth_tx_free(&fresh);
		return rc;
	}
	verbs_eth_tx_free(&q->tx);
	rdma_side_reset(&q->tx_fault.side);
	q->tx = fresh;
	q->tx_fault.side.recreate = false;
	return 0;
}

int verbs_eth_tx_restart(struct verbs_eth_queue *q)
{
	int rc = verbs_eth_replace_key(q, &q->tx_fault, &q->tx_lkey);

	if (!rc && q->tx_fault.side.recreate)
		rc = verbs_eth_tx_replace(q);
	return rc ? rc : port_eth_sq_ready(&q->port->dev, q->tx.qp);
}
