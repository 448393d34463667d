/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One exchange (rc_hello.h) over one TCP connection: what was said, whose turn it is, until when. It reads no more than the
 * next message holds and never waits. Private to lib/port. Knows nothing of QPs: the caller prepares one when asked.
 */
#ifndef SPW_PORT_RC_EXCHANGE_H
#define SPW_PORT_RC_EXCHANGE_H

#include "port/rdma/rc_conf.h"
#include "port/rdma/rc_hello.h"

enum rc_turn {
	RC_TURN_CONNECT,   /* client: TCP is connecting */
	RC_TURN_CHALLENGE, /* client: waits for CHALLENGE */
	RC_TURN_TO_OFFER,  /* client: the caller prepares a QP and calls rc_exchange_offer */
	RC_TURN_ANSWER,    /* client: waits for ACCEPT or REJECT */
	RC_TURN_TO_READY,  /* client: theirs is valid; the caller makes the QP ready and calls rc_exchange_ready */
	RC_TURN_HELLO,     /* server: waits for HELLO */
	RC_TURN_OFFER,     /* server: waits for OFFER */
	RC_TURN_TO_ACCEPT, /* server: theirs is valid and proved; the caller makes a QP ready and calls _accept or _reject */
	RC_TURN_READY,     /* server: waits for READY */
	RC_TURN_DONE,      /* both: agreed; the descriptor stays open */
	RC_TURN_FAILED,    /* why says it; the caller closes */
};

/* Why an exchange failed, and what is counted of refused ones. name, meaning */
#define RC_REFUSED_LIST(X)                                                                                             \
	X(not_allowed, "its address is not in peers=")                                                                 \
	X(busy, "too many unfinished exchanges")                                                                       \
	X(closed, "it closed: are we in its peers=, version and secret the same?")                                     \
	X(malformed, "it does not speak this protocol")                                                                \
	X(version, "it speaks another version")                                                                        \
	X(secret, "it does not know the secret")                                                                       \
	X(timeout, "it took too long")                                                                                 \
	X(mtu, "path MTUs differ: set mtu= on both sides")                                                             \
	X(op, "one side wants op=send, the other op=write")                                                            \
	X(ring, "its ring cannot take our grants: set credits=")                                                       \
	X(full, "there is no room for another peer: raise peer_max=")                                                  \
	X(system, "a system call failed")

enum rc_refused {
#define X(name, text) RC_REFUSED_##name,
	RC_REFUSED_LIST(X)
#undef X
	RC_REFUSED_CNT
};

struct rc_exchange {
	int fd;                   /* owned by the caller, non-blocking */
	enum rc_turn turn;
	enum rc_refused why;      /* of RC_TURN_FAILED */
	int error;                /* errno of RC_REFUSED_system, 0 if none */
	uint32_t value;           /* what the other side has: its MTU, op or version */
	uint64_t deadline_ms;     /* caller's clock; the exchange fails then */
	struct rc_params theirs;
	const struct rc_secret *secret;
	uint32_t in_len;
	uint8_t in[RC_HELLO_MAX_BYTES];
	uint32_t said_len;
	uint8_t said[RC_SAID_MAX_BYTES];
};

/* Purpose: begins. fd: connected (server), or connecting without waiting (client). Thread: control, as all here. */
void rc_exchange_server(struct rc_exchange *x, int fd, const struct rc_secret *secret, uint64_t deadline_ms);
void rc_exchange_client(struct rc_exchange *x, int fd, const struct rc_secret *secret, uint64_t deadline_ms);

/* Purpose: goes on as far as the bytes that are there allow. Returns: the turn. */
enum rc_turn rc_exchange_step(struct rc_exchange *x, uint64_t now_ms);

/* Purpose: the caller's part, in the RC_TURN_TO_* turns. reject ends the exchange, why being what the reason says. */
void rc_exchange_offer(struct rc_exchange *x, const struct rc_params *ours);
void rc_exchange_accept(struct rc_exchange *x, const struct rc_params *ours);
void rc_exchange_reject(struct rc_exchange *x, enum rc_reject reason, uint32_t ours);
void rc_exchange_ready(struct rc_exchange *x);

/* Purpose: do they fit? Returns: 0 or the reason; value_out: ours, for the text. */
enum rc_reject rc_exchange_fit(const struct rc_params *ours, const struct rc_params *theirs, uint32_t *value_out);

/* What poll(2) should wait for, 0: nothing. */
short rc_exchange_poll(const struct rc_exchange *x);

const char *rc_refused_name(enum rc_refused why);
const char *rc_refused_text(enum rc_refused why);

#endif
