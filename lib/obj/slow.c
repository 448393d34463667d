/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The judgement of a slow object (spw_obj_slow.h has the table): each part's ticks go to causes in
 * turn, each limited to what is left, so that causes sum to the part. Pure.
 */
#include <string.h>

#include "obj/spw_obj_slow.h"

static const struct spw_enum_word slow_word[] = {SPW_ENUM_WORDS(SPW_OBJ_SLOW)};

const char *spw_obj_slow_name(enum spw_obj_slow cause)
{
	return SPW_ENUM_NAME(slow_word, cause);
}

const char *spw_obj_slow_text(enum spw_obj_slow cause)
{
	return SPW_ENUM_TEXT(slow_word, cause);
}

/* Stamps come from several clocks, and some are missing: a part whose stamps contradict has no
 * time, and its neighbours get it. */
void spw_obj_slow_order(struct spw_obj_facts *facts)
{
	uint64_t *edge = facts->edge;

	for (unsigned int p = 1; p < SPW_OBJ_PART_CNT; p++)
		edge[p] = SPW_MIN(SPW_MAX(edge[p], edge[p - 1]), edge[SPW_OBJ_PART_CNT]);
}

/* What follows from where the time was spent, once gaps of the loop are taken off. */
static enum spw_obj_slow slow_rest(const struct spw_obj_facts *facts, enum spw_obj_part part)
{
	switch (part) {
	case SPW_OBJ_PART_arrive:
		return facts->came_known ? SPW_OBJ_SLOW_sender : SPW_OBJ_SLOW_unexplained;
	case SPW_OBJ_PART_missing:
		return SPW_OBJ_SLOW_missing;
	case SPW_OBJ_PART_port:
		return SPW_OBJ_SLOW_port;
	case SPW_OBJ_PART_unseen:
		return SPW_OBJ_SLOW_unexplained;
	case SPW_OBJ_PART_order:
		return SPW_OBJ_SLOW_order;
	case SPW_OBJ_PART_push:
		return facts->filled ? SPW_OBJ_SLOW_batch_ahead : SPW_OBJ_SLOW_unexplained;
	case SPW_OBJ_PART_wait:
		return SPW_OBJ_SLOW_exec_late;
	case SPW_OBJ_PART_move:
		return SPW_OBJ_SLOW_mover;
	default: /* reap */
		return facts->batch_known ? SPW_OBJ_SLOW_reap_late : SPW_OBJ_SLOW_unexplained;
	}
}

/* Whether a gap of the loop can have delayed the object there. What the NIC or an empty port proves
 * to have been elsewhere waited for no loop. */
static bool slow_feels_gaps(const struct spw_obj_facts *facts, enum spw_obj_part part)
{
	return part != SPW_OBJ_PART_missing && (part != SPW_OBJ_PART_arrive || !facts->came_known);
}

/* Charges up to `want` of what is left to a cause. Returns: what is left then. */
static uint64_t slow_charge(uint64_t *ticks, enum spw_obj_slow cause, uint64_t want, uint64_t left)
{
	const uint64_t n = SPW_MIN(want, left);

	ticks[cause] += n;
	return left - n;
}

/* What is certain comes first: work queued before, then gaps of the loop, then what is known to be
 * unknown; the rest is inferred from where the object was. */
void spw_obj_slow_split_part(const struct spw_obj_facts *facts, enum spw_obj_part part,
			     uint64_t ticks[SPW_OBJ_SLOW_CNT])
{
	uint64_t left = facts->edge[part + 1] - facts->edge[part];

	if (part == SPW_OBJ_PART_wait)
		left = slow_charge(ticks, SPW_OBJ_SLOW_batch_ahead, facts->ahead, left);
	if (slow_feels_gaps(facts, part))
		left = slow_charge(ticks, SPW_OBJ_SLOW_poll_gap, facts->away[part], left);
	if (part == SPW_OBJ_PART_port)
		left = slow_charge(ticks, SPW_OBJ_SLOW_unexplained, facts->port_unknown, left);
	slow_charge(ticks, slow_rest(facts, part), left, left);
}

/* `unexplained` is the last in the list, so that of equals a cause with a proof is named. */
enum spw_obj_slow spw_obj_slow_split(const struct spw_obj_facts *facts,
				     uint64_t ticks_out[SPW_OBJ_SLOW_CNT])
{
	unsigned int most = 0;

	memset(ticks_out, 0, SPW_OBJ_SLOW_CNT * sizeof(*ticks_out));
	for (unsigned int p = 0; p < SPW_OBJ_PART_CNT; p++)
		spw_obj_slow_split_part(facts, (enum spw_obj_part)p, ticks_out);
	for (unsigned int c = 1; c < SPW_OBJ_SLOW_CNT; c++)
		most = ticks_out[c] > ticks_out[most] ? c : most;
	return (enum spw_obj_slow)most;
}
