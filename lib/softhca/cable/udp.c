/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * "udp:PEER" or "udp:MINE,PEER": one Ethernet frame per UDP datagram, between hosts, containers and
 * pods, without any capability. QEMU's "-netdev dgram" with inet addresses speaks the same. sock.c
 * sends and receives; here is only the opening.
 *
 *   cable_udp_open   names --> socket --> bind MINE --> connect PEER --> drain --> cable_sock_new
 *
 * A frame longer than the path's MTU travels in IP fragments. Whoever can send datagrams from
 * PEER's address can send frames: the network between the ends is the wire, and is not protected.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "softhca/cable/sock.h"
#include "softhca/cable/udp_addr.h"

/* Address and port without what only one host knows, as a scope. */
static void udp_addr_key(const struct sockaddr_storage *sa, uint8_t key_out[18])
{
	const struct sockaddr_in *v4 = (const void *)sa;
	const struct sockaddr_in6 *v6 = (const void *)sa;

	memset(key_out, 0, 18);
	if (sa->ss_family == AF_INET6) {
		memcpy(key_out, &v6->sin6_addr, 16);
		memcpy(key_out + 16, &v6->sin6_port, 2);
	} else {
		memcpy(key_out, &v4->sin_addr, 4);
		memcpy(key_out + 16, &v4->sin_port, 2);
	}
}

/* Both ends hash the same pair, so that their addresses differ in the last bit and no more. Through
 * a NAT they see different pairs: give each end its own --mac and --ip there. */
static int udp_choose_id(int fd, const struct cable_udp_addr *peer, struct cable_id *id)
{
	struct sockaddr_storage own = {0};
	socklen_t bytes = sizeof(own);
	uint8_t key[2][18], side;
	uint32_t h;

	if (getsockname(fd, (struct sockaddr *)&own, &bytes))
		return -errno;
	udp_addr_key(&own, key[0]);
	udp_addr_key(&peer->sa, key[1]);
	side = memcmp(key[0], key[1], sizeof(key[0])) > 0;
	h = cable_hash(CABLE_HASH_SEED, key[side], sizeof(key[0]));
	h = cable_hash(h, key[!side], sizeof(key[0]));
	id->port = h % 126 * 2 + side;
	cable_id_mac(id, (const uint8_t[6]){0x02, 0x53, 0x55, (uint8_t)(h >> 16), (uint8_t)(h >> 8),
					    (uint8_t)((h & 0xfe) | side)});
	cable_id_ip(id, (const uint8_t[4]){10, 53, 3, (uint8_t)(id->port + 1)});
	return 0;
}

/* Frames are fragmented rather than refused. */
static void udp_fragment(int fd, int family)
{
	const int dont = family == AF_INET6 ? IPV6_PMTUDISC_DONT : IP_PMTUDISC_DONT;

	if (family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &dont, sizeof(dont));
	else
		setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &dont, sizeof(dont));
}

/* Once connected the kernel passes on datagrams of the peer only; what a stranger sent before that
 * is thrown away. */
static int udp_join(int fd, const struct cable_udp_addr *mine, const struct cable_udp_addr *peer)
{
	const int bytes = 4 << 20;
	char stranger;

	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	udp_fragment(fd, peer->sa.ss_family);
	if (bind(fd, (const struct sockaddr *)&mine->sa, mine->bytes) ||
	    connect(fd, (const struct sockaddr *)&peer->sa, peer->bytes))
		return -errno;
	while (recv(fd, &stranger, sizeof(stranger), MSG_DONTWAIT) >= 0)
		;
	return 0;
}

int cable_udp_open(const char *ends, struct cable_id *id, struct cable **cable_out)
{
	const struct cable_sock_how how = {.to_bytes = 0};
	struct cable_udp_addr mine, peer;
	int fd, rc = cable_udp_resolve(ends, &mine, &peer);

	if (rc)
		return rc;
	fd = socket(peer.sa.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return spw_err(errno, "cable udp:%s: %s", ends, strerror(errno));
	rc = udp_join(fd, &mine, &peer);
	rc = rc ? rc : udp_choose_id(fd, &peer, id);
	if (rc) {
		close(fd);
		return spw_err(-rc, "cable udp:%s: %s%s", ends, strerror(-rc),
			       rc == -EADDRINUSE ? "; each NIC needs its own port" : "");
	}
	return cable_sock_new(fd, &how, cable_out);
}
