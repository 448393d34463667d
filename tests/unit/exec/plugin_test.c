/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Plug-ins: the worked example runs; what is no plug-in is refused with one clear text.
 * usage: plugin_test TTL.so WRONG_ABI.so NO_SYMBOL.so */
#include "../unit_test.h"

#include <errno.h>

#include "exec/spw_handler.h"

static char **path;

static void example_runs(void **state)
{
	const struct spw_handler *h;
	uint8_t frame[3][64] = {{0}};
	uint64_t base[8] = {(uint64_t)(uintptr_t)frame};
	struct spw_gring_desc desc[3];
	struct spw_tally tally;

	(void)state;
	assert_int_equal(spw_handler_open(path[1], &h), 0);
	assert_string_equal(h->name, "ttl");
	for (uint32_t i = 0; i < 3; i++) {
		frame[i][12] = i == 2 ? 0x86 : 0x08;
		frame[i][22] = (uint8_t)(60 + i);
		desc[i].lo = spw_gring_lo(0, i * 64, 0);
		desc[i].hi = spw_gring_hi(0, 64, 0, 0, 0, 3);
	}
	h->host(desc, 3, base, &tally);
	assert_int_equal(tally.digest, 60 + 61);
	assert_int_equal(tally.frames, 3);
	assert_int_equal(tally.bad, 1ull << (7 * SPW_BAD_not_ipv4));
	spw_handler_close(h);
}

static void refused(const char *name, int rc, const char *text)
{
	const struct spw_handler *h;

	assert_int_equal(spw_handler_open(name, &h), rc);
	assert_non_null(strstr(spw_err_text(), text));
	assert_non_null(strstr(spw_err_text(), name));
}

static void wrong_ones_are_refused(void **state)
{
	(void)state;
	refused(path[2], -EINVAL, "ABI 3, this program has 2");
	refused(path[3], -EINVAL, "exports no spw_handler_plugin");
	refused("./there_is_none.so", -ENOENT, "there_is_none.so");
	refused("nul", -ENOENT, "there are null, sum, crc32c and echo");
}

static void open_and_close_many_times(void **state)
{
	const struct spw_handler *h;

	(void)state;
	for (uint32_t i = 0; i < 100; i++) {
		assert_int_equal(spw_handler_open(path[1], &h), 0);
		spw_handler_close(h);
	}
	spw_handler_close(NULL);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(example_runs),
		cmocka_unit_test(wrong_ones_are_refused),
		cmocka_unit_test(open_and_close_many_times),
	};

	path = argv;
	return argc == 4 ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
