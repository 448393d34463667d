/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A stream's objects, as their owner lcore keeps them: which object a frame belongs to and where,
 * what is a duplicate, late, shed, and when an object is closed, filled and published.
 *
 *   frame ─plan─> hit ─place─> fate, up to 15 moves ─push─> executor ─retire─> retired
 *                                │ first frame of an object: needs a free buffer, or it is shed
 *                                │ all bytes, end, deadline, newer: closed
 *                                └─> close: fill moves for what is missing ─push─> ...
 *   retired: no move into a closed object is under way any more ─> publish, with a receipt
 *
 * An object is never published by time alone: only once the executor has retired the last batch
 * with a move into it. Its buffer is used again only once consumers have released it.
 *
 *   FREE ─first frame─> open ─close─> closing ─retired─> READY ─take─> TAKEN ─release─> FREE
 *                        │  bitmap of granules: a granule is claimed before it is moved, the first
 *                        │  claim wins, later ones are duplicates
 *                        └ shed: no buffer, one receipt, no work for the executor
 *
 * Keys. A counter of key_bits is unwrapped to 64 bits beside the highest one seen: half its range
 * is ahead, half behind. With a label only equal and modular order count. Behind everything that is
 * open, or closed already: late. With so few bits that an old object and a new one look alike
 * within the window, frames are `ambiguous` and placed nowhere. Far ahead twice in a row: the
 * sender restarted; what is open closes as `restart`.
 *
 * Threads: "owner" is the lcore; "setup" before its start and after its end; "any" samples.
 */
#ifndef SPW_OBJ_H
#define SPW_OBJ_H

#include "base/spw_enum.h"
#include "base/spw_types.h"
#include "frame/spw_desc.h"
#include "frame/spw_move.h"
#include "obj/spw_obj_page.h"
#include "obj/spw_obj_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What became of a frame; the frames of all fates are those that the lane pushed. name, meaning */
#define SPW_OBJ_FATE_LIST(X, P)                                            \
	X(P, placed, "all or part of its payload went into an object")     \
	X(P, duplicate, "all of its payload was there already")            \
	X(P, late, "its object is closed")                                 \
	X(P, shed, "its object is shed")                                   \
	X(P, ambiguous, "its key may be an old object's or a new one's")   \
	X(P, not_object, "no frame of this stream: a guard does not hold") \
	X(P, cut, "it ends before a field or the payload that it claims")  \
	X(P, beyond, "its payload would lie outside the object")

enum spw_obj_fate { SPW_ENUM(SPW_OBJ_FATE) };

struct spw_obj_conf {
	const struct spw_obj_desc *desc; /* copied */
	struct spw_obj_page *page;       /* made by spw_obj_page_init; outlives the stream */
	uint32_t region;                 /* id of the region that holds the objects */
	uint64_t region_offset;          /* of buffer 0 */
	uint64_t tsc_hz;
};

/* The owner's counters; sampled by others. */
struct spw_obj_count {
	uint64_t frames[SPW_OBJ_FATE_CNT];
	uint64_t objects[SPW_OBJ_STATE_CNT];
	uint64_t causes[SPW_OBJ_CAUSE_CNT];
	uint64_t opened;     /* objects that got a buffer */
	uint64_t published;  /* complete and partial */
	uint64_t taken_back; /* published, unread, and shed for a newer one */
	uint64_t restarts;
	uint64_t bytes_present; /* summed over receipts */
	uint64_t bytes_missing;
};

/* Called for every receipt when it is final: published, shed or aborted. Thread: owner; it must not
 * wait (lib/pipe writes it into a ring for the control thread). */
typedef void spw_obj_receipt_fn(void *arg, const struct spw_obj_receipt *receipt);

struct spw_obj; /* opaque */

/* Purpose: fills in a fresh page for the description.
 * Shape:   bytes: spw_obj_page_bytes(desc->rule.buffers), zeroed.
 * Thread:  setup. */
void spw_obj_page_init(struct spw_obj_page *page, const struct spw_obj_desc *desc,
		       uint64_t buffer_stride, uint64_t tsc_hz);

/* Purpose: allocates a stream's window.
 * Owner:   the caller, until spw_obj_close.
 * Errors:  -EINVAL, -ENOMEM with a text.
 * Thread:  setup. */
int spw_obj_open(const struct spw_obj_conf *conf, spw_obj_receipt_fn *receipt, void *arg,
		 struct spw_obj **obj_out);
void spw_obj_close(struct spw_obj *obj);

/* Purpose: decides about one frame.
 * Shape:   frame[0 .. len) readable by the CPU; move_out has room for SPW_MOVE_FRAME_MAX.
 *          seq: the batch that will carry the moves. now: since open, monotonic. nic_ns: the
 *          frame's NIC stamp on the CPU's clock in ns, 0: none.
 * Returns: the fate; *cnt_out moves were written. A frame that closes objects (its own, or older
 *          ones that made room) leaves their fill moves to spw_obj_due.
 * Thread:  owner. No wait, lock, allocation or system call. */
enum spw_obj_fate spw_obj_frame(struct spw_obj *obj, const uint8_t *frame, uint32_t len,
				uint64_t nic_ns, uint64_t now_tsc, uint64_t seq,
				struct spw_move *move_out, uint32_t *cnt_out);

/* Purpose: frames that may be of this stream were dropped before anybody looked at them (the
 *          executor's ring was full): objects that were open then and end with bytes missing get
 *          the cause lost_place.
 * Thread:  owner. */
void spw_obj_spilled(struct spw_obj *obj, uint32_t frames);

/* Purpose: the push cut batch seq into several, up to last_seq (spw_gring_push): objects with a
 *          move in it wait for all of them.
 * Thread:  owner, right after that push; not needed for one that was not cut. */
void spw_obj_cut(struct spw_obj *obj, uint64_t seq, uint64_t last_seq);

/* Purpose: closes what is due (deadlines), and writes fill moves of closed objects.
 * Shape:   move_out[max]; seq: the batch that will carry them.
 * Returns: moves written; call it again while it is max.
 * Thread:  owner, once a turn; costs one comparison when nothing is due. */
uint32_t spw_obj_due(struct spw_obj *obj, uint64_t now_tsc, uint64_t seq, struct spw_move *move_out,
		     uint32_t max);

/* Purpose: publishes closed objects whose moves are all in batches before retired_seq.
 * Thread:  owner, after it has retired batches. */
void spw_obj_retired(struct spw_obj *obj, uint64_t retired_seq, uint64_t now_tsc);

/* Purpose: whether spw_obj_due or spw_obj_retired have anything to do at now_tsc.
 * Thread:  owner. */
bool spw_obj_pending(const struct spw_obj *obj, uint64_t now_tsc);

/* Purpose: closes everything that is open, cause stop; then spw_obj_due and spw_obj_retired as
 *          long as spw_obj_pending.
 * Thread:  owner, at the end. */
void spw_obj_stop(struct spw_obj *obj);

/* Purpose: samples the counters. Thread: any; exact after the owner's end. */
void spw_obj_stat(const struct spw_obj *obj, struct spw_obj_count *count_out);

#ifdef __cplusplus
}
#endif
#endif
