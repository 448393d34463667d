/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Data connections of TCP rows. A connection begins with a token that the server made for the case,
 * so that nobody else's connection is counted.
 */
#ifndef PERF_SOCK_H
#define PERF_SOCK_H

#include "control/control.h"
#include "perf.h"

#define PERF_TOKEN_BYTES 16u
#define PERF_BLOCK_BYTES (128u << 10)

/* Purpose: connects cnt streams to an address, and sends the token over each.
 * Owner: fd[cnt] are the caller's. Errors: -ETIMEDOUT, -ECONNREFUSED... with the address. */
int perf_sock_connect(const char *ip, uint16_t port, const uint8_t token[PERF_TOKEN_BYTES], int *fd,
		      uint32_t cnt);
/* Purpose: accepts cnt streams that know the token, until perf_ctl_pending(ctl)
 * or 15 s are over. */
int perf_sock_accept(int listener, const struct perf_ctl *ctl,
		     const uint8_t token[PERF_TOKEN_BYTES], int *fd, uint32_t cnt);
void perf_sock_close(int *fd, uint32_t cnt);

/* Purpose: sends from one thread a stream until warm + timed ms are over; counts what was taken by
 *   the sockets after the warm-up. Stream i carries the pattern of seed i, block after block.
 * Errors: -ECONNRESET. */
int perf_sock_send(const int *fd, uint32_t cnt, uint32_t warm_ms, uint32_t timed_ms,
		   struct perf_flow *flow_out);
/* Purpose: receives until every stream has ended, from a thread a stream; first and last block of
 *   each are compared.
 * Errors: -EBADMSG, -ECONNRESET. */
int perf_sock_receive(const int *fd, uint32_t cnt, struct perf_flow *flow_out);

#endif
