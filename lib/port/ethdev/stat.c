/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Counters, slots, events and the port's clock.
 *
 * Slots. The mempool sees every slot that the PMD takes or returns (got, put), the bursts see those
 * that are lent; where each slot is follows from the counts:
 *
 *   out of the pool   got + lent_empty - put - released
 *   lent              rx_frames + lent_empty - released - tx_frames
 *   in the PMD        the difference; of it in TX: tx_frames - put_in_tx, the rest in RX
 *
 * The link is polled ten times a second and also reported by EAL's interrupt thread (P1, P2):
 * net_memif raises no interrupt when its peer dies.
 */
#include <inttypes.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf_dyn.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "port/ethdev/ethdev.h"
#include "time/spw_time.h"

#define CLOCK_WINDOW_MS 50u

/* ---- counters ---- */

/* Some PMDs count from 0 again when a peer leaves or the device restarts; a total must not. */
static void ethdev_keep_highest(uint64_t *highest, uint64_t now)
{
	if (now > spw_thr_load_rlx(highest))
		spw_thr_store_rlx(highest, now);
}

void ethdev_stat_read(struct ethdev_port *ep)
{
	struct rte_eth_stats now;

	ethdev_packet_read(ep);
	if (ep->closed || rte_eth_stats_get(ep->port_id, &now))
		return;
	ethdev_keep_highest(&ep->last.ipackets, now.ipackets);
	ethdev_keep_highest(&ep->last.opackets, now.opackets);
	ethdev_keep_highest(&ep->last.imissed, now.imissed);
	ethdev_keep_highest(&ep->last.obytes, now.obytes);
}

static void ethdev_sum_queue(const struct ethdev_queue *q, uint64_t *raw,
			     struct spw_port_stat *stat)
{
	*raw += spw_thr_load_rlx(&q->raw_frames);
	stat->rx_frames += spw_thr_load_rlx(&q->rx_frames);
	stat->rx_bytes += spw_thr_load_rlx(&q->rx_bytes);
	stat->tx_frames += spw_thr_load_rlx(&q->tx_frames);
	stat->tx_bytes += spw_thr_load_rlx(&q->tx_bytes);
	stat->port_copies += spw_thr_load_rlx(&q->adopted);
	stat->err[SPW_PORT_ERR_no_slot] += spw_thr_load_rlx(&q->no_slot);
	for (unsigned i = 0; i < SPW_PORT_DROP_CNT; i++)
		stat->dropped[i] += spw_thr_load_rlx(&q->dropped[i]);
}

void ethdev_stat(struct spw_port *port, struct spw_port_stat *stat)
{
	struct ethdev_port *ep = ethdev_of(port);
	uint64_t raw = 0, missed;

	ethdev_stat_read(ep);
	missed = spw_thr_load_rlx(&ep->last.imissed) + spw_thr_load_rlx(&ep->packet_drops);
	for (uint16_t i = 0; i < port->queue_cnt; i++)
		ethdev_sum_queue(&ep->queue[i], &raw, stat);
	/* The PMD's own count is the wire's. For one that resets its counters it is what was handed
	 * over. */
	stat->wire_frames =
		(ep->fact->resets ? raw : spw_thr_load_rlx(&ep->last.ipackets)) + missed;
	stat->missed_frames = missed;
	stat->missed_known = ep->missed_known;
	if (!ep->fact->resets) {
		stat->tx_frames = spw_thr_load_rlx(&ep->last.opackets);
		if (spw_thr_load_rlx(&ep->last.obytes)) /* net_null and net_ring count no bytes */
			stat->tx_bytes = spw_thr_load_rlx(&ep->last.obytes);
	}
	stat->port_copies += ep->fact->rx_copies ? raw : 0;
	ethdev_phy_stat(ep, stat);
	stat->link_bps = spw_thr_load_rlx(&ep->link_bps);
	stat->err[SPW_PORT_ERR_link_down] = spw_thr_load_rlx(&ep->link_down_cnt);
}

void ethdev_slots(struct spw_port *port, uint16_t queue, struct spw_port_slots *slots)
{
	const struct ethdev_queue *q = &ethdev_of(port)->queue[queue];
	uint64_t lent = q->rx_frames + q->lent_empty - q->released - q->tx_frames;
	uint64_t in_pmd = q->got + q->lent_empty - q->put - q->released - lent;
	/* A ring port hands what was sent back as received, so "in TX" can count slots that are no
	 * longer there. */
	uint64_t in_tx = SPW_MIN(q->tx_frames - q->put_in_tx, in_pmd);

	slots->lent = (uint32_t)lent;
	slots->in_tx = (uint32_t)in_tx;
	slots->in_rx = (uint32_t)(in_pmd - in_tx);
}

/* ---- link ---- */

static bool ethdev_link_is_up(struct ethdev_port *ep)
{
	struct rte_eth_link link;

	if (ep->netdev[0]) /* net_af_packet reports every link as up */
		return ethdev_netdev_is_up(ep->netdev);
	memset(&link, 0, sizeof(link));
	if (rte_eth_link_get_nowait(ep->port_id, &link) || link.link_status != RTE_ETH_LINK_UP)
		return false;
	if (ep->is_dma && link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN)
		spw_thr_store_rlx(&ep->link_bps, link.link_speed * 1000000ull);
	return true;
}

/* EAL's interrupt thread. [P1 release, pairs with P2] */
static int ethdev_on_event(uint16_t port_id SPW_UNUSED, enum rte_eth_event_type type, void *arg,
			   void *ret SPW_UNUSED)
{
	struct ethdev_port *ep = arg;

	if (type == RTE_ETH_EVENT_INTR_RMV)
		spw_thr_store_rel(&ep->gone, 1);
	else
		spw_thr_store_rel(&ep->link_up, ethdev_link_is_up(ep));
	return 0;
}

