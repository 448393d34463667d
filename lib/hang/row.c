/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The rows of a snapshot: arrays that double. Collectors (read_*.c) and json.c add them, the judge
 * only reads.
 */
#include <stdlib.h>
#include <string.h>

#include "hang/spw_hang.h"

/* Rows are allocated in powers of 2, so a count that is one says that the array is full. */
static void *row_grow(void **rows, uint32_t *cnt, size_t bytes)
{
	char *row = *rows;

	if (*cnt == SPW_HANG_ROW_MAX)
		return NULL;
	if ((*cnt & (*cnt - 1)) == 0) {
		row = realloc(*rows, bytes * (*cnt ? 2ull * *cnt : 1));
		if (!row)
			return NULL;
		*rows = row;
	}
	row += bytes * (*cnt)++;
	return memset(row, 0, bytes);
}

#define ROW_ADD(P, name, list)                                                                    \
	case SPW_HANG_TABLE_##name: {                                                             \
		void *rows = snap->name;                                                          \
		void *row =                                                                       \
			row_grow(&rows, &snap->name##_cnt, sizeof(struct spw_hang_##name##_row)); \
		snap->name = rows;                                                                \
		return row;                                                                       \
	}

/* By the list of tables, so that a new table needs no line here. */
void *spw_hang_row_add(struct spw_hang_snap *snap, enum spw_hang_table table)
{
	switch (table) {
		SPW_HANG_TABLE_LIST(ROW_ADD, )
	case SPW_HANG_TABLE_CNT:
		break;
	}
	return NULL;
}

#define ROW_FREE(P, name, list) free(snap->name);

void spw_hang_snap_free(struct spw_hang_snap *snap)
{
	SPW_HANG_TABLE_LIST(ROW_FREE, )
	memset(snap, 0, sizeof(*snap));
}
