/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A reliable connection by plain verbs and nothing else: ibv_poll_cq, ibv_post_recv and
 * ibv_post_send in lists. There are no credits: the sender must not have more messages in flight
 * than there are receives.
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "rc_end.h"

static uint64_t slot_addr(const struct rc_end *end, uint64_t i)
{
	return (uintptr_t)end->bytes + i % RC_SLOTS * RC_SLOT_BYTES;
}

/* ---- messages ---- */

/* Posts the receives of these slots again, as one list. */
static int post_receives(struct rc_end *end, const uint64_t *slot, uint32_t cnt)
{
	struct ibv_recv_wr wr[SPW_BURST_MAX], *bad;
	struct ibv_sge sge[SPW_BURST_MAX];

	for (uint32_t i = 0; i < cnt; i++) {
		sge[i] = (struct ibv_sge){slot_addr(end, slot[i]), RC_SLOT_BYTES, end->mr->lkey};
		wr[i] = (struct ibv_recv_wr){.wr_id = slot[i],
					     .next = i + 1 < cnt ? &wr[i + 1] : NULL,
					     .sg_list = &sge[i],
					     .num_sge = !end->write};
	}
	return cnt ? ibv_post_recv(end->qp, wr, &bad) : 0;
}

static uint32_t hand_take(struct rc_end *end)
{
	struct ibv_wc wc[SPW_BURST_MAX];
	uint64_t slot[SPW_BURST_MAX];
	int n = ibv_poll_cq(end->rx_cq, SPW_BURST_MAX, wc);

	if (n <= 0)
		return 0;
	for (int i = 0; i < n; i++)
		slot[i] = wc[i].wr_id;
	return post_receives(end, slot, (uint32_t)n) ? 0 : (uint32_t)n;
}

static void hand_attend(struct rc_end *end)
{
	struct ibv_wc wc[SPW_BURST_MAX];
	int n = ibv_poll_cq(end->tx_cq, SPW_BURST_MAX, wc);

	for (int i = 0; i < n; i++)
		end->done += wc[i].status == IBV_WC_SUCCESS ? wc[i].wr_id : 0;
}

/* Posts one list; only its last message has a completion, whose wr_id is the length of the list. */
static uint32_t hand_send(struct rc_end *end, uint32_t cnt)
{
	struct ibv_send_wr wr[SPW_BURST_MAX], *bad;
	struct ibv_sge sge[SPW_BURST_MAX];
	uint32_t n = SPW_MIN(SPW_MIN(cnt, (uint32_t)SPW_BURST_MAX),
			     RC_WINDOW - (uint32_t)(end->sent - end->done));

	for (uint32_t i = 0; i < n; i++) {
		bool last = i + 1 == n;

		sge[i] = (struct ibv_sge){slot_addr(end, end->sent + i), RC_BYTES, end->mr->lkey};
		wr[i] = (struct ibv_send_wr){.wr_id = n,
					     .next = last ? NULL : &wr[i + 1],
					     .sg_list = &sge[i],
					     .num_sge = 1,
					     .opcode = end->write ? IBV_WR_RDMA_WRITE_WITH_IMM
								  : IBV_WR_SEND,
					     .send_flags = last ? IBV_SEND_SIGNALED : 0};
		wr[i].wr.rdma.remote_addr = end->there + (end->sent + i) % RC_SLOTS * RC_SLOT_BYTES;
		wr[i].wr.rdma.rkey = end->there_rkey;
	}
	if (!n || ibv_post_send(end->qp, wr, &bad))
		return 0;
	end->sent += n;
	return n;
}

static uint32_t hand_echo(struct rc_end *end)
{
	uint32_t n = hand_take(end);

	for (uint32_t left = n; left;) {
		left -= hand_send(end, left);
		hand_attend(end);
	}
	return n;
}

static bool hand_is_quiet(struct rc_end *end)
{
	hand_attend(end);
	return end->sent == end->done;
}

static const struct rc_calls hand_calls = {hand_send, hand_take, hand_echo, hand_attend,
					   hand_is_quiet};

/* ---- set-up ---- */

static int make_qp(struct rc_end *end)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = RC_SLOTS,
			.max_recv_wr = RC_SLOTS,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};

	attr.recv_cq = end->rx_cq = ibv_create_cq(end->dev.ctx, (int)RC_SLOTS, NULL, NULL, 0);
	attr.send_cq = end->tx_cq = ibv_create_cq(end->dev.ctx, (int)RC_SLOTS, NULL, NULL, 0);
	if (end->rx_cq && end->tx_cq)
		end->qp = ibv_create_qp(end->dev.pd, &attr);
	return end->qp ? 0 : spw_err(errno, "a queue pair by hand: %s", strerror(errno));
}

int rc_hand_open(struct rc_end *end, const char *device, const struct rc_ends_conf *conf)
{
	int rc = rdma_dev_open(device, 1, &end->dev);

	end->calls = &hand_calls;
	end->write = conf->write;
	rc = rc ? rc
		: rdma_mr_reg_bytes(&end->dev, end->dev.pd, end->bytes, RC_END_BYTES,
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &end->mr);
	return rc ? rc : make_qp(end);
}

static int to_rtr(struct rc_end *end, const struct rc_end *other, const struct rdma_gid *mine,
		  const struct rdma_gid *theirs)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = end->dev.port.active_mtu,
		.dest_qp_num = other->qp->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = theirs->gid,
				    .sgid_index = mine->index,
				    .hop_limit = 64}},
	};
	int rc =
		ibv_modify_qp(end->qp, &init,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	return rc ? rc
		  : ibv_modify_qp(end->qp, &rtr,
				  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					  IBV_QP_MIN_RNR_TIMER);
}

int rc_hand_join(struct rc_end *end, const struct rc_end *other)
{
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
				  .timeout = 14,
				  .retry_cnt = 7,
				  .rnr_retry = 7,
				  .max_rd_atomic = 1};
	struct rdma_gid mine, theirs;
	int rc = rdma_dev_gid(&end->dev, NULL, &mine);

	rc = rc ? rc : rdma_dev_gid(&other->dev, NULL, &theirs);
	if (rc)
		return rc;
	end->there = (uintptr_t)other->bytes;
	end->there_rkey = other->mr->rkey;
	rc = to_rtr(end, other, &mine, &theirs);
	for (uint64_t slot = 0; slot < RC_WINDOW && !rc; slot++)
		rc = post_receives(end, &slot, 1);
	rc = rc ? rc
		: ibv_modify_qp(end->qp, &rts,
				IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	return rc ? spw_err(rc, "connecting a queue pair by hand: %s", strerror(rc)) : 0;
}

void rc_hand_close(struct rc_end *end)
{
	if (end->qp)
		ibv_destroy_qp(end->qp);
	if (end->rx_cq)
		ibv_destroy_cq(end->rx_cq);
	if (end->tx_cq)
		ibv_destroy_cq(end->tx_cq);
	if (end->mr)
		ibv_dereg_mr(end->mr);
	rdma_dev_close(&end->dev);
}
