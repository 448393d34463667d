/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "pipe/pipe_impl.h"

#define SETTLE_MAX 2 /* batches settled per turn: one more than a turn can push, so that a backlog melts */

/* Settles what the executor has finished. Returns: batches settled. */
SPW_INLINE int pipe_settle(const unsigned int flags, struct spw_pipe *pipe)
{
	struct pipe_split split;
	int settled = 0;

	for (; settled < SETTLE_MAX; settled++) {
		struct spw_gring_batch *done = pipe_reap(flags, pipe);
		uint64_t sent_tsc;

		if (!done)
			break;
		pipe_sort(pipe, done, &split);
		sent_tsc = pipe_echo(flags, pipe, &split);
		sent_tsc = pipe_recycle(flags, pipe, &split, sent_tsc);
		pipe_record(flags, pipe, done, sent_tsc, split.tx_cnt != 0);
		spw_gring_retire(pipe->ring, done);
	}
	return settled;
}

/* One turn of the loop: what every frame goes through, in order. */
SPW_INLINE uint16_t pipe_turn(const unsigned int flags, struct spw_pipe *pipe)
{
	struct spw_gring_batch *batch = pipe_next(pipe);
	uint16_t polled = pipe_poll(flags, pipe, batch);
	int settled;

	if (polled)
		pipe_push(flags, pipe, batch);
	settled = pipe_settle(flags, pipe);
	pipe_end_turn(flags, pipe, !polled && !settled);
	return polled;
}

/* A turn while stopping: nothing is polled and nothing pushed. */
SPW_INLINE void pipe_turn_drain(const unsigned int flags, struct spw_pipe *pipe)
{
	int settled = pipe_settle(flags, pipe);

	pipe_end_turn(flags, pipe, !settled);
}

/* The variants: one body, constant flags, chosen at set-up. name, flags */
#define PIPE_VARIANT_LIST(X)                                                                                           \
	X(bare, 0)                                                                                                     \
	X(rec, SPW_REC_ON)                                                                                             \
	X(rec_exec, SPW_REC_ON | SPW_REC_EXEC_CLOCK)                                                                   \
	X(rec_nic, SPW_REC_ON | PIPE_NIC_STAMPS)                                                                       \
	X(rec_frames, SPW_REC_ON | PIPE_NIC_STAMPS | PIPE_NIC_FRAMES)                                                  \
	X(rec_inline, SPW_REC_ON | SPW_REC_INLINE)                                                                     \
	X(rec_inline_nic, SPW_REC_ON | SPW_REC_INLINE | PIPE_NIC_STAMPS)                                               \
	X(rec_inline_frames, SPW_REC_ON | SPW_REC_INLINE | PIPE_NIC_STAMPS | PIPE_NIC_FRAMES)                          \
	X(rec_exec_nic, SPW_REC_ON | SPW_REC_EXEC_CLOCK | PIPE_NIC_STAMPS)                                             \
	X(rec_exec_frames, SPW_REC_ON | SPW_REC_EXEC_CLOCK | PIPE_NIC_STAMPS | PIPE_NIC_FRAMES)

#define X(name, flags)                                                                                                 \
	static uint16_t pipe_turn_##name(struct spw_pipe *pipe)                                                        \
	{                                                                                                              \
		return pipe_turn(flags, pipe);                                                                         \
	}                                                                                                              \
	static void pipe_drain_##name(struct spw_pipe *pipe)                                                           \
	{                                                                                                              \
		pipe_turn_drain(flags, pipe);                                                                          \
	}
PIPE_VARIANT_LIST(X)
#undef X

static const struct {
	unsigned int flags;
	uint16_t (*turn)(struct spw_pipe *pipe);
	void (*drain_turn)(struct spw_pipe *pipe);
} pipe_variant[] = {
#define X(name, flags) {flags, pipe_turn_##name, pipe_drain_##name},
	PIPE_VARIANT_LIST(X)
#undef X
};

