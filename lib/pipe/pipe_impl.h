/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the files of the pipe share: pipe.c (the loop) calls pipe_house.c (housekeeping),
 * pipe_slow.c (slow batches) and pipe_backend.c (another executor), always outside the common path.
 */
#ifndef PIPE_IMPL_H
#define PIPE_IMPL_H

#include "pipe/spw_pipe.h"
#include "pipe/spw_pipe_again.h"

/* pipe_house.c. Purpose: runs the next of three slices (port events; heartbeat; clock maps,
 * intervals and slow batches) and draws the random distance to the next call.
 * Thread: owner. */
void pipe_housekeep(struct spw_pipe *pipe) SPW_COLD;

/* pipe_slow.c. Purpose: reads the generator's header of the batch's oldest frame; with a trail,
 * notes each frame of it.
 * Lifetime: called while the batch's slots are still lent, so that the bytes are intact.
 * Thread: owner. */
void pipe_slow_ident(struct spw_pipe *pipe, const struct spw_gring_batch *batch) SPW_COLD;

/* pipe_slow.c. Purpose: reads the generator's header of a frame whose slot is still lent.
 * Returns: false: it has none, or the host cannot read it.
 * Thread: owner. */
bool pipe_slow_ident_of(const struct spw_pipe_slow *slow, const struct spw_desc *d,
			struct spw_ident *ident_out) SPW_COLD;

/* pipe_trail.c. Purpose: notes the frames of a batch that was reaped; the batch, after its echoes
 * were handed to the port; completions of sent frames since the last call (nothing if the port
 * keeps none). All but the last: with a trail only.
 * Thread: owner. */
void pipe_trail_frames(struct spw_pipe *pipe, const struct spw_gring_batch *batch) SPW_COLD;
void pipe_trail_batch(struct spw_pipe *pipe, const struct spw_gring_batch *batch,
		      const struct spw_rec_stamps *at) SPW_COLD;
void pipe_trail_done(struct spw_pipe *pipe) SPW_COLD;

/* pipe_slow.c. Purpose: describes a batch that was slow or is among the longest; it is judged
 * later. With a trail, notes any batch. at: as spw_rec_batch left it. sent_tx: part of the batch
 * was echoed.
 * Thread: owner. */
void pipe_slow_take(const unsigned int flags, struct spw_pipe *pipe,
		    const struct spw_gring_batch *batch, const struct spw_rec_stamps *at,
		    bool sent_tx) SPW_COLD;

/* pipe_slow.c. Purpose: an executor's stamp in ticks. Thread: owner. */
uint64_t pipe_slow_to_tsc(unsigned int flags, const struct spw_pipe *pipe, uint64_t exec_stamp);

/* pipe_slow.c. Purpose: how long the executor was busy with batches pushed before this one, which
 * has ended. exec_busy: pipe->exec_busy without this batch. Thread: owner. */
uint64_t pipe_slow_ahead(unsigned int flags, const struct spw_pipe *pipe,
			 const struct spw_gring_batch *batch, uint64_t exec_busy);

/* A variant of the loop. */
struct pipe_variant {
	unsigned int flags;
	uint16_t (*turn)(struct spw_pipe *pipe);
};

/* pipe.c. Purpose: a turn while draining: settles batches, polls and pushes nothing. Thread: owner.
 */
void pipe_drain_turn(struct spw_pipe *pipe) SPW_COLD;

/* pipe.c. Returns: the variant with exactly these flags; NULL: the loop has none.
 * Thread: setup, owner. */
const struct pipe_variant *pipe_variant_find(unsigned int flags);

/* pipe_backend.c. Purpose: takes the backends over from conf, and binds their rings; backend 0 is
 * in use then. Thread: setup. Errors: -EINVAL with a text. */
int pipe_backends_init(struct spw_pipe *pipe, const struct spw_pipe_conf *conf);

/* pipe_backend.c. Purpose: follows what the control thread asked for.
 * Thread: owner, in housekeeping. */
void pipe_backend_follow(struct spw_pipe *pipe) SPW_COLD;

/* pipe_slow.c. Purpose: samples the port's no-slot counter and notes a stretch in which it grew.
 * Thread: owner. */
void pipe_slow_dry(struct spw_pipe *pipe) SPW_COLD;

/* pipe_flight.c. Purpose: for the flight recorder, if there is one: clock maps that changed, and
 * the next segment if the control thread asks for the ring. Thread: owner. */
void pipe_flight_house(struct spw_pipe *pipe) SPW_COLD;

#endif
