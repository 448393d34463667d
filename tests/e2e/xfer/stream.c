/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 */
#include "stream.h"

#include "numbered.h"

/* Length and bytes of message number n follow from n. */
static uint64_t length_of(uint64_t n)
{
	static const uint32_t most[] = {1, 64, 4096, 40000, 100000, STREAM_BYTES};
	uint64_t seed = n * 7919 + 1;
	const uint64_t chance = unit_random(&seed);

	return (chance >> 8) % most[chance % SPW_ARRAY_CNT(most)];
}

static void check(const uint8_t *at, uint64_t len, uint64_t n, const char *what)
{
	const uint64_t wrong = numbered_wrong(at, len, n);

	if (wrong != len)
		fail_msg("%s %llu of %llu bytes: wrong from byte %llu on", what,
			 (unsigned long long)n, (unsigned long long)len, (unsigned long long)wrong);
}

static void grant(struct stream_way *w, uint64_t n)
{
	uint8_t *at = w->in + n % STREAM_DEPTH * STREAM_BYTES;
	const struct spw_xfer_part part = {w->mem_to, at, STREAM_BYTES, 0};

	memset(at, 0xaa, STREAM_BYTES);
	assert_int_equal(spw_xfer_recv(w->to, &part, 1, &w->recv[n % STREAM_DEPTH]), 0);
}

static void way_open(struct stream_way *w, struct kit *k)
{
	const uint64_t end = kit_now_ms() + KIT_WAIT_MS;
	int rc;

	assert_int_equal(spw_xfer_window_expose(w->to, w->mem_to, w->put_in, STREAM_BYTES), 0);
	while ((rc = spw_xfer_window_remote(w->from, 0, &w->window)) == -EAGAIN &&
	       kit_now_ms() < end)
		kit_turn(k);
	assert_int_equal(rc, 0);
	for (uint64_t n = 0; n < STREAM_DEPTH; n++)
		grant(w, n);
}

void stream_open(struct stream *s, struct kit *k)
{
	const size_t part = STREAM_DEPTH * STREAM_BYTES;

	assert_true(k->bytes >= STREAM_MEMORY);
	memset(s, 0, sizeof(*s));
	s->k = k;
	for (uint32_t i = 0; i < 2; i++) {
		uint8_t *from = i ? k->buf_b : k->buf_a, *to = i ? k->buf_a : k->buf_b;

		s->way[i] = (struct stream_way){
			.from = i ? k->ba : k->ab,
			.to = i ? k->ab : k->ba,
			.mem_from = i ? k->mem_b : k->mem_a,
			.mem_to = i ? k->mem_a : k->mem_b,
			.out = from,
			.in = to + part,
			.put_out = from + 2 * part,
			.put_in = to + 2 * part + STREAM_BYTES,
		};
		way_open(&s->way[i], k);
	}
	s->last_ms = kit_now_ms();
}

/* ---- one turn ---- */

static bool is_done(struct spw_xfer_req *req, uint64_t *bytes_out)
{
	bool done;
	int rc = spw_xfer_test(req, &done, bytes_out);

	if (rc)
		fail_msg("a request failed: %d: %s", rc, spw_err_text());
	return done;
}

static void do_send(struct stream *s, struct stream_way *w)
{
	const uint64_t n = w->sent, len = length_of(n);
	struct spw_xfer_req **req = &w->send[n % STREAM_DEPTH];
	uint8_t *at = w->out + n % STREAM_DEPTH * STREAM_BYTES;

	if (*req && !is_done(*req, NULL))
		return;
	*req = NULL;
	if (s->stop)
		return;
	numbered_fill(at, len, n);
	assert_int_equal(spw_xfer_send(w->from, w->mem_from, at, len, 0, req), 0);
	w->sent++;
}

static void do_receive(struct stream *s, struct stream_way *w)
{
	const uint64_t n = w->received, now = kit_now_ms();
	const uint8_t *at = w->in + n % STREAM_DEPTH * STREAM_BYTES;
	uint64_t got;

	if (!is_done(w->recv[n % STREAM_DEPTH], &got))
		return;
	assert_int_equal(got, length_of(n));
	check(at, got, n, "message");
	for (uint64_t i = got; i < STREAM_BYTES; i += 509)
		assert_int_equal(at[i], 0xaa);
	w->received++;
	s->longest_ms = SPW_MAX(s->longest_ms, now - s->last_ms);
	s->last_ms = now;
	grant(w, n + STREAM_DEPTH);
}

/* One put at a time; the receiver's memory is looked at when its flag is there. Every other one is
 * joined with its flag. */
static void do_put(struct stream *s, struct stream_way *w)
{
	const uint64_t *flags = (const uint64_t *)(void *)(w->put_in + 32);
	const bool joined = w->puts % 2;
	const uint64_t len = joined ? 1 + w->puts / 2 % SPW_XFER_JOIN_BYTES
				    : length_of(w->puts) * 7 / 8;
	const uint64_t at = joined ? 32 - len : 64;
	struct spw_xfer_access a = {.window = w->window,
				    .offset = at,
				    .mem = w->mem_from,
				    .addr = w->put_out,
				    .bytes = len,
				    .flag_offset = 32,
				    .flag = w->puts + 1};

	if (w->put) {
		if (!spw_xfer_flag_seen(flags, w->puts + 1) || !is_done(w->put, NULL))
			return;
		check(w->put_in + at, len, w->puts, "put");
		w->put = NULL;
		w->puts++;
		return;
	}
	if (s->stop)
		return;
	numbered_fill(w->put_out, len, w->puts);
	assert_int_equal(spw_xfer_put(w->from, &a, &w->put), 0);
}

static void turn(struct stream *s)
{
	for (uint32_t i = 0; i < 2; i++) {
		do_send(s, &s->way[i]);
		do_receive(s, &s->way[i]);
		do_put(s, &s->way[i]);
	}
	kit_turn(s->k);
}

void stream_run(struct stream *s, uint32_t ms)
{
	const uint64_t end = kit_now_ms() + ms;

	while (kit_now_ms() < end)
		turn(s);
}

static bool is_idle(const struct stream_way *w)
{
	return w->received == w->sent && !w->put;
}

void stream_end(struct stream *s)
{
	const uint64_t end = kit_now_ms() + KIT_WAIT_MS;

	s->stop = true;
	while (!is_idle(&s->way[0]) || !is_idle(&s->way[1])) {
		if (kit_now_ms() >= end)
			fail_msg("%llu of %llu and %llu of %llu messages have arrived; puts %d %d; "
				 "%s; %s",
				 (unsigned long long)s->way[0].received,
				 (unsigned long long)s->way[0].sent,
				 (unsigned long long)s->way[1].received,
				 (unsigned long long)s->way[1].sent, s->way[0].put != NULL,
				 s->way[1].put != NULL, spw_xfer_conn_text(s->k->ab),
				 spw_xfer_conn_text(s->k->ba));
		turn(s);
	}
	for (uint32_t i = 0; i < 2; i++)
		for (uint32_t j = 0; j < STREAM_DEPTH; j++)
			if (s->way[i].send[j])
				kit_done(s->k, s->way[i].send[j]);
	print_message("%llu and %llu messages, %llu and %llu puts; longest gap %llu ms\n",
		      (unsigned long long)s->way[0].sent, (unsigned long long)s->way[1].sent,
		      (unsigned long long)s->way[0].puts, (unsigned long long)s->way[1].puts,
		      (unsigned long long)s->longest_ms);
}
