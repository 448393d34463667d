/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What lib/kv takes for lists of pieces, beside the same WRITEs by plain verbs, in turn, on the
 * same two devices. No piece follows another at both ends, so none is merged.
 *
 *   make   one list of 112,000 pieces, as a KV cache has them, in ns a piece
 *   post   until spw_kv_post of that list has returned
 *   time   until it is done, which is the NIC's pace too: by hand is the bound
 *   rate   256 pieces of one size, again and again, and by hand: chains of 32, one CQE each
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "bench.h"
#include "hand_qp.h"
#include "kv/spw_kv.h"
#include "mem/spw_mem.h"
#include "time/spw_time.h"

#define RUNS    15u
#define MANY    112000u
#define FEW     256u
#define TINY    64u
#define CHAIN   32u /* WRITEs by hand in one call */
#define CHAINS  4u  /* under way */
#define BYTES   ((size_t)36 << 20)
#define LIMIT_S 20u

struct kv_end {
	uint8_t *bytes; /* BYTES */
	struct spw_kv *kv;
	struct spw_kv_mem *mem;
	struct hand_qp hand;
};

static struct kv_end end[2]; /* from, to */
static struct spw_kv_region *there;
static struct spw_tsc tsc;

static uint64_t now_ns(void)
{
	return spw_tsc_to_ns(&tsc, spw_tsc_now_ordered());
}

/* ---- set-up ---- */

static int end_open(struct kv_end *e, const char *name, const char *device)
{
	const struct ibv_qp_cap cap = {.max_send_wr = CHAIN * CHAINS,
				       .max_recv_wr = 1,
				       .max_send_sge = 1,
				       .max_recv_sge = 1};
	const struct spw_kv_conf conf = {
		.xfer = {.rails = device, .bind = "127.0.0.1:0"}, .name = name, .name_bytes = 1};
	const struct spw_xfer_mem_req req = {
		.kind = SPW_XFER_HOST, .addr = e->bytes, .bytes = BYTES};
	int rc = spw_kv_open(&conf, &e->kv);

	rc = rc ? rc : spw_kv_mem_reg(e->kv, &req, &e->mem);
	return rc ? rc : hand_qp_open(&e->hand, device, e->bytes, BYTES, &cap);
}

static int ends_connect(void)
{
	const uint64_t until = now_ns() + LIMIT_S * 1000000000ull;
	struct spw_kv_info info;
	struct spw_xfer_blob blob;
	int rc;

	spw_kv_info(end[1].kv, &info);
	spw_kv_mem_blob(end[1].mem, &blob);
	rc = spw_kv_peer_load(end[0].kv, "1", 1, info.byte, sizeof(info.byte));
	rc = rc ? rc
		: spw_kv_region_load(end[0].kv, "1", 1, blob.byte, sizeof(blob.byte), BYTES,
				     &there);
	while (!rc && (rc = spw_kv_peer_connect(end[0].kv, "1", 1)) == -EAGAIN) {
		(void)spw_kv_peer_connect(end[1].kv, "1", 1); /* itself: a turn */
		rc = now_ns() > until ? spw_err(ETIMEDOUT, "no connection in %u s", LIMIT_S) : 0;
	}
	rc = rc ? rc : hand_qp_join(&end[0].hand, &end[1].hand);
	return rc ? rc : hand_qp_join(&end[1].hand, &end[0].hand);
}

static int bench_open(const char *const device[2], struct spw_region *region)
{
	const struct spw_mem_req req = {.kind = SPW_MEM_HOST, .bytes = 2 * BYTES, .numa_node = -1};
	int rc = spw_tsc_calibrate(50, &tsc);

	rc = rc ? rc : spw_region_alloc(&req, region);
	for (uint32_t i = 0; i < 2 && !rc; i++) {
		end[i].bytes = (uint8_t *)region->host_va + i * BYTES;
		memset(end[i].bytes, 0, BYTES);
		rc = end_open(&end[i], i ? "1" : "0", device[i]);
	}
	rc = rc ? rc : ends_connect();
	if (rc)
		fprintf(stderr, "spinwire-bench kv: %s\n", spw_err_text());
	return rc ? 2 : 0;
}

