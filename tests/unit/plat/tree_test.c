/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The tree under lines that nobody's machine would give: many removals, many numbers in braces,
 * and names that sort close to a folder's.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "plat/tree_impl.h"
#include "unit_test.h"

#define FILES 32000u
#define LIMIT_S                                                                           \
	10 /* of CPU time; each of these loads took minutes where it grew with the square \
	    */

static struct plat_tree *tree;

static int setup(void **state)
{
	(void)state;
	return plat_tree_new(false, &tree);
}

static int teardown(void **state)
{
	(void)state;
	plat_tree_free(tree);
	return 0;
}

static int load(const char *text)
{
	return plat_tree_load(tree, "t", text, strlen(text));
}

/* The line with its number, FILES times. */
static int load_many(const char *line)
{
	char *text = malloc(FILES * 64), *at = text;
	clock_t begin = clock();
	int rc;

	assert_non_null(text);
	for (uint32_t i = 0; i < FILES; i++) {
		char number[16], *end = stpcpy(at, line), *mark = strchr(at, '#');

		snprintf(number, sizeof(number), "%05u", i);
		if (mark)
			memcpy(mark, number, 5);
		at = end;
	}
	rc = load(text);
	free(text);
	assert_true((clock() - begin) / CLOCKS_PER_SEC < LIMIT_S);
	return rc;
}

static void test_many_removals(void **state)
{
	(void)state;
	assert_int_equal(load_many("a/##### = x\n"), 0);
	assert_int_equal(tree->cnt, FILES);
	assert_int_equal(load_many("a/##### ! ENOENT\n"), 0);
	assert_int_equal(tree->cnt, 0);
}

static void test_many_numbers(void **state)
{
	(void)state;
	assert_int_equal(load_many("cpu{0-1023} = x\n"), -E2BIG);
	assert_int_equal(load("cpu0 = y\n"), -E2BIG);
}

static void test_folder_and_neighbours(void **state)
{
	static const char *const stay[] = {"a", "ab", "a-2/x", "a\x01/x", "b/c/d"};

	(void)state;
	assert_int_equal(load("a = 1\nab = 1\na-2/x = 1\na\\x01/x = 1\na/b/x = 1\na/b-2 = 1\n"
			      "b/c/d = 1\na/b/y = 1\na/b = 1\nb/c/d/ = e\nb/c/d/e/f = 1\n"),
			 0);
	assert_int_equal(tree->cnt, 11);
	plat_tree_remove(tree, "a/b");
	assert_int_equal(tree->cnt, 8);
	plat_tree_remove(tree, "a/b-2");
	plat_tree_remove(tree, "b/c/d/e");
	plat_tree_remove(tree, "b/c/d/");
	assert_int_equal(tree->cnt, SPW_ARRAY_CNT(stay));
	for (size_t i = 0; i < SPW_ARRAY_CNT(stay); i++)
		assert_non_null(plat_tree_find(tree, stay[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_many_removals, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_numbers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_folder_and_neighbours, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
