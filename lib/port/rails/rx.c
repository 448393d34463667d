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
 * with the rail after it. Frames of others have no tag and pass. One body, a variant for each order
 * and for frames and messages.
 */
#include "base/spw_ident.h"
#include "port/rails/rails.h"
#include "time/spw_time.h"

#define RX_FLOW    (1u << 0)
#define RX_STREAM  (1u << 1)
#define RX_ORDER   (RX_FLOW | RX_STREAM)
#define RX_MESSAGE (1u << 2)

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

/* Returns: how many of desc[0 .. cnt - 1] are delivered; they have closed up. */
SPW_INLINE uint16_t rx_sort(struct rails_queue *q, uint32_t r, struct spw_desc *desc, uint16_t cnt,
			    const unsigned flags)
{
	const uint8_t *base = q->pool->base;
	const size_t slot_bytes = q->pool->slot_bytes;
	uint16_t out = 0;

	for (uint16_t i = 0; i < cnt; i++) {
		q->home[desc[i].slot] = (uint8_t)r;
		if (flags & RX_ORDER)
			spw_prefetch_read(base + desc[i].slot * slot_bytes + desc[i].offset +
					  tag_offset(flags));
	}
	if (!(flags & RX_ORDER))
		return cnt;
	for (uint16_t i = 0; i < cnt; i++) {
		const uint8_t *frame = base + desc[i].slot * slot_bytes + desc[i].offset;
		struct rails_tag tag;
		const bool tagged = tag_read(frame, desc[i].len, &tag, flags);

		if (spw_unlikely(!tagged || !rails_window_next(&q->window, &tag)) &&
		    !rx_odd(q, r, tagged ? &tag : NULL, &desc[i]))
			continue;
		if (spw_unlikely(out != i))
			desc[out] = desc[i];
		out++;
	}
	return out;
}

/* Time passes only while numbers are waited for. Returns: descriptors of frames that are ready. */
static SPW_COLD uint16_t rx_waiting(struct rails_queue *q, struct spw_desc *desc, uint16_t cnt)
{
	q->window.now_tsc = spw_tsc_now();
	rails_window_expire(&q->window);
	return rails_window_take(&q->window, desc, cnt);
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
	for (uint32_t k = 0; k < q->rail_cnt && out < cnt; k++) {
		const uint32_t r = q->poll_next;
		const uint16_t n = spw_port_rx_burst(q->rail[r], desc + out, (uint16_t)(cnt - out));

		q->poll_next = r + 1 == q->rail_cnt ? 0 : r + 1;
		spw_thr_count(&q->count[r].polled, n);
		out = (uint16_t)(out + (n ? rx_sort(q, r, desc + out, n, flags) : 0));
	}
	if (flags & RX_ORDER && spw_unlikely(w->ready_in != w->ready_out))
		out = (uint16_t)(out + rails_window_take(w, desc + out, (uint16_t)(cnt - out)));
	spw_thr_count(&q->rx_frames, out);
	return out;
}

#define RX_VARIANTS(X)                        \
	X(frame_any, 0)                       \
	X(frame_flow, RX_FLOW)                \
	X(frame_stream, RX_STREAM)            \
	X(message_flow, RX_FLOW | RX_MESSAGE) \
	X(message_stream, RX_STREAM | RX_MESSAGE)

#define X(name, flags)                                                          \
	static uint16_t rx_##name(void *q, struct spw_desc *desc, uint16_t cnt) \
	{                                                                       \
		return rx_body(q, desc, cnt, flags);                            \
	}
RX_VARIANTS(X)
#undef X

rails_rx_fn *rails_rx_choose(enum rails_order order, bool messages)
{
	if (order == RAILS_ORDER_FLOW)
		return messages ? rx_message_flow : rx_frame_flow;
	if (order == RAILS_ORDER_STREAM)
		return messages ? rx_message_stream : rx_frame_stream;
	return rx_frame_any;
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
