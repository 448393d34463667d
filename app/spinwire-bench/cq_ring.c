/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include "cq_ring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/spw_order.h"
#include "prm/spw_prm.h"

#define FRAME_BYTES 60u
#define SLOT_BYTES  2048u
#define FILL_S      30

static const uint8_t rx_mac[6] = {0x02, 0x73, 0x70, 0x77, 0x0c, 0x01};

static int complain(int status, const char *what)
{
	fprintf(stderr, "spinwire-bench cq: %s\n", what);
	return status;
}

/* ---- objects --------------------------------------------------------------------------------------- */

static int device_open(struct cq_ring_side *s, int index, size_t bytes)
{
	int cnt = 0;
	struct ibv_device **list = ibv_get_device_list(&cnt);

	s->ctx = list && index < cnt && mlx5dv_is_supported(list[index]) ? ibv_open_device(list[index]) : NULL;
	if (list)
		ibv_free_device_list(list);
	if (!s->ctx)
		return complain(2, "wants two mlx5 devices on one cable: tools/with-softhca --devices 2 spinwire-bench cq");
	s->pd = ibv_alloc_pd(s->ctx);
	s->bytes = aligned_alloc(4096, bytes);
	if (!s->pd || !s->bytes)
		return complain(2, "no memory for the frames");
	memset(s->bytes, 0, bytes);
	s->mr = ibv_reg_mr(s->pd, s->bytes, bytes, IBV_ACCESS_LOCAL_WRITE);
	return s->mr ? 0 : complain(2, "ibv_reg_mr failed: is the memlock limit large enough?");
}

static int to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state, .port_num = 1};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | (state == IBV_QPS_INIT ? IBV_QP_PORT : 0));
}

static int queues_open(struct cq_ring_side *s, uint32_t cnt, bool compressed)
{
	struct ibv_cq_init_attr_ex ca = {.cqe = cnt - 1, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
	struct mlx5dv_cq_init_attr dv = {0};
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.cap = {.max_send_wr = cnt, .max_recv_wr = cnt, .max_send_sge = 1, .max_recv_sge = 1},
	};

	if (compressed) {
		dv.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE;
		dv.cqe_comp_res_format = MLX5DV_CQE_RES_FORMAT_HASH;
	}
	s->cq = mlx5dv_create_cq(s->ctx, &ca, &dv);
	if (!s->cq)
		return complain(2, compressed ? "the device makes no compressed CQ" : "mlx5dv_create_cq failed");
	init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(s->cq);
	s->qp = ibv_create_qp(s->pd, &init);
	if (!s->qp || to_state(s->qp, IBV_QPS_INIT) || to_state(s->qp, IBV_QPS_RTR) || to_state(s->qp, IBV_QPS_RTS))
		return complain(2, "no raw packet QP: it needs CAP_NET_RAW on a real device");
	return 0;
}

static int steer(struct cq_ring_side *s)
{
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
	} rule = {
		.attr = {.type = IBV_FLOW_ATTR_NORMAL, .size = sizeof(rule), .num_of_specs = 1, .port = 1},
		.eth = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(rule.eth)},
	};

	memcpy(rule.eth.val.dst_mac, rx_mac, 6);
	memset(rule.eth.mask.dst_mac, 0xff, 6);
	s->flow = ibv_create_flow(s->qp, &rule.attr);
	return s->flow ? 0 : complain(2, "the device takes no flow rule");
}

/* ---- filling it once ------------------------------------------------------------------------------- */

static int post_receives(struct cq_ring *r)
{
	for (uint32_t i = 0; i < r->cnt; i++) {
		struct ibv_sge sge = {(uintptr_t)r->rx.bytes + (size_t)i * SLOT_BYTES, SLOT_BYTES, r->rx.mr->lkey};
		struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

		if (ibv_post_recv(r->rx.qp, &wr, &bad))
			return complain(2, "ibv_post_recv failed");
	}
	return 0;
}

