/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Lists of pieces between two agents, a and b, and what plain copies of them give: every byte of
 * the end that is written to is compared with it.
 */
#ifndef SPW_KV_LISTS_H
#define SPW_KV_LISTS_H

#include "kv_kit.h"

#define PIECES 20000u

extern struct agent a, b;
extern struct spw_kv_region *region; /* b's memory, as a has it */
extern struct spw_kv_near near[PIECES];
extern struct spw_kv_far far[PIECES];

/* Setup and teardown of a test. b may have been closed. */
int lists_open(void **state);
int lists_close(void **state);

/* Pieces of 0 .. most bytes; dense: one behind the other at both ends; else in no order at the far
 * end, with gaps at both. Both ends are filled with other bytes. */
void lay(uint32_t cnt, uint32_t most, bool dense);
/* From now on the end that is written to should hold what these pieces give. */
void expect(uint32_t cnt, bool write);
void expect_moved(bool write);
/* A transfer of the first pieces. */
int try_make(uint32_t cnt, bool write, struct spw_kv_transfer **t_out);
struct spw_kv_transfer *make(uint32_t cnt, bool write);
/* Makes one, posts it with a notification, and compares. */
void pass(uint32_t cnt, bool write);

#endif
