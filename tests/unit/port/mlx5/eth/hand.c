/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include "hand.h"

#include <stdlib.h>
#include <string.h>

/* ---- set-up ---- */

static int rq_reset(void *obj)
{
	struct hand *h = obj;

	h->rq_resets++;
	return h->reset_rc;
}

static int rq_ready(void *obj)
{
	struct hand *h = obj;

	h->rq_readies++;
	h->rq_ci = h->stride_pos = 0;
	h->db[1] = spw_cpu_to_be32(0);
	return 0;
}

static int sq_reset(void *obj)
{
	struct hand *h = obj;

	h->sq_resets++;
	return h->reset_rc;
}

static int sq_ready(void *obj)
{
	struct hand *h = obj;

	h->sq_readies++;
	h->db[2] = spw_cpu_to_be32(0);
	return 0;
}

static uint64_t tsc_to_ns(void *obj, uint64_t ticks)
{
	(void)obj;
	return ticks;
}

static uint8_t *ring_new(size_t bytes)
{
	uint8_t *p = aligned_alloc(4096, SPW_ALIGN_UP(bytes, (size_t)4096));

	memset(p, 0xa5, bytes); /* whatever was there before */
	return p;
}

static void cq_fresh(uint8_t *cq, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++) {
		cq[i * 64 + 63] = 0xf0;
		cq[i * 64 + 62] = 0xff;
	}
}

/* Bytes of a receive WQE: two segments, or a striding one's next segment and data segment. */
static uint32_t wqe_bytes(const struct hand *h)
{
	return h->conf.flags & (MLX5_F_STRIDING | MLX5_F_SPLIT) ? 32 : 16;
}

static struct mlx5_eth_queue_conf queue_conf(struct hand *h)
{
	const struct hand_conf *c = &h->conf;

	return (struct mlx5_eth_queue_conf){
		.cq = {h->cq, &h->db[0], c->cq_cnt, 64},
		.tx_cq = {h->tx_cq, &h->db[3], c->sq_cnt, 64},
		.rq = {h->rq, &h->db[1], c->rq_cnt, wqe_bytes(h), HAND_LKEY, c->strides_log2,
		       HAND_HEAD_LKEY},
		.sq = {h->sq, &h->db[2], c->sq_cnt, HAND_QPN, HAND_LKEY, h->uar + 0x800,
		       c->bf_bytes},
		.pool = &h->pool,
		.ops = {rq_reset, rq_ready, sq_reset, sq_ready, NULL, tsc_to_ns, h},
		.flags = c->flags,
		.index = 3,
		.port = 5,
		.refill_min = c->refill_min ? c->refill_min : 1,
	};
}

int hand_open(struct hand *h, const struct hand_conf *conf)
{
	size_t bytes = (size_t)conf->slot_bytes * conf->slot_cnt;

	*h = (struct hand){.conf = *conf};
	h->region = (struct spw_region){.host_va = ring_new(bytes),
					.bytes = bytes,
					.page_bytes = 4096,
					.id = 6,
					.kind = SPW_MEM_HOST};
	h->cq = ring_new((size_t)conf->cq_cnt * 64);
	h->rq = ring_new((size_t)conf->rq_cnt * 32);
	h->sq = ring_new((size_t)conf->sq_cnt * 64 + 64);
	h->tx_cq = ring_new((size_t)conf->sq_cnt * 64 + 64);
	h->uar = ring_new(4096);
	memset(h->uar, 0, 4096);
	cq_fresh(h->cq, conf->cq_cnt);
	cq_fresh(h->tx_cq, conf->sq_cnt);
	h->q = aligned_alloc(64, sizeof(*h->q));
	spw_pool_init(&h->pool, &h->region, 0, conf->slot_bytes, conf->slot_cnt);
	if (conf->flags & MLX5_F_SPLIT) {
		h->heads = h->region;
		h->heads.bytes = conf->slot_cnt * spw_pool_head_stride(HAND_HEAD);
		h->heads.host_va = ring_new(h->heads.bytes);
		spw_pool_split(&h->pool, &h->heads, 0, HAND_HEAD);
	}
	struct mlx5_eth_queue_conf qc = queue_conf(h);
	int rc = mlx5_eth_queue_init(h->q, &qc);

	if (rc)
		return rc;
	h->q->cq_ci = h->pi = conf->start;
	h->q->rq_ci = h->q->rq_pi = h->rq_ci = conf->rq_start;
	h->q->sq_ci = h->q->sq_pi = conf->rq_start;
	h->clock = 1000;
	mlx5_eth_queue_calls(h->q, &h->pq);
	mlx5_eth_queue_arm(h->q);
	return 0;
}

uint32_t hand_close(struct hand *h)
{
	mlx5_eth_queue_disarm(h->q);
	mlx5_eth_queue_fini(h->q);
	free(h->q);
	free(h->cq);
	free(h->rq);
	free(h->sq);
	free(h->tx_cq);
	free(h->uar);
	uint32_t leaked = spw_pool_fini(&h->pool);

	free(h->region.host_va);
	free(h->heads.host_va);
	return leaked;
}

