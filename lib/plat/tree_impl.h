/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Shared by tree.c and tree_text.c.
 */
#ifndef PLAT_TREE_IMPL_H
#define PLAT_TREE_IMPL_H

#include "plat/tree.h"

struct plat_tree {
	bool live;
	void *root; /* of tsearch(), struct plat_entry */
	uint32_t cnt;
	uint32_t loaded; /* entries that were put or removed by loaded lines */
};

/* Purpose: an entry by its path; NULL if the tree does not hold it. */
const struct plat_entry *plat_tree_find(const struct plat_tree *tree, const char *path);

/* Purpose: adds or replaces an entry.
 * Errors: -ENOMEM, -E2BIG; no text.
 */
int plat_tree_set(struct plat_tree *tree, const char *path, const char *text, int error, bool link);

/* Purpose: removes a path and all below it. */
void plat_tree_remove(struct plat_tree *tree, const char *path);

#endif
