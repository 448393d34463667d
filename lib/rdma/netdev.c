/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Statistics and MTU of the network interface of an RDMA port (spw_rdma_netdev.h), called by the
 * drivers' open, start and stat. The interface is that of the port's first GID; statistics are read
 * by ioctl, as ethtool reads them.
 */
#include "rdma/spw_rdma_netdev.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/spw_log.h"

#define MTU_DFLT 1500u
#define MTU_MIN  68u
#define MTU_MAX  9978u
#define STAT_MAX 65536u /* statistics of one interface */

/* ---- statistics ---- */

static uint32_t stat_cnt(rdma_ethtool_fn *call, void *arg, const char *netdev)
{
	struct {
		struct ethtool_sset_info head;
		uint32_t cnt;
	} info = {.head = {.cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1ull << ETH_SS_STATS}};

	if (call(arg, netdev, &info) || !info.head.sset_mask || info.cnt > STAT_MAX)
		return 0;
	return info.cnt;
}

/* Returns: the names, and their number; NULL: they cannot be read. */
static struct ethtool_gstrings *names_read(rdma_ethtool_fn *call, void *arg, const char *netdev,
					   uint32_t max)
{
	struct ethtool_gstrings *names = calloc(1, sizeof(*names) + (size_t)max * ETH_GSTRING_LEN);

	if (!names)
		return NULL;
	*names = (struct ethtool_gstrings){
		.cmd = ETHTOOL_GSTRINGS, .string_set = ETH_SS_STATS, .len = max};
	if (!call(arg, netdev, names) && names->len <= max)
		return names;
	free(names);
	return NULL;
}

static struct ethtool_stats *values_read(rdma_ethtool_fn *call, void *arg, const char *netdev,
					 uint32_t max)
{
	struct ethtool_stats *stats = calloc(1, sizeof(*stats) + max * sizeof(uint64_t));

	if (!stats)
		return NULL;
	*stats = (struct ethtool_stats){.cmd = ETHTOOL_GSTATS, .n_stats = max};
	if (!call(arg, netdev, stats))
		return stats;
	free(stats);
	return NULL;
}

static void stat_find(struct rdma_ethtool_stat *stat, const struct ethtool_gstrings *names,
		      const struct ethtool_stats *values)
{
	for (uint32_t i = 0; i < SPW_MIN(names->len, values->n_stats) && !stat->known; i++) {
		stat->known = !strncmp((const char *)names->data + (size_t)i * ETH_GSTRING_LEN,
				       stat->name, ETH_GSTRING_LEN);
		if (stat->known)
			memcpy(&stat->value, &values->data[i], sizeof(stat->value));
	}
}

/* The kernel writes as many statistics as it has at that moment, whatever room the caller has.
 * Twice the number of a moment ago is safe. */
void rdma_ethtool_read(rdma_ethtool_fn *call, void *arg, const char *netdev,
		       struct rdma_ethtool_stat *stat, uint32_t cnt)
{
	uint32_t max = 2 * stat_cnt(call, arg, netdev);
	struct ethtool_gstrings *names = max ? names_read(call, arg, netdev, max) : NULL;
	struct ethtool_stats *values = names ? values_read(call, arg, netdev, max) : NULL;

	for (uint32_t i = 0; i < cnt; i++) {
		stat[i].known = false;
		if (values)
			stat_find(&stat[i], names, values);
	}
	free(values);
	free(names);
}

static int ask_kernel(void *arg, const char *netdev, void *cmd)
{
	struct ifreq request = {.ifr_data = cmd};

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", netdev);
	return ioctl(*(int *)arg, SIOCETHTOOL, &request);
}

static void phy_read(const char *netdev, struct rdma_ethtool_stat stat[RDMA_PHY_CNT])
{
	/* mlx5's names; other drivers have none */
	static const char *const name[] = {[RDMA_PHY_RX] = "rx_packets_phy",
					   [RDMA_PHY_TX] = "tx_packets_phy",
					   [RDMA_PHY_DISCARDS] = "rx_discards_phy"};
	int fd = netdev[0] ? socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;

	for (uint32_t i = 0; i < RDMA_PHY_CNT; i++)
		stat[i] = (struct rdma_ethtool_stat){.name = name[i]};
	if (fd < 0)
		return;
	rdma_ethtool_read(ask_kernel, &fd, netdev, stat, RDMA_PHY_CNT);
	close(fd);
}

