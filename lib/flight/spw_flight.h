/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The flight recorder: all that a lane's loop learned from outside (bursts and the raw completions
 * that they came of, the executor's completions, clock readings, port events), in a ring of its own
 * that keeps the newest. The lane's pipe runs again from such records alone
 * (replay/spw_replay.h), without NIC, GPU or executor, and must come to the same ledger and the
 * same causes.
 *
 *   lcore      POLL  DONE  CLOCK ...         plain stores, no system call, no lock
 *                │
 *   ring       │ 3 │ 4 │ 5 ▲ 6 │ 7 │ 8 │     segments; each begins with a STATE of the pipe
 *                └─frozen──┘   └─written on   the newest half is frozen on request
 *                    │
 *   control     file FILE.PID.tmp, then renamed to FILE: a file is whole, or the one before it
 *
 * A segment is the unit of everything cold: it is left between two turns of the loop, so a STATE
 * holds between turns; and the control thread reads only segments that the owner has left and
 * will not enter, so that nothing is copied and nothing can be torn:
 *
 *   control  ask = n [F1]                 reads them [F4], writes the file, done = n [F5]
 *                 │                            ▲                              │
 *   owner         └► [F2] leaves its segment, [F3] granted = n                └► [F6] enters them
 *
 * While segments are frozen the owner has the other half of the ring. If it fills that too it
 * records nothing until the file is written; what follows is marked `broken`.
 *
 * File, of format SPW_FLIGHT_VERSION and read by that alone: struct spw_flight_file; for each
 * lane a struct spw_flight_lane, its segments, oldest first, each a struct spw_flight_seg and
 * its records. All is in the byte order of the machine; a reader with another one finds a wrong
 * magic. Every record begins with a struct spw_flight_rec and is a multiple of 8 bytes.
 *
 * Threads: "owner" is the lcore; "control" the program's one control thread; "setup" before the
 * lcore starts and after it has ended.
 */
#ifndef SPW_FLIGHT_H
#define SPW_FLIGHT_H

#include "frame/spw_column.h"
#include "frame/spw_desc.h"
#include "base/spw_order.h"
#include "frame/spw_port_event.h"
#include "base/spw_types.h"
#include "rec/spw_ledger.h"
#include "rec/spw_rec.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_FLIGHT_MAGIC       0x544847494c465753ull /* "SWFLIGHT" in a little-endian file */
#define SPW_FLIGHT_VERSION     6u
#define SPW_FLIGHT_SEG_CNT     32u /* of a ring, a power of 2; half of them may be frozen */
#define SPW_FLIGHT_LANE_MAX    64u
#define SPW_FLIGHT_SNAP_MAX    2048u
#define SPW_FLIGHT_FRAME_MAX   64u
#define SPW_FLIGHT_BAD_CNT     8u
#define SPW_FLIGHT_FETCH       512u /* bytes prefetched ahead of the next record */
#define SPW_FLIGHT_BACKEND_MAX 5u   /* executors of a lane */

/* ---- records ---- */

enum spw_flight_kind {
	SPW_FLIGHT_STATE = 1, /* the pipe between two turns; first of a segment, and of a backend */
	SPW_FLIGHT_POLL,      /* a burst, and what became of it up to the push */
	SPW_FLIGHT_SNAP,      /* the first bytes of each frame of the POLL before it */
	SPW_FLIGHT_DONE,      /* a batch was reaped and settled */
	SPW_FLIGHT_GAP,       /* a long step of the loop */
	SPW_FLIGHT_DRY,       /* the port had no slots */
	SPW_FLIGHT_CLOCK,     /* the clock maps changed */
	SPW_FLIGHT_IDENT,     /* the oldest frame of the batch reaped next is the generator's */
	SPW_FLIGHT_JUDGED,    /* a slow batch got its cause */
	SPW_FLIGHT_EVENT,     /* of the port */
	SPW_FLIGHT_RAW,       /* what a burst without frames read of the completion ring */
	SPW_FLIGHT_KIND_CNT
};

/* What every record begins with. */
struct spw_flight_rec {
	uint8_t kind;   /* enum spw_flight_kind */
	uint8_t cnt;    /* POLL, SNAP: frames; else 0 */
	uint16_t what;  /* of the kind */
	uint32_t bytes; /* of the record, this head included */
};
SPW_ASSERT_SIZE(struct spw_flight_rec, 8);

