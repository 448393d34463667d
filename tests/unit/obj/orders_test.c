/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * All orders of six packets, of three objects with two each or two with three, with up to two of
 * them lost and one of them doubled, with room for one, two or three open objects, and an executor
 * that is as late as it can be, or never: each frame's fate and each receipt must be the naive
 * model's, and every byte that a consumer takes the object's own or the fill byte.
 */
#include "obj_kit.h"
#include "obj_naive.h"

#define PACKETS 6u
#define GRANULE 4u
#define LOSSES  22u /* none, one or two of six */
#define DOUBLES 13u /* none, or one: at once, or at the end */

static struct kit kit;
static struct naive naive;
static uint64_t receipts, frames[SPW_OBJ_FATE_CNT];
static bool is_eager; /* the executor has moved a frame before the next one comes */

static void receipt_is_the_models(struct kit *k, const struct spw_obj_receipt *r)
{
	(void)k;
	receipts++;
	naive_compare(&naive, r, r->id, !is_eager);
}

static void send_packet(uint64_t base, uint32_t packet, uint32_t of_object)
{
	const uint64_t object = base + packet / of_object;
	const enum spw_obj_fate want = naive_packet(&naive, object, packet % of_object);
	const enum spw_obj_fate got = kit_granule(&kit, object, packet % of_object);

	frames[got]++;
	if (got != want)
		fail_msg("packet %u of object %llu: fate %d, the model's is %d", packet % of_object,
			 (unsigned long long)object, got, want);
	if (is_eager) {
		kit_push(&kit, KIT_MOVE_MAX);
		kit_retire(&kit, 1);
	}
}

static uint32_t loss_mask(uint32_t loss)
{
	for (uint32_t mask = 0;; mask++)
		if (__builtin_popcount(mask) <= 2 && loss-- == 0)
			return mask;
}

static void run_order(const uint8_t order[PACKETS], uint64_t base, uint32_t of_object,
		      uint32_t variant)
{
	const uint32_t lost = loss_mask(variant % LOSSES), twice = variant / LOSSES;
	struct spw_obj_receipt r;

	for (uint32_t i = 0; i < PACKETS; i++) {
		if (lost >> order[i] & 1)
			continue;
		send_packet(base, order[i], of_object);
		if (twice == i + 1)
			send_packet(base, order[i], of_object);
	}
	if (twice > PACKETS && !(lost >> (twice - 1 - PACKETS) & 1))
		send_packet(base, twice - 1 - PACKETS, of_object);
	spw_obj_stop(kit.obj);
	naive_stop(&naive);
	kit_settle(&kit);
	while (kit_consume(&kit, &r))
		;
}

static void swap_packets(uint8_t *a, uint8_t *b)
{
	const uint8_t t = *a;

	*a = *b;
	*b = t;
}

/* The next permutation in lexical order. */
static bool next_order(uint8_t order[PACKETS])
{
	uint32_t i = PACKETS - 1, k = PACKETS - 1;

	while (i && order[i - 1] > order[i])
		i--;
	if (i == 0)
		return false;
	while (order[k] < order[i - 1])
		k--;
	swap_packets(&order[i - 1], &order[k]);
	for (k = PACKETS - 1; i < k; i++, k--)
		swap_packets(&order[i], &order[k]);
	return true;
}

static void run_all(uint32_t of_object, uint32_t open_max)
{
	uint8_t order[PACKETS] = {0, 1, 2, 3, 4, 5};
	uint64_t base = 1000, orders = 0;

	kit_init(&kit, 32, of_object * GRANULE, GRANULE);
	kit.desc.rule.open_max = open_max;
	kit.on_receipt = receipt_is_the_models;
	kit_open(&kit);
	naive_init(&naive, open_max, of_object, base);
	do {
		for (uint32_t v = 0; v < LOSSES * DOUBLES; v++, base += PACKETS / of_object) {
			is_eager = (orders + v) % 2;
			run_order(order, base, of_object, v);
		}
		orders++;
	} while (next_order(order));
	assert_int_equal(orders, 720);
	kit_close(&kit);
}

static void every_order_is_as_the_model_says(void **state)
{
	(void)state;
	for (uint32_t open_max = 1; open_max <= 3; open_max++)
		run_all(2, open_max);
	for (uint32_t open_max = 1; open_max <= 2; open_max++)
		run_all(3, open_max);
	assert_true(receipts > 1000000);
	assert_true(frames[SPW_OBJ_FATE_placed] && frames[SPW_OBJ_FATE_duplicate] &&
		    frames[SPW_OBJ_FATE_late]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_order_is_as_the_model_says)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
