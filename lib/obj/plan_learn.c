/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Learns a path (plan.h): follows a plan through one header, and keeps what the header's deciding
 * bits do not answer. plan.c calls it after a frame that took no known path.
 *
 *   a step that                           becomes
 *   loads a field which decides           a word: the field's bits must be those of this header
 *   guards; skips steps or bytes; items   nothing: those bits have answered it
 *   bounds the packet                     path->bound
 *   loads any other field                 a load, if a step that is left uses it
 *   computes a length of what decides     path->length
 *   computes, or finds a piece            itself, with the registers of those loads
 *
 * The steps that are left keep their order, so that a frame which two of them would refuse is
 * refused by the same one. The header is copied first: another writer of it (mode=rc) cannot make
 * the words of one path answer for the steps of another.
 */
#include <string.h>

#include "obj/plan.h"

/* Where a register's value comes from. */
struct source {
	struct plan_load load;
	uint8_t reg; /* of the path's load; 0: not loaded yet */
	bool known;
	uint64_t value; /* in this header */
};

struct walk {
	struct plan_path *path;
	uint8_t header[PLAN_PATH_BYTES + 8];
	uint64_t have; /* bytes of it that the packet has */
	uint64_t at, word;
	uint64_t decides; /* bit r: register r */
	const struct spw_obj_step
		*sum; /* the first of the steps that make a sum; NULL: none does */
	struct source source[PLAN_REG_CNT];
};

/* The registers of the sum in front of a step; of one with products, not all. */
static uint64_t sum_decides(const struct spw_obj_plan *plan, const struct spw_obj_step *step)
{
	uint64_t decides = 0;

	while (step-- > plan->step && (step->op == PLAN_OP_add || step->op == PLAN_OP_sub))
		decides |= 1ull << step->reg;
	return decides;
}

/* The registers that decide in any frame. Flags do: they seldom change, and make constants of what
 * is computed with them. */
static uint64_t plan_decides(const struct spw_obj_plan *plan)
{
	uint64_t decides = 0;

	for (uint32_t i = 0; i < plan->step_cnt; i++) {
		const struct spw_obj_step *step = &plan->step[i];

		switch ((enum plan_op)step->op) {
		case PLAN_OP_load:
		case PLAN_OP_load_little:
		case PLAN_OP_same:
			decides |= step->a == 1 ? 1ull << step->reg : 0;
			break;
		case PLAN_OP_test_is:
		case PLAN_OP_test_in:
		case PLAN_OP_unless_is:
		case PLAN_OP_unless_in:
		case PLAN_OP_items:
			decides |= 1ull << step->reg;
			break;
		case PLAN_OP_skip_sum:
		case PLAN_OP_bound:
			decides |= sum_decides(plan, step);
			break;
		default:
			break;
		}
	}
	return decides;
}

/* The bits of `mask`, in the `need` bytes at off, decide. mask is big-endian: its highest byte is
 * the first one in memory. */
static bool word_add(struct walk *w, uint64_t off, uint32_t need, uint64_t mask)
{
	struct plan_path *path = w->path;
	spw_be64 bits;
	uint32_t i;

	for (i = 0; i < path->word_cnt; i++)
		if (off >= path->word[i].off && off + need <= path->word[i].off + 8)
			break;
	if (i == PLAN_PATH_WORDS)
		return false;
	if (i == path->word_cnt) {
		path->word_cnt++;
		path->word[i].off = off;
		path->word[i].mask = 0;
	}
	bits = spw_cpu_to_be64(mask >> 8 * (off - path->word[i].off));
	path->word[i].mask |= (SPW_FORCE uint64_t)bits;
	memcpy(&path->word[i].value, w->header + path->word[i].off, 8);
	path->need = SPW_MAX(path->need, path->word[i].off + 8);
	return true;
}

/* The field of a load, in the word at off. */
static bool field_walk(struct walk *w, const struct spw_obj_step *step, uint64_t off)
{
	const bool little = step->op == PLAN_OP_load_little;
	const uint64_t word = off + 8 <= sizeof(w->header) ? spw_be64_load(w->header + off) : 0;
	const uint64_t bits = step->a << step->shift;
	struct source *source = &w->source[step->reg];

	if (off + step->need > w->have)
		return false;
	if (step->op == PLAN_OP_load_is || step->op == PLAN_OP_same_is)
		return (word >> step->shift & step->a) == step->b &&
		       word_add(w, off, step->need, bits);
	w->word = off;
	*source = (struct source){
		.load = {step->a, (uint32_t)off, step->shift, little},
		.known = true,
		.value = (little ? __builtin_bswap64(word) : word) >> step->shift & step->a,
	};
	return !(w->decides >> step->reg & 1) ||
	       word_add(w, off, step->need, little ? __builtin_bswap64(bits) : bits);
}

/* The idx-th of an item's ids. */
static uint64_t walk_id(const struct spw_obj_step *ids, uint32_t idx)
{
	return (idx < 4 ? ids->a : ids->b) >> 16 * (idx % 4) & 0xffff;
}

