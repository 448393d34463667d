/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The control connection: messages of oob/spw_oob_channel.h, one JSON object each, so whoever
 * does not know the secret can neither send one nor change one. Simple blocking calls with
 * time-outs; nothing on it is timed.
 *
 *   client                                             server
 *   {"hello": version}                            ->   of all that come, side by side (door.c)
 *                                                 <-   {"hello": version}     or {"error": text}
 *   {"facts"}                                     ->
 *                                                 <-   {"facts"}
 *   {"case": {...}}                               ->
 *                                                 <-   {"ready": ...}        or {"error": text,
 *                                                           "wrong": bytes were}
 *   ... as the case has it (case_xfer.c, case_tcp.c) ...
 *   {"do": "abort"...}   gives up a case          ->
 *                                                 <-   {"aborted": true}
 *   ... the next case; closing ends the session,  <-   after an {"error": text}, if the server does
 *
 * Thread of all functions: one at a time; door.c's until it hands a connection over.
 */
#ifndef PERF_CONTROL_H
#define PERF_CONTROL_H

#include "oob/spw_oob_channel.h"
#include "perf.h"

#define PERF_LOOK_MS 200 /* between two looks of a wait at the stop word */

struct perf_ctl {
	int fd; /* -1: not open */
	struct spw_oob_channel ch;
	uint8_t *in;          /* room for one message */
	const uint32_t *stop; /* not 0: this process is to leave, no wait goes on; NULL: none */
	/* server: how long a client may take for an order, and this end to follow it; 0: client */
	uint32_t order_ms;
	uint64_t until_ns; /* server: when the order under way has to be over */
	char peer[64];     /* the other end as the user named it, for messages */
	char local[48];    /* numeric address of this end of the connection */
	char far[48];      /* and of the other one */
};

/* Errors of all: -ECONNRESET the other end left; -ETIMEDOUT it is silent; -EPROTO it sent no such
 * message; -EACCES the secrets differ; -EINTR this process is to leave; each with a text. */

/* Purpose: listens on port of all addresses; 0: any free port.
 * Returns: the socket; *port_out is its port. Errors: perf_ctl_listen_error. */
int perf_ctl_listen(uint16_t port, uint16_t *port_out);
/* Purpose: reports with what to do that a port cannot be listened on. Returns: rc. */
int perf_ctl_listen_error(uint16_t port, int rc);
/* Purpose: makes a connection of an accepted or connected socket; far is for messages.
 * Owner: takes over fd, until perf_ctl_close, also if it fails. Errors: -ENOMEM; sending works. */
int perf_ctl_take(struct perf_ctl *ctl, int fd, const char *far);
/* Purpose: connects to HOST or HOST:PORT or [fd00::1]:PORT, within 5 s.
 * Errors: -ENOENT no such host; -ECONNREFUSED; -ETIMEDOUT: each says what to do. */
int perf_ctl_connect(const char *host, uint16_t port, struct perf_ctl *ctl_out);
void perf_ctl_close(struct perf_ctl *ctl);

/* Purpose: sends a message. Owner: takes over json; NULL (no memory) is an error. */
int perf_ctl_send(struct perf_ctl *ctl, json_t *json);
/* Purpose: reports this thread's last error to the other end; rc is its code. */
int perf_ctl_error(struct perf_ctl *ctl, int rc);
/* Purpose: server: reports with which error of this thread the session ends. Returns: rc. */
int perf_ctl_end(struct perf_ctl *ctl, int rc);
/* Purpose: client: begins the channel. */
int perf_ctl_greet(struct perf_ctl *ctl, const struct spw_oob_secret *secret, uint32_t timeout_ms);
/* Purpose: the next message. One with "error" becomes -EREMOTEIO, or -EBADMSG if bytes were wrong,
 * with its text behind the name of the other end.
 * Owner: the caller. */
int perf_ctl_recv(struct perf_ctl *ctl, uint32_t timeout_ms, json_t **json_out);
/* Purpose: as perf_ctl_recv, at the server within a case. Errors: also -ECANCELED: an abort. */
int perf_ctl_order(struct perf_ctl *ctl, uint32_t timeout_ms, json_t **json_out);
/* Purpose: ends a case that failed (server; rc is why): reports the error, and answers the abort
 *   that follows, or that came already if rc is -ECANCELED. */
int perf_ctl_refuse(struct perf_ctl *ctl, int rc);
/* Returns: whether a message, or the end of the connection, can be read now, or no more is to be
 * waited for. */
bool perf_ctl_pending(const struct perf_ctl *ctl);

/* Purpose: ends a case that failed (client): sends an abort and takes answers up to the one to it.
 *   The connection is closed if that fails.
 * Returns: error, with the text that this thread has. */
int perf_ctl_give_up(struct perf_ctl *ctl, int error);

/* Of the channel. Another version of it may have other messages, or other fields in them. */
static const struct spw_oob_proto perf_proto = {"SPWF", 6};

/* greet.c: agrees on protocol and secret and exchanges facts. Owner: takes over facts; *theirs_out
 * is the caller's.
 * Errors: -EPROTONOSUPPORT another version; -EACCES another secret, or only one end has one;
 *   -EREMOTEIO the server is busy. */
int perf_greet_client(struct perf_ctl *ctl, const struct spw_oob_secret *secret, json_t *facts,
		      json_t **theirs_out);
/* The server's part after its door has taken the client's hello. */
int perf_greet_server(struct perf_ctl *ctl, json_t *facts, json_t **theirs_out);

#endif
