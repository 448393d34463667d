/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What ethtool and getifaddrs answer of a network interface, put into a live tree:
 *
 *   ethtool/DEV/link = speed 200000 max 200000 autoneg 1                Mbit/s, -1 unknown
 *   ethtool/DEV/pause = rx 1 tx 1 autoneg 0
 *   ethtool/DEV/firmware = 28.45.1020 (MT_0000000884)
 *   ethtool/DEV/stats = one "NAME VALUE" a line
 *   addr/DEV = 10.0.0.1/24 192.168.0.1/24
 *
 * By ioctl, which answers on all kernels, and which the software ConnectX answers too. Source:
 * Linux include/uapi/linux/ethtool.h.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <linux/ethtool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plat/spw_ethtool.h"
#include "plat/plat_impl.h"

#define MODE_WORDS 127 /* words of link modes that the kernel can ask for */

struct asked {
	struct plat_tree *tree;
	const char *dev;
	int fd;
};

static int netdev_ioctl(struct asked *a, void *cmd)
{
	return a->fd < 0 || spw_ethtool_kernel(&a->fd, a->dev, cmd) < 0 ? -errno : 0;
}

/* An error is kept as well: a saved tree then answers as the machine did. */
static void netdev_put(const struct asked *a, const char *what, int rc, const char *text)
{
	char path[96];

	snprintf(path, sizeof(path), "ethtool/%.15s/%s", a->dev, what);
	if (rc < 0)
		plat_tree_put_error(a->tree, path, -rc);
	else
		plat_tree_put(a->tree, path, text);
}

/* Mbit/s of the link modes, by their bit; -1: a mode newer than this table. Source: enum
 * ethtool_link_mode_bit_indices of Linux 6.15. */
static int netdev_mode_speed(uint32_t bit)
{
	static const struct {
		uint8_t first, last;
		int mbit;
	} mode[] = {{0, 1, 10},       {2, 3, 100},        {4, 5, 1000},       {12, 12, 10000},
		    {15, 15, 2500},   {17, 20, 10000},    {21, 22, 20000},    {23, 26, 40000},
		    {27, 30, 56000},  {31, 33, 25000},    {34, 35, 50000},    {36, 39, 100000},
		    {40, 40, 50000},  {41, 41, 1000},     {42, 46, 10000},    {47, 47, 2500},
		    {48, 48, 5000},   {52, 56, 50000},    {57, 61, 100000},   {62, 66, 200000},
		    {69, 73, 400000}, {75, 79, 100000},   {80, 84, 200000},   {85, 89, 400000},
		    {93, 98, 800000}, {103, 108, 200000}, {109, 114, 400000}, {115, 120, 800000}};

	for (size_t i = 0; i < SPW_ARRAY_CNT(mode); i++)
		if (bit >= mode[i].first && bit <= mode[i].last)
			return mode[i].mbit;
	return -1;
}

static void netdev_link_probe(struct asked *a)
{
	struct {
		struct ethtool_link_settings set;
		uint32_t mode[3 * MODE_WORDS];
	} q = {.set.cmd = ETHTOOL_GLINKSETTINGS};
	int rc = netdev_ioctl(a, &q), max = -1;
	char text[96];

	/* The first call answers with the number of words, negative. */
	if (rc == 0 && q.set.link_mode_masks_nwords < 0) {
		q.set = (struct ethtool_link_settings){
			.cmd = ETHTOOL_GLINKSETTINGS,
			.link_mode_masks_nwords = (int8_t)-q.set.link_mode_masks_nwords};
		rc = netdev_ioctl(a, &q);
	}
	for (uint32_t bit = 0; rc == 0 && (int)(bit / 32) < q.set.link_mode_masks_nwords; bit++)
		if (q.mode[bit / 32] >> (bit % 32) & 1)
			max = SPW_MAX(max, netdev_mode_speed(bit));
	snprintf(text, sizeof(text), "speed %d max %d autoneg %u", (int)q.set.speed, max,
		 q.set.autoneg);
	netdev_put(a, "link", rc, text);
}

