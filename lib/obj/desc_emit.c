/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * From what a description says to the steps of its plan (plan.h), in the order of a run:
 *
 *   parts of the header, each with its guards > items > packet > key > size > end > info
 *   > payload > length > piece, or the segments one after the other
 *
 * Offsets that are constant are added up here (`pending`) and cost nothing in a run. What no frame
 * could fulfil is refused here.
 */
#include <errno.h>

#include "base/spw_err.h"
#include "obj/desc_emit.h"

/* ---- steps ---- */

/* Never fails: a plan that is too long goes on to be counted, so that callers need no error path
 * and desc_emit can report how long it would have been. */
struct spw_obj_step *desc_step_emit(struct emit *e, enum plan_op op)
{
	uint32_t idx = e->plan->step_cnt++;
	struct spw_obj_step *step = idx < SPW_OBJ_PLAN_STEP_MAX ? &e->plan->step[idx] : &e->spill;

	*step = (struct spw_obj_step){.op = (uint8_t)op};
	return step;
}

/* Steps that skip to a place which is not known yet: bit i is step i. */
struct jumps {
	uint64_t word[SPW_OBJ_PLAN_STEP_MAX / 64];
};

static void unless_emit(struct emit *e, const struct desc_when *when, struct jumps *jumps)
{
	for (uint32_t i = 0; i < when->cnt; i++) {
		const struct desc_test *test = &when->test[i];
		uint32_t idx = e->plan->step_cnt;
		struct spw_obj_step *step =
			desc_step_emit(e, test->set ? PLAN_OP_unless_in : PLAN_OP_unless_is);

		step->reg = e->b->field[test->field].reg;
		step->b = test->value;
		if (idx < SPW_OBJ_PLAN_STEP_MAX)
			jumps->word[idx / 64] |= 1ull << (idx % 64);
	}
}

/* The next step is the place. `off` counts the steps between: the run itself adds one to each. */
static void jumps_land(struct emit *e, const struct jumps *jumps)
{
	for (uint32_t i = 0; i < SPW_OBJ_PLAN_STEP_MAX; i++)
		if (jumps->word[i / 64] >> (i % 64) & 1)
			e->plan->step[i].off = e->plan->step_cnt - i - 1;
}

/* ---- the header ---- */

static void test_emit(struct emit *e, const struct desc_field *field)
{
	struct spw_obj_step *step =
		desc_step_emit(e, field->guard.set ? PLAN_OP_test_in : PLAN_OP_test_is);

	step->reg = field->reg;
	step->b = field->guard.value;
}

/* Nothing but a guard of one value, big-endian. */
static bool field_is_guard(const struct desc_field *field)
{
	return field->guarded && !field->reg && !field->guard.set && !field->little;
}

/* A guard is tested with its load where nothing else needs the field. `word`: the field whose word
 * the last load has read; NULL: unknown. */
static void field_emit(struct emit *e, const struct desc_field *field,
		       const struct desc_field **word)
{
	bool same = *word && !field->little && field->off - (*word)->off + field->need <= 8;
	uint32_t ahead = same ? field->off - (*word)->off : 0;
	struct spw_obj_step *step;

	if (field->little)
		step = desc_step_emit(e, PLAN_OP_load_little);
	else if (field->reg)
		step = desc_step_emit(e, same ? PLAN_OP_same : PLAN_OP_load);
	else
		step = desc_step_emit(e, same ? PLAN_OP_same_is : PLAN_OP_load_is);
	step->off = same ? 0 : e->pending + field->off;
	step->shift = (uint8_t)(field->shift - 8 * ahead);
	step->need = (uint8_t)(field->need + ahead);
	step->reg = field->reg;
	step->a = UINT64_MAX >> (64 - field->bits);
	step->b = field->guard.value;
	if (field->guarded && (field->reg || field->little))
		test_emit(e, field);
	if (field->little)
		*word = NULL;
	else if (field->reg && !same)
		*word = field;
}

/* Guards that stand within 8 bytes, from field `first` on, are matched at once; the step that does
 * it skips their own steps. Another field that is loaded between them ends the group. Returns: how
 * many are. */
static uint32_t guards_emit(struct emit *e, uint32_t part, uint32_t first)
{
	const struct desc_field *base = &e->b->field[first];
	struct spw_obj_step match = {.off = e->pending + base->off, .op = PLAN_OP_match};

	for (uint32_t i = first; i < e->b->field_cnt && e->b->field[i].part == part; i++) {
		const struct desc_field *field = &e->b->field[i];
		uint32_t ahead = field->off - base->off;

		if (!field->reg && !field->guarded)
			continue;
		if (!field_is_guard(field) || ahead + field->need > 8)
			break;
		match.a |= UINT64_MAX >> (64 - field->bits) << (field->shift - 8 * ahead);
		match.b |= field->guard.value << (field->shift - 8 * ahead);
		match.need = (uint8_t)(ahead + field->need);
		match.shift++;
	}
	if (match.shift == 1)
		return 0;
	*desc_step_emit(e, PLAN_OP_match) = match;
	return match.shift;
}

