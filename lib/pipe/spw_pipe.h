/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The run-to-completion core: one lcore, one port queue, one executor ring at a time.
 *
 *   poll ─ push ─ (executor) ─ reap ─ sort by verdict ─ echo ─ recycle ─ record
 *
 * A turn of the loop takes what one poll brings as one batch, pushes it, and settles what the
 * executor has finished. It never waits: if the executor ring is full, the slots are returned to
 * the port at once and counted ring_full.
 *
 * How a slot goes, and who owns the duty to return it:
 *
 *   pool ──> port ──rx_burst──> pipe ──push──> executor ──reap──> pipe ──release_burst──> port
 *            lends              owes it        only reads/writes  owes it └─tx_burst────> port
 *                                              the bytes          again     (returns it when sent)
 *
 * The pipe returns each slot exactly once, by release_burst or by an accepted tx_burst.
 *
 * Threads: "setup" is the main thread before the lcore enters spw_pipe_run and after
 * spw_pipe_ended; "owner" is the lcore; "control" is the program's one control thread.
 */
#ifndef SPW_PIPE_H
#define SPW_PIPE_H

#include "trail/spw_trail_nic.h"
#include "base/spw_types.h"
#include "exec/spw_exec.h"
#include "exec/spw_gring.h"
#include "obj/spw_obj.h"
#include "obj/spw_obj_slow.h"
#include "port/spw_port.h"
#include "flight/spw_flight.h"
#include "rec/spw_ledger.h"
#include "rec/spw_rec.h"
#include "ring/spw_ring.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_PIPE_BACKEND_MAX 5u

/* A backend to hand frames over: an executor ring, and what the loop must know of its executor. */
struct spw_pipe_backend {
	struct spw_gring *ring;     /* spw_pipe_init binds it to the pool */
	struct spw_exec *exec;      /* ring's executor; NULL: it needs no heartbeat */
	uint16_t exec_ring;         /* ring's index in exec */
	enum spw_cause_exec learns; /* how the executor learns of a batch */
	/* Its stamps are not CPU ticks: the map in clock translates them. */
	bool has_clock;
	struct spw_clock_box *clock; /* NULL: nobody brings a newer map */
	/* For an executor on the CPU's clock: how early its stamps may appear, ticks, since clock
	 * readings of two cores are not ordered. */
	uint64_t unc_tsc;
};

/* A receipt, and what else is known of the object. */
struct spw_pipe_receipt {
	struct spw_obj_receipt receipt;
	bool released; /* about the release: the receipt has id, generation and publish_tsc alone */
	uint64_t release_tsc; /* 0: the consumer ended without */
	bool judged;          /* slow, or among the longest: the rest is filled in */
	bool slow;
	enum spw_obj_slow why;
	uint64_t ticks[SPW_OBJ_SLOW_CNT]; /* by cause; they sum to the whole */
	struct spw_obj_facts facts;
};

/* Returns: ticks from the first frame to the publication, of one that was judged. Thread: any. */
SPW_INLINE uint64_t spw_pipe_receipt_whole(const struct spw_pipe_receipt *r)
{
	return r->facts.edge[SPW_OBJ_PART_CNT] - r->facts.edge[0];
}

#define SPW_PIPE_WORST_CNT 16u /* objects kept */

/* Slow objects of a stream. `objects` is sampled by others while the lcore runs; the rest is for
 * after spw_pipe_ended. */
struct spw_pipe_objects_slow {
	uint64_t limit_tsc, keep_tsc;         /* slow above limit; judged above either */
	uint64_t objects[SPW_OBJ_SLOW_CNT];   /* that were slow, or shed */
	uint64_t ticks[SPW_OBJ_SLOW_CNT];     /* of the slow ones, summed */
	uint64_t worst_tsc[SPW_OBJ_SLOW_CNT]; /* of one; 0: those were shed */
	struct spw_pipe_receipt worst[SPW_PIPE_WORST_CNT]; /* the longest first, slow or not */
	uint32_t worst_cnt;
	struct spw_hist latency; /* first frame to publication, ticks */
};

