/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/plat: small files below a root, and one reader for each kind of fact.
 */
#ifndef PLAT_IMPL_H
#define PLAT_IMPL_H

#include "plat/spw_plat.h"

#define PLAT_PATH_BYTES 4096u

/* The roots in use, without a slash at the end. */
struct plat_root {
	const char *sys, *proc, *cuda_lib;
};

/* ---- files ---- */

/* Purpose: the first line of root/PATH, without white space at its ends.
 * Returns: false, and out is "", if it cannot be read.
 */
bool plat_text(char *out, size_t bytes, const char *root, const char *fmt, ...) SPW_PRINTF(4, 5);

/* Purpose: the number in root/PATH, decimal or, with 0x, hexadecimal.
 * Returns: dflt if there is none.
 */
int64_t plat_number(int64_t dflt, const char *root, const char *fmt, ...) SPW_PRINTF(3, 4);

/* Purpose: the number after `label`, which starts a line of root/path.
 * Returns: dflt if there is none.
 */
int64_t plat_labelled(int64_t dflt, const char *root, const char *path, const char *label);

/* Purpose: the text after `label` to the end of its line, without white space at its ends.
 * Returns: false, and out is "", if there is no such line.
 */
bool plat_label_text(char *out, size_t bytes, const char *root, const char *path,
		     const char *label);

/* Purpose: calls fn for each name in a folder, in alphabetical order, until fn returns false.
 */
void plat_each(const char *root, const char *path, bool (*fn)(const char *name, void *arg),
	       void *arg);

/* Purpose: the last component of a link's target; "" if root/PATH is not a link.
 */
void plat_link_name(char *out, size_t bytes, const char *root, const char *fmt, ...)
	SPW_PRINTF(4, 5);

/* Purpose: sets set[n] for each number of a list like "0-3,8"; numbers from cnt on are ignored.
 * Returns: how many were newly set.
 */
uint32_t plat_list(const char *text, bool *set, uint32_t cnt);

/* Purpose: the reverse of plat_list; a text that is too long is cut.
 */
void plat_list_text(const bool *set, uint32_t cnt, char *out, size_t bytes);

/* Purpose: copies text, cut to `bytes` with its terminator.
 */
void plat_copy(char *out, size_t bytes, const char *text);

/* ---- readers: each fills its part of plat ---- */

int plat_cores_read(const struct plat_root *root, struct spw_plat *plat);
void plat_nodes_read(const struct plat_root *root, struct spw_plat *plat);
void plat_nics_read(const struct plat_root *root, struct spw_plat *plat);
void plat_gpus_read(const struct plat_root *root, struct spw_plat *plat);
void plat_findings_make(struct spw_plat *plat);

#endif
