/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A raw packet QP by plain verbs (raw_side.h): open, steer, send, close. Called by cq_ring.c,
 * bench_rx.c and softhca_raw.c, and by a test of lib/port/mlx5.
 *
 * Errors follow the benches: a line on stderr and the exit status, 2 if the machine cannot do it, 3
 * if something failed on the way. raw_side_close destroys what an open that failed has made.
 */
#include "raw_side.h"

#include <infiniband/mlx5dv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plat/spw_plat.h"

static int complain(int status, const char *what)
{
	fprintf(stderr, "spinwire-bench: %s\n", what);
	return status;
}

/* A device that is not mlx5 is skipped: the CQ is made by mlx5dv. */
static struct ibv_context *open_named(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	for (uint32_t i = 0; list && list[i] && !ctx; i++)
		if ((!name || !strcmp(ibv_get_device_name(list[i]), name)) &&
		    mlx5dv_is_supported(list[i]))
			ctx = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	return ctx;
}

static int device_open(struct raw_side *s, const char *name, size_t bytes)
{
	char why[SPW_PLAT_PIN_BYTES];

	s->ctx = open_named(name);
	if (!s->ctx) {
		fprintf(stderr,
			"spinwire-bench: %s is not an mlx5 device that can be opened; "
			"tools/with-softhca --devices N makes some\n",
			name ? name : "the first one");
		return 2;
	}
	s->pd = ibv_alloc_pd(s->ctx);
	s->bytes = aligned_alloc(4096, SPW_ALIGN_UP(bytes, (size_t)4096));
	if (!s->pd || !s->bytes)
		return complain(2, "no memory for the frames");
	memset(s->bytes, 0, bytes);
	s->mr = ibv_reg_mr(s->pd, s->bytes, bytes, IBV_ACCESS_LOCAL_WRITE);
	if (s->mr)
		return 0;
	spw_plat_pin_blame(NULL, bytes, why, sizeof(why));
	fprintf(stderr, "spinwire-bench: %zu bytes cannot be locked for the device: %s\n", bytes,
		why);
	return 2;
}

/* A raw packet QP has no peer: its transitions need no attribute but the port, at INIT. */
static int to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state, .port_num = 1};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | (state == IBV_QPS_INIT ? IBV_QP_PORT : 0));
}

/* libmlx5 adds one to cqe and rounds up to a power of 2, so cnt - 1 gives exactly cnt entries. One
 * CQ serves both directions. */
static int queues_open(struct raw_side *s, uint32_t cnt, bool compressed)
{
	struct ibv_cq_init_attr_ex ca = {.cqe = cnt - 1,
					 .wc_flags = IBV_WC_EX_WITH_BYTE_LEN |
						     IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
	struct mlx5dv_cq_init_attr dv = {0};
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.cap = {.max_send_wr = cnt,
			.max_recv_wr = cnt,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};

	if (compressed) {
		dv.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE;
		dv.cqe_comp_res_format = MLX5DV_CQE_RES_FORMAT_HASH;
	}
	s->cq = mlx5dv_create_cq(s->ctx, &ca, &dv);
	if (!s->cq)
		return complain(2, compressed ? "the device makes no compressed CQ"
					      : "mlx5dv_create_cq failed");
	init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(s->cq);
	s->qp = ibv_create_qp(s->pd, &init);
	if (!s->qp || to_state(s->qp, IBV_QPS_INIT) || to_state(s->qp, IBV_QPS_RTR) ||
	    to_state(s->qp, IBV_QPS_RTS))
		return complain(2, "no raw packet QP: it needs CAP_NET_RAW on a real device");
	return 0;
}

int raw_side_open(struct raw_side *s, const char *name, size_t bytes, uint32_t cnt, bool compressed)
{
	int status;

	*s = (struct raw_side){0};
	status = device_open(s, name, bytes);
	return status ? status : queues_open(s, cnt, compressed);
}

/* The spec must follow the attributes in memory without a gap (ibv_create_flow(3)). */
int raw_side_steer(struct raw_side *s, const uint8_t *mac)
{
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
	} rule = {
		.attr = {.type = IBV_FLOW_ATTR_NORMAL,
			 .size = sizeof(rule),
			 .num_of_specs = 1,
			 .port = 1},
		.eth = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(rule.eth)},
	};

	memcpy(rule.eth.val.dst_mac, mac, 6);
	memset(rule.eth.mask.dst_mac, 0xff, 6);
	s->flow = ibv_create_flow(s->qp, &rule.attr);
	return s->flow ? 0 : complain(2, "the device takes no flow rule");
}

/* All WQEs send the same bytes. The list costs one doorbell; only its last entry makes a CQE. */
int raw_side_send(struct raw_side *s, const uint8_t *dst_mac, uint32_t cnt)
{
	struct ibv_sge sge = {(uintptr_t)s->bytes, RAW_FRAME_BYTES, s->mr->lkey};
	struct ibv_send_wr *wr = calloc(cnt, sizeof(*wr)), *bad;
	int rc;

	if (!wr)
		return complain(2, "no memory");
	memcpy(s->bytes, dst_mac, 6);
	s->bytes[6] = 0x02;
	s->bytes[12] = 0x88; /* 88b5: local experiments */
	s->bytes[13] = 0xb5;
	for (uint32_t i = 0; i < cnt; i++)
		wr[i] = (struct ibv_send_wr){.next = i + 1 < cnt ? &wr[i + 1] : NULL,
					     .sg_list = &sge,
					     .num_sge = 1,
					     .opcode = IBV_WR_SEND,
					     .send_flags = i + 1 < cnt ? 0 : IBV_SEND_SIGNALED};
	rc = ibv_post_send(s->qp, wr, &bad);
	free(wr);
	return rc ? complain(2, "ibv_post_send failed") : 0;
}

int raw_side_sent(struct raw_side *s, uint32_t ms)
{
	struct ibv_wc wc;
	int got = 0;

	for (uint32_t i = 0; !got && i < ms * 20; i++) {
		got = ibv_poll_cq(ibv_cq_ex_to_cq(s->cq), 1, &wc);
		if (!got)
			usleep(50);
	}
	return got == 1 && wc.status == IBV_WC_SUCCESS ? 0
						       : complain(3, "the frames were not sent");
}

int raw_side_close(struct raw_side *s)
{
	int rc = s->flow ? ibv_destroy_flow(s->flow) : 0;

	if (s->qp)
		rc |= ibv_destroy_qp(s->qp);
	if (s->cq)
		rc |= ibv_destroy_cq(ibv_cq_ex_to_cq(s->cq));
	if (s->mr)
		rc |= ibv_dereg_mr(s->mr);
	if (s->pd)
		rc |= ibv_dealloc_pd(s->pd);
	if (s->ctx)
		rc |= ibv_close_device(s->ctx);
	free(s->bytes);
	return rc;
}