static void bench_close(struct spw_region *region)
{
	for (uint32_t i = 0; i < 2; i++) {
		spw_kv_close(end[i].kv);
		hand_qp_close(&end[i].hand);
	}
	spw_region_free(region);
}

/* ---- lists ---- */

/* Pieces lie one behind the other here; there first the even ones, then the odd ones. */
static size_t far_at(uint32_t i, uint32_t bytes, uint32_t cnt)
{
	return (size_t)(i % 2 ? cnt / 2 + i / 2 : i / 2) * bytes;
}

static int list_make(uint32_t cnt, uint32_t bytes, struct spw_kv_transfer **t_out)
{
	static struct spw_kv_near near[MANY];
	static struct spw_kv_far far[MANY];
	const struct spw_kv_lists lists = {near, far, cnt, cnt, true};

	for (uint32_t i = 0; i < cnt; i++) {
		near[i] = (struct spw_kv_near){end[0].mem, end[0].bytes + (size_t)i * bytes, bytes};
		far[i] = (struct spw_kv_far){there, far_at(i, bytes, cnt), bytes};
	}
	return spw_kv_transfer_make(end[0].kv, "1", 1, &lists, t_out);
}

static int list_finish(struct spw_kv_transfer *t)
{
	const uint64_t until = now_ns() + LIMIT_S * 1000000000ull;
	int rc;

	while ((rc = spw_kv_check(t)) == -EAGAIN)
		if (now_ns() > until)
			return spw_err(ETIMEDOUT, "a list is not done in %u s", LIMIT_S);
	return rc;
}

/* ---- by hand ---- */

static int hand_post(uint32_t first, uint32_t cnt, uint32_t bytes, uint32_t all)
{
	const struct hand_qp *h = &end[0].hand;
	struct ibv_send_wr wr[CHAIN], *bad;
	struct ibv_sge sge[CHAIN];

	for (uint32_t i = 0; i < cnt; i++) {
		sge[i] = (struct ibv_sge){(uintptr_t)end[0].bytes + (size_t)(first + i) * bytes,
					  bytes, h->mr->lkey};
		wr[i] = (struct ibv_send_wr){
			.sg_list = &sge[i],
			.num_sge = 1,
			.next = i + 1 < cnt ? &wr[i + 1] : NULL,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = i + 1 < cnt ? 0 : IBV_SEND_SIGNALED,
			.wr.rdma = {h->there + far_at(first + i, bytes, all), h->there_rkey}};
	}
	return ibv_post_send(h->qp, wr, &bad) ? spw_err(EIO, "WRITEs by hand") : 0;
}

/* Returns: 0, and how many chains are under way. */
static int hand_reap(uint32_t *chains)
{
	struct ibv_wc wc[CHAINS];
	const int n = ibv_poll_cq(end[0].hand.tx_cq, CHAINS, wc);

	for (int i = 0; i < n; i++)
		if (wc[i].status != IBV_WC_SUCCESS)
			return spw_err(EIO, "a WRITE by hand: %s", ibv_wc_status_str(wc[i].status));
	*chains -= n > 0 ? (uint32_t)n : 0;
	return n < 0 ? spw_err(EIO, "a CQ by hand") : 0;
}

static int hand_write(uint32_t cnt, uint32_t bytes)
{
	const uint64_t until = now_ns() + LIMIT_S * 1000000000ull;
	uint32_t chains = 0, at = 0;
	int rc = 0;

	while (!rc && (at < cnt || chains)) {
		while (!rc && at < cnt && chains < CHAINS) {
			const uint32_t n = SPW_MIN(CHAIN, cnt - at);

			rc = hand_post(at, n, bytes, cnt);
			at += n;
			chains++;
		}
		rc = rc ? rc : hand_reap(&chains);
		if (!rc && now_ns() > until)
			rc = spw_err(ETIMEDOUT, "WRITEs by hand were not done in %u s", LIMIT_S);
	}
	return rc;
}

/* ---- runs ---- */

struct many {
	double make[RUNS], post[RUNS], done[RUNS], hand[RUNS], ratio[RUNS];
};