static void fields_emit(struct emit *e, uint32_t part)
{
	const struct desc_field *word = NULL, *none = NULL;
	uint32_t grouped = 0;

	for (uint32_t i = 0; i < e->b->field_cnt; i++) {
		const struct desc_field *field = &e->b->field[i];

		if (field->part != part || (!field->reg && !field->guarded))
			continue;
		if (!grouped && field_is_guard(field))
			grouped = guards_emit(e, part, i);
		field_emit(e, field, grouped ? &none : &word);
		grouped -= grouped > 0;
	}
}

static const struct desc_field *part_field(const struct desc_build *b, uint32_t part, uint32_t reg)
{
	for (uint32_t i = 0; i < b->field_cnt; i++)
		if (b->field[i].part == part && b->field[i].reg == reg)
			return &b->field[i];
	return NULL;
}

/* Whether only frames with this part, which is not in all of them, say the size: a leader. */
static bool part_says_size(const struct desc_build *b, uint32_t part)
{
	bool says = b->size.cnt && b->part[part].when.cnt;

	for (uint32_t i = 0; i < b->size.cnt; i++) {
		const struct desc_term *term = &b->size.term[i];

		says &= part_field(b, part, term->reg) != NULL;
		for (uint32_t k = 0; k < term->by_cnt; k++)
			says &= part_field(b, part, term->by[k]) != NULL;
	}
	return says;
}

static uint32_t sum_uses(const struct desc_sum *sum, enum plan_reg reg)
{
	uint32_t uses = 0;

	for (uint32_t i = 0; i < sum->cnt; i++) {
		uses += sum->term[i].reg == reg;
		for (uint32_t k = 0; k < sum->term[i].by_cnt; k++)
			uses += sum->term[i].by[k] == reg;
	}
	return uses;
}

/* Whether a part has this field, and steps behind the part need it. */
static bool part_leaves(const struct desc_build *b, uint32_t part, uint32_t reg)
{
	const struct desc_field *field = part_field(b, part, reg);
	uint32_t uses = 0;

	if (field)
		uses = sum_uses(&b->part[part].bytes, reg) +
		       (part_says_size(b, part) ? sum_uses(&b->size, reg) : 0);
	return field && field->use_cnt > uses;
}

/* Fields of a part that is not there are 0: a step for each row of registers. */
static void zeros_emit(struct emit *e, uint32_t part)
{
	for (uint32_t reg = PLAN_REG_FIELD; reg < PLAN_REG_CNT; reg++) {
		struct spw_obj_step *step;

		if (!part_leaves(e->b, part, reg))
			continue;
		step = desc_step_emit(e, PLAN_OP_zero);
		step->reg = (uint8_t)reg;
		while (part_leaves(e->b, part, reg + 1))
			reg++;
		step->off = reg + 1 - step->reg;
	}
}

static bool some_part_says_size(const struct desc_build *b)
{
	for (uint32_t i = 0; i < b->part_cnt; i++)
		if (part_says_size(b, i))
			return true;
	return false;
}

/* A plain field is added by the step itself. */
static int size_emit(struct emit *e)
{
	bool plain = desc_sum_is_plain(&e->b->size);
	int rc = plain ? 0 : desc_sum_emit(e, &e->b->size, PLAN_REG_HEADER);

	desc_step_emit(e, PLAN_OP_size)->reg = plain ? (uint8_t)e->b->size.term[0].reg
						     : PLAN_REG_ZERO;
	return rc;
}

/* The offsets of what follows a part:
 *
 *   always there   e->pending grows        added to the `off` of later steps, free in a run
 *   conditional    a skip of its own       jumped over with the fields if the part is absent
 *
 * `bytes` moves `at` either way; the two kinds of offset simply add up, in any order.
 */
static int part_emit(struct emit *e, uint32_t idx)
{
	const struct desc_part *part = &e->b->part[idx];
	struct jumps jumps = {{0}};
	int rc = 0;

	if (part->when.cnt)
		zeros_emit(e, idx);
	unless_emit(e, &part->when, &jumps);
	fields_emit(e, idx);
	if (part_says_size(e->b, idx))
		rc = size_emit(e);
	if (rc == 0 && part->bytes.cnt) {
		rc = desc_sum_emit(e, &part->bytes, PLAN_REG_HEADER);
		desc_step_emit(e, PLAN_OP_skip_sum);
	}
	if (part->when.cnt && part->bits)
		desc_step_emit(e, PLAN_OP_skip)->off = part->bits / 8;
	else
		e->pending += part->bits / 8;
	jumps_land(e, &jumps);
	return rc;
}

