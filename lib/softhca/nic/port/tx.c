/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Every frame leaves here: reserved on the cable, written in place by its caller, committed.
 * Faults, the trace and the counters take effect at commit. With faults on, frames are built in the
 * fault layer's buffer, which passes them on, delays them or drops them.
 *
 *   nic_tx_reserve   room at the rate of the port, and on the cable or in the fault layer
 *   the caller       headers and payload, in place
 *   nic_tx_commit    too long? congestion mark, pad and ICRC, counters, trail, trace, faults
 *   nic_tx_flush     the frames reach the cable; every TX_BATCH of them, and at the end of a round
 *
 * Callers: the transports, raw_tx.c, cnp.c, neigh.c. What to know before changing it: a frame that
 * was reserved and not committed is not sent, so a caller that finds its WQE wrong just returns. A
 * commit may also flush and complete raw WQEs (nic_tx_publish).
 */
#include "base/spw_log.h"
#include "softhca/inject/inject.h"
#include "softhca/nic/port/port.h"
#include "softhca/nic/port/trace.h"
#include "softhca/nic/port/trail.h"
#include "softhca/nic/up.h"

/* Frames per cable flush within a round: the receiver works on them while the rest are built. */
#define TX_BATCH 16u
/* The same with helpers: each flush waits for them. */
#define TX_BATCH_SHARED 64u

/* One pause frame for each time that the other end stops us. */
static uint8_t *tx_wait(struct nic_dev *nd)
{
	NIC_CNT(nd, port_xmit_wait);
	if (!nd->tx_paused)
		NIC_CNT(nd, rx_pause_ctrl_phy);
	nd->tx_paused = nd->tx_no_room = true;
	return NULL;
}

/* NULL: no room; the caller tries again in a later round. dmac and dqpn choose the port of a
 * shared-memory cable. */
uint8_t *nic_tx_reserve(struct nic_dev *nd, const uint8_t *dmac, uint32_t dqpn, uint32_t len)
{
	uint8_t *p;

	if (spw_unlikely(chip_is_paced(nd)) &&
	    !rate_has_room(nd, HCA_TX, nd->has_halves && chip_has_mac(nd, dmac))) {
		nd->tx_no_room = true;
		return NULL;
	}
	p = spw_unlikely(inject_takes_tx(nd)) ? inject_tx_reserve(nd, dmac, dqpn, len)
					      : cable_tx_reserve(nd->cable, dmac, dqpn, len);
	if (spw_unlikely(!p))
		return tx_wait(nd);
	nd->tx_paused = false;
	return p;
}

/* What the switch inside the card carries is counted apart: ethtool takes it off the port's
 * numbers. */
SPW_INLINE void tx_count(struct nic_dev *nd, const uint8_t *frame, uint32_t len)
{
	const bool on_chip = nd->has_halves && chip_has_mac(nd, frame);
	struct hca_cnt *cnt = &nd->dev->cnt;

	spw_thr_count(&cnt->port_xmit_packets, 1u);
	spw_thr_count(&cnt->port_xmit_data, len / 4);
	if (spw_unlikely(frame[0] & 1))
		spw_thr_count(&cnt->multicast_xmit_packets, 1u);
	else
		spw_thr_count(&cnt->unicast_xmit_packets, 1u);
	if (spw_unlikely(on_chip))
		spw_thr_count(&cnt->tx_chip_packets, 1u);
	else
		spw_thr_count(&cnt->tx_bytes_phy, len);
	if (spw_unlikely(chip_is_paced(nd)))
		rate_book(nd, HCA_TX, on_chip, len);
}

SPW_COLD void nic_tx_too_long(struct nic_dev *nd, uint32_t len)
{
	if (nd->too_long++ == 0)
		spw_warn("%s: a frame of %u bytes is above the MTU of %u: dropped, as all such; a "
			 "card drops them without a word",
			 nd->dev->id.name, len, nd->dev->mtu_bytes);
}

/* The ICRC is computed only where somebody checks it: a cable of shared memory is trusted. */
void nic_tx_commit(struct nic_dev *nd, uint8_t *frame, uint32_t len, bool roce, uint32_t l3_off,
		   bool ipv6, uint32_t payload)
{
	const bool icrc = nd->icrc_always || inject_takes_tx(nd);

	if (spw_unlikely(len > nic_frame_max(nd))) {
		nic_tx_too_long(nd, len);
		return;
	}
	if (inject_marks(nd) && roce && !wire_is_cnp(frame + l3_off, ipv6) && inject_marks_next(nd))
		wire_mark_ce(frame + l3_off, ipv6);
	if (roce)
		wire_finish(frame, len, l3_off, ipv6, payload, icrc);
	if (spw_likely(!inject_link_is_down(nd)))
		tx_count(nd, frame, len);
	if (trail_on())
		trail_sent(frame, len);
	if (spw_unlikely(icrc)) { /* a trace shows every ICRC */
		if (nd->trace)
			trace_frame(nd->trace, frame, len, true, nd->stamp);
		if (inject_takes_tx(nd)) {
			inject_tx_commit(nd, frame, len);
			return;
		}
	}
	cable_tx_commit(nd->cable, roce && !icrc ? CABLE_F_ICRC_VALID : 0);
	if (--nd->tx_left == 0)
		nic_tx_publish(nd);
}

/* Helpers may still be copying payload into these frames: they are waited for first. */
void nic_tx_flush(struct nic_dev *nd)
{
	nd->tx_left = TX_BATCH;
	if (spw_unlikely(nd->copier != NULL)) {
		nd->tx_left = TX_BATCH_SHARED;
		copy_wait(nd);
	}
	cable_tx_flush(nd->cable);
}
