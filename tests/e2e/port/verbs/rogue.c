/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rogue.h"

static struct rdma_dev dev;
static struct rdma_gid gid;
uint8_t *rogue_buf;
static struct ibv_mr *mr;
static const struct spw_oob_secret no_secret;

int rogue_dev_open(void **state SPW_UNUSED)
{
	rogue_buf = aligned_alloc(4096, ROGUE_BUF_BYTES);
	memset(rogue_buf, 0, ROGUE_BUF_BYTES);
	assert_int_equal(rdma_dev_open("mlx5_0", 1, &dev), 0);
	assert_int_equal(rdma_dev_gid(&dev, NULL, &gid), 0);
	assert_int_equal(rdma_mr_reg_bytes(&dev, dev.pd, rogue_buf, ROGUE_BUF_BYTES,
					   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &mr),
			 0);
	return 0;
}

int rogue_dev_close(void **state SPW_UNUSED)
{
	ibv_dereg_mr(mr);
	rdma_dev_close(&dev);
	free(rogue_buf);
	return 0;
}

/* ---- a rogue ---- */

static int tcp_connect(uint16_t port)
{
	struct sockaddr_in sa = {.sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

static void qp_make(struct rogue *r)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = 128,
						.max_recv_wr = 128,
						.max_send_sge = 1,
						.max_recv_sge = 1}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

	r->cq = ibv_create_cq(dev.ctx, 512, NULL, NULL, 0);
	assert_non_null(r->cq);
	init.send_cq = init.recv_cq = r->cq;
	r->qp = ibv_create_qp(dev.pd, &init);
	assert_non_null(r->qp);
	assert_int_equal(
		ibv_modify_qp(r->qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	for (int i = 0; i < 64; i++) {
		struct ibv_sge sge = {.addr = (uintptr_t)rogue_buf + 32 * ROGUE_SLOT,
				      .length = ROGUE_SLOT,
				      .lkey = mr->lkey};
		struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

		assert_int_equal(ibv_post_recv(r->qp, &wr, &bad), 0);
	}
}

static void qp_ready(struct rogue *r)
{
	const struct peer_params *to = &r->x.theirs;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = to->qpn,
		.rq_psn = to->psn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.sgid_index = gid.index, .hop_limit = 64}},
	};

	memcpy(attr.ah_attr.grh.dgid.raw, to->gid, 16);
	assert_int_equal(ibv_modify_qp(r->qp, &attr,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
			 0);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .timeout = 14,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .sq_psn = r->ours.psn,
				    .max_rd_atomic = 1};
	assert_int_equal(ibv_modify_qp(r->qp, &attr,
				       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					       IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
}

static bool agreed(struct kit_end *const *end SPW_UNUSED, uint32_t cnt SPW_UNUSED, const void *arg)
{
	struct rogue *r = (struct rogue *)(uintptr_t)arg;

	switch (peer_exchange_step(&r->x, 0)) {
	case PEER_TURN_TO_OFFER:
		peer_exchange_offer(&r->x, &r->ours);
		break;
	case PEER_TURN_TO_READY:
		qp_ready(r);
		peer_exchange_ready(&r->x);
		break;
	case PEER_TURN_FAILED:
		fail_msg("the rogue was refused: %s", peer_refused_name(r->x.why));
		break;
	default:
		break;
	}
	return r->x.turn == PEER_TURN_DONE;
}

void rogue_post(struct rogue *r, enum ibv_wr_opcode op, uint32_t len, uint32_t imm, uint64_t raddr,
		uint32_t rkey)
{
	struct ibv_sge sge = {.addr = (uintptr_t)rogue_buf, .length = len, .lkey = mr->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
				       .num_sge = len ? 1 : 0,
				       .opcode = op,
				       .imm_data = htonl(imm),
				       .wr.rdma = {.remote_addr = raddr, .rkey = rkey}};

	assert_int_equal(ibv_post_send(r->qp, &wr, &bad), 0);
}

void rogue_open(struct rogue *r, struct kit_end *const *end, uint16_t port, enum spw_peer_op op)
{
	memset(r, 0, sizeof(*r));
	qp_make(r);
	r->ours = (struct peer_params){.qpn = r->qp->qp_num,
				       .psn = 77,
				       .mtu = 1024,
				       .op = (uint8_t)op,
				       .credit_cnt = ROGUE_CREDITS,
				       .slot_bytes = ROGUE_SLOT};
	memcpy(r->ours.gid, gid.gid.raw, 16);
	if (op == SPW_PEER_OP_WRITE) {
		r->ours.slot_stride = ROGUE_SLOT;
		r->ours.slot_rkey = r->ours.ring_rkey = mr->rkey;
		r->ours.slot_addr = (uintptr_t)rogue_buf + 40 * ROGUE_SLOT;
		r->ours.ring_addr = (uintptr_t)rogue_buf + 60 * ROGUE_SLOT;
		r->ours.ring_cnt = 1024;
	}
	r->fd = tcp_connect(port);
	peer_exchange_client(&r->x, r->fd, &no_secret, UINT64_MAX);
	kit_until(end, 2, true, agreed, r, "the rogue's exchange");
	rogue_post(r, IBV_WR_SEND_WITH_IMM, 0, ROGUE_CREDITS, 0, 0); /* the greeting */
}

void rogue_close(struct rogue *r)
{
	close(r->fd);
	ibv_destroy_qp(r->qp);
	ibv_destroy_cq(r->cq);
}

void rogue_write_slot(struct rogue *r, uint32_t slot, uint32_t imm, uint32_t len)
{
	const struct peer_params *to = &r->x.theirs;

	rogue_post(r, IBV_WR_RDMA_WRITE_WITH_IMM, len, imm,
		   to->slot_addr + (uint64_t)slot * to->slot_stride, to->slot_rkey);
}
