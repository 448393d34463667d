/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The source's loop: one lcore, one port queue. It sends what is due and takes in what comes back; it never waits for
 * either. When the port takes fewer frames than are due, the rest stays first in line with its intended times unchanged:
 * the delay then shows in the round trips, where it belongs.
 */
#ifndef SPW_GEN_RUN_H
#define SPW_GEN_RUN_H

#include "gen_frame.h"
#include "gen_plan.h"
#include "gen_track.h"
#include "hist/spw_hist.h"
#include "port/spw_port.h"
#include "time/spw_time.h"

#define GEN_TX_BURST 32u
#define GEN_RX_BURST 16u /* bounds how long a due frame waits for one turn of receiving */

struct gen_count {
	uint64_t sent_frames, sent_bytes;
	uint64_t echoed_frames;          /* unique, reordered and late ones included; duplicates not */
	uint64_t corrupted, old_run, foreign;
	uint64_t bad_flow;               /* whole and of this run, but of a flow that there is not */
	uint64_t tx_refused;             /* turns in which the port did not take all that was due */
	uint64_t no_slot;                /* turns in which there was no empty slot for what was due */
};

struct gen_run_conf {
	struct spw_port_queue *queue;
	const struct spw_pool *pool;
	uint32_t headroom;               /* spw_port_caps.slot_headroom */
	struct gen_frame_conf frame;
	struct gen_plan_conf plan;
	const struct spw_tsc *tsc;
	uint64_t seconds_ns;             /* how long the plan runs */
	uint64_t linger_ns;              /* how long to wait for echoes after that */
	uint64_t link_wait_ns;           /* how long to wait for the link before the plan starts; 0: not at all */
	bool expect_echo;                /* false: a sink is at the other end, nobody lingers */
	const uint32_t *stop;            /* set by a signal: ends the plan now */
};

struct gen_run {
	/* what a turn reads */
	struct spw_port_queue *queue;
	const struct spw_pool *pool;
	const struct spw_tsc *tsc;
	const uint32_t *stop;
	uint64_t start_tsc, end_ns, linger_ns, link_wait_ns;
	uint32_t headroom;
	uint16_t run;
	bool expect_echo;
	bool link_seen;                  /* the port said that its link is up */
	struct gen_headers headers;
	struct gen_plan plan;
	uint32_t *next_seq;              /* by flow */
	uint32_t empty[GEN_TX_BURST];    /* slots lent and not yet filled */
	uint32_t empty_cnt;
	/* frames that are made and not yet taken by the port */
	struct spw_desc line[GEN_TX_BURST];
	uint64_t line_due_ns[GEN_TX_BURST];
	uint16_t line_flow[GEN_TX_BURST];
	uint32_t line_first, line_cnt;
	/* results; sampled by others while it runs */
	struct gen_count count;
	struct gen_track track;
	uint64_t intended_frames;        /* due by the plan while it ran; set at the end */
	uint64_t ran_ns;
	struct spw_hist round_trip_ns;   /* from the intended time; unique echoes */
	struct spw_hist late_ns;         /* the schedule's error: taken by the port after the intended time */
};

/* Owner: the caller. Thread: setup. Errors: those of the plan, -ENOMEM. */
int gen_run_init(struct gen_run *run, const struct gen_run_conf *conf);
void gen_run_fini(struct gen_run *run);

/* Purpose: the whole run, echoes lingered for. All slots are back with the port when it returns. Thread: owner. */
void gen_run(struct gen_run *run);

#endif
