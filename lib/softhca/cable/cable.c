/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Opens a cable by its prefix. nic_attach() is the caller; cable.h has the contract of all cables.
 *
 *   shm:NAME          shm_join.c, shm_file.c, shm.c     NIC models of one user on one machine
 *   afpacket:IFACE    afpacket.c, sock.c                an interface, and whatever is behind it
 *   unix:MINE,PEER    unix.c, sock.c                    one other process, as QEMU
 *   udp:MINE,PEER     udp.c, udp_addr.c, sock.c         one other process on another host
 *
 * A further kind is one row of the table below, a file with its cable_ops, and its prefix in
 * hca_cfg.c, which refuses an unknown one before anything is opened.
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "softhca/cable/cable.h"

/* The text after the prefix is checked by the kind itself, with an error that shows what it
 * takes. */
int cable_open(const char *spec, struct cable_id *id, struct cable **cable_out)
{
	static const struct {
		const char *prefix;
		int (*open)(const char *, struct cable_id *, struct cable **);
	} kinds[] = {
		{"shm:", cable_shm_open},
		{"afpacket:", cable_afpacket_open},
		{"unix:", cable_unix_open},
		{"udp:", cable_udp_open},
	};

	for (unsigned i = 0; i < SPW_ARRAY_CNT(kinds); i++) {
		const size_t n = strlen(kinds[i].prefix);

		if (strncmp(spec, kinds[i].prefix, n) == 0)
			return kinds[i].open(spec + n, id, cable_out);
	}
	return spw_err(EINVAL,
		       "cable \"%s\": use shm:NAME, afpacket:IFACE, unix:MINE,PEER or udp:PEER",
		       spec);
}
