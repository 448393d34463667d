/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the ethdev API does not report about a PMD: whether it copies, whether its count of missed
 * frames means anything, when it takes mbufs. The ledger and the report depend on it, so each fact
 * has its source (DPDK v22.11 unless stated otherwise, paths under drivers/net/).
 *
 *   rx_copies      each frame is counted as a port copy
 *   missed_known   else `missed` and `wire` are unknown, and a full ring is in no count
 *   alloc_on_rx    mbufs are taken in the receive call: the pool need not fill a ring
 *   resets         a peer that leaves sets the PMD's counts back: stat.c adds up
 *   any_mtu        the PMD has no MTU of its own, and refuses to set one
 *
 * Called by dev.c once the device is known. A new entry needs its source; a PMD that changes in a
 * later DPDK needs the version in it.
 */
#include <string.h>

#include "port/ethdev/ethdev.h"

static const struct ethdev_fact fact_table[] = {
	{.pmd = "net_memif",
	 .rx_copies = true,
	 .alloc_on_rx = true,
	 .resets = true,
	 .any_mtu = true,
	 .source = "memif/rte_eth_memif.c: eth_memif_rx copies from the shared buffer; a full ring "
		   "is known to the sender "
		   "only; memif_socket.c: memif_disconnect clears the run-time ring counts that "
		   "memif_stats_get sums over"},
	{.pmd = "net_null",
	 .missed_known = true,
	 .alloc_on_rx = true,
	 .source = "null/rte_eth_null.c: frames are made in the receive call, none can be lost"},
	{.pmd = "net_ring",
	 .alloc_on_rx = true,
	 .any_mtu = true,
	 .source = "ring/rte_eth_ring.c: hands over the sender's mbufs; a full ring is known to "
		   "the sender only"},
	{.pmd = "net_pcap",
	 .missed_known = true,
	 .rx_copies = true,
	 .alloc_on_rx = true,
	 .any_mtu = true,
	 .source = "pcap/pcap_ethdev.c: eth_pcap_rx copies; imissed is libpcap's ps_drop, 0 for "
		   "files"},
	{.pmd = "net_af_packet",
	 .rx_copies = true,
	 .alloc_on_rx = true,
	 .source = "af_packet/rte_eth_af_packet.c: eth_af_packet_rx copies; PACKET_STATISTICS is "
		   "first read in v25.03, before that packet.c reads it"},
	{.pmd = "net_tap",
	 .rx_copies = true,
	 .source = "tap/rte_eth_tap.c: readv copies in the kernel; nobody reads the queue's drop "
		   "count"},
	{.pmd = "net_af_xdp",
	 .missed_known = true,
	 .source = "af_xdp/rte_eth_af_xdp.c: imissed from XDP_STATISTICS rx_dropped; no copy with "
		   "zero-copy drivers"},
	{.pmd = "net_vhost",
	 .rx_copies = true,
	 .alloc_on_rx = true,
	 .resets = true,
	 .any_mtu = true,
	 .source = "vhost/rte_eth_vhost.c: rte_vhost_dequeue_burst copies; a full ring is known to "
		   "the guest only"},
	{.pmd = "net_virtio_user",
	 .source = "virtio/virtio_ethdev.c: virtio_update_stats has no imissed"},
	{.pmd = "net_virtio",
	 .source = "virtio/virtio_ethdev.c: virtio_update_stats has no imissed"},
	{.pmd = "net_gve", .source = "gve/gve_ethdev.c: no imissed"},
	{.pmd = "net_mlx4", .source = "mlx4/mlx4_ethdev.c: no imissed"},
};

static const struct ethdev_fact any_vdev = {
	.pmd = "", .source = "a virtual device without an entry in this table: nothing is assumed"};
static const struct ethdev_fact any_nic = {
	.pmd = "",
	.missed_known = true,
	.source = "rte_ethdev.h: imissed, counted by the hardware"};

/* A virtual device without an entry is assumed to know nothing; a NIC is assumed to count imissed
 * in hardware. */
const struct ethdev_fact *ethdev_fact_find(const char *pmd, bool is_vdev)
{
	for (size_t i = 0; i < SPW_ARRAY_CNT(fact_table); i++)
		if (!strcmp(fact_table[i].pmd, pmd))
			return &fact_table[i];
	return is_vdev ? &any_vdev : &any_nic;
}
