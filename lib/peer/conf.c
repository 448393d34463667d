/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Parses the keys of mode=rc (spw_peer_conf.h). Each range stands beside its key; check_roles has
 * the rules that span several keys. A new key is also a word of SPW_PEER_KEYS and SPW_PEER_USAGE,
 * and a row of docs/070.
 *
 * Order: repeated keys first, because the smallest and the default peer_max depend on how many
 * connect= there are; then numbers, then rules; the secret last, so that a refused text leaves none
 * in memory.
 *
 *   keys ─► struct spw_peer_conf ─► driver's open (port/peer_port.c) ─► spw_peer_conn_open
 *
 * Called once for each port of mode=rc, in setup, before the device is opened. Defaults stand with
 * the ranges; those that depend on the pool (credits=) or on the port (mtu=) are 0 here.
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "frame/spw_port_spec.h"
#include "peer/spw_peer_conf.h"
#include "peer/spw_peer_credit.h"

#define PEER_MAX_DFLT 8u

/* Called for peers= and gids=, each with a list of its own. */
static int parse_prefix(const char *key, const char *value, struct spw_oob_prefix *list,
			uint32_t *cnt)
{
	if (*cnt == SPW_PEER_ALLOW_MAX)
		return spw_err(ERANGE, "%s= comes more than %u times: use wider prefixes", key,
			       SPW_PEER_ALLOW_MAX);
	return spw_oob_prefix_parse(value, &list[(*cnt)++]);
}

/* Keys that may come more than once; all others are passed over. */
static int parse_repeated(const char *key, const char *value, struct spw_peer_conf *conf)
{
	int rc = 0;

	if (!strcmp(key, "connect")) {
		if (conf->connect_cnt == SPW_PEER_MAX)
			return spw_err(ERANGE, "connect= comes more than %u times", SPW_PEER_MAX);
		rc = spw_oob_addr_parse(value, &conf->connect_addr[conf->connect_cnt++]);
	} else if (!strcmp(key, "peers")) {
		rc = parse_prefix(key, value, conf->allow, &conf->allow_cnt);
	} else if (!strcmp(key, "gids")) {
		rc = parse_prefix(key, value, conf->gid, &conf->gid_cnt);
	}
	return rc ? spw_err_ctx(rc, "key %s", key) : 0;
}

/* peer_max= is by default what connect= needs, and PEER_MAX_DFLT more with listen=. */
static int parse_numbers(const struct spw_port_spec *spec, struct spw_peer_conf *conf)
{
	uint64_t peer_max, host_max, credits, srq, mtu, timeout, retry, rnr, min_rnr, tclass, ms;
	uint32_t peer_dflt =
		conf->connect_cnt +
		(conf->listen ? SPW_MIN(PEER_MAX_DFLT, SPW_PEER_MAX - conf->connect_cnt) : 0);
	int rc = spw_port_spec_u64(spec, "peer_max", peer_dflt, SPW_MAX(conf->connect_cnt, 1u),
				   SPW_PEER_MAX, &peer_max);

	rc = rc ? rc : spw_port_spec_u64(spec, "host_max", 0, 1, SPW_PEER_MAX, &host_max);
	rc = rc ? rc : spw_port_spec_u64(spec, "credits", 0, 1, SPW_PEER_CREDIT_MAX, &credits);
	rc = rc ? rc : spw_port_spec_u64(spec, "srq", 0, 0, 1, &srq);
	rc = rc ? rc : spw_port_spec_u64(spec, "mtu", 0, 256, 4096, &mtu);
	rc = rc ? rc : spw_port_spec_u64(spec, "timeout", 14, 0, 31, &timeout); /* 67 ms */
	rc = rc ? rc : spw_port_spec_u64(spec, "retry", 7, 0, 7, &retry);
	rc = rc ? rc : spw_port_spec_u64(spec, "rnr_retry", 7, 0, 7, &rnr);
	rc = rc ? rc : spw_port_spec_u64(spec, "min_rnr_timer", 12, 0, 31, &min_rnr); /* 0.64 ms */
	rc = rc ? rc : spw_port_spec_u64(spec, "tclass", 0, 0, 255, &tclass);
	rc = rc ? rc : spw_port_spec_u64(spec, "exchange_ms", 5000, 10, 60000, &ms);
	if (rc)
		return rc;
	if (mtu && (!SPW_IS_POW2(mtu)))
		return spw_err(EINVAL, "mtu=%u: a path MTU is 256, 512, 1024, 2048 or 4096",
			       (unsigned)mtu);
	conf->peer_max = (uint32_t)peer_max;
	conf->host_max = (uint32_t)host_max;
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

/* A key that could have no effect is an error: the user expects something of it. */
static int check_roles(const struct spw_peer_conf *conf)
{
	if (!conf->listen && !conf->connect_cnt)
		return spw_err(EINVAL, "mode=rc needs listen=ADDR:PORT or connect=ADDR:PORT");
	if (conf->listen && !conf->allow_cnt)
		return spw_err(EINVAL, "listen= needs peers=ADDR[/BITS]: who may connect "
				       "(peers=0.0.0.0/0: everybody)");
	if (!conf->listen && conf->allow_cnt)
		return spw_err(EINVAL,
			       "peers= is for those who connect, and without listen= nobody can");
	if (!conf->listen && (conf->gid_cnt || conf->host_max))
		return spw_err(EINVAL, "gids= and host_max= are for those who connect, and without "
				       "listen= nobody can");
	if (conf->listen && conf->peer_max == conf->connect_cnt)
		return spw_err(EINVAL, "peer_max=%u leaves no room for a peer that connects",
			       conf->peer_max);
	return 0;
}

/* On an error *conf_out holds no secret. */
int spw_peer_conf_parse(const struct spw_port_spec *spec, struct spw_peer_conf *conf_out)
{
	const char *listen = spw_port_spec_find(spec, "listen"),
		   *op = spw_port_spec_find(spec, "op");
	const char *secret = spw_port_spec_find(spec, "secret");
	int rc = 0;

	memset(conf_out, 0, sizeof(*conf_out));
	for (uint32_t i = 0; i < spec->arg_cnt && !rc; i++)
		rc = parse_repeated(spw_port_spec_key(spec, i), spw_port_spec_value(spec, i),
				    conf_out);
	if (!rc && op && strcmp(op, "send") && strcmp(op, "write"))
		rc = spw_err(EINVAL, "op=%s is not known: use send or write", op);
	conf_out->op = op && !strcmp(op, "write") ? SPW_PEER_OP_WRITE : SPW_PEER_OP_SEND;
	conf_out->listen = listen != NULL;
	if (!rc && listen)
		rc = spw_oob_addr_parse(listen, &conf_out->listen_addr);
	rc = rc ? rc : parse_numbers(spec, conf_out);
	rc = rc ? rc : check_roles(conf_out);
	if (!rc && secret)
		rc = spw_oob_secret_read(secret, &conf_out->secret);
	return rc;
}
