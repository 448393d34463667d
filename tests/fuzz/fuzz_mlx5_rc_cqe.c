/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Fuzzing the receive path of port/mlx5/rc: any bytes as CQEs, in any order with bursts, releases,
 * sends and resets of peers. Every descriptor lies within its slot, no slot is lent twice, none is
 * lost, and a peer can be connected again.
 *
 *   input: a byte of flags, then steps: two bytes, opcode and choice, and the opcode's operands
 */
#include <string.h>

#include "fuzz_port.h"
#include "rc_hand.h"

#define PEERS 3u

struct run {
	struct rch h;
	struct fuzz_input in;
	struct fuzz_lent lent;
};

/* One CQE of choice at any place of the ring: opcode and owner, peer, immediate, length, WQE. */
static void step_cqe(struct run *r, const uint8_t *p)
{
	uint8_t *cqe = r->h.cq + (size_t)(p[0] % r->h.conf.cq_cnt) * 64;

	spw_prm_cqe64_set_sop_drop_qpn(cqe, p[1] < 0xf0 ? r->h.qp[p[1] % PEERS].qpn : p[1]);
	spw_prm_cqe64_set_imm_inval_pkey(cqe, p[2] < 0xf0 ? p[2] : UINT32_MAX - p[2]);
	spw_prm_cqe64_set_byte_cnt(cqe, p[3] == 255 ? UINT32_MAX : p[3] * 2u);
	spw_prm_cqe64_set_wqe_counter(cqe, p[4]);
	cqe[55] = p[5];
	cqe[63] = p[6];
}

/* What a peer that keeps the protocol would do; only while its receives are there. */
static void step_good(struct run *r, uint8_t which)
{
	uint32_t peer = which % PEERS, imm = which;
	struct rch *h = &r->h;
	struct rch_msg msg;
	uint8_t *addr;

	if (rch_posted(h, peer) == 0 || rch_posted(h, peer) > 64)
		return;
	if (which & 0x80)
		rch_control(h, peer, h->qp[peer].granted + 1 + (which >> 5 & 1));
	else if (which & 0x40)
		rch_message(h, peer, 1 + which, &imm, &addr);
	else
		for (uint32_t n = 0; n < 16 && rch_send_one(h, peer, &msg); n++)
			;
}

/* This queue has the odd ones of the port's peers. */
static void step_burst(struct run *r, uint16_t cnt)
{
	const uint32_t had = r->lent.cnt;

	fuzz_burst(&r->lent, &r->h.pq, cnt);
	for (uint32_t i = had; i < r->lent.cnt; i++)
		fuzz_demand(r->lent.peer[i] < PEERS * 2 && r->lent.peer[i] % 2 == 1);
}

static void step_send(struct run *r, uint8_t which)
{
	struct spw_desc desc = {.len = 1 + which % 200u, .flags = which & SPW_DESC_IMM}, *p = &desc;

	desc.slot = fuzz_pick(&r->lent, which, &desc.peer);
	if (which & 0x80)
		desc.peer = which;
	if (spw_port_tx_burst(&r->h.pq, &p, 1) == 0)
		spw_port_release_burst(&r->h.pq, &desc.slot, 1);
}

/* The control path: a broken peer is reset whether or not its flush came; when its slots are
 * returned, it comes up again. */
static void step_reset(struct run *r, uint8_t which)
{
	uint32_t peer = which % PEERS;
	struct mlx5_rc_peer *p = rch_peer(&r->h, peer);

	if (which & 0x80)
		port_rc_break(&r->h.q->rc, &p->rc, SPW_PEER_WHY_PEER_GONE, 0);
	if (p->rc.side == SPW_PEER_SIDE_BROKEN) {
		port_rc_reset(&r->h.q->rc, &p->rc);
		r->h.qp[peer].rq_ci = r->h.qp[peer].sq_ci = 0;
		r->h.qp[peer].db[0] = r->h.qp[peer].db[1] = spw_cpu_to_be32(0);
	}
	if (p->rc.side == SPW_PEER_SIDE_DOWN && !p->rc.out)
		rch_up(&r->h, peer);
}

static bool step(struct run *r)
{
	const uint8_t *op = fuzz_take(&r->in, 2), *p;

	if (!op)
		return false;
	switch (op[0] % 9) {
	case 0:
	case 1:
		if (!(p = fuzz_take(&r->in, 7)))
			return false;
		step_cqe(r, p);
		break;
	case 2:
		if (!(p = fuzz_take(&r->in, 64)))
			return false;
		memcpy(r->h.cq + (size_t)(op[1] % r->h.conf.cq_cnt) * 64, p, 64);
		break;
	case 3:
		step_burst(r, (uint16_t)(1 + op[1] % SPW_BURST_MAX));
		break;
	case 4:
		fuzz_release(&r->lent, &r->h.pq, op[1]);
		break;
	case 5:
		step_reset(r, op[1]);
		break;
	case 6:
		if (r->lent.cnt)
			step_send(r, op[1]);
		break;
	case 7:
		step_good(r, op[1]);
		break;
	default:
		if (!(p = fuzz_take(&r->in, 7)))
			return false;
		step_cqe(r, p); /* and the like in the send CQ */
		memcpy(r->h.tx_cq + (size_t)op[1] * 64 + 52,
		       r->h.cq + (size_t)(p[0] % r->h.conf.cq_cnt) * 64 + 52, 12);
	}
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct rch_conf c = {
		.peer_cnt = PEERS,
		.credits = 8,
		.remote_credits = 9,
		.cq_cnt = 64,
		.rq_cnt = 16,
		.srq_cnt = 64,
		.sq_cnt = 64,
		.slot_bytes = 256,
		.slot_extra = 4,
	};
	static struct run r;

	if (bytes < 1)
		return 0;
	memset(&r, 0, sizeof(r));
	c.flags = data[0] % 8;
	if (data[0] & 8 && !(c.flags & (MLX5_RC_STAMP | PORT_RC_WRITE)))
		c.flags |= MLX5_RC_COMPRESSED;
	fuzz_demand(rch_open(&r.h, &c) == 0);
	r.lent.slot_cnt = r.h.pool.slot_cnt;
	r.lent.slot_bytes = c.slot_bytes;
	r.in.data = data + 1;
	r.in.left = bytes - 1;
	while (step(&r))
		fuzz_demand(rch_balanced(&r.h, r.lent.cnt));
	fuzz_release_all(&r.lent, &r.h.pq);
	fuzz_demand(rch_close(&r.h) == 0);
	return 0;
}
