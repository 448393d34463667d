/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One round of a group, as memory: what a rank puts into its peers' windows, and the words that an
 * executor (a CPU thread or a kernel) shares with the proxy that rings the doorbells. Rounds are
 * numbered 1, 2, 3... by each rank for itself; round r uses slot r mod 2 everywhere.
 *
 *   slot of a window, one for each peer and slot:    staging, one for each slot:
 *     0    four flag words of spw_xfer_put (32 B)
 *     64   head  ◄──────────── the put ─────────────   0    head
 *     128  data                                        64   data
 *
 *   word       writer     reader     order
 *   ---------  ---------  ---------  -----------------------------------------------------------
 *   post[s]    executor   proxy      CO1: the staged bytes, and all reads of the round before, come
 *                                    first
 *   flags      peer's NIC executor   X1 of spw_xfer.h
 *   acked      proxy      executor   CO2: staging of rounds <= acked is no longer read by the NIC
 *   gone       proxy      executor   CO3: what arrived before a connection ended is there
 *   ended      any thread executor   set once, no order: the executor only leaves earlier
 *   failed     executor   proxy,     CO4: nothing of this round was written to the output
 *                         caller
 *
 * Why two slots are enough. A round is complete when the flags of all peers have arrived and this
 * rank's puts of the round before are acknowledged. A rank posts round r+1 only after its round r
 * is complete, and its flag of round r therefore says that it has read all of round r-1:
 *
 *   rank 0   put r ──────┐   flags of r: complete ─► reads r ─► put r+1 (into slots of r-1)
 *   rank 1   reads r-1 ─► put r ──┘                              │
 *                    └── before its put of r, so before rank 0's put of r+1 is even posted
 *
 * Hence nobody is more than one round ahead, no slot is overwritten while it is read, and staging
 * of round r+1 (that of r-1) is free because the puts of r-1 are acknowledged. No credits travel.
 *
 * A flag is session and round: a late put of an earlier group, or of another round, is not taken
 * for this one; the head repeats both in full, with what is reduced. A peer writes to its own
 * windows only. Heads and flags are little-endian, as are the data.
 */
#ifndef SPW_COLL_ROUND_H
#define SPW_COLL_ROUND_H

#include "exec/spw_gring.h" /* SPW_HD */

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_COLL_RANK_MAX   8u
#define SPW_COLL_BYTES_MAX  (2u << 20) /* of one rank's contribution */
#define SPW_COLL_SLOT_CNT   2u
#define SPW_COLL_HEAD_BYTES 64u
#define SPW_COLL_FLAG_BYTES 64u /* flag words, and room to a line */
#define SPW_COLL_VERSION    1u
#define SPW_COLL_ROUND_BITS 40u

enum spw_coll_kind { SPW_COLL_ALL_REDUCE, SPW_COLL_ALL_GATHER };
enum spw_coll_type { SPW_COLL_F32, SPW_COLL_BF16, SPW_COLL_F16 };
enum spw_coll_op { SPW_COLL_SUM, SPW_COLL_MAX };

/* What every rank says of its contribution. Each rank compares all heads with its own before it
 * reduces anything. */
struct spw_coll_head {
	uint64_t session; /* of the group: made of a random number of each rank */
	uint64_t round;
	uint64_t count;   /* elements of the whole call, of which a round takes bytes_max */
	uint8_t version;  /* SPW_COLL_VERSION */
	uint8_t rank;     /* whose contribution it is */
	uint8_t kind;     /* enum spw_coll_kind */
	uint8_t type, op; /* enums; op is 0 for a gather */
	uint8_t zero[3];
	uint64_t reserved[4];
};
SPW_ASSERT_SIZE(struct spw_coll_head, SPW_COLL_HEAD_BYTES);

/* How a round ended. */
enum spw_coll_status {
	SPW_COLL_OK,
	SPW_COLL_TIMEOUT, /* ranks of the mask sent nothing; none: puts are not acknowledged */
	SPW_COLL_LOST,    /* the connections to ranks of the mask ended before they sent theirs */
	SPW_COLL_DIFFERS, /* a rank of the mask asks for something else in this round */
	SPW_COLL_BREACH,  /* a head of a rank of the mask that no rank of this group sends */
	SPW_COLL_NOTICE,  /* a rank of the mask reports that it ended the group */
	SPW_COLL_ABORTED, /* spw_coll_abort */
	SPW_COLL_STATUS_CNT
};

/* Words shared by executor and proxy, in memory that both map. post is the executor's, failed a
 * kernel's, the others the proxy's: each lies in its own pair of cache lines (128 bytes). Only
 * `ended` has several writers, of which one succeeds. */
