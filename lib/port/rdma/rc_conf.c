/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Keys and addresses of mode=rc. IPv4-mapped addresses: RFC 4291 2.5.5.2.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "port/port_impl.h"
#include "port/rdma/rc_conf.h"
#include "port/rdma/rc_credit.h"

#define PEER_MAX_DFLT 8u
#define MAPPED_BITS   96u

/* ---- addresses ------------------------------------------------------------------------------------ */

static bool ip_parse(const char *text, struct in6_addr *addr_out)
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

/* Decimal digits only, no sign and no blank. */
static bool number(const char *text, unsigned long max, unsigned long *value_out)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*value_out = strtoul(text, &end, 10);
	return !*end && !errno && *value_out <= max;
}

int rc_addr_parse(const char *text, struct sockaddr_in6 *addr_out)
{
	const char *colon = strrchr(text, ':');
	char host[INET6_ADDRSTRLEN + 2];
	unsigned long port;
	size_t len;
	char *ip = host;

	memset(addr_out, 0, sizeof(*addr_out));
	len = colon ? (size_t)(colon - text) : 0;
	if (!colon || len >= sizeof(host) || !number(colon + 1, UINT16_MAX, &port))
		return spw_err(EINVAL, "'%s' is no address: use 10.0.0.1:7000 or [fd00::1]:7000", text);
	memcpy(host, text, len);
	host[len] = '\0';
	if (len > 2 && host[0] == '[' && host[len - 1] == ']') {
		host[len - 1] = '\0';
		ip++;
	} else if (strchr(host, ':')) {
		return spw_err(EINVAL, "'%s' is no address: an IPv6 address stands in [ ]", text);
	}
	if (!ip_parse(ip, &addr_out->sin6_addr))
		return spw_err(EINVAL, "'%s' is no address: use numbers, 10.0.0.1:7000 or [fd00::1]:7000", text);
	addr_out->sin6_family = AF_INET6;
	addr_out->sin6_port = htons((uint16_t)port);
	return 0;
}

static bool bits_same(const struct in6_addr *a, const struct in6_addr *b, unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++)
		if ((a->s6_addr[i / 8] ^ b->s6_addr[i / 8]) >> (7 - i % 8) & 1)
			return false;
	return true;
}

int rc_prefix_parse(const char *text, struct rc_prefix *prefix_out)
{
	static const struct in6_addr zero;
	char ip[INET6_ADDRSTRLEN];
	const char *slash = strchr(text, '/');
	size_t len = slash ? (size_t)(slash - text) : strlen(text);
	unsigned long bits;
	bool v4;

	if (len >= sizeof(ip))
		return spw_err(EINVAL, "peers=%s is no address or prefix", text);
	memcpy(ip, text, len);
	ip[len] = '\0';
	v4 = !strchr(ip, ':');
	bits = v4 ? 32 : 128;
	if (!ip_parse(ip, &prefix_out->addr) || (slash && !number(slash + 1, bits, &bits)))
		return spw_err(EINVAL, "peers=%s is no address or prefix: use 10.0.0.0/8, 10.0.0.1 or fd00::/8", text);
	bits += v4 ? MAPPED_BITS : 0;
	if (!bits_same(&prefix_out->addr, &zero, (unsigned)bits, 128))
		return spw_err(EINVAL, "peers=%s has bits beyond its prefix: write the network's address", text);
	prefix_out->bits = (uint8_t)bits;
	return 0;
}

bool rc_allowed(const struct rc_conf *conf, const struct in6_addr *addr)
{
	for (uint32_t i = 0; i < conf->allow_cnt; i++)
		if (bits_same(&conf->allow[i].addr, addr, 0, conf->allow[i].bits))
			return true;
	return false;
}

const char *rc_addr_text(const struct sockaddr_in6 *addr, char text_out[64])
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

/* ---- keys ----------------------------------------------------------------------------------------- */

static int parse_repeated(const char *key, const char *value, struct rc_conf *conf)
{
	int rc = 0;

	if (!strcmp(key, "connect")) {
		if (conf->connect_cnt == RC_PEER_MAX)
			return spw_err(ERANGE, "connect= comes more than %u times", RC_PEER_MAX);
		rc = rc_addr_parse(value, &conf->connect_addr[conf->connect_cnt++]);
	} else if (!strcmp(key, "peers")) {
		if (conf->allow_cnt == RC_ALLOW_MAX)
			return spw_err(ERANGE, "peers= comes more than %u times: use wider prefixes", RC_ALLOW_MAX);
		rc = rc_prefix_parse(value, &conf->allow[conf->allow_cnt++]);
	}
	return rc ? spw_err_ctx(rc, "key %s", key) : 0;
}

