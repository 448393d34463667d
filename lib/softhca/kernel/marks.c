/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One byte for each descriptor that a process can have: what it is of this library (enum hca_mark).
 * Pages of marks are allocated with the first mark in them and never freed. Reading a mark takes no
 * lock, since every interposed read, write, ioctl and close reads one.
 *
 *   pages   [0] first | [1] NULL | ... | [n] NULL          one page for 65536 descriptors
 *
 * preload/proc.c and events.c set a mark when they open a descriptor, and close() clears it. A mark
 * says "perhaps ours"; the tables of proc.c then decide.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>

#include "base/spw_order.h"
#include "softhca/kernel/events.h"

#define PAGE_FDS 65536u
#define PAGE_CNT ((INT_MAX + 1u) / PAGE_FDS)

static uint8_t first[PAGE_FDS]; /* nearly always the only one */
static uint8_t *pages[PAGE_CNT] = {first};

static uint8_t *marks_page(int fd)
{
	if (fd < 0)
		return NULL;
	return spw_thr_load_acq(
		&pages[(uint32_t)fd / PAGE_FDS]); /* [FD2 acquire, pairs with FD1] */
}

/* Of two threads that make the same page one unmaps its own, and uses the other's. */
static uint8_t *marks_page_make(int fd)
{
	uint8_t **at = &pages[(uint32_t)fd / PAGE_FDS], *none = NULL;
	uint8_t *page =
		mmap(NULL, PAGE_FDS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return NULL;
	if (spw_thr_cas(at, &none, page)) /* [FD1 release, pairs with FD2: the page is zero] */
		return page;
	munmap(page, PAGE_FDS);
	return none;
}

int hca_mark_set(int fd, enum hca_mark mark)
{
	uint8_t *page = marks_page(fd);

	if (!page && fd >= 0)
		page = marks_page_make(fd);
	if (!page)
		return -ENOMEM;
	spw_thr_store_rlx(&page[(uint32_t)fd % PAGE_FDS], (uint8_t)mark);
	return 0;
}

void hca_mark_clear(int fd)
{
	uint8_t *page = marks_page(fd);

	if (page)
		spw_thr_store_rlx(&page[(uint32_t)fd % PAGE_FDS], 0);
}

enum hca_mark hca_mark_get(int fd)
{
	const uint8_t *page = marks_page(fd);

	return page ? spw_thr_load_rlx(&page[(uint32_t)fd % PAGE_FDS]) : HCA_MARK_NONE;
}

/* In a forked child, and at exit: no descriptor is ours any more. */
void hca_marks_clear(void)
{
	for (uint32_t i = 0; i < PAGE_CNT; i++)
		if (pages[i])
			memset(pages[i], 0, PAGE_FDS);
}
