/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Sending and returning slots: each to the rail it belongs to.
 *
 *   received there, rail is up      its home: the echo of a frame returns to its source
 *   received there, rail is down    a frame goes over another rail; a message cannot, its slot is
 *                                   memory of that rail's peer
 *   lent empty                      by flow, or the next rail in turn
 *
 * A flow is the tag's, else what the NIC hashed, in 64 buckets. The rail of each bucket is in a
 * table by the set of rails that are up: a rail that goes down moves its own buckets and no others.
 */
#include <string.h>

#include "frame/spw_ident.h"
#include "port/rails/rails.h"

/* What each rail gets of one burst. */
struct split {
	struct spw_desc *desc[SPW_PORT_RAIL_MAX][SPW_BURST_MAX];
	uint16_t cnt[SPW_PORT_RAIL_MAX];
};

/* ---- which rail ---- */

SPW_INLINE uint32_t rails_flow_of(const struct rails_queue *q, const struct spw_desc *desc)
{
	const uint8_t *frame = spw_pool_slot_addr(q->pool, desc->slot) + desc->offset;
	struct spw_ident ident;

	if (q->readable && spw_ident_find(frame, desc->len, q->messages, &ident))
		return ident.flow;
	return desc->meta;
}

/* The rail of a frame that is not bound to one. */
SPW_INLINE uint32_t rails_rail_free(struct rails_queue *q, const struct spw_desc *desc,
				    uint32_t mask)
{
	const struct rails_port *rp = q->port;

	if (q->by_frame)
		return q->tx_next = rp->rail_after[mask][q->tx_next];
	return rp->rail_of[mask][rails_flow_of(q, desc) % RAILS_BUCKETS];
}

SPW_INLINE bool rails_is_bound(const struct rails_queue *q, const struct spw_desc *desc)
{
	return q->messages && q->home[desc->slot] != RAILS_HOME_NO;
}

/* mask: the rails over which it may go. */
SPW_INLINE uint32_t rails_rail_of(struct rails_queue *q, const struct spw_desc *desc, uint32_t mask)
{
	const uint32_t home = q->home[desc->slot];

	if (spw_likely(home != RAILS_HOME_NO) && (q->messages || mask >> home & 1))
		return home;
	return rails_rail_free(q, desc, mask);
}

/* ---- bursts ---- */

/* How many have a rail of their own that is down: an echo where it came from, a flow that of its
 * bucket. Frames that are spread one by one have none. */
static SPW_COLD uint16_t rails_count_away(const struct rails_queue *q, struct spw_desc *const *desc,
					  uint16_t cnt)
{
	uint16_t away = 0;

	for (uint16_t i = 0; i < cnt; i++) {
		uint32_t own = q->home[desc[i]->slot];

		if (rails_is_bound(q, desc[i]) || (own == RAILS_HOME_NO && q->by_frame))
			continue;
		if (own == RAILS_HOME_NO)
			own = q->port->rail_of[q->port->all]
					      [rails_flow_of(q, desc[i]) % RAILS_BUCKETS];
		away += !(rails_mask(q, desc[i]) >> own & 1);
	}
	return away;
}

/* Returns: how many rail r took; desc is ordered as by any tx_burst. With a rail down, those taken
 * in its place are counted: what is refused may yet go over a third. Slots that were taken are the
 * rail's, and are not looked at again. */
SPW_INLINE uint16_t rails_rail_tx(struct rails_queue *q, uint32_t r, struct spw_desc **desc,
				  uint16_t cnt, bool is_down)
{
	uint16_t away, sent;

	if (!cnt)
		return 0;
	if (spw_likely(!is_down))
		return spw_port_tx_burst(q->rail[r], desc, cnt);
	away = rails_count_away(q, desc, cnt);
	sent = spw_port_tx_burst(q->rail[r], desc, cnt);
	away = (uint16_t)(away - rails_count_away(q, desc + sent, (uint16_t)(cnt - sent)));
	spw_thr_count(&q->count[r].moved, away);
	return sent;
}

/* A rail that is full does not stop a stream that is spread frame by frame: what it refused is
 * offered to the others, once. Returns: how many of left[0 .. cnt - 1] are left, closed up. */