#define SPW_PIPE_MOVE_MIN    4096u  /* of a table of moves */
#define SPW_PIPE_RECEIPT_CNT 16384u /* receipts that wait for the control thread; a power of 2 */

/* A queue whose payload goes into objects; its rings' handler is exec/spw_place.h. */
struct spw_pipe_objects {
	struct spw_obj *obj; /* NULL: it has none. Opened with spw_pipe_receipt_put and the pipe */
	/* Memory of the executor's that holds moves; a power of 2, at least SPW_PIPE_MOVE_MIN. */
	struct spw_move *table;
	uint32_t table_cnt;
	struct spw_tsc tsc; /* of the CPU's clock, for receipts */
	uint64_t slow_tsc;  /* objects that take longer, first frame to publication, are slow */
	/* [SPW_PIPE_RECEIPT_CNT], for spw_pipe_receipt; NULL: nobody takes receipts. */
	struct spw_pipe_receipt *receipt;
};

struct spw_pipe_conf {
	struct spw_port_queue *queue; /* set up; started before run */
	const struct spw_pool *pool;  /* the queue's pool */
	/* The backends that spw_pipe_ask may choose from; the loop begins with backend[0]. */
	struct spw_pipe_backend backend[SPW_PIPE_BACKEND_MAX];
	uint32_t backend_cnt; /* 1 .. SPW_PIPE_BACKEND_MAX */
	uint16_t burst;       /* frames per poll at most, 1 .. SPW_BURST_MAX */
	bool can_tx;          /* false: every echo is dropped, counted tx_down */
	/* false: no stamps, stages or regimes; the loop is compiled without them */
	bool record;
	/* Frames carry NIC stamps: the map in nic_clock translates them. */
	bool nic_stamps;
	/* With nic_stamps: each frame is recorded by its own stamp, not only the batch's oldest. */
	bool nic_frames;
	struct spw_clock_box *nic_clock; /* NULL: the CPU's own clock */
	uint64_t slow_tsc;               /* frames above it get a cause; 0: none does */
	/* Delay before a slow batch is judged, ticks: the executor reports a pause only after it.
	 */
	uint64_t slow_wait_tsc;
	int quota_fd; /* spw_rec_quota; 0: none */
	/* Where the generator's frames are noted, with `record` and slow_tsc; NULL: nowhere.
	 * Outlives the pipe. */
	struct spw_trail *trail;
	/* With a trail and nic_stamps: the queue's send completions, which go there too; NULL: it
	 * keeps none. */
	const struct spw_port_sent *sent;
	/* Where what the loop learns is recorded, with `record`; NULL: nowhere. Outlives the pipe.
	 */
	struct spw_flight *flight;
	struct spw_pipe_objects objects; /* all that it points to outlives the pipe */
	uint16_t lcore, queue_idx;       /* numbers for the list of the worst frames */
	uint64_t frames_max;             /* run ends after that many frames; 0: never */
	uint64_t drain_tsc;              /* longest wait for the executor at the end, ticks */
	uint32_t seed;                   /* any; spaces housekeeping */
};

#define SPW_PIPE_EVENT_CNT 32u /* a power of 2 */

/* Port events on their way from the lcore (producer) to the control thread (consumer). Neither
 * waits: what finds the ring full is counted in lost. The last free entry is reserved for
 * SPW_PORT_EVENT_DEVICE_GONE. */
struct spw_pipe_events {
	uint32_t lost SPW_ALIGNED(2 * SPW_CACHE_LINE); /* written by the owner */
	struct spw_ring ring SPW_ALIGNED(2 * SPW_CACHE_LINE);
	struct spw_port_event event[SPW_PIPE_EVENT_CNT];
};

#define SPW_PIPE_DRY_CNT 8u /* a power of 2 */

