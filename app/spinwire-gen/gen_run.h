/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The source's loop: one lcore, one port queue. It sends what is due and takes in what comes back; it never waits for
 * either. When the port takes fewer frames than are due, the rest stays first in line with its intended times unchanged:
 * the delay then shows in the round trips, where it belongs.
 *
 * Several senders share a plan: sender s of n serves the flows s, s + n, s + 2n ... at an n-th of the rate, all from one
 * start. An echo may come back on any queue; whoever receives it counts it.
 */
#ifndef SPW_GEN_RUN_H
#define SPW_GEN_RUN_H

#include "gen_frame.h"
#include "gen_gap.h"
#include "gen_plan.h"
#include "gen_slow.h"
#include "gen_track.h"
#include "hist/spw_hist.h"
#include "port/spw_port.h"
#include "time/spw_time.h"

#define GEN_TX_BURST   32u
#define GEN_RX_BURST   16u /* taken from the port at once */
#define GEN_CHECK_CNT  4u  /* of them are looked at between two looks at the schedule */
#define GEN_SENDER_MAX 16u

struct gen_count {
	uint64_t sent_frames, sent_bytes;
	uint64_t echoed_frames;          /* unique, reordered and late ones included; duplicates not */
	uint64_t corrupted, old_run, foreign;
	uint64_t bad_flow;               /* whole and of this run, but of a flow that there is not, or a number never sent */
	uint64_t tx_refused;             /* turns in which the port did not take all that was due */
	uint64_t no_slot;                /* turns in which there was no empty slot for what was due */
};

/* The same for all senders. */
struct gen_run_conf {
	uint32_t headroom;               /* spw_port_caps.slot_headroom */
	bool messages;                   /* the port carries RDMA messages, not Ethernet frames */
	struct gen_frame_conf frame;
	struct gen_plan_conf plan;       /* of all senders together */
	const struct spw_tsc *tsc;
	uint64_t seconds_ns;             /* how long the plan runs */
	uint64_t warm_up_ns;             /* frames due before this are in no percentile and have no cause */
	uint64_t linger_ns;              /* how long to wait for echoes after that */
	uint64_t link_wait_ns;           /* how long to wait for the link before the plan starts; 0: not at all */
	uint64_t probe_ns;               /* how long to watch the core alone before that */
	uint64_t slow_ns;                /* frames that take longer get a cause each */
	bool expect_echo;                /* false: a sink is at the other end */
	const uint32_t *stop;            /* set by a signal: ends the plan now */
};

/* A frame that is made and not yet taken by the port. */
struct gen_made {
	struct spw_desc desc;
	uint64_t number;                 /* how many this sender had made before it */
	uint64_t due_ns;
	uint16_t flow;                   /* of the plan: the sender's own numbering */
};

struct gen_run {
	/* what a turn reads */
	struct spw_port_queue *queue;
	const struct spw_pool *pool;
	const struct spw_tsc *tsc;
	const uint32_t *stop;
	gen_frame_write_fn *write;
	uint64_t start_tsc, end_ns, warm_up_ns;
	uint32_t headroom;
	uint32_t sender, sender_cnt;
	uint16_t run;
	bool expect_echo;
	struct gen_headers headers;
	struct gen_plan plan;
	uint32_t *next_seq;              /* by the sender's own flows */
	uint32_t empty[GEN_TX_BURST];    /* slots lent and not yet filled */
	uint32_t empty_cnt;
	struct gen_made line[GEN_TX_BURST];
	uint32_t line_cnt;
	struct spw_desc in[GEN_RX_BURST]; /* received and not yet looked at: [in_next, in_cnt) */
	uint64_t in_tsc;
	uint32_t in_next, in_cnt;
	uint32_t owed_cnt;               /* steps of receiving before more frames leave */
	uint32_t poll_cnt;
	struct gen_sent sent;
	struct gen_run *const *all;      /* [sender_cnt], this one among them */
	/* set-up and end */
	uint64_t linger_ns, link_wait_ns, probe_ns;
	bool messages;
	bool link_seen;                  /* the port said that its link, or this sender's peer, is up */
	/* results; sampled by others while it runs */
	struct gen_count count;
	struct gen_track track;          /* of all flows */
	struct gen_slow slow;
	uint64_t intended_frames;        /* due by the plan while it ran; set at the end */
	uint64_t ran_ns;
	struct spw_hist round_trip_ns;   /* from the intended time; unique echoes */
	struct spw_hist late_ns;         /* the schedule's error: taken by the port after the intended time */
	struct gen_gap gap, alone;       /* between looks at the schedule; of the core with nothing to do */
	/* how senders start together */
	uint32_t ready SPW_ALIGNED(2 * SPW_CACHE_LINE); /* written by this sender */
	uint64_t go_tsc SPW_ALIGNED(2 * SPW_CACHE_LINE); /* of sender 0: when the plan begins */
	uint64_t sent_all;               /* 1: this sender will send nothing more */
};

/* Purpose: readies sender `sender` of sender_cnt (1 .. GEN_SENDER_MAX, at most one a flow). all[] is filled by the caller
 *          before the first gen_run. Owner: the caller. Thread: setup. Errors: those of the plan, -EINVAL, -ENOMEM. */
int gen_run_init(struct gen_run *run, const struct gen_run_conf *conf, struct spw_port_queue *queue,
		 const struct spw_pool *pool, uint32_t sender, struct gen_run *const *all, uint32_t sender_cnt);
void gen_run_fini(struct gen_run *run);

/* Purpose: the whole run, echoes lingered for. All slots are back with the port when it returns.
 * Thread: owner; all senders at the same time, each on an lcore of its own. */
void gen_run(struct gen_run *run);

/* Purpose: how many frames of its own flow `own` a sender has sent. Thread: owner, after gen_run. */
uint64_t gen_run_flow_sent(const struct gen_run *run, uint32_t own);

#endif
