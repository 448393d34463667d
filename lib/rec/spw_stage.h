/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The names of the recorder: the stages of a frame and the regimes of a loop. spw_rec.h draws them
 * as a time line; docs/050-measuring-tails.md explains them to users. The printed tables, the JSON
 * summary and telemetry use the same names.
 */
#ifndef SPW_STAGE_H
#define SPW_STAGE_H

#include "base/spw_enum.h"
#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The first six follow each other and sum to nic_sent; without NIC stamps, the five after
 * nic_polled sum to polled_sent. name, meaning */
#define SPW_STAGE_LIST(X, P)                                                                     \
	X(P, nic_polled, "NIC stamp to burst returned")                                          \
	X(P, polled_pushed, "burst returned to pushed, or to executor start if that came first") \
	X(P, pushed_start, "pushed to executor start")                                           \
	X(P, start_end, "executor start to executor end")                                        \
	X(P, end_reaped, "executor end to reaped")                                               \
	X(P, reaped_sent, "reaped to sent or recycled")                                          \
	X(P, polled_sent, "burst returned to sent or recycled: all that the loop causes")        \
	X(P, nic_start, "NIC stamp to executor start: wire to kernel")                           \
	X(P, nic_sent, "NIC stamp to sent or recycled: the whole")

/* The order is that of the time line, and of every table. */
enum spw_stage { SPW_ENUM(SPW_STAGE) };

/* Number of the stages that follow each other, nic_polled .. reaped_sent: the parts into which a
 * slow frame's time is divided. The other stages are sums of them. */
#define SPW_STAGE_PART_CNT ((unsigned int)SPW_STAGE_polled_sent)

/* Every tick of an lcore belongs to exactly one regime: the step of the loop that ends with the
 * next clock reading. The shares of all regimes sum to the elapsed time. name, meaning */
#define SPW_REGIME_LIST(X, P)                                                                 \
	X(P, idle_poll, "polled and found nothing, nothing to reap either")                   \
	X(P, rx, "rx_burst that brought frames")                                              \
	X(P, push, "handing batches to the executor; with the inline executor, running them") \
	X(P, reap, "taking finished batches")                                                 \
	X(P, tx, "tx_burst")                                                                  \
	X(P, refill, "release_burst")                                                         \
	X(P, housekeeping, "events, heartbeat, telemetry, slow frames")

enum spw_regime { SPW_ENUM(SPW_REGIME) };

/* Purpose: the names as they are printed. Shape: below the _CNT. Thread: any. */
const char *spw_stage_name(enum spw_stage stage);
const char *spw_regime_name(enum spw_regime regime);

#ifdef __cplusplus
}
#endif
#endif
