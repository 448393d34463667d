/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The bursts. Receiving is the PMD's burst and one pass that turns mbufs into descriptors;
 * releasing touches no mbuf at all, because a lent mbuf is already what the next allocation expects
 * (one segment, one reference).
 *
 * mbuf and slot are two views of one buffer, one shift apart, so nothing is looked up:
 *
 *   rx_burst      PMD: mbufs ─► slot = (mbuf - mbuf0) >> stride ─► desc (offset = data_off)
 *   release       slots ─► pool; the mbuf stays as it is: refcnt 1, one segment, pinned buffer
 *   tx_burst      desc ─► mbuf: data_off, data_len ─► PMD, which frees it when sent ─► pool
 *
 * Odd frames leave the fast path by one test each: several segments, foreign buffers, cut frames,
 * stripped tags.
 */
#include <string.h>

#include <rte_ethdev.h>

#include "port/ethdev/ethdev.h"

#define VLAN_BYTES 4u
#define ADDR_BYTES 12u /* both MAC addresses, which stand in front of a tag */

/* ---- receive ---- */

/* ol_flags: a checksum is good when its GOOD bit is set and its BAD bit is not (both: "not
 * checked"). */
SPW_INLINE uint32_t ethdev_desc_flags(uint64_t ol)
{
	uint32_t l3 = (ol & RTE_MBUF_F_RX_IP_CKSUM_MASK) == RTE_MBUF_F_RX_IP_CKSUM_GOOD
			      ? SPW_DESC_L3_OK
			      : 0;
	uint32_t l4 = (ol & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_GOOD
			      ? SPW_DESC_L4_OK
			      : 0;

	return l3 | l4;
}

SPW_INLINE void ethdev_desc_fill(const struct ethdev_queue *q, const struct rte_mbuf *m,
				 uint32_t slot, struct spw_desc *d, bool offloads, bool stamps)
{
	uint64_t ol = offloads || stamps ? m->ol_flags : 0;

	*d = (struct spw_desc){
		.slot = slot,
		.offset = m->data_off,
		.len = m->data_len,
		.meta = ol & RTE_MBUF_F_RX_RSS_HASH ? m->hash.rss : 0,
		.flags = offloads ? ethdev_desc_flags(ol) : 0,
		.region = q->region_id,
		.port = q->port_idx,
	};
	if (stamps && (ol & q->stamp_flag)) {
		d->nic_stamp = *RTE_MBUF_DYNFIELD(m, q->stamp_offset, const rte_mbuf_timestamp_t *);
		d->flags |= SPW_DESC_NIC_STAMP;
	}
}

/* Returns false for the caller to return. Freeing puts the slot back into the pool by way of the
 * mempool. */
static bool ethdev_rx_drop(struct ethdev_queue *q, struct rte_mbuf *m, enum spw_port_drop why)
{
	spw_thr_count(&q->dropped[why], 1);
	rte_pktmbuf_free(m);
	return false;
}

/* A frame in several segments, or in a buffer that is not ours (net_ring hands over the sender's).
 * Returns: false if it was dropped; else *m_p is a mbuf of ours with the bytes in it. */
static SPW_COLD bool ethdev_rx_odd(struct ethdev_queue *q, struct rte_mbuf **m_p)
{
	struct rte_mbuf *theirs = *m_p, *ours;
	uint32_t slot, len = theirs->pkt_len;

	if (theirs->pool == q->mp)
		return ethdev_rx_drop(q, theirs, SPW_PORT_DROP_too_long);
	ours = ethdev_mbuf(q, 0);
	if (len == 0 || len > (uint32_t)ours->buf_len - RTE_PKTMBUF_HEADROOM)
		return ethdev_rx_drop(q, theirs, SPW_PORT_DROP_too_long);
	if (!spw_pool_get(q->pool, &slot, 1))
		return ethdev_rx_drop(q, theirs, SPW_PORT_DROP_no_slot);
	ours = ethdev_mbuf(q, slot);
	ours->data_off = RTE_PKTMBUF_HEADROOM;
	ours->data_len = (uint16_t)len;
	ours->pkt_len = len;
	ours->ol_flags = RTE_MBUF_F_EXTERNAL;
	for (uint32_t off = 0; theirs; theirs = theirs->next) {
		memcpy(rte_pktmbuf_mtod_offset(ours, void *, off), rte_pktmbuf_mtod(theirs, void *),
		       theirs->data_len);
		off += theirs->data_len;
	}
	rte_pktmbuf_free(*m_p);
	spw_thr_count(&q->got, 1);
	spw_thr_count(&q->adopted, 1);
	*m_p = ours;
	return true;
}

/* Puts a tag that the kernel stripped back in front of the EtherType, into the headroom. */
static SPW_COLD void ethdev_vlan_put(struct rte_mbuf *m)
{
	uint8_t *p = rte_pktmbuf_mtod(m, uint8_t *);
	uint8_t tag[VLAN_BYTES] = {0x81, 0x00, (uint8_t)(m->vlan_tci >> 8), (uint8_t)m->vlan_tci};

	memmove(p - VLAN_BYTES, p, ADDR_BYTES);
	memcpy(p - VLAN_BYTES + ADDR_BYTES, tag, VLAN_BYTES);
	m->data_off -= VLAN_BYTES;
	m->data_len += VLAN_BYTES;
	m->pkt_len += VLAN_BYTES;
}

/* room bounds the burst for PMDs that allocate while they receive: without it one of them would
 * drop frames for want of a buffer, uncounted. burst_floor is ~0 for all others. */
SPW_INLINE uint16_t ethdev_rx(struct ethdev_queue *q, struct spw_desc *desc, uint16_t cnt,
			      bool offloads, bool stamps)
{
	struct rte_mbuf *mbuf[SPW_BURST_MAX];
	uint32_t room = q->pool->free_cnt | q->burst_floor;
	uint64_t bytes = 0;
	uint16_t raw, n = 0;

	if (spw_unlikely(room < cnt)) {
		spw_thr_count(&q->no_slot, 1);
		cnt = (uint16_t)room;
	}
	raw = rte_eth_rx_burst(q->port_id, q->queue_id, mbuf, cnt);
	for (uint16_t i = 0; i < raw; i++) {
		struct rte_mbuf *m = mbuf[i];
		size_t slot = ethdev_slot(q, m);

		if (spw_unlikely(slot >= q->slot_cnt || m->nb_segs != 1 ||
				 m->data_len >= q->cut_bytes)) {
			if (!ethdev_rx_odd(q, &m))
				continue;
			slot = ethdev_slot(q, m);
		}
		if (offloads && spw_unlikely(m->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED))
			ethdev_vlan_put(m);
		ethdev_desc_fill(q, m, (uint32_t)slot, &desc[n++], offloads, stamps);
		bytes += m->data_len;
	}
	spw_thr_count(&q->raw_frames, raw);
	spw_thr_count(&q->rx_frames, n);
	spw_thr_count(&q->rx_bytes, bytes);
	return n;
}

#define ETHDEV_RX(name, offloads, stamps)                                  \
	static uint16_t name(void *q, struct spw_desc *desc, uint16_t cnt) \
	{                                                                  \
		return ethdev_rx(q, desc, cnt, offloads, stamps);          \
	}

ETHDEV_RX(ethdev_rx_plain, false, false)
ETHDEV_RX(ethdev_rx_offloads, true, false)
ETHDEV_RX(ethdev_rx_stamps, true, true)

/* net_memif: polls nothing while its control code runs. */
static uint16_t rx_gated(void *queue, struct spw_desc *desc, uint16_t cnt)
{
	struct ethdev_queue *q = queue;
	uint16_t n;

	if (spw_unlikely(!ethdev_gate_try(q)))
		return 0;
	n = ethdev_rx(q, desc, cnt, false, false);
	ethdev_gate_open(q);
	return n;
}

/* Bounded: a source that never runs dry must not prevent the stop. */
void ethdev_rx_flush(struct ethdev_queue *q)
{
	struct rte_mbuf *mbuf[SPW_BURST_MAX];

	for (int round = 0; round < 1024; round++) {
		uint32_t room = q->pool->free_cnt | q->burst_floor;
		uint16_t raw = rte_eth_rx_burst(q->port_id, q->queue_id, mbuf,
						(uint16_t)SPW_MIN(room, SPW_BURST_MAX));

		if (raw == 0)
			return;
		q->raw_frames += raw;
		for (uint16_t i = 0; i < raw; i++)
			ethdev_rx_drop(q, mbuf[i], SPW_PORT_DROP_rx_flushed);
	}
}

/* ---- release, lend, send ---- */

static void ethdev_release(void *queue, const uint32_t *slot, uint16_t cnt)
{
	struct ethdev_queue *q = queue;

	spw_pool_put(q->pool, slot, cnt);
	spw_thr_count(&q->released, cnt);
}

static uint16_t ethdev_lend(void *queue, uint32_t *slot, uint16_t cnt)
{
	struct ethdev_queue *q = queue;
	uint32_t n = spw_pool_get(q->pool, slot, cnt);

	spw_thr_count(&q->lent_empty, n);
	return (uint16_t)n;
}

/* Only what a PMD reads of an mbuf; the rest was written by ethdev_init_mbuf and never changes. */
static void ethdev_mbuf_fill(struct rte_mbuf *m, const struct spw_desc *d)
{
	m->data_off = (uint16_t)d->offset;
	m->data_len = (uint16_t)d->len;
	m->pkt_len = d->len;
	m->ol_flags = RTE_MBUF_F_EXTERNAL;
	m->tx_offload = 0;
}

/* put_in_tx counts slots that came back during transmit calls: those were sent, not received ones.
 */
static uint16_t ethdev_tx(void *queue, struct spw_desc **desc, uint16_t cnt)
{
	struct ethdev_queue *q = queue;
	struct rte_mbuf *mbuf[SPW_BURST_MAX];
	uint64_t put = q->put, bytes = 0;
	uint16_t n;

	for (uint16_t i = 0; i < cnt; i++) {
		mbuf[i] = ethdev_mbuf(q, desc[i]->slot);
		ethdev_mbuf_fill(mbuf[i], desc[i]);
	}
	n = rte_eth_tx_burst(q->port_id, q->queue_id, mbuf, cnt);
	for (uint16_t i = 0; i < n; i++)
		bytes += desc[i]->len;
	spw_thr_count(&q->put_in_tx, q->put - put);
	spw_thr_count(&q->tx_frames, n);
	spw_thr_count(&q->tx_bytes, bytes);
	return n;
}

static uint16_t ethdev_tx_gated(void *queue, struct spw_desc **desc, uint16_t cnt)
{
	struct ethdev_queue *q = queue;
	uint16_t n;

	if (spw_unlikely(!ethdev_gate_try(q)))
		return 0;
	n = ethdev_tx(q, desc, cnt);
	ethdev_gate_open(q);
	return n;
}

void ethdev_burst_choose(const struct ethdev_port *ep, struct spw_port_queue *pq)
{
	pq->rx_burst = ep->is_memif   ? rx_gated
		       : ep->stamps   ? ethdev_rx_stamps
		       : ep->offloads ? ethdev_rx_offloads
				      : ethdev_rx_plain;
	pq->release_burst = ethdev_release;
	pq->tx_burst = ep->is_memif ? ethdev_tx_gated : ethdev_tx;
	pq->events = ethdev_events;
	pq->lend_burst = ethdev_lend;
}
