/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * CQE compression. Receive completions that differ only in length and hash (or checksum, or stride
 * index) form a session: one title CQE carries what they share, an 8-byte mini-CQE each the rest.
 *
 * cq_put() hands completions over (cq_comp_put); a session ends when one does not fit its title,
 * when it is full, at the end of the ring, and at the end of each round (cq_comp_flush_all). A
 * session of one completion is a plain CQE.
 *
 * Basic layout, a session of 11: the block takes 11 slots, and its other slots keep their old
 * bytes.
 *
 *   slot   +0               +1           +2 .. +7    +8            +9  +10   | +11
 *          title: format 3  minis 0..7   (not        minis 8..10   (not      | next CQE
 *          byte_cnt = 11                 written)                  written)  |
 *
 * Enhanced layout, the title is the plain CQE before; a session of at most 7 in one slot.
 *
 *   slot   -1               +0                                     +1 ..     | +cnt
 *          plain CQE        minis 0..6, opcode field = cnt - 1,    (not      | next CQE
 *                           format 3                               written)  |
 *   Byte 62 of every CQE is the lap, mod 256, and decides whose it is.
 *
 * What to know before changing it: the reader acts on the title, so the minis are written first and
 * the title's last word releases them (N5). A block never wraps: the vector receive of DPDK's
 * net_mlx5 reads it as one array.
 *
 * Sources: Linux drivers/net/ethernet/mellanox/mlx5/core/en_rx.c (reader), DPDK
 * drivers/net/mlx5/mlx5_rxtx_vec_*.h (reader), prm/spw_prm.h (formats).
 */
#include "softhca/inject/inject.h"
#include "softhca/nic/cq/cq.h"
#include "softhca/nic/dev.h"

#define SESSION_MAX 64u
#define LAP_BYTE    62u  /* enhanced layout: the lap in every CQE */
#define LAP_NONE    0xff /* before the first lap, which is 0 */
#define LAST_OP_OWN 0xffull
#define LAST_LAP    0xff00ull

/* Do two CQEs differ only in fields that a mini-CQE carries? */
static bool comp_same_but_mini(const struct nic_cq *c, const uint64_t *a, const uint64_t *b)
{
	struct nic_cqe x, y;

	memcpy(x.w, a, sizeof(x.w));
	memcpy(y.w, b, sizeof(y.w));
	for (unsigned i = 0; i < 2; i++) {
		struct nic_cqe *e = i ? &y : &x;

		spw_prm_cqe64_set_byte_cnt(e, 0);
		spw_prm_cqe64_set_timestamp(e, 0);
		spw_prm_cqe64_set_rx_hash_result(e, 0);
		spw_prm_cqe64_set_check_sum(e, 0);
		if (c->cq->comp_format != MLX5_IB_CQE_RES_FORMAT_HASH)
			spw_prm_cqe64_set_rx_hash_type(e, 0);
		spw_prm_cqe64_set_wqe_counter(e, 0);
	}
	return memcmp(x.w, y.w, sizeof(x.w)) == 0;
}

/* The length is at the same place in all formats. */
static uint64_t comp_mini(const struct nic_cq *c, const struct nic_cqe *e)
{
	uint64_t m = 0;

	if (c->cq->comp_format == MLX5_IB_CQE_RES_FORMAT_HASH)
		spw_prm_mini_hash_set_rx_hash_result(&m, spw_prm_cqe64_get_rx_hash_result(e));
	else
		spw_prm_mini_csum_set_checksum(&m, spw_prm_cqe64_get_check_sum(e));
	if (c->cq->comp_format == MLX5_IB_CQE_RES_FORMAT_CSUM_STRIDX)
		spw_prm_mini_csum_stridx_set_stride_idx(&m, spw_prm_cqe64_get_wqe_counter(e));
	spw_prm_mini_hash_set_byte_cnt(&m, spw_prm_cqe64_get_byte_cnt(e));
	return m;
}

/* Readers count WQE or stride indices on from the title, except in the stride-index format, where
 * each mini-CQE carries its own. */
static bool comp_fits_title(const struct nic_cq *c, const struct nic_cqe *e)
{
	return comp_same_but_mini(c, c->comp->title, e->w) &&
	       (c->cq->comp_format == MLX5_IB_CQE_RES_FORMAT_CSUM_STRIDX ||
		spw_prm_cqe64_get_wqe_counter(e) == c->comp->next);
}

/* How many completions a session that starts at pi may have: a block never wraps. */
static uint32_t comp_session_max(struct nic_cq *c)
{
	const uint32_t max = c->cq->comp_enhanced ? SPW_PRM_MINI_ENHANCED_MAX : SESSION_MAX;
	const uint32_t to_end = c->cq->ncqe - (c->pi & (c->cq->ncqe - 1));
	const uint32_t fits = SPW_MIN(max, SPW_MAX(c->cq->ncqe / 2, 1u));

	if (spw_unlikely(c->adv != NULL))
		return adv_session_max(c, fits, to_end);
	return SPW_MIN(fits, to_end);
}

/* opcode, format and solicited bit as in op_own */
#define OP_BITS(opcode, format, se) ((uint8_t)((opcode) << 4 | (format) << 2 | ((se) ? 2 : 0)))

/* Writes the slot at pi with its mark of ownership: the owner bit, in the enhanced layout the lap
 * as well. It stands for `span` completions. event_se: as for cq_event_check. */
