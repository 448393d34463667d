/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the fuzzers of lib/hang's collectors demand of every row: each text ends within its column,
 * and a number that is not known is 0.
 */
#ifndef FUZZ_HANG_H
#define FUZZ_HANG_H

#include <stdlib.h>
#include <string.h>

#include "hang/spw_hang.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void fuzz_demand(bool holds)
{
	if (!holds)
		abort();
}

#define FUZZ_NUM(name, ...)         fuzz_demand(row->name.known || row->name.value == 0);
#define FUZZ_TEXT(name, bytes, ...) fuzz_demand(memchr(row->name, 0, bytes) != NULL);
#define FUZZ_ROWS(P, name, list)                                                     \
	for (uint32_t i = 0; i < snap->name##_cnt; i++) {                            \
		const struct spw_hang_##name##_row *row SPW_UNUSED = &snap->name[i]; \
		list##_LIST(FUZZ_NUM, FUZZ_TEXT)                                     \
	}

static inline void fuzz_rows_check(const struct spw_hang_snap *snap)
{
	SPW_HANG_TABLE_LIST(FUZZ_ROWS, )
}

#endif
