/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Finds the scripts that belong to this program.
 */
#ifndef APP_TOOL_H
#define APP_TOOL_H

#include <stdbool.h>

/* Purpose: finds a script of spinwire: beside this program where it is installed, in tools/ of the
 *   source tree whose build folder this program lies in, else by PATH. In the first two places only
 *   what is as much to be trusted as this program's own file is taken, and the log says what was
 *   not: in a shared folder both places may be somebody else's.
 * Lifetime: until the next call. Thread: main. */
char *app_tool_find(const char *installed, const char *in_tree);

/* Returns: whether the file and its folder belong to root, this user or the owner of the file
 * `own`, and nobody may write them who may not write `own`. Thread: any. */
bool app_tool_is_trusted(const char *path, const char *own);

#endif
