/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Splits what a user wrote into host and port, and resolves it (spw_oob_host.h). Called by lib/coll
 * (rank 0's address) and spinwire-perf (its control connection) before anything listens or
 * connects, since getaddrinfo(3) waits for the resolver. lib/peer and lib/xfer take numeric
 * addresses only (addr.c).
 *
 *   "HOST:PORT"   "[fd00::1]:PORT"   with a default port also "HOST" and "fd00::1"
 */
#include "oob/spw_oob_host.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/spw_err.h"
#include "oob/spw_oob_addr.h"

/* The last colon separates the port. Without brackets an address with several has none, if there is
 * a default. */
static int host_split(const char *text, const char *port, struct spw_oob_host *host)
{
	const char *colon = strrchr(text, ':'), *bracket = strrchr(text, ']');
	const bool quoted = text[0] == '[' && bracket;
	size_t len = strlen(text);

	if (colon && (quoted ? colon < bracket : port && strchr(text, ':') != colon))
		colon = NULL;
	port = colon ? colon + 1 : port;
	len = quoted ? (size_t)(bracket - ++text) : colon ? (size_t)(colon - text) : len;
	if (!port || !*port || strlen(port) >= sizeof(host->port) || len >= sizeof(host->name))
		return -EINVAL;
	snprintf(host->port, sizeof(host->port), "%s", port);
	memcpy(host->name, text, len);
	host->name[len] = '\0';
	return 0;
}

int spw_oob_host_resolve(const char *text, const char *port, bool to_listen,
			 struct spw_oob_host *host_out)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				       .ai_flags = to_listen ? AI_PASSIVE : 0};
	struct addrinfo *list;
	int rc;

	memset(host_out, 0, sizeof(*host_out));
	if (!text || host_split(text, port, host_out))
		return spw_err(EINVAL, "%s: expected HOST:PORT", text ? text : "(null)");
	/* getaddrinfo(3) takes the last 16 bits of a larger one. */
	if (host_out->port[strspn(host_out->port, "0123456789")] ||
	    strtoul(host_out->port, NULL, 10) > UINT16_MAX)
		return spw_err(EINVAL, "%s: '%s' is no TCP port, 0 .. 65535", text, host_out->port);
	rc = getaddrinfo(*host_out->name ? host_out->name : NULL, host_out->port, &hints, &list);
	if (rc)
		return spw_err(ENOENT, "%s: no such host: %s", text, gai_strerror(rc));
	for (struct addrinfo *a = list; a && host_out->addr_cnt < SPW_OOB_HOST_ADDR_MAX;
	     a = a->ai_next)
		host_out->addr_cnt +=
			spw_oob_addr_take(a->ai_addr, &host_out->addr[host_out->addr_cnt]);
	freeaddrinfo(list);
	return host_out->addr_cnt ? 0 : spw_err(ENOENT, "%s: has no IP address", text);
}