/* All ids decide: which items there are, and where their values lie. */
static bool items_walk(struct walk *w, const struct spw_obj_step *step)
{
	const struct spw_obj_step *ids = step + 1;
	const uint64_t cnt = w->source[step->reg].value, at = w->at + step->off;
	uint64_t found = 0;

	if (cnt > PLAN_ITEM_MAX || at + cnt * 8 > w->have)
		return false;
	for (uint64_t off = at; off < at + cnt * 8; off += 8) {
		const struct spw_obj_step value = {
			.op = PLAN_OP_load, .a = step->a, .need = 8, .reg = ids->reg};
		const uint64_t id = spw_be64_load(w->header + off) >> step->shift;
		struct spw_obj_step load = value;
		uint32_t k = 0;

		while (k < ids->off && walk_id(ids, k) != id)
			k++;
		if (!word_add(w, off, 8, UINT64_MAX << step->shift))
			return false;
		if (k == ids->off)
			continue;
		found |= 1ull << k;
		load.reg = (uint8_t)(ids->reg + k);
		if (k < ids->need && !field_walk(w, &load, off))
			return false;
	}
	w->at += cnt * 8;
	return found == (1ull << ids->need) - 1;
}

/* ---- what is left ---- */

/* The path's register for one of the plan's; false: there are too many. Fields are loaded once
 * they are used. */
static bool reg_take(struct walk *w, uint64_t reg, uint8_t *reg_out)
{
	struct source *source = &w->source[reg];
	struct plan_path *path = w->path;

	*reg_out = (uint8_t)reg;
	if (reg < PLAN_REG_FIELD)
		return true;
	if (source->reg == 0) {
		if (!source->known || path->load_cnt == PLAN_PATH_LOADS)
			return false;
		source->reg = (uint8_t)(PLAN_REG_FIELD + path->load_cnt);
		path->load[path->load_cnt++] = source->load;
		path->need = SPW_MAX(path->need, source->load.off + 8ull);
	}
	*reg_out = source->reg;
	return true;
}

/* A step is left, with its offset from the header's first byte on. */
static bool step_leave(struct walk *w, const struct spw_obj_step *step, uint64_t off)
{
	struct spw_obj_step *left = &w->path->step[w->path->step_cnt];
	uint8_t by;

	if (w->path->step_cnt == PLAN_PATH_STEPS || off > UINT32_MAX)
		return false;
	w->path->step_cnt++;
	*left = *step;
	left->off = (uint32_t)off;
	if (step->op == PLAN_OP_product) {
		if (!reg_take(w, step->off, &by))
			return false;
		left->off = by;
	}
	return reg_take(w, step->reg, &left->reg);
}

/* So is the sum in front of it, whose steps waited for what takes it. */
static bool sum_leave(struct walk *w, const struct spw_obj_step *step, uint64_t off)
{
	const struct spw_obj_step *sum = w->sum;

	w->sum = NULL;
	for (; sum && sum < step; sum++)
		if (!step_leave(w, sum, sum->off))
			return false;
	return step_leave(w, step, off);
}

/* Whether a register has the same value in all frames of the path: of a field that decides or is
 * not there, of the rest where the header says how long the packet is. */
static bool reg_constant(const struct walk *w, uint64_t reg, uint64_t *value_out)
{
	const struct source *source = &w->source[reg];
	const struct plan_path *path = w->path;

	*value_out = source->value;
	if (reg == PLAN_REG_ONE)
		*value_out = 1;
	else if (reg == PLAN_REG_HEADER)
		*value_out = path->header;
	else if (reg == PLAN_REG_REST)
		*value_out = path->bound - path->start;
	return reg == PLAN_REG_ZERO || reg == PLAN_REG_ONE || reg == PLAN_REG_HEADER ||
	       (reg == PLAN_REG_REST && path->bound) ||
	       (source->known && (w->decides >> reg & 1 || source->load.mask == 0));
}

/* The sum in front of a step, where it is the same in all frames of the path; else nothing. */
static bool sum_value(struct walk *w, const struct spw_obj_step *step, uint64_t *sum_out)
{
	uint64_t sum = 0, value, term;

	for (const struct spw_obj_step *add = w->sum; add && add < step; add++) {
		if ((add->op != PLAN_OP_add && add->op != PLAN_OP_sub) ||
		    !reg_constant(w, add->reg, &value) || value < add->a ||
		    __builtin_mul_overflow(value - add->a, add->b, &term) ||
		    (add->op == PLAN_OP_add ? __builtin_add_overflow(sum, term, &sum)
					    : __builtin_sub_overflow(sum, term, &sum)))
			return false;
	}
	w->sum = NULL;
	*sum_out = sum;
	return true;
}

/* ---- the walk ---- */

static bool skip_walk(struct walk *w, const struct spw_obj_step *step)
{
	uint64_t sum;

	if (!sum_value(w, step, &sum) || w->at > w->have || sum > w->have - w->at)
		return false;
	w->at += sum;
	w->path->need = SPW_MAX(w->path->need, w->at);
	return true;
}

