/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include <errno.h>

#include "model.h"

#include "port/mlx5/eth/raw.h"

bool model_keeps_raw;

/* Each burst has a reader of its own: what it kept stands alone. */
static void raw_check(const struct model *m, const struct spw_desc *desc, uint16_t cnt)
{
	const struct spw_port_raw *raw = m->h.pq.raw;
	struct spw_port_raw_reader *reader;
	struct spw_desc again[SPW_BURST_MAX];

	assert_true(raw->bytes || !cnt);
	assert_true(raw->bytes <= SPW_PORT_RAW_MAX && raw->bytes % 8 == 0);
	if (!raw->bytes)
		return;
	assert_int_equal(spw_port_raw_open(&raw->shape, &reader), 0);
	assert_int_equal(spw_port_raw_run(reader, raw->to, raw->bytes, again), cnt);
	for (uint16_t i = 0; i < cnt; i++) {
		assert_int_equal(again[i].len, desc[i].len);
		assert_int_equal(again[i].meta, desc[i].meta);
		assert_int_equal(again[i].flags, desc[i].flags);
		assert_int_equal(again[i].nic_stamp, desc[i].nic_stamp);
	}
	spw_port_raw_close(reader);
}

void model_open(struct model *m, const struct hand_conf *conf)
{
	memset(m, 0, sizeof(*m));
	m->seed = 42;
	assert_int_equal(hand_open(&m->h, conf), 0);
	if (model_keeps_raw)
		assert_int_equal(mlx5_eth_queue_raw_keep(m->h.q, &m->h.pq),
				 conf->flags & MLX5_F_SPLIT ? -ENOTSUP : 0);
	assert_true(hand_balanced(&m->h, 0));
}

static void check_desc(const struct model *m, const struct spw_desc *d, const struct hand_frame *f)
{
	assert_ptr_equal(spw_pool_slot_addr(&m->h.pool, d->slot) + d->offset, f->addr);
	assert_int_equal(d->len, f->len);
	assert_int_equal(d->meta, f->hash);
	assert_int_equal(d->nic_stamp, f->stamp);
	assert_int_equal(d->flags, f->flags);
	assert_int_equal(d->region, 6);
	assert_int_equal(d->port, 5);
	assert_int_equal(d->peer | d->reserved, 0);
}

/* One burst of at most cnt; returns what it gave. */
uint32_t model_burst(struct model *m, uint16_t cnt)
{
	struct spw_desc desc[SPW_BURST_MAX];
	uint16_t n = spw_port_rx_burst(&m->h.pq, desc, cnt);

	assert_true(n <= cnt);
	if (m->h.pq.raw)
		raw_check(m, desc, n);
	for (uint16_t i = 0; i < n; i++) {
		assert_true(m->head != m->tail);
		check_desc(m, &desc[i], &m->frame[m->head++ % QUEUE_MAX]);
		m->lent[m->lent_cnt++] = desc[i].slot;
	}
	m->frames += n;
	assert_true(hand_balanced(&m->h, m->lent_cnt));
	assert_int_equal(spw_be32_to_cpu(m->h.db[0]), m->h.q->cq_ci & 0xffffff);
	return n;
}

/* Gives cnt random ones back. */
void model_release(struct model *m, uint32_t cnt)
{
	uint32_t slot[SPW_BURST_MAX],
		n = SPW_MIN(SPW_MIN(cnt, m->lent_cnt), (uint32_t)SPW_BURST_MAX);

	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = unit_random(&m->seed) % m->lent_cnt;

		slot[i] = m->lent[k];
		m->lent[k] = m->lent[--m->lent_cnt];
	}
	spw_port_release_burst(&m->h.pq, slot, (uint16_t)n);
	assert_true(hand_balanced(&m->h, m->lent_cnt));
}

void model_drain(struct model *m)
{
	while (model_burst(m, SPW_BURST_MAX))
		;
	assert_int_equal(m->head, m->tail);
	while (m->lent_cnt)
		model_release(m, SPW_BURST_MAX);
}

void model_close(struct model *m)
{
	model_drain(m);
	assert_int_equal(m->h.q->rx_err.state, MLX5_ERR_NONE);
	assert_int_equal(m->h.q->stat.rx_frames, m->frames);
	assert_int_equal(hand_close(&m->h), 0);
}

void model_plain(struct model *m, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt && hand_room(&m->h); i++) {
		uint32_t len = 1 + unit_random(&m->seed) % m->h.conf.slot_bytes;

		hand_plain(&m->h, len, &m->frame[m->tail++ % QUEUE_MAX]);
	}
}

void model_session(struct model *m, uint32_t cnt)
{
	struct hand_frame f[QUEUE_MAX];
	uint32_t max = m->h.conf.flags & MLX5_F_ENHANCED ? MLX5_MINI_ENHANCED_CNT : 64;

	cnt = SPW_MIN(SPW_MIN(cnt, max), hand_room(&m->h));
	if (cnt < (m->h.conf.flags & MLX5_F_ENHANCED
			   ? 1
			   : 2)) /* a basic one of 1 has no slot for its mini */
		return;
	hand_session(&m->h, cnt, f);
	for (uint32_t i = 0; i < cnt; i++)
		m->frame[m->tail++ % QUEUE_MAX] = f[i];
}

/* Random arrivals, bursts and releases until `frames` frames have passed. */
void model_run(struct model *m, uint64_t frames)
{
	bool compressed = m->h.conf.flags & MLX5_F_COMPRESSED;
	uint32_t first = 1; /* an enhanced block needs a plain CQE before it */

	while (m->frames < frames) {
		uint64_t r = unit_random(&m->seed);

		if (compressed && !first && r & 1)
			model_session(m, 1 + (r >> 8) % 64);
		else
			model_plain(m, 1 + (r >> 8) % (compressed ? 5 : 70));
		first = 0;
		if (r >> 20 & 1)
			model_burst(m, (uint16_t)(1 + (r >> 24) % SPW_BURST_MAX));
		model_release(m, (r >> 32) % SPW_BURST_MAX);
	}
}

const struct hand_conf model_small = {
	.cq_cnt = 128,
	.rq_cnt = 128,
	.slot_bytes = 256,
	.slot_cnt = 200,
	.refill_min = 1,
};

struct hand_conf model_conf(unsigned flags, uint32_t start, uint16_t rq_start)
{
	struct hand_conf c = model_small;

	c.flags = flags;
	c.start = start;
	c.rq_start = rq_start;
	if (flags & MLX5_F_STRIDING) {
		c.strides_log2 = 4;
		c.rq_cnt = 8;
		c.slot_cnt = 16 * 12 + 5;
	}
	return c;
}
