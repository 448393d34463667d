/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A live page as rows.
 */
#ifndef HANG_READ_PAGE_H
#define HANG_READ_PAGE_H

#include "hang/read/read_impl.h"
#include "hang/spw_hang_page.h"

/* Whose page it is, and when it is read. */
struct hang_page_view {
	int64_t pid;      /* as this host's /proc has it */
	uint64_t now_tsc; /* 0: not known */
	uint64_t tsc_hz;
};

/* Purpose: adds the rows of an entry, which may hold anything and may change meanwhile.
 * Returns: 1; 0: it is not in use; -1: it cannot be read, as its writer stopped or ended in the
 *   middle of a change. Thread: control.
 */
int hang_page_comm_rows(const struct spw_hang_comm *entry, const struct hang_page_view *v,
			struct spw_hang_snap *snap);
int hang_page_conn_rows(const struct spw_hang_conn *entry, uint32_t idx,
			const struct hang_page_view *v, struct spw_hang_snap *snap);

#endif
