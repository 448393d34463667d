/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The trail of the NIC thread (trail/spw_trail.h): when the frames of spinwire-gen came and went,
 * and when the thread did not work. One for the process, as there is one NIC thread; off unless
 * --trail names a file.
 *
 *   round   │ doorbells ── receive: taken, CQE ── transmit: on the cable ── flush │
 *           └ trail_round          └ trail_came             └ trail_sent    └ trail_flush
 *
 * Thread: the NIC thread, unless stated otherwise.
 */
#ifndef SPW_SOFTHCA_PORT_TRAIL_H
#define SPW_SOFTHCA_PORT_TRAIL_H

#include "base/spw_enum.h"
#include "base/spw_order.h"
#include "trail/spw_trail.h"

struct hca_cfg;

/* Why the NIC thread did no work for a while. name, meaning */
#define TRAIL_GAP_LIST(X, P)                               \
	X(P, nap, "it slept, and waited for a core after") \
	X(P, lost, "an idle turn took long")               \
	X(P, round, "a round with work took long")

enum trail_gap { SPW_ENUM(TRAIL_GAP) };

struct trail {
	struct spw_trail ring;
	const char *path;
	uint64_t round_tsc; /* when this round began */
	uint64_t turn_tsc;  /* when the last one did */
	uint64_t unflushed; /* number of the first record whose frame is not published */
};

extern struct trail nic_trail;

SPW_INLINE bool trail_on(void)
{
	return spw_unlikely(nic_trail.ring.rec != NULL);
}

/* Purpose: opens the ring, once in a process; without memory it stays off, with a warning.
 * Thread:  control. */
void trail_begin(const struct hca_cfg *cfg);
/* Purpose: writes the file, at process exit. The NIC thread no longer works for the device that
 *          leaves; what it notes for another meanwhile may be missing.
 * Thread:  control. */
void trail_end(void);

/* Purpose: a round began. turn: what the thread did since the last one began. */
void trail_round(enum trail_gap turn) SPW_COLD;
/* Purpose: a frame was put on the cable, which publishes it with the next flush. */
void trail_sent(const uint8_t *frame, uint32_t len) SPW_COLD;
void trail_flush(void) SPW_COLD;
/* Purpose: a frame that a fault had held was put on the cable. */
void trail_held(const uint8_t *frame, uint32_t len) SPW_COLD;
/* Purpose: a frame that was taken at `taken_tsc` has its CQE. */
void trail_came(const uint8_t *frame, uint32_t len, uint64_t taken_tsc) SPW_COLD;

#endif
