/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The frames of the litmus, and the handler that checks them in the executor. lib/topo sends them
 * (topo/spw_topo_litmus.h); every word names the frame that wrote it, so a reader that is
 * too early or too late knows what it got.
 *
 *   frame   | Ethernet header 14 | 0 0 | word 0 | word 1 | ...
 *           ^ slot, on a line          ^ SPW_LITMUS_HEAD
 *   word    | seq 16 | mix of seq and the word's place 16 |
 *   meta    | ~seq 16 (in the descriptor's hi word) | seq 16 (in its lo word) |
 *
 *   a word that is read                   means
 *   ------------------------------------  -----------------------------------------------------
 *   the word of this seq and place        good
 *   the word of another seq, same place   old: what an earlier frame left in this slot
 *   anything else                         wrong
 *   meta whose halves do not match        a descriptor of two laps (torn)
 *
 * The handler checks a frame in place. If it is good, it writes the frame of seq + SPW_LITMUS_STEP
 * over it and answers ECHO; else it leaves the bytes as evidence and answers BAD: reason handler
 * for a torn descriptor, reason checksum for bytes. Its digest counts words.
 */
#ifndef SPW_EXEC_LITMUS_H
#define SPW_EXEC_LITMUS_H

#include "exec/spw_handler.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_LITMUS_HEAD      16u
#define SPW_LITMUS_STEP      32u   /* from a frame's seq to its answer's, mod 2^16 */
#define SPW_LITMUS_BYTES_MIN 64u   /* frames are multiples of 4 from here .. */
#define SPW_LITMUS_BYTES_MAX 2048u /* .. to here, so that the digest's fields do not overflow */

/* Fields of the digest: words that were good, old and wrong, summed over a batch. */
#define SPW_LITMUS_GOOD 1ull
#define SPW_LITMUS_OLD  (1ull << 24)
#define SPW_LITMUS_BAD  (1ull << 40)

/* Purpose: word i of frame seq; only the low 16 bits of seq count.
 * Thread:  any. */
SPW_HD SPW_INLINE uint32_t spw_litmus_word(uint32_t seq, uint32_t i)
{
	uint32_t h = (seq & 0xffff) * 0x9e3779b1u ^ (i + 1) * 0x85ebca6bu;

	h = (h ^ h >> 15) * 0x2c1b3c6du;
	return (seq & 0xffff) << 16 | ((h ^ h >> 16) & 0xffff);
}

/* Purpose: what a word that was read in place i of frame seq is: SPW_LITMUS_GOOD, _OLD or _BAD.
 * Thread:  any. */
SPW_HD SPW_INLINE uint64_t spw_litmus_judge(uint32_t word, uint32_t seq, uint32_t i)
{
	if (word == spw_litmus_word(seq, i))
		return SPW_LITMUS_GOOD;
	return word == spw_litmus_word(word >> 16, i) ? SPW_LITMUS_OLD : SPW_LITMUS_BAD;
}

/* Returns: the three fields of a digest. Thread: any. */
SPW_INLINE uint32_t spw_litmus_good(uint64_t digest)
{
	return (uint32_t)(digest & 0xffffff);
}
SPW_INLINE uint32_t spw_litmus_old(uint64_t digest)
{
	return (uint32_t)(digest >> 24) & 0xffff;
}
SPW_INLINE uint32_t spw_litmus_bad(uint64_t digest)
{
	return (uint32_t)(digest >> 40) & 0xffff;
}

/* Purpose: the meta of frame seq; each half lies in another word of the descriptor.
 * Thread:  any. */
SPW_HD SPW_INLINE uint32_t spw_litmus_meta(uint32_t seq)
{
	return (~seq & 0xffff) << 16 | (seq & 0xffff);
}

/* The handler; not in the list of built-in ones, since it is of no use to others. Lives as long as
 * the process. */
extern const struct spw_handler spw_litmus_handler;

#ifdef __cplusplus
}
#endif
#endif