/* One list, one doorbell: the frames follow each other as fast as the NIC sends. */
static int post_sends(struct cq_ring *r)
{
	struct ibv_sge sge = {(uintptr_t)r->tx.bytes, FRAME_BYTES, r->tx.mr->lkey};
	struct ibv_send_wr *wr = calloc(r->cnt, sizeof(*wr)), *bad;
	int rc;

	if (!wr)
		return complain(2, "no memory");
	memcpy(r->tx.bytes, rx_mac, 6);
	r->tx.bytes[6] = 0x02;
	r->tx.bytes[12] = 0x88; /* 88b5: local experiments */
	r->tx.bytes[13] = 0xb5;
	for (uint32_t i = 0; i < r->cnt; i++)
		wr[i] = (struct ibv_send_wr){.next = i + 1 < r->cnt ? &wr[i + 1] : NULL, .sg_list = &sge, .num_sge = 1,
					     .opcode = IBV_WR_SEND};
	rc = ibv_post_send(r->tx.qp, wr, &bad);
	free(wr);
	return rc ? complain(2, "ibv_post_send failed") : 0;
}

/* Length of what stands at entry i of lap 0, in entries; 0: not written yet. */
static uint32_t entry_len(const uint8_t *cqe)
{
	uint8_t op_own = spw_dma_load(&cqe[63]);

	if (op_own >> 4 == SPW_PRM_CQE_INVALID || op_own & 1)
		return 0;
	spw_dma_from_device(); /* owner before the rest; partner: the NIC writes op_own last */
	return (op_own >> 2 & 3) == SPW_PRM_CQE_FORMAT_COMPRESSED ? (uint32_t)spw_prm_cqe64_get_byte_cnt(cqe) : 1;
}

static uint32_t filled(struct cq_ring *r)
{
	uint32_t i = 0, len;

	r->sessions = 0;
	while (i < r->cnt && (len = entry_len((uint8_t *)r->mem.buf + (size_t)i * 64))) {
		r->sessions += (spw_dma_load((uint8_t *)r->mem.buf + (size_t)i * 64 + 63) >> 2 & 3) ==
			       SPW_PRM_CQE_FORMAT_COMPRESSED;
		i += len;
	}
	return i;
}

static int fill(struct cq_ring *r)
{
	const time_t until = time(NULL) + FILL_S;
	struct mlx5dv_obj obj = {.cq = {.in = ibv_cq_ex_to_cq(r->rx.cq), .out = &r->mem}};
	int rc;

	if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ))
		return complain(2, "mlx5dv_init_obj failed");
	if (r->mem.cqe_cnt != r->cnt || r->mem.cqe_size != 64)
		return complain(2, "the CQ is not what was asked for; unset MLX5_CQE_SIZE");
	rc = post_receives(r);
	if (!rc)
		rc = steer(&r->rx);
	if (!rc)
		rc = post_sends(r);
	while (!rc && filled(r) != r->cnt)
		if (time(NULL) > until)
			rc = complain(3, "not all frames came: are the two devices on one cable?");
	if (rc)
		return rc;
	r->kept = malloc((size_t)r->cnt * 64);
	if (!r->kept)
		return complain(2, "no memory");
	memcpy(r->kept, r->mem.buf, (size_t)r->cnt * 64);
	return 0;
}

int cq_ring_open(struct cq_ring *r, uint32_t cnt, bool compressed)
{
	int rc;

	*r = (struct cq_ring){.cnt = cnt};
	rc = device_open(&r->rx, 0, (size_t)cnt * SLOT_BYTES);
	if (!rc)
		rc = device_open(&r->tx, 1, SLOT_BYTES);
	if (!rc)
		rc = queues_open(&r->rx, cnt, compressed);
	if (!rc)
		rc = queues_open(&r->tx, cnt, false);
	if (!rc)
		rc = fill(r);
	if (!rc && compressed && !r->sessions)
		rc = complain(3, "the NIC compressed nothing");
	return rc;
}

void cq_ring_lay(struct cq_ring *r, uint32_t lap)
{
	uint8_t *ring = r->mem.buf;

	memcpy(ring, r->kept, (size_t)r->cnt * 64);
	for (uint32_t i = 0; lap & 1 && i < r->cnt; i += entry_len(r->kept + (size_t)i * 64))
		ring[(size_t)i * 64 + 63] |= 1;
}

static void side_close(struct cq_ring_side *s)
{
	if (s->flow)
		ibv_destroy_flow(s->flow);
	if (s->qp)
		ibv_destroy_qp(s->qp);
	if (s->cq)
		ibv_destroy_cq(ibv_cq_ex_to_cq(s->cq));
	if (s->mr)
		ibv_dereg_mr(s->mr);
	if (s->pd)
		ibv_dealloc_pd(s->pd);
	if (s->ctx)
		ibv_close_device(s->ctx);
	free(s->bytes);
}

void cq_ring_close(struct cq_ring *r)
{
	side_close(&r->rx);
	side_close(&r->tx);
	free(r->kept);
}