static bool bound_walk(struct walk *w, const struct spw_obj_step *step)
{
	uint64_t sum;

	if (w->path->bound || !sum_value(w, step, &sum) || sum == 0)
		return false;
	w->path->bound = sum;
	w->have = SPW_MIN(w->have, sum);
	return true;
}

static bool payload_walk(struct walk *w, const struct spw_obj_step *step)
{
	struct plan_path *path = w->path;

	path->header = w->at + step->off;
	path->start = step->a ? 0 : path->header;
	path->length = step->b;
	path->need = SPW_MAX(path->need, path->header);
	return path->header <= w->have;
}

/* Whether the next piece is the only one. */
static bool piece_is_single(const struct spw_obj_step *step)
{
	while (step->op != PLAN_OP_piece && step->op != PLAN_OP_piece_after &&
	       step->op != PLAN_OP_piece_inline)
		step++;
	return step->op == PLAN_OP_piece;
}

/* A length that is the same in all frames of the path, and not 0, costs them no step. */
static bool length_walk(struct walk *w, const struct spw_obj_step *step)
{
	uint64_t sum, value;

	if (!piece_is_single(step) || !reg_constant(w, step->reg, &value) ||
	    !sum_value(w, step, &sum))
		return sum_leave(w, step, step->off);
	w->path->length = sum + value ? sum + value : step->a;
	return w->path->length > 0;
}

static void zero_walk(struct walk *w, const struct spw_obj_step *step)
{
	for (uint32_t i = 0; i < step->off; i++)
		w->source[step->reg + i] = (struct source){.known = true};
}

/* Whether a test, or the condition of what is skipped, holds. */
static bool test_walk(const struct walk *w, const struct spw_obj_step *step, bool set)
{
	const uint64_t value = w->source[step->reg].value;

	return set ? plan_set_has(step->b, value) : value == step->b;
}

/* A step that is left, or that the path's own fields replace. */
static bool left_walk(struct walk *w, const struct spw_obj_step *step)
{
	switch ((enum plan_op)step->op) {
	case PLAN_OP_product:
	case PLAN_OP_add:
	case PLAN_OP_sub:
	case PLAN_OP_add_ratio:
	case PLAN_OP_add_exact:
		w->sum = w->sum ? w->sum : step;
		return true;
	case PLAN_OP_payload:
		return payload_walk(w, step);
	case PLAN_OP_length:
		return length_walk(w, step);
	case PLAN_OP_end:
		w->path->flags |= SPW_OBJ_END;
		return true;
	case PLAN_OP_piece_after:
		w->at += step->off;
		return sum_leave(w, step, 0);
	case PLAN_OP_spread:
		return sum_leave(w, step, w->at + step->off);
	case PLAN_OP_key_cat:
	case PLAN_OP_key_per:
	case PLAN_OP_key_wrap:
	case PLAN_OP_size:
	case PLAN_OP_info:
	case PLAN_OP_piece:
	case PLAN_OP_done:
		return sum_leave(w, step, step->off);
	default: /* what is behind data of any length, and what refuses */
		return false;
	}
}

/* One step, and with *step_io those that it skips. */
static bool step_walk(struct walk *w, const struct spw_obj_step **step_io)
{
	const struct spw_obj_step *step = *step_io;

	switch ((enum plan_op)step->op) {
	case PLAN_OP_load:
	case PLAN_OP_load_is:
	case PLAN_OP_load_little:
		return field_walk(w, step, w->at + step->off);
	case PLAN_OP_same:
	case PLAN_OP_same_is:
		return field_walk(w, step, w->word);
	case PLAN_OP_match: /* the guards behind it say the same */
	case PLAN_OP_ids:
		return true;
	case PLAN_OP_test_is:
	case PLAN_OP_test_in:
		return test_walk(w, step, step->op == PLAN_OP_test_in);
	case PLAN_OP_zero:
		zero_walk(w, step);
		return true;
	case PLAN_OP_unless_is:
	case PLAN_OP_unless_in:
		*step_io += test_walk(w, step, step->op == PLAN_OP_unless_in) ? 0 : step->off;
		return true;
	case PLAN_OP_skip:
		w->at += step->off;
		return true;
	case PLAN_OP_skip_sum:
		return skip_walk(w, step);
	case PLAN_OP_items:
		return items_walk(w, step);
	case PLAN_OP_bound:
		return bound_walk(w, step);
	default:
		return left_walk(w, step);
	}
}

static bool op_is_last(uint8_t op)
{
	return op == PLAN_OP_info || op == PLAN_OP_piece || op == PLAN_OP_done;
}

bool plan_path_learn(const struct spw_obj_plan *plan, const uint8_t *header, uint64_t have,
		     struct plan_path *path)
{
	struct walk w = {.path = path, .have = SPW_MIN(have, PLAN_PATH_BYTES)};
	const struct spw_obj_step *step = plan->step;
	uint8_t op;

	*path = (struct plan_path){.need = 1};
	memcpy(w.header, header, w.have);
	have = w.have;
	w.decides = plan_decides(plan);
	do
		op = step->op;
	while (step_walk(&w, &step) && !op_is_last(op) && step++);
	if (op_is_last(op) && path->need <= have)
		return true;
	path->need = 0;
	return false;
}
