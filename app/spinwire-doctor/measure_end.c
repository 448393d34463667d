/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One end of a measured pair (measure.h): RDMA WRITEs of 64 KiB, 8 in flight, over one reliable
 * connection. The passive end does nothing. Nothing waits longer than ANSWER_MS for a completion.
 *
 *   open   device, link, GID ─ memory, MR ─ CQ, QP to INIT
 *   join   the other end's address ─ QP to RTR, RTS            both ends, in either order
 *   run    WARM_MS ─ ms, counted ─ drain                       the end that writes
 *
 * measure.c opens both ends in one process; measure_peer.c opens one, and measure_answer.c the
 * other one on its machine. All times are of CLOCK_MONOTONIC in ms: a run is hundreds of them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_monotonic.h"
#include "measure.h"
#include "time/spw_time.h"

#define MESSAGE_BYTES 65536u
#define DEPTH         8u
#define BUF_BYTES     (DEPTH * MESSAGE_BYTES)
#define WARM_MS       100u
#define ANSWER_MS     1000u /* a far end that is there answers within one retransmission */
#define STEP_MS       (SPW_TSC_STEP_NS / 1000000) /* what counts of a turn (spw_tsc_ran) */
#define ACK_TIMEOUT   17 /* 4.096 us << 17 = 0.54 s: a slow pair is no lost packet */

/* ---- set-up ---- */

/* The receive queue is never used: an RDMA WRITE consumes no receive. INIT grants the other end
 * its writes. */
static int end_qp_create(struct measure_end *end)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_wr = 1,
			.max_recv_sge = 1},
	};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
				   .port_num = end->dev.port_num,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	int rc;

	attr.send_cq = attr.recv_cq = end->cq =
		ibv_create_cq(end->dev.ctx, (int)DEPTH + 1, NULL, NULL, 0);
	if (end->cq)
		end->qp = ibv_create_qp(end->dev.pd, &attr);
	if (!end->qp)
		return spw_err(errno, "%s: no queue pair: %s", end->dev.name, strerror(errno));
	rc = ibv_modify_qp(end->qp, &init,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	return rc ? spw_err(rc, "%s: queue pair to INIT: %s", end->dev.name, strerror(rc)) : 0;
}

/* RDMA port 1, its RoCE v2 GID, and one memory for both directions. */
int measure_end_open(const char *device, struct measure_end *end)
{
	int rc;

	memset(end, 0, sizeof(*end));
	rc = rdma_dev_open(device, 1, &end->dev);
	rc = rc ? rc : rdma_dev_check_link(&end->dev);
	rc = rc ? rc : rdma_dev_gid(&end->dev, NULL, &end->gid);
	if (rc)
		return rc;
	end->buf = aligned_alloc(4096, BUF_BYTES);
	if (!end->buf)
		return spw_err(ENOMEM, "%s: no memory", device);
	memset(end->buf, 0x5a, BUF_BYTES);
	rc = rdma_mr_reg_bytes(&end->dev, end->dev.pd, end->buf, BUF_BYTES,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &end->mr);
	return rc ? rc : end_qp_create(end);
}

/* Valid once the end is open; the other end's measure_end_join takes it. */
void measure_end_addr(const struct measure_end *end, struct measure_addr *out)
{
	*out = (struct measure_addr){.qpn = end->qp->qp_num,
				     .rkey = end->mr->rkey,
				     .mtu_bytes = rdma_dev_mtu_bytes(&end->dev),
				     .addr = (uintptr_t)end->buf,
				     .gid = end->gid.gid};
}

/* The largest MTU of InfiniBand's five that fits: code 1 is 256 bytes, each further one doubles
 * it. */
static enum ibv_mtu end_mtu_code(uint32_t bytes)
{
	uint32_t code = IBV_MTU_256;

	while (code < IBV_MTU_4096 && 128u << (code + 1) <= bytes)
		code++;
	return (enum ibv_mtu)code;
}

/* The connection's MTU is the smaller of both, since packets beyond it would be dropped on the
 * way. */
int measure_end_join(struct measure_end *end, const struct measure_addr *there)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.dest_qp_num = there->qpn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .port_num = end->dev.port_num,
			    .grh = {.dgid = there->gid,
				    .sgid_index = end->gid.index,
				    .hop_limit = 64}},
	};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
				  .timeout = ACK_TIMEOUT,
				  .retry_cnt = 7,
				  .rnr_retry = 7,
				  .max_rd_atomic = 1};
	int rc;

	end->there = *there;
	end->mtu_bytes = SPW_MIN(rdma_dev_mtu_bytes(&end->dev), there->mtu_bytes);
	rtr.path_mtu = end_mtu_code(end->mtu_bytes);
	rc = ibv_modify_qp(end->qp, &rtr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				   IBV_QP_MIN_RNR_TIMER);
	rc = rc ? rc
		: ibv_modify_qp(end->qp, &rts,
				IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	return rc ? spw_err(rc, "%s: connecting its queue pair: %s", end->dev.name, strerror(rc))
		  : 0;
}

void measure_end_close(struct measure_end *end)
{
	if (end->qp)
		ibv_destroy_qp(end->qp);
	if (end->cq)
		ibv_destroy_cq(end->cq);
	if (end->mr)
		ibv_dereg_mr(end->mr);
	rdma_dev_close(&end->dev);
	free(end->buf);
	memset(end, 0, sizeof(*end));
}

/* ---- the run ---- */