static void comp_write_slot(struct nic_cq *c, const uint64_t *w, uint8_t op_bits, uint32_t span,
			    bool event_se)
{
	const uint32_t lap = c->pi / c->cq->ncqe;
	uint64_t last = (SPW_SWAP64(w[7]) & ~LAST_OP_OWN) | op_bits | (lap & 1);

	if (c->cq->comp_enhanced)
		last = (last & ~LAST_LAP) | (lap & 0xff) << 8;
	cq_publish(c, w, last, span, event_se);
}

static void comp_put_plain(struct nic_cq *c, const uint64_t *w)
{
	struct nic_cqe e;
	bool se;
	uint8_t opcode;

	memcpy(e.w, w, sizeof(e.w));
	se = spw_prm_cqe64_get_se(&e);
	opcode = spw_prm_cqe64_get_opcode(&e);
	comp_write_slot(c, w, OP_BITS(opcode, 0, se), 1, se || opcode >= SPW_PRM_CQE_SIG_ERR);
}

/* The minis first, the title last: the reader polls the title. */
static void comp_flush_basic(struct nic_cq *c, uint32_t cnt)
{
	struct nic_comp *s = c->comp;
	struct nic_cqe title;
	bool se;

	if (cnt == 1) {
		comp_put_plain(c, s->title);
		return;
	}
	memcpy(title.w, s->title, sizeof(title.w));
	se = spw_prm_cqe64_get_se(&title);
	if (spw_unlikely(c->adv != NULL))
		adv_holes(c, title.w, cnt);
	spw_prm_cqe64_set_byte_cnt(&title, cnt);
	for (uint32_t i = 0; i < cnt; i++)
		spw_dma_store(&cq_slot(c, c->pi + (i < 8 ? 1 : i & ~7u))[i & 7], s->mini[i]);
	comp_write_slot(
		c, title.w,
		OP_BITS(spw_prm_cqe64_get_opcode(&title), SPW_PRM_CQE_FORMAT_COMPRESSED, se), cnt,
		se);
}

static void comp_flush_enhanced(struct nic_cq *c, uint32_t cnt)
{
	struct nic_comp *s = c->comp;
	struct nic_cqe title;
	uint64_t w[8] = {0};

	if (cnt == 1 && !(spw_unlikely(c->adv != NULL) && adv_holds_one(c))) {
		/* a plain CQE, and the title of the next session */
		memcpy(s->title, s->first, sizeof(s->title));
		comp_put_plain(c, s->title);
		return;
	}
	memcpy(title.w, s->title, sizeof(title.w));
	memcpy(w, s->mini, cnt * sizeof(w[0]));
	if (spw_unlikely(c->adv != NULL))
		adv_holes(c, title.w, cnt);
	comp_write_slot(c, w, OP_BITS(cnt - 1, SPW_PRM_CQE_FORMAT_COMPRESSED, false), cnt,
			spw_prm_cqe64_get_se(&title));
}

void cq_comp_flush(struct nic_cq *c)
{
	const uint32_t cnt = c->comp ? c->comp->cnt : 0;

	if (!cnt)
		return;
	c->comp->cnt = 0;
	if (c->cq->comp_enhanced)
		comp_flush_enhanced(c, cnt);
	else
		comp_flush_basic(c, cnt);
}

/* The CQ is listed, so that the end of the round finds its open session. */
static void comp_add(struct nic_cq *c, const struct nic_cqe *e, uint32_t step)
{
	struct nic_comp *s = c->comp;

	if (!s->cnt) {
		memcpy(c->cq->comp_enhanced ? s->first : s->title, e->w, sizeof(s->title));
		s->max = comp_session_max(c);
	}
	s->mini[s->cnt++] = comp_mini(c, e);
	s->next = (uint16_t)(spw_prm_cqe64_get_wqe_counter(e) + step);
	if (!c->comp_dirty) {
		c->comp_dirty = true;
		c->comp_next = c->nd->comp_list;
		c->nd->comp_list = c;
	}
}

/* A plain CQE; in the enhanced layout also the title of the next session, unless step is 0. */
static void comp_put_title(struct nic_cq *c, const struct nic_cqe *e, uint32_t step)
{
	struct nic_comp *s = c->comp;

	memcpy(s->title, e->w, sizeof(s->title));
	s->titled = step != 0;
	s->next = (uint16_t)(spw_prm_cqe64_get_wqe_counter(e) + step);
	comp_put_plain(c, e->w);
}

void cq_comp_put(struct nic_cq *c, struct nic_cqe *e, uint32_t step)
{
	struct nic_comp *s = c->comp;
	const bool enhanced = c->cq->comp_enhanced;
	const bool goes_on = step && (enhanced ? s->titled : s->cnt != 0) && comp_fits_title(c, e);

	if (s->cnt && (!goes_on || s->cnt >= s->max))
		cq_comp_flush(c);
	if (enhanced ? goes_on : step != 0)
		comp_add(c, e, step);
	else
		comp_put_title(c, e, step);
}

/* Marks every slot as not written yet: the first lap is 0, so 0 would mean "written". */
void cq_comp_init(struct nic_cq *c)
{
	const struct hca_cq *cq = c->cq;

	if (!cq->comp_enhanced)
		return;
	for (uint32_t i = 0; i < cq->ncqe; i++)
		spw_dma_store((uint8_t *)cq_slot(c, i) + LAP_BYTE, (uint8_t)LAP_NONE);
}

void cq_comp_flush_all(struct nic_dev *nd)
{
	for (struct nic_cq **p = &nd->comp_list; *p;) {
		struct nic_cq *c = *p;

		if (spw_unlikely(c->adv != NULL) && adv_stays_open(c)) {
			p = &c->comp_next;
			continue;
		}
		*p = c->comp_next;
		c->comp_dirty = false;
		cq_comp_flush(c);
	}
}