bool hand_balanced(const struct hand *h, uint32_t lent)
{
	struct spw_port_slots s;

	mlx5_eth_queue_slots(h->q, &s);
	return s.lent == lent && h->pool.free_cnt + s.in_rx + s.lent + s.in_tx == h->conf.slot_cnt;
}

/* ---- the receive ring, as the NIC reads it ---- */

static uint32_t posted(const struct hand *h)
{
	return (uint16_t)(spw_be32_to_cpu(h->db[1]) - h->rq_ci);
}

uint32_t hand_room(const struct hand *h)
{
	if (h->conf.flags & MLX5_F_STRIDING)
		return (posted(h) << h->conf.strides_log2) - h->stride_pos;
	return posted(h);
}

/* Whether the WQE's two segments are a slot's head and what lies behind it in the slot: all of it,
 * and no byte more. */
static bool is_split(const struct hand *h, const uint8_t *seg, const uint8_t *addr)
{
	const uint32_t slot = (uint32_t)((size_t)(addr - h->pool.base) / h->pool.slot_bytes);

	return spw_prm_wqe_data_get_lkey(seg) == HAND_HEAD_LKEY &&
	       spw_prm_wqe_data_get_byte_count(seg) == HAND_HEAD &&
	       spw_prm_wqe_data_get_byte_count(seg + 16) == h->conf.slot_bytes - HAND_HEAD &&
	       spw_prm_wqe_data_get_addr(seg) == (uintptr_t)spw_pool_head_addr(&h->pool, slot) &&
	       addr == spw_pool_slot_addr(&h->pool, slot);
}

/* NULL, and nothing used up, where the driver posted nothing, or what no NIC should get. */
uint8_t *hand_take(struct hand *h, uint32_t strides)
{
	const bool striding = h->conf.flags & MLX5_F_STRIDING, split = h->conf.flags & MLX5_F_SPLIT;
	const uint8_t *wqe = h->rq + (size_t)(h->rq_ci & (h->conf.rq_cnt - 1)) * wqe_bytes(h);
	const uint8_t *seg = wqe + (striding || split ? 16 : 0);
	uint8_t *addr = (uint8_t *)(uintptr_t)spw_prm_wqe_data_get_addr(seg) +
			(size_t)h->stride_pos * h->conf.slot_bytes - (split ? HAND_HEAD : 0);

	if (spw_prm_wqe_data_get_lkey(seg) != HAND_LKEY || !posted(h) ||
	    (split && !is_split(h, wqe, addr)))
		return NULL;
	if (striding)
		h->stride_pos += strides;
	if (!striding || h->stride_pos == 1u << h->conf.strides_log2) {
		h->rq_ci++;
		h->stride_pos = 0;
	}
	return addr;
}

/* ---- CQEs ---- */

static uint8_t *cqe_new(struct hand *h, uint32_t ci)
{
	return h->cq + (size_t)(ci & (h->conf.cq_cnt - 1)) * 64;
}

static uint32_t lap(const struct hand *h)
{
	return h->pi / h->conf.cq_cnt;
}

static void cqe_own(struct hand *h, uint8_t *cqe, unsigned opcode, unsigned format)
{
	spw_prm_cqe64_set_signature(cqe, h->conf.flags & MLX5_F_ENHANCED ? lap(h) & 0xff : 0);
	spw_dma_store(&cqe[63], (uint8_t)(opcode << 4 | format << 2 | (lap(h) & 1)));
}

static uint32_t cnt_word(const struct hand *h, uint32_t len, uint32_t strides, bool filler)
{
	return h->conf.flags & MLX5_F_STRIDING ? (uint32_t)filler << 31 | strides << 16 | len : len;
}

static struct hand_frame frame_new(struct hand *h, uint32_t len)
{
	h->clock += 7;
	return (struct hand_frame){
		.addr = hand_take(h, 1),
		.len = len,
		.hash = (uint32_t)h->clock * 2654435761u,
		.stamp = h->clock,
	};
}

static void cqe_body(struct hand *h, uint8_t *cqe, uint8_t csum)
{
	memset(cqe, 0x5a, 62); /* fields that nobody asked for are not zero */
	spw_prm_cqe64_set_hds_ip_ext(cqe, 1u | csum << 1);
	spw_prm_cqe64_set_sop_drop_qpn(cqe, (uint32_t)h->drops << 24 | h->tag);
	h->drops = 0;
}

void hand_plain(struct hand *h, uint32_t len, struct hand_frame *frame_out)
{
	uint8_t *cqe = cqe_new(h, h->pi);
	uint8_t csum = h->clock & 3;
	struct hand_frame f = frame_new(h, len);

	cqe_body(h, cqe, csum);
	spw_prm_cqe64_set_byte_cnt(cqe, cnt_word(h, len, 1, false));
	spw_prm_cqe64_set_rx_hash_result(cqe, f.hash);
	spw_prm_cqe64_set_timestamp(cqe, f.stamp);
	cqe_own(h, cqe, SPW_PRM_CQE_RESP_SEND, 0);
	h->title_csum = csum;
	h->pi++;
	f.flags = csum | (h->conf.flags & MLX5_F_STAMP ? SPW_DESC_NIC_STAMP : 0);
	if (!(h->conf.flags & MLX5_F_STAMP))
		f.stamp = 0;
	if (frame_out)
		*frame_out = f;
}

