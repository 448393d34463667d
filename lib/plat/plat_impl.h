/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/plat: small files below a root, and one reader per kind of fact.
 */
#ifndef PLAT_IMPL_H
#define PLAT_IMPL_H

#include "plat/spw_plat.h"

#define PLAT_PATH_BYTES 4096u

/* The roots that are really used, without a slash at the end. */
struct plat_root {
	const char *sys, *proc, *cuda_lib;
};

/* ---- files
 * ---------------------------------------------------------------------------------------- */

/* Purpose: the first line of root/PATH without white space at its ends. Returns: false and "" if it
 * cannot be read. */
bool plat_text(char *out, size_t bytes, const char *root, const char *fmt, ...) SPW_PRINTF(4, 5);
/* Purpose: a number (decimal, or hexadecimal with 0x) from root/PATH; dflt if there is none. */
int64_t plat_number(int64_t dflt, const char *root, const char *fmt, ...) SPW_PRINTF(3, 4);
/* Purpose: the number behind "LABEL" at the start of a line of root/path; dflt if there is none. */
int64_t plat_labelled(int64_t dflt, const char *root, const char *path, const char *label);
/* Purpose: what stands behind the label, to the end of the line, white space at its ends left out.
 */
bool plat_label_text(char *out, size_t bytes, const char *root, const char *path,
                     const char *label);
/* Purpose: calls fn for each name in a folder, in order; fn returns false to stop. */
void plat_each(const char *root, const char *path, bool (*fn)(const char *name, void *arg),
               void *arg);
/* Purpose: last component of what a link points to; "" if it is no link. */
void plat_link_name(char *out, size_t bytes, const char *root, const char *fmt, ...)
        SPW_PRINTF(4, 5);

/* Purpose: "0-3,8" into set[0 .. cnt-1]; numbers beyond cnt are left out. Returns: how many were
 * set. */
uint32_t plat_list(const char *text, bool *set, uint32_t cnt);
/* Purpose: the reverse. */
void plat_list_text(const bool *set, uint32_t cnt, char *out, size_t bytes);

/* Purpose: copies what fits. */
void plat_copy(char *out, size_t bytes, const char *text);

/* ---- readers: each fills its part of plat
 * ------------------------------------------------------------ */

int plat_cores_read(const struct plat_root *root, struct spw_plat *plat);
void plat_nodes_read(const struct plat_root *root, struct spw_plat *plat);
void plat_nics_read(const struct plat_root *root, struct spw_plat *plat);
void plat_gpus_read(const struct plat_root *root, struct spw_plat *plat);
void plat_findings_make(struct spw_plat *plat);

#endif
