/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Reliable connections against the adversary: two nodes, each a queue with two peers, send each
 * other numbered messages. One side starts them, the other echoes some. Each pair of peers gets its
 * messages in order, whole and exactly once, and every slot is accounted for.
 */
#include "runs.h"

#include "port/mlx5/rc/queue.h"
#include "rig.h"
#include "unit_test.h"

#define PEERS      2u
#define CREDITS    20u
#define CQ_CNT     128u
#define RQ_CNT     64u
#define SQ_CNT     64u
#define SLOT_BYTES 256u
#define SPARE      40u /* slots of no peer, for the messages of one's own */
#define SLOTS_MAX  (PEERS * (CREDITS + SPW_PEER_CTRL_RESERVE) + SPARE)
#define PER_TURN   8u

struct node {
	struct spw_region region;
	struct spw_pool pool;
	struct mlx5_rc_queue q;
	struct spw_port_queue pq;
	struct hca_qp *qp[PEERS];
	struct mlx5_rc_peermem mem[PEERS];
	uint32_t sent[PEERS], got[PEERS];
	uint32_t lent; /* slots that the test has */
};

struct rc {
	struct rig r;
	unsigned flags;
	struct node n[2];
};

/* ---- set-up ---- */

static uint32_t slots_of_peer(unsigned flags)
{
	return CREDITS + (flags & PORT_RC_WRITE ? 0 : SPW_PEER_CTRL_RESERVE);
}

static void open_pool(struct rc *c, struct node *n)
{
	const uint32_t own = PEERS * slots_of_peer(c->flags), cnt = own + SPARE;
	uint32_t slot[SLOTS_MAX], back = 0;

	n->region = (struct spw_region){.host_va = rig_memory(&c->r, (size_t)cnt * SLOT_BYTES),
					.bytes = (size_t)cnt * SLOT_BYTES,
					.page_bytes = 4096,
					.kind = SPW_MEM_HOST};
	assert_int_equal(spw_pool_init(&n->pool, &n->region, 0, SLOT_BYTES, cnt), 0);
	spw_pool_get(&n->pool, slot, cnt);
	for (uint32_t i = 0; i < cnt; i++)
		if (slot[i] >= own)
			slot[back++] = slot[i];
	spw_pool_put(&n->pool, slot, back);
}

static void open_peer(struct rc *c, struct node *n, uint32_t i, struct rig_qp *qp)
{
	const bool srq = c->flags & PORT_RC_SRQ;
	uint8_t *rings = rig_memory(&c->r, RQ_CNT * 16 + SQ_CNT * 64);
	spw_be32 *db = rig_memory(&c->r, 8);
	struct mlx5_rc_peermem *m = &n->mem[i];

	*m = (struct mlx5_rc_peermem){
		.rq = {rings, db, srq ? 0 : RQ_CNT, 16, c->r.lkey, 0},
		.sq = {.buf = rings + (srq ? 0 : RQ_CNT * 16),
		       .dbrec = &db[1],
		       .cnt = SQ_CNT,
		       .lkey = c->r.lkey,
		       .bf = c->r.k.uar->page + SPW_PRM_UAR_BF_OFFSET + (n - c->n) * 0x200,
		       .bf_bytes = 256},
		.rc = {.ring_out = rig_memory(&c->r, SPW_PEER_CREDIT_MAX * 4),
		       .ring_in = rig_memory(&c->r, SPW_PEER_CREDIT_MAX * 4),
		       .index = i,
		       .slot_first = i * slots_of_peer(c->flags),
		       .slot_cnt = slots_of_peer(c->flags),
		       .sq_limit = SQ_CNT,
		       .credits = CREDITS}};
	qp->rq = m->rq;
	qp->sq = m->sq;
	qp->db = db;
	qp->uidx = 1 + (uint32_t)(n - c->n) * PEERS + i;
	n->qp[i] = rig_qp(&c->r, qp);
	m->sq.qpn = n->qp[i]->qpn;
	assert_int_equal(mlx5_rc_attach(&n->q, i, m), 0);
}

