/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The run-to-completion core: one lcore, one port queue, one executor ring.
 *
 *   poll ─ push ─ (executor) ─ reap ─ split by verdict ─ echo ─ recycle ─ record
 *
 * A turn of the loop takes what one poll brings as one batch, hands it over, and settles what the executor has finished.
 * It never waits: where the executor ring is full, the frames go straight home and are counted ring_full.
 * A port lends slots; the pipe owes each of them back exactly once, by release or by an accepted transmit.
 *
 * Threads: "setup" is the main thread before run and after the lcore has left it; "owner" is the lcore.
 */
#ifndef SPW_PIPE_H
#define SPW_PIPE_H

#include "base/spw_types.h"
#include "gpu/spw_exec.h"
#include "gpu/spw_gring.h"
#include "port/spw_port.h"
#include "rec/spw_ledger.h"
#include "rec/spw_rec.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_PIPE_EVENT_CNT 32u /* a power of 2 */

struct spw_pipe_conf {
	struct spw_port_queue *queue;  /* set up and started before run */
	struct spw_gring *ring;        /* bound to pool by spw_pipe_init */
	const struct spw_pool *pool;   /* of the queue */
	struct spw_exec *exec;         /* whose ring that is; NULL: nobody needs a heartbeat */
	uint16_t exec_ring;
	uint16_t burst;                /* frames per poll at most, 1 .. SPW_BURST_MAX */
	bool can_tx;                   /* false: what should be echoed is dropped, tx_down */
	bool record;                   /* stamps, stages and regimes; false leaves no trace of them in the loop */
	enum spw_cause_exec exec_way;  /* how that executor comes to its work */
	bool exec_has_clock;           /* executor stamps are not CPU ticks: translated by the map in exec_clock */
	bool nic_stamps;               /* frames carry NIC stamps: translated by the map in nic_clock */
	bool nic_frames;               /* and each frame's way from its stamp is recorded, not only its batch's oldest */
	struct spw_clock_box *exec_clock, *nic_clock; /* NULL: the CPU's own */
	uint64_t exec_unc_tsc;         /* how early an executor on the CPU's own clock may stamp: readings are not ordered */
	uint64_t slow_tsc;             /* frames above it get a cause; 0: none does */
	uint64_t slow_wait_tsc;        /* a slow batch is judged so much later, when its executor can have told of a pause */
	uint16_t lcore, queue_idx;     /* for the list of the worst */
	uint64_t frames_max;           /* leaves run after that many frames; 0: never */
	uint64_t drain_tsc;            /* longest wait for the executor at the end, ticks */
	uint32_t seed;                 /* of the housekeeping's random spacing; any */
};

/* Port events on their way from the lcore to the control thread. One writer, one reader, nobody waits. */
struct spw_pipe_events {
	uint32_t head SPW_ALIGNED(2 * SPW_CACHE_LINE); /* written by the owner */
	uint32_t lost;                                 /* events that found the ring full */
	uint32_t tail SPW_ALIGNED(2 * SPW_CACHE_LINE); /* written by the reader */
	struct spw_port_event event[SPW_PIPE_EVENT_CNT];
};

#define SPW_PIPE_DRY_CNT 8u /* a power of 2 */

/* A stretch of time in which the port kept running out of slots, ticks. */
struct spw_pipe_dry {
	uint64_t from, to, dry;
};

/* What the pipe keeps for the description of slow frames; all of it cold. */
struct spw_pipe_slow {
	const struct spw_pool *frames;    /* NULL: the host may not read them */
	enum spw_cause_exec exec;
	uint16_t lcore, queue;
	struct spw_ident ident;           /* of batch ident_seq's oldest frame */
	uint64_t ident_seq;
	bool ident_known;
	uint64_t no_slot_seen;            /* the port's counter at the last look */
	uint64_t dry_look;
	struct spw_pipe_dry dry[SPW_PIPE_DRY_CNT];
	uint32_t dry_cnt;
	uint64_t relaunch_tsc[2];         /* written by the control thread: the resident kernel was launched again between */
};

struct spw_pipe {
	/* what a turn reads; written at setup, tx_drop by the owner on link events */
	struct spw_port_queue *queue;
	struct spw_gring *ring;
	uint16_t (*turn)(struct spw_pipe *pipe);
	uint64_t frames_left;
	uint32_t house_turns;  /* turns until housekeeping */
	uint32_t house_slice;
	uint32_t house_rng;
	uint16_t burst;
	uint16_t exec_ring;
	uint32_t tx_drop;      /* enum spw_drop that a refused echo counts under */
	bool can_tx;
	struct spw_exec *exec;
	void (*drain_turn)(struct spw_pipe *pipe);
	struct spw_clock_box *exec_clock, *nic_clock;
	uint64_t drain_tsc;
	uint64_t exec_busy;     /* sum of all settled batches' execution, executor clock */
	uint64_t exec_last_end; /* the latest end among them */
	/* written by the owner, sampled by others */
	struct spw_ledger_lcore ledger;
	uint64_t bad[SPW_BAD_CNT] SPW_ALIGNED(2 * SPW_CACHE_LINE); /* by the executor's reasons, summed at reap */
	uint32_t ended;
	struct spw_pipe_events events;
	struct spw_pipe_slow slow;
	/* takes the frames of a poll when the ring has no record for them */
	struct spw_gring_batch spill;
	struct spw_rec rec;
} SPW_ALIGNED(2 * SPW_CACHE_LINE);

/* Purpose: prepares pipe (about 0.8 MiB, aligned to 128 bytes, on the lcore's NUMA node) and chooses its variant.
 * Owner:   the caller; queue, ring and exec outlive it. Thread: setup. Errors: -EINVAL with a text. */
int spw_pipe_init(struct spw_pipe *pipe, const struct spw_pipe_conf *conf);

/* Purpose: one turn of the loop. Returns: frames polled, dropped ones included. Thread: owner. Cost: the data path. */
SPW_INLINE uint16_t spw_pipe_run_once(struct spw_pipe *pipe)
{
	return pipe->turn(pipe);
}

/* Purpose: turns until *stop is not 0 or frames_max have come, then drains: polls nothing more, settles what the executor
 *          still has, for at most drain_tsc. Order: stop is only a hint (relaxed); `ended` is released at the end [Q3].
 * Thread: owner. */
void spw_pipe_run(struct spw_pipe *pipe, const uint32_t *stop);

/* Order: [Q4 acquire, pairs with Q3 in spw_pipe_run]: after it the owner's memory may be read. Thread: any. */
SPW_INLINE bool spw_pipe_ended(const struct spw_pipe *pipe)
{
	return spw_thr_load_acq(&pipe->ended) != 0; /* [Q4] */
}

/* Purpose: brings home what an executor that had to be abandoned still held, counted exec_lost. After run and after
 *          spw_exec_stop, before spw_port_stop. Returns: frames lost that way. Thread: setup. */
uint64_t spw_pipe_reclaim(struct spw_pipe *pipe);

/* Purpose: the executor's resident kernel was found gone and launched again between these moments; frames that waited for
 *          it get the cause relaunched. Thread: control. */
void spw_pipe_relaunched(struct spw_pipe *pipe, uint64_t from_tsc, uint64_t to_tsc);

/* Purpose: the next port event, oldest first. Returns: false when there is none. Thread: the one reader.
 * Order: [Q2 acquire, pairs with Q1 in the pipe's housekeeping]. */
bool spw_pipe_event(struct spw_pipe *pipe, struct spw_port_event *event_out);

#ifdef __cplusplus
}
#endif
#endif