struct spw_coll_words {
	uint64_t post[SPW_COLL_SLOT_CNT] SPW_ALIGNED(128); /* spw_coll_post_word */
	uint64_t acked SPW_ALIGNED(128);                   /* a round */
	uint64_t gone;                    /* a bit for each rank whose connection has ended */
	uint64_t ended;                   /* 0, or spw_coll_end_word; set once */
	uint64_t zero;                    /* the kernel loads words in pairs */
	uint64_t failed SPW_ALIGNED(128); /* 0, or spw_coll_end_word; set once */
};
SPW_ASSERT_OFFSET(struct spw_coll_words, acked, 128);
SPW_ASSERT_OFFSET(struct spw_coll_words, ended, 144);
SPW_ASSERT_OFFSET(struct spw_coll_words, failed, 256);
SPW_ASSERT_SIZE(struct spw_coll_words, 384);

/* ---- words ----
 *
 * Pure arithmetic. Thread: any. */

/* Purpose: the slot of a round, in windows, staging and posts alike. Thread: any. */
SPW_HD SPW_INLINE uint32_t spw_coll_slot(uint64_t round)
{
	return (uint32_t)round & (SPW_COLL_SLOT_CNT - 1u);
}

/* Purpose: the flag of a round, 1 .. 2^60 - 1. A number comes again after 2^40 rounds.
 * Thread: any. */
SPW_HD SPW_INLINE uint64_t spw_coll_flag(uint64_t session, uint64_t round)
{
	return (session & 0xfffffu) << SPW_COLL_ROUND_BITS |
	       (round & ((1ull << SPW_COLL_ROUND_BITS) - 1));
}

/* Purpose: a post: round, and bytes of the put with its head, below 2^24.
 * Thread: any. */
SPW_HD SPW_INLINE uint64_t spw_coll_post_word(uint64_t round, uint32_t bytes)
{
	return round << 24 | bytes;
}

/* Purpose: how a round ended, in one word that is never 0.
 * Shape: mask has a bit for each rank concerned.
 * Thread: any. */
SPW_HD SPW_INLINE uint64_t spw_coll_end_word(uint64_t round, enum spw_coll_status status,
					     uint32_t mask)
{
	return round << 24 | 1u << 16 | (uint32_t)status << 8 | (mask & 0xffu);
}

/* Purpose: whether a put has arrived, by its four flag words (spw_xfer_flag_seen, for words that
 *   were loaded before).
 * Thread: any. */
SPW_HD SPW_INLINE bool spw_coll_flag_is(const uint64_t *word, uint64_t flag)
{
	bool seen = false;

	for (uint32_t i = 0; i < 4; i++) {
		bool all = word[i] >> 4 == flag;

		for (uint32_t j = 0; j < 4; j++)
			all = all && (!(word[i] >> j & 1u) || word[j] == word[i]);
		seen = seen || all;
	}
	return seen;
}

/* Purpose: compares a peer's head with this rank's own for the same round.
 * Shape: theirs is a copy: the peer can change its window at any time.
 * Returns: SPW_COLL_OK, SPW_COLL_DIFFERS or SPW_COLL_BREACH.
 * Thread: any. */
SPW_HD SPW_INLINE enum spw_coll_status spw_coll_head_judge(const struct spw_coll_head *own,
							   const struct spw_coll_head *theirs,
							   uint32_t rank)
{
	if (theirs->session != own->session || theirs->round != own->round ||
	    theirs->version != own->version || theirs->rank != rank)
		return SPW_COLL_BREACH;
	if (theirs->kind != own->kind || theirs->type != own->type || theirs->op != own->op ||
	    theirs->count != own->count)
		return SPW_COLL_DIFFERS;
	return SPW_COLL_OK;
}

/* Purpose: bytes of an element; 0: no such type. Thread: any. */
SPW_HD SPW_INLINE uint32_t spw_coll_type_bytes(uint32_t type)
{
	return type == SPW_COLL_F32 ? 4 : type == SPW_COLL_BF16 || type == SPW_COLL_F16 ? 2 : 0;
}

/* ---- what a kernel gets ---- */

/* How far a round has come, as CTA 0 found. */
enum spw_coll_step { SPW_COLL_ARRIVED = 1, SPW_COLL_JUDGED, SPW_COLL_ENDED };

/* Words between the CTAs of a kernel, and from one kernel to the next; device memory, zero at
 * first. */
struct spw_coll_state {
	uint64_t round;                      /* last one; written when a kernel ends */
	uint64_t failed;                     /* set once: every later call returns at once */
	uint64_t arrived[SPW_COLL_SLOT_CNT]; /* CTAs whose share is staged */
	uint64_t relay[SPW_COLL_SLOT_CNT];   /* round << 8 | enum spw_coll_step, by CTA 0 */
	uint64_t left;                       /* CTAs that have ended */
};

/* A group as a kernel sees it; all addresses are the device's. Passed by value. */
struct spw_coll_dev {
	struct spw_coll_words *words;
	struct spw_coll_state *state;
	uint8_t *stage[SPW_COLL_SLOT_CNT];
	uint8_t *window[SPW_COLL_RANK_MAX][SPW_COLL_SLOT_CNT]; /* own rank: NULL */
	uint64_t session;
	uint64_t timeout_ns;
	uint32_t rank, rank_cnt;
	uint32_t bytes_max; /* of a contribution */
	uint32_t rail_cnt;  /* most rails of a connection: flag words that can be written */
};

#ifdef __cplusplus
}
#endif
#endif