static void mini_put(struct hand *h, uint8_t *array, uint32_t i, uint8_t csum,
		     struct hand_frame *out)
{
	struct hand_frame f = frame_new(h, 1 + (uint32_t)h->clock % h->conf.slot_bytes);

	spw_prm_mini_hash_set_rx_hash_result(array + i * 8, f.hash);
	spw_prm_mini_hash_set_byte_cnt(array + i * 8, cnt_word(h, f.len, 1, false));
	f.flags = csum;
	f.stamp = 0;
	*out = f;
}

/* Basic: title at pi; arrays at pi + 1, pi + 8, pi + 16...; the other slots keep what they had. */
static void session_basic(struct hand *h, uint32_t cnt, struct hand_frame *out)
{
	uint8_t *title = cqe_new(h, h->pi), csum = h->clock & 3;

	for (uint32_t i = 0; i < cnt; i++)
		mini_put(h, cqe_new(h, h->pi + (i < 8 ? 1 : i & ~7u)), i & 7, csum, &out[i]);
	cqe_body(h, title, csum);
	spw_prm_cqe64_set_byte_cnt(title, cnt);
	cqe_own(h, title, SPW_PRM_CQE_RESP_SEND, SPW_PRM_CQE_FORMAT_COMPRESSED);
	h->pi += cnt;
}

/* Enhanced: up to 7 minis in the slot itself, whose last byte says how many. */
static void session_enhanced(struct hand *h, uint32_t cnt, struct hand_frame *out)
{
	uint8_t *block = cqe_new(h, h->pi);

	for (uint32_t i = 0; i < cnt; i++)
		mini_put(h, block, i, h->title_csum, &out[i]);
	cqe_own(h, block, cnt - 1, SPW_PRM_CQE_FORMAT_COMPRESSED);
	h->pi += cnt;
}

void hand_session(struct hand *h, uint32_t cnt, struct hand_frame *frame_out)
{
	if (h->conf.flags & MLX5_F_ENHANCED)
		session_enhanced(h, cnt, frame_out);
	else
		session_basic(h, cnt, frame_out);
}

void hand_strides(struct hand *h, uint32_t strides, uint32_t len, bool filler)
{
	uint8_t *cqe = cqe_new(h, h->pi);

	hand_take(h, strides);
	cqe_body(h, cqe, 0);
	spw_prm_cqe64_set_byte_cnt(cqe, cnt_word(h, len, strides, filler));
	cqe_own(h, cqe, SPW_PRM_CQE_RESP_SEND, 0);
	h->pi++;
}

void hand_error(struct hand *h, uint32_t syndrome)
{
	uint8_t *cqe = cqe_new(h, h->pi);

	memset(cqe, 0, 62);
	spw_prm_cqe_err_set_syndrome(cqe, syndrome);
	cqe_own(h, cqe, SPW_PRM_CQE_RESP_ERR, 0);
	h->pi++;
}

void hand_bad_frame(struct hand *h, uint32_t syndrome, uint32_t strides)
{
	uint8_t *cqe = cqe_new(h, h->pi);

	hand_take(h, SPW_MIN(strides, (1u << h->conf.strides_log2) - h->stride_pos));
	memset(cqe, 0, 62);
	spw_prm_cqe64_set_byte_cnt(cqe, strides << 16);
	spw_prm_cqe_err_set_syndrome(cqe, syndrome);
	cqe_own(h, cqe, SPW_PRM_CQE_RESP_ERR, 0);
	h->pi++;
}

void hand_flush(struct hand *h)
{
	for (uint32_t n = posted(h); n > 0; n--, h->rq_ci++)
		hand_error(h, SPW_PRM_SYN_WR_FLUSH_ERR);
}

void hand_sent(struct hand *h, uint16_t wqe_counter, uint32_t syndrome)
{
	uint32_t idx = h->tx_pi & (h->conf.sq_cnt - 1), tx_lap = h->tx_pi / h->conf.sq_cnt;
	uint8_t *cqe = h->tx_cq + (size_t)idx * 64;

	memset(cqe, 0x5a, 62);
	spw_prm_cqe64_set_wqe_counter(cqe, wqe_counter);
	if (syndrome)
		spw_prm_cqe_err_set_syndrome(cqe, syndrome);
	else
		spw_prm_cqe64_set_timestamp(cqe, ++h->clock);
	spw_dma_store(&cqe[63], (uint8_t)((syndrome ? SPW_PRM_CQE_REQ_ERR : SPW_PRM_CQE_REQ) << 4 |
					  (tx_lap & 1)));
	h->tx_pi++;
}