static void open_node(struct rc *c, struct node *n)
{
	struct rig_cq rx = rig_cq(&c->r, CQ_CNT,
				  c->flags & MLX5_RC_COMPRESSED ? MLX5_IB_CQE_RES_FORMAT_HASH : 0),
		      tx = rig_cq(&c->r, SQ_CNT * PEERS, 0);
	struct mlx5_rc_queue_conf conf = {
		.cq = rx.mem,
		.tx_cq = tx.mem,
		.rc = {.pool = &n->pool, .flags = c->flags, .peer_cnt = PEERS, .index_cnt = PEERS}};
	struct rig_qp qp = {.type = IB_UVERBS_QPT_RC, .rx_cq = rx.handle, .tx_cq = tx.handle};

	open_pool(c, n);
	if (c->flags & PORT_RC_SRQ) {
		conf.srq = (struct mlx5_rqmem){rig_memory(&c->r, CQ_CNT * 32),
					       rig_memory(&c->r, 8),
					       CQ_CNT,
					       32,
					       c->r.lkey,
					       0,
					       0};
		memset(conf.srq.dbrec, 0, 8);
		qp.srq = rig_srq(&c->r, &conf.srq);
		qp.has_srq = true;
	}
	assert_int_equal(mlx5_rc_queue_init(&n->q, &conf), 0);
	for (uint32_t i = 0; i < PEERS; i++)
		open_peer(c, n, i, &qp);
	mlx5_rc_queue_calls(&n->q, &n->pq);
}

static void connect_peer(struct rc *c, struct node *a, struct node *b, uint32_t i)
{
	const struct spw_peer_remote remote = {
		.credit_cnt = CREDITS,
		.slot_bytes = SLOT_BYTES,
		.slot_addr = (uintptr_t)spw_pool_slot_addr(&b->pool, b->mem[i].rc.slot_first),
		.slot_stride = SLOT_BYTES,
		.slot_rkey = c->r.lkey,
		.ring_rkey = c->r.lkey,
		.ring_addr = (uintptr_t)b->mem[i].rc.ring_in,
		.ring_cnt = SPW_PEER_CREDIT_MAX};

	rig_qp_up(&c->r, a->qp[i], b->qp[i]);
	port_rc_post(&a->q.rc, &mlx5_rc_peer_at(&a->q, i)->rc, c->r.lkey, c->r.lkey);
	assert_int_equal(port_rc_up(&a->q.rc, &mlx5_rc_peer_at(&a->q, i)->rc, &remote), 0);
}

static void open_rc(struct rc *c, uint64_t seed, const char *options, unsigned flags)
{
	memset(c, 0, sizeof(*c));
	c->flags = flags;
	rig_open(&c->r, seed, options);
	for (uint32_t i = 0; i < 2; i++)
		open_node(c, &c->n[i]);
	for (uint32_t i = 0; i < 2; i++) {
		if (flags & PORT_RC_SRQ)
			mlx5_rc_settle(&c->n[i].q.rc);
		for (uint32_t p = 0; p < PEERS; p++)
			connect_peer(c, &c->n[i], &c->n[!i], p);
	}
}

/* ---- messages ---- */

static uint8_t byte_of(uint32_t number, uint32_t at)
{
	return (uint8_t)(number * 29 + at * 5 + (number >> 8));
}

/* Numbers and fills a message that goes to `peer`; sends it. Returns: false if the port took it
 * not. */
static bool send_one(struct rc *c, struct node *n, uint32_t slot, uint32_t peer)
{
	struct spw_desc desc = {.slot = slot,
				.peer = (uint16_t)peer,
				.len = 4 + (uint32_t)(rig_random(&c->r) % (SLOT_BYTES - 3))},
			*p = &desc;
	uint8_t *bytes = spw_pool_slot_addr(&n->pool, slot);

	spw_prm_st32(bytes, n->sent[peer]);
	for (uint32_t i = 4; i < desc.len; i++)
		bytes[i] = byte_of(n->sent[peer], i);
	if (!spw_port_tx_burst(&n->pq, &p, 1))
		return false;
	n->sent[peer]++;
	return true;
}

