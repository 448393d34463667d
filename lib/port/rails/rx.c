/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Receiving: polls the rails in turn, straight into the caller's descriptors, reads the tag of each
 * frame (frame/spw_ident.h) and lets the reorder window decide. What is in order stays where the
 * rail wrote it; what is not leaves a hole, and later ones close up.
 *
 *   desc[]   │ ready ones │ rail 1: 0 1 2 . 4 │ rail 0: ... │ ready ones, as far as there is room
 *
 * A burst that does not fill polls every rail; a full one ends early, and the next burst begins
 * with the rail after it. Frames of others have no tag and pass.
 *
 * Where frames are spread frame by frame, neighbours come over different rails: there each rail has
 * a part of the burst, and the parts are merged before the window sees them. One stream without a
 * gap needs no merge: a frame's number is its place.
 *
 *   rail 0: 10 12 14   rail 1: 11 13 15    desc[number - 10], then the stream expects 16
 *   rail 0: 10 12 14   rail 1: 11 15       merged 10 11 12, then 15 and 14 are parked
 *
 * One body, a variant for each order, with and without the merge, for frames and for messages.
 */
#include "frame/spw_ident.h"
#include "port/rails/rails.h"
#include "time/spw_time.h"

#define RX_FLOW    (1u << 0)
#define RX_STREAM  (1u << 1)
#define RX_ORDER   (RX_FLOW | RX_STREAM)
#define RX_MESSAGE (1u << 2)
#define RX_MERGE   (1u << 3) /* the source sends over the rails in turn */

/* ---- the tag ---- */

SPW_INLINE uint32_t rails_tag_offset(const unsigned flags)
{
	return flags & RX_MESSAGE ? 0 : SPW_IDENT_ETH_OFFSET;
}

SPW_INLINE bool rails_tag_read(const uint8_t *frame, uint32_t bytes, struct rails_tag *tag,
			       const unsigned flags)
{
	const uint8_t *at = frame + rails_tag_offset(flags);
	const uint32_t need = rails_tag_offset(flags) +
			      (flags & RX_STREAM ? SPW_IDENT_STREAM_BYTES : SPW_IDENT_BYTES);
	struct spw_ident ident;
	uint32_t seq;

	if (spw_unlikely(bytes < need) || !((flags & RX_MESSAGE) || spw_ident_is_udp(frame)) ||
	    !spw_ident_read(at, &ident))
		return false;
	if (flags & RX_STREAM) {
		if (!spw_ident_stream(at, &tag->idx, &seq))
			return false;
	} else {
		tag->idx = ident.flow;
		seq = ident.seq;
	}
	tag->word = RAILS_WORD(seq, ident.run, 0);
	return true;
}

/* ---- one rail's burst ---- */

/* Late and duplicate frames are not lent: back to their rail, counted. */
static SPW_COLD void rails_rx_drop(struct rails_queue *q, uint32_t r, const struct spw_desc *desc,
				   enum rails_verdict why)
{
	struct rails_count *count = &q->count[r];

	spw_thr_count(why == RAILS_LATE ? &count->late : &count->duplicate, 1);
	spw_thr_count(&count->dropped_bytes, desc->len);
	spw_port_release_burst(q->rail[r], &desc->slot, 1);
}

/* Everything but the number expected next. Returns: whether the frame is delivered now. */
static SPW_COLD bool rails_rx_odd(struct rails_queue *q, uint32_t r, const struct rails_tag *tag,
				  const struct spw_desc *desc)
{
	enum rails_verdict verdict;

	if (!q->window.now_tsc)
		q->window.now_tsc = spw_tsc_now();
	q->window.rail_is_down = rails_mask(q, desc) != q->port->all;
	if (tag->idx != q->window.untagged) {
		verdict = rails_window_put(&q->window, tag, desc);
	} else {
		spw_thr_count(&q->untagged, 1);
		verdict = rails_window_untagged(&q->window, desc);
	}
	if (verdict == RAILS_LATE || verdict == RAILS_DUPLICATE)
		rails_rx_drop(q, r, desc, verdict);
	return verdict == RAILS_PASS;
}

/* Notes where each frame came from, and begins to load its tag. */
SPW_INLINE void rails_rx_note(struct rails_queue *q, uint32_t r, const struct spw_desc *desc,
			      uint32_t cnt, const uint8_t **frame, const unsigned flags)
{
	const uint8_t *base = q->pool->base;
	const size_t slot_bytes = q->pool->slot_bytes;
	uint8_t *home = q->home;

	for (uint32_t i = 0; i < cnt; i++) {
		const uint32_t slot = desc[i].slot, offset = desc[i].offset;

		home[slot] = (uint8_t)r;
		if (!(flags & RX_ORDER))
			continue;
		frame[i] = base + slot * slot_bytes + offset;
		spw_prefetch_read(frame[i] + rails_tag_offset(flags));
	}
}

