/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * AF_PACKET on an existing interface: whatever is at its other end. "afpacket:IFACE". */
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "softhca/cable_sock.h"

static int setup(int fd, const char *iface, unsigned index, struct cable_id *id)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_ifindex = (int)index};
	struct packet_mreq promisc = {.mr_ifindex = (int)index, .mr_type = PACKET_MR_PROMISC};
	static const uint8_t none[6];
	struct ifreq ifr = {0};
	const int one = 1, bytes = 8 << 20;

	strncpy(ifr.ifr_name, iface, sizeof(ifr.ifr_name) - 1);
	if (ioctl(fd, SIOCGIFHWADDR, &ifr))
		return -errno;
	if (memcmp(id->mac, none, 6) == 0)
		memcpy(id->mac, ifr.ifr_hwaddr.sa_data, 6);
	if (memcmp(id->ip, none, 4) == 0)
		memcpy(id->ip, (const uint8_t[4]){10, 53, 2, id->mac[5]}, 4);
	id->port = id->mac[5];
	setsockopt(fd, SOL_PACKET, PACKET_AUXDATA, &one, sizeof(one));
	setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one));
	setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promisc, sizeof(promisc));
	setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes));
	at.sll_protocol = (unsigned short)((ETH_P_ALL & 0xff) << 8 | ETH_P_ALL >> 8);
	return bind(fd, (struct sockaddr *)&at, sizeof(at)) ? -errno : 0;
}

int cable_afpacket_open(const char *iface, struct cable_id *id, struct cable **cable_out)
{
	const unsigned index = if_nametoindex(iface);
	int fd, rc;

	if (!index)
		return spw_err(ENODEV, "cable afpacket:%s: no such interface", iface);
	fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return spw_err(errno, "cable afpacket:%s: %s%s", iface, strerror(errno),
			       errno == EPERM ? "; it needs CAP_NET_RAW" : "");
	rc = setup(fd, iface, index, id);
	if (rc) {
		close(fd);
		return spw_err(-rc, "cable afpacket:%s: %s", iface, strerror(-rc));
	}
	return cable_sock_new(fd, true, NULL, 0, NULL, cable_out);
}
