/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Reads frames by the paths that frames before them took (plan.h): what decides is compared at
 * once, the fields that are needed are loaded in a row, and what computes the key and the pieces is
 * run as a plan's steps are. obj/window.c calls it for every frame.
 *
 * A frame of another flow, or one that an attacker made, differs in a word, or is read as the plan
 * would read it: a path holds no values of frames but those that it compares.
 */
#include "obj/plan_step.h"

/* Frames without a path for each that is learned; twice as many after each that has none. */
enum { PATH_WAIT = 256, PATH_VAIN_MAX = 8 };

SPW_INLINE bool path_holds(const struct plan_path *path, const struct run *run)
{
	const uint64_t have = SPW_MIN(run->head, run->end) - run->begin;
	const struct plan_word *word = path->word, *end = word + path->word_cnt;

	/* need 0, no path, is beyond all */
	if (path->need - 1 >= have || path->bound > run->end - run->begin)
		return false;
	for (; word < end; word++) {
		uint64_t w;

		__builtin_memcpy(&w, run->frame + run->begin + word->off, sizeof(w));
		if ((w ^ word->value) & word->mask)
			return false;
	}
	return true;
}

/* Not the path of the frame before; NULL: none is known. */
static const struct plan_path *path_other(struct plan_memo *memo, const struct run *run)
{
	for (uint32_t i = 1; i < PLAN_PATH_CNT; i++) {
		const uint32_t idx = (memo->last + i) % PLAN_PATH_CNT;

		if (path_holds(&memo->path[idx], run)) {
			memo->last = idx;
			return &memo->path[idx];
		}
	}
	return NULL;
}

/* Learns the path of a frame, in the place of the one that was looked at last. Frames that have
 * none leave the known paths as they are. */
static void path_renew(const struct spw_obj_plan *plan, struct plan_memo *memo, struct run *run)
{
	const uint32_t idx = (memo->last + PLAN_PATH_CNT - 1) % PLAN_PATH_CNT;
	const bool unused = memo->path[idx].need == 0;
	struct plan_path path;

	if (header_begin(plan, run) ||
	    !plan_path_learn(plan, run->frame + run->begin,
			     SPW_MIN(run->head, run->end) - run->begin, &path)) {
		memo->wait = PATH_WAIT << memo->vain;
		memo->vain = SPW_MIN(memo->vain + 1, PATH_VAIN_MAX);
		return;
	}
	memo->path[idx] = path;
	memo->last = idx;
	memo->wait = unused ? 0 : PATH_WAIT;
	memo->vain = 0;
}

/* The frame is read by the plan. To learn its path takes longer than that, so no sender must make
 * it frequent. */
SPW_NOINLINE static enum spw_obj_miss path_none(const struct spw_obj_plan *plan,
						struct plan_memo *memo, const uint8_t *frame,
						uint32_t head, uint32_t len,
						struct spw_obj_hit *hit)
{
	enum spw_obj_miss miss = spw_obj_plan_run(plan, frame, head, len, hit);
	struct run run = {.frame = frame, .head = head, .len = len};

	if (miss == SPW_OBJ_MISS_none && memo->wait-- == 0)
		path_renew(plan, memo, &run);
	return miss;
}

/* What the steps find in the registers: the fields, and what the plan's `payload` sets. */
SPW_INLINE void path_load(const struct plan_path *path, struct run *run, uint64_t *reg)
{
	const uint8_t *header = run->frame + run->begin;
	const struct plan_load *load = path->load;

	for (uint32_t i = 0; i < path->load_cnt; i++, load++) {
		uint64_t w = spw_be64_load(header + load->off);

		w = load->little ? __builtin_bswap64(w) : w;
		reg[PLAN_REG_FIELD + i] = w >> load->shift & load->mask;
	}
	run->at = run->begin;
	run->end = path->bound ? run->begin + path->bound : run->end;
	run->start = run->begin + path->start;
	reg[PLAN_REG_ONE] = 1;
	reg[PLAN_REG_ZERO] = 0;
	reg[PLAN_REG_HEADER] = path->header;
	reg[PLAN_REG_REST] = run->end - run->start;
	run->length = path->length ? path->length : reg[PLAN_REG_REST];
}

enum spw_obj_miss plan_path_run(const struct spw_obj_plan *plan, struct plan_memo *memo,
				const uint8_t *frame, uint32_t head, uint32_t len,
				struct spw_obj_hit *hit)
{
	static const void *const at[] = {STEP_FIND_LIST(STEP_PLACE)};
	struct run run = {.frame = frame, .head = head, .len = len};
	const struct plan_path *path = &memo->path[memo->last];
	const struct spw_obj_step *step;
	uint64_t reg[PLAN_REG_CNT];
	enum spw_obj_miss miss;

	if (spw_unlikely(path->need == 0)) /* none is known */
		return path_none(plan, memo, frame, head, len, hit);
	miss = header_begin(plan, &run);
	if (spw_unlikely(miss != SPW_OBJ_MISS_none))
		return miss;
	if (spw_unlikely(!path_holds(path, &run))) {
		struct run copy = run;

		path = path_other(memo, &copy);
		if (!path)
			return path_none(plan, memo, frame, head, len, hit);
	}
	path_load(path, &run, reg);
	hit->key = hit->part = hit->size = 0;
	hit->flags = path->flags;
	hit->piece_cnt = 0;
	step = path->step;
	goto *at[step->op];
	STEP_FIND_LIST(STEP_CODE)
over:
	hit->flags |= step->op == PLAN_OP_info || hit->piece_cnt == 0 ? SPW_OBJ_INFO : 0u;
	return miss;
}
