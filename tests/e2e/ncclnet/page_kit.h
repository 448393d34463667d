/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The live page of this process, as another process would read it.
 */
#ifndef SPW_PAGE_KIT_H
#define SPW_PAGE_KIT_H

#include "hang/spw_hang_page.h"

/* Whether this process has one. */
bool page_is_there(void);
/* Maps it to be read, until page_unmap. */
const struct spw_hang_page *page_map(void);
void page_unmap(const struct spw_hang_page *page);
/* Copies of entries, read as a whole. */
struct spw_hang_comm page_comm(const struct spw_hang_page *page, uint32_t i);
/* The connections in this state, at most max. Returns: how many there are. */
uint32_t page_conns(const struct spw_hang_page *page, enum spw_hang_conn_state state,
		    struct spw_hang_conn *conn_out, uint32_t max);

#endif
