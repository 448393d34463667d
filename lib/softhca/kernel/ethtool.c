/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * ethtool -i and -S on the network interface of a device (--netdev): the driver, and the port's
 * counters under mlx5's names. Called by preload/proc.c for ioctl(SIOCETHTOOL).
 * Source: <linux/ethtool.h>; Linux drivers/net/ethernet/mellanox/mlx5/core/en_stats.c (names).
 */
#include "softhca/kernel/ethtool.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <stdio.h>
#include <string.h>

#include "softhca/kernel/ctl.h"

/* Bytes are without an FCS, which cables do not carry. Discarded frames count as received by the
 * physical port, as on a card. */
#define STATS(X)                                                        \
	X(rx_packets_phy, CNT(port_rcv_packets) + CNT(rx_discards_phy)) \
	X(tx_packets_phy, CNT(port_xmit_packets))                       \
	X(rx_bytes_phy, CNT(rx_bytes_phy))                              \
	X(tx_bytes_phy, CNT(tx_bytes_phy))                              \
	X(rx_discards_phy, CNT(rx_discards_phy))                        \
	X(tx_discards_phy, CNT(port_xmit_discards))                     \
	X(rx_multicast_phy, CNT(multicast_rcv_packets))                 \
	X(tx_multicast_phy, CNT(multicast_xmit_packets))                \
	X(rx_out_of_buffer, CNT(out_of_buffer))                         \
	X(link_down_events_phy, CNT(link_downed))

#define CNT(field)         spw_thr_load_rlx(&dev->cnt.field)
#define NAME(name, value)  #name,
#define VALUE(name, value) value,

static const char names[][ETH_GSTRING_LEN] = {STATS(NAME)};
#define STAT_CNT SPW_ARRAY_CNT(names)

static int drvinfo(const struct hca_dev *dev, struct ethtool_drvinfo *info)
{
	const uint64_t fw = hca_fw_ver(dev);

	*info = (struct ethtool_drvinfo){
		.cmd = ETHTOOL_GDRVINFO, .driver = "mlx5_core", .n_stats = STAT_CNT};
	snprintf(info->fw_version, sizeof(info->fw_version), "%u.%02u.%04u", (unsigned)(fw >> 32),
		 (unsigned)(fw >> 16 & 0xffff), (unsigned)(fw & 0xffff));
	snprintf(info->bus_info, sizeof(info->bus_info), "%04x:%02x:%02x.%x", dev->id.pci_domain,
		 dev->id.pci_bus, dev->id.pci_dev, dev->id.pci_func);
	return 0;
}

/* Answers one word for each requested set that exists, in the order of the bits. */
static int sset_info(struct ethtool_sset_info *info)
{
	const bool stats = info->sset_mask & 1ull << ETH_SS_STATS;

	info->sset_mask = stats ? 1ull << ETH_SS_STATS : 0;
	if (stats)
		info->data[0] = STAT_CNT;
	return 0;
}

static int strings(struct ethtool_gstrings *s)
{
	if (s->string_set != ETH_SS_STATS)
		return -EOPNOTSUPP;
	s->len = STAT_CNT;
	memcpy(s->data, names, sizeof(names));
	return 0;
}

static int stats(const struct hca_dev *dev, struct ethtool_stats *s)
{
	const uint64_t values[] = {STATS(VALUE)};

	s->n_stats = STAT_CNT;
	memcpy(s->data, values, sizeof(values));
	return 0;
}

int hca_ethtool(const struct hca_dev *dev, void *data)
{
	uint32_t cmd;

	if (!data)
		return -EFAULT;
	memcpy(&cmd, data, sizeof(cmd));
	switch (cmd) {
	case ETHTOOL_GDRVINFO:
		return drvinfo(dev, data);
	case ETHTOOL_GSSET_INFO:
		return sset_info(data);
	case ETHTOOL_GSTRINGS:
		return strings(data);
	case ETHTOOL_GSTATS:
		return stats(dev, data);
	default:
		return -EOPNOTSUPP;
	}
}
