/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * "afpacket:IFACE": AF_PACKET on an existing interface, and whatever is at its other end. sock.c
 * sends and receives; here is only the opening. Needs CAP_NET_RAW.
 *
 * Source: packet(7).
 *
 *   cable_afpacket_open   socket --> setup: addresses, options, bind --> claims --> cable_sock_new
 *
 * What to know before changing it: the socket belongs to this file until cable_sock_new() has it,
 * and after that to the cable, also if that call fails. The interface itself is left as it is,
 * except that it is promiscuous while the socket is open, and it may be one half of a veth pair, a
 * bridge port or a NIC.
 */
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "softhca/cable/sock.h"

/* Chooses the identity where the options left it open, and prepares the socket. The order matters:
 * bind() comes last, so that no frame arrives before the tags of VLANs are asked for. Options that
 * fail are not fatal: without CAP_NET_ADMIN the buffers stay as short as the system's limit. */
static int afpacket_setup(int fd, const char *iface, unsigned index, struct cable_id *id)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_ifindex = (int)index};
	struct packet_mreq promisc = {.mr_ifindex = (int)index, .mr_type = PACKET_MR_PROMISC};
	struct ifreq ifr = {0};
	const int one = 1, bytes = 8 << 20;

	/* The MAC of the interface, which the other end may know already. */
	strncpy(ifr.ifr_name, iface, sizeof(ifr.ifr_name) - 1);
	if (ioctl(fd, SIOCGIFHWADDR, &ifr))
		return -errno;
	cable_id_mac(id, (const uint8_t *)ifr.ifr_hwaddr.sa_data);
	cable_id_ip(id, (const uint8_t[4]){10, 53, 2, id->mac[5]});
	id->port = id->mac[5];
	/* The kernel takes VLAN tags off; as auxiliary data they can be put back (sock.c). */
	setsockopt(fd, SOL_PACKET, PACKET_AUXDATA, &one, sizeof(one));
	/* What this socket sends must not come back to it as received. */
	setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one));
	setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promisc, sizeof(promisc));
	setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes));
	at.sll_protocol = (unsigned short)((ETH_P_ALL & 0xff) << 8 | ETH_P_ALL >> 8);
	return bind(fd, (struct sockaddr *)&at, sizeof(at)) ? -errno : 0;
}

/* Claims an address on the interface. The claim is an abstract socket: the kernel frees it when its
 * owner dies, and it belongs to the same network namespace as the interface. Without claims, a
 * second NIC with the same address would receive the first one's frames. */
static int afpacket_claim(unsigned index, const char *what, const uint8_t *addr, size_t addr_bytes)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct ucred who = {0};
	socklen_t bytes = sizeof(who);
	char *p = at.sun_path + 1;
	int err;

	if (fd < 0)
		return spw_err(errno, "cable afpacket: %s", strerror(errno));
	p += sprintf(p, "spinwire-afpacket-%u-%s", index, what);
	for (size_t i = 0; i < addr_bytes; i++)
		p += sprintf(p, "-%02x", addr[i]);
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, 8) == 0)
		return fd;
	err = errno;
	if (connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0)
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes);
	close(fd);
	return spw_err(
		err,
		"cable afpacket: process %d already uses that %s on the interface; give each "
		"NIC its own --%s",
		(int)who.pid, what, what);
}

/* Claims both addresses, or none. */
static int afpacket_claim_both(unsigned index, const struct cable_id *id, int fd_out[2])
{
	fd_out[0] = afpacket_claim(index, "mac", id->mac, sizeof(id->mac));
	if (fd_out[0] < 0)
		return fd_out[0];
	fd_out[1] = afpacket_claim(index, "ip", id->ip, sizeof(id->ip));
	if (fd_out[1] < 0)
		close(fd_out[0]);
	return SPW_MIN(fd_out[1], 0);
}

int cable_afpacket_open(const char *iface, struct cable_id *id, struct cable **cable_out)
{
	const unsigned index = if_nametoindex(iface);
	struct cable_sock_how how = {.vlan_aux = true, .iface = iface};
	int fd, rc;

	if (!index)
		return spw_err(ENODEV, "cable afpacket:%s: no such interface", iface);
	fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return spw_err(errno, "cable afpacket:%s: %s%s", iface, strerror(errno),
			       errno == EPERM ? "; it needs CAP_NET_RAW" : "");
	rc = afpacket_setup(fd, iface, index, id);
	if (rc) {
		close(fd);
		return spw_err(-rc, "cable afpacket:%s: %s", iface, strerror(-rc));
	}
	rc = afpacket_claim_both(index, id, how.claim);
	if (rc) {
		close(fd);
		return rc;
	}
	/* From here on the claims are closed with the cable. */
	how.claim_cnt = 2;
	return cable_sock_new(fd, &how, cable_out);
}