/* Pause that a port announces is no proof that it is sent: counters show that (counts.c). */
static void netdev_pause_probe(struct asked *a)
{
	struct ethtool_pauseparam q = {.cmd = ETHTOOL_GPAUSEPARAM};
	int rc = netdev_ioctl(a, &q);
	char text[64];

	snprintf(text, sizeof(text), "rx %u tx %u autoneg %u", q.rx_pause, q.tx_pause, q.autoneg);
	netdev_put(a, "pause", rc, text);
}

static void netdev_firmware_probe(struct asked *a)
{
	struct ethtool_drvinfo q = {.cmd = ETHTOOL_GDRVINFO};
	int rc = netdev_ioctl(a, &q);

	q.fw_version[sizeof(q.fw_version) - 1] = '\0';
	netdev_put(a, "firmware", rc, q.fw_version);
}

/* All statistics in one text, since they are read by one call. */
static void netdev_stats_probe(struct asked *a)
{
	struct spw_ethtool_stats stats;
	int rc = a->fd < 0 ? -EBADF
			   : spw_ethtool_stats_read(spw_ethtool_kernel, &a->fd, a->dev, &stats);
	size_t room = rc ? 1 : stats.cnt * (SPW_ETHTOOL_NAME_MAX + 24ul) + 1, used = 0;
	char *text = calloc(1, room), name[SPW_ETHTOOL_NAME_MAX];

	for (uint32_t i = 0; text && !rc && i < stats.cnt; i++) {
		uint64_t value = spw_ethtool_stats_at(&stats, i, name);

		used += (size_t)snprintf(text + used, room - used, "%s%s %" PRIu64, i ? "\n" : "",
					 name, value);
	}
	netdev_put(a, "stats", text ? rc : -ENOMEM, text ? text : "");
	if (!rc)
		spw_ethtool_stats_free(&stats);
	free(text);
}

/* IPv4 only: RoCE v2 over IPv4 is what the findings look for. */
static void netdev_addr_probe(struct asked *a)
{
	struct ifaddrs *list = NULL;
	char path[64], text[256] = "";
	size_t used = 0;

	snprintf(path, sizeof(path), "addr/%.15s", a->dev);
	if (getifaddrs(&list)) {
		plat_tree_put_error(a->tree, path, errno);
		return;
	}
	for (struct ifaddrs *i = list; i && used < sizeof(text); i = i->ifa_next) {
		char ip[INET_ADDRSTRLEN];
		struct sockaddr_in addr, mask;

		if (!i->ifa_addr || !i->ifa_netmask || i->ifa_addr->sa_family != AF_INET ||
		    strcmp(i->ifa_name, a->dev))
			continue;
		memcpy(&addr, i->ifa_addr, sizeof(addr));
		memcpy(&mask, i->ifa_netmask, sizeof(mask));
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s/%d",
					 used ? " " : "",
					 inet_ntop(AF_INET, &addr.sin_addr, ip, sizeof(ip)),
					 __builtin_popcount(mask.sin_addr.s_addr));
	}
	freeifaddrs(list);
	plat_tree_put(a->tree, path, text);
}

/* Statistics are not asked for here: they are read when counters are wanted, twice. */
void plat_probe_netdev(struct plat_tree *tree, const char *netdev)
{
	struct asked a = {tree, netdev, socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};

	netdev_link_probe(&a);
	netdev_pause_probe(&a);
	netdev_firmware_probe(&a);
	netdev_addr_probe(&a);
	if (a.fd >= 0)
		close(a.fd);
}

void plat_probe_stats(struct plat_tree *tree, const char *netdev)
{
	struct asked a = {tree, netdev, socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};

	netdev_stats_probe(&a);
	if (a.fd >= 0)
		close(a.fd);
}
