/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A device is removed, as a DGX Spark does with the functions of a cable that is pulled: one line
 * says what to do, its messages go over the other rail, and new connections do without it.
 */
#include <sys/mman.h>

#include "base/spw_log.h"
#include "xfer_kit.h"

static struct kit k;
static uint32_t lines;

static void on_log(enum spw_log_level level SPW_UNUSED, const char *text, void *arg SPW_UNUSED)
{
	lines += strstr(text, "xfer: mlx5_0: the device failed or was removed: restart this "
			      "program when it is back") == text;
}

static void the_other_rail_carries_on(void **state SPW_UNUSED)
{
	spw_log_sink_set(on_log, NULL);
	kit_open(&k, "mlx5_0+mlx5_2", "mlx5_1+mlx5_3", NULL);
	kit_connect(&k);
	kit_wait_up(&k, 2);
	kit_memory(&k, 1u << 20);
	kit_pass(&k, 1u << 20, 1);
	kit_control("mlx5_0", NULL, "remove");
	for (uint64_t end = kit_now_ms() + KIT_WAIT_MS;
	     (kit_up_cnt(k.ab) > 1 || kit_up_cnt(k.ba) > 1) && kit_now_ms() < end;)
		kit_turn(&k);
	assert_int_equal(lines, 1);
	for (uint64_t i = 0; i < 20; i++)
		kit_pass(&k, 1u << 20, i);
	spw_xfer_listener_close(k.listener);
	spw_xfer_conn_close(k.ab);
	spw_xfer_conn_close(k.ba);
	k.ab = k.ba = NULL;
	kit_connect(&k);
	kit_wait_up(&k, 1);
	kit_pass(&k, 1u << 20, 30);
	munmap(k.buf_a, 2 * k.bytes);
	kit_memory(&k, 1u << 16); /* registered without it */
	kit_pass(&k, 1u << 16, 31);
	assert_int_equal(lines, 1);
	spw_log_sink_set(NULL, NULL);
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_other_rail_carries_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
