/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The handler that puts payload into objects: it executes the moves that a frame's descriptor names
 * (frame/spw_move.h), and consumes the frame. The owner lcore has decided and checked everything;
 * nothing is checked again here. Its digest is the number of bytes that it wrote.
 *
 * No user opens it by name: a port with objects has it, and its state says where the moves are.
 */
#ifndef SPW_EXEC_PLACE_H
#define SPW_EXEC_PLACE_H

#include "exec/spw_handler.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where the moves of a ring lie. Written once, before the executor is opened. */
struct spw_place_state {
	uint64_t region; /* its id, below SPW_REGION_MAX */
	uint64_t offset; /* of move 0 from the region's start, a multiple of 16 */
};

/* Copied, with `initial` set to the struct spw_place_state of its rings, which outlives the copy's
 * executors; without one it cannot run. Lives as long as the process. */
extern const struct spw_handler spw_place_handler;

#ifdef __cplusplus
}
#endif
#endif
