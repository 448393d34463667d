/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The rows of a snapshot: arrays that double. Collectors (read_*.c) and json.c add them, the judge
 * only reads; who asks for one job removes those of others.
 *
 * SPW_HANG_TABLE_LIST makes the arrays and their counts, so a row is added by the number of its
 * table and no collector allocates. SPW_HANG_ROW_MAX bounds what a broken page or a crafted file
 * can make this allocate: further rows are left out, and what they would have said is unknown.
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

/* The texts are in the rows, so the arrays are all that there is to free. */
#define ROW_FREE(P, name, list) free(snap->name);

void spw_hang_snap_free(struct spw_hang_snap *snap)
{
	SPW_HANG_TABLE_LIST(ROW_FREE, )
	memset(snap, 0, sizeof(*snap));
}

/* ---- one job ---- */

/* A host may run several jobs. Those of one process's job are found by what they share, until
 * nothing new is found:
 *
 *   pid ─ a connection's pair or communicator ─► pids ─ theirs ─► ... ─► all other rows are removed
 *
 * Over all snapshots: a connection that only the first one has joins its processes too. */
struct focus {
	int64_t pid[SPW_HANG_PROC_MAX];
	uint32_t cnt;
};

static bool focus_has(const struct focus *f, struct spw_hang_num pid)
{
	for (uint32_t i = 0; i < f->cnt && pid.known; i++)
		if (f->pid[i] == pid.value)
			return true;
	return false;
}

static bool focus_add(struct focus *f, struct spw_hang_num pid)
{
	if (!pid.known || focus_has(f, pid) || f->cnt == SPW_HANG_PROC_MAX)
		return false;
	f->pid[f->cnt++] = pid.value;
	return true;
}

/* A name that was not read joins nobody. */
static bool focus_same(const char *a, const char *b)
{
	return a[0] && !strcmp(a, b);
}

/* Adds the processes that share a connection or a communicator with one that is in. Returns:
 * whether there were any. */
static bool focus_grow(struct focus *f, const struct spw_hang_snap *snap)
{
	bool grown = false;

	for (uint32_t i = 0; i < snap->conn_cnt; i++)
		for (uint32_t k = 0; k < snap->conn_cnt && focus_has(f, snap->conn[i].pid); k++)
			if (focus_same(snap->conn[i].pair, snap->conn[k].pair) ||
			    focus_same(snap->conn[i].comm, snap->conn[k].comm))
				grown |= focus_add(f, snap->conn[k].pid);
	for (uint32_t i = 0; i < snap->comm_cnt; i++)
		for (uint32_t k = 0; k < snap->comm_cnt && focus_has(f, snap->comm[i].pid); k++)
			if (focus_same(snap->comm[i].comm, snap->comm[k].comm))
				grown |= focus_add(f, snap->comm[k].pid);
	return grown;
}

/* In place, in the old order. A row whose process is not known goes too. */
#define FOCUS_KEEP(table)                                             \
	do {                                                          \
		uint32_t kept = 0;                                    \
                                                                      \
		for (uint32_t i = 0; i < snap->table##_cnt; i++)      \
			if (focus_has(f, snap->table[i].pid))         \
				snap->table[kept++] = snap->table[i]; \
		snap->table##_cnt = kept;                             \
	} while (0)

/* All tables that name a process; ports and addresses are the host's and remain. A new table with a
 * pid needs a line here, or it keeps the rows of other jobs. */
static void focus_keep(const struct focus *f, struct spw_hang_snap *snap)
{
	FOCUS_KEEP(proc);
	FOCUS_KEEP(thread);
	FOCUS_KEEP(comm);
	FOCUS_KEEP(conn);
	FOCUS_KEEP(rail);
	FOCUS_KEEP(qp);
	FOCUS_KEEP(gpu);
	FOCUS_KEEP(op);
	FOCUS_KEEP(dial);
}

void spw_hang_host_focus(struct spw_hang_host *host, int64_t pid)
{
	struct focus f = {.pid = {pid}, .cnt = 1};
	bool grown;

	do {
		grown = false;
		for (uint32_t s = 0; s < SPW_HANG_SNAP_CNT; s++)
			grown |= focus_grow(&f, &host->snap[s]);
	} while (grown);
	for (uint32_t s = 0; s < SPW_HANG_SNAP_CNT; s++)
		focus_keep(&f, &host->snap[s]);
}
