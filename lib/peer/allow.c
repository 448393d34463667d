/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Who may connect, with which GID, and how often: the rules behind peers=, gids= and host_max=.
 * Pure; turn.c asks for each connection.
 */
#include <string.h>

#include "peer/spw_peer_conf.h"

bool spw_peer_allowed(const struct spw_peer_conf *conf, const struct in6_addr *addr)
{
	return spw_oob_prefix_has(conf->allow, conf->allow_cnt, addr);
}

/* A client names the GID that our packets go to, so an unchecked one would make this side send to a
 * third host. A RoCE v2 GID holds the IP address, so the prefixes of peers= apply to it as they
 * are. Over loopback the TCP address says nothing about the RoCE one. */
bool spw_peer_gid_allowed(const struct spw_peer_conf *conf, const struct in6_addr *from,
			  const uint8_t gid[16])
{
	struct in6_addr addr;

	memcpy(&addr, gid, sizeof(addr));
	if (conf->gid_cnt)
		return spw_oob_prefix_has(conf->gid, conf->gid_cnt, &addr);
	return spw_oob_addr_is_loopback(from) || spw_peer_allowed(conf, &addr);
}

/* Without a secret, one host leaves room for others, if peers= allows others. */
uint32_t spw_peer_host_max(const struct spw_peer_conf *conf)
{
	const uint32_t all = conf->peer_max - conf->connect_cnt;
	const bool alone = conf->allow_cnt == 1 && conf->allow[0].bits == 128;

	if (conf->host_max)
		return conf->host_max;
	return conf->secret.len || alone ? all : SPW_MAX(all / 2, 1u);
}
