/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A stream without a port: frames are hits, an executor applies the moves of a batch to memory as
 * late as the test wants, and a consumer compares every byte that it takes. A byte of payload is a
 * function of its object and position; what is missing must be the fill byte.
 */
#ifndef OBJ_KIT_H
#define OBJ_KIT_H

#include "obj/window.h"
#include "unit_test.h"

#define KIT_FRAME_BYTES 512u
#define KIT_BATCH_MAX   64u /* frames of a batch */
#define KIT_MOVE_MAX    (KIT_BATCH_MAX * SPW_MOVE_FRAME_MAX)
#define KIT_BATCHES     256u /* in flight, at most */
#define KIT_FILL        0xf1u
#define KIT_REGION      3u
#define KIT_OFFSET      512u /* of buffer 0 in the region */
#define KIT_HZ          1000000000u

struct kit_batch {
	uint32_t move_cnt, frame_cnt;
	struct spw_move move[KIT_MOVE_MAX];
	uint8_t move_frame[KIT_MOVE_MAX];
	uint8_t frame[KIT_BATCH_MAX][KIT_FRAME_BYTES];
};

struct kit {
	struct spw_obj_desc desc;
	struct spw_obj_page *page;
	struct spw_obj *obj;
	struct spw_obj_turn turn;
	uint64_t retired;   /* batches before it are */
	uint64_t id_offset; /* what is added to a receipt's id to get the object's number */
	uint8_t *memory;
	struct kit_batch *batch; /* [KIT_BATCHES] */
	/* receipts, summed up */
	uint64_t receipts;
	struct spw_obj_receipt sum, last;
	uint64_t released, released_id, released_tsc; /* how many, and the last */
	struct spw_obj_way way;                       /* of the last receipt */
	void (*on_receipt)(struct kit *kit, const struct spw_obj_receipt *r);
	void *arg;
};

/* A counter of key_bits, objects of `bytes` in granules; what else a test wants it sets in desc
 * before kit_open. */
void kit_init(struct kit *kit, uint32_t key_bits, uint64_t bytes, uint64_t granule);
void kit_open(struct kit *kit);
void kit_close(struct kit *kit);
/* The two for what most tests want: 1000 bytes in granules of 300, the last one short. */
void kit_open_common(struct kit *kit, uint32_t key_bits);

/* The payload of object number `object` at byte pos. */
uint8_t kit_byte(uint64_t object, uint64_t pos);

/* A frame of object number `object`; hit.key is set from it, and where pieces lie in the frame. */
enum spw_obj_fate kit_hit(struct kit *kit, uint64_t object, struct spw_obj_hit *hit);
/* The common one: one piece. */
enum spw_obj_fate kit_send(struct kit *kit, uint64_t object, uint64_t pos, uint32_t len);
/* Granule number g. */
enum spw_obj_fate kit_granule(struct kit *kit, uint64_t object, uint64_t g);

/* All four granules of a common object; each must be placed. */
void kit_whole(struct kit *kit, uint64_t object);

/* Ends a batch, with the fill moves that are due; at most `max` of them a call. */
void kit_push(struct kit *kit, uint32_t max);
/* The executor moves the oldest `cnt` batches, and they retire. */
void kit_retire(struct kit *kit, uint32_t cnt);
/* Pushes and retires until nothing is pending. */
void kit_settle(struct kit *kit);

/* Takes an object and compares its bytes. Returns the buffer, or -EAGAIN or -EPIPE. */
int kit_take(struct kit *kit, struct spw_obj_receipt *receipt_out);
void kit_release(struct kit *kit, int buffer, uint64_t generation);
/* The two: whether there was one. */
bool kit_consume(struct kit *kit, struct spw_obj_receipt *receipt_out);

#endif
