/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The text of a UDP cable, "PEER" or "MINE,PEER", as socket addresses: udp.c opens them, and
 * softhca-check says beforehand what is wrong with them.
 */
#ifndef SPW_SOFTHCA_CABLE_UDP_ADDR_H
#define SPW_SOFTHCA_CABLE_UDP_ADDR_H

#include <sys/socket.h>

#include "base/spw_types.h"

#define CABLE_UDP_PORT  "47910" /* where the text names none */
#define CABLE_UDP_FORMS "udp:PEER[:PORT] or udp:[MINE]:PORT,PEER:PORT"

struct cable_udp_addr {
	struct sockaddr_storage sa;
	socklen_t bytes;
};

/* Purpose: resolves the ends: HOST or HOST:PORT, with brackets around an IPv6 address before a
 * port; MINE may be :PORT, any address of this host. Without MINE it is any address with PEER's
 * port. Both have one family. Errors:  -EINVAL, -ENOENT (a name without an address), with text.
 * Thread:  setup; may wait for a name server. */
int cable_udp_resolve(const char *ends, struct cable_udp_addr *mine_out,
		      struct cable_udp_addr *peer_out);

#endif
