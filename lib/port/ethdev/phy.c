/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the physical port of an ethdev counts, by the PMD's extended statistics: whether frames
 * crossed a cable or turned round inside the NIC (plat/spw_ethtool.h). Called by port.c at start
 * and by stat.c; reading them is a system call of the PMD.
 */
#include <rte_ethdev.h>
#include <string.h>

#include "port/ethdev/ethdev.h"

/* The names of net_mlx5, whose port is shared by several functions (DPDK,
 * drivers/net/mlx5/linux/mlx5_ethdev_os.c, mlx5_counters_init). A PMD without them leaves the
 * counts unknown. */
static const char *const phy_name[SPW_PHY_CNT] = {
	[SPW_PHY_RX] = "rx_phy_packets",
	[SPW_PHY_TX] = "tx_phy_packets",
	[SPW_PHY_DISCARDS] = "rx_phy_discard_packets",
};

static void ethdev_phy_read(const struct ethdev_port *ep, struct spw_phy_count count[SPW_PHY_CNT])
{
	memset(count, 0, SPW_PHY_CNT * sizeof(*count));
	for (uint32_t i = 0; i < SPW_PHY_CNT; i++)
		count[i].known = ep->phy_id[i] != ETHDEV_NO_XSTAT &&
				 rte_eth_xstats_get_by_id(ep->port_id, &ep->phy_id[i],
							  &count[i].value, 1) == 1;
}

void ethdev_phy_start(struct ethdev_port *ep)
{
	for (uint32_t i = 0; i < SPW_PHY_CNT; i++)
		if (rte_eth_xstats_get_id_by_name(ep->port_id, phy_name[i], &ep->phy_id[i]))
			ep->phy_id[i] = ETHDEV_NO_XSTAT;
	ethdev_phy_read(ep, ep->phy_base);
}

void ethdev_phy_keep(struct ethdev_port *ep)
{
	ethdev_phy_read(ep, ep->phy_last);
}

void ethdev_phy_stat(const struct ethdev_port *ep, struct spw_port_stat *stat)
{
	struct spw_phy_count now[SPW_PHY_CNT];

	if (!ep->closed)
		ethdev_phy_read(ep, now);
	spw_phy_moved(ep->phy_base, ep->closed ? ep->phy_last : now, stat);
}