static void pipe_choose(struct spw_pipe *pipe, const struct spw_pipe_conf *conf)
{
	unsigned int flags = 0;

	if (conf->record)
		flags = SPW_REC_ON | (conf->exec_has_clock ? SPW_REC_EXEC_CLOCK : 0) |
			(conf->exec_way == SPW_CAUSE_EXEC_INLINE ? SPW_REC_INLINE : 0) |
			(conf->nic_stamps ? PIPE_NIC_STAMPS : 0) |
			(conf->nic_stamps && conf->nic_frames ? PIPE_NIC_FRAMES : 0);
	for (size_t i = 0; i < SPW_ARRAY_CNT(pipe_variant); i++) {
		if (pipe_variant[i].flags == flags) {
			pipe->turn = pipe_variant[i].turn;
			pipe->drain_turn = pipe_variant[i].drain_turn;
		}
	}
}

int spw_pipe_init(struct spw_pipe *pipe, const struct spw_pipe_conf *conf)
{
	if (!conf->queue || !conf->ring || !conf->pool)
		return spw_err(EINVAL, "pipe: needs a port queue, its pool and an executor ring");
	if (conf->burst < 1 || conf->burst > SPW_BURST_MAX)
		return spw_err(EINVAL, "pipe: burst %u is not in 1 .. %u", conf->burst, SPW_BURST_MAX);
	memset(pipe, 0, offsetof(struct spw_pipe, rec));
	spw_rec_init(&pipe->rec);
	if (conf->record && conf->slow_tsc)
		spw_rec_slow_above(&pipe->rec, conf->slow_tsc, conf->slow_wait_tsc,
				   conf->exec_way == SPW_CAUSE_EXEC_INLINE || conf->exec_way == SPW_CAUSE_EXEC_LAUNCHED);
	pipe->rec.exec_map.unc = pipe->rec.exec_unc = conf->exec_unc_tsc;
	pipe->slow.exec = conf->exec_way;
	pipe->slow.frames = conf->pool->region && conf->pool->region->host_va ? conf->pool : NULL;
	pipe->slow.lcore = conf->lcore;
	pipe->slow.queue = conf->queue_idx;
	pipe->queue = conf->queue;
	pipe->ring = conf->ring;
	spw_gring_bind(pipe->ring, conf->pool);
	pipe->exec = conf->exec;
	pipe->exec_ring = conf->exec_ring;
	pipe->burst = conf->burst;
	pipe->frames_left = conf->frames_max ? conf->frames_max : UINT64_MAX;
	pipe->can_tx = conf->can_tx;
	pipe->tx_drop = conf->can_tx ? SPW_DROP_tx_full : SPW_DROP_tx_down;
	pipe->exec_clock = conf->exec_clock;
	pipe->nic_clock = conf->nic_clock;
	pipe->drain_tsc = conf->drain_tsc;
	pipe->house_turns = 1;
	pipe->house_rng = conf->seed | 1;
	pipe_choose(pipe, conf);
	return 0;
}

void spw_pipe_run(struct spw_pipe *pipe, const uint32_t *stop)
{
	uint64_t drain_start;

	spw_rec_clocks(&pipe->rec, pipe->exec_clock, pipe->nic_clock);
	spw_rec_begin(&pipe->rec);
	while (!spw_thr_load_rlx(stop) && pipe->frames_left)
		pipe->turn(pipe);
	drain_start = spw_tsc_now();
	while (pipe->ring->retired_seq != pipe->ring->head_seq && spw_tsc_now() - drain_start < pipe->drain_tsc)
		pipe->drain_turn(pipe);
	pipe_slow_judge(pipe, true);
	spw_rec_end(&pipe->rec);
	spw_thr_store_rel(&pipe->ended, 1); /* [Q3 release, pairs with Q4 in spw_pipe_ended] */
}

uint64_t spw_pipe_reclaim(struct spw_pipe *pipe)
{
	struct spw_gring *ring = pipe->ring;
	uint64_t lost = 0;

	while (pipe_settle(0, pipe))
		;
	while (ring->retired_seq != ring->head_seq) {
		struct spw_gring_batch *batch = &ring->batch[ring->retired_seq & ring->batch_mask];

		for (uint32_t i = 0; i < batch->cnt; i++)
			spw_port_release_burst(pipe->queue, &batch->desc[i].slot, 1);
		lost += batch->cnt;
		ring->tail_seq = ring->retired_seq + 1;
		spw_gring_retire(ring, batch);
	}
	spw_ledger_add(&pipe->ledger.dropped[SPW_DROP_exec_lost], lost);
	return lost;
}
