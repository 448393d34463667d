/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The control connection: TCP, one JSON object a message, each behind its length (u32, big-endian).
 * Simple blocking calls with time-outs; nothing on it is timed.
 *
 *   client                                             server
 *   {"hello": protocol, "version", "nonce"}       ->
 *                                                 <-   {"hello", "version", "nonce", "secret":
 * bool}
 *   {"mac", "facts"}                              ->
 *                                                 <-   {"mac", "facts"}      or {"error": text,
 *                                                           "wrong": bytes were}
 *   {"case": {...}}                               ->
 *                                                 <-   {"ready": ...}        or {"error": text}
 *   ... as the case has it (case_xfer.c, case_tcp.c) ...
 *   {"do": "abort"...}   gives up a case          ->
 *                                                 <-   {"aborted": true}
 *   ... the next case; closing ends the session.
 *
 * mac is HMAC-SHA-256 by the secret over both nonces (all zeros without one), with another label
 * each way. The bytes are not encrypted.
 *
 * Thread of all functions: the main thread.
 */
#ifndef PERF_CONTROL_H
#define PERF_CONTROL_H

#include "peer/spw_peer_conf.h"
#include "perf.h"

struct perf_ctl {
	int fd;         /* -1: not open */
	char peer[64];  /* the other end as the user named it, for messages */
	char local[48]; /* numeric address of this end of the connection */
	char far[48];   /* and of the other one */
};

/* Errors of all: -ECONNRESET the other end left; -ETIMEDOUT it is silent; -EPROTO it sent no such
 * message; each with a text that names it. */

/* Purpose: listens on port of all addresses; 0: any free port.
 * Returns: the socket; *port_out is its port. Errors: -EADDRINUSE, with what to do. */
int perf_ctl_listen(uint16_t port, uint16_t *port_out);
int perf_ctl_accept(int listener, struct perf_ctl *ctl_out);
/* Purpose: connects to HOST or HOST:PORT or [fd00::1]:PORT, within 5 s.
 * Errors: -ENOENT no such host; -ECONNREFUSED; -ETIMEDOUT: each says what to do. */
int perf_ctl_connect(const char *host, uint16_t port, struct perf_ctl *ctl_out);
void perf_ctl_close(struct perf_ctl *ctl);

/* Purpose: sends a message. Owner: takes over json; NULL (no memory) is an error. */
int perf_ctl_send(struct perf_ctl *ctl, json_t *json);
/* Purpose: reports this thread's last error to the other end; rc is its code. */
int perf_ctl_error(struct perf_ctl *ctl, int rc);
/* Purpose: the next message. One with "error" becomes -EREMOTEIO, or -EBADMSG if bytes were wrong,
 * with its text behind the name of the other end.
 * Owner: the caller. */
int perf_ctl_recv(struct perf_ctl *ctl, uint32_t timeout_ms, json_t **json_out);
/* Purpose: as perf_ctl_recv, at the server within a case. Errors: also -ECANCELED: an abort. */
int perf_ctl_order(struct perf_ctl *ctl, uint32_t timeout_ms, json_t **json_out);
/* Purpose: ends a case that failed (server; rc is why): reports the error, and answers the abort
 *   that follows, or that came already if rc is -ECANCELED. */
int perf_ctl_refuse(struct perf_ctl *ctl, int rc);
/* Returns: whether a message, or the end of the connection, can be read now. */
bool perf_ctl_pending(const struct perf_ctl *ctl);

/* Purpose: ends a case that failed (client): sends an abort and takes answers up to the one to it.
 *   The connection is closed if that fails.
 * Returns: error, with the text that this thread has. */
int perf_ctl_give_up(struct perf_ctl *ctl, int error);

/* greet.c: agrees on protocol and secret and exchanges facts. Owner: takes over facts; *theirs_out
 * is the caller's.
 * Errors: -EPROTONOSUPPORT another version; -EACCES another secret, or only one end has one. */
int perf_greet_client(struct perf_ctl *ctl, const struct peer_secret *secret, json_t *facts,
		      json_t **theirs_out);
int perf_greet_server(struct perf_ctl *ctl, const struct peer_secret *secret, json_t *facts,
		      json_t **theirs_out);

#endif
