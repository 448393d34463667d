/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Slow objects: gathers what the window, the port, the executor and the recorder know about the way
 * of each, for obj/slow.c to judge. Called with every receipt (pipe_obj.c). One that was handed
 * over costs a translation of its NIC stamp and a count; what is below is for those that were slow
 * or are among the longest.
 *
 *   window      first and last frame, the close, the close of what came before it
 *   port        the poll that emptied it (struct spw_obj_turn)
 *   executor    the batch that was retired just now: the object's last one, or of an older object
 *   recorder    gaps of the loop
 */
#include "pipe/pipe_obj.h"

/* ---- facts ---- */

/* As late as the frame can have come: NIC stamps are ns on the CPU's clock, +- nic_unc_ns. */
static uint64_t obj_slow_nic_tsc(const struct spw_pipe *pipe, const struct spw_obj_receipt *r,
				 uint64_t nic_ns)
{
	return nic_ns ? spw_tsc_from_ns(&pipe->obj.tsc, nic_ns + r->nic_unc_ns) : 0;
}

/* Not later than the poll that brought it, however uncertain its stamp is: an object is slow only
 * by what is certain. */
static uint64_t obj_slow_since(const struct spw_pipe *pipe, const struct spw_obj_receipt *r)
{
	const uint64_t nic = obj_slow_nic_tsc(pipe, r, r->first_nic);

	return nic ? SPW_MIN(nic, r->open_tsc) : r->open_tsc;
}

/* Whether its last frame came is proved by a NIC stamp, or by an empty port; the latter only of a
 * complete object, which its last frame closed. */
static void obj_slow_arrival(const struct spw_pipe *pipe, const struct spw_obj_receipt *r,
			     const struct spw_obj_way *way, struct spw_obj_facts *facts)
{
	const bool complete = r->state == SPW_OBJ_STATE_complete;
	uint64_t came = obj_slow_nic_tsc(pipe, r, r->last_nic);

	if (!came && complete)
		came = way->empty_tsc;
	facts->came_known = came != 0;
	facts->edge[SPW_OBJ_PART_port] = came ? came : way->last_tsc;
	facts->edge[SPW_OBJ_PART_missing] = way->last_tsc;
	facts->edge[SPW_OBJ_PART_unseen] = complete ? 0 : way->empty_tsc;
	facts->edge[SPW_OBJ_PART_order] = r->close_tsc;
}

/* The batch whose retirement let the object go, its own last one unless it waited for an older
 * object. Its own execution is already a part of exec_busy. */
static void obj_slow_batch(const struct spw_pipe *pipe, struct spw_obj_facts *facts)
{
	const struct spw_gring_batch *b = pipe->obj.done;
	const unsigned int flags = pipe->turn_flags;
	uint64_t start;

	if (!b || !(flags & SPW_REC_ON))
		return;
	start = pipe_slow_to_tsc(flags, pipe, b->exec_start);
	facts->batch_known = true;
	facts->filled = b->fill;
	facts->edge[SPW_OBJ_PART_wait] = SPW_MIN(b->pushed_tsc, start);
	facts->edge[SPW_OBJ_PART_move] = start;
	facts->edge[SPW_OBJ_PART_reap] = pipe_slow_to_tsc(flags, pipe, b->exec_end);
	facts->ahead =
		pipe_slow_ahead(flags, pipe, b, pipe->exec_busy - (b->exec_end - b->exec_start));
}

/* The inline executor moves within the loop: there a lost core is the loop's, elsewhere the
 * executor does not feel it. */
static void obj_slow_gaps(const struct spw_pipe *pipe, bool nic_known, struct spw_obj_facts *facts)
{
	const uint64_t *edge = facts->edge;
	const uint64_t from = edge[SPW_OBJ_PART_port], to = edge[SPW_OBJ_PART_port + 1];
	const uint64_t known = spw_rec_gaps_since(&pipe->rec);

	for (unsigned int p = 0; p < SPW_OBJ_PART_CNT; p++)
		if (p != SPW_OBJ_PART_move || pipe->turn_flags & SPW_REC_INLINE)
			facts->away[p] = spw_rec_away(&pipe->rec, edge[p], edge[p + 1]);
	facts->port_unknown = nic_known ? SPW_MAX(SPW_MIN(known, to), from) - from : to - from;
}

