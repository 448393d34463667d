/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Statistics, MTU and multicast groups of the network interface of an RDMA port
 * (spw_rdma_netdev.h), called by the drivers' open, start and stat. The interface is that of the
 * port's first GID; plat/spw_ethtool.h reads its statistics.
 */
#include "rdma/spw_rdma_netdev.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "plat/spw_netdev.h"

#define MTU_DFLT 1500u
#define MTU_MIN  68u
#define MTU_MAX  9978u

/* ---- statistics ---- */

/* Counters that the interface does not have are unknown, never 0. */
static void rdma_netdev_phy_read(const char *netdev, struct spw_phy_count count_out[SPW_PHY_CNT])
{
	/* mlx5's names; other drivers have none */
	static const char *const name[] = {[SPW_PHY_RX] = "rx_packets_phy",
					   [SPW_PHY_TX] = "tx_packets_phy",
					   [SPW_PHY_DISCARDS] = "rx_discards_phy"};
	int fd = netdev[0] ? socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
	struct spw_ethtool_stats stats = {0};

	if (fd >= 0)
		spw_ethtool_stats_read(spw_ethtool_kernel, &fd, netdev, &stats);
	for (uint32_t i = 0; i < SPW_PHY_CNT; i++)
		count_out[i].known = spw_ethtool_stats_find(&stats, name[i], &count_out[i].value);
	spw_ethtool_stats_free(&stats);
	if (fd >= 0)
		close(fd);
}

/* ---- the interface ---- */

/* The first line of a file. */
static bool rdma_netdev_read_line(const char *path, char *line_out, int bytes)
{
	FILE *f = fopen(path, "re");
	bool ok = f && fgets(line_out, bytes, f);

	if (f)
		fclose(f);
	if (ok)
		line_out[strcspn(line_out, "\n")] = '\0';
	return ok;
}

/* "" if the kernel names none. */
static void rdma_netdev_of(const struct rdma_dev *dev, char netdev_out[IF_NAMESIZE])
{
	char path[IBV_SYSFS_PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/ports/%u/gid_attrs/ndevs/0", dev->ctx->device->ibdev_path,
		 dev->port_num);
	if (!rdma_netdev_read_line(path, netdev_out, IF_NAMESIZE))
		netdev_out[0] = '\0';
}

/* An attribute of the interface in sysfs. A bond is not below one device. */
static bool rdma_netdev_attr(const struct rdma_dev *dev, const char *netdev, const char *attr,
			     char *line_out, int bytes)
{
	char path[IBV_SYSFS_PATH_MAX + 64];

	if (!netdev[0])
		return false;
	snprintf(path, sizeof(path), "%s/device/net/%s/%s", dev->ctx->device->ibdev_path, netdev,
		 attr);
	if (rdma_netdev_read_line(path, line_out, bytes))
		return true;
	snprintf(path, sizeof(path), "/sys/class/net/%s/%s", netdev, attr);
	return strcmp(netdev, "lo") && rdma_netdev_read_line(path, line_out, bytes);
}

/* Returns: 0 unknown. */
static uint32_t rdma_netdev_mtu(const struct rdma_dev *dev, const char *netdev)
{
	char line[16];

	return rdma_netdev_attr(dev, netdev, "mtu", line, sizeof(line))
		       ? (uint32_t)strtoul(line, NULL, 10)
		       : 0;
}

/* ---- for the drivers ---- */

void rdma_phy_start(const struct rdma_dev *dev, struct rdma_phy *phy)
{
	rdma_netdev_of(dev, phy->netdev);
	rdma_netdev_phy_read(phy->netdev, phy->base);
}

void rdma_phy_stat(const struct rdma_phy *phy, struct spw_port_stat *stat)
{
	struct spw_phy_count now[SPW_PHY_CNT];

	rdma_netdev_phy_read(phy->netdev, now);
	spw_phy_moved(phy->base, now, stat);
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

	rdma_netdev_of(dev, netdev);
	has = rdma_netdev_mtu(dev, netdev);
	if (!asked)
		return has ? SPW_MIN(SPW_MAX(has, MTU_MIN), MTU_MAX) : MTU_DFLT;
	if (asked < has)
		spw_warn("port %s: mtu=%u, but interface %s takes packets of %u bytes: longer "
			 "frames than a slot holds will be counted "
			 "too_long; leave mtu= out, or ip link set %s mtu %u",
			 dev->name, (unsigned)asked, netdev, has, netdev, (unsigned)asked);
	return (uint32_t)asked;
}

uint32_t rdma_eth_mtu_sent(const struct rdma_dev *dev, uint32_t slot_mtu)
{
	char netdev[IF_NAMESIZE];
	uint32_t has;

	rdma_netdev_of(dev, netdev);
	has = rdma_netdev_mtu(dev, netdev);
	return has ? SPW_MIN(has, slot_mtu) : slot_mtu;
}

/* Of a port whose interface is not here (software, another namespace): the default GID holds its
 * address as an EUI-64 (Linux, ib_core/cache.c, make_default_gid; RFC 4291, appendix A). */
