/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Kinds of GIDs, for the kernel side and the NIC. A RoCE GID is an IPv6 address.
 */
#ifndef SPW_SOFTHCA_HCA_GID_H
#define SPW_SOFTHCA_HCA_GID_H

#include <string.h>

#include "base/spw_types.h"

/* An IPv4-mapped IPv6 address, ::ffff:a.b.c.d: the GID of RoCE v2 over IPv4. */
SPW_INLINE bool hca_gid_is_ip4(const uint8_t gid[16])
{
	static const uint8_t prefix[12] = {[10] = 0xff, 0xff};

	return memcmp(gid, prefix, sizeof(prefix)) == 0;
}

/* An IPv4 multicast address, 224.0.0.0/4. */
SPW_INLINE bool hca_gid_is_ip4_group(const uint8_t gid[16])
{
	return hca_gid_is_ip4(gid) && gid[12] >> 4 == 0xe;
}

#endif
