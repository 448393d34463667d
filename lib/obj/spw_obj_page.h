/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The page that a stream shares with its consumers: which buffers hold which objects, and each
 * object's receipt. It lies in memory of its own (a memfd, so that another process can map it, and
 * registered with CUDA, so that a kernel can poll it); the objects lie in a region beside it.
 *
 *   owner (the lcore)                 page                              consumer
 *   publish: receipt, ──────> buffer[b].state = READY, gen  ─────┐
 *            then state, then queue[head % n] = b, head + 1      └─> take: queue, then
 *                                                                    READY -> TAKEN (CAS)
 *   revoke (policy newest): READY -> FREE (CAS)                      reads the object
 *   reuse: FREE, gen + 1  <──────── buffer[b].state = FREE  <─────── release: TAKEN -> FREE (CAS)
 *
 *   state | generation 56 | 0 | state 3 |
 *
 *   field            writer            reader            order
 *   ---------------  ----------------  ----------------  ------------------------------------
 *   receipt          owner             consumer          plain; P1
 *   buffer[].state   owner, consumer   consumer, owner   P1 release by the owner's READY, acquired
 *                                                        by the CAS to TAKEN; P2 release by the
 *                                                        CAS to FREE, acquired by the owner
 *                                                        before it uses the buffer again
 *   queue[], head    owner             consumer          P3 release of head, acquired by take
 *   tail             consumer          any               relaxed; a sample for reports
 *   wake             owner             consumer          futex word, counts publishes
 *   alive            owner             consumer          pulse: a change means the owner lives
 *
 * A generation is never used twice, so that a second release, or one that comes after the owner
 * took the buffer back, fails and harms nobody. A consumer that dies with a buffer keeps it until
 * the owner learns of its death (consumer_pid) and frees it.
 */
#ifndef SPW_OBJ_PAGE_H
#define SPW_OBJ_PAGE_H

#include "base/spw_enum.h"
#include "base/spw_order.h"
#include "base/spw_types.h"
#include "obj/spw_obj_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_OBJ_PAGE_MAGIC   0x6a626f777073ull /* "spwobj" */
#define SPW_OBJ_PAGE_VERSION 1u
#define SPW_OBJ_BUFFER_MAX   4096u
#define SPW_OBJ_RANGE_MAX    16u

enum spw_obj_buffer_state {
	SPW_OBJ_FREE = 0,
	SPW_OBJ_FILLING = 1, /* the owner's */
	SPW_OBJ_READY = 2,
	SPW_OBJ_TAKEN = 3, /* a consumer's */
};

/* How an object ended. name, meaning */
#define SPW_OBJ_STATE_LIST(X, P)                                     \
	X(P, complete, "every byte that was due is present")         \
	X(P, partial, "closed with bytes missing; those are filled") \
	X(P, shed, "not kept: no byte of it was handed over")        \
	X(P, aborted, "given up; handed over to nobody")

enum spw_obj_state { SPW_ENUM(SPW_OBJ_STATE) };

/* Why it was closed or shed. name, meaning */
#define SPW_OBJ_CAUSE_LIST(X, P)                                                           \
	X(P, all, "all bytes came")                                                        \
	X(P, end, "its end came, by mark or by size")                                      \
	X(P, deadline, "its time was over")                                                \
	X(P, newer, "newer objects needed its place among those being filled")             \
	X(P, no_buffer, "consumers had released no buffer when its first frame came")      \
	X(P, executor, "the executor's ring was too full to begin it")                     \
	X(P, lost_place, "a frame of it was dropped inside: the executor's ring was full") \
	X(P, taken_back, "unread, and taken back for a newer one")                         \
	X(P, restart, "the sender began again")                                            \
	X(P, stop, "the run ended")

enum spw_obj_cause { SPW_ENUM(SPW_OBJ_CAUSE) };

/* Bytes [from, to) of the object on the wire that did not come. */
struct spw_obj_range {
	uint64_t from, to;
};

