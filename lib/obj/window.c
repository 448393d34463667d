/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A stream's window: its memory, and the data path's common frame, which brings one granule that
 * belongs to the object of the frame before. Everything else is in claim.c. The plan, by the path
 * of the frame before if it holds (plan_path.c), says where a frame's payload belongs.
 *
 * lib/topo opens and closes it; lib/pipe calls the rest in the stream's lcore, but for
 * spw_obj_stat, which any thread may call. Consumers in other processes can write the page: once
 * the stream is open, no size or index is read back from it here.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "obj/window.h"

#define QUIET_MIN_NS 100000000u   /* a sender that is started again was silent for longer */
#define FAR_MAX      (1ull << 20) /* objects of a counter */

/* ---- setup ---- */

/* Bytes that an operation reads together. */
static uint32_t window_element(uint32_t op)
{
	return 1u << spw_move_in_log2(op);
}

/* What the window relies on. A description that was loaded from a file meets most of it; one that a
 * program filled in may not. */
static int window_check_plan(const struct spw_obj_desc *desc)
{
	const struct spw_obj_rule *rule = &desc->rule;

	if (!spw_in_range(desc->plan.key_bits, 2, 64))
		return spw_err(EINVAL,
			       "a key of %u bits: 2 .. 64, or a late frame looks like one of "
			       "the next object",
			       desc->plan.key_bits);
	if (!spw_in_range(rule->open_max, 1, SPW_MIN(SPW_OBJ_OPEN_MAX, rule->buffers - 1)))
		return spw_err(EINVAL, "open %u objects at once: 1 .. %u, and fewer than buffers",
			       rule->open_max, SPW_OBJ_OPEN_MAX);
	if (rule->open_max > 1ull << (desc->plan.key_bits - 2))
		return spw_err(
			EINVAL, "open %u objects at once with a key of %u bits: at most %llu",
			rule->open_max, desc->plan.key_bits, 1ull << (desc->plan.key_bits - 2));
	if (rule->op == SPW_MOVE_OP_fill || rule->op >= SPW_MOVE_OP_head)
		return spw_err(EINVAL, "conversion %u does not exist", rule->op);
	if (rule->granule == 0 || rule->granule % window_element(rule->op))
		return spw_err(EINVAL, "granule of %" PRIu64 " bytes: whole elements",
			       rule->granule);
	if (rule->deadline_ns == 0)
		return spw_err(EINVAL, "a deadline of 0: above it");
	return 0;
}

/* Whether objects, buffers and page fit one another, and every place a move's 40 bits. */
static int window_check(const struct spw_obj_conf *conf)
{
	const struct spw_obj_desc *desc = conf->desc;
	const uint64_t bytes = desc->plan.object_bytes;
	const uint64_t stride = conf->page->buffer_stride;
	int rc;

	if (!spw_in_range(desc->rule.buffers, 2, SPW_OBJ_BUFFER_MAX))
		return spw_err(EINVAL, "%u buffers: 2 .. %u", desc->rule.buffers,
			       SPW_OBJ_BUFFER_MAX);
	rc = window_check_plan(desc);
	if (rc)
		return rc;
	if (bytes == 0 || bytes % window_element(desc->rule.op) ||
	    spw_move_written(desc->rule.op, bytes) != desc->shape.bytes)
		return spw_err(EINVAL, "objects of %" PRIu64 " bytes do not become %" PRIu64, bytes,
			       desc->shape.bytes);
	if (stride < desc->shape.bytes || conf->page->buffer_cnt != desc->rule.buffers)
		return spw_err(EINVAL, "a page of other objects");
	if (conf->region_offset > 1ull << 39 || stride > (1ull << 39) / desc->rule.buffers)
		return spw_err(EINVAL, "%u buffers of %" PRIu64 " bytes: 512 GiB in all",
			       desc->rule.buffers, stride);
	return 0;
}

/* Saturates far above any run, so that sums of two do not wrap. */
static uint64_t window_ticks(uint64_t ns, uint64_t tsc_hz)
{
	const unsigned __int128 ticks =
		(__extension__(unsigned __int128) ns * tsc_hz) / 1000000000u;

	return ticks > UINT64_MAX / 4 ? UINT64_MAX / 4 : (uint64_t)ticks;
}

