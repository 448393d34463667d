/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Recorded completion rings: what a NIC wrote, and what must come out of it.
 * tests/e2e/port/mlx5/record_traces.py makes them.
 *
 * NAME.cq, by batch: for each ring slot that the NIC wrote, its number (16 bits), 64 bits of which
 * of its bytes differ from what the NIC had written there before, and those bytes; 0xffff ends the
 * batch. All little endian. Before the first batch a slot is zero but for the last two bytes, 0xff
 * and 0xf0. The batch is whole: mini arrays and blocks as they lie in the ring.
 *
 * NAME.txt, a line each: what the frames' sender and the NIC's own trace say; no word of it has
 * been through the code under test. shape KEY=VALUE...                flags (enum mlx5_flag;
 * with credits= enum mlx5_rc_flag), cq, rq: entries, ... batch FRAMES                      how
 * many were sent; what follows, in the order of completions: frame BYTES HASH CHECKSUMS STAMP  a
 * frame; checksums as SPW_DESC_L3_OK | SPW_DESC_L4_OK; no stamp: the queue asked for none filler
 * STRIDES, long STRIDES BYTES  striding: no frame, and one that is longer than a stride error
 * SYNDROME                    an error completion message BYTES IMM STAMP           RC; IMM 0: it
 * had none; no stamp: likewise missed FRAMES                     at the end: frames that the CQEs
 * say found no receive
 */
#ifndef SPW_TEST_CQ_TRACE_H
#define SPW_TEST_CQ_TRACE_H

#include <stdio.h>

#include "base/spw_types.h"

#define CQ_TRACE_MAX 1024u /* entries of a ring */

struct cq_trace {
	FILE *ring, *text;
	uint32_t flags, cq, rq, strides_log2, slot, slots, credits, qpn; /* the shape */
	char word[16]; /* of the line that comes next; "" at the end */
	uint64_t value[4];
	unsigned values;
	uint64_t stamp; /* the highest so far: they never go back */
	uint8_t written[CQ_TRACE_MAX * 64];
};

/* Each fails the running cmocka test if a file is missing or makes no sense. */
void cq_trace_open(struct cq_trace *t, const char *folder, const char *name);
/* Purpose: the next line goes to word and value. */
void cq_trace_line(struct cq_trace *t);
/* Purpose: writes the batch's slots to a ring as the NIC did. */
void cq_trace_batch(struct cq_trace *t, uint8_t *ring);
void cq_trace_close(struct cq_trace *t);

#endif
