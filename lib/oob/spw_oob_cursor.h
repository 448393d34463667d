/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Fields of a message, big-endian, in one list for both directions: a protocol walks its fields
 * once, and the cursor writes or reads each. Used by xfer/wire.c and peer/message.c.
 */
#ifndef SPW_OOB_CURSOR_H
#define SPW_OOB_CURSOR_H

#include <string.h>

#include "base/spw_types.h"

/* Where the next field lies. The caller has compared the length: nothing is checked here. Owner:
 * the caller's buffer; with put false it is only read. */
struct spw_oob_cursor {
	uint8_t *at;
	bool put; /* write the fields; else read them */
};

/* Purpose: writes or reads len bytes as they are. Thread: any. */
SPW_INLINE void spw_oob_cursor_bytes(struct spw_oob_cursor *c, void *field, size_t len)
{
	if (c->put)
		memcpy(c->at, field, len);
	else
		memcpy(field, c->at, len);
	c->at += len;
}

/* Purpose: writes or reads a number of 16 bits, or of 32 or 64 below. Thread: any. */
SPW_INLINE void spw_oob_cursor_u16(struct spw_oob_cursor *c, uint16_t *field)
{
	spw_be16 be = spw_cpu_to_be16(*field);

	spw_oob_cursor_bytes(c, &be, sizeof(be));
	*field = spw_be16_to_cpu(be);
}

/* Thread: any. */
SPW_INLINE void spw_oob_cursor_u32(struct spw_oob_cursor *c, uint32_t *field)
{
	spw_be32 be = spw_cpu_to_be32(*field);

	spw_oob_cursor_bytes(c, &be, sizeof(be));
	*field = spw_be32_to_cpu(be);
}

/* Thread: any. */
SPW_INLINE void spw_oob_cursor_u64(struct spw_oob_cursor *c, uint64_t *field)
{
	spw_be64 be = spw_cpu_to_be64(*field);

	spw_oob_cursor_bytes(c, &be, sizeof(be));
	*field = spw_be64_to_cpu(be);
}

#endif
