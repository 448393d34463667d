/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Why a frame was slow. The frame's whole time is divided among the causes, tick by tick, so that
 * the parts sum to the whole; the cause with the largest part is the frame's cause. Causes are
 * exclusive and every slow frame has one.
 *
 *   part            is divided in this order
 *   --------------  -----------------------------------------------------------------------------
 *   nic_polled      gaps of the loop, then an empty pool, empty polls, rest: port_backlog
 *   polled_pushed   lost core, rest: poll_gap (exec_late where push calls a driver)
 *   pushed_start    batches ahead, relaunch, lost core, pauses, rest: exec_late
 *   start_end       relaunch, lost core (inline only), pauses, rest: handler_slow
 *   end_reaped      batches ahead, lost core, pauses, gaps of the loop, rest: reap_late
 *   reaped_sent     lost core, long release, rest: tx_stall or refill_stall
 *
 * The facts come from the recorder (stamps, gaps of the loop), the executor (pauses, batches ahead)
 * and the port (empty pool); this file only judges. docs/050-measuring-tails.md has the table in
 * words.
 *
 * A new cause is a row of SPW_CAUSE_LIST and a charge in cause.c. A fact that it needs is a field
 * of struct spw_cause_facts, filled by pipe/pipe_slow.c, or by slow.c if it is a gap of the loop.
 * These know the causes by name: the cases of tests/unit/rec/cause_test.c,
 * share/schema/common.json, HOLD_CAUSE and TEXTS in tools/lib/spwplaces.py, the remedies of
 * tools/lib/spwreport/advice.py, CAUSES of spinwire/results.py (by position), and both tables of
 * docs/050; schema, places and remedies are compared by tests/unit/tools/schema_test.py.
 */
#ifndef SPW_CAUSE_H
#define SPW_CAUSE_H

#include "base/spw_enum.h"
#include "rec/spw_stage.h"

#ifdef __cplusplus
extern "C" {
#endif

/* name, meaning */
#define SPW_CAUSE_LIST(X, P)                                                                  \
	X(P, poll_gap, "the loop did not run: it lost its core, or a receive call took long") \
	X(P, port_late, "stamped by the NIC, but polls did not return it yet")                \
	X(P, port_backlog, "queueing delay in the port while the loop kept polling")          \
	X(P, refill_stall,                                                                    \
	  "the port had no buffer to receive into, or took long to recycle slots")            \
	X(P, batch_ahead, "the executor was busy with batches before it")                     \
	X(P, exec_late,                                                                       \
	  "the executor was free, but started late; a CPU executor's thread may have "        \
	  "lost its core")                                                                    \
	X(P, gpu_sliced, "the GPU ran another program: it is shared in time slices")          \
	X(P, relaunched, "the resident kernel had ended and was launched again")              \
	X(P, handler_slow, "the handler itself took long")                                    \
	X(P, reap_late, "finished, but the loop was busy elsewhere")                          \
	X(P, tx_stall, "the port took long to transmit")                                      \
	X(P, cpu_quota, "the control group had used its CPU quota: the kernel stopped its threads")

enum spw_cause { SPW_ENUM(SPW_CAUSE) };

/* Purpose: the name as it is printed, and its meaning in one clause. Shape: cause below
 * SPW_CAUSE_CNT. Thread: any. */
const char *spw_cause_name(enum spw_cause cause);
const char *spw_cause_text(enum spw_cause cause);

/* What held the loop up in one long step. */
enum spw_hold {
	SPW_HOLD_LOST,   /* its core: switched out, or a step that has nothing to wait for */
	SPW_HOLD_PORT,   /* the port's receive or event call */
	SPW_HOLD_PUSH,   /* push: the inline handler, or the driver call of a launching executor */
	SPW_HOLD_TX,     /* tx_burst */
	SPW_HOLD_REFILL, /* release_burst */
	SPW_HOLD_QUOTA, /* its core, while the CPU quota of the control group stopped its threads */
	SPW_HOLD_CNT
};

/* Purpose: the name as it is printed. Shape: hold below SPW_HOLD_CNT. Thread: any. */
const char *spw_hold_name(enum spw_hold hold);

/* How an executor learns of a batch: it decides what a delay before or after it means. */
enum spw_cause_exec {
	SPW_CAUSE_EXEC_POLLS,    /* a CPU thread polls the ring */
	SPW_CAUSE_EXEC_INLINE,   /* push runs the handler */
	SPW_CAUSE_EXEC_GPU,      /* a resident kernel */
	SPW_CAUSE_EXEC_LAUNCHED, /* push calls a driver */
};

/* What is known about one slow frame, in ticks. Facts about a part may overlap; the one that comes
 * first in the table above gets the ticks. */
struct spw_cause_facts {
	uint64_t part[SPW_STAGE_PART_CNT]; /* by enum spw_stage; they sum to the frame's whole */
	/* of each part: how long the loop was held up, by what */
	uint64_t held[SPW_STAGE_PART_CNT][SPW_HOLD_CNT];
	uint64_t dry;        /* of nic_polled: the port reported an empty pool */
	uint64_t not_polled; /* of nic_polled: until the last poll that did not return it */
	uint64_t ahead;      /* of pushed_start: earlier batches were being executed */
	/* of pushed_start, start_end, end_reaped: the executor reports a pause */
	uint64_t wait_pause, run_pause, reap_pause;
	uint64_t reap_ahead; /* of end_reaped: an earlier batch was unfinished */
	/* the resident kernel was launched again during pushed_start, during start_end */
	bool wait_relaunch, run_relaunch;
	bool sent_tx; /* some of the batch went out by tx_burst */
	enum spw_cause_exec exec;
};

/* Purpose: divides one part among the causes, adding to ticks_out. Pure.
 * Shape:   part: below SPW_STAGE_PART_CNT.
 * Thread:  any. */
void spw_cause_split_part(const struct spw_cause_facts *facts, unsigned int part,
			  uint64_t ticks_out[SPW_CAUSE_CNT]);

/* Purpose: divides the whole among the causes. Pure.
 * Shape:   ticks_out[] sums to the sum of facts->part[].
 * Returns: the cause with the most ticks; the first of equals.
 * Thread:  any. */
enum spw_cause spw_cause_split(const struct spw_cause_facts *facts,
			       uint64_t ticks_out[SPW_CAUSE_CNT]);

#ifdef __cplusplus
}
#endif
#endif
