/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Traffic in both directions at once, while a test does harm: sends of mixed lengths, and puts with
 * flags. Every byte of every message is compared, and nothing may arrive twice, late, or not at
 * all.
 */
#ifndef SPW_XFER_STREAM_H
#define SPW_XFER_STREAM_H

#include "xfer_kit.h"

#define STREAM_DEPTH 12u
#define STREAM_BYTES (256u << 10) /* longest message */
/* What kit_memory must have: both ways of messages and of puts, at each end. */
#define STREAM_MEMORY (4u * (STREAM_DEPTH + 1) * STREAM_BYTES)

/* One direction. */
struct stream_way {
	struct spw_xfer_conn *from, *to;
	struct spw_xfer_mem *mem_from, *mem_to;
	uint8_t *out, *in, *put_out, *put_in;
	struct spw_xfer_req *send[STREAM_DEPTH], *recv[STREAM_DEPTH], *put;
	struct spw_xfer_window *window;
	uint64_t sent, received; /* messages; number n is in slot n % STREAM_DEPTH */
	uint64_t puts;
};

struct stream {
	struct kit *k;
	struct stream_way way[2];
	uint64_t last_ms, longest_ms; /* between two messages that arrived */
	bool stop;                    /* start nothing new */
};

void stream_open(struct stream *s, struct kit *k);
/* Runs for so long. */
void stream_run(struct stream *s, uint32_t ms);
/* Runs until all that was started is done. */
void stream_end(struct stream *s);

#endif
