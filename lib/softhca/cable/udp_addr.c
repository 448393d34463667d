/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The ends of a UDP cable: text to socket addresses (udp_addr.h).
 *
 *   192.0.2.1                      PEER; MINE is any address, both ports CABLE_UDP_PORT
 *   host-b:7000                    PEER; MINE is any address, both ports 7000
 *   :7001,[fd00::1]:7000           MINE is any address of PEER's family, port 7001
 *   127.0.0.1:7001,127.0.0.1:7000  both given: cards at one address need two ports
 *
 * PEER is resolved first, because its family decides that of MINE: one socket serves both. A name
 * is resolved once, at set-up; a peer whose address changes later is not found again.
 */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "softhca/cable/udp_addr.h"

/* One end as text, each part as getaddrinfo takes it: without brackets, port in decimal. */
struct udp_end {
	char host[256]; /* "": any address */
	char port[6];
};

/* getaddrinfo would take a port above 65535 less what does not fit. */
static bool udp_port_is_one(const char *port)
{
	return strspn(port, "0123456789") == strlen(port) && atoi(port) > 0 &&
	       atoi(port) <= UINT16_MAX;
}

/* An address with two colons or more is IPv6 and has a port only behind brackets. text is len bytes
 * of a longer one where a comma follows, so nothing here looks for its byte 0. */
static bool udp_end_split(const char *text, size_t len, struct udp_end *end_out)
{
	const char *host = text, *port = memchr(text, ':', len);
	size_t host_len = port ? (size_t)(port - text) : len, port_len;

	if (len && *text == '[') {
		const char *close = memchr(text, ']', len);

		if (!close)
			return false;
		host = text + 1;
		host_len = (size_t)(close - host);
		port = close + 1 < text + len ? close + 1 : NULL;
		if (port && *port != ':')
			return false;
	} else if (port && memchr(port + 1, ':', len - host_len - 1)) {
		host_len = len;
		port = NULL;
	}
	port_len = port ? (size_t)(text + len - port - 1) : strlen(CABLE_UDP_PORT);
	if (host_len >= sizeof(end_out->host) || !port_len || port_len >= sizeof(end_out->port))
		return false;
	snprintf(end_out->host, sizeof(end_out->host), "%.*s", (int)host_len, host);
	snprintf(end_out->port, sizeof(end_out->port), "%.*s", (int)port_len,
		 port ? port + 1 : CABLE_UDP_PORT);
	return udp_port_is_one(end_out->port);
}

/* getaddrinfo sorts by what this host reaches best; the first one is taken. */
static int udp_end_resolve(const struct udp_end *end, int family, struct cable_udp_addr *addr_out)
{
	const struct addrinfo hints = {.ai_family = family,
				       .ai_socktype = SOCK_DGRAM,
				       .ai_flags = AI_NUMERICSERV | AI_PASSIVE};
	struct addrinfo *found;
	const int rc = getaddrinfo(end->host[0] ? end->host : NULL, end->port, &hints, &found);

	if (rc)
		return spw_err(ENOENT, "cable udp: %s port %s: %s", end->host, end->port,
			       gai_strerror(rc));
	memcpy(&addr_out->sa, found->ai_addr, found->ai_addrlen);
	addr_out->bytes = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}

int cable_udp_resolve(const char *ends, struct cable_udp_addr *mine_out,
		      struct cable_udp_addr *peer_out)
{
	const char *comma = strchr(ends, ','), *peer_text = comma ? comma + 1 : ends;
	struct udp_end mine = {.host = ""}, peer;
	int rc;

	if (!udp_end_split(peer_text, strlen(peer_text), &peer) || !peer.host[0] ||
	    (comma && !udp_end_split(ends, (size_t)(comma - ends), &mine)))
		return spw_err(EINVAL, "cable udp:%s: use " CABLE_UDP_FORMS, ends);
	if (!comma)
		memcpy(mine.port, peer.port, sizeof(mine.port));
	rc = udp_end_resolve(&peer, AF_UNSPEC, peer_out);
	return rc ? rc : udp_end_resolve(&mine, peer_out->sa.ss_family, mine_out);
}
