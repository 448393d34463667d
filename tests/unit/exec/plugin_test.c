/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Plug-ins: the worked example runs; what is no plug-in is refused with one clear text.
 * usage: plugin_test TTL.so WRONG_ABI.so NO_SYMBOL.so STATE.so LIES.so */
#include "../unit_test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "exec/spw_handler.h"

static char **path;

static void example_runs(void **state)
{
	const struct spw_handler *h;
	uint8_t frame[3][64] = {{0}};
	struct spw_handler_env env = {.region_base = {(uint64_t)(uintptr_t)frame}};
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
	h->host(desc, 3, &env, &tally);
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
	refused(path[2], -EINVAL, "ABI 5, this program has 4");
	refused(path[3], -EINVAL, "exports no spw_handler_plugin");
	refused("./there_is_none.so", -ENOENT, "there_is_none.so");
	refused("nul", -ENOENT, "there are null, sum, crc32c and echo");
}

/* PATH:ARGS, for spw_handler_open. */
static const char *with(const char *plugin, const char *args)
{
	static char spec[4200];

	snprintf(spec, sizeof(spec), "%s:%s", plugin, args);
	return spec;
}

/* What plugins/state.c declares. */
struct state {
	uint64_t step, hits[4], all;
	char file[64];
};

static void arguments_are_set(void **state)
{
	const struct spw_handler *h, *other;
	const struct state *initial;

	(void)state;
	assert_int_equal(spw_handler_open(path[4], &h), 0);
	initial = h->initial;
	assert_int_equal(initial->step, 1);
	assert_string_equal(initial->file, "");
	assert_int_equal(spw_handler_open(with(path[4], "step=0x10,file=/dev/null"), &other), 0);
	assert_int_equal(initial->step, 1); /* each opening has its own */
	initial = other->initial;
	assert_int_equal(initial->step, 16);
	assert_string_equal(initial->file, "/dev/null");
	spw_handler_close(other);
	spw_handler_close(h);
}

static void refused_args(const char *plugin, const char *args, const char *text)
{
	const struct spw_handler *h;

	assert_int_equal(spw_handler_open(with(plugin, args), &h), -EINVAL);
	assert_non_null(strstr(spw_err_text(), text));
	assert_non_null(strstr(spw_err_text(), plugin));
}

static void wrong_arguments_are_refused(void **state)
{
	(void)state;
	refused_args(path[4], "stop=1",
		     "no argument 'stop'; it takes step=1..99 (what a frame counts), file=TEXT");
	refused_args(path[4], "step", "step has no value");
	refused_args(path[4], "step=100", "step=100: 1 .. 99");
	refused_args(path[4], "step=-1", "1 .. 99");
	refused_args(path[4], "step=7x", "1 .. 99");
	refused_args(path[4], "", "no argument ''");
	refused_args(path[4],
		     "file=/a/text/of/more/than/64/bytes/that/has/no/place/in/the/state/of/it",
		     "at most 63 bytes");
	refused_args(path[4], "step=13", "13 is no good number"); /* by its init */
	refused_args(path[1], "step=1", "it takes nothing");
	refused(path[5], -EINVAL, "counter 'beyond'");
	refused("echo:step=1", -ENOENT, "there are null");
}

static uint64_t run_one(const struct spw_handler *h, void *block, uint8_t first)
{
	uint8_t frame[64] = {first};
	struct spw_handler_env env = {{(uint64_t)(uintptr_t)frame}, block};
	struct spw_gring_desc desc = {spw_gring_lo(0, 0, 0), spw_gring_hi(0, 64, 0, 0, 0, 1)};
	struct spw_tally tally;

	h->host(&desc, 1, &env, &tally);
	return tally.digest;
}

/* Blocks of two rings, the sum, and what fini is given. */
static void counters_are_added_up(void **state)
{
	char file[] = "/tmp/spinwire-plugin.XXXXXX", args[96], said[64] = {0};
	struct state block[2], sum = {0};
	const struct spw_handler *h;
	int fd = mkstemp(file);

	(void)state;
	assert_true(fd >= 0);
	snprintf(args, sizeof(args), "step=5,file=%s", file);
	assert_int_equal(spw_handler_open(with(path[4], args), &h), 0);
	for (int i = 0; i < 2; i++) {
		memcpy(&block[i], h->initial, sizeof(block[i]));
		for (int n = 0; n <= i; n++)
			assert_int_equal(run_one(h, &block[i], 3), 5);
		spw_handler_counters_add(h, &block[i], &sum);
		spw_handler_counters_add(h, &block[i], h->total);
	}
	assert_int_equal(sum.all, 15);
	assert_int_equal(sum.hits[3], 3);
	assert_int_equal(sum.step, 0);
	spw_handler_close(h);
	assert_true(read(fd, said, sizeof(said) - 1) > 0);
	assert_string_equal(said, "all 15, step 5");
	close(fd);
	unlink(file);
}

static void largest_of_a_table(void **state)
{
	static const struct spw_handler_counter table = {"t", "a table", "place", 0, 8, 0};
	const uint64_t value[8] = {0, 7, 9, 0, 7, 1, 9, 2};
	uint64_t sum;
	uint32_t at[8], used;

	(void)state;
	assert_int_equal(spw_handler_counter_top(&table, value, 3, at, &sum, &used), 3);
	assert_int_equal(at[0], 2);
	assert_int_equal(at[1], 6);
	assert_int_equal(at[2], 1);
	assert_int_equal(sum, 35);
	assert_int_equal(used, 6);
	assert_int_equal(spw_handler_counter_top(&table, value, 8, at, &sum, &used), 6);
	assert_int_equal(at[5], 5);
	assert_int_equal(spw_handler_counter_top(&table, value, 0, at, &sum, &used), 0);
	assert_int_equal(sum, 35);
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
		cmocka_unit_test(arguments_are_set),
		cmocka_unit_test(wrong_arguments_are_refused),
		cmocka_unit_test(counters_are_added_up),
		cmocka_unit_test(largest_of_a_table),
		cmocka_unit_test(open_and_close_many_times),
	};

	path = argv;
	return argc == 6 ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