static void items_emit(struct emit *e)
{
	const struct desc_items *items = &e->b->items;
	struct spw_obj_step *step = desc_step_emit(e, PLAN_OP_items);

	step->off = e->pending;
	step->reg = e->b->field[items->count - 1].reg;
	step->shift = (uint8_t)items->value_bits;
	step->a = UINT64_MAX >> (64 - items->value_bits);
	step = desc_step_emit(e, PLAN_OP_ids); /* data of the step before: 8 ids do not fit one */
	step->reg = e->b->field[items->field].reg;
	step->need = (uint8_t)items->field_cnt;
	step->off = items->id_cnt;
	for (uint32_t i = 0; i < items->id_cnt; i++)
		*(i < 4 ? &step->a : &step->b) |= (uint64_t)items->id[i] << (16 * (i % 4));
	for (uint32_t i = 0; i < items->field_cnt; i++)
		if (e->b->field[items->field + i].guarded)
			test_emit(e, &e->b->field[items->field + i]);
}

/* The header of segments is the last part and is left out: it is emitted once for each segment. The
 * bound follows the fields that it is computed from and precedes the payload, which it ends. */
static int header_emit(struct emit *e)
{
	uint32_t parts = e->b->part_cnt - (e->b->segments.part ? 1 : 0);
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < parts; i++)
		rc = part_emit(e, i);
	if (rc == 0 && e->b->items.field_cnt)
		items_emit(e);
	if (rc == 0 && e->b->packet.cnt) {
		rc = desc_sum_emit(e, &e->b->packet, PLAN_REG_HEADER);
		desc_step_emit(e, PLAN_OP_bound);
	}
	return rc;
}

/* ---- the payload ---- */

/* Registers below this have a value when the payload begins. */
static enum plan_reg payload_known(const struct desc_build *b)
{
	return b->label_cnt ? PLAN_REG_PART : PLAN_REG_FIELD;
}

/* `info` ends the run, so the size and the mark of the end come first: a trailer without payload
 * may carry both. */
static int flags_emit(struct emit *e)
{
	struct jumps end = {{0}}, info = {{0}};
	int rc = 0;

	if (e->b->size.cnt && !some_part_says_size(e->b))
		rc = size_emit(e);
	if (e->b->end.cnt) {
		unless_emit(e, &e->b->end, &end);
		desc_step_emit(e, PLAN_OP_end);
		jumps_land(e, &end);
	}
	if (e->b->info.cnt) {
		unless_emit(e, &e->b->info, &info);
		desc_step_emit(e, PLAN_OP_info);
		jumps_land(e, &info);
	}
	return rc;
}

/* Whether a frame may break a granule: where its place or its length is not made of them. */
static bool piece_is_loose(const struct desc_build *b, uint64_t fixed, const struct desc_sum *place)
{
	uint64_t granule = b->desc->plan.granule;

	return !fixed || fixed % granule || desc_place_granule(place) % granule;
}

/* zero: the length, where the sum comes out as 0. A plain field is added by the step itself. */
static int length_emit(struct emit *e, const struct desc_sum *sum, uint64_t zero)
{
	bool plain = desc_sum_is_plain(sum);
	int rc = plain ? 0 : desc_sum_emit(e, sum, payload_known(e->b));
	struct spw_obj_step *step = desc_step_emit(e, PLAN_OP_length);

	step->reg = plain ? (uint8_t)sum->term[0].reg : PLAN_REG_ZERO;
	step->a = zero;
	return rc;
}

/* Takes from a place one product of a field, and a number that is subtracted: the step of the piece
 * computes both itself. */
static void place_fold(struct desc_sum *place, struct spw_obj_step *step)
{
	for (uint32_t i = place->cnt; i-- > 0;) {
		const struct desc_term term = place->term[i];

		if (term.negative && term.reg == PLAN_REG_ONE && term.over == 1 && !term.by_cnt &&
		    term.times <= UINT32_MAX && !step->off) {
			step->off = (uint32_t)term.times;
		} else if (!term.negative && term.over == 1 && !term.by_cnt && !step->b) {
			step->reg = (uint8_t)term.reg;
			step->a = term.minus;
			step->b = term.times;
		} else {
			continue;
		}
		place->term[i] = place->term[--place->cnt];
	}
}

static int piece_emit(struct emit *e, uint64_t fixed)
{
	struct desc_sum place = e->b->place;
	struct spw_obj_step step = {.op = PLAN_OP_piece, .reg = PLAN_REG_ZERO};
	int rc = desc_sum_check(&place, payload_known(e->b));

	step.need = !piece_is_loose(e->b, fixed, &place) ? PLAN_PIECE_FITS
		    : some_part_says_size(e->b)          ? PLAN_PIECE_SHORT
							 : PLAN_PIECE_WHOLE;
	if (rc == 0 && e->b->bytes.cnt && !fixed)
		rc = length_emit(e, &e->b->bytes, 0);
	place_fold(&place, &step);
	if (rc == 0)
		rc = desc_sum_emit(e, &place, payload_known(e->b));
	*desc_step_emit(e, PLAN_OP_piece) = step;
	return rc;
}

