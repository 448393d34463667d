/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the files of the litmus share (spw_topo_litmus.h): one lane under test, and how its frames
 * are made, looked at and found wrong. All of it is called by the setup thread, which plays the
 * lcore.
 */
#ifndef TOPO_LITMUS_H
#define TOPO_LITMUS_H

#include "exec/spw_litmus.h"
#include "topo/spw_topo_litmus.h"

/* A lane under test. */
struct litmus {
	struct spw_topo *topo;
	struct spw_topo_lane *lane;
	const struct spw_topo_backend *backend; /* the executor's kind */
	struct spw_port_queue *queue;
	struct spw_exec *exec; /* of its own, with one ring */
	struct spw_gring *ring;
	struct spw_litmus *out;
	uint64_t run_tsc; /* how long each part lasts */
	uint64_t serviced_tsc;
	uint64_t turn_tsc;   /* when this thread was last known to run: litmus_ran() */
	uint64_t waited_tsc; /* time that it ran for since something moved */
	uint32_t idle;       /* turns since then */
};

/* The two parts; 0 or -errno with a text. */
int litmus_ring(struct litmus *l); /* CPU and executor */
int litmus_wire(struct litmus *l); /* with the NIC; without one it only says why not */

/* Returns: the length of frame seq, a multiple of 4 from SPW_LITMUS_BYTES_MIN up to room. */
uint32_t litmus_len(uint32_t room, uint32_t seq);
/* Writes frame seq, but not its head. */
void litmus_fill(uint8_t *frame, uint32_t seq, uint32_t len);
/* Returns: what the CPU reads there now, as a digest. */
uint64_t litmus_look(const uint8_t *frame, uint32_t seq, uint32_t len);
/* Returns: the address of the frame that desc names. */
uint8_t *litmus_frame(const struct litmus *l, const struct spw_desc *desc);

/* Purpose: the clock of all deadlines of the litmus: ticks since the last call, but a pause of this
 *          thread counts 10 ms at most. Executor and NIC may have been stopped with it, so time
 *          in which it did not run is no time in which they should have answered. */
uint64_t litmus_ran(struct litmus *l);

/* Purpose: one turn of the loop that waits for executor and NIC: heartbeat, service, and after many
 *          idle turns a yield.
 * Errors:  -EIO: nothing moved for 2 s of litmus_ran(), or the executor cannot go on. */
int litmus_turn(struct litmus *l, bool moved);

/* Purpose: what the executor answered about a whole batch.
 * Returns: true: every frame was good. Else *pattern_out is what failed (publish for bytes), and
 *          *frame_out the first frame that did. */
bool litmus_answered(const struct spw_gring_batch *batch, enum spw_litmus_pattern *pattern_out,
		     uint32_t *frame_out);

/* Purpose: the error text of a frame that was found wrong. seen: as litmus_look.
 * Returns: -EIO. */
int litmus_fail(const struct litmus *l, enum spw_litmus_pattern pattern,
		const struct spw_desc *desc, uint64_t seen);

#endif
