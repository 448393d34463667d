/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A stream's objects, as their owner lcore keeps them: which object a frame belongs to and where,
 * what is a duplicate, late, shed, and when an object is closed, filled and published.
 *
 *   frame ─plan─> hit ─place─> fate, up to 14 moves ─push─> executor ─retire─> retired
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
 *                        ├ shed: no buffer, one receipt, no work for the executor
 *                        └ shed: a frame of it finds no room in the executor; nobody gets a part
 *
 * Keys. A key of key_bits is unwrapped to 64 bits beside the highest one seen: half its range is
 * ahead, half behind. The window holds the open_max highest keys, open or closed; what is behind
 * them, or closed already, is late. Far is more than a quarter of the range, or more than 2^20
 * objects of a counter:
 *
 *        ambiguous │     late     │ open_max newest │       new       │ ambiguous
 *   ───────────────┼──────────────┼─────────────────┼─────────────────┼──────────────► keys
 *                -far                             highest           +far
 *
 * A frame that is far is placed nowhere, unless the one before it was there too: then the sender
 * began again, and what is open closes as `restart`. After a silence of twice the deadline, at
 * least 100 ms, the first frame is believed.
 *
 * Objects are published in the order of their keys, except one whose first frame came after a newer
 * object was published.
 *
 * Threads: "owner" is the lcore; "setup" before its start and after its end; "any" samples.
 */
#ifndef SPW_OBJ_H
#define SPW_OBJ_H

#include "base/spw_enum.h"
#include "base/spw_types.h"
#include "frame/spw_move.h"
#include "obj/spw_obj_page.h"
#include "obj/spw_obj_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_OBJ_OPEN_MAX 64u /* objects being filled at once, at most */
/* Moves of one frame, at most: one less than a descriptor can have, which `head` may need. */
#define SPW_OBJ_MOVE_MAX (SPW_MOVE_FRAME_MAX - 1)

/* What became of a frame; the frames of all fates are those that the lane pushed. name, meaning */
#define SPW_OBJ_FATE_LIST(X, P)                                                        \
	X(P, placed, "all or part of its payload went into an object, or it has none") \
	X(P, duplicate, "all of its payload was there already")                        \
	X(P, late, "its object is closed")                                             \
	X(P, shed, "its object is shed")                                               \
	X(P, ambiguous, "its key may be an old object's or a new one's")               \
	X(P, not_object, "no frame of this stream: a guard does not hold")             \
	X(P, cut, "it ends before a field, the payload that it claims or a granule")   \
	X(P, beyond, "its payload would lie outside the object")

enum spw_obj_fate { SPW_ENUM(SPW_OBJ_FATE) };

/* What was decided about a frame; in a register. */
struct spw_obj_placed {
	enum spw_obj_fate fate;
	uint32_t move_cnt;
};

struct spw_obj_conf {
	const struct spw_obj_desc *desc; /* copied */
	struct spw_obj_page *page;       /* made by spw_obj_page_init; outlives the stream */
	uint32_t region;                 /* id of the region that holds the objects */
	uint64_t region_offset;          /* of buffer 0, a multiple of 256 */
	uint64_t tsc_hz;
};

/* What is the same for all frames of a batch. */
struct spw_obj_turn {
	uint64_t now_tsc;    /* monotonic */
	uint64_t seq;        /* of the batch that will carry the moves */
	uint32_t busy;       /* frames that the executor has, or that wait for it */
	uint32_t room;       /* as many there can be; 0: it takes no frame of this batch */
	uint32_t nic_unc_ns; /* uncertainty of the frames' NIC stamps */
	/* The last poll, before the one that brought the frames, that left the port empty: they
	 * came later. 0: not known. */
	uint64_t empty_tsc;
};

/* The owner's counters; sampled by others. */
struct spw_obj_count {
	uint64_t frames[SPW_OBJ_FATE_CNT];
	uint64_t objects[SPW_OBJ_STATE_CNT]; /* that ended so; taken_back is apart */
	uint64_t causes[SPW_OBJ_CAUSE_CNT];
	uint64_t opened;     /* objects that got a buffer */
	uint64_t published;  /* complete and partial */
	uint64_t taken_back; /* published, unread, and taken back for a newer one */
	uint64_t unseen;     /* objects of a counter of which no frame came, between others */
	uint64_t restarts;
	uint64_t bytes_present; /* summed over receipts */
	uint64_t bytes_missing;
};

