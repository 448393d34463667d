/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The naive model of a stream (obj_naive.h).
 */
#include "obj_naive.h"
#include "unit_test.h"

void naive_init(struct naive *n, uint32_t open_max, uint32_t packets, uint64_t low)
{
	memset(n, 0, sizeof(*n));
	n->open_max = open_max;
	n->packets = packets;
	n->low = n->high = low;
}

static struct naive_object *naive_object(struct naive *n, uint64_t number)
{
	struct naive_object *o = &n->object[number % NAIVE_OBJECTS];

	if (o->number != number || !o->begun) {
		memset(o, 0, sizeof(*o));
		o->number = number;
	}
	return o;
}

/* How many objects above this one have begun, as far as it matters. */
static uint32_t naive_newer(struct naive *n, uint64_t number)
{
	uint32_t cnt = 0;

	for (uint64_t i = n->high; i > number && cnt < n->open_max; i--)
		cnt += naive_object(n, i)->begun;
	return cnt;
}

/* Nobody needs to look further down than the lowest open object; twice open_max is below that
 * unless numbers are skipped. */
static void naive_close_old(struct naive *n)
{
	const uint64_t low = n->high - n->low > 64 ? n->high - 64 : n->low;

	for (uint64_t i = n->high + 1; i-- > low;) {
		struct naive_object *o = naive_object(n, i);

		if (o->begun && !o->closed && naive_newer(n, i) >= n->open_max) {
			o->closed = true;
			o->cause = SPW_OBJ_CAUSE_newer;
		}
	}
}

enum spw_obj_fate naive_packet(struct naive *n, uint64_t number, uint32_t packet)
{
	struct naive_object *o = naive_object(n, number);

	if (!o->begun) {
		if (naive_newer(n, number) >= n->open_max)
			return SPW_OBJ_FATE_late;
		o->begun = true;
		n->high = SPW_MAX(n->high, number);
		naive_close_old(n);
	}
	if (o->closed) {
		o->late++;
		return SPW_OBJ_FATE_late;
	}
	if (o->have[packet]) {
		o->duplicate++;
		return SPW_OBJ_FATE_duplicate;
	}
	o->have[packet] = true;
	if (++o->have_cnt == n->packets) {
		o->closed = true;
		o->cause = SPW_OBJ_CAUSE_all;
	}
	return SPW_OBJ_FATE_placed;
}

void naive_stop(struct naive *n)
{
	const uint64_t low = n->high - n->low > 64 ? n->high - 64 : n->low;

	for (uint64_t i = low; i <= n->high; i++) {
		struct naive_object *o = naive_object(n, i);

		if (o->begun && !o->closed) {
			o->closed = true;
			o->cause = SPW_OBJ_CAUSE_stop;
		}
	}
}

/* Where missing packets begin and end. */
static uint32_t naive_ranges(const struct naive *n, const struct naive_object *o,
			     uint32_t from[NAIVE_PACKETS], uint32_t to[NAIVE_PACKETS])
{
	uint32_t cnt = 0;

	for (uint32_t p = 0; p < n->packets; p++) {
		if (o->have[p])
			continue;
		if (p == 0 || o->have[p - 1])
			from[cnt++] = p;
		to[cnt - 1] = p + 1;
	}
	return cnt;
}

void naive_compare(struct naive *n, const struct spw_obj_receipt *r, uint64_t number, bool is_late)
{
	const struct naive_object *o = naive_object(n, number);
	const uint64_t granule = r->bytes_due / n->packets;
	uint32_t from[NAIVE_PACKETS], to[NAIVE_PACKETS], cnt;

	assert_true(o->begun && o->closed);
	assert_int_equal(r->cause, o->cause);
	assert_int_equal(r->state, o->have_cnt == n->packets ? SPW_OBJ_STATE_complete
							     : SPW_OBJ_STATE_partial);
	assert_int_equal(r->packets_present, o->have_cnt);
	assert_int_equal(r->packets_duplicate, o->duplicate);
	assert_int_equal(r->packets_bad, 0);
	assert_int_equal(r->packets_shed, 0);
	assert_true(is_late ? r->packets_late == o->late : r->packets_late <= o->late);
	assert_int_equal(r->bytes_present, o->have_cnt * granule);
	assert_int_equal(r->bytes_duplicate, o->duplicate * granule);
	assert_int_equal(r->bytes_overlap, 0);
	cnt = naive_ranges(n, o, from, to);
	assert_int_equal(r->range_cnt, SPW_MIN(cnt, SPW_OBJ_RANGE_MAX));
	assert_int_equal(r->range_cnt + r->range_more, cnt);
	for (uint32_t i = 0; i < r->range_cnt; i++) {
		assert_int_equal(r->range[i].from, from[i] * granule);
		assert_int_equal(r->range[i].to, to[i] * granule);
	}
}
