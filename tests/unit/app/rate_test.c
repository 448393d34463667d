/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Rates as the reports print them.
 */
#include "app_rate.h"
#include "unit_test.h"

#define LINE_RATE_64B 1488095 /* frames a second of 64 bytes with FCS on 1 Gbit/s */

static void test_text(void **state)
{
	static const struct {
		struct app_rate rate;
		const char *text;
	} table[] = {
		{{.seconds = 1}, "0 frames/s, 0 bit/s"},
		{{.frames = 7, .bytes = 700, .seconds = 1}, "7 frames/s, 5.6 kbit/s"},
		{{.frames = 7, .bytes = 700}, "0 frames/s, 0 bit/s"},
		{{.frames = 2000000, .bytes = 128000000, .seconds = 2},
		 "1.000 M frames/s, 512.0 Mbit/s"},
		/* a full link is full, whatever Ethernet adds to a frame */
		{{.frames = LINE_RATE_64B,
		  .bytes = LINE_RATE_64B * 60,
		  .seconds = 1,
		  .link_bps = 1000000000},
		 "1.488 M frames/s, 714.3 Mbit/s, 100.0 % of the link"},
		/* shorter ones are padded by the NIC */
		{{.frames = LINE_RATE_64B,
		  .bytes = LINE_RATE_64B * 42,
		  .seconds = 1,
		  .link_bps = 1000000000},
		 "1.488 M frames/s, 500.0 Mbit/s, 100.0 % of the link"},
		{{.frames = 1000,
		  .bytes = 12500000000,
		  .seconds = 1,
		  .link_bps = 200000000000,
		  .messages = true},
		 "1.000 k messages/s, 100.0 Gbit/s, 50.0 % of the link"},
	};
	char out[APP_RATE_BYTES];

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(table); i++)
		assert_string_equal(app_rate_text(&table[i].rate, out), table[i].text);
}

/* Nothing is cut. */
static void test_longest(void **state)
{
	const struct app_rate rate = {.frames = UINT64_MAX,
				      .bytes = UINT64_MAX,
				      .seconds = 1,
				      .link_bps = 1,
				      .messages = true};
	char out[APP_RATE_BYTES];

	(void)state;
	assert_non_null(strstr(app_rate_text(&rate, out), "% of the link"));
}

/* Two ports, one of which does not know its speed; a count that a device took back is no rate. */
static void test_period(void **state)
{
	struct spw_tsc tsc;
	const struct spw_port_stat a = {.rx_frames = 5, .rx_bytes = 500, .link_bps = 1000},
				   b = {.rx_frames = 1, .tx_frames = 2};
	struct app_rate_period period;
	struct app_rate_count count = {0};

	(void)state;
	assert_int_equal(spw_tsc_calibrate(1, &tsc), 0);
	app_rate_add(&count, &a, false);
	assert_int_equal(count.link_bps, 1000);
	app_rate_add(&count, &a, false);
	assert_int_equal(count.link_bps, 2000);
	app_rate_add(&count, &b, false);
	assert_int_equal(count.link_bps, 0);
	app_rate_add(&count, &a, false);
	assert_int_equal(count.link_bps, 0);
	assert_int_equal(count.rx_frames, 16);
	assert_int_equal(count.tx_frames, 2);
	app_rate_begin(&period, 0, &tsc);
	assert_false(app_rate_is_due(&period));
	app_rate_begin(&period, 1000000000, &tsc);
	assert_false(app_rate_is_due(&period));
	period.next_tsc = period.start_tsc - 1;
	assert_true(app_rate_is_due(&period));
	app_rate_print(&period, &count);
	assert_int_equal(period.last.rx_frames, 16);
	assert_true(period.next_tsc - period.start_tsc < spw_tsc_from_ns(&tsc, 1000000000));
	period.next_tsc -= 5 * tsc.hz; /* the periods that were missed have no lines */
	app_rate_print(&period, &count);
	assert_false(app_rate_is_due(&period));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_longest),
		cmocka_unit_test(test_period),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
