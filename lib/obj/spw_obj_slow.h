/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Why an object was slow. Its whole time, from its first frame to its publication, is divided among
 * the causes, tick by tick, so that the parts sum to the whole; the cause with the largest part is
 * the object's. What no stamp proves is unexplained.
 *
 * since       came      placed     quiet      close      order      pushed    start   end publish
 *   ├─ arrive ──┼─ port ───┼─ missing ┼─ unseen ─┼─ order ──┼─ push ───┼─ wait ──┼─ move ┼─ reap ┤
 *
 *   part     until                              is divided in this order
 *   -------  ---------------------------------  -------------------------------------------
 *   arrive   its last frame came: its NIC       rest: sender; without a proof of arrival
 *            stamp, or the last empty poll      gaps, rest: unexplained
 *   port     that frame was placed              gaps, port_unknown, rest: port
 *   missing  the last empty poll before close   rest: missing
 *   unseen   it was closed                      gaps, rest: unexplained
 *   order    those before it were closed        gaps, rest: order
 *   push     its last batch was pushed          gaps, rest: batch_ahead if that had only
 *                                               fill moves, which wait for room alone
 *   wait     the executor began that batch      batches ahead, gaps, rest: exec_late
 *   move     the executor ended it              gaps (inline), rest: mover
 *   reap     the object was published           gaps, rest: reap_late
 *
 * The facts are gathered by pipe/pipe_obj_slow.c; docs/140-packet-to-tensor.md has the causes in
 * words. These know them by name, too: share/schema/common.json, CAUSES and PARTS in
 * tools/lib/spwreport/objects.py.
 */
#ifndef SPW_OBJ_SLOW_H
#define SPW_OBJ_SLOW_H

#include "base/spw_enum.h"
#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* name, meaning */
#define SPW_OBJ_SLOW_LIST(X, P)                                                                   \
	X(P, sender, "its frames came that far apart")                                            \
	X(P, missing, "it waited for frames that had not come when it was closed")                \
	X(P, port, "its last frame waited in the port while the loop kept polling")               \
	X(P, poll_gap, "the loop did not run: it lost its core, or a call to the port was long")  \
	X(P, order, "an older object was open, and objects are handed over in order")             \
	X(P, batch_ahead, "the executor was busy with batches before it, or its ring full")       \
	X(P, exec_late, "the executor was free, but started late")                                \
	X(P, mover, "the executor moved or filled its bytes")                                     \
	X(P, reap_late, "moved, but the loop had not looked, or an earlier batch was unfinished") \
	X(P, consumer, "consumers held the buffers: it was shed, or taken back unread")           \
	X(P, unexplained, "no stamp says where the time went")

enum spw_obj_slow { SPW_ENUM(SPW_OBJ_SLOW) };

/* name, meaning */
#define SPW_OBJ_PART_LIST(X, P)                                           \
	X(P, arrive, "first frame to last frame")                         \
	X(P, port, "last frame to placed")                                \
	X(P, missing, "placed to the last poll that left the port empty") \
	X(P, unseen, "that poll to closed")                               \
	X(P, order, "closed to all before it closed")                     \
	X(P, push, "to the last batch for it pushed")                     \
	X(P, wait, "pushed to executor start")                            \
	X(P, move, "executor start to end")                               \
	X(P, reap, "executor end to published")

enum spw_obj_part { SPW_ENUM(SPW_OBJ_PART) };

/* What is known about one object, in ticks. edge[p] begins part p, and the last ends the whole;
 * they do not fall (spw_obj_slow_order). */
struct spw_obj_facts {
	uint64_t edge[SPW_OBJ_PART_CNT + 1];
	uint64_t away[SPW_OBJ_PART_CNT]; /* of each part: gaps of the loop */
	uint64_t ahead;                  /* of wait: earlier batches were being executed */
	/* Of port: before the oldest gap that is known; all of it where no NIC stamp says that the
	 * frame was there. */
	uint64_t port_unknown;
	bool came_known;  /* edge[port] has a proof */
	bool batch_known; /* push to move have stamps */
	bool filled;      /* the last batch had fill moves only */
};

/* Purpose: puts edges in order: one that is 0, for unknown, or earlier than the one before it is
 *          moved there, one that is later than the last edge is moved to that.
 * Thread:  any. */
void spw_obj_slow_order(struct spw_obj_facts *facts);

/* Purpose: divides one part among the causes, adding to ticks. Pure. Thread: any. */
void spw_obj_slow_split_part(const struct spw_obj_facts *facts, enum spw_obj_part part,
			     uint64_t ticks[SPW_OBJ_SLOW_CNT]);

/* Purpose: divides the whole among the causes. Pure.
 * Shape:   edges in order; ticks_out[] sums to the last edge minus the first.
 * Returns: the cause with the most ticks; the first of equals.
 * Thread:  any. */
enum spw_obj_slow spw_obj_slow_split(const struct spw_obj_facts *facts,
				     uint64_t ticks_out[SPW_OBJ_SLOW_CNT]);

/* Purpose: the name as it is printed, and its meaning in one clause. Shape: cause below
 * SPW_OBJ_SLOW_CNT. Thread: any. */
const char *spw_obj_slow_name(enum spw_obj_slow cause);
const char *spw_obj_slow_text(enum spw_obj_slow cause);

#ifdef __cplusplus
}
#endif
#endif