static int parse_numbers(const struct spw_port_spec *spec, struct rc_conf *conf)
{
	uint64_t peer_max, credits, srq, mtu, timeout, retry, rnr, min_rnr, tclass, ms;
	uint32_t peer_dflt = conf->connect_cnt + (conf->listen ? SPW_MIN(PEER_MAX_DFLT, RC_PEER_MAX - conf->connect_cnt) : 0);
	int rc = port_spec_u64(spec, "peer_max", peer_dflt, SPW_MAX(conf->connect_cnt, 1u), RC_PEER_MAX, &peer_max);

	rc = rc ? rc : port_spec_u64(spec, "credits", 0, 1, RC_CREDIT_MAX, &credits);
	rc = rc ? rc : port_spec_u64(spec, "srq", 0, 0, 1, &srq);
	rc = rc ? rc : port_spec_u64(spec, "mtu", 0, 256, 4096, &mtu);
	rc = rc ? rc : port_spec_u64(spec, "timeout", 14, 0, 31, &timeout); /* 67 ms */
	rc = rc ? rc : port_spec_u64(spec, "retry", 7, 0, 7, &retry);
	rc = rc ? rc : port_spec_u64(spec, "rnr_retry", 7, 0, 7, &rnr);
	rc = rc ? rc : port_spec_u64(spec, "min_rnr_timer", 12, 0, 31, &min_rnr); /* 0.64 ms */
	rc = rc ? rc : port_spec_u64(spec, "tclass", 0, 0, 255, &tclass);
	rc = rc ? rc : port_spec_u64(spec, "exchange_ms", 5000, 10, 60000, &ms);
	if (rc)
		return rc;
	if (mtu && (!SPW_IS_POW2(mtu)))
		return spw_err(EINVAL, "mtu=%u: a path MTU is 256, 512, 1024, 2048 or 4096", (unsigned)mtu);
	conf->peer_max = (uint32_t)peer_max;
	conf->credits = (uint32_t)credits;
	conf->srq = srq;
	conf->mtu = (uint32_t)mtu;
	conf->timeout = (uint8_t)timeout;
	conf->retry = (uint8_t)retry;
	conf->rnr_retry = (uint8_t)rnr;
	conf->min_rnr_timer = (uint8_t)min_rnr;
	conf->tclass = (uint8_t)tclass;
	conf->exchange_ms = (uint32_t)ms;
	return 0;
}

static int check_roles(const struct rc_conf *conf)
{
	if (!conf->listen && !conf->connect_cnt)
		return spw_err(EINVAL, "mode=rc needs listen=ADDR:PORT or connect=ADDR:PORT");
	if (conf->listen && !conf->allow_cnt)
		return spw_err(EINVAL, "listen= needs peers=ADDR[/BITS]: who may connect (peers=0.0.0.0/0: everybody)");
	if (!conf->listen && conf->allow_cnt)
		return spw_err(EINVAL, "peers= is for those who connect, and without listen= nobody can");
	if (conf->listen && conf->peer_max == conf->connect_cnt)
		return spw_err(EINVAL, "peer_max=%u leaves no room for a peer that connects", conf->peer_max);
	return 0;
}

int rc_conf_parse(const struct spw_port_spec *spec, struct rc_conf *conf_out)
{
	const char *listen = spw_port_spec_find(spec, "listen"), *op = spw_port_spec_find(spec, "op");
	const char *secret = spw_port_spec_find(spec, "secret");
	int rc = 0;

	memset(conf_out, 0, sizeof(*conf_out));
	for (uint32_t i = 0; i < spec->arg_cnt && !rc; i++)
		rc = parse_repeated(spw_port_spec_key(spec, i), spw_port_spec_value(spec, i), conf_out);
	if (!rc && op && strcmp(op, "send") && strcmp(op, "write"))
		rc = spw_err(EINVAL, "op=%s is not known: use send or write", op);
	conf_out->op = op && !strcmp(op, "write") ? RC_OP_WRITE : RC_OP_SEND;
	conf_out->listen = listen != NULL;
	if (!rc && listen)
		rc = rc_addr_parse(listen, &conf_out->listen_addr);
	rc = rc ? rc : parse_numbers(spec, conf_out);
	rc = rc ? rc : check_roles(conf_out);
	if (!rc && secret)
		rc = rc_secret_read(secret, &conf_out->secret);
	return rc;
}
