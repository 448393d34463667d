/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The tree under documents that nobody's machine would give: many removals, many numbers in braces,
 * names that begin like a folder's, texts that are none.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "plat/tree_impl.h"
#include "unit_machine.h"

/* Enough that growth with the square shows. Under AddressSanitizer each call of a string function
 * looks at the whole text (strict_string_checks), so the test itself grows like that. */
#ifdef __SANITIZE_ADDRESS__
#define FILES 4000u
#else
#define FILES 32000u
#endif
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

static int load(const char *members)
{
	json_t *json = unit_json(members);
	int rc = plat_tree_load(tree, "t", json);

	json_decref(json);
	return rc;
}

/* The member with its number, FILES times. */
static int load_many(const char *member)
{
	char *text = malloc(FILES * 64), *at = text;
	clock_t begin = clock();
	int rc;

	assert_non_null(text);
	for (uint32_t i = 0; i < FILES; i++) {
		char number[16], *end = stpcpy(at, member), *mark = strstr(at, "#####");

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
	assert_int_equal(load_many("'a/#####': 'x',"), 0);
	assert_int_equal(json_object_size(plat_tree_find(tree, "a")), FILES);
	assert_int_equal(load_many("'a/#####': {'!': 'ENOENT'},"), 0);
	assert_int_equal(json_object_size(plat_tree_find(tree, "a")), 0);
}

static void test_many_numbers(void **state)
{
	(void)state;
	assert_int_equal(load_many("'#####cpu{0-1023}': 'x',"), -E2BIG);
	assert_int_equal(load("'cpu0': 'y'"), -E2BIG);
}

/* A file and a folder of one name; a removal takes what is below it, and no neighbour. */
static void test_folder_and_neighbours(void **state)
{
	static const char *const stay[] = {"a", "ab", "a-2/x", "b/c/d"};
	static const char *const gone[] = {"a/b", "a/b/x", "a/b/y", "a/b-2", "b/c/d/e"};
	const char *text;

	(void)state;
	assert_int_equal(load("'a': '1', 'ab': '1', 'a-2/x': '1', 'a/b/x': '1', 'a/b-2': '1',"
			      "'b/c/d': '1', 'a/b': {'y': '1', '=': '1'}, 'b/c/d/e/f': '1'"),
			 0);
	assert_int_equal(plat_tree_read(tree, "a/b", &text), 0);
	plat_tree_remove(tree, "a/b");
	assert_int_equal(plat_tree_read(tree, "a/b-2", &text), 0);
	plat_tree_remove(tree, "a/b-2");
	plat_tree_remove(tree, "b/c/d/e");
	plat_tree_remove(tree, "b/x/y");
	for (size_t i = 0; i < SPW_ARRAY_CNT(stay); i++)
		assert_int_equal(plat_tree_read(tree, stay[i], &text), 0);
	for (size_t i = 0; i < SPW_ARRAY_CNT(gone); i++)
		assert_int_equal(plat_tree_read(tree, gone[i], &text), ENOENT);
}

static bool name_add(const char *name, void *arg)
{
	strcat(strcat(arg, name), " ");
	return true;
}

/* What may not be text of JSON is kept as digits; a name that would be a mark is not kept. */
static void test_odd_texts(void **state)
{
	const char *text;
	char names[64] = "";

	(void)state;
	plat_tree_put(tree, "f/latin", "\xe9");
	plat_tree_put(tree, "f/=", "x");
	plat_tree_put(tree, "f/plain", "1");
	plat_tree_put_error(tree, "f/plain/below", EACCES);
	assert_int_equal(plat_tree_read(tree, "f/latin", &text), 0);
	assert_string_equal(text, "e9");
	assert_int_equal(plat_tree_read(tree, "f/plain", &text), 0);
	assert_string_equal(text, "1");
	assert_int_equal(plat_tree_read(tree, "f/plain/below", &text), EACCES);
	assert_int_equal(plat_tree_read(tree, "f", &text), EISDIR);
	plat_tree_each(tree, "f", name_add, names);
	assert_string_equal(names, "latin plain ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_many_removals, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_numbers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_folder_and_neighbours, setup, teardown),
		cmocka_unit_test_setup_teardown(test_odd_texts, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
