/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A trail keeps its newest records, and its file has them from the oldest on.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "trail/spw_trail.h"
#include "unit_test.h"

#define RING (1u << SPW_TRAIL_LOG2)

static char path[] = "/tmp/spw-trail-test-XXXXXX";

static void fill(struct spw_trail *trail, uint64_t cnt)
{
	assert_int_equal(spw_trail_open(trail, 4), 0);
	for (uint64_t i = 0; i < cnt; i++)
		spw_trail_next(trail, SPW_TRAIL_SENT, 0, 7, (uint32_t)i)->at[0] = i;
}

/* Reads back one trail; its records must be those numbered first, first + 1 ... */
static void expect(FILE *file, uint64_t all, uint64_t first)
{
	struct spw_trail_head head;
	struct spw_trail_rec rec;

	assert_int_equal(fread(&head, sizeof(head), 1, file), 1);
	assert_memory_equal(head.magic, "SPWTRAIL", sizeof(head.magic));
	assert_int_equal(head.every, 4);
	assert_int_equal(head.all, all);
	assert_int_equal(head.kept, all - first);
	assert_string_equal(head.names, "gap=a,b");
	for (uint64_t i = first; i < all; i++) {
		assert_int_equal(fread(&rec, sizeof(rec), 1, file), 1);
		assert_int_equal(rec.at[0], i);
		assert_int_equal(rec.seq, (uint32_t)i);
		assert_int_equal(rec.flow, 7);
	}
}

/* The second one has gone round its ring and three records further. */
static void test_a_ring_goes_round(void **state)
{
	struct spw_trail a, b;
	const struct spw_trail *const both[] = {&a, &b};
	FILE *file;

	(void)state;
	fill(&a, 5);
	fill(&b, RING + 3ull);
	assert_int_equal(spw_trail_write(both, 2, "gap=a,b", path), 0);
	file = fopen(path, "r");
	assert_non_null(file);
	expect(file, 5, 0);
	expect(file, RING + 3ull, 3);
	assert_int_equal(fgetc(file), EOF);
	fclose(file);
	spw_trail_close(&a);
	spw_trail_close(&b);
}

static void test_which_frames(void **state)
{
	struct spw_trail trail;

	(void)state;
	assert_int_equal(spw_trail_open(&trail, 3), -EINVAL);
	assert_int_equal(spw_trail_open(&trail, 0), -EINVAL);
	spw_trail_close(&trail); /* a zeroed one */
	assert_int_equal(spw_trail_open(&trail, 8), 0);
	assert_true(spw_trail_wants(&trail, 0) && spw_trail_wants(&trail, UINT32_MAX - 7));
	assert_false(spw_trail_wants(&trail, 4) || spw_trail_wants(&trail, UINT32_MAX));
	spw_trail_close(&trail);
}

static void test_a_file_that_cannot_be(void **state)
{
	struct spw_trail trail;
	const struct spw_trail *const one = &trail;

	(void)state;
	fill(&trail, 1);
	assert_true(spw_trail_write(&one, 1, "", "/nowhere/trail") < 0);
	assert_non_null(strstr(spw_err_text(), "/nowhere/trail"));
	spw_trail_close(&trail);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_ring_goes_round),
		cmocka_unit_test(test_which_frames),
		cmocka_unit_test(test_a_file_that_cannot_be),
	};
	int fd = mkstemp(path), rc;

	if (fd < 0)
		return 1;
	close(fd);
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return rc;
}
