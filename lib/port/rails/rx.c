/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Receiving: polls the rails in turn, straight into the caller's descriptors, reads the tag of each
 * frame (base/spw_ident.h) and lets the reorder window decide. What is in order stays where the
 * rail wrote it; what is not leaves a hole, and later ones close up.
 *
 *   desc[]   │ ready ones │ rail 1: 0 1 2 . 4 │ rail 0: ... │ ready ones, as far as there is room
 *
 * A burst that does not fill polls every rail; a full one ends early, and the next burst begins
 * with the rail after it. Where frames are spread frame by frame, neighbours come over different
 * rails: there each rail has a part of the burst, and the bursts are merged before the window sees
 * them. Frames of others have no tag and pass. One body, a variant for each order, with and without
 * the merge, for frames and for messages.
 */
#include "base/spw_ident.h"
#include "port/rails/rails.h"
#include "time/spw_time.h"

#define RX_FLOW    (1u << 0)
#define RX_STREAM  (1u << 1)
#define RX_ORDER   (RX_FLOW | RX_STREAM)
#define RX_MESSAGE (1u << 2)
#define RX_MERGE   (1u << 3) /* the source sends over the rails in turn */

/* ---- the tag ---- */

SPW_INLINE uint32_t tag_offset(const unsigned flags)
{
	return flags & RX_MESSAGE ? 0 : SPW_IDENT_ETH_OFFSET;
}

SPW_INLINE bool tag_read(const uint8_t *frame, uint32_t bytes, struct rails_tag *tag,
			 const unsigned flags)
{
	const uint8_t *at = frame + tag_offset(flags);
	const uint32_t need =
		tag_offset(flags) + (flags & RX_STREAM ? SPW_IDENT_STREAM_BYTES : SPW_IDENT_BYTES);
	struct spw_ident ident;

	if (spw_unlikely(bytes < need) || !((flags & RX_MESSAGE) || spw_ident_is_udp(frame)) ||
	    !spw_ident_read(at, &ident))
		return false;
	if (flags & RX_STREAM) {
		if (!spw_ident_stream(at, &tag->idx, &tag->seq))
			return false;
	} else {
		tag->idx = ident.flow;
		tag->seq = ident.seq;
	}
	tag->run = ident.run;
	return true;
}

/* ---- one rail's burst ---- */

/* Late and duplicate frames are not lent: back to their rail, counted. */
static SPW_COLD void drop(struct rails_queue *q, uint32_t r, const struct spw_desc *desc,
			  enum rails_verdict why)
{
	struct rails_count *count = &q->count[r];

	spw_thr_count(why == RAILS_LATE ? &count->late : &count->duplicate, 1);
	spw_thr_count(&count->dropped_bytes, desc->len);
	spw_port_release_burst(q->rail[r], &desc->slot, 1);
}

/* Everything but the number expected next. Returns: whether the frame is delivered now. */
static SPW_COLD bool rx_odd(struct rails_queue *q, uint32_t r, const struct rails_tag *tag,
			    const struct spw_desc *desc)
{
	enum rails_verdict verdict;

	if (!q->window.now_tsc)
		q->window.now_tsc = spw_tsc_now();
	q->window.rail_is_down = rails_mask(q, desc) != q->port->all;
	if (tag) {
		verdict = rails_window_put(&q->window, tag, desc);
	} else {
		spw_thr_count(&q->untagged, 1);
		verdict = rails_window_untagged(&q->window, desc);
	}
	if (verdict == RAILS_LATE || verdict == RAILS_DUPLICATE)
		drop(q, r, desc, verdict);
	return verdict == RAILS_PASS;
}

/* Notes where each frame came from and begins to load its tag. */
SPW_INLINE void rx_note(struct rails_queue *q, uint32_t r, const struct spw_desc *desc,
			uint16_t cnt, const uint8_t **frame, const unsigned flags)
{
	const uint8_t *base = q->pool->base;
	const size_t slot_bytes = q->pool->slot_bytes;
	uint8_t *home = q->home;

	for (uint16_t i = 0; i < cnt; i++) {
		home[desc[i].slot] = (uint8_t)r;
		if (!(flags & RX_ORDER))
			continue;
		frame[i] = base + desc[i].slot * slot_bytes + desc[i].offset;
		spw_prefetch_read(frame[i] + tag_offset(flags));
	}
}

