/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A raw Ethernet queue against the adversary: it sends numbered frames to itself. Every byte is
 * checked, frames come in order, every slot and every frame is accounted for: sent = received +
 * flushed by a reset + missed, and the drop counts in CQEs say what was missed.
 */
#include "runs.h"

#include "port/mlx5/eth/queue.h"
#include "rig.h"
#include "unit_test.h"

#define SLOT_BYTES  256u
#define FRAME_MIN   60u
#define HEAD_BYTES  20u /* addresses, type, and the frame's number, which may be anywhere */
#define TYPE        0x88b5u
#define IN_FLIGHT   150u
#define SQ_CNT      64u
#define SEND_MAX    32u
#define LENT_MAX    40u
#define UIDX        7u
#define STRIDE_LOG2 8u

struct eth {
	struct rig r;
	struct spw_region region;
	struct spw_pool pool;
	struct mlx5_eth_queue q;
	struct spw_port_queue pq;
	struct hca_qp *qp;
	uint32_t wq;
	uint32_t lent[LENT_MAX + SPW_BURST_MAX], lent_cnt;
	uint32_t sent,
		next; /* numbers: of the next frame to send, and to receive at the earliest */
	uint64_t received, gaps;
};

/* ---- the objects ---- */

static int rq_reset(void *obj)
{
	struct eth *e = obj;

	rig_wq_state(&e->r, e->wq, HCA_WQS_RESET);
	return 0;
}

static int rq_ready(void *obj)
{
	struct eth *e = obj;

	rig_wq_state(&e->r, e->wq, HCA_WQS_RDY);
	return 0;
}

static int sq_none(void *obj)
{
	(void)obj;
	fail_msg("the send queue failed");
	return -1;
}

static uint64_t tsc_to_ns(void *obj, uint64_t ticks)
{
	(void)obj;
	return ticks;
}

static struct mlx5_eth_queue_conf conf_of(struct eth *e, unsigned flags)
{
	const bool striding = flags & MLX5_F_STRIDING;
	struct mlx5_eth_queue_conf c = {
		.pool = &e->pool,
		.ops = {rq_reset, rq_ready, sq_none, sq_none, NULL, tsc_to_ns, e},
		.flags = flags,
		.refill_min = 1};
	struct rig_cq rx = rig_cq(&e->r, 128,
				  flags & MLX5_F_COMPRESSED ? MLX5_IB_CQE_RES_FORMAT_HASH : 0),
		      tx = rig_cq(&e->r, SQ_CNT, 0);
	struct rig_qp qp = {.type = IB_UVERBS_QPT_RAW_PACKET,
			    .rx_cq = tx.handle,
			    .tx_cq = tx.handle,
			    .uidx = UIDX + 1,
			    .db = rig_memory(&e->r, 8)};

	c.cq = rx.mem;
	c.tx_cq = tx.mem;
	c.rq = (struct mlx5_rqmem){.buf = rig_memory(&e->r, 128 * 32),
				   .dbrec = rig_memory(&e->r, 8),
				   .cnt = striding ? 8 : 64,
				   .stride = striding ? 32 : 16,
				   .lkey = e->r.lkey,
				   .strides_log2 = striding ? 4 : 0};
	memset(c.rq.dbrec, 0, 8);
	e->wq = rig_wq(&e->r, rx.handle, UIDX, &c.rq, STRIDE_LOG2);
	qp.sq = (struct mlx5_sqmem){.buf = rig_memory(&e->r, SQ_CNT * 64),
				    .dbrec = &qp.db[1],
				    .cnt = SQ_CNT,
				    .lkey = e->r.lkey,
				    .bf = e->r.k.uar->page + SPW_PRM_UAR_BF_OFFSET,
				    .bf_bytes = 256};
	e->qp = rig_qp(&e->r, &qp);
	rig_qp_up(&e->r, e->qp, NULL);
	qp.sq.qpn = e->qp->qpn;
	c.sq = qp.sq;
	return c;
}

