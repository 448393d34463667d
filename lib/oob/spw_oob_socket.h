/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Non-blocking TCP for exchanges. IPv4 uses AF_INET sockets, so that machines without IPv6 work;
 * callers see IPv4-mapped addresses only. Connections have TCP_NODELAY, and keepalive: a host that
 * died silently is noticed after 11 s.
 *
 * Returns of those that open: a descriptor, which is the caller's, or -errno without a text.
 * Thread of all: control, or the owner of what uses them.
 */
#ifndef SPW_OOB_SOCKET_H
#define SPW_OOB_SOCKET_H

#include <netinet/in.h>

#include "base/spw_types.h"

/* Shape: port 0 becomes the one that the kernel chose; :: takes IPv4, too. Thread: control. */
int spw_oob_socket_listen(struct sockaddr_in6 *addr);
/* Errors: -EAGAIN: no connection waits. Thread: control. */
int spw_oob_socket_accept(int listen_fd, struct sockaddr_in6 *from_out);
/* Purpose: begins a connect. Thread: control. */
int spw_oob_socket_connect(const struct sockaddr_in6 *addr);
/* Returns: how the connect ended: 0; -EAGAIN: not yet; its error. Thread: control. */
int spw_oob_socket_connected(int fd);
/* Returns: true if the other end neither closed nor sent anything. Thread: control. */
bool spw_oob_socket_is_quiet(int fd);

#endif
