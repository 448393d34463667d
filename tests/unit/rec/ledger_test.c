/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include "rec/spw_ledger.h"
#include "unit_test.h"

static const char *const port_reason[] = {"too_long", "rx_error"};
static const char *const bad_reason[] = {"short_frame", "checksum", "handler"};
static const char *const fate[] = {"placed", "late"};

/* A run of 1000 frames in which a little of everything happened, and every counter agrees. */
static struct spw_ledger balanced(void)
{
	const uint64_t port_count[] = {10, 5}, bad_count[] = {7, 0, 3}, fate_count[] = {120, 10};
	struct spw_ledger_lcore lcore = {.polled_frames = 955,
					 .polled_bytes = 955 * 64,
					 .pushed_frames = 930,
					 .pushed_batches = 31,
					 .reaped_batches = 31,
					 .reaped_frames = 928,
					 .consumed_frames = 511,
					 .bad_frames = 10,
					 .tx_frames = 387};
	struct spw_ledger ledger = {.wire_frames = 1000,
				    .missed_frames = 30,
				    .missed_known = true,
				    .lent_frames = 955,
				    .sent_frames = 380,
				    .flushed_frames = 7,
				    .executed_frames = 928,
				    .plain_frames = 800,
				    .pool_slots = 512,
				    .pool_free = 512};

	lcore.dropped[SPW_DROP_ring_full] = 24;
	lcore.dropped[SPW_DROP_stopping] = 1;
	lcore.dropped[SPW_DROP_exec_lost] = 2;
	lcore.dropped[SPW_DROP_tx_full] = 15;
	lcore.dropped[SPW_DROP_tx_down] = 5;
	spw_ledger_add_lcore(&ledger, &lcore);
	spw_ledger_add_reasons(&ledger.port_dropped, port_reason, port_count, 2);
	spw_ledger_add_reasons(&ledger.bad, bad_reason, bad_count, 3);
	spw_ledger_add_reasons(&ledger.fate, fate, fate_count, 2);
	return ledger;
}

static void a_true_ledger_balances(void **state)
{
	struct spw_ledger ledger = balanced();
	struct spw_ledger_sum sum;

	(void)state;
	spw_ledger_balance(&ledger, &sum);
	assert_int_equal(sum.residual, 0);
	assert_int_equal(sum.leaked, 0);
	assert_int_equal(sum.wire, 1000);
	assert_int_equal(sum.received, 970);
	assert_int_equal(sum.dropped, 15 + 27 + 27);
	assert_int_equal(sum.tx_dropped, 27);
	assert_int_equal(sum.wire, sum.missed + sum.received);
	assert_int_equal(sum.received, sum.dropped - sum.tx_dropped + sum.executed);
	assert_int_equal(sum.executed, sum.echoed + sum.tx_dropped + sum.consumed + sum.bad);
}

/* Each counter that is off shows on the edges that it is part of, and nowhere else. */
static void each_edge_has_two_sides(void **state)
{
	static const struct {
		size_t offset;
		unsigned int edges;
	} cases[] = {
#define AT(field) offsetof(struct spw_ledger, field)
#define E(edge)   (1u << SPW_EDGE_##edge)
		{AT(wire_frames), E(wire)},
		{AT(missed_frames), E(wire)},
		{AT(lent_frames), E(wire) | E(received)},
		{AT(port_dropped.count[1]), E(wire)},
		{AT(pipe.polled_frames), E(received) | E(executed)},
		{AT(pipe.dropped[SPW_DROP_ring_full]), E(executed)},
		{AT(pipe.dropped[SPW_DROP_tx_full]), E(verdict)},
		{AT(executed_frames), E(executed) | E(verdict) | E(placed)},
		{AT(fate.count[1]), E(placed)},
		{AT(plain_frames), E(placed)},
		{AT(pipe.consumed_frames), E(verdict)},
		{AT(pipe.bad_frames), E(verdict) | E(bad)},
		{AT(bad.count[2]), E(bad)},
		{AT(pipe.tx_frames), E(verdict) | E(sent)},
		{AT(sent_frames), E(sent)},
		{AT(flushed_frames), E(sent)},
#undef E
#undef AT
	};

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(cases); i++) {
		for (int off = -3; off <= 3; off += 6) {
			struct spw_ledger ledger = balanced();
			struct spw_ledger_sum sum;

			*(uint64_t *)((char *)&ledger + cases[i].offset) += (uint64_t)off;
			spw_ledger_balance(&ledger, &sum);
			for (unsigned int e = 0; e < SPW_EDGE_CNT; e++)
				assert_int_equal(sum.edge[e] != 0, (cases[i].edges >> e) & 1);
			assert_int_equal(sum.residual, 3 * __builtin_popcount(cases[i].edges));
		}
	}
}

