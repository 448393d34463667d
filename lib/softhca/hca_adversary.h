/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The words of --adversary SEED[,WHAT...]: what a card may do to an application and this NIC by
 * itself does not. inject/adversary.h carries them out. The table below is the only list of them:
 * it is parsed, printed by `with-softhca --adversary help`, and compared with docs/060 by a test.
 */
#ifndef SPW_SOFTHCA_HCA_ADVERSARY_H
#define SPW_SOFTHCA_HCA_ADVERSARY_H

#include "base/spw_types.h"

#define HCA_ADV_WORDS(X)                                                                           \
	X(late_cqe, "late-cqe",                                                                    \
	  "time between the payload and its CQE; the order within a CQ is kept")                   \
	X(early_bytes, "early-bytes",                                                              \
	  "all bytes of a CQE but its marks of ownership are written some time before those")      \
	X(mixed, "mixed",                                                                          \
	  "CQEs of different queues in one CQ pass each other; each queue keeps its order")        \
	X(late_wqe, "late-wqe", "time between a doorbell and the fetch of its WQEs")               \
	X(pieces, "pieces",                                                                        \
	  "BlueFlame copies arrive in pieces of 8 bytes in any order, the doorbell among them")    \
	X(prefetch, "prefetch",                                                                    \
	  "the receive record is read seldom; up to all posted receive WQEs are fetched at once")  \
	X(poison, "poison",                                                                        \
	  "overwritten: addresses of fetched receive WQEs, their buffers, completed send WQEs")    \
	X(late_drops, "late-drops", "dropped frames are reported some CQEs later")                 \
	X(sessions, "sessions",                                                                    \
	  "compression sessions wrap at the end of the ring, stay open until a timer or a reset, " \
	  "hold one")                                                                              \
	X(holes, "holes",                                                                          \
	  "what a compressed block leaves unwritten looks like CQEs with the last lap's owner "    \
	  "bit")                                                                                   \
	X(split_writes, "split-writes",                                                            \
	  "the bytes of a WRITE reach memory in pieces of 8 to 128 bytes in any order, the last "  \
	  "among them")                                                                            \
	X(late_writes, "late-writes", "WRITEs of one QP pass each other on their way to memory")

enum {
#define HCA_ADV_BIT_(id, word, text) HCA_ADV_BIT_##id,
	HCA_ADV_WORDS(HCA_ADV_BIT_)
#undef HCA_ADV_BIT_
};

enum {
#define HCA_ADV_(id, word, text) HCA_ADV_##id = 1 << HCA_ADV_BIT_##id,
	HCA_ADV_WORDS(HCA_ADV_)
#undef HCA_ADV_
};

struct hca_adversary {
	uint64_t seed;
	uint32_t what; /* HCA_ADV_*; 0: there is none */
};

/* Purpose: parses SEED[,WHAT...]; without WHAT all words.
 * Errors:  -EINVAL with a text that names the option and what it takes.
 * Thread:  any. */
int hca_adversary_parse(const char *text, struct hca_adversary *adv_out);

/* Purpose: word and text of bit 0, 1, ... of `what`.
 * Returns: the word; NULL: there is no such bit.
 * Thread:  any. */
const char *hca_adversary_word(uint32_t bit, const char **text_out);

#endif