static SPW_COLD uint16_t rails_offer_again(struct rails_queue *q, struct spw_desc **desc,
					   uint16_t *taken, struct spw_desc **left, uint16_t cnt)
{
	for (uint32_t r = 0; r < q->rail_cnt && cnt; r++) {
		struct spw_desc *may[SPW_BURST_MAX];
		uint16_t n = 0, keep = 0, sent;

		for (uint16_t i = 0; i < cnt; i++) {
			struct spw_desc *d = left[i];

			if (!rails_is_bound(q, d) && rails_mask(q, d) >> r & 1)
				may[n++] = d;
			else
				left[keep++] = d;
		}
		sent = rails_rail_tx(q, r, may, n, true);
		for (uint16_t i = 0; i < sent; i++)
			desc[(*taken)++] = may[i];
		for (uint16_t i = sent; i < n; i++)
			left[keep++] = may[i];
		cnt = keep;
	}
	return cnt;
}

/* Taken ones first, rail by rail, then those that stay lent: each rail's in their order. */
uint16_t rails_tx(void *queue, struct spw_desc **desc, uint16_t cnt)
{
	struct rails_queue *q = queue;
	struct spw_desc *left[SPW_BURST_MAX];
	uint16_t taken = 0, left_cnt = 0;
	uint32_t down = 0;
	struct split split;

	memset(split.cnt, 0, sizeof(split.cnt));
	for (uint16_t i = 0; i < cnt; i++) {
		const uint32_t mask = rails_mask(q, desc[i]), r = rails_rail_of(q, desc[i], mask);

		split.desc[r][split.cnt[r]++] = desc[i];
		down |= mask ^ q->port->all;
	}
	for (uint32_t r = 0; r < q->rail_cnt; r++) {
		const uint16_t n = split.cnt[r];
		const uint16_t sent = rails_rail_tx(q, r, split.desc[r], n, down);

		for (uint16_t i = 0; i < sent; i++)
			desc[taken++] = split.desc[r][i];
		for (uint16_t i = sent; i < n; i++)
			left[left_cnt++] = split.desc[r][i];
	}
	if (spw_unlikely(left_cnt && q->by_frame))
		left_cnt = rails_offer_again(q, desc, &taken, left, left_cnt);
	for (uint16_t i = 0; i < left_cnt; i++)
		desc[taken + i] = left[i];
	return taken;
}

/* A batch is often one rail's. */
static bool rails_one_home(const struct rails_queue *q, const uint32_t *slot, uint16_t cnt)
{
	const uint8_t *home = q->home;

	for (uint16_t i = 1; i < cnt; i++)
		if (home[slot[i]] != home[slot[0]])
			return false;
	return cnt && home[slot[0]] != RAILS_HOME_NO;
}

/* How many have this home: a byte of n for each, so that all counts stay in one register. */
SPW_INLINE uint8_t rails_cnt_of(uint64_t n, uint32_t home)
{
	return (uint8_t)(n >> 8 * home);
}

void rails_release(void *queue, const uint32_t *slot, uint16_t cnt)
{
	uint32_t of[RAILS_HOME_NO + 1][SPW_BURST_MAX];
	struct rails_queue *q = queue;
	uint64_t n = 0;

	if (rails_one_home(q, slot, cnt)) {
		spw_port_release_burst(q->rail[q->home[slot[0]]], slot, cnt);
		return;
	}
	for (uint16_t i = 0; i < cnt; i++) {
		const uint32_t home = q->home[slot[i]];

		of[home][rails_cnt_of(n, home)] = slot[i];
		n += UINT64_C(1) << 8 * home;
	}
	for (uint32_t r = 0; r < q->rail_cnt; r++)
		if (rails_cnt_of(n, r))
			spw_port_release_burst(q->rail[r], of[r], rails_cnt_of(n, r));
	spw_pool_put(q->pool, of[RAILS_HOME_NO], rails_cnt_of(n, RAILS_HOME_NO));
	q->lent_cnt -= rails_cnt_of(n, RAILS_HOME_NO);
}

uint16_t rails_lend(void *queue, uint32_t *slot, uint16_t cnt)
{
	struct rails_queue *q = queue;
	const uint32_t n = spw_pool_get(q->pool, slot, cnt);

	for (uint32_t i = 0; i < n; i++)
		q->home[slot[i]] = RAILS_HOME_NO;
	q->lent_cnt += n;
	return (uint16_t)n;
}
