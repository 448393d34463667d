/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * CQE compression: receive completions of one burst that differ only in length and hash (or stride) are
 * written as a title CQE and arrays of eight mini CQEs. Layout: the title lies in the first slot, with
 * format 3 and the count in byte_cnt; minis 0..7 in the next slot, 8..15 in slot 8, 16..23 in slot 16 and so
 * on; the block takes as many slots as it has completions, and the holes keep what they had.
 * Source: Linux drivers/net/ethernet/mellanox/mlx5/core/en_rx.c (its reader), DPDK mlx5_rx.c. */
#include "softhca/nic_impl.h"

#define COMP_MAX 64u

/* Words of the CQE that a mini CQE does not tell: they must be those of the title. */
static bool same_but_mini(const struct nic_cq *c, const uint64_t *a, const uint64_t *b)
{
	struct nic_cqe x, y;

	memcpy(x.w, a, sizeof(x.w));
	memcpy(y.w, b, sizeof(y.w));
	for (unsigned i = 0; i < 2; i++) {
		struct nic_cqe *e = i ? &y : &x;

		spw_prm_cqe64_set_byte_cnt(e, 0);
		spw_prm_cqe64_set_timestamp(e, 0);
		if (c->cq->comp_format == MLX5_IB_CQE_RES_FORMAT_HASH)
			spw_prm_cqe64_set_rx_hash_result(e, 0);
		else
			spw_prm_cqe64_set_rx_hash_result(e, 0), spw_prm_cqe64_set_rx_hash_type(e, 0);
		spw_prm_cqe64_set_wqe_counter(e, 0);
	}
	return memcmp(x.w, y.w, sizeof(x.w)) == 0;
}

static uint64_t mini_of(const struct nic_cq *c, const struct nic_cqe *e)
{
	uint64_t m = 0;

	if (c->cq->comp_format == MLX5_IB_CQE_RES_FORMAT_HASH)
		spw_prm_mini_hash_set_rx_hash_result(&m, spw_prm_cqe64_get_rx_hash_result(e));
	else if (c->cq->comp_format == MLX5_IB_CQE_RES_FORMAT_CSUM_STRIDX)
		spw_prm_mini_csum_stridx_set_stride_idx(&m, spw_prm_cqe64_get_wqe_counter(e));
	spw_prm_mini_hash_set_byte_cnt(&m, spw_prm_cqe64_get_byte_cnt(e));
	return m;
}

/* Readers count WQE indices on from the title's; with stride indices each mini has its own. */
static bool follows(const struct nic_cq *c, const struct nic_cqe *e)
{
	const uint16_t first = (uint16_t)spw_prm_cqe64_get_wqe_counter(c->comp->title);

	if (c->cq->comp_format == MLX5_IB_CQE_RES_FORMAT_CSUM_STRIDX)
		return true;
	return (uint16_t)spw_prm_cqe64_get_wqe_counter(e) == (uint16_t)(first + c->comp->cnt);
}

bool cq_comp_add(struct nic_cq *c, const struct nic_cqe *e)
{
	struct nic_comp *s = c->comp;
	/* A block does not go round the end of the ring: the vector receive of net_mlx5 takes it to be contiguous. */
	const uint32_t to_end = c->cq->ncqe - (c->pi & (c->cq->ncqe - 1));
	const uint32_t room = SPW_MIN(SPW_MIN(COMP_MAX, c->cq->ncqe / 2), to_end);

	if (s->cnt && (s->cnt == room || !same_but_mini(c, s->title, e->w) || !follows(c, e)))
		cq_comp_flush(c);
	if (c->err)
		return true;
	if (!s->cnt)
		memcpy(s->title, e->w, sizeof(s->title));
	s->mini[s->cnt++] = mini_of(c, e);
	if (!c->comp_dirty) {
		c->comp_dirty = true;
		c->comp_next = c->nd->comp_list;
		c->nd->comp_list = c;
	}
	return true;
}

static uint64_t *slot_at(const struct nic_cq *c, uint32_t pi)
{
	const struct hca_cq *cq = c->cq;

	return (uint64_t *)(cq->buf + (uint64_t)(pi & (cq->ncqe - 1)) * cq->cqe_bytes + (cq->cqe_bytes == 128 ? 64 : 0));
}

static void write_last(struct nic_cq *c, uint64_t *slot, const uint64_t *w, uint8_t format)
{
	const uint8_t owner = c->pi & c->cq->ncqe ? 1 : 0;
	const uint64_t last = (SPW_SWAP64(w[7]) & ~0x0dull) | (uint64_t)format << 2 | owner;

	for (unsigned i = 0; i < 7; i++)
		spw_dma_store(&slot[i], w[i]);
	spw_thr_store_rel(&slot[7], SPW_SWAP64(last)); /* [N5 release] */
}

/* The minis first, the title last: it is what the reader looks at. */
void cq_comp_flush(struct nic_cq *c)
{
	struct nic_comp *s = c->comp;
	const uint32_t cnt = s ? s->cnt : 0;
	struct nic_cqe title;
	bool se;

	if (!cnt)
		return;
	s->cnt = 0;
	memcpy(title.w, s->title, sizeof(title.w));
	se = spw_prm_cqe64_get_se(&title);
	if (cnt > 1) {
		spw_prm_cqe64_set_byte_cnt(&title, cnt);
		for (uint32_t i = 0; i < cnt; i++)
			spw_dma_store(&slot_at(c, c->pi + (i < 8 ? 1 : i & ~7u))[i & 7], s->mini[i]);
	}
	write_last(c, slot_at(c, c->pi), title.w, cnt > 1 ? SPW_PRM_CQE_FORMAT_COMPRESSED : 0);
	c->pi += cnt;
	cq_event_check(c, se);
}

void cq_comp_flush_all(struct nic_dev *nd)
{
	while (nd->comp_list) {
		struct nic_cq *c = nd->comp_list;

		nd->comp_list = c->comp_next;
		c->comp_dirty = false;
		cq_comp_flush(c);
	}
}
