/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The handoff benchmark's round trips, one at a time: push a batch, wait until it is reaped.
 *
 *   ping    host ask --> kernel answer                          the bare link, both directions
 *   way     push --> take, sum, done --> reap                   each executor of handoff_way
 *   copy    cudaMemcpyAsync, launch, synchronize                the way without a ring
 *   read    one kernel reads the payload, timed by the device   the payload's share of the above
 *
 * A slice is one of these with one payload for HANDOFF_SLICE_MS, or until the samples are full.
 * Slices of all ways take turns within a run, so that a drift of the machine's speed meets them
 * alike. Every sum is compared with the one that the CPU computed before: an executor that reads an
 * old payload fails instead of being fast.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handoff.h"

#define PATIENCE_MS 2000u

/* Starts a slice: room for samples, none yet. */
static int samples_begin(struct handoff *h, struct handoff_samples *s)
{
	if (!s->ticks)
		s->ticks = malloc(HANDOFF_SAMPLES * sizeof(*s->ticks));
	s->cnt = 0;
	s->us_per_tick = 1e6 / (double)h->tsc.hz;
	return s->ticks ? 0 : handoff_fail("memory", 2);
}

static void sample(struct handoff_samples *s, uint64_t ticks)
{
	s->ticks[s->cnt++] = (uint32_t)SPW_MIN(ticks, UINT32_MAX);
}

/* The room for samples bounds a slice as well: none is dropped or averaged. */
static bool slice_over(struct handoff *h, const struct handoff_samples *s, uint64_t begin)
{
	return s->cnt == HANDOFF_SAMPLES ||
	       spw_tsc_now() - begin > spw_tsc_from_ns(&h->tsc, HANDOFF_SLICE_MS * 1000000ull);
}

/* The first 100 rounds warm up. The kernel is told to end by ~0; if it never answers, its own life
 * ends it (HANDOFF_LIFE_MS). */
static int ping_slice(struct handoff *h)
{
	struct handoff_ping *p = &h->words->ping;
	uint64_t begin, t, patience = spw_tsc_from_ns(&h->tsc, PATIENCE_MS * 1000000ull), n = 0;
	int rc;

	if (samples_begin(h, &h->ping))
		return 2;
	memset(p, 0, sizeof(*p));
	rc = handoff_ping_launch(&h->dev_words->ping, HANDOFF_LIFE_MS * 1000000ull, h->stream);
	for (begin = spw_tsc_now(); !rc && !slice_over(h, &h->ping, begin);) {
		t = spw_tsc_now();
		spw_gpu_store_rel64(&p->ask, ++n);
		while (spw_gpu_load_acq64(&p->answer) != n)
			if (spw_tsc_now() - t > patience)
				return handoff_fail("the ping-pong kernel does not answer",
						    cudaErrorLaunchTimeout);
		t = spw_tsc_now() - t;
		if (n > 100)
			sample(&h->ping, t);
	}
	spw_gpu_store_rel64(&p->ask, ~0ull);
	if (!rc)
		rc = (int)cudaStreamSynchronize(h->stream);
	if (rc)
		return handoff_fail("ping-pong", rc);
	handoff_samples_end(&h->ping);
	return 0;
}

static uint64_t bytes_sum(const uint8_t *p, size_t n)
{
	uint64_t sum = 0;

	while (n--)
		sum += *p++;
	return sum;
}

/* Batches lie one after the other in memory, so that no payload is read twice within HANDOFF_PLACES
 * rounds.
 */
static size_t case_bytes(const struct handoff_case *c)
{
	return (size_t)c->frames * handoff_stride(c->bytes);
}

/* Returns: the sum of the bytes of the batch at that place. */
static uint64_t case_sum(const struct handoff *h, const struct handoff_case *c, uint32_t place)
{
	const uint8_t *at = h->region.host_va + place * case_bytes(c);
	uint64_t sum = 0;

	for (uint32_t i = 0; i < c->frames; i++)
		sum += bytes_sum(at + i * handoff_stride(c->bytes), c->bytes);
	return sum & SPW_GRING_VALUE_MASK;
}

/* A payload of 0 bytes still has a descriptor; the handler is then "null", which reads nothing. */
static void case_fill(const struct handoff_case *c, uint32_t place, struct spw_gring_batch *b)
{
	uint32_t stride = handoff_stride(c->bytes), at = (uint32_t)(place * case_bytes(c));

	b->cnt = c->frames;
	for (uint32_t i = 0; i < c->frames; i++)
		b->desc[i] =
			(struct spw_desc){.offset = at + i * stride, .len = SPW_MAX(c->bytes, 64u)};
}

/* Waits for the batches that one push became. Returns false after PATIENCE_MS. */
static bool reap_all(struct spw_gring *ring, uint32_t parts, uint64_t patience, uint64_t *sum_out)
{
	uint64_t begin = spw_tsc_now();
	struct spw_gring_batch *b;

	for (*sum_out = 0; parts; parts--) {
		while (!(b = spw_gring_reap(ring)))
			if (spw_tsc_now() - begin > patience)
				return false;
		*sum_out += b->digest;
		spw_gring_retire(ring, b);
	}
	return true;
}

/* One batch at a time, so t is a latency and no part of a queue. Filling the batch is outside of
 * t. */
static int exec_rounds(struct handoff *h, struct spw_exec *exec, const struct handoff_case *c,
		       struct handoff_samples *s)
{
	struct spw_gring *ring = spw_exec_ring(exec, 0);
	uint64_t begin, patience = spw_tsc_from_ns(&h->tsc, PATIENCE_MS * 1000000ull), sum;
	uint64_t want[HANDOFF_PLACES];

