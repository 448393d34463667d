/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Hosts by their name: what a user writes, and the addresses that the resolver has for it.
 * Called once, before a program listens or connects, since the resolver may take seconds. Whoever
 * connects tries the addresses in the resolver's order.
 */
#ifndef SPW_OOB_HOST_H
#define SPW_OOB_HOST_H

#include <netinet/in.h>

#include "base/spw_types.h"

#define SPW_OOB_HOST_ADDR_MAX 8u

/* A host as it was named, and where it may be found. */
struct spw_oob_host {
	char name[256], port[8];                         /* as written */
	struct sockaddr_in6 addr[SPW_OOB_HOST_ADDR_MAX]; /* IPv4 is mapped */
	uint32_t addr_cnt;                               /* at least 1 */
};

/* Purpose: resolves "HOST:PORT" or "[fd00::1]:PORT", and with a default port also "HOST" or
 *   "fd00::1". Waits for the resolver.
 * Shape: port NULL: text must have one. to_listen: an empty HOST stands for all addresses.
 * Thread: setup.
 * Errors: -EINVAL the text has no port, or is too long; -ENOENT no such host; with a text. */
int spw_oob_host_resolve(const char *text, const char *port, bool to_listen,
			 struct spw_oob_host *host_out);

#endif
