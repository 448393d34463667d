/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The host's two ends of the list of pauses; exec/spw_pause.h has the contract. A cpu executor's
 * thread adds, the lcore searches while it judges a slow batch.
 *
 *   at[k % 64]   w[0] = tag k | begin     w[1] = tag k | end       two stores, no fence
 *
 * A reader takes w[0], w[1] and w[0] again. Two different tags, or a changed w[0], mean that the
 * writer is at this entry: the pair is skipped, and the pause that is being written is found by a
 * later search.
 */
#include "exec/spw_pause.h"

void spw_pause_add(struct spw_pauses *pauses, uint64_t begin, uint64_t end)
{
	uint64_t k = pauses->cnt++;
	uint64_t *w = pauses->at[k % SPW_PAUSE_CNT].w;

	/* [G6, pairs with spw_pause_find: the tag in each word is that of its pause] */
	spw_gpu_store_rlx64(&w[0], spw_pause_word(k, begin));
	spw_gpu_store_rlx64(&w[1], spw_pause_word(k, end));
}

/* Stamps are extended to 64 bits by the executor's present time. Of several pauses the one that
 * covers most of [from, to] counts, once: pauses do not overlap. */
uint64_t spw_pause_find(struct spw_gring *ring, uint64_t from, uint64_t to,
			struct spw_pause *pause_out)
{
	uint64_t longest = 0, now = ring->exec_now(ring);

	for (uint32_t i = 0; i < SPW_PAUSE_CNT; i++) {
		/* [G6, pairs with spw_pause_add and spwd_pause_add; acquire only keeps the three
		 * loads in order] */
		const uint64_t *w = ring->pauses->at[i].w;
		uint64_t w0 = spw_gpu_load_acq64(&w[0]), w1 = spw_gpu_load_acq64(&w[1]), begin, end;

		if (!w0 || !spw_gring_has_tag(w0, w1) || spw_gpu_load_acq64(&w[0]) != w0)
			continue; /* none yet, or being written */
		begin = spw_gring_stamp(w0 & SPW_GRING_VALUE_MASK, now);
		end = spw_gring_stamp(w1 & SPW_GRING_VALUE_MASK, now);
		if (SPW_MIN(end, to) <= SPW_MAX(begin, from) + longest)
			continue;
		longest = SPW_MIN(end, to) - SPW_MAX(begin, from);
		*pause_out = (struct spw_pause){begin, end};
	}
	return longest;
}
