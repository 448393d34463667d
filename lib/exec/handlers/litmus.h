/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The executor's end of the litmus: reads a frame in place, judges each word, and writes the answer
 * into the same slot. exec/spw_litmus.h says what a frame looks like and what the answers mean.
 */
#include "exec/spw_litmus.h"

/* Judges the words of one 16-byte cell; the head is not part of the pattern. */
SPW_HD SPW_INLINE uint64_t spw_litmus_cell(const struct spw_chunk *c, uint32_t seq, uint32_t len)
{
	uint64_t sum = 0;

	for (int32_t j = 0; j < 4; j++) {
		int32_t at = c->off + 4 * j;

		if (at >= (int32_t)SPW_LITMUS_HEAD && (uint32_t)at + 4 <= len)
			sum += spw_litmus_judge(c->w[j], seq, ((uint32_t)at - SPW_LITMUS_HEAD) / 4);
	}
	return sum;
}

/* Each lane writes whole words, byte by byte, after every lane has read (the sum is collective). */
SPW_HD SPW_INLINE void spw_litmus_answer(const struct spw_frame *frame, struct spw_lanes lanes,
					 uint32_t seq)
{
	for (uint32_t at = SPW_LITMUS_HEAD + 4 * lanes.idx; at + 4 <= frame->len;
	     at += 4 * lanes.cnt) {
		uint32_t w = spw_litmus_word(seq, (at - SPW_LITMUS_HEAD) / 4);

		for (uint32_t b = 0; b < 4; b++)
			spw_frame_put_u8(frame, at + b, w >> (8 * b) & 0xff);
	}
}

SPW_HANDLER_BODY(litmus)(const struct spw_frame *frame, struct spw_lanes lanes)
{
	struct spw_frame part = *frame;
	uint32_t seq = frame->meta & 0xffff;
	uint64_t sum = 0;

	part.len = SPW_MIN(frame->len, SPW_LITMUS_BYTES_MAX);
	spw_for_each_chunk(c, &part, lanes) sum += spw_litmus_cell(c, seq, part.len);
	sum = spw_lanes_sum(lanes, sum);
	if (frame->meta != spw_litmus_meta(seq))
		return spw_verdict(SPW_VERDICT_BAD, SPW_BAD_handler, sum);
	if (sum >= SPW_LITMUS_OLD)
		return spw_verdict(SPW_VERDICT_BAD, SPW_BAD_checksum, sum);
	spw_litmus_answer(&part, lanes, seq + SPW_LITMUS_STEP);
	return spw_echo(sum);
}
