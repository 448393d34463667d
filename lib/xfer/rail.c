/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A rail: a QP is made at both ends, proved by a probe in each direction, and destroyed
 * when the rail fails (fail.c). The side that connected begins, now and whenever the rail rejoins:
 *
 *   client                                       server
 *   QP in INIT, receives posted
 *   MAKING    ── RAIL generation, pair, QP ──►   QP in INIT, receives posted
 *                                                RESOLVING: RTR, in another thread (resolve.c)
 *   RESOLVING ◄── RAIL generation, pair, QP ─    QP in RTS: PROBING
 *   PROBING   ── probe, over the rail ───────►
 *             ◄────────── probe, over the rail
 *   UP when its own probe is acknowledged        UP likewise
 *
 * Which pair of devices a rail joins is decided in round.c. Called by conn.c (frames, deadlines)
 * and take.c (probes). System calls of milliseconds.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "peer/spw_peer_qp.h"
#include "xfer/connection.h"
#include "xfer/endpoint.h"
#include "xfer/reach.h"
#include "xfer/round.h"

#define RNR_TIMER 12u /* 0.64 ms */
#define RNR_RETRY 7u  /* without limit */
#define PSN_MASK  0xffffffu

/* their_qpn and their_psn are known only after the peer's RAIL frame; INIT does without. */
static struct peer_qp_path rail_path(const struct xfer_rail *rail)
{
	const struct spw_xfer_conf *conf = &rail->conn->x->conf;
	struct peer_qp_path path = {
		.port_num = rail->dev->rdma.port_num,
		.gid_index = rail->dev->gid.index,
		.tclass = conf->traffic_class,
		.timeout = conf->timeout,
		.retry = conf->retry,
		.rnr_retry = RNR_RETRY,
		.min_rnr_timer = RNR_TIMER,
		.rd_atomic = (uint8_t)SPW_MIN(rail->dev->read_max, rail->theirs.read_max),
		.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			  (rail->dev->atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0),
		.mtu = (uint16_t)rail->stat.mtu,
		.dest_qpn = rail->their_qpn,
		.rq_psn = rail->their_psn,
		.sq_psn = rail->psn,
	};

	memcpy(path.dgid, rail->theirs.gid, sizeof(path.dgid));
	return path;
}

int xfer_rail_qp_check(const struct xfer_rail *rail)
{
	return rail->qp ? 0
			: spw_err(errno, "%s: a queue pair (%u sends, %u receives): %s",
				  rail->dev->rdma.name, XFER_SQ_CNT, XFER_RQ_CNT, strerror(errno));
}

/* A QP that a thread moves to RTR is left to that thread (resolve.c). */
void xfer_rail_destroy(struct xfer_rail *rail)
{
	if (rail->resolve)
		xfer_resolve_abandon(rail);
	if (rail->qp)
		ibv_destroy_qp(rail->qp);
	if (rail->cq)
		ibv_destroy_cq(rail->cq);
	rail->qp = NULL;
	rail->cq = NULL;
}

/* A new QP in INIT with its receives posted: what the peer sends as soon as it is ready is not
 * refused. psn is random, so that packets of the QP before are not taken for those of this one. */
static int rail_make(struct xfer_rail *rail, uint64_t now_ms)
{
	struct peer_qp_path path = rail_path(rail);
	uint8_t chance[SPW_OOB_NONCE_BYTES];
	int rc = spw_oob_nonce(chance);

	if (rc)
		return rc;
	rail->psn = (chance[0] | (uint32_t)chance[1] << 8 | (uint32_t)chance[2] << 16) & PSN_MASK;
	rail->sq_pi = rail->sq_ci = 0;
	rail->out_bytes = 0;
	rail->rq_used = 0;
	rail->cq_events = 0;
	rail->rang = true;
	rail->probe_ms = now_ms + rail->conn->x->conf.exchange_ms;
	memset(rail->sent, 0, sizeof(rail->sent));
	path.access = 0; /* the peer's rights begin with RTS: resolve.c */
	rc = rail->ops->make(rail);
	rc = rc ? rc : peer_qp_init(rail->qp, &path);
	if (!rc)
		rail->ops->refill(rail, XFER_RQ_CNT);
	return rc;
}

