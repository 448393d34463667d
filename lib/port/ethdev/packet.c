/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the kernel dropped at the packet sockets of net_af_packet. The PMD of DPDK 22.11 does not
 * ask (25.03 is the first that does), and a full ring is then no loss that anybody counts. Its
 * sockets are descriptors of this process: those that appear while the device is created. Called by
 * dev.c around that, and by stat.c.
 *
 *   sockets before ─► rte_eal_hotplug_add ─► sockets after: the new ones on the interface are its
 *
 * Source: packet(7), PACKET_STATISTICS: reading it resets the counts, so they are added up here.
 */
#include <dirent.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <rte_version.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "port/ethdev/ethdev.h"

static bool ethdev_is_packet_socket(int fd, unsigned int if_index)
{
	struct sockaddr_ll at = {0};
	socklen_t bytes = sizeof(at);

	return getsockname(fd, (struct sockaddr *)&at, &bytes) == 0 && at.sll_family == AF_PACKET &&
	       (unsigned int)at.sll_ifindex == if_index;
}

static bool ethdev_is_in(const int *fd, uint32_t cnt, int wanted)
{
	for (uint32_t i = 0; i < cnt; i++)
		if (fd[i] == wanted)
			return true;
	return false;
}

/* Descriptors of packet sockets on the interface that are not in `known`. */
static uint32_t ethdev_sockets_find(const char *netdev, const int *known, uint32_t known_cnt,
				    int fd_out[ETHDEV_PACKET_MAX])
{
	const unsigned int if_index = if_nametoindex(netdev);
	DIR *dir = opendir("/proc/self/fd");
	uint32_t cnt = 0;

	for (struct dirent *e; dir && cnt < ETHDEV_PACKET_MAX && (e = readdir(dir));) {
		int fd = atoi(e->d_name);

		if (ethdev_is_packet_socket(fd, if_index) && !ethdev_is_in(known, known_cnt, fd))
			fd_out[cnt++] = fd;
	}
	if (dir)
		closedir(dir);
	return cnt;
}

#if RTE_VERSION >= RTE_VERSION_NUM(25, 3, 0, 0)
#define PMD_ASKS true
#else
#define PMD_ASKS false
#endif

/* netdev is set by vdev_check.c for net_af_packet only, so other PMDs cost nothing here. */
void ethdev_packet_before(struct ethdev_port *ep)
{
	if (ep->netdev[0] && !PMD_ASKS)
		ep->packet_cnt = ethdev_sockets_find(ep->netdev, NULL, 0, ep->packet_fd);
}

void ethdev_packet_after(struct ethdev_port *ep)
{
	int known[ETHDEV_PACKET_MAX];
	const uint32_t cnt = ep->packet_cnt;

	if (!ep->netdev[0] || PMD_ASKS)
		return;
	for (uint32_t i = 0; i < cnt; i++)
		known[i] = ep->packet_fd[i];
	ep->packet_cnt = cnt < ETHDEV_PACKET_MAX
				 ? ethdev_sockets_find(ep->netdev, known, cnt, ep->packet_fd)
				 : 0;
}

/* May be called by any thread: the kernel gives each count to one reader, and they are added up. */
void ethdev_packet_read(struct ethdev_port *ep)
{
	for (uint32_t i = 0; i < spw_thr_load_rlx(&ep->packet_cnt); i++) {
		struct tpacket_stats now = {0};
		socklen_t bytes = sizeof(now);

		if (getsockopt(ep->packet_fd[i], SOL_PACKET, PACKET_STATISTICS, &now, &bytes) == 0)
			spw_thr_fetch_add(&ep->packet_drops, (uint64_t)now.tp_drops);
	}
}

/* Before the device stops and closes its sockets: their numbers may be others' afterwards. */
void ethdev_packet_end(struct ethdev_port *ep)
{
	ethdev_packet_read(ep);
	spw_thr_store_rlx(&ep->packet_cnt, 0);
}
