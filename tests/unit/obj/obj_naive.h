/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What should become of a stream, as simply as it can be computed: no bits, rings or batches, no
 * time. Objects have numbers that never wrap, and packets that are there or not. The window is the
 * open_max highest numbers of which a packet came.
 */
#ifndef OBJ_NAIVE_H
#define OBJ_NAIVE_H

#include "obj/spw_obj.h"

#define NAIVE_OBJECTS 4096u /* that are remembered; a power of 2 */
#define NAIVE_PACKETS 64u

struct naive_object {
	uint64_t number;
	bool begun, closed;
	bool have[NAIVE_PACKETS];
	uint32_t have_cnt, duplicate, late;
	enum spw_obj_cause cause;
};

struct naive {
	uint32_t open_max, packets;
	uint64_t low; /* no object below it is remembered */
	uint64_t high;
	struct naive_object object[NAIVE_OBJECTS];
};

/* Numbers begin at low. */
void naive_init(struct naive *n, uint32_t open_max, uint32_t packets, uint64_t low);
/* What becomes of that packet. */
enum spw_obj_fate naive_packet(struct naive *n, uint64_t number, uint32_t packet);
/* The sender ends: what is open closes. */
void naive_stop(struct naive *n);
/* The object as its receipt must describe it; is_late: late packets are in receipts, too. */
void naive_compare(struct naive *n, const struct spw_obj_receipt *r, uint64_t number, bool is_late);

#endif