/* The destination has the offset of the source: both buffers are of BUF_BYTES. */
static int end_post(struct measure_end *end)
{
	const uint64_t at = (uint64_t)(end->posted % DEPTH) * MESSAGE_BYTES;
	struct ibv_sge sge = {(uintptr_t)end->buf + at, MESSAGE_BYTES, end->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	int rc;

	wr.wr.rdma.remote_addr = end->there.addr + at;
	wr.wr.rdma.rkey = end->there.rkey;
	rc = ibv_post_send(end->qp, &wr, &bad);
	end->posted += rc == 0;
	return rc ? -EIO : 0;
}

/* Returns: how many WRITEs were acknowledged; -EIO: one failed. */
static int end_reap(struct measure_end *end)
{
	struct ibv_wc wc[DEPTH];
	int n = ibv_poll_cq(end->cq, (int)DEPTH, wc);

	for (int i = 0; i < n; i++)
		if (wc[i].status != IBV_WC_SUCCESS)
			return -EIO;
	if (n > 0) {
		end->posted -= (uint32_t)n;
		end->bytes += (uint64_t)n * MESSAGE_BYTES;
	}
	return n;
}

/* One round over all ends. Returns: WRITEs acknowledged; -EIO. */
static int ends_turn(struct measure_end *end, uint32_t cnt, bool more)
{
	int done = 0;

	for (uint32_t i = 0; i < cnt; i++) {
		int n = end_reap(&end[i]);

		while (n >= 0 && more && end[i].posted < DEPTH)
			if (end_post(&end[i]) < 0)
				n = -EIO;
		if (n < 0)
			return n;
		done += n;
	}
	if (done == 0)
		sched_yield();
	return done;
}

/* Acknowledged bytes only: what is in flight may still be lost. */
static uint64_t ends_bytes(const struct measure_end *end, uint32_t cnt)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < cnt; i++)
		bytes += end[i].bytes;
	return bytes;
}

static bool ends_are_idle(const struct measure_end *end, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++)
		if (end[i].posted)
			return false;
	return true;
}

/* Writes until `until`, or, without more, until all is acknowledged. */
static int ends_keep_going(struct measure_end *end, uint32_t cnt, uint64_t until, bool more)
{
	uint64_t now = spw_monotonic_ms(), silent = 0;

	while (more ? now < until : !ends_are_idle(end, cnt)) {
		const uint64_t last = now;
		int n = ends_turn(end, cnt, more);

		now = spw_monotonic_ms();
		silent = n ? 0 : silent + SPW_MIN(now - last, STEP_MS);
		if (n < 0 || silent > ANSWER_MS)
			return -ETIMEDOUT;
	}
	return 0;
}

/* The counters of the physical port span warm-up and drain as well, so the packets are counted
 * over the same time. */
int measure_run(struct measure_end *end, uint32_t cnt, uint32_t ms, struct measure_result *out)
{
	struct spw_port_stat stat = {0};
	uint64_t begin, start, bytes;
	int rc;

	*out = (struct measure_result){.mbps = -1, .wire = -1};
	rdma_phy_start(&end->dev, &end->phy);
	begin = ends_bytes(end, cnt);
	rc = ends_keep_going(end, cnt, spw_monotonic_ms() + WARM_MS, true);
	start = spw_monotonic_ms();
	bytes = ends_bytes(end, cnt);
	rc = rc ? rc : ends_keep_going(end, cnt, start + ms, true);
	bytes = ends_bytes(end, cnt) - bytes;
	start = spw_monotonic_ms() - start;
	rc = rc ? rc : ends_keep_going(end, cnt, 0, false);
	if (rc || start == 0)
		return rc ? rc : -ETIMEDOUT;
	rdma_phy_stat(&end->phy, &stat);
	out->mbps = (int64_t)(bytes * 8 / 1000 / start);
	out->packets = (int64_t)((ends_bytes(end, cnt) - begin) / end->mtu_bytes);
	out->wire = stat.phy_known ? (int64_t)stat.phy_tx_packets : -1;
	return 0;
}

/* ---- as JSON ---- */

json_t *measure_addr_json(const struct measure_addr *addr)
{
	char gid[INET6_ADDRSTRLEN];

	inet_ntop(AF_INET6, addr->gid.raw, gid, sizeof(gid));
	return json_pack("{s:I,s:I,s:I,s:I,s:s}", "qpn", (json_int_t)addr->qpn, "rkey",
			 (json_int_t)addr->rkey, "mtu", (json_int_t)addr->mtu_bytes, "addr",
			 (json_int_t)addr->addr, "gid", gid);
}

/* From the other machine: ranges are checked before anything is cut to its type. */
bool measure_addr_parse(const json_t *json, struct measure_addr *out)
{
	json_int_t qpn, rkey, mtu, addr;
	const char *gid;

	if (json_unpack((json_t *)(uintptr_t)json, "{s:I,s:I,s:I,s:I,s:s}", "qpn", &qpn, "rkey",
			&rkey, "mtu", &mtu, "addr", &addr, "gid", &gid) ||
	    !spw_in_range(qpn, 0, 0xffffff) || !spw_in_range(rkey, 0, (json_int_t)UINT32_MAX) ||
	    !spw_in_range(mtu, 256, 4096))
		return false;
	*out = (struct measure_addr){.qpn = (uint32_t)qpn,
				     .rkey = (uint32_t)rkey,
				     .mtu_bytes = (uint32_t)mtu,
				     .addr = (uint64_t)addr};
	return inet_pton(AF_INET6, gid, out->gid.raw) == 1;
}