/* Of a POLL, in `what`. FULL: the burst brought as many frames as it could. SPILL: the executor
 * ring was full; `pushed` is when the slots were returned. CQES: struct spw_flight_sums and raw
 * completions follow; without it struct spw_columns of spw_flight_row, whose widths are in the high
 * byte of `what`. */
#define SPW_FLIGHT_FULL         (1u << 0)
#define SPW_FLIGHT_SPILL        (1u << 1)
#define SPW_FLIGHT_CQES         (1u << 2)
#define SPW_FLIGHT_WIDTHS_SHIFT 8

struct spw_flight_poll {
	struct spw_flight_rec rec;
	uint64_t seq; /* of the batch; SPILL: 0 */
	uint64_t polled, pushed, since, empty, before,
		turn; /* as struct spw_gring_batch has them */
	uint64_t exec_busy;
	uint32_t ahead;
	uint32_t reserved;
};
SPW_ASSERT_SIZE(struct spw_flight_poll, 80);

#define SPW_FLIGHT_FLAG_BITS 5u /* of spw_desc.flags; its length has the other 27 */

/* The frames of a POLL as columns (frame/spw_column.h), and back. Slots are not kept: the pipe only
 * borrows and returns them, and nothing that it counts depends on their numbers. Thread: any. */
SPW_INLINE void spw_flight_row(const void *descs, uint32_t i, uint64_t value_out[SPW_COLUMN_CNT])
{
	const struct spw_desc *d = (const struct spw_desc *)descs + i;

	value_out[0] = d->nic_stamp;
	value_out[1] = d->flags | d->len << SPW_FLIGHT_FLAG_BITS | (uint64_t)d->offset << 32;
	value_out[2] = d->meta | (uint64_t)d->region << 32 | (uint64_t)d->port << 48;
	value_out[3] = d->peer;
}

/* Thread: any. */
SPW_INLINE void spw_flight_unrow(const uint64_t value[SPW_COLUMN_CNT], struct spw_desc *desc_out)
{
	memset(desc_out, 0, sizeof(*desc_out));
	desc_out->nic_stamp = value[0];
	desc_out->flags = (uint32_t)value[1] & ((1u << SPW_FLIGHT_FLAG_BITS) - 1);
	desc_out->len = (uint32_t)value[1] >> SPW_FLIGHT_FLAG_BITS;
	desc_out->offset = (uint32_t)(value[1] >> 32);
	desc_out->meta = (uint32_t)value[2];
	desc_out->region = (uint16_t)(value[2] >> 32);
	desc_out->port = (uint16_t)(value[2] >> 48);
	desc_out->peer = (uint32_t)value[3];
}

/* What follows a POLL with SPW_FLIGHT_CQES: raw completions, in the port's own format, which
 * spw_flight_lane.raw_shape names; see port/spw_port_raw.h. The frames come out of them again. All
 * that is recorded beside them are sums over the frames: the replay compares these. */
struct spw_flight_sums {
	uint64_t stamps;
	uint32_t lens, metas, flags;
	uint32_t reserved;
	/* the port's bytes follow */
};
SPW_ASSERT_SIZE(struct spw_flight_sums, 24);

/* Purpose: the sums over cnt frames.
 * Thread:  any. */
void spw_flight_sum(const struct spw_desc *desc, uint32_t cnt, struct spw_flight_sums *sums_out);

/* The bytes of a burst that read completions but brought no frames, as in a POLL. */
struct spw_flight_raw {
	struct spw_flight_rec rec;
	/* the port's bytes follow */
};

/* Batches are settled in the order of their numbers. what: frames that tx_burst took. */
struct spw_flight_done {
	struct spw_flight_rec rec;
	uint64_t reaped, tx, refill; /* clock readings; 0: that step was not made */
	uint64_t w[8];               /* the completion, as the executor wrote it */
};
SPW_ASSERT_SIZE(struct spw_flight_done, 96);

/* what: regime << 8 | hold. */
struct spw_flight_gap {
	struct spw_flight_rec rec;
	uint64_t from, to, lost;
	uint64_t empty; /* spw_rec.empty_tsc at that time */
};

struct spw_flight_dry {
	struct spw_flight_rec rec;
	uint64_t from, to;
};