/* ---- the account ---- */

/* The longest first. The list is full from the sixteenth on: then keep_tsc is its shortest. */
static void obj_slow_keep(struct spw_pipe_objects_slow *s, const struct spw_pipe_receipt *one)
{
	const uint64_t whole = spw_pipe_receipt_whole(one);
	uint32_t i;

	if (s->worst_cnt == SPW_PIPE_WORST_CNT && whole <= s->keep_tsc)
		return;
	s->worst_cnt += s->worst_cnt < SPW_PIPE_WORST_CNT;
	for (i = s->worst_cnt - 1; i > 0 && whole > spw_pipe_receipt_whole(&s->worst[i - 1]); i--)
		s->worst[i] = s->worst[i - 1];
	s->worst[i] = *one;
	if (s->worst_cnt == SPW_PIPE_WORST_CNT)
		s->keep_tsc = spw_pipe_receipt_whole(&s->worst[SPW_PIPE_WORST_CNT - 1]);
}

/* worst_tsc 0 is left where all were shed: those have no time. */
static void obj_slow_count(struct spw_pipe_objects_slow *s, enum spw_obj_slow cause, uint64_t whole)
{
	spw_thr_count(&s->objects[cause], 1);
	if (whole > s->worst_tsc[cause])
		s->worst_tsc[cause] = whole;
}

/* An object that is shed comes to nobody, so it is later than any; its receipt says why. */
static void obj_slow_shed(struct spw_pipe_objects_slow *s, enum spw_obj_cause cause)
{
	if (cause == SPW_OBJ_CAUSE_no_buffer || cause == SPW_OBJ_CAUSE_taken_back)
		obj_slow_count(s, SPW_OBJ_SLOW_consumer, 0);
	else if (cause == SPW_OBJ_CAUSE_executor || cause == SPW_OBJ_CAUSE_lost_place)
		obj_slow_count(s, SPW_OBJ_SLOW_batch_ahead, 0);
}

/* keep_tsc is 0 until the list is full, so the first sixteen are judged however short they took. */
bool pipe_obj_slow_wants(struct spw_pipe *pipe, const struct spw_obj_receipt *r)
{
	struct spw_pipe_objects_slow *s = &pipe->obj.slow;
	uint64_t whole;

	if (r->state == SPW_OBJ_STATE_shed)
		obj_slow_shed(s, (enum spw_obj_cause)r->cause);
	if (r->state > SPW_OBJ_STATE_partial)
		return false;
	whole = r->publish_tsc - obj_slow_since(pipe, r);
	spw_hist_record(&s->latency, whole, 1);
	return whole > SPW_MIN(s->keep_tsc, s->limit_tsc);
}

/* The edges first, all of them: gaps are laid over what lies between two that are in order. */
void pipe_obj_slow_judge(struct spw_pipe *pipe, const struct spw_obj_way *way,
			 struct spw_pipe_receipt *one)
{
	struct spw_pipe_objects_slow *s = &pipe->obj.slow;
	const struct spw_obj_receipt *r = &one->receipt;
	struct spw_obj_facts *facts = &one->facts;

	facts->edge[0] = obj_slow_since(pipe, r);
	facts->edge[SPW_OBJ_PART_CNT] = r->publish_tsc;
	facts->edge[SPW_OBJ_PART_push] = way->order_tsc;
	obj_slow_arrival(pipe, r, way, facts);
	obj_slow_batch(pipe, facts);
	spw_obj_slow_order(facts);
	obj_slow_gaps(pipe, r->last_nic != 0, facts);
	one->judged = true;
	one->why = spw_obj_slow_split(facts, one->ticks);
	one->slow = spw_pipe_receipt_whole(one) > s->limit_tsc;
	obj_slow_keep(s, one);
	if (!one->slow)
		return;
	obj_slow_count(s, one->why, spw_pipe_receipt_whole(one));
	for (unsigned int c = 0; c < SPW_OBJ_SLOW_CNT; c++)
		s->ticks[c] += one->ticks[c];
}
