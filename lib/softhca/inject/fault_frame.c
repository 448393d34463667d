/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the faults on request (fault.c) do to frames.
 *
 *   NIC: frame --> fault_tx_reserve --> fault_tx_commit --> put --> cable
 *                                         |      |
 *                                         lost   queued (delay, reorder) --> fault_tick, when due
 *
 * Each decision about a frame hashes (seed, frame number, which decision). It depends on nothing
 * that happened before, so a run repeats as long as its frames are numbered alike.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "softhca/inject/fault.h"
#include "softhca/nic/port/trail.h"

static const struct spw_enum_word hit_word[] = {SPW_ENUM_WORDS(FAULT_HIT)};

/* A number in [0,1): splitmix64 of (seed, frame, which decision). */
static double fault_dice_of(const struct fault *f, uint64_t frame, uint32_t which)
{
	uint64_t z = f->seed * 0x9e3779b97f4a7c15ull + frame * 8 + which + 1;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	z ^= z >> 31;
	return (double)(z >> 11) * 0x1p-53;
}

/* The decisions of one frame are numbered 0 to 7; arriving and RoCE frames have counts of their
 * own. */
static double fault_dice(const struct fault *f, uint32_t which)
{
	return fault_dice_of(f, f->frame, which);
}

bool fault_discards(struct fault *f)
{
	return fault_dice_of(f, f->rx_frame++, 7) < f->discard;
}

bool fault_marks(struct fault *f)
{
	return fault_dice_of(f, 1ull << 40 | f->roce_frame++, 7) < f->ecn;
}

/* A log that cannot be written stops; the counters go on. */
static void fault_hit_count(struct fault *f, enum fault_hit which, uint32_t len)
{
	char line[64];
	int n;

	f->hit_cnt[which]++;
	if (f->log_fd < 0)
		return;
	n = snprintf(line, sizeof(line), "%llu %s %u\n", (unsigned long long)f->frame,
		     hit_word[which].text, len);
	if (write(f->log_fd, line, (size_t)n) < 0)
		f->log_fd = -1;
}

/* The frame is built in buf, since it may be lost, kept or changed first. Room on the cable is
 * waited for as without faults, so that nothing is lost but what was asked for. */
uint8_t *fault_tx_reserve(struct fault *f, struct cable *c, const uint8_t *dmac, uint32_t dqpn,
			  uint32_t len)
{
	if (len > CABLE_FRAME_MAX)
		return NULL;
	if (f->link_down)
		return f->buf;
	f->room = cable_tx_reserve(c, dmac, dqpn, len);
	return f->room ? f->buf : NULL;
}

/* To every process that shares the MAC: those without the QP drop it. Returns: false: no room. */
static bool fault_put(struct cable *c, const uint8_t *frame, uint32_t len)
{
	uint8_t *p = cable_tx_reserve(c, frame, 0, len);

	if (!p)
		return false;
	memcpy(p, frame, len);
	cable_tx_commit(c, 0);
	return true;
}

/* False if there is no room: the frame then goes on as if the fault had not hit it. */
static bool fault_queue(struct fault *f, const uint8_t *frame, uint32_t len, uint64_t due_ns,
			uint64_t due_frame)
{
	struct fault_queued *h = &f->queued[f->queued_cnt];

	if (f->queued_cnt == FAULT_QUEUED_MAX)
		return false;
	h->data = malloc(len);
	if (!h->data)
		return false;
	memcpy(h->data, frame, len);
	h->len = len;
	h->due_ns = due_ns;
	h->due_frame = due_frame;
	f->queued_cnt++;
	return true;
}

/* The first that applies decides: the link is down, lost, reordered, delayed; a frame that goes on
 * may be corrupted and, besides, duplicated. A reordered frame waits until 1 to 4 later ones have
 * passed, 1 ms at most, since there may be none. The number goes up for every frame, lost ones too:
 * the decisions about the next do not depend on this one's. */
void fault_tx_commit(struct fault *f, struct cable *c, const uint8_t *frame, uint32_t len,
		     uint64_t now_ns)
{
	if (f->link_down) {
		fault_hit_count(f, FAULT_HIT_DOWN, len);
		c->stat.tx_dropped++;
	} else if (fault_dice(f, 0) < f->loss) {
		fault_hit_count(f, FAULT_HIT_LOST, len);
	} else if (fault_dice(f, 1) < f->reorder &&
		   fault_queue(f, frame, len, now_ns + 1000000,
			       f->frame + 1 + (uint64_t)(fault_dice(f, 2) * 4))) {
		fault_hit_count(f, FAULT_HIT_REORDER, len);
	} else if (fault_dice(f, 3) < f->delay &&
		   fault_queue(f, frame, len, now_ns + f->delay_ns, UINT64_MAX)) {
		fault_hit_count(f, FAULT_HIT_DELAY, len);
	} else {
		if (fault_dice(f, 4) < f->corrupt) {
			const uint32_t bit = (uint32_t)(fault_dice(f, 5) * (len * 8 - 14 * 8));

			/* Not in the addresses: a switch would lose the frame. */
			f->buf[14 + bit / 8] ^= (uint8_t)(1u << bit % 8);
			fault_hit_count(f, FAULT_HIT_CORRUPT, len);
		}
		memcpy(f->room, frame, len);
		cable_tx_commit(c, 0);
		if (fault_dice(f, 6) < f->dup) {
			fault_hit_count(f, FAULT_HIT_DUP, len);
			c->stat.tx_dropped += !fault_put(c, frame, len);
		}
	}
	f->frame++;
	fault_tick(f, c, now_ns);
}

/* A frame is due by time or, when reordered, by number, whichever comes first. The order of the
 * queue is kept, so frames with one delay do not overtake each other; without room all wait. */
uint32_t fault_tick(struct fault *f, struct cable *c, uint64_t now_ns)
{
	const uint32_t before = f->queued_cnt;

	for (uint32_t i = 0; i < f->queued_cnt;) {
		struct fault_queued *h = &f->queued[i];

		if (now_ns < h->due_ns && f->frame <= h->due_frame) {
			i++;
			continue;
		}
		if (!fault_put(c, h->data, h->len))
			break;
		if (trail_on())
			trail_held(h->data, h->len);
		free(h->data);
		memmove(h, h + 1, (f->queued_cnt - i - 1) * sizeof(*h));
		f->queued_cnt--;
	}
	return before - f->queued_cnt;
}

/* Called while the process exits, perhaps from a signal handler: no free(), since the heap may be
 * locked. */
void fault_leave(struct fault *f, struct cable *c)
{
	for (uint32_t i = 0; i < f->queued_cnt; i++)
		c->stat.tx_dropped += !fault_put(c, f->queued[i].data, f->queued[i].len);
	f->queued_cnt = 0;
	f->loss = f->dup = f->reorder = f->corrupt = f->delay = 0;
	f->on = f->link_down;
}
