/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Loads a recorded machine, or changes to one (tree.h has the format), into a tree.
 *
 *   object --load_folder--> each member: an object again, or a leaf
 *   leaf   --load_leaf----> a list {..} in its path: once for each number; else once
 *
 * A loaded document may come from anywhere: a bug report, a machine that failed, a fuzzer
 * (tests/fuzz). Every member is checked, and a wrong one is reported by its path.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "plat/spw_plat.h"
#include "plat/tree_impl.h"

#define PATH_BYTES ((int)PLAT_TREE_PATH_MAX - 8) /* of a loaded path, with its end */

/* ENOENT removes the path and what is below it, so that a few members can describe a machine that
 * lacks something. Null is a file that was seen and not read: it takes nothing away. */
static int load_put(struct plat_tree *tree, const char *path, const char *mark, const char *text)
{
	int error = strcmp(mark, "!") ? 0 : plat_tree_error(text);

	if (tree->change_cnt == PLAT_TREE_CHANGE_MAX)
		return -E2BIG;
	if (!text)
		return plat_tree_find(tree, path) ? 0
						  : plat_tree_set(tree, path, mark, json_null());
	if (!strcmp(mark, "!") && !error)
		return -EINVAL;
	if (error != ENOENT)
		return plat_tree_set(tree, path, mark, json_string(text));
	tree->change_cnt++;
	plat_tree_remove(tree, path);
	return 0;
}

/* text with number in place of each {}; cut to the buffer. */
static void load_fill(char *out, size_t bytes, const char *text, uint32_t number)
{
	size_t used = 0;

	while (*text && used + 12 < bytes) {
		if (!strncmp(text, "{}", 2)) {
			used += (size_t)snprintf(out + used, bytes - used, "%u", number);
			text += 2;
		} else {
			out[used++] = *text++;
		}
	}
	out[used] = '\0';
}

/* A path has one list: what is saved must be read as what it is, and has no brace. The path is
 * checked for each number, since a longer number makes a longer path. */
static int load_put_each(struct plat_tree *tree, const char *path, const char *mark,
			 const char *text)
{
	int before = (int)strcspn(path, "{"), list = (int)strcspn(path + before, "}");
	char numbers[PLAT_TREE_PATH_MAX], full[PLAT_TREE_PATH_MAX], filled[1024];
	bool set[SPW_PLAT_CORE_MAX] = {false};
	int rc = 0;

	snprintf(numbers, sizeof(numbers), "%.*s", list - 1, path + before + 1);
	if (!path[before + list] || strchr(path + before + list, '{') ||
	    spw_plat_list_parse(numbers, set, SPW_PLAT_CORE_MAX) < 0)
		return -EINVAL;
	for (uint32_t i = 0; i < SPW_PLAT_CORE_MAX && rc == 0; i++) {
		if (!set[i])
			continue;
		if (snprintf(full, sizeof(full), "%.*s%u%s", before, path, i,
			     path + before + list + 1) >= PATH_BYTES)
			return -EINVAL;
		load_fill(filled, sizeof(filled), text ? text : "", i);
		rc = load_put(tree, full, mark, text ? filled : NULL);
	}
	return rc;
}

static int load_leaf(struct plat_tree *tree, const char *name, const char *path, const char *mark,
		     const json_t *value)
{
	const char *text = json_string_value(value);
	int rc = -EINVAL;

	if (text || (json_is_null(value) && !strcmp(mark, "=")))
		rc = (strchr(path, '{') ? load_put_each : load_put)(tree, path, mark, text);
	if (rc == -E2BIG)
		return spw_err(E2BIG, "%s: %s: too many files or changes of files, the limit is %u",
			       name, path, PLAT_TREE_CHANGE_MAX);
	return rc ? spw_err(EINVAL, "%s: %s: is no text, {\"->\": LINK} or {\"!\": ERRNO}", name,
			    path)
		  : 0;
}

/* A wrong member ends the load. What was loaded stays in the tree, which the caller frees. */
static int load_folder(struct plat_tree *tree, const char *name, const char *path, json_t *folder)
{
	const char *key;
	json_t *value;
	int rc = 0;

	json_object_foreach (folder, key, value) {
		char below[PLAT_TREE_PATH_MAX];

		if (!strcmp(key, "#"))
			continue;
		if (snprintf(below, sizeof(below), "%s%s%s", path, *path ? "/" : "", key) >=
			    PATH_BYTES ||
		    !key[0])
			return spw_err(EINVAL, "%s: %s: a name in it is empty, or too long", name,
				       path);
		if (plat_tree_is_mark(key))
			rc = load_leaf(tree, name, path, key, value);
		else if (json_is_object(value))
			rc = load_folder(tree, name, below, value);
		else
			rc = load_leaf(tree, name, below, "=", value);
		if (rc)
			break;
	}
	return rc;
}

int plat_tree_load(struct plat_tree *tree, const char *name, const json_t *document)
{
	if (!json_is_object(document))
		return spw_err(EINVAL, "%s: is no recorded machine: not an object", name);
	return load_folder(tree, name, "", (json_t *)(uintptr_t)document);
}