static void say_rail(struct xfer_rail *rail)
{
	const bool client = rail->conn->is_client;
	const struct xfer_frame f = {.type = XFER_FRAME_RAIL,
				     .rail = {.rail = rail->idx,
					      .qp_generation = rail->qp_generation,
					      .qpn = rail->qp->qp_num,
					      .psn = rail->psn,
					      .rail_cnt = rail->conn->rail_cnt,
					      .client_dev = client ? rail->dev_idx : rail->peer_idx,
					      .peer_dev = client ? rail->peer_idx : rail->dev_idx}};

	xfer_conn_send(rail->conn, &f);
}

/* An attempt that the peer knows nothing of failed. */
static void rail_later(struct xfer_rail *rail, uint64_t now_ms)
{
	snprintf(rail->stat.why, sizeof(rail->stat.why), "%.127s", spw_err_text());
	xfer_rail_destroy(rail);
	rail->state = XFER_OFF;
	rail->tried = true;
	rail->hold_ms = now_ms + SPW_XFER_REJOIN_MS;
	xfer_round_ended(rail, false, now_ms);
}

/* Failures of the pair before say nothing of this one: proven, tried and its waits begin anew. */
void xfer_rail_join(struct xfer_rail *rail, uint32_t dev_idx, uint32_t peer_idx)
{
	struct xfer_dev *dev = &rail->conn->x->dev[dev_idx];

	rail->dev_idx = (uint8_t)dev_idx;
	rail->peer_idx = (uint8_t)peer_idx;
	rail->dev = dev;
	rail->ops = dev->direct ? &xfer_direct_ops : &xfer_verbs_ops;
	rail->theirs = rail->conn->pairs.theirs[peer_idx];
	rail->proven = rail->tried = false;
	rail->ended_ms = rail->hold_ms = 0;
	rail->stat.direct = dev->direct;
	rail->stat.mtu = SPW_MIN(dev->mtu, rail->theirs.mtu);
	rail->stat.mbps = rdma_dev_speed_mbps(&dev->rdma);
	snprintf(rail->stat.device, sizeof(rail->stat.device), "%s", dev->rdma.name);
}

/* It is OFF, and joins the devices of its own number until round.c chooses. */
int xfer_rail_add(struct spw_xfer_conn *conn)
{
	struct xfer_rail *rail =
		aligned_alloc(SPW_CACHE_LINE, SPW_ALIGN_UP(sizeof(*rail), (size_t)SPW_CACHE_LINE));

	if (!rail)
		return spw_err(ENOMEM, "no memory for a rail");
	memset(rail, 0, sizeof(*rail));
	rail->conn = conn;
	rail->idx = (uint8_t)conn->rail_cnt;
	xfer_rail_join(rail, SPW_MIN(conn->rail_cnt, conn->pairs.mine_cnt - 1),
		       SPW_MIN(conn->rail_cnt, conn->pairs.theirs_cnt - 1));
	conn->rail[conn->rail_cnt++] = rail;
	return 0;
}

/* A new QP, which both sides will end by a DOWN of their own. */
static void rail_begin(struct xfer_rail *rail)
{
	rail->qp_generation++;
	rail->state = XFER_MAKING;
	rail->peer_down = false;
}

void xfer_rail_offer(struct xfer_rail *rail, uint64_t now_ms)
{
	if (rdma_dev_check_link(&rail->dev->rdma) || rail_make(rail, now_ms)) {
		rail_later(rail, now_ms);
		return;
	}
	rail_begin(rail);
	say_rail(rail);
}

static void post_probe(struct xfer_rail *rail)
{
	const struct xfer_wr wr = {.op = XFER_OP_WRITE_IMM,
				   .signal = true,
				   .raddr = rail->conn->their_box,
				   .rkey = rail->theirs.rkey,
				   .imm = xfer_imm_put((struct xfer_imm){.kind = XFER_IMM_PROBE})};
	const struct xfer_sent sent = {.kind = XFER_SENT_PROBE};

	xfer_rail_post(rail, &wr, &sent);
	rail->ops->ring(rail);
	rail->rang = true;
}

