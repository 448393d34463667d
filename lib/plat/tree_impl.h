/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Shared by tree.c and tree_load.c.
 */
#ifndef PLAT_TREE_IMPL_H
#define PLAT_TREE_IMPL_H

#include <jansson.h>

#include "plat/tree.h"

struct plat_tree {
	bool live;
	json_t *root;
	uint32_t change_cnt; /* folders that were made, values that were put or removed */
};

/* Purpose: whether a member is no file: "#", "=", "->", "!" (tree.h). */
bool plat_tree_is_mark(const char *name);

/* Purpose: the errno of a name. Returns: 0: there is none, or name is NULL. */
int plat_tree_error(const char *name);

/* Purpose: what the document has at a path; NULL: nothing. */
const json_t *plat_tree_find(struct plat_tree *tree, const char *path);

/* Purpose: puts a value under one of the marks "=", "->" and "!" in place of any that was there.
 * Owner: the reference to value passes to the tree, also on failure; NULL is -EINVAL.
 * Errors: -EINVAL the path cannot be a member's, -E2BIG; no text.
 */
int plat_tree_set(struct plat_tree *tree, const char *path, const char *mark, json_t *value);

/* Purpose: removes a path and all below it. */
void plat_tree_remove(struct plat_tree *tree, const char *path);

#endif
