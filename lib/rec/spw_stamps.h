/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The recorder of messages, as spw_rec.h is that of frames: how long each stage of a message took,
 * and why the slow ones were slow. Used by lib/ncclnet.
 *
 *   sender    started ─── granted ─── posted ─────────── acked ─── taken
 *   stage       send_granted  granted_posted  posted_acked  acked_taken
 *   receiver  started ─────────────────────────── arrived ─── taken
 *   stage                    recv_arrived              arrived_taken
 *
 * "taken" is when the program learned of the end: NCCL asks for each request again and again.
 *
 * A send is slow if it took longer than slow_tsc and twice the time that the rails need for its
 * bytes together. Its time is divided among the causes, tick by tick, and the cause with the
 * largest part is its own. Receives are not judged: they wait for their sender, who is.
 *
 *   part            is divided in this order
 *   --------------  ----------------------------------------------
 *   send_granted    not_polled, rest: peer_late
 *   granted_posted  rail_failed, not_polled, rest: rails_busy
 *   posted_acked    rail_failed, not_polled, rest: network
 *   acked_taken     not_polled
 */
#ifndef SPW_STAMPS_H
#define SPW_STAMPS_H

#include "base/spw_enum.h"
#include "hist/spw_hist.h"

#ifdef __cplusplus
extern "C" {
#endif

/* name, meaning */
#define SPW_STAMPS_STAGE_LIST(X, P)                                         \
	X(P, send_granted, "send started until the peer's buffer is known") \
	X(P, granted_posted, "until its last byte is handed to the NICs")   \
	X(P, posted_acked, "until all rails have acknowledged it")          \
	X(P, acked_taken, "until the program learns of it")                 \
	X(P, send_taken, "the whole send")                                  \
	X(P, recv_arrived, "receive started until all of it arrived")       \
	X(P, arrived_taken, "until the program learns of it")               \
	X(P, recv_taken, "the whole receive")

enum spw_stamps_stage { SPW_STAMPS_STAGE_LIST(SPW_ENUM_VALUE, SPW_STAMPS_) SPW_STAMPS_STAGE_CNT };

/* name, meaning */
#define SPW_STAMPS_CAUSE_LIST(X, P)                                                     \
	X(P, peer_late, "the receiver had no buffer for it yet")                        \
	X(P, rails_busy, "messages before it were still going out")                     \
	X(P, network, "the NICs and the network, to the last acknowledgement")          \
	X(P, rail_failed, "a rail failed meanwhile, and its part went over the others") \
	X(P, not_polled,                                                                \
	  "the program did not ask meanwhile: its thread was elsewhere, or lost its core")

enum spw_stamps_cause { SPW_ENUM(SPW_STAMPS_CAUSE) };

/* Purpose: the names as they are printed. Shape: below the _CNT. Thread: any. */
const char *spw_stamps_stage_name(enum spw_stamps_stage stage);
const char *spw_stamps_cause_name(enum spw_stamps_cause cause);

/* One send, in ticks. */
struct spw_stamps_send {
	uint64_t started, granted, posted, acked, taken; /* none before the one before it */
	uint64_t not_polled; /* of these ticks: the program did not ask */
	uint64_t bytes;
	uint8_t rails; /* that carried it, a bit each */
	bool rail_failed;
};

/* A send that was slow. */
struct spw_stamps_slow {
	struct spw_stamps_send send;
	uint64_t blame[SPW_STAMPS_CAUSE_CNT]; /* ticks by cause; they sum to the whole */
	enum spw_stamps_cause cause;
};

#define SPW_STAMPS_WORST_CNT 8u

/* All zero but the first two is an empty recorder; 0.3 MiB. */
struct spw_stamps_rec {
	uint64_t slow_tsc;     /* a send is slow beyond it, and beyond... */
	double ticks_per_byte; /* ... twice what the rails need; 0: unknown */
	struct spw_hist stage[SPW_STAMPS_STAGE_CNT];
	uint64_t send_cnt, send_bytes, recv_cnt, recv_bytes;
	uint64_t cause_cnt[SPW_STAMPS_CAUSE_CNT], cause_max[SPW_STAMPS_CAUSE_CNT];
	struct spw_stamps_slow worst[SPW_STAMPS_WORST_CNT]; /* longest first */
	uint32_t worst_cnt;
};

/* Purpose: records a send that is done.
 * Thread: owner. */
void spw_stamps_send(struct spw_stamps_rec *rec, const struct spw_stamps_send *send);

/* Purpose: records a receive that is done.
 * Shape: ticks; started <= arrived <= taken.
 * Thread: owner. */
void spw_stamps_recv(struct spw_stamps_rec *rec, uint64_t started, uint64_t arrived, uint64_t taken,
		     uint64_t bytes);

/* Purpose: divides the time of a send among the causes. Pure.
 * Shape: ticks_out[] sums to taken - started.
 * Returns: the cause with the most ticks; the first of equals.
 * Thread: any. */
enum spw_stamps_cause spw_stamps_split(const struct spw_stamps_send *send,
				       uint64_t ticks_out[SPW_STAMPS_CAUSE_CNT]);

#ifdef __cplusplus
}
#endif
#endif
