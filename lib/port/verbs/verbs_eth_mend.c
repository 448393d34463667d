/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Mending a queue of mode=eth, each direction by itself: told first, reset and made ready next, with new keys and new objects
 * where the old ones are of no use any more.
 */
#include <stdio.h>

#include "base/spw_err.h"
#include "port/verbs/verbs_eth.h"

#define RECOVER_TRIES 100u /* then the device is taken for gone */

static void begin(struct verbs_eth_fault *fault, uint32_t status, const char *what)
{
	if (!fault->bad)
		*fault = (struct verbs_eth_fault){.side = fault->side, .bad = true, .status = status, .what = what,
						  .since_tsc = spw_tsc_now()};
	else if (!fault->status && status != IBV_WC_WR_FLUSH_ERR)
		fault->status = status; /* the device told of it before the completion that says why */
}

SPW_COLD void verbs_eth_fault(struct verbs_eth_queue *q, struct verbs_eth_fault *fault, uint32_t status)
{
	if (status != IBV_WC_WR_FLUSH_ERR)
		spw_thr_count(&q->stat.err[SPW_PORT_ERR_cqe_error], 1);
	begin(fault, status, NULL);
}

static uint16_t tell(const struct verbs_eth_queue *q, const struct verbs_eth_fault *fault, const char *way,
		     enum spw_port_event_kind kind, struct spw_port_event *event)
{
	*event = (struct spw_port_event){.kind = kind, .queue = q->index, .code = fault->status};
	if (kind == SPW_PORT_EVENT_QUEUE_BACK) {
		event->outage_ns = spw_tsc_to_ns(&q->port->dev.tsc, spw_tsc_now() - fault->since_tsc);
		snprintf(event->text, sizeof(event->text), "%s queue: back after %llu us", way,
			 (unsigned long long)event->outage_ns / 1000);
	} else if (kind == SPW_PORT_EVENT_DEVICE_GONE) {
		snprintf(event->text, sizeof(event->text), "%s queue cannot be mended: %.60s", way, spw_err_text());
	} else {
		snprintf(event->text, sizeof(event->text), "%s queue: %s", way,
			 fault->what ? fault->what : ibv_wc_status_str((enum ibv_wc_status)fault->status));
	}
	return 1;
}

/* What was told until now is what this reset mends. */
static int mend_rx(struct verbs_eth_queue *q)
{
	int rc;

	rdma_side_take(&q->rx_fault.side);
	rc = verbs_eth_rx_reset(q);
	if (rc)
		return rc;
	verbs_eth_rx_home(q);
	return verbs_eth_rx_renew(q);
}

static int mend_tx(struct verbs_eth_queue *q)
{
	int rc;

	rdma_side_take(&q->tx_fault.side);
	rc = verbs_eth_tx_reset(q);
	if (rc)
		return rc;
	verbs_eth_reap(q);
	verbs_eth_tx_home(q);
	return verbs_eth_tx_renew(q);
}

static SPW_COLD uint16_t mend(struct verbs_eth_queue *q, struct verbs_eth_fault *fault, int (*again)(struct verbs_eth_queue *q),
			      const char *way, struct spw_port_event *event, uint16_t cnt)
{
	uint16_t n = 0;

	if (!fault->told && cnt) {
		n = tell(q, fault, way, SPW_PORT_EVENT_QUEUE_ERROR, event);
		fault->told = true;
	}
	if (n == cnt || fault->tries > RECOVER_TRIES)
		return n;
	if (again(q)) {
		if (++fault->tries > RECOVER_TRIES)
			n += tell(q, fault, way, SPW_PORT_EVENT_DEVICE_GONE, &event[n]);
		return n;
	}
	spw_thr_count(&q->stat.err[SPW_PORT_ERR_queue_reset], 1);
	n += tell(q, fault, way, SPW_PORT_EVENT_QUEUE_BACK, &event[n]);
	fault->bad = false;
	return n;
}

static void look(struct verbs_eth_fault *fault)
{
	const char *what = rdma_side_take(&fault->side);

	if (what)
		begin(fault, IBV_WC_SUCCESS, what);
}

uint16_t verbs_eth_events(void *vq, struct spw_port_event *event, uint16_t cnt)
{
	struct verbs_eth_queue *q = vq;
	uint16_t n = 0;

	verbs_eth_reap(q);
	look(&q->rx_fault);
	look(&q->tx_fault);
	if (spw_unlikely(q->rx_fault.bad))
		n = mend(q, &q->rx_fault, mend_rx, "receive", event, cnt);
	if (spw_unlikely(q->tx_fault.bad))
		n += mend(q, &q->tx_fault, mend_tx, "send", event + n, (uint16_t)(cnt - n));
	if (q->recv_out < q->ring && !q->rx_fault.bad)
		verbs_eth_refill(q);
	return (uint16_t)(n + rdma_ctl_events(q->port->ctl, q->index, event + n, (uint16_t)(cnt - n)));
}
