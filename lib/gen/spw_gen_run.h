/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The source's loop: one lcore, one port queue. It sends what is due and receives what comes back,
 * and never waits for either. If the port takes fewer frames than are due, the others stay first in
 * line and keep their intended times: their delay is part of the measured round trips, as it should
 * be.
 *
 *   check the schedule --> due: send --> one or more steps: receive up to 16, check 4 at a time
 *         ^                                                                        |
 *         +------------------------------------------------------------------------+
 *
 * Several senders share a plan: sender s of n serves flows s, s + n, s + 2n ... at an n-th of the
 * rate, all from one start. An echo may arrive on any queue; whoever receives it counts it.
 */
#ifndef SPW_GEN_RUN_H
#define SPW_GEN_RUN_H

#include "gen/spw_gen_frame.h"
#include "gen/spw_gen_gap.h"
#include "gen/spw_gen_plan.h"
#include "gen/spw_gen_slow.h"
#include "gen/spw_gen_track.h"
#include "trail/spw_trail_sender.h"
#include "hist/spw_hist.h"
#include "port/spw_port.h"
#include "time/spw_time.h"

#define GEN_TX_BURST   32u
#define GEN_RX_BURST   16u /* received from the port at once */
#define GEN_CHECK_CNT  4u  /* of them are checked between two checks of the schedule */
#define GEN_SENDER_MAX 16u

struct gen_count {
	uint64_t sent_frames, sent_bytes;
	uint64_t echoed_frames; /* unique, reordered and late ones included; duplicates not */
	uint64_t corrupted, old_run, foreign;
	uint64_t bad_flow;   /* intact and of this run, but of no flow, or a number never sent */
	uint64_t tx_refused; /* turns in which the port did not take all that was due */
	uint64_t no_slot;    /* turns in which no slot was free for what was due */
	uint64_t link_downs; /* times that link, device or peer went down during the run */
};

/* The same for all senders. */
struct gen_run_conf {
	uint32_t headroom; /* spw_port_caps.slot_headroom */
	bool messages;     /* the port carries RDMA messages, not Ethernet frames */
	uint32_t mtu;      /* spw_port_caps.mtu */
	struct gen_frame_conf frame;
	struct gen_plan_conf plan; /* of all senders together */
	const struct spw_tsc *tsc;
	uint64_t seconds_ns;   /* how long the plan runs */
	uint64_t warm_up_ns;   /* frames due before this are in no percentile and have no cause */
	uint64_t linger_ns;    /* how long to wait for echoes after that */
	uint64_t link_wait_ns; /* how long to wait for the link before that; 0: not at all */
	uint64_t probe_ns;     /* how long to measure the idle core before the plan starts */
	uint64_t slow_ns;      /* frames that take longer get a cause each */
	bool expect_echo;      /* false: a sink is at the other end */
	const uint32_t *stop; /* set by a signal: ends the plan now, and the next change the wait */
	/* [sender_cnt], outlive the run: where slow frames and gaps are noted; NULL: nowhere */
	struct spw_trail *trail;
	/* With a trail: the NIC's clock, NULL: it stamps nothing; and [sender_cnt] the completions
	 * of each sender's queue, NULL: the port keeps none */
	struct spw_clock_box *nic_clock;
	const struct spw_port_sent *const *sent;
};

/* A frame that is built and that the port has not taken yet. */
struct gen_made {
	struct spw_desc desc;
	uint64_t number; /* how many this sender had made before it */
	uint64_t due_ns;
	uint16_t flow; /* of the plan: the sender's own numbering */
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
	uint32_t number_mask; /* ~0: frames have a stream number; 0: they have none */
	uint16_t run;
	bool expect_echo;
	struct gen_headers headers;
	struct gen_plan plan;
	uint32_t *next_seq;           /* by the sender's own flows */
	uint32_t empty[GEN_TX_BURST]; /* slots lent and not yet filled */
	uint32_t empty_cnt;
	struct gen_made line[GEN_TX_BURST];
	uint32_t line_cnt;
	struct spw_desc in[GEN_RX_BURST]; /* received and not checked yet: [in_next, in_cnt) */
	uint64_t in_tsc;
	uint64_t drained_tsc; /* the last poll before in_tsc that left the port empty */
	uint32_t in_next, in_cnt;
	uint32_t owed_cnt; /* steps of receiving before more frames leave */
	uint32_t poll_cnt;
	struct gen_sent sent;
	struct spw_trail_sender trail;
	/* since when the port has not taken all that was due, and more was due than a line holds;
	 * 0: neither */
	uint64_t refused_tsc, behind_tsc;
	struct gen_run *const *all; /* [sender_cnt], this one among them */
	/* set-up and end */
	uint64_t linger_ns, link_wait_ns, probe_ns;
	bool messages;
	bool link_seen;     /* the port reported its link, or this sender's peer, as up */
	uint32_t link_down; /* 1: it has reported it as down since */
	/* results; others sample them during the run */
	struct gen_count count;
	struct gen_track track; /* of all flows */
	struct gen_slow slow;
	uint64_t intended_frames; /* due by the plan while it ran; set at the end */
	uint64_t ran_ns;
	struct spw_hist round_trip_ns; /* from the intended time; unique echoes */
	struct spw_hist
		late_ns;      /* schedule error: from the intended time to the port's taking it */
	struct gen_gap gap;   /* between checks of the schedule */
	struct gen_gap alone; /* the same on the idle core, before the plan */
	/* how senders start together */
	uint32_t ready SPW_ALIGNED(2 * SPW_CACHE_LINE);  /* written by this sender */
	uint64_t go_tsc SPW_ALIGNED(2 * SPW_CACHE_LINE); /* of sender 0: when the plan begins */
	uint64_t sent_all;                               /* 1: this sender will send nothing more */
};

/* Purpose: prepares sender `sender` of sender_cnt.
 * Shape: sender_cnt 1 .. GEN_SENDER_MAX, and at most one for each flow. The caller fills all[]
 *   before the first gen_run.
 * Owner: the caller, until gen_run_fini.
 * Thread: setup.
 * Errors: those of gen_plan_init; -EINVAL; -ERANGE a frame of the plan is longer than the port's
 *   MTU; -ENOMEM.
 */
int gen_run_init(struct gen_run *run, const struct gen_run_conf *conf, struct spw_port_queue *queue,
		 const struct spw_pool *pool, uint32_t sender, struct gen_run *const *all,
		 uint32_t sender_cnt);
void gen_run_fini(struct gen_run *run);

/* Purpose: the whole run, with the wait for late echoes. All slots are back with the port when it
 *   returns.
 * Thread: owner; all senders at the same time, each on its own lcore.
 */
void gen_run(struct gen_run *run);

/* Purpose: how many frames a sender has sent of its flow number `own`.
 * Thread: owner, after gen_run.
 */
uint64_t gen_run_flow_sent(const struct gen_run *run, uint32_t own);

#endif
