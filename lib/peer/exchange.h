/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One exchange (peer/message.h) over one channel: whose turn it is, and its deadline. It never
 * waits, and knows nothing of QPs: in the PEER_TURN_TO_* turns the caller (turn.c, in the control
 * thread) prepares one and answers.
 */
#ifndef SPW_PEER_EXCHANGE_H
#define SPW_PEER_EXCHANGE_H

#include "base/spw_enum.h"
#include "oob/spw_oob_door.h"
#include "peer/spw_peer_conf.h"
#include "peer/message.h"

enum peer_turn {
	PEER_TURN_CONNECT,   /* client: TCP is connecting */
	PEER_TURN_GREET,     /* client: waits for the server's nonce */
	PEER_TURN_TO_OFFER,  /* client: the caller prepares a QP and calls peer_exchange_offer */
	PEER_TURN_ANSWER,    /* client: waits for ACCEPT or REJECT */
	PEER_TURN_TO_READY,  /* client: theirs is valid; the caller makes the QP ready and calls
			      peer_exchange_ready */
	PEER_TURN_TO_ACCEPT, /* server: theirs is valid and proved; the caller makes a QP ready and
			      calls _accept or _reject */
	PEER_TURN_READY,     /* server: waits for READY */
	PEER_TURN_DONE,      /* both: agreed; the descriptor stays open */
	PEER_TURN_FAILED,    /* see why; the caller closes the descriptor */
};

/* Why an exchange failed; each has a counter. name, text for the user */
#define PEER_REFUSED_LIST(X, P)                                                    \
	X(P, not_allowed, "its address is not in peers=")                          \
	X(P, busy, "too many unfinished exchanges")                                \
	X(P, closed, "it closed the connection: are we in its peers=?")            \
	X(P, malformed, "it does not speak this protocol")                         \
	X(P, version, "it speaks another version")                                 \
	X(P, secret, "the secrets differ, or one side has none")                   \
	X(P, timeout, "it took too long")                                          \
	X(P, op, "one side wants op=send, the other op=write")                     \
	X(P, ring, "its ring cannot take our grants: set credits=")                \
	X(P, full, "there is no room for another peer: raise peer_max=")           \
	X(P, gid, "the GID is not in gids= of the server (default: its peers=)")   \
	X(P, host, "this host has its share of entries: raise host_max=")          \
	X(P, silent, "it connected and then sent nothing on its queue pair")       \
	X(P, nobody, "nobody listens there: start it with listen= this address")   \
	X(P, unreachable, "no way there: check the address, routes and firewalls") \
	X(P, local, "a queue pair on this side could not be made ready")           \
	X(P, system, "a system call failed")

enum peer_refused { SPW_ENUM(PEER_REFUSED) };

struct peer_exchange {
	struct spw_oob_channel ch; /* its descriptor is the caller's */
	enum peer_turn turn;
	enum peer_refused why; /* of PEER_TURN_FAILED */
	int error;             /* errno of PEER_REFUSED_system, 0 if none */
	uint32_t value;        /* the value of the other side: its MTU, op, version or limit */
	uint64_t deadline_ms;  /* caller's clock; the exchange fails then */
	struct peer_params theirs;
	const struct spw_oob_secret *secret;
	uint8_t in[PEER_MSG_MAX_BYTES];
};

/* Purpose: begins an exchange: with the guest that the door has let in (server), or on a socket
 * that is being connected (client).
 * Owner: the descriptor and secret stay the caller's and outlive the exchange.
 * Thread: control, as for all functions below. */
void peer_exchange_server(struct peer_exchange *x, const struct spw_oob_guest *guest);
void peer_exchange_client(struct peer_exchange *x, int fd, const struct spw_oob_secret *secret,
			  uint64_t deadline_ms);

/* Purpose: advances as far as the bytes that have arrived allow.
 * Returns: whose turn it is now. */
enum peer_turn peer_exchange_step(struct peer_exchange *x, uint64_t now_ms);

/* Purpose: the caller's answers in the PEER_TURN_TO_* turns. reject ends the exchange; x->why is
 * then the counterpart of the reason. */
void peer_exchange_offer(struct peer_exchange *x, const struct peer_params *ours);
void peer_exchange_accept(struct peer_exchange *x, const struct peer_params *ours);
void peer_exchange_reject(struct peer_exchange *x, enum peer_reject reason, uint32_t ours);
void peer_exchange_ready(struct peer_exchange *x);

/* Purpose: compares both sides' parameters.
 * Returns: 0 if they fit, else the reason; *value_out is then our value, for the message. */
enum peer_reject peer_exchange_fit(const struct peer_params *ours, const struct peer_params *theirs,
				   uint32_t *value_out);

/* Returns: events to poll(2) for; 0: the turn is the caller's. */
short peer_exchange_poll(const struct peer_exchange *x);

/* peer/refused.c. Thread of all: any. */
const char *peer_refused_name(enum peer_refused why);
const char *peer_refused_text(enum peer_refused why);
/* Returns: the reason that an errno of the TCP connection stands for. */
enum peer_refused peer_refused_of(int error);
/* Returns: the reason that a call on a channel, or the door, had; rc < 0. */
enum peer_refused peer_refused_by(int rc);
/* Returns: true if one of the two sides refused; false if the network or this machine failed. */
bool peer_refused_is_theirs(enum peer_refused why);
/* Purpose: one clause for the user of the client, with the values of both sides. At most 64
 * characters, except PEER_REFUSED_local (spw_err_text, as the caller left it) and
 * PEER_REFUSED_system.
 * Returns: text_out. */
#define PEER_REFUSED_TEXT_BYTES 128
const char *peer_refused_describe(const struct peer_exchange *x, const struct peer_params *ours,
				  char text_out[PEER_REFUSED_TEXT_BYTES]);

#endif