	for (uint32_t i = 0; i < HANDOFF_PLACES; i++)
		want[i] = case_sum(h, c, i);
	begin = spw_tsc_now();
	for (uint32_t round = 0; !slice_over(h, s, begin); round++) {
		struct spw_gring_batch *b = spw_gring_next(ring);
		uint64_t t;

		case_fill(c, round % HANDOFF_PLACES, b);
		t = spw_tsc_now();
		if (!reap_all(ring, spw_gring_push(ring, b), patience, &sum))
			return handoff_fail("a batch does not return", cudaErrorLaunchTimeout);
		t = spw_tsc_now() - t;
		if ((sum & SPW_GRING_VALUE_MASK) != want[round % HANDOFF_PLACES])
			return handoff_fail("the sum of the payload is wrong", cudaErrorUnknown);
		spw_exec_beat(exec, 0);
		if (round >= 100)
			sample(s, t);
	}
	return 0;
}

/* A fresh executor for each slice: nothing of one way is resident while another one is measured. */
static int exec_slice(struct handoff *h, const struct handoff_way *way, uint16_t ctas,
		      const struct handoff_case *c, struct handoff_samples *s)
{
	struct spw_exec_conf conf = {.kind = way->kind,
				     .share_bytes = way->share_bytes,
				     .ring_cnt = 1,
				     .region = &h->region,
				     .region_cnt = 1,
				     .numa_node = -1,
				     .batch_cnt = HANDOFF_PLACES,
				     .cta_per_ring = ctas,
				     .life_ms = HANDOFF_LIFE_MS};
	struct spw_exec *exec;
	int rc;

	if (samples_begin(h, s) || spw_handler_open(c->bytes ? "sum" : "null", &conf.handler) ||
	    spw_exec_open(&conf, &exec))
		return handoff_fail(way->name, 0);
	rc = spw_exec_start(exec) ? handoff_fail("start", 0) : exec_rounds(h, exec, c, s);
	if (!rc && spw_exec_service(exec))
		rc = handoff_fail("service", 0);
	if (spw_exec_stop(exec, 2000) && !rc)
		rc = handoff_fail("stop", 0);
	spw_exec_close(exec);
	handoff_samples_end(s);
	return rc;
}

/* The way without a ring: copy the payload, launch, wait for the stream. Frames lie close together:
 * one copy. */
static int copy_slice(struct handoff *h, const struct handoff_case *c, struct handoff_samples *s)
{
	size_t bytes = (size_t)c->frames * c->bytes;
	uint64_t want[HANDOFF_PLACES], begin;
	uint32_t warm = 0;
	int rc = 0;

	if (samples_begin(h, s))
		return 2;
	for (uint32_t i = 0; i < HANDOFF_PLACES; i++)
		want[i] = bytes_sum(h->region.host_va + i * case_bytes(c), bytes);
	for (begin = spw_tsc_now(); !rc && !slice_over(h, s, begin);) {
		uint64_t t = spw_tsc_now();

		if (bytes)
			rc = (int)cudaMemcpyAsync(h->dev_copy,
						  h->region.host_va +
							  warm % HANDOFF_PLACES * case_bytes(c),
						  bytes, cudaMemcpyHostToDevice, h->stream);
		if (!rc)
			rc = handoff_sum_launch(h->dev_copy, bytes, h->dev_scratch,
						&h->dev_words->sum, h->stream);
		if (!rc)
			rc = (int)cudaStreamSynchronize(h->stream);
		t = spw_tsc_now() - t;
		if (!rc && spw_gpu_load_acq64(&h->words->sum) != want[warm % HANDOFF_PLACES])
			return handoff_fail("the baseline's sum is wrong", cudaErrorUnknown);
		if (++warm > 100)
			sample(s, t);
	}
	if (rc)
		return handoff_fail("copy+launch+sync", rc);
	handoff_samples_end(s);
	return 0;
}

/* No sample of the host: the device measures all rounds together. A single payload is read without
 * the padding behind it. */
static int read_slice(struct handoff *h, uint32_t ctas, const struct handoff_case *c,
		      double *us_out)
{
	const struct handoff_read read = {.dev_src = h->region.dev_va,
					  .bytes = c->frames == 1 ? c->bytes : case_bytes(c),
					  .stride = case_bytes(c),
					  .places = HANDOFF_PLACES,
					  .rounds = 2 * HANDOFF_PLACES};
	int rc;

	*us_out = 0;
	if (!c->bytes)
		return 0;
	rc = handoff_read_launch(&read, ctas, &h->dev_words->ns, h->stream);
	if (!rc)
		rc = (int)cudaStreamSynchronize(h->stream);
	if (rc)
		return handoff_fail("reading the payload", rc);
	*us_out = (double)h->words->ns / read.rounds / 1e3;
	return 0;
}

int handoff_latency(struct handoff *h)
{
	int rc = 0;

	for (uint32_t run = 0; !rc && run < HANDOFF_RUNS; run++) {
		rc = ping_slice(h);
		for (uint32_t k = 0; !rc && k < HANDOFF_CTAS; k++)
			rc = exec_slice(h, &handoff_way[0], handoff_ctas[k], &handoff_case[2],
					&h->by_ctas[k]);
		for (uint32_t c = 0; !rc && c < HANDOFF_CASES; c++) {
			for (uint32_t w = 0; !rc && w < HANDOFF_RINGS; w++)
				rc = exec_slice(h, &handoff_way[w], 0, &handoff_case[c],
						&h->way[w][c]);
			if (!rc)
				rc = copy_slice(h, &handoff_case[c], &h->way[HANDOFF_RINGS][c]);
			if (!rc)
				rc = read_slice(h, 1, &handoff_case[c], &h->read_us[0][c][run]);
			if (!rc)
				rc = read_slice(h, 8, &handoff_case[c], &h->read_us[1][c][run]);
		}
	}
	return rc;
}