static int segment_emit(struct emit *e)
{
	const struct desc_segments *s = &e->b->segments;
	uint32_t bytes = e->b->part[s->part - 1].bits / 8;
	struct spw_obj_step *step;
	int rc;

	fields_emit(e, s->part - 1);
	rc = length_emit(e, &s->bytes, s->zero);
	if (rc == 0)
		rc = desc_sum_emit(e, &s->place, payload_known(e->b));
	if (s->inline_data) {
		step = desc_step_emit(e, PLAN_OP_piece_inline);
		step->off = bytes;
		step->need = PLAN_PIECE_WHOLE;
		return rc;
	}
	step = desc_step_emit(e, PLAN_OP_piece_after);
	step->off = bytes;
	step->need = PLAN_PIECE_WHOLE;
	return rc;
}

/* Where no field says that another segment follows, what is left of the packet does. */
static void more_emit(struct emit *e, struct jumps *done)
{
	uint32_t idx = e->plan->step_cnt;

	if (e->b->segments.more.cnt) {
		unless_emit(e, &e->b->segments.more, done);
		return;
	}
	desc_step_emit(e, PLAN_OP_unless_more);
	if (idx < SPW_OBJ_PLAN_STEP_MAX)
		done->word[idx / 64] |= 1ull << (idx % 64);
}

/* A plan has no loops, so the steps of a segment are repeated `most` times:
 *
 *   [more?] segment 1, more? segment 2, ... more? refuse, done: spread
 *
 * Each `more?` that does not hold jumps to `done`. A frame with still more segments is refused as
 * a whole: a description whose `most` is too small shows in the counts of refused frames.
 */
static int segments_emit(struct emit *e)
{
	const struct desc_segments *s = &e->b->segments;
	struct jumps done = {{0}};
	int rc = 0;

	if (e->pending)
		desc_step_emit(e, PLAN_OP_skip)->off = e->pending;
	e->pending = 0;
	for (uint32_t i = 0; rc == 0 && i < s->most; i++) {
		if (i || !s->more.cnt)
			more_emit(e, &done);
		rc = segment_emit(e);
	}
	more_emit(e, &done);
	desc_step_emit(e, PLAN_OP_refuse);
	jumps_land(e, &done);
	if (!s->inline_data)
		desc_step_emit(e, PLAN_OP_spread);
	return rc;
}

/* A length that is one number: that of all frames. */
static int bytes_check(const struct desc_build *b)
{
	const uint64_t max = b->desc->plan.under == SPW_OBJ_UNDER_message ? UINT32_MAX : 0xffff;
	const struct desc_term *term = &b->bytes.term[0];

	if (b->bytes.cnt != 1 || term->reg != PLAN_REG_ONE || spw_in_range(term->times, 1, max))
		return 0;
	return desc_fail(&b->bytes.at,
			 spw_err(EINVAL, "no frame has %llu bytes of payload; 1 .. %llu",
				 (unsigned long long)term->times, (unsigned long long)max));
}

static int payload_emit(struct emit *e)
{
	struct desc_build *b = e->b;
	struct spw_obj_step *step;
	int rc = bytes_check(b);

	if (rc)
		return rc;
	if (!b->place.cnt == !b->segments.most || (b->segments.most && b->bytes.cnt))
		return desc_fail(&b->at, spw_err(EINVAL, "either place, with bytes or without, or "
							 "segments say where payload belongs"));
	step = desc_step_emit(e, PLAN_OP_payload);
	step->off = e->pending;
	step->a = b->whole;
	step->b = desc_sum_constant(&b->bytes);
	return b->segments.most ? segments_emit(e) : piece_emit(e, step->b);
}

int desc_emit(struct desc_build *b)
{
	struct emit e = {.b = b, .plan = &b->desc->plan};
	int rc = header_emit(&e);

	if (rc == 0)
		rc = desc_key_emit(&e);
	if (rc == 0)
		rc = flags_emit(&e);
	if (rc == 0)
		rc = payload_emit(&e);
	desc_step_emit(&e, PLAN_OP_done);
	if (rc == 0 && e.plan->step_cnt > SPW_OBJ_PLAN_STEP_MAX)
		rc = desc_fail(&b->at, spw_err(EINVAL,
					       "the plan has %u steps; %u is the limit: "
					       "fewer fields, tests or segments",
					       e.plan->step_cnt, SPW_OBJ_PLAN_STEP_MAX));
	return rc;
}
