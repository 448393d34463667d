/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A long stream, 1 % of its frames lost, 1 % doubled, reordered by up to 64 places, moved by an
 * executor that is up to 200 batches late: every fate and every receipt is the naive model's, and
 * no object is torn. obj_long_test FRAMES
 */
#include <stdlib.h>

#include "obj_kit.h"
#include "obj_naive.h"

#define OF_OBJECT 32u
#define GRANULE   4u
#define REORDER   64u

struct frame {
	uint64_t object, at;
	uint32_t packet;
};

static struct kit kit;
static struct naive naive;
static uint64_t frames = 1000000, seed = 28, receipts, states[SPW_OBJ_STATE_CNT];
static uint64_t fates[SPW_OBJ_FATE_CNT];

static void receipt_is_the_models(struct kit *k, const struct spw_obj_receipt *r)
{
	(void)k;
	receipts++;
	states[r->state]++;
	naive_compare(&naive, r, r->id + kit.id_offset, false);
}

static void send_frame(const struct frame *f)
{
	const enum spw_obj_fate want = naive_packet(&naive, f->object, f->packet);
	const enum spw_obj_fate got = kit_granule(&kit, f->object, f->packet);

	fates[got]++;
	if (got != want)
		fail_msg("packet %u of object %llu: fate %d, the model's is %d", f->packet,
			 (unsigned long long)f->object, got, want);
}

/* One of the frames that wait, the oldest if it has waited for REORDER others. */
static uint32_t pick_frame(const struct frame *wait, uint32_t cnt, uint64_t now)
{
	uint32_t oldest = 0;

	for (uint32_t i = 1; i < cnt; i++)
		if (wait[i].at < wait[oldest].at)
			oldest = i;
	return now - wait[oldest].at > REORDER ? oldest : (uint32_t)(unit_random(&seed) % cnt);
}

static void end_batch(void)
{
	struct spw_obj_receipt r;

	kit.turn.now_tsc += 1000;
	kit_push(&kit, KIT_MOVE_MAX / 2);
	if (kit.turn.seq - kit.retired > unit_random(&seed) % 200)
		kit_retire(&kit, 1 + unit_random(&seed) % 8);
	while (kit_consume(&kit, &r))
		;
}

static void send_all(uint64_t first)
{
	static struct frame wait[REORDER * 2];
	uint32_t cnt = 0, in_batch = 0;

	for (uint64_t i = 0; i < frames || cnt; i++) {
		const uint64_t dice = i < frames ? unit_random(&seed) % 100 : 0;

		for (uint64_t twice = 0; i < frames && dice && twice <= (dice == 1); twice++)
			wait[cnt++] = (struct frame){first + i / OF_OBJECT, i, i % OF_OBJECT};
		while (cnt && (cnt >= REORDER || i >= frames)) {
			const uint32_t k = pick_frame(wait, cnt, i);

			send_frame(&wait[k]);
			wait[k] = wait[--cnt];
			if (++in_batch >= 1 + unit_random(&seed) % 60) {
				end_batch();
				in_batch = 0;
			}
		}
	}
}

static void every_receipt_is_exact(void **state)
{
	const uint64_t first = 65530; /* 16-bit keys wrap early, and then often */
	struct spw_obj_count count;
	struct spw_obj_receipt r;

	(void)state;
	kit_init(&kit, 16, OF_OBJECT * GRANULE, GRANULE);
	kit.desc.rule.deadline_ns = UINT32_MAX * 1000000ull;
	kit.desc.rule.buffers = 512;
	kit.desc.rule.open_max = 4;
	kit.on_receipt = receipt_is_the_models;
	kit_open(&kit);
	naive_init(&naive, 4, OF_OBJECT, first);
	send_all(first);
	spw_obj_stop(kit.obj);
	naive_stop(&naive);
	kit_settle(&kit);
	while (kit_consume(&kit, &r))
		;
	spw_obj_stat(kit.obj, &count);
	assert_int_equal(receipts, (frames + OF_OBJECT - 1) / OF_OBJECT);
	assert_int_equal(count.unseen, 0);
	assert_int_equal(count.restarts, 0);
	assert_int_equal(kit.sum.packets_present, fates[SPW_OBJ_FATE_placed]);
	assert_int_equal(kit.sum.packets_duplicate, fates[SPW_OBJ_FATE_duplicate]);
	assert_memory_equal(count.frames, fates, sizeof(fates));
	assert_true(states[SPW_OBJ_STATE_complete] && states[SPW_OBJ_STATE_partial]);
	assert_true(fates[SPW_OBJ_FATE_placed] > frames * 98 / 100);
	print_message(
		"%llu objects, %llu complete; %llu frames placed, %llu duplicate, %llu late\n",
		(unsigned long long)receipts, (unsigned long long)states[SPW_OBJ_STATE_complete],
		(unsigned long long)fates[SPW_OBJ_FATE_placed],
		(unsigned long long)fates[SPW_OBJ_FATE_duplicate],
		(unsigned long long)fates[SPW_OBJ_FATE_late]);
	kit_close(&kit);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_receipt_is_exact)};

	if (argc > 1)
		frames = strtoull(argv[1], NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