struct spw_flight_clock {
	struct spw_flight_rec rec;
	struct spw_clock_map exec_map, nic_map;
	uint64_t exec_unc, nic_unc;
	int64_t nic_step_2_32;
};

struct spw_flight_ident {
	struct spw_flight_rec rec;
	uint64_t seq; /* of the batch */
	struct spw_ident ident;
};

#define SPW_FLIGHT_WAIT_RELAUNCH (1u << 8) /* in `what`, beside the cause */
#define SPW_FLIGHT_RUN_RELAUNCH  (1u << 9)

/* what: the cause, and flags. The pauses are what the executor had reported by then. */
struct spw_flight_judged {
	struct spw_flight_rec rec;
	uint64_t seq, whole;
	uint64_t above; /* frames above the threshold */
	uint64_t wait_pause, run_pause, reap_pause;
	uint64_t keep_tsc; /* spw_rec.keep_tsc afterwards */
};

/* what: enum spw_drop under which refused echoes count from now on. */
struct spw_flight_event {
	struct spw_flight_rec rec;
	struct spw_port_event event;
};

#define SPW_FLIGHT_DRY_CNT 8u

/* The pipe between two turns; unit_cnt counters of the executor's units follow.
 *
 * A lane with several executors uses one at a time and changes it only while none has a batch. The
 * first record after a change is a STATE whose `backend` is the new one, so every other record is
 * of the backend of the last STATE before it:
 *
 *   STATE 0 │ POLL DONE POLL DONE │ STATE 1 │ POLL POLL DONE DONE │ STATE 0 │ POLL ...
 *
 * Each executor ring numbers its batches by itself: a number names a batch within its backend. */
struct spw_flight_state {
	struct spw_flight_rec rec;                            /* what: enum spw_drop, as in EVENT */
	uint64_t ledger[sizeof(struct spw_ledger_lcore) / 8]; /* its bytes: records lie on 8 */
	uint64_t bad[SPW_FLIGHT_BAD_CNT];
	uint64_t head_seq, tail_seq, retired_seq,
		in_exec_frames;   /* of the backend's executor ring */
	uint64_t executed_frames; /* counted by the executors of all backends */
	uint64_t exec_busy, exec_last_end, stamp_ref;
	uint64_t last_tsc, empty_tsc;
	uint64_t backlog_tsc, backlog_len_tsc, backlog_until_tsc;
	uint64_t keep_tsc;
	uint64_t gap_cnt;
	struct spw_rec_gap gap[SPW_REC_GAP_CNT];
	struct {
		uint64_t from, to, dry;
	} dry[SPW_FLIGHT_DRY_CNT];
	uint64_t dry_cnt;
	struct spw_flight_clock clock;
	uint32_t ended;    /* the last record of a lane that has ended */
	uint32_t backend;  /* the one in use from here on */
	uint32_t unit_cnt; /* of the backend */
	uint32_t reserved;
	/* uint64_t unit_frames[unit_cnt] follow */
};

/* ---- file ---- */

/* One executor of a lane, and the shape of its ring. */
struct spw_flight_backend {
	char exec[32]; /* "inline", "cuda-persistent, 1 CTA" */
	uint32_t batch_log2, unit_cnt, share_log2;
	uint32_t learns;    /* enum spw_cause_exec */
	uint32_t has_clock; /* its stamps are not CPU ticks; the maps are in CLOCK and STATE */
	uint32_t reserved;
};

/* What a lane was, as the pipe needs it to run again. */
struct spw_flight_lane {
	char port[64], handler[64];
	char plugin[256]; /* the file that the handler came from; "": it is built in */
	uint64_t slow_tsc, wait_tsc, keep_most_tsc;
	struct spw_flight_backend backend[SPW_FLIGHT_BACKEND_MAX];
	uint32_t backend_cnt;
	uint32_t turn_flags; /* of the loop's variant, without those of a backend */
	uint32_t snap_bytes;
	uint32_t seg_cnt; /* segments that follow */
	uint16_t lcore, queue;
	uint16_t can_tx;
	uint16_t reserved;
	uint8_t raw_shape[16]; /* struct spw_port_raw_shape; zero: no raw completions */
};

