/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Sends and counts raw Ethernet frames through direct verbs (softhca_raw.h), in two processes that
 * bench_softhca.c starts.
 */
#include "softhca_raw.h"

#include <infiniband/mlx5dv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/spw_order.h"
#include "prm/spw_prm.h"
#include "raw_side.h"

#define DEPTH      1024u /* WQEs of a ring */
#define SLOT_BYTES 2048u
#define INLINE_BYTES \
	18u           /* of each frame's head lie in the WQE, as cards that want L2 inline expect */
#define CQE_EVERY 64u /* one completion per so many sends */
#define BURST     64u
#define FIRST_NS  60000000000u /* for the sender to start, on a busy machine */

static const uint8_t rx_mac[6] = {0x02, 0x73, 0x70, 0x77, 0x0b, 0x01};
static const uint8_t tx_mac[6] = {0x02, 0x73, 0x70, 0x77, 0x0b, 0x02};

struct raw {
	struct raw_side side;
	struct mlx5dv_qp dq;
	struct mlx5dv_cq dc;
	uint32_t ci, pi, bf_offset;
};

static int complain(const char *what)
{
	fprintf(stderr, "softhca raw: %s failed\n", what);
	return 1;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int raw_open(struct raw *r)
{
	struct mlx5dv_obj obj = {.qp.out = &r->dq, .cq.out = &r->dc};

	memset(r, 0, sizeof(*r));
	if (raw_side_open(&r->side, NULL, (size_t)DEPTH * SLOT_BYTES, DEPTH, false))
		return 1;
	obj.qp.in = r->side.qp;
	obj.cq.in = ibv_cq_ex_to_cq(r->side.cq);
	return mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ) ? complain("mlx5dv_init_obj")
								    : 0;
}

/* The next CQE, or NULL while the NIC owns it. */
static const uint8_t *next_cqe(struct raw *r)
{
	const uint32_t at = r->ci & (r->dc.cqe_cnt - 1);
	uint8_t *cqe = (uint8_t *)r->dc.buf + (size_t)at * r->dc.cqe_size +
		       (r->dc.cqe_size == 128 ? 64 : 0);
	const uint8_t op_own = spw_dma_load(cqe + 63);

	if (op_own >> 4 == SPW_PRM_CQE_INVALID || (op_own & 1) != !!(r->ci & r->dc.cqe_cnt))
		return NULL;
	spw_dma_from_device(); /* owner before the rest; partner: the NIC's release of the CQE's
				  last 8 bytes */
	r->ci++;
	return cqe;
}

static void return_cqes(struct raw *r)
{
	spw_dma_store((spw_be32 *)(void *)r->dc.dbrec, spw_cpu_to_be32(r->ci & 0xffffff));
}

/* ---- sending ---- */

static void write_wqe(struct raw *r, uint64_t number, uint32_t frame_bytes)
{
	uint8_t *wqe = (uint8_t *)r->dq.sq.buf + (size_t)(r->pi & (r->dq.sq.wqe_cnt - 1)) * 64;
	uint8_t *frame = r->side.bytes + (size_t)(r->pi & (DEPTH - 1)) * SLOT_BYTES;

	memcpy(frame + 14, &number, sizeof(number));
	spw_prm_st32(wqe, (r->pi & 0xffff) << 8 | SPW_PRM_OP_SEND);
	spw_prm_st32(wqe + 4, r->side.qp->qp_num << 8 | 4);
	spw_prm_st32(wqe + 8, r->pi % CQE_EVERY == CQE_EVERY - 1 ? SPW_PRM_CTRL_CE_CQE << 2 : 0);
	memset(wqe + 12, 0, 16);
	spw_prm_st16(wqe + 28, INLINE_BYTES);
	memcpy(wqe + 30, frame, INLINE_BYTES);
	spw_prm_st32(wqe + 48, frame_bytes - INLINE_BYTES);
	spw_prm_st32(wqe + 52, r->side.mr->lkey);
	spw_prm_st64(wqe + 56, (uintptr_t)frame + INLINE_BYTES);
	r->pi++;
}

static void ring(struct raw *r)
{
	spw_be64 first;

	memcpy(&first,
	       (uint8_t *)r->dq.sq.buf + (size_t)((r->pi - 1) & (r->dq.sq.wqe_cnt - 1)) * 64,
	       sizeof(first));
	spw_dma_to_device(); /* WQEs before record; partner: the NIC's read of SND_DBR */
	spw_dma_store((spw_be32 *)(void *)&r->dq.dbrec[MLX5_SND_DBR],
		      spw_cpu_to_be32(r->pi & 0xffff));
	spw_mmio_wc_start(); /* record before register; partner: the NIC's read of the register */
	spw_mmio_write64_be((uint8_t *)r->dq.bf.reg + r->bf_offset, first);
	spw_mmio_wc_flush();
	r->bf_offset ^= r->dq.bf.size;
}

static void fill_frames(struct raw *r, uint32_t frame_bytes)
{
	for (uint32_t i = 0; i < DEPTH; i++) {
		uint8_t *frame = r->side.bytes + (size_t)i * SLOT_BYTES;

		memcpy(frame, rx_mac, 6);
		memcpy(frame + 6, tx_mac, 6);
		frame[12] = 0x88; /* 88b5: local experiments */
		frame[13] = 0xb5;
		memset(frame + 22, 0xa5, frame_bytes - 22);
	}
}

