/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The files from which the facts come, by their path without the first slash:
 * "sys/class/net/eth0/mtu". A live tree reads the running machine and keeps what it read, so that
 * it can be saved; a loaded one holds what was saved. Answers of system calls and libraries are
 * kept as files too: ethtool/, addr/, access/, env/, build/, cuda/, nvml/ (probe/ puts them there),
 * and what was measured is below measured/. later/ holds counters read again after a while.
 *
 *   {"#": "comment",
 *    "sys/class/net/eth0/mtu": "9000",                       text; the path may also be nested:
 *    "sys": {"class": {"net": {"eth0": {
 *       "device": {"->": "/sys/devices/.."},                 a link, to a path or relative
 *       "speed": {"!": "EINVAL"},                            reading it fails
 *       "power": null}}}},                                   it is there, and was not read
 *    "sys/class/net/eth1": {"!": "ENOENT"},                  not there, nor what is below it
 *    "sys/devices/system/cpu/cpu{0-3}/online": "1"}          four files; {} in the text: the number
 *
 * A file that is a folder too has its text under "=". A later document changes what an earlier one
 * has, so a change to a machine is a few members.
 */
#ifndef PLAT_TREE_H
#define PLAT_TREE_H

#include "base/spw_types.h"

#define PLAT_TREE_CHANGE_MAX (1u << 17) /* folders made, values put or removed */
#define PLAT_TREE_PATH_MAX   512u

struct plat_tree;
struct json_t; /* jansson's json_t */

/* Purpose: an empty tree; a live one reads what it does not hold from the running machine.
 * Owner: the caller, until plat_tree_free.
 * Errors: -ENOMEM.
 */
int plat_tree_new(bool live, struct plat_tree **tree_out);
void plat_tree_free(struct plat_tree *tree);
bool plat_tree_is_live(const struct plat_tree *tree);

/* Purpose: adds a saved tree, or changes to it. name is for error texts.
 * Errors: -EINVAL with name and path; -E2BIG more than PLAT_TREE_CHANGE_MAX changes.
 */
int plat_tree_load(struct plat_tree *tree, const char *name, const struct json_t *document);

/* Purpose: all files that were read, in that order; a new reference. */
struct json_t *plat_tree_document(const struct plat_tree *tree);

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