/* What the owner knows of an object's way beside the receipt, ticks; 0: not known. */
struct spw_obj_way {
	uint64_t last_tsc;    /* its last frame was placed */
	uint64_t empty_tsc;   /* struct spw_obj_turn's, when it was closed */
	uint64_t order_tsc;   /* all objects that were handed over before it were closed */
	uint64_t release_tsc; /* a consumer gave it back; 0: for one that ended holding it */
	bool released;        /* this is about its release */
};

/* Called for every receipt when it is final: published, shed or aborted. Once more for an object
 * that is taken back: with state shed and no counts, since its first receipt has them. Once more,
 * way->released, with id, generation and publish_tsc alone, when the buffer of an object that
 * consumers have released is used again, or by spw_obj_stop.
 * Thread: owner; it must not wait. */
typedef void spw_obj_receipt_fn(void *arg, const struct spw_obj_receipt *receipt,
				const struct spw_obj_way *way);

struct spw_obj; /* opaque */

/* Purpose: allocates a stream's window.
 * Owner:   the caller, until spw_obj_close.
 * Errors:  -EINVAL, -ENOMEM with a text.
 * Thread:  setup. */
int spw_obj_open(const struct spw_obj_conf *conf, spw_obj_receipt_fn *receipt, void *arg,
		 struct spw_obj **obj_out);

/* Purpose: ends the stream. What spw_obj_stop did not bring to an end, because the executor retired
 *          no more, is aborted. The page gets `ended`; consumers may still take what is READY.
 * Shape:   NULL has no effect.
 * Thread:  setup. */
void spw_obj_close(struct spw_obj *obj);

/* Purpose: begins a batch: what the next calls of spw_obj_frame and spw_obj_due share.
 * Thread:  owner. */
void spw_obj_turn(struct spw_obj *obj, const struct spw_obj_turn *turn);

/* Purpose: decides about one frame.
 * Shape:   frame[0 .. head) readable by the CPU, of a frame of len bytes; head up to len, and less
 *          of one that is split. move_out has room for SPW_OBJ_MOVE_MAX. nic_ns: the frame's NIC
 *          stamp on the CPU's clock in ns, 0: none.
 * Returns: the fate, and how many moves were written. A frame that closes objects (its own, or
 * older ones that made room) leaves their fill moves to spw_obj_due. Thread:  owner. No wait, lock,
 * allocation, division or system call. The first frame of an object clears a bit for each granule
 * of it, and looks at each buffer if none is free. */
struct spw_obj_placed spw_obj_frame(struct spw_obj *obj, const uint8_t *frame, uint32_t head,
				    uint32_t len, uint64_t nic_ns, struct spw_move *move_out);

/* Purpose: the push cut batch seq into several, up to last_seq (spw_gring_push): objects with a
 *          move in it wait for all of them.
 * Thread:  owner, right after that push; not needed for one that was not cut. */
void spw_obj_cut(struct spw_obj *obj, uint64_t seq, uint64_t last_seq);

/* Purpose: closes what is due (deadlines), and writes fill moves of closed objects.
 * Shape:   move_out[max]; they travel with the batch of the last spw_obj_turn.
 * Returns: moves written; call it again while it is max.
 * Thread:  owner, once a turn; costs two comparisons when nothing is due. */
uint32_t spw_obj_due(struct spw_obj *obj, struct spw_move *move_out, uint32_t max);

/* Purpose: publishes closed objects whose moves are all in batches before retired_seq.
 * Order:   OB1 and OB3 release, partners in spw_obj_take.
 * Thread:  owner, after it has retired batches. */
void spw_obj_retired(struct spw_obj *obj, uint64_t retired_seq, uint64_t now_tsc);

/* Purpose: whether a deadline is over at now_tsc, or a closed object is not published yet.
 * Thread:  owner. */
bool spw_obj_pending(const struct spw_obj *obj, uint64_t now_tsc);

/* Purpose: closes everything that is open, cause stop; then spw_obj_due and spw_obj_retired as
 *          long as spw_obj_pending. Reports what has been released by then.
 * Thread:  owner, at the end. */
void spw_obj_stop(struct spw_obj *obj);

/* Purpose: the page's pulse: consumers see that the owner lives.
 * Thread:  owner, from housekeeping. */
void spw_obj_beat(struct spw_obj *obj);

/* Purpose: samples the counters. Thread: any; exact after the owner's end. */
void spw_obj_stat(const struct spw_obj *obj, struct spw_obj_count *count_out);

#ifdef __cplusplus
}
#endif
#endif