int softhca_raw_tx(const struct softhca_raw_opt *opt, struct softhca_raw_result *res)
{
	uint64_t start, completed = 0;
	struct raw r;
	int err = raw_open(&r);

	memset(res, 0, sizeof(*res));
	if (!err)
		fill_frames(&r, opt->frame_bytes);
	start = now_ns();
	while (!err && completed < opt->frames) {
		const uint64_t room = DEPTH - (res->frames - completed);
		uint32_t n = (uint32_t)SPW_MIN(SPW_MIN(room, opt->frames - res->frames),
					       (uint64_t)BURST);
		const uint8_t *cqe;

		for (uint32_t i = 0; i < n; i++)
			write_wqe(&r, res->frames++, opt->frame_bytes);
		if (n)
			ring(&r);
		while ((cqe = next_cqe(&r))) {
			completed += CQE_EVERY;
			if (spw_prm_cqe64_get_opcode(cqe) != SPW_PRM_CQE_REQ)
				err = complain("sending (an error CQE)");
		}
		return_cqes(&r);
		if (!n)
			spw_cpu_relax();
	}
	res->seconds = (double)(now_ns() - start) * 1e-9;
	raw_side_close(&r.side);
	return err;
}

/* ---- receiving ---- */

static void post_recv(struct raw *r, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++, r->pi++) {
		uint8_t *wqe = (uint8_t *)r->dq.rq.buf +
			       (size_t)(r->pi & (r->dq.rq.wqe_cnt - 1)) * r->dq.rq.stride;

		spw_prm_st32(wqe, SLOT_BYTES);
		spw_prm_st32(wqe + 4, r->side.mr->lkey);
		spw_prm_st64(wqe + 8,
			     (uintptr_t)r->side.bytes + (size_t)(r->pi & (DEPTH - 1)) * SLOT_BYTES);
		if (r->dq.rq.stride > 16)
			spw_prm_st32(wqe + 20, SPW_PRM_INVALID_LKEY);
	}
	spw_dma_to_device(); /* WQEs before record; partner: the NIC's read of RCV_DBR */
	spw_dma_store((spw_be32 *)(void *)&r->dq.dbrec[MLX5_RCV_DBR],
		      spw_cpu_to_be32(r->pi & 0xffff));
}

/* One frame: its bytes and its place in the series. */
static void check(struct softhca_raw_result *res, const uint8_t *cqe, const uint8_t *frame,
		  uint32_t bytes, uint64_t *next)
{
	uint64_t number;

	memcpy(&number, frame + 14, sizeof(number));
	if (spw_prm_cqe64_get_opcode(cqe) != SPW_PRM_CQE_RESP_SEND ||
	    spw_prm_cqe64_get_byte_cnt(cqe) != bytes || frame[22] != 0xa5 ||
	    frame[bytes - 1] != 0xa5 || number < *next) {
		res->bad++;
		return;
	}
	res->lost += number - *next;
	*next = number + 1;
	res->frames++;
}

int softhca_raw_rx(const struct softhca_raw_opt *opt, struct softhca_raw_result *res)
{
	uint64_t next = 0, first = 0, last = now_ns(), consumed = 0;
	struct raw r;
	int err = raw_open(&r);

	memset(res, 0, sizeof(*res));
	if (!err) {
		post_recv(&r, DEPTH);
		err = raw_side_steer(&r.side, rx_mac);
	}
	if (!err) {
		puts("ready");
		fflush(stdout);
	}
	while (!err && next < opt->frames) {
		const uint64_t before = consumed;
		const uint8_t *cqe;

		while (consumed - before < BURST && (cqe = next_cqe(&r)))
			check(res, cqe,
			      r.side.bytes + (size_t)(consumed++ & (DEPTH - 1)) * SLOT_BYTES,
			      opt->frame_bytes, &next);
		if (consumed != before) {
			return_cqes(
				&r); /* first: the CQ has no more room than the RQ has buffers */
			post_recv(&r, (uint32_t)(consumed - before));
			last = now_ns();
			first = first ? first : last;
		} else if (now_ns() - last >
			   (consumed ? (uint64_t)opt->idle_ms * 1000000u : FIRST_NS)) {
			break;
		} else {
			spw_cpu_relax();
		}
	}
	res->seconds = (double)(last - first) * 1e-9;
	raw_side_close(&r.side);
	return err;
}

int softhca_raw_main(int argc, char **argv)
{
	struct softhca_raw_opt opt = {.frames = 1000000, .frame_bytes = 60, .idle_ms = 20000};
	struct softhca_raw_result res;
	const bool rx = argc > 1 && strcmp(argv[1], "rx") == 0;

	if (!rx && (argc < 2 || strcmp(argv[1], "tx") != 0)) {
		fprintf(stderr, "usage: %s tx|rx [FRAMES [BYTES [IDLE_MS]]]\n", argv[0]);
		return 1;
	}
	if (argc > 2)
		opt.frames = SPW_ALIGN_UP(strtoull(argv[2], NULL, 0), (uint64_t)CQE_EVERY);
	if (argc > 3)
		opt.frame_bytes = (uint32_t)strtoul(argv[3], NULL, 0);
	if (argc > 4)
		opt.idle_ms = (uint32_t)strtoul(argv[4], NULL, 0);
	if (opt.frame_bytes < 60 || opt.frame_bytes > 1514)
		return complain("a frame size other than 60 to 1514");
	if (rx ? softhca_raw_rx(&opt, &res) : softhca_raw_tx(&opt, &res))
		return 1;
	printf("frames %llu bad %llu lost %llu seconds %.6f\n", (unsigned long long)res.frames,
	       (unsigned long long)res.bad, (unsigned long long)res.lost, res.seconds);
	return 0;
}
