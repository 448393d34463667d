/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Cables on a socket that carries one frame per datagram: what afpacket.c, unix.c and udp.c share
 * (sock.c).
 */
#ifndef SPW_SOFTHCA_CABLE_SOCK_H
#define SPW_SOFTHCA_CABLE_SOCK_H

#include <sys/socket.h>
#include <sys/un.h>

#include "softhca/cable/cable.h"

#define CABLE_HASH_SEED 2166136261u

/* FNV-1a: ends with different names get different addresses. */
SPW_INLINE uint32_t cable_hash(uint32_t hash, const void *name, size_t bytes)
{
	for (const uint8_t *at = name; bytes; bytes--)
		hash = (hash ^ *at++) * 16777619u;
	return hash;
}

struct cable_sock_how {
	bool vlan_aux;     /* the kernel delivers VLAN tags as control messages (AF_PACKET) */
	uint32_t to_bytes; /* size of `to`; 0: the socket has one destination */
	struct sockaddr_un to;
	const char *iface;       /* AF_PACKET: the interface whose link is this cable's, or NULL */
	const char *unlink_path; /* removed when the cable is closed, or NULL */
	uint32_t claim_cnt;
	int claim[2]; /* sockets that claim the addresses */
};

/* Purpose: a cable on fd.
 * Owner:   fd and the claims belong to the cable, also after a failure.
 * Errors:  -ENOMEM with text.
 * Thread:  setup. */
int cable_sock_new(int fd, const struct cable_sock_how *how, struct cable **cable_out);

#endif