static int run_many(struct many *m, uint32_t run)
{
	uint64_t at[5] = {now_ns()};
	struct spw_kv_transfer *t;
	int rc = list_make(MANY, TINY, &t);

	at[1] = now_ns();
	rc = rc ? rc : spw_kv_post(t, NULL, 0);
	at[2] = now_ns();
	rc = rc ? rc : list_finish(t);
	at[3] = now_ns();
	spw_kv_release(t);
	rc = rc ? rc : hand_write(MANY, TINY);
	at[4] = now_ns();
	m->make[run] = (double)(at[1] - at[0]) / MANY;
	m->post[run] = (double)(at[2] - at[1]) / MANY;
	m->done[run] = (double)(at[3] - at[1]) / MANY;
	m->hand[run] = (double)(at[4] - at[3]) / MANY;
	m->ratio[run] = m->hand[run] / m->done[run];
	return rc;
}

struct few {
	uint32_t bytes, times;
	double kv[RUNS], hand[RUNS], ratio[RUNS];
};

static int run_few(struct few *f, uint32_t run)
{
	const double all = (double)f->bytes * FEW * f->times;
	struct spw_kv_transfer *t = NULL;
	int rc = list_make(FEW, f->bytes, &t);
	uint64_t from = now_ns(), middle;

	for (uint32_t i = 0; i < f->times && !rc; i++) {
		rc = spw_kv_post(t, NULL, 0);
		rc = rc ? rc : list_finish(t);
	}
	middle = now_ns();
	for (uint32_t i = 0; i < f->times && !rc; i++)
		rc = hand_write(FEW, f->bytes);
	f->kv[run] = all / (double)(middle - from);
	f->hand[run] = all / (double)(now_ns() - middle);
	f->ratio[run] = f->kv[run] / f->hand[run];
	spw_kv_release(t);
	return rc;
}

static void add_rows(struct spw_bench_out *out, struct many *m, struct few *few, size_t cnt)
{
	char name[72];

	spw_bench_add(out, "112,000 pieces of 64 B, kv / by hand", "pace", "ratio", m->ratio, RUNS);
	spw_bench_add(out, "112,000 pieces of 64 B", "make", "ns/piece", m->make, RUNS);
	spw_bench_add(out, "112,000 pieces of 64 B", "post", "ns/piece", m->post, RUNS);
	spw_bench_add(out, "112,000 pieces of 64 B", "time", "ns/piece", m->done, RUNS);
	spw_bench_add(out, "112,000 WRITEs of 64 B by hand", "time", "ns/piece", m->hand, RUNS);
	for (size_t i = 0; i < cnt; i++) {
		snprintf(name, sizeof(name), "256 pieces of %u B", few[i].bytes);
		spw_bench_add(out, name, "kv", "GB/s", few[i].kv, RUNS);
		spw_bench_add(out, name, "by hand", "GB/s", few[i].hand, RUNS);
		spw_bench_add(out, name, "kv / by hand", "ratio", few[i].ratio, RUNS);
	}
}

int spw_bench_kv(int argc, char **argv, struct spw_bench_out *out)
{
	static struct few few[] = {{.bytes = 1024, .times = 200},
				   {.bytes = 4096, .times = 100},
				   {.bytes = 16384, .times = 40},
				   {.bytes = 65536, .times = 10}};
	const char *const device[2] = {argc == 3 ? argv[1] : "mlx5_0",
				       argc == 3 ? argv[2] : "mlx5_1"};
	static struct many many;
	struct spw_region region = {0};
	int status, rc = 0;

	if ((argc != 1 && argc != 3) || (argc == 3 && argv[1][0] == '-')) {
		fprintf(stderr,
			"usage: tools/with-softhca --devices 2 spinwire-bench kv [FROM TO]\n"
			"  FROM TO         two mlx5 ports on one cable (mlx5_0 mlx5_1)\n");
		return 1;
	}
	status = bench_open(device, &region);
	for (uint32_t run = 0; run < RUNS && !status && !rc; run++) {
		rc = run_many(&many, run);
		for (size_t i = 0; i < SPW_ARRAY_CNT(few) && !rc; i++)
			rc = run_few(&few[i], run);
	}
	if (rc) {
		fprintf(stderr, "spinwire-bench kv: %s\n", spw_err_text());
		status = 3;
	}
	if (!status)
		add_rows(out, &many, few, SPW_ARRAY_CNT(few));
	bench_close(&region);
	return status;
}
