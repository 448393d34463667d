/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Recovery of a queue of mode=eth, each direction by itself. verbs_eth_events reports the error
 * first, then resets the direction, returns its slots and restarts it; obj.c replaces keys and
 * objects that are of no use any more. A failed attempt is repeated in the next call.
 *
 *   QUEUE_ERROR -> reset, return slots, restart -> QUEUE_BACK
 *                      ^ failed: next call |  -> DEVICE_GONE after RECOVER_TRIES
 */
#include <stdio.h>

#include "base/spw_err.h"
#include "port/verbs/eth/eth.h"

#define RECOVER_TRIES 100u /* then the device is reported as gone */

/* The first error of an outage starts its clock; later ones only add a reason that is still
 * missing. */
static void verbs_eth_fault_begin(struct verbs_eth_fault *fault, uint32_t status, const char *what)
{
	if (!fault->bad)
		*fault = (struct verbs_eth_fault){.side = fault->side,
						  .bad = true,
						  .status = status,
						  .what = what,
						  .since_tsc = spw_tsc_now()};
	else if (!fault->status && status != IBV_WC_WR_FLUSH_ERR)
		fault->status =
			status; /* the event came before the completion that has the reason */
}

SPW_COLD void verbs_eth_fault(struct verbs_eth_queue *q, struct verbs_eth_fault *fault,
			      uint32_t status)
{
	if (status != IBV_WC_WR_FLUSH_ERR)
		spw_thr_count(&q->stat.err[SPW_PORT_ERR_cqe_error], 1);
	verbs_eth_fault_begin(fault, status, NULL);
}

static uint16_t verbs_eth_fault_report(const struct verbs_eth_queue *q,
				       const struct verbs_eth_fault *fault, const char *direction,
				       enum spw_port_event_kind kind, struct spw_port_event *event)
{
	*event = (struct spw_port_event){.kind = kind, .queue = q->index, .code = fault->status};
	if (kind == SPW_PORT_EVENT_QUEUE_BACK) {
		event->outage_ns =
			spw_tsc_to_ns(&q->port->dev.tsc, spw_tsc_now() - fault->since_tsc);
		snprintf(event->text, sizeof(event->text), "%s queue: back after %llu us",
			 direction, (unsigned long long)event->outage_ns / 1000);
	} else if (kind == SPW_PORT_EVENT_DEVICE_GONE) {
		snprintf(event->text, sizeof(event->text), "%s queue cannot be recovered: %.120s",
			 direction, spw_err_text());
	} else {
		snprintf(event->text, sizeof(event->text), "%s queue: %s", direction,
			 fault->what ? fault->what
				     : ibv_wc_status_str((enum ibv_wc_status)fault->status));
	}
	return 1;
}

/* The reset comes first: from then on the device writes to no slot, so all of them can be returned.
 */
static int verbs_eth_recover_rx(struct verbs_eth_queue *q)
{
	int rc;

	rdma_side_reset(&q->rx_fault.side);
	rc = port_eth_wq_state(q->rx.wq, IBV_WQS_RESET);
	if (rc)
		return rc;
	verbs_eth_rx_return(q);
	return verbs_eth_rx_restart(q);
}

static int verbs_eth_recover_tx(struct verbs_eth_queue *q)
{
	int rc;

	rdma_side_reset(&q->tx_fault.side);
	rc = port_eth_sq_reset(q->tx.qp);
	if (rc)
		return rc;
	verbs_eth_reap(q);
	verbs_eth_tx_return(q);
	return verbs_eth_tx_restart(q);
}

/* Without room for its event an error waits: it is reported before anything is reset. */
static SPW_COLD uint16_t verbs_eth_recover(struct verbs_eth_queue *q, struct verbs_eth_fault *fault,
					   int (*restart)(struct verbs_eth_queue *q),
					   const char *direction, struct spw_port_event *event,
					   uint16_t cnt)
{
	uint16_t n = 0;
	bool known;

	if (!fault->reported && cnt) {
		n = verbs_eth_fault_report(q, fault, direction, SPW_PORT_EVENT_QUEUE_ERROR, event);
		fault->reported = true;
	}
	if (n == cnt || fault->tries > RECOVER_TRIES)
		return n;
	known = fault->status || fault->side.recreate;
	if (restart(q)) {
		if (++fault->tries > RECOVER_TRIES)
			n += verbs_eth_fault_report(q, fault, direction, SPW_PORT_EVENT_DEVICE_GONE,
						    &event[n]);
		return n;
	}
	spw_thr_count(&q->stat.err[SPW_PORT_ERR_queue_reset], 1);
	rdma_side_recovered(&fault->side, known);
	n += verbs_eth_fault_report(q, fault, direction, SPW_PORT_EVENT_QUEUE_BACK, &event[n]);
	fault->bad = false;
	return n;
}

/* What the control thread reported about this direction (rdma/side.c); completed separates an event
 * that is late from one that is not. */
static void verbs_eth_fault_check(struct verbs_eth_fault *fault, uint32_t completed)
{
	const char *what = rdma_side_take(&fault->side, completed);

	if (what)
		verbs_eth_fault_begin(fault, IBV_WC_SUCCESS, what);
}

/* Called by the owner between bursts, also while all is well: it takes send completions and posts
 * receives that found no slot before. */
uint16_t verbs_eth_events(void *vq, struct spw_port_event *event, uint16_t cnt)
{
	struct verbs_eth_queue *q = vq;
	uint16_t n = 0;

	verbs_eth_reap(q);
	verbs_eth_fault_check(&q->rx_fault, (uint32_t)q->stat.rx_frames);
	verbs_eth_fault_check(&q->tx_fault, (uint32_t)q->stat.tx_frames);
	if (spw_unlikely(q->rx_fault.bad))
		n = verbs_eth_recover(q, &q->rx_fault, verbs_eth_recover_rx, "receive", event, cnt);
	if (spw_unlikely(q->tx_fault.bad))
		n += verbs_eth_recover(q, &q->tx_fault, verbs_eth_recover_tx, "send", event + n,
				       (uint16_t)(cnt - n));
	if (q->recv_out < q->ring && !q->rx_fault.bad)
		verbs_eth_refill(q);
	return (uint16_t)(n + rdma_ctl_events(q->port->eth.ctl, q->index, event + n,
					      (uint16_t)(cnt - n)));
}
