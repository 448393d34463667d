/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "gen_track.h"

static bool window_test(const struct gen_flow *flow, uint64_t seq)
{
	return flow->seen[seq % GEN_TRACK_WINDOW / 64] >> (seq % 64) & 1;
}

static void window_set(struct gen_flow *flow, uint64_t seq)
{
	flow->seen[seq % GEN_TRACK_WINDOW / 64] |= 1ull << (seq % 64);
}

/* Numbers [next_seq, seq] enter the window: the places of those WINDOW below them are taken over, unseen. */
static void window_advance(struct gen_flow *flow, uint64_t seq)
{
	if (seq - flow->next_seq >= GEN_TRACK_WINDOW)
		memset(flow->seen, 0, sizeof(flow->seen));
	else
		for (uint64_t s = flow->next_seq; s <= seq; s++)
			flow->seen[s % GEN_TRACK_WINDOW / 64] &= ~(1ull << (s % 64));
	flow->next_seq = seq + 1;
}

enum gen_seen gen_flow_saw(struct gen_flow *flow, uint64_t seq)
{
	bool ahead = (int64_t)(seq - flow->next_seq) >= 0;

	if (spw_likely(ahead)) {
		window_advance(flow, seq);
		window_set(flow, seq);
		flow->unique++;
		return GEN_SEEN_NEW;
	}
	if ((int64_t)seq < 0 || flow->next_seq - seq > GEN_TRACK_WINDOW) {
		flow->late++;
		return GEN_SEEN_LATE;
	}
	if (window_test(flow, seq)) {
		flow->duplicated++;
		return GEN_SEEN_DUPLICATE;
	}
	window_set(flow, seq);
	flow->unique++;
	flow->reordered++;
	return GEN_SEEN_REORDERED;
}

int gen_track_init(struct gen_track *track, uint32_t flow_cnt)
{
	track->flow = calloc(flow_cnt, sizeof(*track->flow));
	track->flow_cnt = flow_cnt;
	return track->flow ? 0 : spw_err(ENOMEM, "no memory to follow %u flows", flow_cnt);
}

void gen_track_fini(struct gen_track *track)
{
	free(track->flow);
	memset(track, 0, sizeof(*track));
}
