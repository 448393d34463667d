/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Which rail gets how much. A rail is given no more than two chunks ahead, and the rail with the
 * fewest bytes under way gets the next: so a rail gets work as fast as it drains it.
 *
 *   at most SPLIT_BYTES         one chunk, over one rail
 *   at most a chunk for each    one chunk a rail, such that all rails then have as much under way:
 *     rail                        few WQEs and completions, and unequal rails get unequal shares
 *   longer                      chunks that become smaller towards the end, so that rails of
 *                               unequal speed finish together
 *
 * Called by engine.c. Pure, but for what it reads of rails: nothing is posted here.
 */
#include "xfer/connection.h"
#include "xfer/endpoint.h"

#define SPLIT_BYTES  65536u
#define CHUNK_MIN    16384u
#define AHEAD_CHUNKS 2u
#define PAGE         4096u
#define AT_ONCE_MAX  (64u << 20) /* a rail; four of them in one WQE are within its limit of 2^30 */

/* With one rail up there is nothing to share, and no limit of bytes ahead. */
static bool share_is_alone(const struct spw_xfer_conn *conn)
{
	return !(conn->up & (conn->up - 1u));
}

bool xfer_may_take(const struct xfer_rail *rail)
{
	const uint64_t limit = (uint64_t)AHEAD_CHUNKS * rail->conn->x->conf.chunk_bytes;

	return rail->state == XFER_UP && xfer_rail_room(rail) > XFER_SQ_RESERVE &&
	       (share_is_alone(rail->conn) || rail->out_bytes < limit);
}

/* Of rails with as many bytes under way the one with more room in its send queue. */
struct xfer_rail *xfer_pick(const struct spw_xfer_conn *conn)
{
	struct xfer_rail *best = NULL;

	for (uint32_t i = 0; i < conn->rail_cnt; i++) {
		struct xfer_rail *rail = conn->rail[i];

		if (!xfer_may_take(rail))
			continue;
		if (!best || rail->out_bytes < best->out_bytes ||
		    (rail->out_bytes == best->out_bytes &&
		     xfer_rail_room(rail) > xfer_rail_room(best)))
			best = rail;
	}
	return best;
}

/* Grants may use the reserve that chunks leave (XFER_SQ_RESERVE). */
struct xfer_rail *xfer_pick_for_control(const struct spw_xfer_conn *conn)
{
	for (uint32_t i = 0; i < conn->rail_cnt; i++)
		if (conn->rail[i]->state == XFER_UP && xfer_rail_room(conn->rail[i]) > 1)
			return conn->rail[i];
	return NULL;
}

/* Half of an equal share of what is left, in pages: so the last chunks are small. */
uint32_t xfer_chunk_bytes(const struct spw_xfer_conn *conn, const struct xfer_msg *msg)
{
	const uint64_t left = msg->bytes - msg->at;
	uint64_t len = conn->x->conf.chunk_bytes;

	if (msg->bytes > SPLIT_BYTES && !share_is_alone(conn)) {
		const uint32_t rails = (uint32_t)__builtin_popcount(conn->up);

		len = SPW_MIN(len, SPW_MAX(SPW_ALIGN_UP(left / (2 * rails), (uint64_t)PAGE),
					   (uint64_t)CHUNK_MIN));
	}
	return (uint32_t)SPW_MIN(left, len);
}

bool xfer_goes_at_once(const struct spw_xfer_conn *conn, uint64_t bytes)
{
	const uint32_t most = SPW_MIN(conn->x->conf.chunk_bytes, AT_ONCE_MAX);

	return bytes <= most || bytes <= (uint64_t)__builtin_popcount(conn->up) * most;
}

/* The bytes under way to which the rails of a mask rise if they share so many more. A rail that has
 * more already leaves the mask. */
static uint64_t level_of(const struct spw_xfer_conn *conn, uint64_t bytes, uint8_t *rails)
{
	for (;;) {
		uint64_t sum = bytes, level;
		uint8_t keep = 0;

		for (uint32_t i = 0; i < conn->rail_cnt; i++)
			sum += *rails >> i & 1u ? conn->rail[i]->out_bytes : 0;
		level = sum / (uint32_t)__builtin_popcount(*rails);
		for (uint32_t i = 0; i < conn->rail_cnt; i++)
			if (*rails >> i & 1u && conn->rail[i]->out_bytes < level)
				keep |= (uint8_t)(1u << i);
		if (keep == *rails)
			return level;
		*rails = keep;
	}
}

/* All that rails above were given was rounded up to pages, so the last ones may get nothing. */
static uint8_t share_split(const struct spw_xfer_conn *conn, uint64_t bytes, uint8_t rails,
			   uint32_t share_out[SPW_XFER_RAIL_MAX])
{
	const uint64_t level = level_of(conn, bytes, &rails);
	uint8_t used = 0;

	for (uint32_t i = 0; i < conn->rail_cnt && bytes; i++) {
		uint64_t len;

		if (!(rails >> i & 1u))
			continue;
		len = SPW_ALIGN_UP(level - conn->rail[i]->out_bytes, (uint64_t)PAGE);
		len = rails >> (i + 1) ? SPW_MIN(len, bytes) : bytes;
		share_out[i] = (uint32_t)len;
		bytes -= len;
		used |= (uint8_t)(1u << i);
	}
	return used;
}

/* Short messages go over one rail: a second one would cost more than it saves. */
uint8_t xfer_shares(const struct spw_xfer_conn *conn, uint64_t bytes,
		    uint32_t share_out[SPW_XFER_RAIL_MAX])
{
	const struct xfer_rail *one;
	uint8_t rails = 0;

	for (uint32_t i = 0; i < conn->rail_cnt; i++)
		if (xfer_may_take(conn->rail[i]))
			rails |= (uint8_t)(1u << i);
	if (bytes > SPLIT_BYTES && rails & (rails - 1u))
		return share_split(conn, bytes, rails, share_out);
	one = rails ? xfer_pick(conn) : NULL;
	if (!one)
		return 0;
	share_out[one->idx] = (uint32_t)bytes;
	return (uint8_t)(1u << one->idx);
}
