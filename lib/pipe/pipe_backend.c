/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Another executor for the running loop. The control thread asks (spw_pipe_ask), housekeeping calls
 * pipe_backend_follow(), and the change is made where nothing is under way: the turn is replaced by
 * one that only settles, until the executor ring is empty. Then ring, clock and variant of the loop
 * are those of the new backend.
 *
 *   pipe->turn   variant of backend 0 ── pipe_turn_change ── variant of backend 1
 *                                    └ settles, polls nothing
 *
 * So the loop has no branch for it. Frames that arrive meanwhile wait in the port, and are as late
 * as that.
 */
#include <errno.h>

#include "base/spw_err.h"
#include "pipe/pipe_flight.h"

#define ASKED_BACKEND_SHIFT 16u /* asked: the backend above, the burst below */

/* The flags of the loop's variant for a backend: pipe->flags and what the executor adds. */
static unsigned int variant_flags(const struct spw_pipe *pipe,
				  const struct spw_pipe_backend *backend)
{
	if (!(pipe->flags & SPW_REC_ON))
		return pipe->flags;
	return pipe->flags | (backend->has_clock ? SPW_REC_EXEC_CLOCK : 0) |
	       (backend->learns == SPW_CAUSE_EXEC_INLINE ? SPW_REC_INLINE : 0);
}

/* The loop's variant for the backend in use, which exists: pipe_backends_init has checked it. */
static void variant_set(struct spw_pipe *pipe)
{
	unsigned int flags = variant_flags(pipe, &pipe->backend[pipe->backend_idx]);
	const struct pipe_variant *variant = pipe_variant_find(flags);

	pipe->turn_flags = flags & ~SPW_PIPE_FLIGHT;
	pipe->turn = variant->turn;
}

/* Batches that were pushed have exec_busy as it was then, and stamps of the clock in use: with one
 * of them under way neither may change. */
void spw_pipe_backend_use(struct spw_pipe *pipe, uint32_t idx)
{
	const struct spw_pipe_backend *backend = &pipe->backend[idx];

	if (pipe->ring) /* objects count batches through all changes */
		pipe->obj.seq_base += pipe->ring->head_seq - backend->ring->head_seq;
	pipe->ring = backend->ring;
	pipe->exec_clock = backend->clock;
	pipe->exec_busy = pipe->exec_last_end = 0; /* they are of the other executor's clock */
	pipe->slow.exec = backend->learns;
	spw_rec_exec(&pipe->rec,
		     backend->learns == SPW_CAUSE_EXEC_INLINE ||
			     backend->learns == SPW_CAUSE_EXEC_LAUNCHED,
		     backend->unc_tsc);
	/* [Q5 release, pairs with spw_pipe_backend: the ring before is not touched any more] */
	spw_thr_store_rel(&pipe->backend_idx, idx);
	variant_set(pipe);
}

int pipe_backends_init(struct spw_pipe *pipe, const struct spw_pipe_conf *conf)
{
	if (conf->backend_cnt < 1 || conf->backend_cnt > SPW_PIPE_BACKEND_MAX)
		return spw_err(EINVAL, "pipe: %u executor rings: use 1 .. %u", conf->backend_cnt,
			       SPW_PIPE_BACKEND_MAX);
	for (uint32_t i = 0; i < conf->backend_cnt; i++) {
		if (!conf->backend[i].ring)
			return spw_err(EINVAL, "pipe: backend %u has no executor ring", i);
		if (!pipe_variant_find(variant_flags(pipe, &conf->backend[i])))
			return spw_err(EINVAL,
				       "pipe: executor %u is inline and has a clock of its own: "
				       "the loop has no variant for both",
				       i);
		pipe->backend[i] = conf->backend[i];
		spw_gring_bind(conf->backend[i].ring, conf->pool);
	}
	pipe->backend_cnt = conf->backend_cnt;
	pipe->asked = conf->burst;
	spw_pipe_backend_use(pipe, 0);
	return 0;
}

/* Batches that were slow are judged before the change: what judges them asks the ring in use. The
 * recording's STATE comes last, since it holds the clock maps of the new backend. */
static void backend_change(struct spw_pipe *pipe, uint32_t idx)
{
	spw_pipe_slow_judge(pipe, true);
	spw_pipe_backend_use(pipe, idx);
	spw_rec_clocks(&pipe->rec, pipe->exec_clock, pipe->nic_clock);
	pipe_flight_state(pipe, false);
	spw_thr_count(&pipe->backend_changes, 1);
}

/* The turn while the loop waits for its ring to be empty. */
static SPW_COLD uint16_t pipe_turn_change(struct spw_pipe *pipe)
{
	/* [Q2 acquire, pairs with spw_pipe_ask] */
	const uint32_t asked = spw_thr_load_acq(&pipe->asked) >> ASKED_BACKEND_SHIFT;

	if (pipe->ring->retired_seq == pipe->ring->head_seq && !pipe->obj.waiting) {
		backend_change(pipe, asked);
		return 0;
	}
	pipe_drain_turn(pipe);
	if (spw_tsc_now() - pipe->change_tsc > pipe->drain_tsc)
		variant_set(pipe); /* the backend stays, and all that is known of its batches */
	return 0;
}

void pipe_backend_follow(struct spw_pipe *pipe)
{
	/* [Q2 acquire, pairs with spw_pipe_ask] */
	const uint32_t asked = spw_thr_load_acq(&pipe->asked);

	if ((uint16_t)asked != pipe->burst)
		spw_thr_store_rlx(&pipe->burst, (uint16_t)asked);
	if (asked >> ASKED_BACKEND_SHIFT == pipe->backend_idx || pipe->turn == pipe_turn_change)
		return;
	pipe->turn = pipe_turn_change;
	pipe->change_tsc = spw_tsc_now();
}

void spw_pipe_ask(struct spw_pipe *pipe, uint32_t backend, uint16_t burst)
{
	/* [Q1 release, pairs with pipe_backend_follow: that backend's executor has been started] */
	spw_thr_store_rel(&pipe->asked, backend << ASKED_BACKEND_SHIFT | burst);
}

uint32_t spw_pipe_backend(const struct spw_pipe *pipe, uint16_t *burst_out)
{
	*burst_out = spw_thr_load_rlx(&pipe->burst);
	/* [Q6 acquire, pairs with spw_pipe_backend_use] */
	return spw_thr_load_acq(&pipe->backend_idx);
}
