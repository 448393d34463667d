/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Addresses: their text, prefixes, and which of them belong to one host. Pure. IPv4 addresses are
 * IPv4-mapped IPv6 (RFC 4291 2.5.5.2) throughout.
 */
#ifndef SPW_OOB_ADDR_H
#define SPW_OOB_ADDR_H

#include <netinet/in.h>

#include "base/spw_types.h"

/* An address or a prefix, IPv4 as IPv4-mapped IPv6. */
struct spw_oob_prefix {
	struct in6_addr addr;
	uint8_t bits; /* 0 .. 128 */
};

/* Purpose: parses "10.0.0.1:7000" or "[fd00::1]:7000". Numbers only; no name is resolved.
 * Errors: -EINVAL with the expected form. Thread: any. */
int spw_oob_addr_parse(const char *text, struct sockaddr_in6 *addr_out);
/* Purpose: parses "10.0.0.0/8", "10.0.0.1" or "fd00::/8".
 * Errors: -EINVAL, also if bits beyond the prefix are set. Thread: any. */
int spw_oob_prefix_parse(const char *text, struct spw_oob_prefix *prefix_out);
/* Purpose: an address as the kernel and the resolver have it, of at least its family's size.
 * Returns: false: it is none of IP. Thread: any. */
bool spw_oob_addr_take(const void *from, struct sockaddr_in6 *addr_out);
/* Purpose: "10.0.0.1:7000" for messages; at most 63 characters. Returns: text_out.
 * Thread: any. */
const char *spw_oob_addr_text(const struct sockaddr_in6 *addr, char text_out[64]);

/* Returns: true if the address is in one of cnt prefixes. Thread: any. */
bool spw_oob_prefix_has(const struct spw_oob_prefix *prefix, uint32_t cnt,
			const struct in6_addr *addr);
/* Returns: true if quotas count both addresses as one host. IPv4: the same address; IPv6: the same
 * /64, since a host chooses the lower 64 bits itself. Thread: any. */
bool spw_oob_addr_same_host(const struct in6_addr *a, const struct in6_addr *b);
/* Returns: true for 127.0.0.0/8 and ::1. Thread: any. */
bool spw_oob_addr_is_loopback(const struct in6_addr *addr);

#endif