/* A stretch of time in which the port kept running out of slots, ticks. */
struct spw_pipe_dry {
	uint64_t from, to;
	uint64_t dry; /* the part of it without free slots, at most */
};

/* What the pipe keeps for the description of slow batches; never touched by a fast turn. */
struct spw_pipe_slow {
	const struct spw_pool *frames; /* NULL: the host cannot read the payload */
	enum spw_cause_exec exec;
	uint16_t lcore, queue;
	struct spw_ident ident; /* of the oldest frame of batch ident_seq */
	uint64_t ident_seq;
	bool ident_known;
	bool nic_stamps;       /* frames carry NIC stamps, and nic_map translates them */
	uint64_t no_slot_last; /* last sample of the port's no-slot counter */
	uint64_t dry_tsc;      /* when that sample was taken */
	struct spw_pipe_dry dry[SPW_PIPE_DRY_CNT];
	uint32_t dry_cnt;
	/* Written by the control thread: the resident kernel was relaunched between these. */
	uint64_t relaunch_tsc[2];
};

/* What the pipe keeps for its trail (pipe_trail.c). Numbers count the frames that the port took. */
struct spw_pipe_trail {
	struct spw_trail_nic port; /* the queue's send completions */
	uint64_t noted;            /* highest number of a frame on the trail */
	uint64_t taken;            /* frames that the port had taken before this batch */
	uint64_t frames_at;        /* the trail's count before this batch's frames */
};

/* What the pipe keeps for its objects (pipe_obj.c). */
struct spw_pipe_obj {
	struct spw_obj *obj; /* NULL: it has none */
	const struct spw_pool *pool;
	struct spw_move *table;
	uint32_t mask;       /* moves of the table - 1 */
	uint32_t head, tail; /* moves written; freed; modulo 2^32 */
	uint32_t begin;      /* head before the latest batch */
	uint32_t at;         /* end of the moves of frames that wait */
	uint32_t waiting;    /* frames in the ring's next record: the executor is behind */
	uint64_t empty_tsc;  /* of the last poll: struct spw_rec_poll */
	uint64_t seq_base;   /* seq of spw_obj.h = that + seq of the ring in use */
	struct spw_tsc tsc;
	uint64_t fill_frames; /* descriptors of fill moves that were reaped; sampled by others */
	const struct spw_gring_batch *done; /* that was retired just now; NULL: none */
	struct spw_pipe_objects_slow slow;
	/* receipts on their way from the lcore (producer) to the control thread (consumer) */
	struct spw_pipe_receipt *receipt; /* NULL: nobody takes them */
	uint64_t receipts_lost;           /* that found the ring full; sampled by others */
	struct spw_ring receipts SPW_ALIGNED(2 * SPW_CACHE_LINE);
};

/* One pipe. Readers outside the lcore use spw_pipe_summary, spw_pipe_collect and spw_pipe_event,
 * not the fields. */
struct spw_pipe {
	/* what a turn reads: written at setup; tx_drop also by the owner on link events */
	struct spw_port_queue *queue;
	struct spw_gring *ring;
	uint16_t (*turn)(struct spw_pipe *pipe); /* the variant of the loop's body */
	uint64_t frames_left;
	uint32_t house_turns; /* turns until the next slice of housekeeping */
	uint32_t house_slice;
	uint32_t house_rng;
	uint16_t burst;
	uint32_t tx_drop; /* enum spw_drop under which a refused echo is counted */
	bool can_tx;
	struct spw_clock_box *exec_clock, *nic_clock;
	/* the backends (pipe_backend.c); ring, turn and exec_clock are those of
	 * backend[backend_idx] */
	struct spw_pipe_backend backend[SPW_PIPE_BACKEND_MAX];
	uint32_t backend_cnt;
	uint32_t backend_idx;     /* written by the owner, sampled by others */
	uint32_t asked;           /* written by the control thread: see spw_pipe_ask */
	unsigned int flags;       /* of the variant, without those of the backend */
	uint64_t change_tsc;      /* since when it drains for another backend */
	uint64_t backend_changes; /* backends that were changed, written by the owner */
	uint64_t drain_tsc;
	uint64_t exec_busy;        /* executions of all settled batches, summed, executor clock */
	uint64_t exec_last_end;    /* the latest end among them */
	struct spw_flight *flight; /* NULL: none */
	uint32_t turn_flags;       /* of the loop's variant */
	/* written by the owner, sampled by others */
	struct spw_ledger_lcore ledger;
	/* frames that the executor called bad, by its reason, counted at reap */
	uint64_t bad[SPW_BAD_CNT] SPW_ALIGNED(2 * SPW_CACHE_LINE);
	uint32_t ended;
	struct spw_pipe_events events;
	struct spw_pipe_slow slow;
	struct spw_pipe_trail trail;
	struct spw_gring_batch spill; /* receives the frames of a poll when the ring is full */
	struct spw_rec rec;
	struct spw_pipe_obj obj;
} SPW_ALIGNED(2 * SPW_CACHE_LINE);