/* All that the data path would have to divide or to choose is computed here once. */
static void window_set(struct spw_obj *obj, const struct spw_obj_conf *conf)
{
	const struct spw_obj_rule *rule = &obj->desc.rule;
	const struct spw_obj_plan *plan = &obj->desc.plan;
	const uint64_t quarter = 1ull << (plan->key_bits - 2);

	obj->granule = rule->granule;
	obj->granule_inverse = plan_inverse(rule->granule);
	obj->move_dst = spw_move_make(rule->op, conf->region, 0, 0, 0, 0).dst;
	obj->element = window_element(rule->op);
	obj->grow = spw_move_out_log2(rule->op) - spw_move_in_log2(rule->op);
	obj->near = plan->key_label ? quarter : SPW_MIN(quarter, FAR_MAX);
	obj->far_step = plan->key_label ? quarter : 1;
	obj->far_mark = UINT64_MAX;
	obj->unaligned = plan->align_first;
	obj->deadline_tsc = SPW_MAX(1, window_ticks(rule->deadline_ns, conf->tsc_hz));
	obj->quiet_tsc = SPW_MAX(2 * obj->deadline_tsc, window_ticks(QUIET_MIN_NS, conf->tsc_hz));
	obj->open_max = rule->open_max;
	obj->due_tsc = UINT64_MAX;
	obj->page = conf->page;
	obj->buffer_cnt = rule->buffers;
	obj->queue = spw_obj_page_queue(conf->page, rule->buffers);
	obj->queue_mask = spw_obj_page_queue_cnt(rule->buffers) - 1;
	obj->claimed_words = (window_granules(obj, plan->object_bytes) + 63) / 64;
	obj->region = conf->region;
	obj->region_offset = conf->region_offset;
	obj->stride = conf->page->buffer_stride;
	obj->busy_max = 256 - (128 >> SPW_MIN(rule->priority, 8));
	obj->cur = &obj->none;
}

/* Rows are rings: their indexes run on for ever, and a mask finds the place. */
static bool window_row_alloc(struct obj_row *row, uint32_t cnt)
{
	row->mask = spw_pow2_ceil32(cnt) - 1;
	row->fill = calloc(row->mask + 1, sizeof(struct obj_fill *));
	return row->fill;
}

/* An object in the window may be shed, and one in the line has a buffer: there are never more fills
 * than both together. What buffers hold at first is unknown, so all of it counts as written. */
static bool window_alloc(struct spw_obj *obj)
{
	const uint32_t fill_cnt = obj->open_max + obj->buffer_cnt;

	obj->fill = calloc(fill_cnt, sizeof(*obj->fill));
	obj->free = calloc(fill_cnt, sizeof(struct obj_fill *));
	obj->written = calloc(obj->buffer_cnt, sizeof(*obj->written));
	obj->claimed = calloc(obj->buffer_cnt, obj->claimed_words * sizeof(*obj->claimed));
	obj->queue_own = calloc(obj->queue_mask + 1, sizeof(*obj->queue_own));
	obj->leaving = calloc(obj->queue_mask + 1, sizeof(*obj->leaving));
	if (!window_row_alloc(&obj->window, obj->open_max) ||
	    !window_row_alloc(&obj->line, obj->buffer_cnt) || !obj->fill || !obj->free ||
	    !obj->written || !obj->claimed || !obj->queue_own || !obj->leaving)
		return false;
	for (uint32_t i = 0; i < fill_cnt; i++)
		obj->free[obj->free_cnt++] = &obj->fill[i];
	for (uint32_t b = 0; b < obj->buffer_cnt; b++)
		obj->written[b] = obj->desc.plan.object_bytes;
	return true;
}

static void window_free(struct spw_obj *obj)
{
	free(obj->window.fill);
	free(obj->line.fill);
	free(obj->fill);
	free(obj->free);
	free(obj->written);
	free(obj->claimed);
	free(obj->queue_own);
	free(obj->leaving);
	free(obj);
}

int spw_obj_open(const struct spw_obj_conf *conf, spw_obj_receipt_fn *receipt, void *arg,
		 struct spw_obj **obj_out)
{
	struct spw_obj *obj;
	int rc = window_check(conf);

	if (rc)
		return spw_err_ctx(rc, "stream %s", conf->desc->name);
	obj = calloc(1, sizeof(*obj));
	if (!obj)
		return spw_err(ENOMEM, "stream %s: no memory", conf->desc->name);
	obj->desc = *conf->desc;
	obj->receipt = receipt;
	obj->receipt_arg = arg;
	window_set(obj, conf);
	if (!window_alloc(obj)) {
		rc = spw_err(ENOMEM, "stream %s: no memory for %u objects of %" PRIu64 " granules",
			     obj->desc.name, obj->buffer_cnt,
			     window_granules(obj, obj->desc.plan.object_bytes));
		window_free(obj);
		return rc;
	}
	*obj_out = obj;
	return 0;
}

/* What is still waited for goes to nobody. */
static void window_abort(struct spw_obj *obj, const struct obj_row *row)
{
	for (uint32_t i = row->first; i != row->end; i++)
		if ((*window_row(row, i))->state == OBJ_CLOSED)
			obj_publish_none(obj, *window_row(row, i), SPW_OBJ_STATE_aborted);
}