static void start_some(struct rc *c, struct node *n)
{
	uint32_t slot[PER_TURN];
	const uint16_t want = (uint16_t)(rig_random(&c->r) % (PER_TURN + 1)),
		       got = spw_port_lend_burst(&n->pq, slot, want);

	for (uint16_t i = 0; i < got; i++)
		if (!send_one(c, n, slot[i], (uint32_t)(rig_random(&c->r) % PEERS)))
			spw_port_release_burst(&n->pq, &slot[i], 1);
}

static void check(struct node *n, const struct spw_desc *d)
{
	const uint8_t *p = (const uint8_t *)spw_pool_slot_addr(&n->pool, d->slot) + d->offset;

	assert_in_range(d->peer, 0, PEERS - 1);
	assert_int_equal(spw_prm_ld32(p), n->got[d->peer]);
	for (uint32_t i = 4; i < d->len; i++)
		assert_int_equal(p[i], byte_of(n->got[d->peer], i));
	n->got[d->peer]++;
}

static void receive_some(struct rc *c, struct node *n, bool echo, bool step)
{
	struct spw_desc desc[SPW_BURST_MAX];
	const uint16_t cnt = (uint16_t)(1 + rig_random(&c->r) % SPW_BURST_MAX);
	uint16_t got;

	if (step)
		rig_step_on(&c->r);
	for (uint32_t polls = 0;
	     !(got = spw_port_rx_burst(&n->pq, desc, cnt)) && step && polls < 8;)
		polls++;
	rig_step_off();
	for (uint16_t i = 0; i < got; i++)
		check(n, &desc[i]);
	if (step)
		rig_step_on(&c->r);
	for (uint16_t i = 0; i < got; i++)
		if (!echo || i % 3 == 0 || !send_one(c, n, desc[i].slot, desc[i].peer))
			spw_port_release_burst(&n->pq, &desc[i].slot, 1);
	rig_step_off();
}

static void check_slots(const struct node *n)
{
	struct spw_port_slots s;

	port_rc_queue_slots(&n->q.rc, &s);
	assert_int_equal(s.lent, 0);
	assert_int_equal(n->pool.free_cnt + s.in_rx + s.in_tx, n->pool.slot_cnt);
}

static void check_ends(struct rc *c)
{
	for (uint32_t i = 0; i < 2; i++) {
		for (uint32_t p = 0; p < PEERS; p++) {
			assert_int_equal(c->n[i].sent[p], c->n[!i].got[p]);
			assert_int_equal(mlx5_rc_peer_at(&c->n[i].q, p)->rc.side, SPW_PEER_SIDE_UP);
		}
		assert_int_equal(c->n[i].q.rc.stat.err[SPW_PORT_ERR_cqe_error], 0);
		assert_int_equal(c->n[i].q.rc.stat.err[SPW_PORT_ERR_protocol], 0);
	}
	assert_int_equal(c->r.nd->strict.qpn + c->r.nd->strict.index, 0);
}

static void turn(struct rc *c, bool step)
{
	start_some(c, &c->n[0]);
	for (uint32_t i = 0; i < 2; i++) {
		if (!step) /* else the messages arrive while the port polls */
			rig_rounds(&c->r, (uint32_t)(rig_random(&c->r) % 32));
		receive_some(c, &c->n[i], i == 1, step);
		check_slots(&c->n[i]);
	}
}

static void close_rc(struct rc *c)
{
	for (uint32_t i = 0; i < 2; i++)
		port_rc_return_slots(&c->n[i].q.rc);
	for (uint32_t i = 0; i < 2; i++) {
		mlx5_rc_queue_fini(&c->n[i].q);
		assert_int_equal(spw_pool_fini(&c->n[i].pool), 0);
	}
	rig_close(&c->r);
}

void run_rc(uint64_t seed, const char *options, unsigned flags, const struct run_conf *conf)
{
	static struct rc c;

	open_rc(&c, seed, options, flags);
	for (uint32_t i = 0; i < conf->turns; i++)
		turn(&c, conf->steps && i % conf->steps == 0);
	for (uint32_t i = 0; i < 200; i++) {
		rig_rounds(&c.r, 50);
		receive_some(&c, &c.n[i & 1], false, false);
	}
	check_ends(&c);
	assert_true(c.n[0].sent[0] > conf->turns / 2);
	close_rc(&c);
}
