/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The receive path of lib/port/mlx5 on compressed completions of both layouts, as a NIC writes
 * them: the second device sends frames of changing lengths, the first receives them, and every one
 * must be found, in order, over several laps of the ring. rdma-core has no verb for the enhanced
 * layout, so the port cannot ask for it yet; its path can read it. Arguments: basic | enhanced, as
 * the device was configured.
 */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "port/mlx5/eth/queue.h"
#include "raw_side.h"
#include "../../softhca/own/verbs_kit.h"

#define RING   256u
#define ROUNDS 40u   /* ten laps or so */
#define SMALL  6000u /* rounds of a few frames: the reader polls while they are written */
#define SLOT   2048u

static bool enhanced;

static const uint8_t rx_mac[6] = {0x02, 0x73, 0x70, 0x77, 0x0d, 0x01};
static struct raw_side rx, tx;
static struct mlx5dv_cq ring;
static struct mlx5dv_qp rq;
static uint32_t posted;

static uint32_t length_of(uint32_t number)
{
	return 60 + number % 1000;
}

/* In small rounds an entry's block has another count than a lap before: a count read before the
 * entry was written would be that of the old block. */
static uint32_t round_frames(uint32_t round)
{
	return round < ROUNDS ? 1 + round * 37 % 128 : 1 + round * 5 % 13;
}

/* By hand: libmlx5 would wait for completions that it never gets to see. */
static void post_receives(uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++, posted++) {
		uint8_t *wqe =
			(uint8_t *)rq.rq.buf + (size_t)(posted % rq.rq.wqe_cnt) * rq.rq.stride;

		memset(wqe, 0, rq.rq.stride);
		spw_prm_wqe_data_set_byte_count(wqe, SLOT);
		spw_prm_wqe_data_set_lkey(wqe, rx.mr->lkey);
		spw_prm_wqe_data_set_addr(wqe, (uintptr_t)rx.bytes + i * SLOT);
		if (rq.rq.stride > 16)
			spw_prm_wqe_data_set_lkey(wqe + 16, SPW_PRM_INVALID_LKEY);
	}
	spw_dma_to_device(); /* entries before the record; partner: the NIC reads the record first
			      */
	spw_dma_store((spw_be32 *)(void *)&rq.dbrec[MLX5_RCV_DBR],
		      spw_cpu_to_be32(posted & 0xffff));
}

/* cnt receive buffers, then cnt frames in one list: they come as close together as they can. */
static void send_frames(uint32_t first, uint32_t cnt)
{
	struct ibv_send_wr wr[RING], *bad;
	struct ibv_sge sge[RING];
	struct ibv_wc wc;

	post_receives(cnt);
	for (uint32_t i = 0; i < cnt; i++) {
		sge[i] = (struct ibv_sge){(uintptr_t)tx.bytes, length_of(first + i), tx.mr->lkey};
		wr[i] = (struct ibv_send_wr){.next = i + 1 < cnt ? &wr[i + 1] : NULL,
					     .sg_list = &sge[i],
					     .num_sge = 1,
					     .opcode = IBV_WR_SEND,
					     .send_flags = i + 1 < cnt ? 0 : IBV_SEND_SIGNALED};
	}
	assert_int_equal(ibv_post_send(tx.qp, wr, &bad), 0);
	assert_int_equal(kit_poll(ibv_cq_ex_to_cq(tx.cq), &wc, 1, KIT_WAIT_MS), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

static void every_frame_is_found(void **state)
{
	struct spw_region region = {.host_va = aligned_alloc(4096, RING * SLOT),
				    .bytes = RING * SLOT,
				    .page_bytes = 4096};
	uint8_t *wqe = aligned_alloc(4096, RING * 16);
	spw_be32 db = {0};
	struct mlx5_eth_queue *q = aligned_alloc(64, sizeof(*q));
	struct spw_pool pool;
	struct mlx5_eth_queue_conf conf = {
		.cq = {ring.buf, NULL, RING, 64},
		.rq = {.buf = wqe, .dbrec = &db, .cnt = RING, .stride = 16},
		.pool = &pool,
		.flags = MLX5_F_COMPRESSED | (enhanced ? MLX5_F_ENHANCED : 0),
		.refill_min = 1};
	struct spw_port_queue pq;
	uint32_t frames = 0;

	(void)state;
	assert_int_equal(spw_pool_init(&pool, &region, 0, SLOT, RING), 0);
	assert_int_equal(mlx5_eth_queue_init(q, &conf), 0);
	mlx5_eth_queue_calls(q, &pq);
	mlx5_eth_queue_arm(q);
	for (uint32_t round = 0; round < ROUNDS + SMALL; round++) {
		uint32_t cnt = round_frames(round), end = frames + cnt;
		const uint64_t until = kit_now_us() + KIT_WAIT_MS * 1000;

		send_frames(frames, cnt);
		while (frames < end) {
			struct spw_desc desc[SPW_BURST_MAX];
			uint32_t slot[SPW_BURST_MAX];
			uint16_t n = spw_port_rx_burst(&pq, desc, SPW_BURST_MAX);

			for (uint16_t i = 0; i < n; i++) {
				assert_int_equal(desc[i].len, length_of(frames + i));
				slot[i] = desc[i].slot;
			}
			spw_port_release_burst(&pq, slot, n);
			frames += n;
			if (kit_now_us() > until)
				fail_msg("frame %u did not come", frames);
		}
		ring.dbrec[0] = htobe32(q->cq_ci & 0xffffff);
	}
	assert_int_equal(frames, q->stat.rx_frames);
	assert_true(q->cq_ci == frames && frames / RING > 8);
	assert_int_equal(q->stat.err[SPW_PORT_ERR_cqe_error], 0);
	mlx5_eth_queue_disarm(q);
	mlx5_eth_queue_fini(q);
	assert_int_equal(spw_pool_fini(&pool), 0);
	free(q);
	free(wqe);
	free(region.host_va);
}

static int open_all(void **state)
{
	struct mlx5dv_obj obj = {.cq.out = &ring, .qp.out = &rq};

	(void)state;
	assert_int_equal(raw_side_open(&rx, "mlx5_0", RING * SLOT, RING, true), 0);
	assert_int_equal(raw_side_open(&tx, "mlx5_1", RING * SLOT, RING, false), 0);
	memcpy(tx.bytes, rx_mac, 6);
	tx.bytes[6] = 2;
	tx.bytes[12] = 0x88; /* 88b5: local experiments */
	tx.bytes[13] = 0xb5;
	assert_int_equal(raw_side_steer(&rx, rx_mac), 0);
	obj.cq.in = ibv_cq_ex_to_cq(rx.cq);
	obj.qp.in = rx.qp;
	assert_int_equal(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ | MLX5DV_OBJ_QP), 0);
	assert_int_equal(ring.cqe_cnt, RING);
	for (uint32_t i = 0; i < RING; i++) /* no lap has this number for a long time */
		((uint8_t *)ring.buf)[i * 64 + 62] = 0xff;
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	assert_int_equal(raw_side_close(&rx), 0);
	assert_int_equal(raw_side_close(&tx), 0);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_frame_is_found),
	};

	if (argc != 2 || (strcmp(argv[1], "basic") && strcmp(argv[1], "enhanced"))) {
		fprintf(stderr, "usage: %s basic|enhanced\n", argv[0]);
		return 2;
	}
	enhanced = argv[1][0] == 'e';
	return cmocka_run_group_tests(tests, open_all, close_all);
}
