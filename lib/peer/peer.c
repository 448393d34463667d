/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The memory of a peer, its keys and its parameters. With op=write a peer has a protection domain
 * of its own with four MRs, so that its QP reaches its own slots and ring and nothing of another
 * peer, whatever key it guesses. Called at set-up, and by turn.c and link.c for each new
 * connection.
 *
 * Keys of one peer with op=write, and what a peer can do with them:
 *
 *   MR        memory               rights            used by
 *   all       slots and the rest   local             our sends
 *   slot      its slots            remote write      the peer's messages
 *   ring_in   4 bytes per grant    remote write      the peer's grants
 *   ring_out  the same             local             our grants, as source of a WRITE
 *
 * An rkey works through the QPs of its own PD only, hence one PD per peer. With op=send the peer
 * gets no key, and all peers share the device's PD.
 *
 * Life of a key: made at set-up; replaced by peer_link_rekey before every connection but the first,
 * so that a peer that is gone cannot write with a key that it remembers.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "frame/spw_desc.h"
#include "base/spw_err.h"
#include "peer/conn.h"

#define CREDIT_DFLT_MAX 512u
#define PSN_MASK        0xffffffu
#define WIPE_BYTES      ((size_t)16 << 20) /* per turn: some milliseconds */

/* Peers are dealt to the queues in turn: peer i belongs to queue i % queue_cnt. */
static uint32_t peers_of(const struct spw_peer_conn *conn, uint16_t queue)
{
	uint32_t cnt = 0;

	for (uint32_t i = queue; i < conn->conf.peer_max; i += conn->queue_cnt)
		cnt++;
	return cnt;
}

/* With op=send a control message takes a receive and therefore a slot, although it carries no
 * bytes; with op=write a receive has no slot. */
int spw_peer_conn_share(const struct spw_peer_conn *conn, uint16_t queue, uint32_t total,
			uint32_t *slot_cnt_out)
{
	const uint32_t extra = conn->conf.op == SPW_PEER_OP_SEND ? SPW_PEER_CTRL_RESERVE : 0,
		       peers = peers_of(conn, queue);
	const uint32_t room = peers ? total / peers : 0;
	uint32_t share;

	*slot_cnt_out = 0;
	if (!peers)
		return 0;
	if (conn->conf.credits)
		share = conn->conf.credits + extra;
	else /* a quarter stays in the pool for messages of this side, if there are enough */
		share = SPW_MIN(SPW_MAX(room - room / 4, extra + 1), CREDIT_DFLT_MAX + extra);
	if (share > room)
		return spw_err(EINVAL,
			       "%u slots are too few for %u peers of %u each: use more slots, "
			       "fewer peers (peer_max=) or "
			       "fewer credits=",
			       total, peers, share);
	*slot_cnt_out = share;
	return 0;
}

/* One mapping for both rings, outside the region of the slots: no message can be placed over a
 * grant. */
