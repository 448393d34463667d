/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Why a frame was slow. The frame's whole time is parted among the causes, tick by tick, so that the parts sum to the
 * whole; the cause that got most is the frame's cause. Causes are exclusive and every frame has one.
 *
 * The facts come from the recorder (stamps, gaps of the loop), the executor (pauses, batches ahead) and the port (empty
 * pool); this file only judges. docs/050-measuring-tails.md has the table in words.
 */
#ifndef SPW_CAUSE_H
#define SPW_CAUSE_H

#include "rec/spw_stage.h"

#ifdef __cplusplus
extern "C" {
#endif

/* name, meaning */
#define SPW_CAUSE_LIST(X)                                                                                              \
	X(poll_gap, "the loop was away: its core went to somebody else, or a receive call held it")                    \
	X(port_late, "stamped by the NIC, but the loop polled and did not find it yet")                                \
	X(port_backlog, "waited in the port behind other frames while the loop went on polling")                       \
	X(refill_stall, "the port had no buffer to receive into, or took long to take buffers back")                   \
	X(batch_ahead, "the executor was busy with batches before it")                                                 \
	X(exec_late, "the executor was free, but started late; a CPU executor's thread may have lost its core")        \
	X(gpu_sliced, "the GPU was away: shared in time slices with another program")                                  \
	X(relaunched, "the resident kernel had left and was launched again")                                           \
	X(handler_slow, "the handler itself took so long")                                                             \
	X(reap_late, "finished, but the loop was busy elsewhere")                                                      \
	X(tx_stall, "the port took long to transmit")

enum spw_cause {
#define X(name, text) SPW_CAUSE_##name,
	SPW_CAUSE_LIST(X)
#undef X
	SPW_CAUSE_CNT
};

const char *spw_cause_name(enum spw_cause cause);
const char *spw_cause_text(enum spw_cause cause);

/* What held the loop up in one long step. */
enum spw_hold {
	SPW_HOLD_LOST,   /* its core: switched out, or a step that has nothing to wait for */
	SPW_HOLD_PORT,   /* the port's receive or event call */
	SPW_HOLD_PUSH,   /* push: the inline handler, or the driver call of a launching executor */
	SPW_HOLD_TX,
	SPW_HOLD_REFILL,
	SPW_HOLD_CNT
};

const char *spw_hold_name(enum spw_hold hold);

enum spw_cause_exec {
	SPW_CAUSE_EXEC_POLLS,    /* a CPU thread that looks for work itself */
	SPW_CAUSE_EXEC_INLINE,   /* push runs the handler */
	SPW_CAUSE_EXEC_GPU,      /* a resident kernel */
	SPW_CAUSE_EXEC_LAUNCHED, /* push calls a driver */
};

/* Ticks. What is said of a part may overlap; who comes first in the table gets the ticks. */
struct spw_cause_facts {
	uint64_t part[SPW_STAGE_PART_CNT];                /* by enum spw_stage; they sum to the frame's whole */
	uint64_t held[SPW_STAGE_PART_CNT][SPW_HOLD_CNT];  /* of each part, how long the loop was held up */
	uint64_t dry;        /* of nic_polled: the port reported an empty pool */
	uint64_t unseen;     /* of nic_polled: until the last poll that came back without it */
	uint64_t ahead;      /* of pushed_start: earlier batches were being executed */
	uint64_t wait_pause, run_pause, reap_pause; /* of pushed_start, start_end, end_reaped: the executor says it was away */
	uint64_t reap_ahead; /* of end_reaped: an earlier batch was unfinished; batches are reaped in order */
	bool wait_relaunch, run_relaunch; /* the kernel was launched again in pushed_start, in start_end */
	bool sent_tx;        /* some of the batch went out by tx_burst */
	enum spw_cause_exec exec;
};

/* Purpose: parts the whole among the causes. Shape: ticks_out[] sums to the sum of facts->part[]. Pure.
 * Returns: the cause with the most ticks; of equals the first. Thread: any. */
enum spw_cause spw_cause_split(const struct spw_cause_facts *facts, uint64_t ticks_out[SPW_CAUSE_CNT]);

#ifdef __cplusplus
}
#endif
#endif
