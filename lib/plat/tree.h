/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The files from which the facts come, by their path without the first slash:
 * "sys/class/net/eth0/mtu". A live tree reads the running machine and keeps what it read, so that
 * it can be saved; a loaded one holds what was saved. Answers of system calls and libraries are
 * kept as files too: ethtool/, addr/, access/, env/, build/, cuda/, nvml/ (probe/ puts them there),
 * and what was measured is below measured/. later/ holds counters read again after a while.
 *
 *   # comment
 *   sys/class/net/eth0/mtu = 9000                 text; \n, \t, \\ and \xHH stand for bytes
 *   sys/class/net/eth0/device -> /sys/devices/..  a link, to a path of the tree or relative
 *   sys/class/net/eth0/speed ! EINVAL             reading it fails
 *   sys/class/net/eth1 ! ENOENT                   it is not there, nor what is below it
 *   sys/devices/system/cpu/cpu{0-3}/online = 1    four lines; {} in the text is the number
 *
 * A later line replaces an earlier one, so a change to a machine is a few more lines. A last line
 * without its end is torn: its file cannot be read (EBADMSG).
 */
#ifndef PLAT_TREE_H
#define PLAT_TREE_H

#include <stdio.h>

#include "base/spw_types.h"

#define PLAT_TREE_ENTRY_MAX 65536u
#define PLAT_TREE_LOAD_MAX  (8u * PLAT_TREE_ENTRY_MAX) /* that loaded lines put or remove */
#define PLAT_TREE_PATH_MAX  512u

struct plat_entry {
	char *path;
	char *text; /* ends with a 0; the target of a link */
	int error;  /* errno of reading it; 0: text holds it */
	bool link;
};

struct plat_tree;

/* Purpose: an empty tree; a live one reads what it does not hold from the running machine.
 * Owner: the caller, until plat_tree_free.
 * Errors: -ENOMEM.
 */
int plat_tree_new(bool live, struct plat_tree **tree_out);
void plat_tree_free(struct plat_tree *tree);
bool plat_tree_is_live(const struct plat_tree *tree);

/* Purpose: adds the lines of a saved tree. name is for error texts.
 * Errors: -EINVAL with name and line; -E2BIG more than PLAT_TREE_ENTRY_MAX files, or
 *   PLAT_TREE_LOAD_MAX changes of files; -ENOMEM.
 */
int plat_tree_load(struct plat_tree *tree, const char *name, const char *text, size_t bytes);

/* Purpose: writes all files that were read, in the order of their paths.
 * Errors: -EIO.
 */
int plat_tree_save(const struct plat_tree *tree, FILE *file);

/* Purpose: the whole text of a file. A live tree reads it at the first call and keeps it.
 * Returns: 0, or the errno of reading it. text_out is valid until the entry is replaced.
 */
int plat_tree_read(struct plat_tree *tree, const char *path, const char **text_out);

/* Purpose: whether the running machine's file system could have the path; what probes put is not
 *   there.
 */
bool plat_tree_is_file(const char *path);

/* Purpose: puts a file, or the errno of reading it, in place of what was there. Without memory
 *   nothing is put, and the file is not there.
 */
void plat_tree_put(struct plat_tree *tree, const char *path, const char *text);
void plat_tree_put_error(struct plat_tree *tree, const char *path, int error);

/* Purpose: the path that a link leads to.
 * Returns: false, and out is "", if path is not there.
 */
bool plat_tree_real(struct plat_tree *tree, const char *path, char out[PLAT_TREE_PATH_MAX]);

/* Purpose: calls fn with each name in a folder, in alphabetical order, until fn returns false.
 */
void plat_tree_each(struct plat_tree *tree, const char *path,
		    bool (*fn)(const char *name, void *arg), void *arg);

#endif
