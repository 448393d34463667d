/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Opens a cable by its prefix. nic_attach() is the caller.
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "softhca/cable/cable.h"

int cable_open(const char *spec, struct cable_id *id, struct cable **cable_out)
{
	static const struct {
		const char *prefix;
		int (*open)(const char *, struct cable_id *, struct cable **);
	} kinds[] = {
		{"shm:", cable_shm_open},
		{"afpacket:", cable_afpacket_open},
		{"unix:", cable_unix_open},
	};

	for (unsigned i = 0; i < SPW_ARRAY_CNT(kinds); i++) {
		const size_t n = strlen(kinds[i].prefix);

		if (strncmp(spec, kinds[i].prefix, n) == 0)
			return kinds[i].open(spec + n, id, cable_out);
	}
	return spw_err(EINVAL, "cable \"%s\": use shm:NAME, afpacket:IFACE or unix:MINE,PEER",
		       spec);
}
