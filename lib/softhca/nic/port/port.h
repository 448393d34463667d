/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The port: frames to and from the cable, and what belongs to the port and its card rather than to
 * a queue. Everything runs with the device lock held.
 */
#ifndef SPW_SOFTHCA_PORT_PORT_H
#define SPW_SOFTHCA_PORT_PORT_H

#include "softhca/cable/cable.h"
#include "softhca/nic/dev.h"
#include "softhca/nic/port/wire.h"

/* ---- the clock: clock.c ---- */

/* Sets stamp to the NIC's clock at now_ns, and returns it. */
uint64_t nic_stamp_set(struct nic_dev *nd);
/* The same, after reading the host's clock into now_ns. */
uint64_t nic_stamp(struct nic_dev *nd);
/* Updates the pages of the clock that applications map. */
void nic_clock_publish(struct nic_dev *nd);

/* ---- the link: link.c ---- */

/* The state in which a port comes to its cable: no event. */
void nic_link_begin(struct nic_dev *nd);
/* Takes the port down until then, for all functions that share it. */
void nic_link_fail(struct nic_dev *nd, uint64_t until_ns);
/* What became due: the end of a time down, the next flap, a change of the cable's carrier. */
void nic_link_tick(struct nic_dev *nd);

/* ---- frames that leave: tx.c ---- */

/* Of a port: its MTU, an Ethernet header and a VLAN tag; cables carry no FCS. Source: Linux
 * mlx5/core/en.h (MLX5E_ETH_HARD_MTU). */
SPW_INLINE uint32_t nic_frame_max(const struct nic_dev *nd)
{
	return nd->dev->mtu_bytes + WIRE_ETH_BYTES + WIRE_VLAN_BYTES;
}

/* Every frame leaves by reserve, write, commit. dqpn: the QP that it is for; 0: none. Returns NULL
 * if the cable has no room now. */
uint8_t *nic_tx_reserve(struct nic_dev *nd, const uint8_t *dmac, uint32_t dqpn, uint32_t len);
/* roce: pad and ICRC are written here; l3_off, ipv6 and payload (bytes) describe the frame. */
void nic_tx_commit(struct nic_dev *nd, uint8_t *frame, uint32_t len, bool roce, uint32_t l3_off,
		   bool ipv6, uint32_t payload);
/* A card drops a frame above its port's MTU, completes it as sent and reports nothing: counts it,
 * and logs it once. Source: NVIDIA/daqiri issue 197. */
void nic_tx_too_long(struct nic_dev *nd, uint32_t len);
/* Passes what was committed to the cable. */
void nic_tx_flush(struct nic_dev *nd);

/* ---- rates, and the switch inside the card: rate.c ---- */

/* From configuration and faults: the speed and the rates of this function's port and PCIe link. */
void rate_setup(struct nic_dev *nd);
/* May another frame pass now? direction: HCA_TX, HCA_RX; on_chip: not over the wire. */
bool rate_has_room(const struct nic_dev *nd, uint32_t direction, bool on_chip);
/* Returns: false: it did pass the port, but it is lost there (pause=off). */
bool rate_book(const struct nic_dev *nd, uint32_t direction, bool on_chip, uint32_t bytes);
/* Is any rate enforced on the card? Asked for each frame. */
SPW_INLINE bool chip_is_paced(const struct nic_dev *nd)
{
	return spw_thr_load_rlx(&nd->dev->chip->paced);
}
/* Is its port shared with another function of the card? */
bool chip_has_halves(const struct nic_dev *nd);
/* Is this the MAC, or the port of the cable, of a function of the same physical port, here or in
 * another process? */
bool chip_has_mac(const struct nic_dev *nd, const uint8_t *mac);
bool chip_has_cable_port(const struct nic_dev *nd, uint32_t from);

/* ---- neighbours: neigh.c ---- */

/* Notes the MAC of a GID; QPs that were waiting for it get it (up.h). */
void neigh_learn(struct nic_dev *nd, const uint8_t gid[16], const uint8_t mac[6]);
bool neigh_find(struct nic_dev *nd, const uint8_t gid[16], uint8_t mac_out[6]);
/* Any received frame: answers ARP requests, learns from all ARP packets for this NIC. */
void neigh_arp_rx(struct nic_dev *nd, const uint8_t *frame, uint32_t len);

#endif
