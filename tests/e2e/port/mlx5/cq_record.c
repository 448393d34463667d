/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Records what a NIC writes into a completion ring, for record_traces.py: port b receives, its ring
 * is compared before and after each batch of frames, and nothing is decoded. On stdout goes what
 * the other side knows: the shape of the queue, its CQ's number, and how many frames each batch
 * sent. Arguments: CASE FILE. The format of FILE is in tests/unit/port/mlx5/eth/cq_trace.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "port/mlx5/eth/eth.h"
#include "port/mlx5/rc/rc.h"
#include "rc_kit.h"

#define CQE      64u
#define CNT_MAX  4096u
#define QUIET_US 20000u

static const struct rec_case {
	const char *name, *profile;
	uint32_t ring, slots, slot_bytes, mtu, bytes_max;
	uint32_t batches, batch_max; /* frames: 8, 16 ... batch_max, and a few more each time */
	bool enhanced, errors, rc;
} cases[] = {
	{.name = "latency",
	 .profile = "latency",
	 .ring = 64,
	 .bytes_max = 1514,
	 .batches = 9,
	 .batch_max = 40},
	{.name = "compressed",
	 .profile = "throughput",
	 .ring = 64,
	 .bytes_max = 1514,
	 .batches = 12,
	 .batch_max = 56},
	{.name = "compressed_enhanced",
	 .profile = "throughput",
	 .ring = 64,
	 .bytes_max = 1514,
	 .batches = 12,
	 .batch_max = 56,
	 .enhanced = true},
	{.name = "striding_compressed",
	 .profile = "throughput",
	 .slots = 512,
	 .slot_bytes = 256,
	 .mtu = 200,
	 .bytes_max = 300,
	 .batches = 24,
	 .batch_max = 56},
	{.name = "striding_compressed_enhanced",
	 .profile = "throughput",
	 .slots = 512,
	 .slot_bytes = 256,
	 .mtu = 200,
	 .bytes_max = 300,
	 .batches = 24,
	 .batch_max = 56,
	 .enhanced = true},
	{.name = "errors",
	 .profile = "latency",
	 .ring = 64,
	 .bytes_max = 1514,
	 .batches = 6,
	 .batch_max = 24,
	 .errors = true},
	{.name = "errors_compressed",
	 .profile = "throughput",
	 .ring = 64,
	 .bytes_max = 1514,
	 .batches = 6,
	 .batch_max = 24,
	 .errors = true},
	{.name = "rc",
	 .profile = "latency",
	 .slots = 72,
	 .bytes_max = 1500,
	 .batches = 12,
	 .batch_max = 24,
	 .rc = true},
	{.name = "rc_compressed",
	 .profile = "throughput",
	 .slots = 72,
	 .bytes_max = 1500,
	 .batches = 12,
	 .batch_max = 24,
	 .rc = true},
};

static struct kit_run run;
static const struct rec_case *rc;
static struct mlx5_cqmem cq;
static uint8_t before[CNT_MAX * CQE], now[CNT_MAX * CQE], written[CNT_MAX * CQE];
static FILE *out;

/* ---- the ring ---- */

static void put(const void *data, size_t bytes)
{
	assert_int_equal(fwrite(data, 1, bytes, out), bytes);
}

/* One slot: its number, a bit for each byte that is not what the NIC wrote there last, and those
 * bytes. */
static void put_slot(uint32_t slot)
{
	const uint8_t *cqe = now + (size_t)slot * CQE, *old = written + (size_t)slot * CQE;
	uint8_t head[10] = {(uint8_t)slot, (uint8_t)(slot >> 8)};

	for (uint32_t i = 0; i < CQE; i++)
		head[2 + i / 8] |= (uint8_t)((cqe[i] != old[i]) << i % 8);
	put(head, sizeof(head));
	for (uint32_t i = 0; i < CQE; i++)
		if (cqe[i] != old[i])
			put(&cqe[i], 1);
	memcpy(written + (size_t)slot * CQE, cqe, CQE);
}

/* The NIC has its frames and has been quiet for a while: now the ring is what it wants it to be. */
static void put_batch(void)
{
	static const uint8_t end[2] = {0xff, 0xff};
	const size_t bytes = (size_t)cq.cnt * CQE;

	do {
		memcpy(now, cq.buf, bytes);
		usleep(QUIET_US);
	} while (memcmp(now, cq.buf, bytes));
	for (uint32_t slot = 0; slot < cq.cnt; slot++)
		if (memcmp(now + (size_t)slot * CQE, before + (size_t)slot * CQE, CQE))
			put_slot(slot);
	put(end, sizeof(end));
}

/* ---- batches ---- */

static void send_one(uint32_t bytes, uint32_t imm)
{
	struct spw_port_queue *pq = &run.a.port->queue[0];
	struct spw_desc desc = {.len = bytes, .flags = rc->rc ? SPW_DESC_IMM : 0, .meta = imm},
			*ptr = &desc;

	assert_int_equal(spw_port_lend_burst(pq, &desc.slot, 1), 1);
	memset(spw_pool_slot_addr(&run.a.pool[0], desc.slot), 0xff,
	       bytes); /* a broadcast of no known type */
	assert_int_equal(spw_port_tx_burst(pq, &ptr, 1), 1);
	run.a.taken++;
}

