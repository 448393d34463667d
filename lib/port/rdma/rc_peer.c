/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a peer gets: slots, and with op=write a protection domain of its own with three MRs in it. Its QP then reaches its own
 * slots and its ring, and nothing of any other peer, whatever key it guesses.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/spw_err.h"
#include "port/rdma/rc_conn_impl.h"

#define CREDIT_DFLT_MAX 512u
#define PSN_MASK        0xffffffu

static uint32_t peers_of(const struct rc_conn *conn, uint16_t queue)
{
	uint32_t cnt = 0;

	for (uint32_t i = queue; i < conn->conf.peer_max; i += conn->queue_cnt)
		cnt++;
	return cnt;
}

int rc_conn_share(const struct rc_conn *conn, uint16_t queue, const struct spw_pool *pool, uint32_t *slot_cnt_out)
{
	const uint32_t extra = conn->conf.op == RC_OP_SEND ? RC_CTRL_RESERVE : 0, peers = peers_of(conn, queue);
	const uint32_t room = peers ? pool->slot_cnt / peers : 0;
	uint32_t share;

	*slot_cnt_out = 0;
	if (!peers)
		return 0;
	if (conn->conf.credits)
		share = conn->conf.credits + extra;
	else /* a quarter stays in the pool for lend_burst, where there is enough of it */
		share = SPW_MIN(SPW_MAX(room - room / 4, extra + 1), CREDIT_DFLT_MAX + extra);
	if (share > room)
		return spw_err(EINVAL, "%u slots are too few for %u peers of %u each: use more slots, fewer peers (peer_max=) or "
			       "fewer credits=", pool->slot_cnt, peers, share);
	*slot_cnt_out = share;
	return 0;
}

int rc_slots_take(struct spw_pool *pool, uint32_t cnt)
{
	uint32_t total = pool->slot_cnt, got, back = 0;
	uint32_t *slot = calloc(total, sizeof(*slot));

	if (!slot)
		return spw_err(ENOMEM, "no memory for a table of %u slots", total);
	got = spw_pool_get(pool, slot, total);
	for (uint32_t i = 0; i < got; i++)
		if (got != total || slot[i] >= cnt)
			slot[back++] = slot[i];
	spw_pool_put(pool, slot, back);
	free(slot);
	return got == total ? 0 : spw_err(EBUSY, "mode=rc needs its pool for itself, but %u slots are in use", total - got);
}

void rc_slots_give(struct spw_pool *pool, uint32_t cnt)
{
	for (uint32_t slot = 0; slot < cnt; slot++)
		spw_pool_put(pool, &slot, 1);
}