/* The peer's QP is known. Both ends need it: the client when the answer has come, the server before
 * it answers. */
static void rail_resolve(struct xfer_rail *rail)
{
	const struct peer_qp_path path = rail_path(rail);

	rail->state = XFER_RESOLVING;
	if (xfer_resolve_start(rail, &path))
		xfer_rail_fail(rail, "%s", spw_err_text());
}

/* Server: the client offers a QP. */
static void rail_answer(struct xfer_rail *rail, uint64_t now_ms)
{
	int rc;

	rail_begin(rail);
	rc = rdma_dev_check_link(&rail->dev->rdma);
	rc = rc ? rc : rail_make(rail, now_ms);
	if (rc)
		xfer_rail_fail(rail, "%s", spw_err_text());
	else
		rail_resolve(rail);
}

/* The answer of the kernel, once it is there. */
static void rail_resolved(struct xfer_rail *rail)
{
	const struct peer_qp_path path = rail_path(rail);
	int rc = xfer_resolve_result(rail);

	if (rc == -EINPROGRESS)
		return;
	rc = rc ? rc : peer_qp_rts(rail->qp, &path);
	if (rc) {
		xfer_rail_fail(rail, "%s", spw_err_text());
		return;
	}
	rail->state = XFER_PROBING;
	if (rail->conn->is_client)
		post_probe(rail);
	else
		say_rail(rail);
}

void xfer_rail_on_frame(struct xfer_rail *rail, const struct xfer_frame *frame, uint64_t now_ms)
{
	const bool client = rail->conn->is_client;

	/* It crossed our DOWN: the peer will hear that, and say DOWN too. */
	if (client && rail->state == XFER_DOWN && frame->rail.qp_generation == rail->qp_generation)
		return;
	if (rail->state != (client ? XFER_MAKING : XFER_OFF) ||
	    frame->rail.qp_generation != rail->qp_generation + !client) {
		xfer_conn_breach(rail->conn, "a rail that is not being made");
		return;
	}
	rail->their_qpn = frame->rail.qpn;
	rail->their_psn = frame->rail.psn;
	if (client)
		rail_resolve(rail);
	else
		rail_answer(rail, now_ms);
}

/* The server answers the first probe, once: sq_pi 0 says that none was sent. */
void xfer_rail_probed(struct xfer_rail *rail)
{
	if (!rail->conn->is_client && rail->state == XFER_PROBING && !rail->sq_pi)
		post_probe(rail);
}

/* From here on share.c gives it chunks. */
void xfer_rail_proved(struct xfer_rail *rail)
{
	const uint64_t now = xfer_now_ns();

	rail->state = XFER_UP;
	rail->tried = rail->proven = true;
	rail->conn->pairs.failed[rail->dev_idx][rail->peer_idx] = 0;
	rail->conn->up |= (uint8_t)(1u << rail->idx);
	rail->conn->work = true;
	if (!rail->down_ns)
		return;
	rail->stat.outage_ns += now - rail->down_ns;
	spw_log_limited(&rail->conn->x->limit, SPW_LOG_INFO,
			"xfer: %s: rail %u (%s) is back after %llu ms", rail->conn->text, rail->idx,
			rail->stat.device, (unsigned long long)((now - rail->down_ns) / 1000000));
	rail->down_ns = 0;
}

/* Called by the house for every rail, in whatever state it is. */
void xfer_rail_turn(struct xfer_rail *rail, uint64_t now_ms)
{
	if (rail->state == XFER_RESOLVING)
		rail_resolved(rail);
	if (rail->state == XFER_OFF && rail->conn->is_client && xfer_round_is_due(rail, now_ms))
		xfer_rail_offer(rail, now_ms);
	else if (rail->state >= XFER_MAKING && rail->state <= XFER_PROBING &&
		 now_ms >= rail->probe_ms)
		xfer_rail_fail(rail, "its probe was not answered in %u ms",
			       rail->conn->x->conf.exchange_ms);
}