/* About cnt frames, and a few odd ones. Returns: how many they were, all of them sent. */
static uint32_t send_batch(uint32_t cnt, uint32_t odd)
{
	uint64_t target = run.sent + cnt, taken = run.a.taken;
	struct spw_port_event ev[4];
	struct spw_port_stat stat;
	struct spw_desc desc[4];

	while (run.sent < target)
		kit_send(&run);
	for (uint32_t i = 0; i < odd; i++)
		send_one(60 + i * 7, 0xabc00000 + (uint32_t)run.sent + i);
	do {
		spw_port_events(&run.a.port->queue[0], ev, 4);
		assert_int_equal(spw_port_rx_burst(&run.a.port->queue[0], desc, 4), 0);
		spw_port_stat(run.a.port, &stat);
	} while (stat.tx_frames < run.a.taken);
	return (uint32_t)(run.a.taken - taken);
}

/* Takes everything that arrived, recovers from errors, returns every slot. */
static void drain(void)
{
	struct spw_port_queue *pq = &run.b.port->queue[0];
	struct spw_desc desc[SPW_BURST_MAX];
	struct spw_port_event ev[4];

	for (double start = kit_seconds(); kit_seconds() - start < 0.05;) {
		uint16_t n = spw_port_rx_burst(pq, desc, SPW_BURST_MAX);

		run.b.rx[0] += n;
		for (uint16_t i = 0; i < n; i++)
			spw_port_release_burst(pq, &desc[i].slot, 1);
		if (!n)
			spw_port_events(pq, ev, 4);
	}
	memcpy(before, cq.buf, (size_t)cq.cnt * CQE);
}

static void one_batch(uint32_t index)
{
	uint32_t cnt = 8 + index * 8 % rc->batch_max, odd = index % 3;

	if (rc->errors && index == 1)
		cnt = rc->ring + 16; /* more than there are receives */
	if (rc->errors && index == 3)
		kit_control(1, "mr-revoke=%u", mlx5_eth_of(run.b.port)->queue[0].q.rq_lkey);
	if (!rc->rc)
		kit_control(1, "hold");
	cnt = send_batch(cnt, odd);
	if (!rc->rc) {
		kit_control(1, "release=%u", cnt);
		while (!strstr(kit_control(1, "status"), "credit=0"))
			usleep(1000);
	}
	put_batch();
	printf("batch %u\n", cnt);
	drain();
}

/* ---- set-up ---- */

static void say_cq(struct ibv_cq_ex *ex)
{
	struct mlx5dv_cq dv = {0};
	struct mlx5dv_obj obj = {.cq = {.in = ibv_cq_ex_to_cq(ex), .out = &dv}};

	assert_int_equal(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ), 0);
	printf("cqn %u\n", dv.cqn);
}

static void open_eth(void)
{
	struct kit_conf a = {.spec = "mlx5:mlx5_0", .queues = 1, .profile = "latency"};
	struct kit_conf b = {.queues = 1,
			     .profile = rc->profile,
			     .slots = rc->slots,
			     .slot_bytes = rc->slot_bytes,
			     .ring = rc->ring};
	char spec[64];
	struct mlx5_eth_queue_ctl *eq;

	snprintf(spec, sizeof(spec), "mlx5:mlx5_1,mode=eth,mtu=%u", rc->mtu ? rc->mtu : 1500);
	b.spec = spec;
	kit_open(&run, &a, &b);
	eq = &mlx5_eth_of(run.b.port)->queue[0];
	if (rc->enhanced) { /* rdma-core has no verb for it: with-softhca configured the device */
		eq->q.flags |= MLX5_F_ENHANCED;
		mlx5_eth_queue_calls(&eq->q, &run.b.port->queue[0]);
	}
	cq = eq->rx.cqmem;
	printf("shape flags=%u cq=%u rq=%u strides_log2=%u slot=%zu slots=%u\n",
	       eq->q.flags & ~(unsigned)MLX5_F_INLINE, cq.cnt, eq->rx.rqmem.cnt,
	       eq->rx.rqmem.strides_log2, run.b.pool[0].slot_bytes, run.b.pool[0].slot_cnt);
	say_cq(eq->rx.cq);
}

static void open_rc(void)
{
	struct rc_kit k = {
		.queues = 1, .peers = 1, .op = "send", .profile = rc->profile, .slots = rc->slots};
	struct mlx5_rc_queue_ctl *rq;

	rc_kit_open(&run, &k);
	rq = &mlx5_rc_of(run.b.port)->queue[0];
	cq = rq->obj->cqmem;
	printf("shape flags=%u cq=%u rq=%u credits=%u slot=%zu qpn=%u\n", rq->plan.flags, cq.cnt,
	       rq->obj->side[0].mem.rq.cnt, rq->obj->side[0].mem.rc.credits,
	       run.b.pool[0].slot_bytes, rq->obj->side[0].qp->qp_num);
	say_cq(rq->obj->cq);
}

static void record(void **state)
{
	(void)state;
	if (rc->rc)
		open_rc();
	else
		open_eth();
	assert_true(cq.cnt <= CNT_MAX);
	run.bytes_max = rc->bytes_max;
	for (uint32_t i = 0; i < cq.cnt;
	     i++) { /* a ring that nobody wrote to, but for what says so */
		written[i * CQE + MLX5_CQE_OP_OWN] = 0xf0;
		written[i * CQE + MLX5_CQE_VALIDITY] = 0xff;
	}
	memcpy(before, cq.buf, (size_t)cq.cnt * CQE);
	for (uint32_t i = 0; i < rc->batches; i++)
		one_batch(i);
	kit_close(&run);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(record)};

	for (unsigned i = 0; i < SPW_ARRAY_CNT(cases) && argc == 3; i++)
		if (!strcmp(cases[i].name, argv[1]))
			rc = &cases[i];
	out = rc ? fopen(argv[2], "wb") : NULL;
	if (!out)
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL) || fclose(out);
}
