/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Parses and prints addresses, and tests whether one is in a list or belongs to the same host.
 * Pure. IPv4-mapped addresses: RFC 4291 2.5.5.2. One host's IPv6 addresses share the first 64 bits:
 * RFC 4291 2.5.1 and RFC 7421.
 *
 * Every address of this library is a sockaddr_in6; socket.c alone makes an AF_INET one of it again.
 * Called by lib/peer (keys and its list of addresses), lib/xfer (bind, listeners, subnets),
 * lib/coll and door.c.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "oob/spw_oob_addr.h"

#define MAPPED_BITS 96u
#define HOST_BITS   64u /* of an IPv6 address; a host chooses the rest itself */

/* IPv4 becomes ::ffff:a.b.c.d, so one comparison serves both families. */
static bool addr_ip_parse(const char *text, struct in6_addr *addr_out)
{
	struct in_addr v4;

	if (inet_pton(AF_INET6, text, addr_out) == 1)
		return true;
	if (inet_pton(AF_INET, text, &v4) != 1)
		return false;
	*addr_out = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
	memcpy(&addr_out->s6_addr[12], &v4, sizeof(v4));
	return true;
}

/* The result of accept(2), getsockname(2), getaddrinfo(3) or getifaddrs(3), of either family. */
bool spw_oob_addr_take(const void *from, struct sockaddr_in6 *addr_out)
{
	const struct sockaddr_in *v4 = from;

	if (v4->sin_family == AF_INET6) {
		memcpy(addr_out, from, sizeof(*addr_out));
		return true;
	}
	*addr_out = (struct sockaddr_in6){.sin6_family = AF_INET6,
					  .sin6_port = v4->sin_port,
					  .sin6_addr.s6_addr = {[10] = 0xff, [11] = 0xff}};
	memcpy(&addr_out->sin6_addr.s6_addr[12], &v4->sin_addr, 4);
	return v4->sin_family == AF_INET;
}

/* Decimal digits only, no sign and no blank. */
static bool addr_number(const char *text, unsigned long max, unsigned long *value_out)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*value_out = strtoul(text, &end, 10);
	return !*end && !errno && *value_out <= max;
}

/* The last colon separates the port; an IPv6 address stands in brackets, since its own colons would
 * make that ambiguous. */
int spw_oob_addr_parse(const char *text, struct sockaddr_in6 *addr_out)
{
	const char *colon = strrchr(text, ':');
	char host[INET6_ADDRSTRLEN + 2];
	unsigned long port;
	size_t len;
	char *ip = host;

	memset(addr_out, 0, sizeof(*addr_out));
	len = colon ? (size_t)(colon - text) : 0;
	if (!colon || len >= sizeof(host) || !addr_number(colon + 1, UINT16_MAX, &port))
		return spw_err(EINVAL, "'%s' is no address: use 10.0.0.1:7000 or [fd00::1]:7000",
			       text);
	memcpy(host, text, len);
	host[len] = '\0';
	if (len > 2 && host[0] == '[' && host[len - 1] == ']') {
		host[len - 1] = '\0';
		ip++;
	} else if (strchr(host, ':')) {
		return spw_err(EINVAL, "'%s' is no address: an IPv6 address stands in [ ]", text);
	}
	if (!addr_ip_parse(ip, &addr_out->sin6_addr))
		return spw_err(EINVAL,
			       "'%s' is no address: use numbers, 10.0.0.1:7000 or [fd00::1]:7000",
			       text);
	addr_out->sin6_family = AF_INET6;
	addr_out->sin6_port = htons((uint16_t)port);
	return 0;
}

/* Bits from .. to - 1, counted from the most significant bit of the first byte. */
static bool addr_bits_same(const struct in6_addr *a, const struct in6_addr *b, unsigned from,
			   unsigned to)
{
	for (unsigned i = from; i < to; i++)
		if ((a->s6_addr[i / 8] ^ b->s6_addr[i / 8]) >> (7 - i % 8) & 1)
			return false;
	return true;
}

/* Bits beyond the prefix are refused rather than ignored: 10.0.0.1/8 more often is a mistyped /32
 * than a wish for 10.0.0.0/8. */
int spw_oob_prefix_parse(const char *text, struct spw_oob_prefix *prefix_out)
{
	static const struct in6_addr zero;
	char ip[INET6_ADDRSTRLEN];
	const char *slash = strchr(text, '/');
	size_t len = slash ? (size_t)(slash - text) : strlen(text);
	unsigned long bits;
	bool v4;

	if (len >= sizeof(ip))
		return spw_err(EINVAL, "'%s' is no address or prefix", text);
	memcpy(ip, text, len);
	ip[len] = '\0';
	v4 = !strchr(ip, ':');
	bits = v4 ? 32 : 128;
	if (!addr_ip_parse(ip, &prefix_out->addr) ||
	    (slash && !addr_number(slash + 1, bits, &bits)))
		return spw_err(EINVAL,
			       "'%s' is no address or prefix: use 10.0.0.0/8, 10.0.0.1 or fd00::/8",
			       text);
	bits += v4 ? MAPPED_BITS : 0;
	if (!addr_bits_same(&prefix_out->addr, &zero, (unsigned)bits, 128))
		return spw_err(EINVAL,
			       "'%s' has bits beyond its prefix: write the network's address",
			       text);
	prefix_out->bits = (uint8_t)bits;
	return 0;
}

bool spw_oob_prefix_has(const struct spw_oob_prefix *prefix, uint32_t cnt,
			const struct in6_addr *addr)
{
	for (uint32_t i = 0; i < cnt; i++)
		if (addr_bits_same(&prefix[i].addr, addr, 0, prefix[i].bits))
			return true;
	return false;
}

/* The privacy addresses of one IPv6 host would otherwise count as many hosts, and take all seats.
 */
bool spw_oob_addr_same_host(const struct in6_addr *a, const struct in6_addr *b)
{
	return addr_bits_same(a, b, 0,
			      IN6_IS_ADDR_V4MAPPED(a) || IN6_IS_ADDR_V4MAPPED(b) ? 128 : HOST_BITS);
}

bool spw_oob_addr_is_loopback(const struct in6_addr *addr)
{
	return IN6_IS_ADDR_LOOPBACK(addr) ||
	       (IN6_IS_ADDR_V4MAPPED(addr) && addr->s6_addr[12] == 127);
}

const char *spw_oob_addr_text(const struct sockaddr_in6 *addr, char text_out[64])
{
	char ip[INET6_ADDRSTRLEN];

	if (IN6_IS_ADDR_V4MAPPED(&addr->sin6_addr)) {
		inet_ntop(AF_INET, &addr->sin6_addr.s6_addr[12], ip, sizeof(ip));
		snprintf(text_out, 64, "%s:%u", ip, ntohs(addr->sin6_port));
	} else {
		inet_ntop(AF_INET6, &addr->sin6_addr, ip, sizeof(ip));
		snprintf(text_out, 64, "[%s]:%u", ip, ntohs(addr->sin6_port));
	}
	return text_out;
}
