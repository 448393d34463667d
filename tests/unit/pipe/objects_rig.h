/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A pipe with objects whose executor is the test: the ring is an inline executor's that nobody
 * kicks, and objects_execute runs a batch of it when the test says so.
 *
 *   null port ─ the test's frames ─> pipe ─> ring ─ objects_execute ─> reap ─> publish ─> page
 */
#ifndef OBJECTS_RIG_H
#define OBJECTS_RIG_H

#include "exec/spw_place.h"
#include "pipe_rig.h"

#define OBJECTS_HEADER 50u /* Ethernet, IP, UDP, counter */
#define OBJECTS_MEMORY_ID                                                      \
	1u /* of the region with the table of moves, and the objects behind it \
	    */
#define OBJECTS_TABLE (SPW_PIPE_MOVE_MIN * sizeof(struct spw_move))

struct objects_rig {
	struct rig rig; /* first: the port's functions get its address */
	struct spw_port_queue inner;
	struct spw_gring *ring;
	struct spw_obj_desc desc;
	struct spw_obj_page *page;
	struct spw_obj *obj;
	uint8_t *memory;
	struct spw_place_state place;
	struct spw_handler_env env;
	uint32_t unit_cnt;
	uint64_t unit_frames[16], *unit_frames_own;
};

/* Purpose: opens port, stream and pipe, and begins. text: the description. units: that the ring
 * believes to have. rx: the port's burst, with the rig as queue; `inner` is the one behind it. */
void objects_open(struct objects_rig *t, const char *text, uint32_t batches, uint32_t units,
		  uint16_t burst, uint16_t (*rx)(void *arg, struct spw_desc *desc, uint16_t cnt));
void objects_close(struct objects_rig *t);
/* Purpose: a byte of payload, and all of a frame's. */
uint8_t objects_byte(uint64_t number, uint32_t at);
void objects_write(const struct objects_rig *t, const struct spw_desc *d, uint64_t number,
		   uint32_t payload);
/* Purpose: the executor has done that batch, or does it. */
bool objects_is_executed(const struct objects_rig *t, uint64_t seq);
void objects_execute(struct objects_rig *t, uint64_t seq);

#endif
