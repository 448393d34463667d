/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The executor that a test's command line names.
 */
#ifndef UNIT_EXEC_H
#define UNIT_EXEC_H

#include <stdbool.h>
#include <string.h>

#include "exec/spw_exec.h"

/* Returns: whether there is a kind of that name. */
static inline bool unit_exec_kind(const char *name, enum spw_exec_kind *kind_out)
{
	for (unsigned i = 0; i < SPW_EXEC_KIND_CNT; i++) {
		*kind_out = (enum spw_exec_kind)i;
		if (!strcmp(name, spw_exec_kind_name(*kind_out)))
			return true;
	}
	return false;
}

#endif