static void open_eth(struct eth *e, uint64_t seed, const char *options, unsigned flags)
{
	const uint32_t slots = flags & MLX5_F_STRIDING ? 16 * 12 + 5 : 200;
	struct mlx5_eth_queue_conf c;

	memset(e, 0, sizeof(*e));
	rig_open(&e->r, seed, options);
	e->region = (struct spw_region){.host_va = rig_memory(&e->r, (size_t)slots * SLOT_BYTES),
					.bytes = (size_t)slots * SLOT_BYTES,
					.page_bytes = 4096,
					.kind = SPW_MEM_HOST};
	assert_int_equal(spw_pool_init(&e->pool, &e->region, 0, SLOT_BYTES, slots), 0);
	c = conf_of(e, flags);
	assert_int_equal(mlx5_eth_queue_init(&e->q, &c), 0);
	mlx5_eth_queue_calls(&e->q, &e->pq);
	mlx5_eth_queue_arm(&e->q);
}

/* ---- frames ---- */

static uint8_t byte_of(uint32_t number, uint32_t at)
{
	return (uint8_t)(number * 31 + at * 7 + (number >> 8));
}

static uint32_t fill(struct eth *e, uint32_t slot)
{
	uint8_t *p = spw_pool_slot_addr(&e->pool, slot);
	const uint32_t len =
		FRAME_MIN + (uint32_t)(rig_random(&e->r) % (SLOT_BYTES - FRAME_MIN + 1));

	memcpy(p, e->r.k.dev->id.mac, 6);
	memcpy(p + 6, e->r.k.dev->id.mac, 6);
	spw_prm_st16(p + 12, TYPE);
	spw_prm_st32(p + 16, e->sent);
	spw_prm_st16(p + 14, (uint16_t)len);
	for (uint32_t i = HEAD_BYTES; i < len; i++)
		p[i] = byte_of(e->sent, i);
	e->sent++;
	return len;
}

/* Frames of which nothing is known yet. */
static uint64_t in_flight(const struct eth *e)
{
	return e->sent - e->received - e->q.stat.dropped[SPW_PORT_DROP_rx_flushed] -
	       e->r.k.dev->cnt.out_of_buffer;
}

static void send_some(struct eth *e, bool step)
{
	struct spw_desc desc[SEND_MAX], *ptr[SEND_MAX];
	uint32_t slot[SEND_MAX];
	uint16_t n = (uint16_t)(rig_random(&e->r) % (SEND_MAX + 1)), took;

	if (in_flight(e) > IN_FLIGHT)
		return;
	n = spw_port_lend_burst(&e->pq, slot, n);
	for (uint16_t i = 0; i < n; i++) {
		desc[i] = (struct spw_desc){.slot = slot[i], .len = fill(e, slot[i])};
		ptr[i] = &desc[i];
	}
	if (step)
		rig_step_on(&e->r);
	took = spw_port_tx_burst(&e->pq, ptr, n);
	rig_step_off();
	e->sent -= n - took;
	spw_port_release_burst(&e->pq, &slot[took], (uint16_t)(n - took));
}

static void check(struct eth *e, const struct spw_desc *d)
{
	const uint8_t *p = (const uint8_t *)spw_pool_slot_addr(&e->pool, d->slot) + d->offset;
	const uint32_t number = spw_prm_ld32(p + 16);

	assert_memory_equal(p, e->r.k.dev->id.mac, 6);
	assert_int_equal(spw_prm_ld16(p + 14), d->len);
	assert_true(number - e->next < e->sent - e->next);
	e->gaps += number - e->next;
	e->next = number + 1;
	for (uint32_t i = HEAD_BYTES; i < d->len; i++)
		assert_int_equal(p[i], byte_of(number, i));
}