static void without_objects_nothing_is_placed(void **state)
{
	struct spw_ledger ledger = balanced();
	struct spw_ledger_sum sum;

	(void)state;
	memset(&ledger.fate, 0, sizeof(ledger.fate));
	ledger.plain_frames = 0;
	spw_ledger_balance(&ledger, &sum);
	assert_int_equal(sum.residual, 0);
}

static void opposite_errors_do_not_cancel(void **state)
{
	struct spw_ledger ledger = balanced();
	struct spw_ledger_sum sum;

	(void)state;
	ledger.wire_frames += 4;
	ledger.sent_frames += 4;
	ledger.pool_free -= 1;
	spw_ledger_balance(&ledger, &sum);
	assert_int_equal(sum.edge[SPW_EDGE_wire], 4);
	assert_int_equal(sum.edge[SPW_EDGE_sent], -4);
	assert_int_equal(sum.residual, 8);
	assert_int_equal(sum.leaked, 1);
}

static void unknown_stays_unknown(void **state)
{
	struct spw_ledger ledger = balanced();
	struct spw_ledger_sum sum;

	(void)state;
	ledger.missed_known = false;
	ledger.missed_frames = 0;
	ledger.wire_frames = 970; /* all that such a port can say */
	spw_ledger_balance(&ledger, &sum);
	assert_false(sum.missed_known);
	assert_int_equal(sum.residual, 0);
}

static void several_sources_add_up(void **state)
{
	struct spw_ledger_lcore lcore = {
		.polled_frames = 1, .tx_frames = 2, .polled_bytes = 3, .pushed_batches = 4};
	const uint64_t count[] = {1, 2, 3};
	struct spw_ledger ledger = {0};

	(void)state;
	lcore.dropped[SPW_DROP_tx_down] = 9;
	for (int i = 0; i < 5; i++) {
		spw_ledger_add(&lcore.polled_frames, 1);
		spw_ledger_add_lcore(&ledger, &lcore);
		spw_ledger_add_reasons(&ledger.bad, bad_reason, count, 3);
	}
	assert_int_equal(ledger.pipe.polled_frames, 2 + 3 + 4 + 5 + 6);
	assert_int_equal(ledger.pipe.polled_bytes, 15);
	assert_int_equal(ledger.pipe.pushed_batches, 20);
	assert_int_equal(ledger.pipe.tx_frames, 10);
	assert_int_equal(ledger.pipe.dropped[SPW_DROP_tx_down], 45);
	assert_int_equal(ledger.bad.count[2], 15);
	spw_ledger_add_reasons(&ledger.bad, bad_reason, count, 0);
	assert_int_equal(ledger.bad.cnt, 0);
}

static void every_reason_is_listed_once(void **state)
{
	struct spw_ledger ledger = balanced();
	uint64_t count, sum = 0;
	uint32_t i;

	(void)state;
	for (i = 0; spw_ledger_drop(&ledger, i, &count); i++)
		sum += count;
	assert_int_equal(i, 2 + SPW_DROP_CNT);
	assert_int_equal(sum, 69);
	assert_string_equal(spw_ledger_drop(&ledger, 1, &count), "rx_error");
	assert_int_equal(count, 5);
	assert_string_equal(spw_ledger_drop(&ledger, 2, &count), "ring_full");
	assert_int_equal(count, 24);
	assert_string_equal(spw_edge_name(SPW_EDGE_sent), "sent");
	assert_non_null(strstr(spw_edge_text(SPW_EDGE_bad), "verdict"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_true_ledger_balances),
		cmocka_unit_test(each_edge_has_two_sides),
		cmocka_unit_test(without_objects_nothing_is_placed),
		cmocka_unit_test(opposite_errors_do_not_cancel),
		cmocka_unit_test(unknown_stays_unknown),
		cmocka_unit_test(several_sources_add_up),
		cmocka_unit_test(every_reason_is_listed_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
