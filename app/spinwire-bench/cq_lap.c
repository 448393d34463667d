/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 *
 * The pollers that bench_cq.c compares, each as one function that callgrind can count, and the
 * rings, slots and queues that they need. Nothing but the polling itself is between two clock
 * readings.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/spw_err.h"
#include "cq_lap.h"

#define STAMP_STEP                                                                                \
	10u /* ticks of a stamp between frames: 260 M frames/s at 2.6 GHz, so many share a bucket \
	     */
#define SLOT_BYTES 2048u

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

SPW_INLINE uint64_t lap_ours(struct cq_ours *o, uint32_t cnt, uint32_t *slot, uint64_t *sink)
{
	struct spw_desc desc[SPW_BURST_MAX];
	uint64_t start = spw_tsc_now_ordered(), sum = 0;

	for (uint32_t n = 0; n < cnt;) {
		uint16_t got = spw_port_rx_burst(&o->pq, desc, SPW_BURST_MAX);

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
static __attribute__((noinline)) uint64_t lap_ours_stamped(struct cq_ours *o, uint32_t cnt,
							   uint32_t *slot, uint64_t *sink)
{
	return lap_ours(o, cnt, slot, sink);
}

static __attribute__((noinline)) uint64_t lap_ours_compressed(struct cq_ours *o, uint32_t cnt,
							      uint32_t *slot, uint64_t *sink)
{
	return lap_ours(o, cnt, slot, sink);
}

static __attribute__((noinline)) uint64_t lap_pipe(struct spw_pipe *pipe, uint32_t cnt)
{
	uint64_t until = pipe->ledger.reaped_frames + cnt, start = spw_tsc_now_ordered();

	for (uint32_t turns = 0; pipe->ledger.reaped_frames < until; turns++)
		if (!spw_pipe_run_once(pipe) && turns > cnt)
			return 0;
	return spw_tsc_now_ordered() - start;
}

/* ---- set-up ---- */

static int ours_open(struct cq_bench *b, struct cq_ours *o, struct cq_ring *r, uint32_t at,
		     unsigned flags, uint32_t refill_min)
{
	struct mlx5_eth_queue_conf conf = {
		.cq = {r->mem.buf, NULL, r->cnt, 64},
		.rq = {.dbrec = &o->db[0], .cnt = r->cnt, .stride = 16},
		.pool = &o->pool,
		.flags = flags,
		.refill_min = refill_min,
	};
	int rc = spw_pool_init(&o->pool, &b->region, (size_t)at * r->cnt * SLOT_BYTES, SLOT_BYTES,
			       r->cnt);

	o->wqe = aligned_alloc(4096, (size_t)r->cnt * 16);
	conf.rq.buf = o->wqe;
	if (!rc && !o->wqe)
		rc = spw_err(ENOMEM, "no memory for receive entries");
	if (!rc)
		rc = mlx5_eth_queue_init(&o->q, &conf);
	if (rc)
		return rc;
	mlx5_eth_queue_calls(&o->q, &o->pq);
	mlx5_eth_queue_arm(&o->q);
	return 0;
}

int cq_lap_open(struct cq_bench *b, const char *rx, const char *tx, uint32_t cnt)
{
	struct spw_mem_req req = {
		.kind = SPW_MEM_HOST, .bytes = (size_t)3 * cnt * SLOT_BYTES, .numa_node = -1};
	int status = cq_ring_open(&b->plain, rx, tx, cnt, false), rc;

	if (!status)
		status = cq_ring_open(&b->mini, rx, tx, cnt, true);
	if (status)
		return status;
	cq_ring_stamps(&b->plain, STAMP_STEP);
	rc = spw_tsc_calibrate(50, &b->tsc);
	if (!rc)
		rc = spw_region_alloc(&req, &b->region);
	if (!rc)
		rc = ours_open(b, &b->stamped, &b->plain, 0, MLX5_F_STAMP, cnt);
	if (!rc)
		rc = ours_open(b, &b->compressed, &b->mini, 1, MLX5_F_COMPRESSED, cnt);
	if (!rc)
		rc = ours_open(b, &b->piped, &b->plain, 2, MLX5_F_STAMP, cnt / 16);
	if (!rc)
		rc = spw_handler_open("null", &b->handler);
	if (rc)
		fprintf(stderr, "spinwire-bench cq: %s\n", spw_err_text());
	return rc ? 2 : 0;
}

void cq_lap_close(struct cq_bench *b)
{
	for (struct cq_ours *o = &b->stamped; o <= &b->piped; o++) {
		mlx5_eth_queue_disarm(&o->q);
		mlx5_eth_queue_fini(&o->q);
		spw_pool_fini(&o->pool);
		free(o->wqe);
	}
	cq_ring_close(&b->plain);
	cq_ring_close(&b->mini);
	spw_region_free(&b->region);
	free(b);
}

/* ---- laps ---- */

typedef uint64_t ours_fn(struct cq_ours *o, uint32_t cnt, uint32_t *slot, uint64_t *sink);

static double ours_lap(struct cq_bench *b, struct cq_ours *o, struct cq_ring *r, ours_fn *lap)
{
	struct spw_desc none[SPW_BURST_MAX];
	uint32_t *slot = calloc(r->cnt, sizeof(*slot));
	uint64_t ticks;

	if (!slot)
		return 0;
	cq_ring_lay(r, o->lap++);
	ticks = lap(o, r->cnt, slot, &b->sink);
	for (uint32_t i = 0; ticks && i < r->cnt; i += SPW_BURST_MAX)
		spw_port_release_burst(&o->pq, slot + i, SPW_BURST_MAX);
	spw_port_rx_burst(&o->pq, none,
			  SPW_BURST_MAX); /* finds nothing, and posts the returned slots again */
	free(slot);
	return (double)ticks;
}

double cq_lap_stamped(struct cq_bench *b, struct spw_pipe *pipe SPW_UNUSED)
{
	return ours_lap(b, &b->stamped, &b->plain, lap_ours_stamped);
}

double cq_lap_compressed(struct cq_bench *b, struct spw_pipe *pipe SPW_UNUSED)
{
	return ours_lap(b, &b->compressed, &b->mini, lap_ours_compressed);
}

double cq_lap_verbs(struct cq_bench *b, struct spw_pipe *pipe SPW_UNUSED)
{
	cq_ring_lay(&b->plain, b->verbs_lap++);
	return (double)lap_poll_cq(&b->plain, &b->sink);
}

double cq_lap_verbs_ex(struct cq_bench *b, struct spw_pipe *pipe SPW_UNUSED)
{
	cq_ring_lay(&b->plain, b->verbs_lap++);
	return (double)lap_next_poll(&b->plain, &b->sink);
}

/* The last frame was stamped just now; stamps count ticks. */
double cq_lap_piped(struct cq_bench *b, struct spw_pipe *pipe)
{
	struct spw_clock_map map;

	cq_ring_lay(&b->plain, b->piped.lap++);
	spw_clock_map_identity(&map);
	map.other_base = (uint64_t)b->plain.cnt * STAMP_STEP;
	map.ref_base = spw_tsc_now();
	spw_clock_box_put(&b->nic_clock, &map);
	spw_rec_clocks(&pipe->rec, NULL, &b->nic_clock);
	return (double)lap_pipe(pipe, b->plain.cnt);
}