static void receive_some(struct eth *e, bool step)
{
	struct spw_desc desc[SPW_BURST_MAX];
	const uint16_t cnt = (uint16_t)(1 + rig_random(&e->r) % SPW_BURST_MAX);
	uint16_t n;

	if (step)
		rig_step_on(&e->r);
	for (uint32_t polls = 0; !(n = spw_port_rx_burst(&e->pq, desc, cnt)) && step && polls < 8;)
		polls++;
	rig_step_off();
	for (uint16_t i = 0; i < n; i++) {
		check(e, &desc[i]);
		e->lent[e->lent_cnt++] = desc[i].slot;
	}
	e->received += n;
	while (e->lent_cnt && (e->lent_cnt > LENT_MAX || rig_random(&e->r) % 4)) {
		const uint32_t k = (uint32_t)(rig_random(&e->r) % e->lent_cnt);

		spw_port_release_burst(&e->pq, &e->lent[k], 1);
		e->lent[k] = e->lent[--e->lent_cnt];
	}
}

static void events(struct eth *e)
{
	struct spw_port_event ev[4];

	spw_port_events(&e->pq, ev, 4);
}

/* The receive queue is reset while frames, CQEs and sessions are under way. */
static void recover(struct eth *e)
{
	mlx5_eth_rx_failed(&e->q, "a test");
	while (e->q.rx_err.state != MLX5_ERR_NONE)
		events(e);
}

static void check_slots(const struct eth *e)
{
	struct spw_port_slots s;

	mlx5_eth_queue_slots(&e->q, &s);
	assert_int_equal(s.lent, e->lent_cnt);
	assert_int_equal(e->pool.free_cnt + s.in_rx + s.lent + s.in_tx, e->pool.slot_cnt);
}

/* Until nothing is under way. */
static void settle(struct eth *e)
{
	for (uint32_t quiet = 0; quiet < 4; quiet++) {
		const uint64_t before = e->received;

		rig_rounds(&e->r, 600);
		receive_some(e, false);
		events(e);
		if (e->received != before)
			quiet = 0;
	}
}

static void check_ends(struct eth *e, bool resets)
{
	const struct port_queue_stat *s = &e->q.stat;
	const struct hca_wq *wq = hca_obj_find(e->r.k.ctx, HCA_WQ, e->wq);
	const uint64_t missed = e->r.k.dev->cnt.out_of_buffer;

	assert_int_equal(s->tx_frames, e->sent);
	assert_int_equal(s->tx_flushed, 0);
	assert_int_equal(s->rx_frames, e->received);
	assert_int_equal(in_flight(e), 0);
	assert_int_equal(s->err[SPW_PORT_ERR_cqe_error], 0);
	if (!resets) /* the last drops may not have been reported yet; a CQE has 8 bits for them */
		assert_int_equal((missed - e->q.rx_nic_drops - wq->nic->rq.dropped) % 256, 0);
	assert_int_equal(e->r.nd->strict.qpn + e->r.nd->strict.index, 0);
}

void run_eth(uint64_t seed, const char *options, unsigned flags, const struct run_conf *conf)
{
	static struct eth e;

	open_eth(&e, seed, options, flags);
	for (uint32_t i = 0; i < conf->turns; i++) {
		const bool step = conf->steps && i % conf->steps == 0;

		send_some(&e, step);
		if (!step) /* else the frames arrive while the port polls */
			rig_rounds(&e.r, (uint32_t)(rig_random(&e.r) % 32));
		receive_some(&e, step);
		if (rig_random(&e.r) % 16 == 0)
			events(&e);
		if (conf->resets && rig_random(&e.r) % 64 == 0)
			recover(&e);
		check_slots(&e);
	}
	settle(&e);
	check_ends(&e, conf->resets);
	assert_true(e.received > conf->turns); /* it was no idle run */
	mlx5_eth_queue_disarm(&e.q);
	spw_port_release_burst(&e.pq, e.lent, (uint16_t)e.lent_cnt);
	mlx5_eth_queue_fini(&e.q);
	assert_int_equal(spw_pool_fini(&e.pool), 0);
	rig_close(&e.r);
}
