/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Statistics of network interfaces by ioctl, as ethtool reads them (spw_ethtool.h): how many, their
 * names, their values. ethtool's netlink has no call for the statistics that a driver names itself.
 *
 * The call is a parameter (spw_ethtool_fn), so that a test answers in the kernel's place. Used by
 * the probes of this library and by lib/rdma. What a driver counts has no fixed order: values are
 * found by name.
 *
 *    ETHTOOL_GSSET_INFO   how many        ETHTOOL_GSTRINGS   names        ETHTOOL_GSTATS   values
 */
#include "plat/spw_ethtool.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#define STAT_MAX 65536u /* statistics of one interface */

/* socket points to a descriptor of any socket. */
int spw_ethtool_kernel(void *socket, const char *netdev, void *cmd)
{
	struct ifreq request = {.ifr_data = cmd};

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%.15s", netdev);
	return ioctl(*(int *)socket, SIOCETHTOOL, &request);
}

/* ---- statistics ---- */

static int ethtool_stat_cnt(spw_ethtool_fn *call, void *arg, const char *netdev, uint32_t *cnt_out)
{
	struct {
		struct ethtool_sset_info head;
		uint32_t cnt;
	} info = {.head = {.cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1ull << ETH_SS_STATS}};

	if (call(arg, netdev, &info))
		return -errno;
	*cnt_out = info.cnt;
	return info.head.sset_mask && info.cnt && info.cnt <= STAT_MAX ? 0 : -EOPNOTSUPP;
}

/* Names and values are of two calls, between which the number may change: the smaller one counts.
 */
static int ethtool_both_read(spw_ethtool_fn *call, void *arg, const char *netdev, uint32_t max,
			     struct spw_ethtool_stats *stats)
{
	stats->names = calloc(1, sizeof(*stats->names) + (size_t)max * ETH_GSTRING_LEN);
	stats->values = calloc(1, sizeof(*stats->values) + max * sizeof(uint64_t));
	if (!stats->names || !stats->values)
		return -ENOMEM;
	*stats->names = (struct ethtool_gstrings){
		.cmd = ETHTOOL_GSTRINGS, .string_set = ETH_SS_STATS, .len = max};
	*stats->values = (struct ethtool_stats){.cmd = ETHTOOL_GSTATS, .n_stats = max};
	if (call(arg, netdev, stats->names) || call(arg, netdev, stats->values))
		return -errno;
	stats->cnt = SPW_MIN(SPW_MIN(stats->names->len, stats->values->n_stats), max);
	return 0;
}

/* The kernel writes as many statistics as it has at that moment, whatever room the caller has.
 * Twice the number of a moment ago is safe. */
int spw_ethtool_stats_read(spw_ethtool_fn *call, void *arg, const char *netdev,
			   struct spw_ethtool_stats *stats)
{
	uint32_t cnt = 0;
	int rc;

	memset(stats, 0, sizeof(*stats));
	rc = ethtool_stat_cnt(call, arg, netdev, &cnt);
	rc = rc ? rc : ethtool_both_read(call, arg, netdev, 2 * cnt, stats);
	if (rc)
		spw_ethtool_stats_free(stats);
	return rc;
}

void spw_ethtool_stats_free(struct spw_ethtool_stats *stats)
{
	free(stats->names);
	free(stats->values);
	memset(stats, 0, sizeof(*stats));
}

/* Names fill their field without a terminator when they are as long as it is. */
uint64_t spw_ethtool_stats_at(const struct spw_ethtool_stats *stats, uint32_t i,
			      char name[SPW_ETHTOOL_NAME_MAX])
{
	uint64_t value;

	snprintf(name, SPW_ETHTOOL_NAME_MAX, "%.*s", ETH_GSTRING_LEN,
		 (const char *)stats->names->data + (size_t)i * ETH_GSTRING_LEN);
	memcpy(&value, &stats->values->data[i], sizeof(value));
	return value;
}

bool spw_ethtool_stats_find(const struct spw_ethtool_stats *stats, const char *name,
			    uint64_t *value_out)
{
	char its[SPW_ETHTOOL_NAME_MAX];

	for (uint32_t i = 0; i < stats->cnt; i++) {
		uint64_t value = spw_ethtool_stats_at(stats, i, its);

		if (strcmp(its, name))
			continue;
		*value_out = value;
		return true;
	}
	return false;
}

/* ---- a physical port ---- */

static bool phy_count_moved(const struct spw_phy_count *base, const struct spw_phy_count *now,
			    uint64_t *by_out)
{
	bool known = base->known && now->known;

	*by_out = known ? now->value - base->value : 0;
	return known;
}

/* A counter that was unknown at either reading makes the difference unknown, not 0. */
void spw_phy_moved(const struct spw_phy_count base[SPW_PHY_CNT],
		   const struct spw_phy_count now[SPW_PHY_CNT], struct spw_port_stat *stat)
{
	bool rx = phy_count_moved(&base[SPW_PHY_RX], &now[SPW_PHY_RX], &stat->phy_rx_packets);
	bool tx = phy_count_moved(&base[SPW_PHY_TX], &now[SPW_PHY_TX], &stat->phy_tx_packets);

	stat->phy_known = rx && tx;
	stat->port_discards_known = phy_count_moved(&base[SPW_PHY_DISCARDS], &now[SPW_PHY_DISCARDS],
						    &stat->port_discards);
}