/* A frame without a tag has the sequence that expects nothing. */
SPW_INLINE void rails_rx_tag(const struct rails_queue *q, const uint8_t *frame, uint32_t bytes,
			     struct rails_tag *tag, const unsigned flags)
{
	if (spw_unlikely(!rails_tag_read(frame, bytes, tag, flags)))
		*tag = (struct rails_tag){.idx = q->window.untagged};
}

/* Returns: how many of desc[0 .. cnt - 1] are delivered; they have closed up. */
SPW_INLINE uint16_t rails_rx_sort(struct rails_queue *q, uint32_t r, struct spw_desc *desc,
				  uint16_t cnt, const unsigned flags)
{
	const uint8_t *frame[SPW_BURST_MAX];
	uint16_t out = 0;

	rails_rx_note(q, r, desc, cnt, frame, flags);
	if (!(flags & RX_ORDER))
		return cnt;
	for (uint16_t i = 0; i < cnt; i++) {
		struct rails_tag tag;

		rails_rx_tag(q, frame[i], desc[i].len, &tag, flags);
		if (spw_unlikely(!rails_window_next(&q->window, &tag)) &&
		    !rails_rx_odd(q, r, &tag, &desc[i]))
			continue;
		if (spw_unlikely(out != i))
			desc[out] = desc[i];
		out++;
	}
	return out;
}

/* ---- rails that carry one sequence in turn ---- */

/* What one poll of every rail brought, rail by rail; at .. end - 1 of a rail are not sorted yet. */
struct parts {
	struct spw_desc desc[SPW_BURST_MAX];
	const uint8_t *frame[SPW_BURST_MAX];
	struct rails_tag tag[SPW_BURST_MAX];
	uint32_t at[SPW_PORT_RAIL_MAX], end[SPW_PORT_RAIL_MAX];
};

/* Returns: frames that came. */
SPW_INLINE uint32_t rails_parts_poll(struct rails_queue *q, struct parts *p, uint16_t cnt,
				     const unsigned flags)
{
	const uint32_t each = SPW_MAX(cnt / q->rail_cnt, 1u);
	uint32_t came = 0, r = q->poll_next;

	for (uint32_t k = 0; k < q->rail_cnt; k++) {
		const uint16_t want = (uint16_t)SPW_MIN(each, cnt - came);
		const uint16_t n = want ? spw_port_rx_burst(q->rail[r], &p->desc[came], want) : 0;

		spw_thr_count(&q->count[r].polled, n);
		rails_rx_note(q, r, &p->desc[came], n, &p->frame[came], flags);
		p->at[r] = came;
		p->end[r] = came += n;
		r = r + 1 == q->rail_cnt ? 0 : r + 1;
	}
	return came;
}

/* Where all that came is one stream without a gap, a frame's number is its place.
 * Returns: false if it is not; then what desc[] holds is void. */
SPW_INLINE bool rails_parts_place(struct rails_queue *q, const struct parts *p, uint32_t cnt,
				  struct spw_desc *desc, const unsigned flags)
{
	struct rails_window *w = &q->window;
	struct rails_tag first, tag;
	uint64_t next, place, seen = 0; /* seen: a bit for each place */

	if (spw_unlikely(w->ready_in != w->ready_out ||
			 !rails_tag_read(p->frame[0], p->desc[0].len, &first, flags)))
		return false;
	next = w->seq[first.idx];
	for (uint32_t i = 0; i < cnt; i++) {
		if (spw_unlikely(!rails_tag_read(p->frame[i], p->desc[i].len, &tag, flags)))
			return false;
		place = tag.word - next;
		if (spw_unlikely(tag.idx != first.idx || place >= cnt))
			return false;
		desc[place] = p->desc[i];
		seen |= UINT64_C(1) << place;
	}
	if (spw_unlikely(seen != UINT64_MAX >> (SPW_BURST_MAX - cnt)))
		return false;
	w->seq[first.idx] = rails_word_add(next, cnt);
	return true;
}

/* The rail whose next frame is expected, from r on; if none, the first that has one. */
SPW_INLINE uint32_t rails_parts_choose(const struct rails_queue *q, const struct parts *p,
				       uint32_t r)
{
	uint32_t first = q->rail_cnt;

	for (uint32_t k = 0; k < q->rail_cnt; k++) {
		const bool has = p->at[r] < p->end[r];

		if (has && rails_window_expects(&q->window, &p->tag[p->at[r]]))
			return r;
		if (has && first == q->rail_cnt)
			first = r;
		r = r + 1 == q->rail_cnt ? 0 : r + 1;
	}
	return first;
}

/* Takes the rails in turn as long as each has the number that is expected. Not inlined:
 * rails_parts_place then has the registers to itself. Returns: frames delivered. */