/* The ports' side of the ledger, which the pipes do not see; of a run that has ended. */
struct spw_flight_ports {
	uint64_t wire, missed, lent, sent, flushed;
	uint64_t dropped[SPW_PORT_DROP_CNT];
	uint64_t pool_slots, pool_free;
	uint32_t known; /* the run had ended: the fields above are final */
	uint32_t missed_known;
};

struct spw_flight_file {
	uint64_t magic;
	uint32_t version, lane_cnt;
	uint64_t file_bytes; /* of the whole file */
	uint64_t tsc_hz, slow_ns;
	uint64_t from_tsc; /* start of the run */
	char why[64];      /* what the file was written for */
	struct spw_flight_ports ports;
};

struct spw_flight_seg {
	uint64_t number; /* from 0 */
	uint32_t bytes;  /* of records that follow, a multiple of 8 */
	uint32_t broken; /* records are missing before it */
};

/* ---- the ring ---- */

struct spw_flight {
	/* owner: what a record needs */
	uint8_t *at, *end;   /* of the segment; end leaves room for what one turn may add */
	uint8_t *hard_end;   /* its true end */
	uint8_t *fetched;    /* up to here its lines were prefetched */
	uint8_t *ripe;       /* from here on a moment without batches in flight ends it */
	uint32_t snap_bytes; /* of each frame; 0: none */
	uint32_t ended;      /* the owner has written its last STATE */
	uint64_t seg;        /* number of the segment being written */
	struct spw_flight_poll *noted;        /* the last POLL */
	struct spw_flight_clock *noted_clock; /* the last CLOCK of the segment; NULL: none yet */
	struct spw_flight_clock clock;        /* as of the last CLOCK */
	uint64_t worst_tsc;  /* the longest slow batch so far; sampled by control */
	uint64_t missed_cnt; /* segments not recorded, as the ring was frozen; sampled */
	bool off;            /* now writing into the spare segment */
	/* the memory */
	uint8_t *memory;
	size_t bytes, seg_bytes;
	struct spw_flight_seg head[SPW_FLIGHT_SEG_CNT];
	uint64_t frozen_from, frozen_to; /* written by the owner before it grants */
	/* between control and owner */
	uint64_t ask SPW_ALIGNED(2 * SPW_CACHE_LINE);     /* written by control */
	uint64_t done;                                    /* written by control */
	uint64_t granted SPW_ALIGNED(2 * SPW_CACHE_LINE); /* written by the owner */
};

/* Purpose: a ring whose pages are all touched, of huge pages where the kernel gives some.
 * Shape:   bytes: in all, rounded to segments of whole pages. snap_bytes: of each frame's payload,
 *          0 .. SPW_FLIGHT_SNAP_MAX. numa_node -1: any.
 * Owner:   the caller, until spw_flight_close, which may be called on a zeroed ring.
 * Thread:  setup.
 * Errors:  -EINVAL too small for its snaps; -ENOMEM. With a text. */
int spw_flight_open(struct spw_flight *flight, size_t bytes, uint32_t snap_bytes, int numa_node);
void spw_flight_close(struct spw_flight *flight);

/* Private to spw_flight_take. Thread: owner. */
void *spw_flight_spare(struct spw_flight *flight) SPW_COLD;

/* Purpose:  the next record, its head filled in; the caller writes the rest before its turn ends.
 * Shape:    bytes: a multiple of 8; what one turn adds fits between `end` and `hard_end`.
 * Lifetime: until the turn ends.
 * Thread:   owner. */
SPW_INLINE void *spw_flight_take(struct spw_flight *flight, enum spw_flight_kind kind, uint8_t cnt,
				 uint16_t what, uint32_t bytes)
{
	struct spw_flight_rec *rec = (struct spw_flight_rec *)(void *)flight->at;

	if (spw_unlikely(bytes > (size_t)(flight->hard_end - flight->at)))
		rec = (struct spw_flight_rec *)spw_flight_spare(flight);
	else
		flight->at += bytes;
	for (; flight->fetched < flight->at + SPW_FLIGHT_FETCH; flight->fetched += SPW_CACHE_LINE)
		spw_prefetch_write(flight->fetched);
	*rec = (struct spw_flight_rec){(uint8_t)kind, cnt, what, bytes};
	return rec;
}