/* Returns: how many of desc[0 .. cnt - 1] are delivered; they have closed up. */
SPW_INLINE uint16_t rx_sort(struct rails_queue *q, uint32_t r, struct spw_desc *desc, uint16_t cnt,
			    const unsigned flags)
{
	const uint8_t *frame[SPW_BURST_MAX];
	uint16_t out = 0;

	rx_note(q, r, desc, cnt, frame, flags);
	if (!(flags & RX_ORDER))
		return cnt;
	for (uint16_t i = 0; i < cnt; i++) {
		struct rails_tag tag;
		const bool tagged = tag_read(frame[i], desc[i].len, &tag, flags);

		if (spw_unlikely(!tagged || !rails_window_next(&q->window, &tag)) &&
		    !rx_odd(q, r, tagged ? &tag : NULL, &desc[i]))
			continue;
		if (spw_unlikely(out != i))
			desc[out] = desc[i];
		out++;
	}
	return out;
}

/* ---- rails that carry one sequence in turn ---- */

/* What one poll of a rail brought and is not sorted yet. */
struct burst {
	struct spw_desc desc[SPW_BURST_MAX / 2];
	const uint8_t *frame[SPW_BURST_MAX / 2];
	struct rails_tag tag; /* of desc[at] */
	uint16_t at, cnt;
	bool tagged;
};

SPW_INLINE void burst_head(struct burst *b, const unsigned flags)
{
	if (b->at < b->cnt)
		b->tagged = tag_read(b->frame[b->at], b->desc[b->at].len, &b->tag, flags);
}

/* The rail whose next frame is expected, beginning with r; if none, the first that has one. */
SPW_INLINE uint32_t burst_choose(const struct rails_queue *q, const struct burst *burst, uint32_t r)
{
	uint32_t first = q->rail_cnt;

	for (uint32_t k = 0; k < q->rail_cnt; k++) {
		const struct burst *b = &burst[r];

		if (b->at < b->cnt && b->tagged && rails_window_expects(&q->window, &b->tag))
			return r;
		if (first == q->rail_cnt && b->at < b->cnt)
			first = r;
		r = r + 1 == q->rail_cnt ? 0 : r + 1;
	}
	return first;
}

/* Polls every rail for its part of the burst and merges what came, so that frames which left over
 * the rails in turn need not be parked. Returns: frames delivered. */
SPW_INLINE uint16_t rx_merge(struct rails_queue *q, struct spw_desc *desc, uint16_t cnt,
			     const unsigned flags)
{
	const uint16_t each = (uint16_t)SPW_MAX(cnt / q->rail_cnt, 1u);
	struct burst burst[SPW_PORT_RAIL_MAX];
	uint32_t r, left = cnt, todo = 0;
	uint16_t out = 0;

	for (r = 0; r < q->rail_cnt; r++) {
		struct burst *b = &burst[r];

		b->at = 0;
		b->cnt =
			left ? spw_port_rx_burst(q->rail[r], b->desc, (uint16_t)SPW_MIN(each, left))
			     : 0;
		left -= b->cnt;
		todo += b->cnt;
		spw_thr_count(&q->count[r].polled, b->cnt);
		rx_note(q, r, b->desc, b->cnt, b->frame, flags);
	}
	for (r = 0; r < q->rail_cnt; r++)
		burst_head(&burst[r], flags);
	for (r = q->poll_next; todo; todo--) {
		struct burst *b;

		r = burst_choose(q, burst, r);
		b = &burst[r];
		if (spw_likely(b->tagged && rails_window_next(&q->window, &b->tag)) ||
		    rx_odd(q, r, b->tagged ? &b->tag : NULL, &b->desc[b->at]))
			desc[out++] = b->desc[b->at];
		b->at++;
		burst_head(b, flags);
		r = r + 1 == q->rail_cnt ? 0 : r + 1;
	}
	q->poll_next = r;
	return out;
}

