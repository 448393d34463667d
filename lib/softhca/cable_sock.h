/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Cables on a socket that carries one frame per datagram: AF_PACKET and AF_UNIX. */
#ifndef SPW_SOFTHCA_CABLE_SOCK_H
#define SPW_SOFTHCA_CABLE_SOCK_H

#include "softhca/cable.h"

/* Takes fd over. vlan_aux: the kernel hands VLAN tags over beside the frame (AF_PACKET). to: where to send
 * (AF_UNIX; to_bytes 0: connected). */
int cable_sock_new(int fd, bool vlan_aux, const void *to, uint32_t to_bytes, const char *unlink_path,
		   struct cable **cable_out);

#endif
