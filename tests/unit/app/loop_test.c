/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Where the frames of a port went, by what its physical port counted.
 */
#include "app_loop.h"
#include "unit_test.h"

static void test_judge(void **state)
{
	static const struct {
		struct spw_port_stat stat;
		enum app_loop loop;
	} table[] = {
		{{.rx_frames = 1000, .tx_frames = 1000}, APP_LOOP_UNKNOWN},
		{{.rx_frames = 1000, .tx_frames = 1000, .phy_known = true}, APP_LOOP_INSIDE},
		{{.rx_frames = 1000, .phy_known = true, .phy_rx_packets = 1000}, APP_LOOP_CABLE},
		{{.tx_frames = 1000, .phy_known = true, .phy_tx_packets = 1000}, APP_LOOP_CABLE},
		/* other traffic on the cable, which is less than ours */
		{{.rx_frames = 1000, .phy_known = true, .phy_rx_packets = 30}, APP_LOOP_INSIDE},
		/* counters that are refreshed late */
		{{.rx_frames = 1000, .phy_known = true, .phy_rx_packets = 990}, APP_LOOP_CABLE},
		/* nothing to judge by */
		{{.rx_frames = 3, .phy_known = true}, APP_LOOP_UNKNOWN},
		{{.rx_frames = 3, .phy_known = true, .phy_rx_packets = 3}, APP_LOOP_UNKNOWN},
	};

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(table); i++)
		assert_int_equal(app_loop_judge(&table[i].stat), table[i].loop);
}

static void test_text(void **state)
{
	const struct spw_port_stat inside = {.rx_frames = 700, .tx_frames = 300, .phy_known = true},
				   unknown = {.rx_frames = 700};
	char *text = NULL;
	size_t bytes = 0;
	FILE *file = open_memstream(&text, &bytes);

	(void)state;
	app_loop_print(file, "", &unknown);
	assert_int_equal(fflush(file), 0);
	assert_int_equal(bytes, 0);
	app_loop_print(file, "", &inside);
	fclose(file);
	assert_non_null(strstr(text, "NO CABLE: 1000 frames"));
	assert_non_null(strstr(text, "counted 0 packets"));
	free(text);
}

static void test_json(void **state)
{
	const struct spw_port_stat unknown = {.rx_frames = 700},
				   inside = {.rx_frames = 700, .phy_known = true},
				   few = {.phy_known = true, .phy_rx_packets = 2};
	json_t *a = app_loop_json(&unknown), *b = app_loop_json(&inside), *c = app_loop_json(&few);

	(void)state;
	assert_true(json_is_null(a));
	assert_true(json_is_true(json_object_get(b, "inside_nic")));
	assert_true(json_is_null(json_object_get(c, "inside_nic")));
	assert_int_equal(json_integer_value(json_object_get(c, "rx_packets")), 2);
	json_decref(a);
	json_decref(b);
	json_decref(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_judge),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
