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
 *   take back (policy newest): READY -> FREE (CAS)                   reads the object
 *   reuse: FREE -> FILLING <────── buffer[b].state = FREE  <──────── release: TAKEN -> FREE (CAS)
 *
 *   state | generation 56 | 0 | state 3 |
 *
 *   field            writer            reader            order
 *   ---------------  ----------------  ----------------  ------------------------------------
 *   receipt          owner             consumer          plain; OB1
 *   buffer[].state   owner, consumer   consumer, owner   OB1 release by the owner's READY,
 *                                                        acquired by the CAS to TAKEN; OB2
 *                                                        release by the CAS to FREE, acquired by
 *                                                        the owner before it uses the buffer again
 *   queue[], head    owner             consumer          OB3 release of head, acquired by take
 *   ended            owner             consumer          OB4 release after the last head
 *   tail             consumer          any               relaxed; a sample for reports
 *   wake             owner             consumer          counts publishes: a futex word
 *   alive            owner             consumer          pulse: a change means the owner lives
 *
 * The generation of an object is the number of its publication, from 1: it stands at
 * queue[(generation - 1) % n], it is never used twice, and a consumer that was overtaken by the
 * owner, releases twice, or releases after the owner took the buffer away, finds another one and
 * harms nobody. A consumer that dies with a buffer keeps it until spw_obj_page_reclaim.
 *
 * The owner trusts nothing here but the state words; a consumer checks the page once, before it
 * uses it.
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
#define SPW_OBJ_CAUSE_LIST(X, P)                                                      \
	X(P, all, "all bytes came")                                                   \
	X(P, end, "its end came, by mark or by size")                                 \
	X(P, deadline, "its time was over")                                           \
	X(P, newer, "newer objects needed its place among those being filled")        \
	X(P, no_buffer, "consumers had released no buffer when its first frame came") \
	X(P, executor, "the executor was too far behind to begin it")                 \
	X(P, lost_place, "the executor had no room for a frame of it: all were shed") \
	X(P, taken_back, "unread, and taken back for a newer one")                    \
	X(P, restart, "the sender began again")                                       \
	X(P, stop, "the run ended")

enum spw_obj_cause { SPW_ENUM(SPW_OBJ_CAUSE) };

/* Bytes [from, to) of the object on the wire that did not come. */
struct spw_obj_range {
	uint64_t from, to;
};

/* What is known of one object. Frames balance: packets_present + packets_duplicate +
 * packets_late + packets_shed + packets_bad are the frames that named it, until it was published:
 * later ones are only counted as late. */
struct spw_obj_receipt {
	uint64_t id;         /* its key, unwrapped to 64 bits; of a label, as on the wire */
	uint64_t generation; /* number of its publication, from 1; 0: not published */
	uint32_t state;      /* enum spw_obj_state */
	uint32_t cause;      /* enum spw_obj_cause */
	uint64_t packets_present, packets_duplicate, packets_late, packets_shed, packets_bad;
	uint64_t bytes_due; /* of the object on the wire */
	uint64_t bytes_present, bytes_duplicate;
	uint64_t bytes_overlap;       /* there already, in frames that also brought new ones */
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
	uint32_t buffer_cnt;    /* 2 .. SPW_OBJ_BUFFER_MAX */
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
	/* behind it: uint32_t queue[spw_obj_page_queue_cnt(buffer_cnt)] */
	struct spw_obj_buffer buffer[] SPW_ALIGNED(128);
};

/* Purpose: a buffer's state word. Pure. Thread: any. */
SPW_INLINE uint64_t spw_obj_state_word(uint64_t generation, enum spw_obj_buffer_state state)
{
	return generation << 8 | (uint64_t)state;
}

/* Purpose: entries of the queue, a power of 2. Pure. Thread: any. */
SPW_INLINE uint32_t spw_obj_page_queue_cnt(uint32_t buffer_cnt)
{
	return 2 * spw_pow2_ceil32(buffer_cnt);
}

/* Purpose: the queue: numbers of buffers, in the order of publication. Thread: any. */
SPW_INLINE uint32_t *spw_obj_page_queue(struct spw_obj_page *page, uint32_t buffer_cnt)
{
	return (uint32_t *)(page->buffer + buffer_cnt);
}

/* Purpose: bytes of a page with that many buffers. Shape: 2 .. SPW_OBJ_BUFFER_MAX. Thread: any. */
uint64_t spw_obj_page_bytes(uint32_t buffer_cnt);

/* Purpose: fills in a fresh page for the description.
 * Shape:   page: spw_obj_page_bytes(desc->rule.buffers) bytes, zero. buffer_stride: a multiple of
 *          256, at least desc->shape.bytes.
 * Thread:  setup. */
void spw_obj_page_init(struct spw_obj_page *page, const struct spw_obj_desc *desc,
		       uint64_t buffer_stride, uint64_t tsc_hz);

/* Purpose: checks a page that another process made: sizes fit `bytes`, counts and shape are sane.
 * Errors:  -EPROTO with what is wrong.
 * Thread:  any (the consumer). */
int spw_obj_page_check(const struct spw_obj_page *page, uint64_t bytes);

/* Purpose: makes process pid the page's consumer.
 * Errors:  -EBUSY with the one that is.
 * Thread:  any. */
int spw_obj_page_claim(struct spw_obj_page *page, uint32_t pid);

/* Purpose: frees every buffer that the consumer pid holds, and lets the next one in.
 * Shape:   pid reads no object any more: it calls this itself, or its process has ended.
 * Returns: buffers freed; -ESRCH pid is not the consumer.
 * Order:   OB2 release.
 * Thread:  any. */
int spw_obj_page_reclaim(struct spw_obj_page *page, uint32_t pid);

/* Purpose:  takes the next object that was not taken back.
 * Returns:  the buffer's index, or -EAGAIN there is none, -EPIPE none, and none will come.
 * Lifetime: the object and its receipt stay as they are until spw_obj_release.
 * Order:    OB3, OB4 and OB1 acquire.
 * Thread:   any (the consumer), one at a time. */
int spw_obj_take(struct spw_obj_page *page, uint64_t *generation_out);

/* Purpose: gives the buffer back; every read of the object is over.
 * Errors:  -EALREADY it is not taken in that generation: released twice, or freed after this
 *          consumer was held to be dead.
 * Order:   OB2 release.
 * Thread:  any. */
int spw_obj_release(struct spw_obj_page *page, uint32_t buffer, uint64_t generation,
		    uint64_t now_tsc);

#ifdef __cplusplus
}
#endif
#endif
