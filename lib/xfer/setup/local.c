/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the interfaces of this machine say of an address: the prefix of its subnet, and whether it
 * is on a link of ours. IPv4 is mapped (RFC 4291 2.5.5.2), and so are prefixes: 10.0.0.1/24 has 120
 * bits.
 * Called at open for the rails' own addresses, by listen.c, and by dial.c for the peer's. The list
 * of interfaces is read anew each time: it changes while a program runs.
 */
#include <ifaddrs.h>
#include <string.h>

#include "oob/spw_oob_addr.h"
#include "xfer/pair.h"
#include "xfer/reach.h"

#define MAPPED_BITS 96u

/* Masks are contiguous, so their bits are counted. */
static uint32_t local_ones(const uint8_t *mask, size_t bytes)
{
	uint32_t n = 0;

	for (size_t i = 0; i < bytes; i++)
		n += (uint32_t)__builtin_popcount(mask[i]);
	return n;
}

bool xfer_interface_read(const struct ifaddrs *i, struct in6_addr *ip_out, uint32_t *prefix_out)
{
	const void *mask = i->ifa_netmask;
	const struct sockaddr_in *m4 = mask;
	const struct sockaddr_in6 *m6 = mask;
	struct sockaddr_in6 addr;

	if (!i->ifa_addr || !mask || !spw_oob_addr_take(i->ifa_addr, &addr))
		return false;
	*ip_out = addr.sin6_addr;
	*prefix_out = i->ifa_addr->sa_family == AF_INET
			      ? MAPPED_BITS + local_ones((const uint8_t *)&m4->sin_addr, 4)
			      : local_ones(m6->sin6_addr.s6_addr, 16);
	return true;
}

/* The longest prefix of an interface whose address this is (exact), or in whose subnet it is. */
static uint32_t local_longest(const uint8_t gid[16], bool exact)
{
	struct xfer_end want = {.prefix = 128}, end;
	struct ifaddrs *list;
	struct in6_addr ip;
	uint32_t prefix, best = 0;

	memcpy(want.gid, gid, sizeof(want.gid));
	if (getifaddrs(&list))
		return 0;
	for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
		if (!xfer_interface_read(i, &ip, &prefix) || !prefix)
			continue;
		end.prefix = (uint16_t)(exact ? 128 : prefix);
		want.prefix = end.prefix;
		memcpy(end.gid, &ip, sizeof(end.gid));
		if (xfer_pair_kind(&want, &end) == XFER_PAIR_SUBNET)
			best = SPW_MAX(best, prefix);
	}
	freeifaddrs(list);
	return best;
}

uint32_t xfer_local_prefix(const uint8_t gid[16])
{
	return local_longest(gid, true);
}

/* Link-local subnets count: the peer may be on that cable. */
bool xfer_local_reaches(const struct in6_addr *ip)
{
	return local_longest(ip->s6_addr, false) > 0;
}
