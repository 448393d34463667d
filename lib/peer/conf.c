/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The keys of mode=rc (spw_peer_conf.h): one table with the range, the default and the text of
 * each, which spinwire-ports(7) is made of too; check_roles has the rules that span several keys.
 *
 * Order: repeated keys first, because the smallest and the default peer_max depend on how many
 * connect= there are; then numbers, then rules; the secret last, so that a refused text leaves none
 * in memory.
 *
 *   keys ─► struct spw_peer_conf ─► driver's open (port/rc_port.c) ─► spw_peer_conn_open
 *
 * A new key is a row, a line of parse_numbers or conf_read, and a field of spw_peer_conf.h.
 *
 * Called once for each port of mode=rc, in setup, before the device is opened. Defaults that depend
 * on the pool (credits=) or on the port (mtu=) are 0 here.
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "frame/spw_port_spec.h"
#include "peer/spw_peer_conf.h"
#include "peer/spw_peer_credit.h"

#define PEER_MAX_DFLT 8u

static const struct spw_port_key peer_key[] = {
	{"listen", "ADDR:PORT", "Accept connections at this address; it needs peers=.", NULL, 0, 0},
	{"peers", "ADDR[/BITS]",
	 "Accept connections from these addresses only. May be repeated; there is no default.",
	 NULL, 0, 0},
	{"gids", "ADDR[/BITS]",
	 "The RoCE address (GID) that a peer offers must be one of these. May be repeated. A peer "
	 "that connects over loopback may offer any where the key is not given.",
	 "those of peers=", 0, 0},
	{"host_max", "N",
	 "Entries of the table that one host may own: an IPv4 address, or the /64 of an IPv6 "
	 "address.",
	 "all with secret=, or where peers= is a single address; else half", 1, SPW_PEER_MAX},
	{"connect", "ADDR:PORT",
	 "Connect, and again whenever the connection is lost. May be repeated; peer 0 is the first "
	 "one.",
	 NULL, 0, 0},
	{"peer_max", "N",
	 "Entries of the table: those of connect=, then those who connect. Peer p belongs to queue "
	 "p modulo the number of queues.",
	 "those of connect=, and with listen= 8 more", 1, SPW_PEER_MAX},
	{"op", "send|write",
	 "Two-sided, or one-sided into slots that the receiver grants; the same on both sides.",
	 "send", 0, 0},
	{"secret", "FILE",
	 "16 to 256 bytes that both sides know; the file must be readable by its owner alone.",
	 NULL, 0, 0},
	{"credits", "N", "Messages that one peer may have under way.",
	 "derived from the pool, a quarter of which is reserved for sending", 1,
	 SPW_PEER_CREDIT_MAX},
	{"srq", "0|1", "1: one receive queue for all peers of a queue.", "0", 0, 1},
	{"mtu", "BYTES",
	 "Path MTU: 256, 512, 1024, 2048 or 4096. The smaller one of both sides holds.",
	 "the port's", 256, 4096},
	{"timeout", "CODE",
	 "How long an acknowledgement is waited for, 4.096 us * 2^CODE; 0: for ever. The default "
	 "is 67 ms.",
	 "14", 0, 31},
	{"retry", "N", "How often a request is sent again after a timeout.", "7", 0, 7},
	{"rnr_retry", "N",
	 "How often a request is sent again to a receiver that was not ready; 7: without limit.",
	 "7", 0, 7},
	{"min_rnr_timer", "CODE",
	 "How long a sender waits before that, as a code of the InfiniBand specification. The "
	 "default is 0.64 ms.",
	 "12", 0, 31},
	{"tclass", "BYTE", "Traffic class of the packets (DSCP and ECN).", "0", 0, 255},
	{"exchange_ms", "MS",
	 "How long one exchange may take in all, and then the first message on the QP.", "5000", 10,
	 60000},
};
const struct spw_port_keys spw_peer_keys = {"mode=rc", peer_key, SPW_ARRAY_CNT(peer_key)};

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
	const struct {
		const char *name;
		uint64_t *value;
	} number[] = {{"peer_max", &peer_max}, {"host_max", &host_max}, {"credits", &credits},
		      {"srq", &srq},           {"mtu", &mtu},           {"timeout", &timeout},
		      {"retry", &retry},       {"rnr_retry", &rnr},     {"min_rnr_timer", &min_rnr},
		      {"tclass", &tclass},     {"exchange_ms", &ms}};

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(number); i++) {
		int rc =
			spw_port_spec_number(spec, &spw_peer_keys, number[i].name, number[i].value);

		if (rc)
			return rc;
	}
	if (peer_max && peer_max < conf->connect_cnt)
		return spw_err(ERANGE,
			       "peer_max=%u is less than the %u of connect=", (unsigned)peer_max,
			       conf->connect_cnt);
	if (mtu && (!SPW_IS_POW2(mtu)))
		return spw_err(EINVAL, "mtu=%u: a path MTU is 256, 512, 1024, 2048 or 4096",
			       (unsigned)mtu);
	conf->peer_max = peer_max ? (uint32_t)peer_max : peer_dflt;
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

/* All but the secret, which is a file. */
static int conf_read(const struct spw_port_spec *spec, struct spw_peer_conf *conf_out)
{
	const char *listen = spw_port_spec_find(spec, "listen"),
		   *op = spw_port_spec_find(spec, "op");
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
	return rc ? rc : check_roles(conf_out);
}

int spw_peer_conf_check(const struct spw_port_spec *spec)
{
	struct spw_peer_conf conf;

	return conf_read(spec, &conf);
}

/* On an error *conf_out holds no secret. */
int spw_peer_conf_parse(const struct spw_port_spec *spec, struct spw_peer_conf *conf_out)
{
	const char *secret = spw_port_spec_find(spec, "secret");
	int rc = conf_read(spec, conf_out);

	if (!rc && secret)
		rc = spw_oob_secret_read(secret, &conf_out->secret);
	return rc;
}