void spw_obj_close(struct spw_obj *obj)
{
	if (!obj)
		return;
	obj_close_all(obj);
	window_abort(obj, &obj->line);
	window_abort(obj, &obj->window);
	spw_thr_store_rel(&obj->page->ended, 1); /* [OB4 release] */
	window_free(obj);
}

/* ---- the data path ---- */

/* Without room no frame is a common one: claim.c looks at each. */
void spw_obj_turn(struct spw_obj *obj, const struct spw_obj_turn *turn)
{
	obj->turn = *turn;
	if (spw_unlikely(turn->room == 0))
		obj->cur = &obj->none;
}

/* Whether it brings one granule of the object of the frame before, and says nothing else. */
SPW_INLINE bool window_is_common(const struct spw_obj *obj, const struct spw_obj_hit *hit)
{
	return hit->key == obj->cur->key && hit->piece_cnt == 1 && hit->flags == 0 &&
	       hit->piece[0].len == obj->granule;
}

enum spw_obj_fate obj_window_hit(struct spw_obj *obj, const struct spw_obj_hit *hit,
				 uint64_t nic_ns, struct spw_move *move_out, uint32_t *cnt_out)
{
	const struct spw_obj_piece *piece = &hit->piece[0];
	struct obj_fill *f = obj->cur;
	uint64_t g, rest, bit;

	if (spw_unlikely(!window_is_common(obj, hit)))
		return obj_claim_hit(obj, hit, nic_ns, move_out, cnt_out);
	g = plan_divide(piece->pos, obj->granule, obj->granule_inverse, &rest);
	bit = 1ull << g % 64;
	if (spw_unlikely(rest || g >= f->whole_cnt || f->claimed[g / 64] & bit))
		return obj_claim_hit(obj, hit, nic_ns, move_out, cnt_out);
	/* Claimed here, moved later: another frame with these bytes is a duplicate from now on. */
	f->claimed[g / 64] |= bit;
	*move_out = window_move(obj, f, piece->pos, piece->skip, piece->len);
	*cnt_out = 1;
	obj->heard_tsc = obj->turn.now_tsc;
	f->free_seq = obj->turn.seq + 1;
	f->last_nic = nic_ns;
	f->last_tsc = obj->turn.now_tsc;
	f->packets++;
	f->left -= piece->len;
	if (spw_unlikely(f->left == 0))
		obj_close_fill(obj, f, SPW_OBJ_CAUSE_all);
	return window_count(obj, SPW_OBJ_FATE_placed);
}

struct spw_obj_placed spw_obj_frame(struct spw_obj *obj, const uint8_t *frame, uint32_t head,
				    uint32_t len, uint64_t nic_ns, struct spw_move *move_out)
{
	static const uint8_t fate_of[] = {[SPW_OBJ_MISS_not_object] = SPW_OBJ_FATE_not_object,
					  [SPW_OBJ_MISS_cut] = SPW_OBJ_FATE_cut,
					  [SPW_OBJ_MISS_beyond] = SPW_OBJ_FATE_beyond};
	enum spw_obj_miss miss = SPW_OBJ_MISS_beyond;
	struct spw_obj_placed placed = {0};
	struct spw_obj_hit hit;

	/* Where objects begin is the plan's, and the window knows when that is to be found out
	 * anew: at the begin, and when the sender begins again. */
	if (spw_unlikely(obj->unaligned))
		obj->unaligned = !spw_obj_plan_align(&obj->desc.plan, frame, head, len);
	if (spw_likely(len <= SPW_MOVE_LEN_MAX)) /* what a move can name */
		miss = plan_path_run(&obj->desc.plan, &obj->memo, frame, head, len, &hit);
	if (spw_likely(miss == SPW_OBJ_MISS_none))
		placed.fate = obj_window_hit(obj, &hit, nic_ns, move_out, &placed.move_cnt);
	else
		placed.fate = window_count(obj, (enum spw_obj_fate)fate_of[miss]);
	return placed;
}

void spw_obj_beat(struct spw_obj *obj)
{
	spw_thr_count(&obj->page->alive, 1);
}

void spw_obj_stat(const struct spw_obj *obj, struct spw_obj_count *count_out)
{
	/* Word by word: the owner counts on meanwhile. */
	const uint64_t *from = (const uint64_t *)&obj->count;
	uint64_t *to = (uint64_t *)count_out;

	for (size_t i = 0; i < sizeof(*count_out) / sizeof(*to); i++)
		to[i] = spw_thr_load_rlx(&from[i]);
}