static int make_rings(struct peer_link *link)
{
	const size_t half =
		SPW_ALIGN_UP((size_t)SPW_PEER_CREDIT_MAX * sizeof(spw_be32), (size_t)65536);

	link->ring_bytes = 2 * half; /* each in pages of its own, up to 64 KiB pages: the peer may
					write to one of them only */
	link->ring = mmap(NULL, link->ring_bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (link->ring == MAP_FAILED) {
		link->ring = NULL;
		return spw_err(ENOMEM, "no memory for the grants of peer %u", link->peer->index);
	}
	link->peer->ring_in = link->ring;
	link->peer->ring_out = (spw_be32 *)((uint8_t *)link->ring + half);
	return 0;
}

static int peer_mr_reg(struct peer_link *link, void *addr, size_t bytes, int access,
		       struct ibv_mr **mr_out)
{
	return rdma_mr_reg_bytes(link->conn->dev.rdma, link->peer->pd, addr, bytes,
				 IBV_ACCESS_LOCAL_WRITE | access, mr_out);
}

/* Also called by peer_link_rekey, after free_keys. After an error the MRs made so far stay in link;
 * the next free_keys or peer_link_free releases them. */
static int make_keys(struct peer_link *link)
{
	struct spw_peer *p = link->peer;
	const size_t ring_bytes = (size_t)SPW_PEER_CREDIT_MAX * sizeof(spw_be32);
	const struct spw_peer_memory *m = &p->memory;
	int rc = peer_mr_reg(link, m->all, m->all_bytes, 0, &link->all_mr);

	rc = rc ? rc
		: peer_mr_reg(link, m->slot, m->slot_cnt * m->slot_bytes, IBV_ACCESS_REMOTE_WRITE,
			      &p->slot_mr);
	rc = rc ? rc
		: peer_mr_reg(link, p->ring_in, ring_bytes, IBV_ACCESS_REMOTE_WRITE,
			      &link->ring_in_mr);
	rc = rc ? rc : peer_mr_reg(link, p->ring_out, ring_bytes, 0, &link->ring_out_mr);
	if (rc)
		return rc;
	p->lkey = link->all_mr->lkey;
	p->ring_out_lkey = link->ring_out_mr->lkey;
	return 0;
}

static int make_write(struct peer_link *link)
{
	struct spw_peer *p = link->peer;
	int rc;

	p->pd = ibv_alloc_pd(link->conn->dev.rdma->ctx);
	if (!p->pd)
		return spw_err(errno, "no protection domain for peer %u: %s", p->index,
			       strerror(errno));
	rc = make_rings(link);
	return rc ? rc : make_keys(link);
}

/* After an error the caller closes conn, which frees what was made (peer_link_free). */
int spw_peer_conn_peer_setup(struct spw_peer_conn *conn, uint32_t peer,
			     const struct spw_peer_memory *memory)
{
	struct peer_link *link = &conn->link[peer];
	struct spw_peer *p = link->peer;
	int rc = 0;

	p->memory = *memory;
	p->credit_cnt = memory->slot_cnt - (p->op == SPW_PEER_OP_SEND ? SPW_PEER_CTRL_RESERVE : 0);
	p->recv_cnt = p->credit_cnt + SPW_PEER_CTRL_RESERVE;
	p->pd = conn->dev.rdma->pd;
	p->lkey = memory->lkey;
	if (p->op == SPW_PEER_OP_WRITE)
		rc = make_write(link);
	return rc ? spw_err_ctx(rc, "peer %u", peer) : 0;
}

static void peer_mr_dereg(struct ibv_mr **mr)
{
	if (*mr)
		ibv_dereg_mr(*mr);
	*mr = NULL;
}

static void free_keys(struct peer_link *link)
{
	peer_mr_dereg(&link->all_mr);
	peer_mr_dereg(&link->peer->slot_mr);
	peer_mr_dereg(&link->ring_in_mr);
	peer_mr_dereg(&link->ring_out_mr);
}

int peer_link_rekey(struct peer_link *link)
{
	if (link->peer->op != SPW_PEER_OP_WRITE)
		return 0;
	free_keys(link);
	return make_keys(link);
}

/* The piece is bounded because the control thread serves every other peer meanwhile. `dirty` is set
 * only by a connection that came as far as exchanging keys: without one there is nothing to
 * clear. */
bool peer_link_wipe(struct peer_link *link)
{
	const struct spw_peer *p = link->peer;
	const size_t total = link->dirty ? p->memory.slot_cnt * p->memory.slot_bytes : 0;
	const size_t piece = SPW_MIN(total - link->wiped, WIPE_BYTES);

	if (piece)
		memset(p->memory.slot + link->wiped, 0, piece);
	link->wiped += piece;
	if (link->wiped < total)
		return false;
	link->wiped = 0;
	link->dirty = false;
	return true;
}

void peer_link_free(struct peer_link *link)
{
	struct spw_peer *p = link->peer;

	free_keys(link);
	if (link->ring)
		munmap(link->ring, link->ring_bytes);
	if (p->op == SPW_PEER_OP_WRITE && p->pd)
		ibv_dealloc_pd(p->pd);
	p->pd = NULL;
}

/* rd_atomic has its least value, since neither op reads. access lets the peer write through this
 * QP; the MR must allow it as well. */
struct peer_qp_path peer_link_path(const struct peer_link *link, const struct peer_params *theirs)
{
	const struct spw_peer_conf *conf = &link->conn->conf;
	const struct spw_peer_dev *dev = &link->conn->dev;
	struct peer_qp_path path = {
		.port_num = dev->rdma->port_num,
		.gid_index = dev->gid.index,
		.tclass = conf->tclass,
		.timeout = conf->timeout,
		.retry = conf->retry,
		.rnr_retry = conf->rnr_retry,
		.min_rnr_timer = conf->min_rnr_timer,
		.rd_atomic = 1,
		.access = link->peer->op == SPW_PEER_OP_WRITE ? IBV_ACCESS_REMOTE_WRITE : 0,
		.sq_psn = link->ours.psn,
	};

	if (theirs) {
		path.mtu = SPW_MIN(link->ours.mtu, theirs->mtu);
		path.dest_qpn = theirs->qpn;
		path.rq_psn = theirs->psn;
		memcpy(path.dgid, theirs->gid, sizeof(path.dgid));
	}
	return path;
}

/* The PSN is random, so that packets of the last connection that are still in the network are
 * unlikely to fall into the window of the new one. Longer slots than SPW_DESC_LEN_MAX exist, but no
 * descriptor can name such a message. */
int peer_link_params(struct peer_link *link)
{
	const struct spw_peer *p = link->peer;
	uint8_t chance[SPW_OOB_NONCE_BYTES];
	int rc = spw_oob_nonce(chance);

	if (rc)
		return rc;
	link->ours = (struct peer_params){
		.qpn = p->qp->qp_num,
		.psn = (chance[0] | (uint32_t)chance[1] << 8 | (uint32_t)chance[2] << 16) &
		       PSN_MASK,
		.mtu = link->conn->dev.mtu,
		.op = (uint8_t)p->op,
		.credit_cnt = p->credit_cnt,
		.slot_bytes = (uint32_t)SPW_MIN(p->memory.slot_bytes, SPW_DESC_LEN_MAX),
	};
	memcpy(link->ours.gid, link->conn->dev.gid.gid.raw, sizeof(link->ours.gid));
	if (p->op == SPW_PEER_OP_WRITE) {
		link->ours.slot_stride = (uint32_t)p->memory.slot_bytes;
		link->ours.slot_rkey = p->slot_mr->rkey;
		link->ours.slot_addr = (uintptr_t)p->slot_mr->addr;
		link->ours.ring_addr = (uintptr_t)p->ring_in;
		link->ours.ring_rkey = link->ring_in_mr->rkey;
		link->ours.ring_cnt = SPW_PEER_CREDIT_MAX;
	}
	return 0;
}

/* From here on the QP is in INIT: receives may be posted, and nothing arrives yet. Whoever fails
 * after this returns the QP to RESET by the way down of link.c. */
int peer_link_prepare(struct peer_link *link)
{
	struct peer_qp_path path;
	int rc = link->used ? peer_link_rekey(link) : 0;

	link->used = true;
	rc = rc ? rc : peer_link_params(link);
	if (rc)
		return rc;
	path = peer_link_path(link, NULL);
	return peer_qp_init(link->peer->qp, &path);
}

/* Written before the state SPW_PEER_UP is stored with release, and never while the peer is UP. */
void peer_link_learn(struct peer_link *link, const struct peer_params *theirs)
{
	link->dirty = link->peer->op == SPW_PEER_OP_WRITE;
	link->peer->remote = (struct spw_peer_remote){
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