/* ---- set-up, run, end ---- */

/* Purpose: prepares pipe and chooses the variant of its loop.
 * Shape:   pipe is about 0.8 MiB, aligned to 128 bytes, best on the lcore's NUMA node.
 * Owner:   the caller; queue, ring, exec and the clock boxes outlive it.
 * Thread:  setup.
 * Errors:  -EINVAL with a text. */
int spw_pipe_init(struct spw_pipe *pipe, const struct spw_pipe_conf *conf);

/* Purpose: takes the clocks' maps and starts the recorder's clock; before the first turn.
 * Thread:  owner. */
void spw_pipe_begin(struct spw_pipe *pipe);

/* Purpose: one turn of the loop.
 * Returns: frames polled, those that were dropped included.
 * Thread:  owner. The data path: no wait, lock, allocation or system call. */
SPW_INLINE uint16_t spw_pipe_run_once(struct spw_pipe *pipe)
{
	return pipe->turn(pipe);
}

/* Purpose: after the last turn: polls nothing more, settles what the executor still has, for at
 *          most drain_tsc, judges every slow batch, and ends recording.
 * Order:   at the end `ended` is released [Q3].
 * Thread:  owner. */
void spw_pipe_end(struct spw_pipe *pipe);

/* Purpose: begin, turns until *stop is not 0 or frames_max frames have come, end.
 * Order:   stop is a hint and carries no order (relaxed).
 * Thread:  owner. */
void spw_pipe_run(struct spw_pipe *pipe, const uint32_t *stop);

/* Purpose: whether the lcore has left spw_pipe_end.
 * Order:   [Q4 acquire, pairs with Q3 in spw_pipe_end]: once true, all that the owner wrote may be
 *          read.
 * Thread:  any. */
SPW_INLINE bool spw_pipe_ended(const struct spw_pipe *pipe)
{
	return spw_thr_load_acq(&pipe->ended) != 0; /* [Q4] */
}

/* Purpose: returns the slots of batches that the executor never finished, counted exec_lost.
 *          Call it after spw_pipe_ended and spw_exec_stop, and before spw_port_stop.
 * Returns: the number of frames lost that way.
 * Thread:  setup. */
uint64_t spw_pipe_reclaim(struct spw_pipe *pipe);

/* ---- for other threads ---- */

/* Purpose: fills in what a recording says of the lane; names are the caller's.
 * Thread:  any. */
void spw_pipe_flight_lane(const struct spw_pipe *pipe, struct spw_flight_lane *lane_out);

/* Purpose: takes the oldest port event.
 * Returns: false if there is none.
 * Order:   R4 and R2 of ring/spw_ring.h, with R3 and R1 in the pipe's housekeeping.
 * Thread:  control. */
bool spw_pipe_event(struct spw_pipe *pipe, struct spw_port_event *event_out);

/* Purpose: spw_obj_receipt_fn of a stream: takes a receipt for spw_pipe_receipt, or counts it lost.
 * Shape:   arg: the pipe.
 * Thread:  owner. */
