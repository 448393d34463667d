/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A trail: what one thread on the way of the generator's frames noted of each, by flow and number,
 * and the gaps in which that thread did not work. tools/lib/spwjoin.py joins the trails of a
 * source, its NIC, spinwire's NIC and spinwire, and so follows a frame from one to the next.
 *
 *   source ── its NIC ── cable ── NIC ──── lcore ── NIC ── cable ── its NIC ── source
 *   SLOW      SENT                CAME     FRAME    SENT            CAME       SLOW
 *   GAP       GAP                 GAP      BATCH    GAP             GAP        GAP
 *                                          BLAME, GAP                          FRAME
 *   DONE: its NIC's send completions       DONE: its NIC's send completions
 *
 * The owner writes records of one cache line into a ring of its own, which keeps the newest; the
 * ring is written to a file when the owner has ended. All times are ticks of spw_cpu_counter(),
 * which is one counter for all programs of a machine. Where the ring is too short for a run, each
 * side keeps the frames whose number is a multiple of `every`, so that all keep the same ones.
 *
 * File: for each trail a struct spw_trail_head and its records, the oldest first, in the byte order
 * of the machine.
 */
#ifndef SPW_TRAIL_TRAIL_H
#define SPW_TRAIL_TRAIL_H

#include "base/spw_enum.h"
#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_TRAIL_VERSION 2u
#define SPW_TRAIL_LOG2    19u /* records kept: 32 MiB */

/* What at[] holds. The text is the reader's key: name, at[0] at[1] ... */
#define SPW_TRAIL_LIST(X, P)                                                                       \
	X(P, GAP, "from to: the owner did not work; what: why, by the names in the file's head")   \
	X(P, SLOW, "due taken handed drained echo: source; drained: the port was last empty")      \
	X(P, SENT, "taken committed flushed: NIC; its doorbell was read, on the cable, published") \
	X(P, HELD, "put: NIC; a fault had held the frame that was committed before")               \
	X(P, CAME, "stamped completed: NIC; taken from the cable, its CQE written")                \
	X(P, FRAME,                                                                                \
	  "nic batch empty number unc: pipe; NIC stamp or 0, batch number, last poll that "        \
	  "left none, number among the frames that its lane sent or 0, uncertainty of "            \
	  "nic. Source: of the SLOW with this echo as batch; number: among those that "            \
	  "sender what (a trail of the file, from 0) sent")                                        \
	X(P, BATCH, "batch polled pushed start end reaped sent: pipe")                             \
	X(P, BLAME, "batch, then (cause << 56 | ticks) each: pipe; what: the part, 0: nic_polled") \
	X(P, DONE,                                                                                 \
	  "number stamp unc: pipe, source; by stamp (0: not known when) its NIC had done "         \
	  "with the lane's or sender's frames up to number; uncertainty")

enum spw_trail_kind { SPW_ENUM(SPW_TRAIL) };

#define SPW_TRAIL_AT_CNT 7u

struct spw_trail_rec {
	uint8_t kind; /* enum spw_trail_kind */
	uint8_t what;
	uint16_t flow;
	uint32_t seq; /* as in the frame: 32 bits */
	uint64_t at[SPW_TRAIL_AT_CNT];
};
SPW_ASSERT_SIZE(struct spw_trail_rec, SPW_CACHE_LINE);

struct spw_trail_head {
	char magic[8]; /* "SPWTRAIL" */
	uint32_t version, every;
	uint64_t all, kept; /* records written in all, and those that follow */
	char names[480];    /* what GAP and BLAME count: "gap=lost,port;cause=poll_gap,..." */
};
SPW_ASSERT_SIZE(struct spw_trail_head, 512);

struct spw_trail {
	struct spw_trail_rec *rec; /* [1 << SPW_TRAIL_LOG2] */
	uint64_t cnt;              /* written so far */
	uint32_t every;            /* a power of 2 */
};

/* Purpose: a ring whose pages are all touched.
 * Shape:   every: a power of 2.
 * Owner:   the caller, until spw_trail_close, which may be called on a zeroed trail.
 * Thread:  setup.
 * Errors:  -EINVAL; -ENOMEM. */
int spw_trail_open(struct spw_trail *trail, uint32_t every);
void spw_trail_close(struct spw_trail *trail);

/* Returns: whether frames of this number are kept. Thread: any. */
SPW_INLINE bool spw_trail_wants(const struct spw_trail *trail, uint32_t seq)
{
	return (seq & (trail->every - 1)) == 0;
}

/* Purpose: the next record, with its head filled in; the caller writes at[].
 * Lifetime: until 1 << SPW_TRAIL_LOG2 more have been taken.
 * Thread:  owner. */
SPW_INLINE struct spw_trail_rec *spw_trail_next(struct spw_trail *trail, enum spw_trail_kind kind,
						uint8_t what, uint16_t flow, uint32_t seq)
{
	struct spw_trail_rec *rec = &trail->rec[trail->cnt++ & ((1u << SPW_TRAIL_LOG2) - 1)];

	rec->kind = (uint8_t)kind;
	rec->what = what;
	rec->flow = flow;
	rec->seq = seq;
	return rec;
}

/* Purpose: notes that the owner did not work from `from` to `to`.
 * Thread:  owner. */
SPW_INLINE void spw_trail_gap(struct spw_trail *trail, uint8_t what, uint64_t from, uint64_t to)
{
	struct spw_trail_rec *rec = spw_trail_next(trail, SPW_TRAIL_GAP, what, 0, 0);

	rec->at[0] = from;
	rec->at[1] = to;
}

/* Purpose: writes cnt trails to a file, which is replaced.
 * Shape:   names: as in struct spw_trail_head; longer ones are cut.
 * Thread:  any, when the owners have ended.
 * Errors:  those of spw_file_create; -EIO. With a text. */
int spw_trail_write(const struct spw_trail *const *trail, uint32_t cnt, const char *names,
		    const char *path);

#ifdef __cplusplus
}
#endif
#endif