/* What is known of one object. Frames balance: packets_present + packets_duplicate +
 * packets_late + packets_bad are the frames that named it. */
struct spw_obj_receipt {
	uint64_t id;         /* its key, unwrapped to 64 bits; of a label, as on the wire */
	uint64_t generation; /* of the buffer */
	uint32_t state;      /* enum spw_obj_state */
	uint32_t cause;      /* enum spw_obj_cause */
	uint64_t packets_present, packets_duplicate, packets_late, packets_bad;
	uint64_t bytes_due, bytes_present, bytes_duplicate, bytes_overlap;
	uint64_t first_nic, last_nic; /* NIC stamps, ns of the CPU's clock; 0: none */
	uint64_t nic_unc_ns;
	uint64_t open_tsc, close_tsc, publish_tsc; /* first frame, closed, handed over */
	uint32_t range_cnt;                        /* of range[] */
	uint32_t range_more;                       /* missing ranges beyond them */
	struct spw_obj_range range[SPW_OBJ_RANGE_MAX];
};

struct spw_obj_buffer {
	uint64_t state;
	uint64_t taken_tsc;   /* by the consumer, for reports */
	uint64_t release_tsc; /* by the consumer */
	struct spw_obj_receipt receipt;
} SPW_ALIGNED(128);

struct spw_obj_page {
	/* written once, before the page is shared */
	uint64_t magic;
	uint32_t version;
	uint32_t buffer_cnt;    /* a power of 2 */
	uint64_t object_bytes;  /* of a buffer, as consumers see it */
	uint64_t buffer_stride; /* from one buffer to the next, a multiple of 256 */
	uint64_t page_bytes;    /* of this page, with buffer[] and queue[] */
	uint64_t tsc_hz;
	char name[SPW_OBJ_NAME_BYTES];
	struct spw_obj_shape shape;
	/* owner */
	uint64_t head SPW_ALIGNED(128); /* objects published */
	uint32_t wake;
	uint32_t ended; /* the owner publishes no more */
	uint64_t alive;
	/* consumer */
	uint64_t tail SPW_ALIGNED(128); /* entries of the queue that were looked at */
	uint32_t consumer_pid;          /* 0: none; claimed by CAS */
	uint32_t reserved;
	/* struct spw_obj_buffer buffer[buffer_cnt]; then uint32_t queue[buffer_cnt * 2] */
	struct spw_obj_buffer buffer[] SPW_ALIGNED(128);
};

SPW_INLINE uint64_t spw_obj_state_word(uint64_t generation, enum spw_obj_buffer_state state)
{
	return generation << 8 | (uint64_t)state;
}

/* Purpose: bytes of a page with that many buffers. Shape: a power of 2. Thread: any. */
uint64_t spw_obj_page_bytes(uint32_t buffer_cnt);

/* Purpose: checks a page that another process made: sizes fit `bytes`, counts and shape are sane.
 * Errors:  -EPROTO with what is wrong.
 * Thread:  consumer. */
int spw_obj_page_check(const struct spw_obj_page *page, uint64_t bytes);

/* Purpose:  takes the next object that was not taken back.
 * Returns:  the buffer's index, or -EAGAIN there is none, -EPIPE none, and none will come.
 * Lifetime: the object and its receipt stay as they are until spw_obj_release.
 * Order:    P3 and P1 acquire.
 * Thread:   consumer, one at a time. */
int spw_obj_take(struct spw_obj_page *page, uint64_t *generation_out);

/* Purpose: gives the buffer back; every read of the object is over.
 * Errors:  -EALREADY it is not taken in that generation: released twice, or the owner took it back
 *          after this consumer was held to be dead.
 * Order:   P2 release.
 * Thread:  any. */
int spw_obj_release(struct spw_obj_page *page, uint32_t buffer, uint64_t generation,
		    uint64_t now_tsc);

#ifdef __cplusplus
}
#endif
#endif