static void rdma_mac_of_gid(const struct rdma_dev *dev, uint8_t mac_out[6])
{
	union ibv_gid gid;
	const uint8_t *raw = gid.raw;

	if (ibv_query_gid(dev->ctx, dev->port_num, 0, &gid) || raw[0] != 0xfe || raw[1] != 0x80 ||
	    raw[11] != 0xff || raw[12] != 0xfe)
		return;
	memcpy(mac_out, raw + 8, 3);
	memcpy(mac_out + 3, raw + 13, 3);
	mac_out[0] ^= 2;
}

void rdma_eth_mac(const struct rdma_dev *dev, uint8_t mac_out[6])
{
	static const uint8_t none[6];
	char netdev[IF_NAMESIZE], line[32];
	uint8_t *m = mac_out;

	rdma_netdev_of(dev, netdev);
	if (!rdma_netdev_attr(dev, netdev, "address", line, sizeof(line)) ||
	    sscanf(line, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx", &m[0], &m[1], &m[2], &m[3], &m[4],
		   &m[5]) != 6)
		memset(mac_out, 0, 6);
	if (!memcmp(mac_out, none, sizeof(none)))
		rdma_mac_of_gid(dev, mac_out);
}

int rdma_eth_check_use(const struct rdma_dev *dev, const struct rdma_flow_conf *flow)
{
	char netdev[IF_NAMESIZE], why[80];

	rdma_netdev_of(dev, netdev);
	if (!strcmp(netdev, "lo")) /* a software ConnectX without an interface */
		netdev[0] = '\0';
	if (!flow->by_default || !netdev[0] || !spw_netdev_in_use(netdev, why, sizeof(why)))
		return 0;
	return spw_err(
		EBUSY,
		"%s: %s, and without a key this port takes every frame from the kernel: name "
		"those that it should get (udp=, tcp=, ipv4=, ipv6=, group=, mac=, vlan=), or "
		"write "
		"flow=all",
		dev->name, why);
}

/* ---- multicast groups ---- */

/* By the index of the interface, which needs no address. */
static int rdma_join_one(int fd, const char *netdev, const struct rdma_group *group)
{
	const struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = group->addr_be},
				 source = {.sin_family = AF_INET,
					   .sin_addr.s_addr = group->source_be};
	struct group_source_req one = {.gsr_interface = if_nametoindex(netdev)};
	struct group_req any = {.gr_interface = one.gsr_interface};
	char text[INET_ADDRSTRLEN];
	int rc;

	memcpy(&any.gr_group, &addr, sizeof(addr));
	memcpy(&one.gsr_group, &addr, sizeof(addr));
	memcpy(&one.gsr_source, &source, sizeof(source));
	rc = group->source_be
		     ? setsockopt(fd, IPPROTO_IP, MCAST_JOIN_SOURCE_GROUP, &one, sizeof(one))
		     : setsockopt(fd, IPPROTO_IP, MCAST_JOIN_GROUP, &any, sizeof(any));
	if (!rc)
		return 0;
	inet_ntop(AF_INET, &addr.sin_addr, text, sizeof(text));
	if (errno == ENOBUFS)
		return spw_err(ENOBUFS,
			       "group=%s: the kernel joins no more groups, or senders of one, for "
			       "a port: sysctl -w net.ipv4.igmp_max_memberships=64 "
			       "net.ipv4.igmp_max_msf=64",
			       text);
	return spw_err(errno, "group=%s cannot be joined on %s: %s; ip link set %s up mtu 1500",
		       text, netdev, strerror(errno), netdev);
}

/* Some switches do not believe a report from 0.0.0.0. */
static void rdma_join_check_address(int fd, const char *netdev)
{
	struct ifreq req = {0};

	snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", netdev);
	if (ioctl(fd, SIOCGIFADDR, &req) && errno == EADDRNOTAVAIL)
		spw_warn("interface %s has no IPv4 address: IGMP reports of group= come from "
			 "0.0.0.0, which some switches ignore; ip addr add ADDRESS/24 dev %s",
			 netdev, netdev);
}

int rdma_join_groups(const struct rdma_dev *dev, const struct rdma_flow_conf *flow,
		     struct rdma_join *join)
{
	char netdev[IF_NAMESIZE];
	int rc = 0;

	rdma_netdev_of(dev, netdev);
	if (!flow->group_cnt)
		return 0;
	if (!strcmp(netdev, "lo")) { /* a software ConnectX without an interface */
		spw_info("%s has no network interface to join group= on: its cable brings every "
			 "frame",
			 dev->name);
		return 0;
	}
	if (!netdev[0] || !if_nametoindex(netdev))
		return spw_err(ENODEV,
			       "%s: no network interface is behind it in this network namespace, "
			       "and group= is joined on that: move it here (ip link set IFACE "
			       "netns PID), or name ipv4= and have switches flood the group",
			       dev->name);
	join->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (join->fd < 0)
		return spw_err(errno, "a socket to join group= with: %s", strerror(errno));
	join->open = true;
	rdma_join_check_address(join->fd, netdev);
	for (uint32_t i = 0; i < flow->group_cnt && !rc; i++)
		rc = rdma_join_one(join->fd, netdev, &flow->group[i]);
	return rc;
}

void rdma_join_end(struct rdma_join *join)
{
	if (join->open)
		close(join->fd);
	join->open = false;
}
