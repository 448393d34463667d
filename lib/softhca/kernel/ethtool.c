/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * ethtool, also -i, -S and -a, on the network interface of a device (--netdev): its link, the
 * driver, the port's counters under mlx5's names, and that it pauses. Called by preload/proc.c for
 * ioctl(SIOCETHTOOL). Source: <linux/ethtool.h>; Linux
 * drivers/net/ethernet/mellanox/mlx5/core/en_stats.c (names).
 *
 * What to know before changing it: names and values are made from one list, so their order agrees;
 * OWN_CNT is the number of rows in OWN_STATS. A command that is not here is the kernel's to answer,
 * which it does for an interface that exists. `data` is the program's memory, as ifr_data gave it.
 */
#include "softhca/kernel/ethtool.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "softhca/kernel/ctl.h"

/* First what every function has, then the statistics of the physical port, which all its functions
 * report alike, and a virtual one not at all. Bytes are without an FCS, which cables do not carry.
 * Discarded frames count as received by the port, as on a card. */
#define OWN_STATS(X) X(rx_out_of_buffer, CNT(out_of_buffer))
#define PHY_STATS(X)                                                                           \
	X(rx_packets_phy, PHY(port_rcv_packets) + PHY(rx_discards_phy) - PHY(rx_chip_packets)) \
	X(tx_packets_phy, PHY(port_xmit_packets) - PHY(tx_chip_packets))                       \
	X(rx_bytes_phy, PHY(rx_bytes_phy))                                                     \
	X(tx_bytes_phy, PHY(tx_bytes_phy))                                                     \
	X(rx_discards_phy, PHY(rx_discards_phy))                                               \
	X(tx_discards_phy, PHY(port_xmit_discards))                                            \
	X(rx_oversize_pkts_phy, PHY(rx_oversize_pkts_phy))                                     \
	X(rx_multicast_phy, PHY(multicast_rcv_packets) - PHY(rx_chip_multicast))               \
	X(tx_multicast_phy, PHY(multicast_xmit_packets))                                       \
	X(rx_pause_ctrl_phy, PHY(rx_pause_ctrl_phy))                                           \
	X(tx_pause_ctrl_phy, PHY(tx_pause_ctrl_phy))                                           \
	X(link_down_events_phy, CNT(link_downed))

#define CNT(field)         spw_thr_load_rlx(&dev->cnt.field)
#define PHY(field)         ethtool_port_sum(dev, offsetof(struct hca_cnt, field))
#define NAME(name, value)  #name,
#define VALUE(name, value) value,

static const char names[][ETH_GSTRING_LEN] = {OWN_STATS(NAME) PHY_STATS(NAME)};
#define STAT_CNT SPW_ARRAY_CNT(names)
#define OWN_CNT  1u

#define MODE_WORDS 3 /* of a mask of link modes: 96 modes */

/* A counter, over all functions of the device's physical port. */
static uint64_t ethtool_port_sum(const struct hca_dev *dev, size_t offset)
{
	const struct hca_dev *d = hca_first(dev);
	uint64_t sum = 0;

	for (uint32_t i = 0; i < dev->cfg->dev_cnt; i++)
		if (hca_same_port(&d[i], dev))
			sum += spw_thr_load_rlx(
				(const uint64_t *)((const char *)&d[i].cnt + offset));
	return sum;
}

/* The counters of the port come last, so leaving them out is a shorter list. */
static uint32_t ethtool_stats_cnt(const struct hca_dev *dev)
{
	return dev->cfg->card->is_vf || dev->cfg->card->is_sf ? OWN_CNT : STAT_CNT;
}

/* A caller also learns here for how many statistics it needs room. */
static int ethtool_drvinfo(const struct hca_dev *dev, struct ethtool_drvinfo *info)
{
	const uint64_t fw = hca_fw_ver(dev);

	*info = (struct ethtool_drvinfo){
		.cmd = ETHTOOL_GDRVINFO, .driver = "mlx5_core", .n_stats = ethtool_stats_cnt(dev)};
	snprintf(info->fw_version, sizeof(info->fw_version), "%u.%02u.%04u", (unsigned)(fw >> 32),
		 (unsigned)(fw >> 16 & 0xffff), (unsigned)(fw & 0xffff));
	snprintf(info->bus_info, sizeof(info->bus_info), "%04x:%02x:%02x.%x", dev->id.pci_domain,
		 dev->id.pci_bus, dev->id.pci_dev, dev->id.pci_func);
	return 0;
}