static SPW_NOINLINE uint16_t rails_parts_merge(struct rails_queue *q, struct parts *p, uint32_t cnt,
					       struct spw_desc *desc, unsigned flags)
{
	uint32_t r = q->poll_next;
	uint16_t out = 0;

	for (uint32_t i = 0; i < cnt; i++)
		rails_rx_tag(q, p->frame[i], p->desc[i].len, &p->tag[i], flags);
	for (; cnt; cnt--) {
		uint32_t i;

		r = rails_parts_choose(q, p, r);
		i = p->at[r]++;
		if (spw_likely(rails_window_next(&q->window, &p->tag[i])) ||
		    rails_rx_odd(q, r, &p->tag[i], &p->desc[i]))
			desc[out++] = p->desc[i];
		r = r + 1 == q->rail_cnt ? 0 : r + 1;
	}
	q->poll_next = r;
	return out;
}

/* Polls every rail for its part of the burst. Returns: frames delivered. */
SPW_INLINE uint16_t rails_rx_merge(struct rails_queue *q, struct spw_desc *desc, uint16_t cnt,
				   const unsigned flags)
{
	struct parts parts;
	const uint32_t came = rails_parts_poll(q, &parts, cnt, flags);

	if (!came)
		return 0;
	if (flags & RX_STREAM && spw_likely(rails_parts_place(q, &parts, came, desc, flags))) {
		q->poll_next = q->poll_next + 1 == q->rail_cnt ? 0 : q->poll_next + 1;
		return (uint16_t)came;
	}
	return rails_parts_merge(q, &parts, came, desc, flags);
}

/* Time passes only while numbers are waited for. Returns: descriptors of frames that are ready. */
static SPW_COLD uint16_t rails_rx_waiting(struct rails_queue *q, struct spw_desc *desc,
					  uint16_t cnt)
{
	q->window.now_tsc = spw_tsc_now();
	return rails_window_take(&q->window, desc, cnt);
}

/* Gives up what was waited for too long, by the clock as it was before the rails were polled: a
 * lcore that was preempted finds late what lies in another rail's queue. A full burst has not
 * polled every rail; as many as there are rails have. cnt: room in the burst. */
static SPW_COLD uint16_t rails_rx_overdue(struct rails_queue *q, struct spw_desc *desc,
					  uint16_t cnt)
{
	if (cnt || ++q->full_cnt > q->rail_cnt) {
		q->full_cnt = 0;
		rails_window_expire(&q->window);
	}
	return rails_window_take(&q->window, desc, cnt);
}

/* Polls the rails in turn, as long as there is room. */
SPW_INLINE uint16_t rails_rx_rails(struct rails_queue *q, struct spw_desc *desc, uint16_t cnt,
				   const unsigned flags)
{
	uint16_t out = 0;

	for (uint32_t k = 0; k < q->rail_cnt && out < cnt; k++) {
		const uint32_t r = q->poll_next;
		const uint16_t n = spw_port_rx_burst(q->rail[r], desc + out, (uint16_t)(cnt - out));

		q->poll_next = r + 1 == q->rail_cnt ? 0 : r + 1;
		spw_thr_count(&q->count[r].polled, n);
		out = (uint16_t)(out + (n ? rails_rx_sort(q, r, desc + out, n, flags) : 0));
	}
	return out;
}

SPW_INLINE uint16_t rails_rx_body(struct rails_queue *q, struct spw_desc *desc, uint16_t cnt,
				  const unsigned flags)
{
	struct rails_window *w = &q->window;
	uint16_t out = 0;

	if (flags & RX_ORDER) {
		w->now_tsc = 0;
		if (spw_unlikely(w->waiting || w->ready_in != w->ready_out))
			out = rails_rx_waiting(q, desc, cnt);
	}
	if (flags & RX_MERGE) {
		if (out < cnt)
			out = (uint16_t)(out + rails_rx_merge(q, desc + out, (uint16_t)(cnt - out),
							      flags));
	} else {
		out = (uint16_t)(out + rails_rx_rails(q, desc + out, (uint16_t)(cnt - out), flags));
	}
	if (flags & RX_ORDER && spw_unlikely(w->waiting || w->ready_in != w->ready_out))
		out = (uint16_t)(out + rails_rx_overdue(q, desc + out, (uint16_t)(cnt - out)));
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

#define X(name, flags)                                                                \
	static uint16_t rails_rx_##name(void *q, struct spw_desc *desc, uint16_t cnt) \
	{                                                                             \
		return rails_rx_body(q, desc, cnt, flags);                            \
	}
RX_VARIANTS(X)
#undef X

rails_rx_fn *rails_rx_choose(const struct rails_conf *conf, bool messages)
{
	static const struct {
		unsigned flags;
		rails_rx_fn *rx;
	} variant[] = {
#define X(name, flags) {flags, rails_rx_##name},
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
