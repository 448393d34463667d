/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 */
#include "base/spw_order.h"
#include "softhca/events.h"

#define FD_CNT 65536

static uint8_t marks[FD_CNT];

void hca_mark_set(int fd)
{
	if (fd >= 0 && fd < FD_CNT)
		spw_thr_store_rlx(&marks[fd], 1);
}

void hca_mark_clear(int fd)
{
	if (fd >= 0 && fd < FD_CNT)
		spw_thr_store_rlx(&marks[fd], 0);
}

bool hca_mark_get(int fd)
{
	return fd >= 0 && (fd >= FD_CNT || spw_thr_load_rlx(&marks[fd]));
}

void hca_marks_clear(void)
{
	for (int fd = 0; fd < FD_CNT; fd++)
		hca_mark_clear(fd);
}