/* Answers one word for each requested set that exists, in the order of the bits. */
static int ethtool_sset_info(const struct hca_dev *dev, struct ethtool_sset_info *info)
{
	const bool stats = info->sset_mask & 1ull << ETH_SS_STATS;

	info->sset_mask = stats ? 1ull << ETH_SS_STATS : 0;
	if (stats)
		info->data[0] = ethtool_stats_cnt(dev);
	return 0;
}

/* The caller asked for the number before, and has room for as many. */
static int ethtool_strings(const struct hca_dev *dev, struct ethtool_gstrings *s)
{
	if (s->string_set != ETH_SS_STATS)
		return -EOPNOTSUPP;
	s->len = ethtool_stats_cnt(dev);
	memcpy(s->data, names, s->len * sizeof(names[0]));
	return 0;
}

static int ethtool_stats(const struct hca_dev *dev, struct ethtool_stats *s)
{
	const uint64_t values[] = {OWN_STATS(VALUE) PHY_STATS(VALUE)};

	s->n_stats = ethtool_stats_cnt(dev);
	memcpy(s->data, values, s->n_stats * sizeof(values[0]));
	return 0;
}

/* ---- the link ---- */

/* A caller asks first for the number of words of a mask, which is answered negative. */
static int ethtool_link_settings(const struct hca_dev *dev, struct ethtool_link_settings *s)
{
	static const struct {
		uint32_t mbps, bit;
	} mode[] = {{10000, ETHTOOL_LINK_MODE_10000baseKR_Full_BIT},
		    {25000, ETHTOOL_LINK_MODE_25000baseCR_Full_BIT},
		    {40000, ETHTOOL_LINK_MODE_40000baseCR4_Full_BIT},
		    {50000, ETHTOOL_LINK_MODE_50000baseCR2_Full_BIT},
		    {100000, ETHTOOL_LINK_MODE_100000baseCR4_Full_BIT},
		    {200000, ETHTOOL_LINK_MODE_200000baseCR4_Full_BIT},
		    {400000, ETHTOOL_LINK_MODE_400000baseCR8_Full_BIT}};
	const bool whole = s->link_mode_masks_nwords == MODE_WORDS;

	memset(s, 0, sizeof(*s));
	s->cmd = ETHTOOL_GLINKSETTINGS;
	s->link_mode_masks_nwords = whole ? MODE_WORDS : -MODE_WORDS;
	if (!whole)
		return 0;
	s->speed = hca_speed_mbps(dev);
	s->duplex = DUPLEX_FULL;
	s->autoneg = AUTONEG_ENABLE;
	s->port = PORT_DA;
	memset(s->link_mode_masks, 0, 3 * MODE_WORDS * sizeof(uint32_t));
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(mode); i++)
		for (uint32_t mask = 0; mask < 2 && mode[i].mbps <= dev->cfg->speed_mbps; mask++)
			s->link_mode_masks[mask * MODE_WORDS + mode[i].bit / 32] |=
				1u << mode[i].bit % 32;
	return 0;
}

static int ethtool_pause_param(struct ethtool_pauseparam *pause)
{
	*pause = (struct ethtool_pauseparam){
		.cmd = ETHTOOL_GPAUSEPARAM, .rx_pause = 1, .tx_pause = 1};
	return 0;
}

/* The first word of every command is its number. */
int hca_ethtool(const struct hca_dev *dev, void *data)
{
	uint32_t cmd;

	if (!data)
		return -EFAULT;
	memcpy(&cmd, data, sizeof(cmd));
	switch (cmd) {
	case ETHTOOL_GDRVINFO:
		return ethtool_drvinfo(dev, data);
	case ETHTOOL_GSSET_INFO:
		return ethtool_sset_info(dev, data);
	case ETHTOOL_GSTRINGS:
		return ethtool_strings(dev, data);
	case ETHTOOL_GSTATS:
		return ethtool_stats(dev, data);
	case ETHTOOL_GLINKSETTINGS:
		return ethtool_link_settings(dev, data);
	case ETHTOOL_GPAUSEPARAM:
		return ethtool_pause_param(data);
	default:
		return -EOPNOTSUPP;
	}
}