static int make_rings(struct rc_link *link)
{
	const size_t half = SPW_ALIGN_UP((size_t)RC_CREDIT_MAX * sizeof(spw_be32), (size_t)65536);

	link->ring_bytes = 2 * half; /* whole pages each, whatever a page is: the peer may write to one of them only */
	link->ring = mmap(NULL, link->ring_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (link->ring == MAP_FAILED) {
		link->ring = NULL;
		return spw_err(ENOMEM, "no memory for the grants of peer %u", link->peer->index);
	}
	link->peer->ring_in = link->ring;
	link->peer->ring_out = (spw_be32 *)((uint8_t *)link->ring + half);
	return 0;
}

static int reg(struct rc_link *link, void *addr, size_t bytes, int access, struct ibv_mr **mr_out)
{
	return rdma_mr_reg_bytes(link->conn->dev.rdma, link->peer->pd, addr, bytes, IBV_ACCESS_LOCAL_WRITE | access, mr_out);
}

static int make_keys(struct rc_link *link)
{
	struct rc_peer *p = link->peer;
	const size_t ring_bytes = (size_t)RC_CREDIT_MAX * sizeof(spw_be32);
	int rc = reg(link, p->pool->base, p->pool->slot_cnt * p->pool->slot_bytes, 0, &link->pool_mr);

	rc = rc ? rc : reg(link, spw_pool_slot_addr(p->pool, p->slot_first), p->slot_cnt * p->pool->slot_bytes,
			   IBV_ACCESS_REMOTE_WRITE, &p->slot_mr);
	rc = rc ? rc : reg(link, p->ring_in, ring_bytes, IBV_ACCESS_REMOTE_WRITE, &link->ring_in_mr);
	rc = rc ? rc : reg(link, p->ring_out, ring_bytes, 0, &link->ring_out_mr);
	if (rc)
		return rc;
	p->lkey = link->pool_mr->lkey;
	p->ring_out_lkey = link->ring_out_mr->lkey;
	return 0;
}

static int make_write(struct rc_link *link)
{
	struct rc_peer *p = link->peer;
	int rc;

	p->pd = ibv_alloc_pd(link->conn->dev.rdma->ctx);
	if (!p->pd)
		return spw_err(errno, "no protection domain for peer %u: %s", p->index, strerror(errno));
	rc = make_rings(link);
	return rc ? rc : make_keys(link);
}

int rc_conn_peer_setup(struct rc_conn *conn, uint32_t peer, struct spw_pool *pool, uint32_t slot_first, uint32_t slot_cnt,
		       uint32_t lkey)
{
	struct rc_link *link = &conn->link[peer];
	struct rc_peer *p = link->peer;
	int rc = 0;

	p->pool = pool;
	p->slot_first = slot_first;
	p->slot_cnt = slot_cnt;
	p->credit_cnt = slot_cnt - (p->op == RC_OP_SEND ? RC_CTRL_RESERVE : 0);
	p->recv_cnt = p->credit_cnt + RC_CTRL_RESERVE;
	p->pd = conn->dev.rdma->pd;
	p->lkey = lkey;
	if (p->op == RC_OP_WRITE)
		rc = make_write(link);
	return rc ? spw_err_ctx(rc, "peer %u", peer) : 0;
}

static void dereg(struct ibv_mr **mr)
{
	if (*mr)
		ibv_dereg_mr(*mr);
	*mr = NULL;
}

static void free_keys(struct rc_link *link)
{
	dereg(&link->pool_mr);
	dereg(&link->peer->slot_mr);
	dereg(&link->ring_in_mr);
	dereg(&link->ring_out_mr);
}

int rc_peer_renew(struct rc_link *link)
{
	if (link->peer->op != RC_OP_WRITE)
		return 0;
	free_keys(link);
	return make_keys(link);
}

void rc_peer_free(struct rc_link *link)
{
	struct rc_peer *p = link->peer;

	free_keys(link);
	if (link->ring)
		munmap(link->ring, link->ring_bytes);
	if (p->op == RC_OP_WRITE && p->pd)
		ibv_dealloc_pd(p->pd);
	p->pd = NULL;
}

int rc_peer_params(struct rc_link *link)
{
	const struct rc_peer *p = link->peer;
	uint8_t chance[RC_NONCE_BYTES];
	int rc = rc_nonce(chance);

	if (rc)
		return rc;
	link->ours = (struct rc_params){
		.qpn = p->qp->qp_num,
		.psn = (chance[0] | (uint32_t)chance[1] << 8 | (uint32_t)chance[2] << 16) & PSN_MASK,
		.mtu = link->conn->dev.mtu,
		.op = (uint8_t)p->op,
		.credit_cnt = p->credit_cnt,
		.slot_bytes = (uint32_t)SPW_MIN(p->pool->slot_bytes, SPW_DESC_LEN_MAX),
	};
	memcpy(link->ours.gid, link->conn->dev.gid.gid.raw, sizeof(link->ours.gid));
	if (p->op == RC_OP_WRITE) {
		link->ours.slot_stride = (uint32_t)p->pool->slot_bytes;
		link->ours.slot_rkey = p->slot_mr->rkey;
		link->ours.slot_addr = (uintptr_t)p->slot_mr->addr;
		link->ours.ring_addr = (uintptr_t)p->ring_in;
		link->ours.ring_rkey = link->ring_in_mr->rkey;
		link->ours.ring_cnt = RC_CREDIT_MAX;
	}
	return 0;
}

void rc_peer_learn(struct rc_link *link, const struct rc_params *theirs)
{
	link->peer->remote = (struct rc_remote){
		.credit_cnt = theirs->credit_cnt,
		.slot_bytes = SPW_MIN(theirs->slot_bytes, SPW_DESC_LEN_MAX),
		.slot_addr = theirs->slot_addr,
		.slot_rkey = theirs->slot_rkey,
		.slot_stride = theirs->slot_stride,
		.ring_addr = theirs->ring_addr,
		.ring_rkey = theirs->ring_rkey,
		.ring_cnt = theirs->ring_cnt,
	};
}
