/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The pollers that bench_cq.c compares, each as one function that callgrind can count, and the
 * rings that they poll. Nothing but the polling itself is between two clock readings.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/spw_err.h"
#include "cq_lap.h"
#include "exec/spw_handler.h"

/* Ticks between two stamps: 260 M frames/s at 2.6 GHz, so many frames share a bucket. */
#define STAMP_STEP   10u
#define FLIGHT_BYTES ((size_t)64 << 20) /* the default of --record-memory */

/* ---- the timed loops ---- */

static __attribute__((noinline)) uint64_t lap_poll_cq(struct cq_ring *r, uint64_t *sink)
{
	struct ibv_wc wc[SPW_BURST_MAX];
	struct ibv_cq *cq = ibv_cq_ex_to_cq(r->rx.cq);
	uint64_t start = spw_tsc_now_ordered(), sum = 0;

	for (uint32_t n = 0; n < r->cnt;) {
		int got = ibv_poll_cq(cq, SPW_BURST_MAX, wc);

		if (got <= 0)
			return 0;
		for (int i = 0; i < got; i++)
			sum += wc[i].byte_len;
		n += (uint32_t)got;
	}
	*sink += sum;
	return spw_tsc_now_ordered() - start;
}

static __attribute__((noinline)) uint64_t lap_next_poll(struct cq_ring *r, uint64_t *sink)
{
	struct ibv_poll_cq_attr attr = {0};
	uint64_t start = spw_tsc_now_ordered(), sum = 0;
	uint32_t n = 0;

	while (n < r->cnt) {
		uint32_t burst = 0;
		int rc = ibv_start_poll(r->rx.cq, &attr);

		if (rc)
			return 0;
		do {
			sum += ibv_wc_read_byte_len(r->rx.cq) + ibv_wc_read_completion_ts(r->rx.cq);
		} while (++burst < SPW_BURST_MAX && !ibv_next_poll(r->rx.cq));
		ibv_end_poll(r->rx.cq);
		n += burst;
	}
	*sink += sum;
	return spw_tsc_now_ordered() - start;
}

SPW_INLINE uint64_t lap_ours(struct spw_port_queue *pq, uint32_t cnt, uint32_t *slot,
			     uint64_t *sink)
{
	struct spw_desc desc[SPW_BURST_MAX];
	uint64_t start = spw_tsc_now_ordered(), sum = 0;

	for (uint32_t n = 0; n < cnt;) {
		uint16_t got = spw_port_rx_burst(pq, desc, SPW_BURST_MAX);

		if (!got)
			return 0;
		for (uint16_t i = 0; i < got; i++) {
			sum += desc[i].len + desc[i].nic_stamp;
			slot[n + i] = desc[i].slot;
		}
		n += got;
	}
	*sink += sum;
	return spw_tsc_now_ordered() - start;
}

/* Two names, so that callgrind counts them separately. */
static __attribute__((noinline)) uint64_t lap_ours_stamped(struct spw_port_queue *pq, uint32_t cnt,
							   uint32_t *slot, uint64_t *sink)
{
	return lap_ours(pq, cnt, slot, sink);
}

static __attribute__((noinline)) uint64_t lap_ours_compressed(struct spw_port_queue *pq,
							      uint32_t cnt, uint32_t *slot,
							      uint64_t *sink)
{
	return lap_ours(pq, cnt, slot, sink);
}

static __attribute__((noinline)) uint64_t lap_pipe(struct spw_pipe *pipe, uint32_t cnt)
{
	uint64_t start = spw_tsc_now_ordered();
	uint32_t n = 0;

	/* An inline executor has executed and settled in a turn what the turn polled. */
	for (uint32_t turns = 0; n < cnt; turns++) {
		uint16_t got = spw_pipe_run_once(pipe);

		if (!got && turns > cnt)
			return 0;
		n += got;
	}
	return spw_tsc_now_ordered() - start;
}

/* ---- set-up ---- */

int cq_lap_open(struct cq_bench *b, const char *rx, const char *tx, uint32_t cnt)
{
	int status = cq_ring_open(&b->plain, rx, tx, cnt, false), rc;

	if (!status)
		status = cq_ring_open(&b->mini, rx, tx, cnt, true);
	if (status)
		return status;
	cq_ring_stamps(&b->plain, 0, STAMP_STEP);
	rc = spw_tsc_calibrate(50, &b->tsc);
	if (!rc)
		rc = spw_handler_open("null", &b->null);
	if (!rc)
		rc = spw_handler_open("sum", &b->sum);
	if (!rc)
		rc = spw_flight_open(&b->flight, FLIGHT_BYTES, 0, -1);
	if (rc)
		fprintf(stderr, "spinwire-bench cq: %s\n", spw_err_text());
	return rc ? 2 : 0;
}

void cq_lap_close(struct cq_bench *b)
{
	cq_ring_close(&b->plain);
	cq_ring_close(&b->mini);
	spw_flight_close(&b->flight);
	free(b);
}

/* ---- laps ---- */

typedef uint64_t ours_fn(struct spw_port_queue *pq, uint32_t cnt, uint32_t *slot, uint64_t *sink);

static double ours_lap(struct cq_bench *b, ours_fn *lap)
{
	struct spw_port_queue *pq = &b->port.base.queue[0];
	struct cq_ring *r = b->port.ring;
	struct spw_desc none[SPW_BURST_MAX];
	uint32_t *slot = calloc(r->cnt, sizeof(*slot));
	uint64_t ticks;

	if (!slot)
		return 0;
	cq_ring_lay(r, b->lap++);
	ticks = lap(pq, r->cnt, slot, &b->sink);
	for (uint32_t i = 0; ticks && i < r->cnt; i += SPW_BURST_MAX)
		spw_port_release_burst(pq, slot + i, SPW_BURST_MAX);
	/* finds nothing, and posts the returned slots again */
	spw_port_rx_burst(pq, none, SPW_BURST_MAX);
	free(slot);
	return (double)ticks;
}

double cq_lap_stamped(struct cq_bench *b)
{
	return ours_lap(b, lap_ours_stamped);
}

double cq_lap_compressed(struct cq_bench *b)
{
	return ours_lap(b, lap_ours_compressed);
}

double cq_lap_verbs(struct cq_bench *b)
{
	cq_ring_lay(&b->plain, b->verbs_lap++);
	return (double)lap_poll_cq(&b->plain, &b->sink);
}

double cq_lap_verbs_ex(struct cq_bench *b)
{
	cq_ring_lay(&b->plain, b->verbs_lap++);
	return (double)lap_next_poll(&b->plain, &b->sink);
}

/* The last frame was stamped just now. */
double cq_lap_piped(struct cq_bench *b)
{
	struct cq_ring *r = b->port.ring;

	cq_ring_stamps(r, spw_tsc_now() - (uint64_t)r->cnt * STAMP_STEP, STAMP_STEP);
	cq_ring_lay(r, b->lap++);
	return (double)lap_pipe(&b->topo.lane[0]->pipe, r->cnt);
}
