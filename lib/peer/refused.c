/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Why an exchange failed, in words, for the log and for the events of a client. The texts of the
 * two sides are one table (PEER_REFUSED_LIST in exchange.h).
 *
 *   errno of a socket ─► peer_refused_of ──┐
 *   channel and door  ─► peer_refused_by ──┤
 *   REJECT of the peer ────────────────────┴─► enum peer_refused ─► peer_refused_describe: one line
 *
 * Called by exchange.c, link.c, turn.c and conn.c. Pure.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "peer/exchange.h"

static const struct spw_enum_word refused_word[] = {SPW_ENUM_WORDS(PEER_REFUSED)};

/* The key under which the log counts it. */
const char *peer_refused_name(enum peer_refused why)
{
	return SPW_ENUM_NAME(refused_word, why);
}

const char *peer_refused_text(enum peer_refused why)
{
	return SPW_ENUM_TEXT(refused_word, why);
}

/* Errors that show a user where to look get a reason of their own; the rest keeps its errno
 * (PEER_REFUSED_system). */
enum peer_refused peer_refused_of(int error)
{
	switch (error) {
	case ECONNREFUSED:
		return PEER_REFUSED_nobody;
	case EPIPE:
	case ECONNRESET:
		return PEER_REFUSED_closed;
	case EACCES: /* a firewall of this host */
	case EPERM:
	case EHOSTUNREACH:
	case ENETUNREACH:
	case ENETDOWN:
	case EADDRNOTAVAIL:
	case ETIMEDOUT:
		return PEER_REFUSED_unreachable;
	default:
		return PEER_REFUSED_system;
	}
}

/* -EACCES and -EPERM of a channel and a door are not those of a socket. */
enum peer_refused peer_refused_by(int rc)
{
	switch (-rc) {
	case EACCES:
		return PEER_REFUSED_secret;
	case EPROTONOSUPPORT:
		return PEER_REFUSED_version;
	case EPROTO:
	case EMSGSIZE:
		return PEER_REFUSED_malformed;
	case EPERM:
		return PEER_REFUSED_not_allowed;
	case EBUSY:
		return PEER_REFUSED_busy;
	case ETIMEDOUT:
		return PEER_REFUSED_timeout;
	default:
		return peer_refused_of(-rc);
	}
}

/* Decides what counts as `refused` in the port's statistics: what one of the two sides decided, not
 * a fault of the network or a call that failed on this machine. */
bool peer_refused_is_theirs(enum peer_refused why)
{
	return why != PEER_REFUSED_nobody && why != PEER_REFUSED_unreachable &&
	       why != PEER_REFUSED_local && why != PEER_REFUSED_system;
}

_Static_assert(SPW_OOB_REASON_BYTES <= PEER_REFUSED_TEXT_BYTES, "it holds any reason");

static const char *op_name(uint32_t op)
{
	return op == SPW_PEER_OP_WRITE ? "write" : "send";
}

/* The user of the client reads both values and the key to change. x->value came from the other
 * side: the value in its REJECT, or the version of its message. */
const char *peer_refused_describe(const struct peer_exchange *x, const struct peer_params *ours,
				  char text_out[PEER_REFUSED_TEXT_BYTES])
{
	const size_t len = PEER_REFUSED_TEXT_BYTES;

	switch (x->why) {
	case PEER_REFUSED_op:
		snprintf(text_out, len, "it has op=%s, we have op=%s: set both alike",
			 op_name(x->value), op_name(ours->op));
		break;
	case PEER_REFUSED_version:
		snprintf(text_out, len, "it speaks version %u, we %u: run the same release",
			 x->value, peer_proto.version);
		break;
	case PEER_REFUSED_secret:
		spw_oob_channel_reason(&x->ch, -EACCES, text_out);
		break;
	case PEER_REFUSED_ring:
		snprintf(text_out, len,
			 "it grants %u slots, we take %u: lower its credits=", x->value,
			 ours->ring_cnt);
		break;
	case PEER_REFUSED_full:
		snprintf(text_out, len,
			 "all of its %u entries are taken: raise its peer_max=", x->value);
		break;
	case PEER_REFUSED_host:
		snprintf(text_out, len,
			 "our host has the %u entries it may: raise its host_max=", x->value);
		break;
	case PEER_REFUSED_local:
		snprintf(text_out, len, "%s", spw_err_text());
		break;
	case PEER_REFUSED_system:
		snprintf(text_out, len, "%s; trying again", strerror(x->error));
		break;
	default:
		snprintf(text_out, len, "%s", peer_refused_text(x->why));
	}
	return text_out;
}
