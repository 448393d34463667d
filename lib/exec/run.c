/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One batch on a CPU, shared by the inline executor (called from push) and the cpu executor (called
 * from its thread). It is the executor's end of G1 and G2 in exec/spw_gring.h.
 */
#include "exec/exec.h"

/* [G2 release, pairs with spw_gring_reap: the payload reads, and the writes of an echo, come before
 * w[0]] */
static void done_write(struct spw_gring_done *done, uint64_t tag, const uint64_t *w)
{
	for (uint32_t i = SPW_ARRAY_CNT(done->w); i-- > 1;)
		spw_gpu_store_rlx64(&done->w[i], tag | (w[i] & SPW_GRING_VALUE_MASK));
	spw_gpu_store_rel64(&done->w[0], tag | (w[0] & SPW_GRING_VALUE_MASK));
}

/* Polls one word: entry 0's lo of the next batch. The completion is written with w[0] last and
 * released, since the owner polls w[0] first. */
bool spw_exec_run_one(struct spw_exec *exec, const struct spw_gring *ring,
		      struct spw_exec_cpu_unit *unit, uint64_t start_tsc)
{
	uint64_t seq = unit->next_seq, tag = spw_gring_tag(seq, ring->batch_log2), hi;
	const struct spw_gring_desc *desc =
		&ring->desc[(seq & ring->batch_mask) * SPW_GRING_FRAME_MAX];
	struct spw_tally tally;
	uint32_t cnt;

	/* [G1 acquire, pairs with spw_gring_push: entry 0's lo word is stored last of all] */
	if (!spw_gring_has_tag(spw_gpu_load_acq64(&desc->lo), tag))
		return false;
	start_tsc = start_tsc ? start_tsc : spw_tsc_now();
	hi = spw_gpu_load_rlx64(&desc->hi);
	cnt = spw_gring_hi_cnt(hi);
	exec->conf.handler->host(desc, cnt, exec->region_base, &tally);
	spw_thr_count(&unit->frames, tally.frames);
	spw_thr_count(&unit->batches, 1);
	unit->next_seq = seq + 1;
	done_write(&ring->done[seq & ring->batch_mask], tag,
		   (const uint64_t[8]){tally.verdict[0], tally.verdict[1],
				       tally.verdict[2] | (uint64_t)cnt << 16, start_tsc,
				       spw_tsc_now(), tally.bad, tally.digest, unit->frames});
	return true;
}
