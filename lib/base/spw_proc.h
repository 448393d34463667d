/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Texts of /proc, as they were read: pure. Source: proc(5).
 */
#ifndef SPW_PROC_H
#define SPW_PROC_H

#include <string.h>

#include "base/spw_types.h"

/* Purpose: a field of a stat file by its number in proc(5), 3 and above. The name before them may
 *   hold anything, also spaces and parentheses.
 * Returns: where it begins, within stat; NULL: there are fewer.
 * Thread: any.
 */
SPW_INLINE const char *spw_proc_stat_field(const char *stat, uint32_t number)
{
	const char *at = strrchr(stat, ')');

	for (uint32_t i = 2; at && i < number; i++) {
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	return at;
}

/* Purpose: a variable of an environ file, "A=1\0B=2\0".
 * Shape: bytes: of the file; a byte 0 stands behind them.
 * Returns: its value, within environ; NULL: it is not set.
 * Thread: any.
 */
SPW_INLINE const char *spw_proc_variable(const char *environ, size_t bytes, const char *name)
{
	const size_t n = strlen(name);

	for (size_t i = 0; i < bytes; i += strlen(environ + i) + 1)
		if (!strncmp(environ + i, name, n) && environ[i + n] == '=')
			return environ + i + n + 1;
	return NULL;
}

#endif