/* ---- the interface ---- */

static bool read_word(const char *path, char *word_out)
{
	FILE *f = fopen(path, "re");
	bool ok = f && fscanf(f, "%15s", word_out) == 1;

	if (f)
		fclose(f);
	return ok;
}

static void netdev_of(const struct rdma_dev *dev, char *netdev_out)
{
	char path[IBV_SYSFS_PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/ports/%u/gid_attrs/ndevs/0", dev->ctx->device->ibdev_path,
		 dev->port_num);
	if (!read_word(path, netdev_out))
		netdev_out[0] = '\0';
}

/* Returns: 0 unknown. */
static uint32_t netdev_mtu(const struct rdma_dev *dev, const char *netdev)
{
	char path[IBV_SYSFS_PATH_MAX + 64], word[IF_NAMESIZE];

	snprintf(path, sizeof(path), "%s/device/net/%s/mtu", dev->ctx->device->ibdev_path, netdev);
	if (!read_word(path, word)) {
		snprintf(path, sizeof(path), "/sys/class/net/%s/mtu",
			 netdev); /* a bond is not below one device */
		if (!strcmp(netdev, "lo") || !read_word(path, word))
			return 0;
	}
	return (uint32_t)strtoul(word, NULL, 10);
}

/* ---- for the drivers ---- */

void rdma_phy_start(const struct rdma_dev *dev, struct rdma_phy *phy)
{
	netdev_of(dev, phy->netdev);
	phy_read(phy->netdev, phy->base);
}

/* Returns: whether the counter is known at both moments. */
static bool moved(const struct rdma_ethtool_stat *base, const struct rdma_ethtool_stat *now,
		  uint64_t *by_out)
{
	bool known = base->known && now->known;

	*by_out = known ? now->value - base->value : 0;
	return known;
}

void rdma_phy_stat(const struct rdma_phy *phy, struct spw_port_stat *stat)
{
	const struct rdma_ethtool_stat *base = phy->base;
	struct rdma_ethtool_stat now[RDMA_PHY_CNT];
	bool rx, tx;

	phy_read(phy->netdev, now);
	rx = moved(&base[RDMA_PHY_RX], &now[RDMA_PHY_RX], &stat->phy_rx_packets);
	tx = moved(&base[RDMA_PHY_TX], &now[RDMA_PHY_TX], &stat->phy_tx_packets);
	stat->phy_known = rx && tx;
	stat->port_discards_known =
		moved(&base[RDMA_PHY_DISCARDS], &now[RDMA_PHY_DISCARDS], &stat->port_discards);
}

/* A counter that stays 0 while CQEs report losses does not count receive work queues (firmware
 * without modify_rq_counter_set_id). One that is smaller is stale: the kernel caches it for up to
 * 10 ms. */
void rdma_missed_stat(bool known, uint64_t counted, uint64_t by_cqe, struct spw_port_stat *stat)
{
	stat->missed_known = known && (counted || !by_cqe);
	stat->missed_frames = stat->missed_known ? SPW_MAX(counted, by_cqe) : 0;
	stat->wire_frames += stat->missed_frames;
}

uint32_t rdma_eth_mtu(const struct rdma_dev *dev, uint64_t asked)
{
	char netdev[IF_NAMESIZE];
	uint32_t has;

	netdev_of(dev, netdev);
	has = netdev[0] ? netdev_mtu(dev, netdev) : 0;
	if (!asked)
		return has ? SPW_MIN(SPW_MAX(has, MTU_MIN), MTU_MAX) : MTU_DFLT;
	if (asked < has)
		spw_warn("port %s: mtu=%u, but interface %s takes packets of %u bytes: longer "
			 "frames than a slot holds will be counted "
			 "too_long; leave mtu= out, or ip link set %s mtu %u",
			 dev->name, (unsigned)asked, netdev, has, netdev, (unsigned)asked);
	return (uint32_t)asked;
}