void ethdev_link_watch(struct ethdev_port *ep)
{
	rte_eth_dev_callback_register(ep->port_id, RTE_ETH_EVENT_INTR_LSC, ethdev_on_event, ep);
	rte_eth_dev_callback_register(ep->port_id, RTE_ETH_EVENT_INTR_RMV, ethdev_on_event, ep);
	ep->watched = true;
}

void ethdev_link_unwatch(struct ethdev_port *ep)
{
	if (!ep->watched)
		return;
	ep->watched = false;
	rte_eth_dev_callback_unregister(ep->port_id, RTE_ETH_EVENT_INTR_LSC, ethdev_on_event, ep);
	rte_eth_dev_callback_unregister(ep->port_id, RTE_ETH_EVENT_INTR_RMV, ethdev_on_event, ep);
}

static void ethdev_event_put(struct spw_port_event *event, enum spw_port_event_kind kind,
			     const char *name, const char *what)
{
	*event = (struct spw_port_event){.kind = kind};
	snprintf(event->text, sizeof(event->text), "%s: %s", name, what);
}

/* Reads the link ten times a second, also with interrupts. */
static void ethdev_link_poll(struct ethdev_port *ep)
{
	uint64_t now = spw_tsc_now();

	if ((int64_t)(now - ep->link_next_tsc) < 0)
		return;
	ep->link_next_tsc = now + rte_get_tsc_hz() / 10;
	spw_thr_store_rel(&ep->link_up, ethdev_link_is_up(ep));
}

static uint16_t ethdev_link_events(struct ethdev_port *ep, struct spw_port_event *event,
				   uint16_t cnt)
{
	uint32_t up, n = 0;

	ethdev_link_poll(ep);
	up = spw_thr_load_acq(&ep->link_up); /* [P2 acquire, pairs with P1] */
	if (cnt && up != ep->link_reported) {
		ep->link_reported = up;
		if (!up)
			spw_thr_count(&ep->link_down_cnt, 1);
		ethdev_event_put(&event[n++],
				 up ? SPW_PORT_EVENT_LINK_UP : SPW_PORT_EVENT_LINK_DOWN,
				 ep->base.name, up ? "link is up" : "link is down");
	}
	if (n < cnt && spw_thr_load_acq(&ep->gone) == 1) {
		spw_thr_store_rlx(&ep->gone, 2); /* reported once */
		ethdev_event_put(&event[n++], SPW_PORT_EVENT_DEVICE_GONE, ep->base.name,
				 "the device was removed");
	}
	return (uint16_t)n;
}

/* Queue 0 reports for the port. Clean-up returns sent slots of PMDs that free them only when asked.
 */
uint16_t ethdev_events(void *queue, struct spw_port_event *event, uint16_t cnt)
{
	struct ethdev_queue *q = queue;
	uint64_t put = q->put;

	if (q->can_clean && q->tx_frames != q->put_in_tx) {
		rte_eth_tx_done_cleanup(q->port_id, q->queue_id, SPW_BURST_MAX);
		spw_thr_count(&q->put_in_tx, q->put - put);
	}
	return q->queue_id == 0 ? ethdev_link_events(q->port, event, cnt) : 0;
}

/* ---- clock ---- */

static int ethdev_read_clock(void *arg, uint64_t *value_out)
{
	return rte_eth_read_clock(*(const uint16_t *)arg, value_out);
}

int ethdev_stamps_open(struct ethdev_port *ep)
{
	uint64_t flag = 0;
	int offset = 0;

	if (!ep->stamps)
		return 0;
	if (rte_mbuf_dyn_rx_timestamp_register(&offset, &flag))
		return spw_err(rte_errno,
			       "no room in the mbuf for receive timestamps: %s; use stamps=0",
			       rte_strerror(rte_errno));
	for (uint16_t i = 0; i < ep->base.queue_cnt; i++) {
		ep->queue[i].stamp_offset = offset;
		ep->queue[i].stamp_flag = flag;
	}
	return 0;
}

/* The ethdev API has no call for the rate, so it is measured. */
uint64_t ethdev_clock_hz(uint16_t port_id)
{
	struct spw_clock_pair first, last;
	uint64_t nic, tsc;

	if (spw_clock_pair_take(ethdev_read_clock, &port_id, 10, &first))
		return 0;
	rte_delay_us_sleep(CLOCK_WINDOW_MS * 1000);
	if (spw_clock_pair_take(ethdev_read_clock, &port_id, 10, &last))
		return 0;
	nic = last.other - first.other;
	tsc = last.ref - first.ref;
	return tsc ? (uint64_t)((double)nic * (double)rte_get_tsc_hz() / (double)tsc) : 0;
}

int ethdev_pair_clock(struct spw_port *port, uint64_t *nic_ticks_out, uint64_t *tsc_out,
		      uint64_t *uncertainty_ns_out)
{
	struct ethdev_port *ep = ethdev_of(port);
	struct spw_clock_pair pair;
	int rc = spw_clock_pair_take(ethdev_read_clock, &ep->port_id, 10, &pair);

	if (rc)
		return spw_err_ctx(rc, "rte_eth_read_clock");
	*nic_ticks_out = pair.other;
	*tsc_out = pair.ref;
	*uncertainty_ns_out = (uint64_t)((double)pair.unc * 1e9 / (double)rte_get_tsc_hz()) + 1;
	return 0;
}