/* Time passes only while numbers are waited for. Returns: descriptors of frames that are ready. */
static SPW_COLD uint16_t rx_waiting(struct rails_queue *q, struct spw_desc *desc, uint16_t cnt)
{
	q->window.now_tsc = spw_tsc_now();
	rails_window_expire(&q->window);
	return rails_window_take(&q->window, desc, cnt);
}

/* Polls the rails in turn, as long as there is room. */
SPW_INLINE uint16_t rx_rails(struct rails_queue *q, struct spw_desc *desc, uint16_t cnt,
			     const unsigned flags)
{
	uint16_t out = 0;

	for (uint32_t k = 0; k < q->rail_cnt && out < cnt; k++) {
		const uint32_t r = q->poll_next;
		const uint16_t n = spw_port_rx_burst(q->rail[r], desc + out, (uint16_t)(cnt - out));

		q->poll_next = r + 1 == q->rail_cnt ? 0 : r + 1;
		spw_thr_count(&q->count[r].polled, n);
		out = (uint16_t)(out + (n ? rx_sort(q, r, desc + out, n, flags) : 0));
	}
	return out;
}

SPW_INLINE uint16_t rx_body(struct rails_queue *q, struct spw_desc *desc, uint16_t cnt,
			    const unsigned flags)
{
	struct rails_window *w = &q->window;
	uint16_t out = 0;

	if (flags & RX_ORDER) {
		w->now_tsc = 0;
		if (spw_unlikely(w->waiting || w->ready_in != w->ready_out))
			out = rx_waiting(q, desc, cnt);
	}
	if (flags & RX_MERGE) {
		if (out < cnt)
			out = (uint16_t)(out +
					 rx_merge(q, desc + out, (uint16_t)(cnt - out), flags));
	} else {
		out = (uint16_t)(out + rx_rails(q, desc + out, (uint16_t)(cnt - out), flags));
	}
	if (flags & RX_ORDER && spw_unlikely(w->ready_in != w->ready_out))
		out = (uint16_t)(out + rails_window_take(w, desc + out, (uint16_t)(cnt - out)));
	spw_thr_count(&q->rx_frames, out);
	return out;
}

/* name, flags */
#define RX_VARIANTS(X)                                     \
	X(any, 0)                                          \
	X(flow, RX_FLOW)                                   \
	X(flow_merge, RX_FLOW | RX_MERGE)                  \
	X(stream, RX_STREAM)                               \
	X(stream_merge, RX_STREAM | RX_MERGE)              \
	X(msg_flow, RX_MESSAGE | RX_FLOW)                  \
	X(msg_flow_merge, RX_MESSAGE | RX_FLOW | RX_MERGE) \
	X(msg_stream, RX_MESSAGE | RX_STREAM)              \
	X(msg_stream_merge, RX_MESSAGE | RX_STREAM | RX_MERGE)

#define X(name, flags)                                                          \
	static uint16_t rx_##name(void *q, struct spw_desc *desc, uint16_t cnt) \
	{                                                                       \
		return rx_body(q, desc, cnt, flags);                            \
	}
RX_VARIANTS(X)
#undef X

rails_rx_fn *rails_rx_choose(const struct rails_conf *conf, bool messages)
{
	static const struct {
		unsigned flags;
		rails_rx_fn *rx;
	} variant[] = {
#define X(name, flags) {flags, rx_##name},
		RX_VARIANTS(X)
#undef X
	};
	const unsigned order = conf->order == RAILS_ORDER_FLOW     ? RX_FLOW
			       : conf->order == RAILS_ORDER_STREAM ? RX_STREAM
								   : 0;
	const unsigned flags =
		order ? order | (messages ? RX_MESSAGE : 0) | (conf->by_frame ? RX_MERGE : 0) : 0;
	size_t i = 0;

	while (variant[i].flags != flags)
		i++;
	return variant[i].rx;
}

void rails_rx_flush(struct rails_queue *q)
{
	struct spw_desc desc;

	rails_window_flush(&q->window);
	while (rails_window_take(&q->window, &desc, 1)) {
		const uint8_t r = q->home[desc.slot];

		spw_thr_count(&q->count[r].flushed, 1);
		spw_thr_count(&q->count[r].dropped_bytes, desc.len);
		spw_port_release_burst(q->rail[r], &desc.slot, 1);
	}
}