/* Purpose: writes a GAP; for spw_rec_gaps_to, whose `to` is the ring.
 * Thread:  owner. */
void spw_flight_gap(void *flight, const struct spw_rec_gap *gap, uint64_t empty_tsc) SPW_COLD;

/* Returns: whether the segment may be left (spw_flight_next), best while no batch is in flight; and
 * whether it must be left now. Thread: owner. */
SPW_INLINE bool spw_flight_is_ripe(const struct spw_flight *flight)
{
	return flight->at > flight->ripe;
}
SPW_INLINE bool spw_flight_is_full(const struct spw_flight *flight)
{
	return flight->at > flight->end;
}

/* Returns: whether control asks for the ring. Order: [F2 acquire, pairs with F1].
 * Thread: owner. */
SPW_INLINE bool spw_flight_is_asked(const struct spw_flight *flight)
{
	return spw_thr_load_acq(&flight->ask) != flight->granted; /* [F2 acquire, pairs with F1] */
}

/* Purpose: leaves the segment and begins the next; the caller then writes a STATE. If control asks
 *          for the ring, what was recorded up to here is frozen.
 * Order:   [F2 acquire, pairs with F1], [F3 release, pairs with F4], [F6 acquire, pairs with F5].
 * Thread:  owner, between two turns. */
void spw_flight_next(struct spw_flight *flight) SPW_COLD;

/* Purpose: asks the owner to freeze its newest segments; it does within some microseconds of
 *          polling.
 * Shape:   the last request has been returned.
 * Order:   [F1 release, pairs with F2].
 * Thread:  control. */
void spw_flight_ask(struct spw_flight *flight);

/* Returns: whether the segments are frozen. Order: [F4 acquire, pairs with F3].
 * Thread: control. */
bool spw_flight_is_granted(const struct spw_flight *flight);

/* Purpose: gives the frozen segments back to the owner. Order: [F5 release, pairs with
 * F6]. Thread: control. */
void spw_flight_return(struct spw_flight *flight);

/* Purpose: freezes the ring of an owner that has ended. Thread: setup. */
void spw_flight_freeze(struct spw_flight *flight);

/* Purpose: writes a file with the frozen segments of lane_cnt rings. It appears under its name when
 *          it is whole: a crash leaves the file that was there.
 * Shape:   file: lane_cnt, magic, version and file_bytes are filled in here; lane[i].seg_cnt too.
 *          window_tsc: segments that ended longer ago than that are left out; 0: none is.
 * Thread:  control; setup.
 * Errors:  those of spw_file_create; -EIO. With a text. */
int spw_flight_write(struct spw_flight *const *flight, struct spw_flight_lane *lane,
		     struct spw_flight_file *file, uint64_t window_tsc, const char *path);

/* ---- reading ---- */

/* One lane of a file, its segments in their order. */
struct spw_flight_read_lane {
	const struct spw_flight_lane *conf;
	const struct spw_flight_seg *seg[SPW_FLIGHT_SEG_CNT];
};

struct spw_flight_read {
	const struct spw_flight_file *file;
	struct spw_flight_read_lane lane[SPW_FLIGHT_LANE_MAX];
	uint8_t *memory; /* the file's bytes, if spw_flight_read_open read them */
};

/* Purpose: reads and checks a file; spw_flight_read_memory does the same with bytes in memory.
 * Shape:   every record of the file then lies within it and is one of the kinds above, with
 *          counts, indices and intervals in range. Nothing is said about the stamps.
 * Owner:   the caller, until spw_flight_read_close. memory: 8-byte aligned, outlives read_out.
 * Thread:  any.
 * Errors:  -EPROTO with what is wrong and where; -ENOMEM; -errno of the file. */
int spw_flight_read_open(const char *path, struct spw_flight_read *read_out);
int spw_flight_read_memory(const uint8_t *memory, size_t bytes, struct spw_flight_read *read_out);
void spw_flight_read_close(struct spw_flight_read *read);

/* Purpose: the first record of a segment, and the one after rec; NULL after the last.
 * Thread:  any. */
const struct spw_flight_rec *spw_flight_first(const struct spw_flight_seg *seg);
const struct spw_flight_rec *spw_flight_after(const struct spw_flight_seg *seg,
					      const struct spw_flight_rec *rec);

#ifdef __cplusplus
}
#endif
#endif