void spw_pipe_receipt_put(void *arg, const struct spw_obj_receipt *receipt,
			  const struct spw_obj_way *way);

/* Purpose: why objects were slow, and how long all took. Thread: any; exact after spw_pipe_ended.
 */
const struct spw_pipe_objects_slow *spw_pipe_objects_slow(const struct spw_pipe *pipe);

/* Purpose: takes the oldest receipt of an object, or notice of its release.
 * Returns: false if there is none.
 * Order:   as spw_pipe_event.
 * Thread:  control. */
bool spw_pipe_receipt(struct spw_pipe *pipe, struct spw_pipe_receipt *receipt_out);

/* Purpose: reports that the executor's resident kernel was found gone and was launched again
 *          between these moments; frames that waited for it get the cause `relaunched`. Only the
 *          latest report is kept.
 * Thread:  control. */
void spw_pipe_relaunched(struct spw_pipe *pipe, uint64_t from_tsc, uint64_t to_tsc);

/* Purpose: asks the loop to poll at most `burst` frames at a time, and to use backend[backend]. The
 * loop follows in its housekeeping: the burst counts at once; for another backend it polls nothing
 *          until the executor has finished what it has, for at most drain_tsc (then it goes on as
 *          before, and tries again when it is asked again).
 *
 *   control   ask(backend 1)
 *   owner     backend 0: poll, push ... │ settle ... until the ring is empty │ backend 1: poll,
 * push ... port      frames are taken      │ frames wait in the port            │ frames are taken
 *
 * Shape:   backend < backend_cnt; burst 1 .. SPW_BURST_MAX. The last request counts.
 * Order:   Q1, Q2: what the caller did before (starting that backend's executor) comes before the
 *          loop's first use of it.
 * Thread:  control. */
void spw_pipe_ask(struct spw_pipe *pipe, uint32_t backend, uint16_t burst);

/* Returns: the backend in use, and with which burst.
 * Order:   Q5, Q6: the loop touches the ring of the backend before no more, so its executor may be
 *          stopped.
 * Thread:  any. */
uint32_t spw_pipe_backend(const struct spw_pipe *pipe, uint16_t *burst_out);

/* The counters of one pipe, as spw_pipe_summary read them. */
struct spw_pipe_summary {
	struct spw_ledger_lcore ledger;      /* for spw_ledger_add_lcore */
	uint64_t bad[SPW_BAD_CNT];           /* by enum spw_bad, for spw_ledger_add_reasons */
	uint64_t regime_tsc[SPW_REGIME_CNT]; /* where the lcore's ticks went */
	uint64_t held_cnt[SPW_HOLD_CNT];     /* gaps of the loop, by enum spw_hold */
	uint64_t turn_max_tsc;               /* the longest turn */
	uint64_t events_lost;                /* port events that found the event ring full */
	uint64_t fill_frames;                /* descriptors that had no frame (pipe_obj.c) */
	uint64_t receipts_lost;              /* receipts that found their ring full */
};

/* Purpose: samples the pipe's counters.
 * Shape:   while the lcore runs each counter is whole, but they are not of one moment: sums may
 *          differ by what is under way. After spw_pipe_ended they are exact.
 * Thread:  any. */
void spw_pipe_summary(const struct spw_pipe *pipe, struct spw_pipe_summary *out);

/* Purpose: spw_rec_collect of the pipe's recorder: adds the finished interval to view.
 * Returns: false if no new interval was ready.
 * Thread:  owner (the recorder's one reader). */
bool spw_pipe_collect(struct spw_pipe *pipe, struct spw_rec_view *view);

/* Purpose: spw_rec_collect_rest of the pipe's recorder: adds everything not yet collected.
 * Thread:  setup, after spw_pipe_ended. */
void spw_pipe_collect_rest(struct spw_pipe *pipe, struct spw_rec_view *view);

#ifdef __cplusplus
}
#endif
#endif
