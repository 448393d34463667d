/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include "verbs_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define ALL_RIGHTS                                                                   \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

uint64_t kit_counter(const struct kit *k, const char *name)
{
	char path[256];
	uint64_t value = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/%s",
		 ibv_get_device_name(k->ctx->device), name);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%" SCNu64, &value) != 1)
		fail_msg("%s: %s", path, strerror(errno));
	fclose(f);
	return value;
}

uint64_t kit_now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static uint64_t now_ms(void)
{
	return kit_now_us() / 1000;
}

static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

/* The last GID that is RoCE v2: the IPv4 one where there is one. */
static void find_gid(struct kit *k)
{
	struct ibv_port_attr port;
	struct ibv_gid_entry entry;
	bool found = false;

	assert_int_equal(ibv_query_port(k->ctx, 1, &port), 0);
	assert_int_equal(port.state, IBV_PORT_ACTIVE);
	for (int i = 0; i < port.gid_tbl_len; i++) {
		if (ibv_query_gid_ex(k->ctx, 1, (uint32_t)i, &entry, 0) ||
		    entry.gid_type != IBV_GID_TYPE_ROCE_V2)
			continue;
		k->gid = entry.gid;
		k->gid_idx = (uint8_t)i;
		found = true;
	}
	assert_true(found);
}

void kit_open(struct kit *k)
{
	kit_open_device(k, getenv("VERBS_KIT_DEVICE"));
}

void kit_open_device(struct kit *k, const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int i = 0;

	memset(k, 0, sizeof(*k));
	assert_non_null(list);
	while (name && list[i] && strcmp(ibv_get_device_name(list[i]), name) != 0)
		i++;
	assert_non_null(list[i]);
	k->ctx = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	assert_non_null(k->ctx);
	assert_int_equal(fcntl(k->ctx->async_fd, F_SETFL, O_NONBLOCK), 0);
	find_gid(k);
	k->pd = ibv_alloc_pd(k->ctx);
	assert_non_null(k->pd);
	k->buf = mmap(NULL, KIT_BUF_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	assert_true(k->buf != MAP_FAILED);
	k->mr = ibv_reg_mr(k->pd, k->buf, KIT_BUF_BYTES, ALL_RIGHTS);
	assert_non_null(k->mr);
}

void kit_close(struct kit *k)
{
	assert_int_equal(ibv_dereg_mr(k->mr), 0);
	munmap(k->buf, KIT_BUF_BYTES);
	assert_int_equal(ibv_dealloc_pd(k->pd), 0);
	assert_int_equal(ibv_close_device(k->ctx), 0);
}

void kit_end_open(struct kit *k, struct kit_end *e, const struct kit_how *how)
{
	struct ibv_qp_init_attr init = {
		.qp_type = how->type ? how->type : IBV_QPT_RC,
		.srq = how->srq,
		.cap = {.max_send_wr = KIT_DEPTH,
			.max_recv_wr = KIT_DEPTH,
			.max_send_sge = 4,
			.max_recv_sge = 4,
			.max_inline_data = 128},
	};

	struct ibv_cq_init_attr_ex attr = {
		.cqe = how->cqe ? how->cqe : 4 * KIT_DEPTH,
		.wc_flags = IBV_WC_STANDARD_FLAGS,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = how->ignore_overrun ? IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN : 0,
	};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(k->ctx, &attr);

	assert_non_null(cq);
	e->cq = ibv_cq_ex_to_cq(cq);
	init.send_cq = init.recv_cq = e->cq;
	e->qp = ibv_create_qp(k->pd, &init);
	assert_non_null(e->qp);
}

static uint8_t or_default(uint8_t v, uint8_t dflt, bool really_zero)
{
	return v || really_zero ? v : dflt;
}

static void to_init(struct kit_end *e)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x1111};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	if (e->qp->qp_type == IBV_QPT_RAW_PACKET) {
		mask = IBV_QP_STATE | IBV_QP_PORT;
	} else if (e->qp->qp_type == IBV_QPT_UD) {
		mask |= IBV_QP_QKEY;
	} else {
		attr.qp_access_flags = ALL_RIGHTS & ~(unsigned)IBV_ACCESS_LOCAL_WRITE;
		if (e->qp->qp_type == IBV_QPT_UC)
			attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
		mask |= IBV_QP_ACCESS_FLAGS;
	}
	assert_int_equal(ibv_modify_qp(e->qp, &attr, mask), 0);
}

static void to_rtr(struct kit *k, struct kit_end *e, uint32_t dest_qpn, const struct kit_how *how)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest_qpn,
		.rq_psn = 0xfffff0, /* wraps at once */
		.max_dest_rd_atomic = 8,
		.min_rnr_timer = or_default(how->min_rnr_timer, 1, false),
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = k->gid, .sgid_index = k->gid_idx, .hop_limit = 64}},
	};
	int mask = IBV_QP_STATE;

	if (e->qp->qp_type == IBV_QPT_RC || e->qp->qp_type == IBV_QPT_UC)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (e->qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	assert_int_equal(ibv_modify_qp(e->qp, &attr, mask), 0);
}

void kit_end_bring(struct kit *k, struct kit_end *e, uint32_t dest_qpn, const struct kit_how *how,
		   enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = 0xfffff0,
		.timeout = or_default(how->timeout, 14, false),
		.retry_cnt = or_default(how->retry, 7, how->no_retry),
		.rnr_retry = or_default(how->rnr_retry, 7, how->no_retry),
		.max_rd_atomic = 8,
	};
	int mask = IBV_QP_STATE | (e->qp->qp_type == IBV_QPT_RAW_PACKET ? 0 : IBV_QP_SQ_PSN);

	if (to >= IBV_QPS_INIT)
		to_init(e);
	if (to >= IBV_QPS_RTR)
		to_rtr(k, e, dest_qpn, how);
	if (to < IBV_QPS_RTS)
		return;
	if (e->qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	assert_int_equal(ibv_modify_qp(e->qp, &attr, mask), 0);
}

void kit_end_connect(struct kit *k, struct kit_end *e, uint32_t dest_qpn, const struct kit_how *how)
{
	kit_end_bring(k, e, dest_qpn, how, IBV_QPS_RTS);
}

void kit_pair_open(struct kit *k, struct kit_end *a, struct kit_end *b, const struct kit_how *how)
{
	static const struct kit_how plain;

	how = how ? how : &plain;
	kit_end_open(k, a, how);
	kit_end_open(k, b, how);
	kit_end_connect(k, a, b->qp->qp_num, how);
	kit_end_connect(k, b, a->qp->qp_num, how);
}

void kit_end_close(struct kit_end *e)
{
	assert_int_equal(ibv_destroy_qp(e->qp), 0);
	assert_int_equal(ibv_destroy_cq(e->cq), 0);
}

static struct ibv_send_wr request(enum ibv_wr_opcode op, struct ibv_sge *sge)
{
	return (struct ibv_send_wr){.wr_id = sge->addr,
				    .sg_list = sge,
				    .num_sge = sge->length ? 1 : 0,
				    .opcode = op,
				    .send_flags = IBV_SEND_SIGNALED,
				    .imm_data = htobe32(0xfeedf00d)};
}

int kit_post(struct kit_end *e, enum ibv_wr_opcode op, void *at, uint32_t len, uint32_t lkey,
	     uint64_t raddr, uint32_t rkey)
{
	struct ibv_sge sge = {.addr = (uintptr_t)at, .length = len, .lkey = lkey};
	struct ibv_send_wr wr = request(op, &sge), *bad;

	wr.wr.rdma.remote_addr = raddr;
	wr.wr.rdma.rkey = rkey;
	return ibv_post_send(e->qp, &wr, &bad);
}

int kit_post_inline(struct kit_end *e, void *at, uint32_t len)
{
	struct ibv_sge sge = {.addr = (uintptr_t)at, .length = len};
	struct ibv_send_wr wr = request(IBV_WR_SEND, &sge), *bad;

	wr.send_flags |= IBV_SEND_INLINE;
	return ibv_post_send(e->qp, &wr, &bad);
}

int kit_recv(struct kit_end *e, void *at, uint32_t len, uint32_t lkey)
{
	struct ibv_sge sge = {.addr = (uintptr_t)at, .length = len, .lkey = lkey};
	struct ibv_recv_wr wr = {.wr_id = (uintptr_t)at, .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	return ibv_post_recv(e->qp, &wr, &bad);
}

int kit_poll(struct ibv_cq *cq, struct ibv_wc *wc, int cnt, unsigned ms)
{
	const uint64_t end = now_ms() + ms;
	int got = 0;

	while (got < cnt) {
		const int n = ibv_poll_cq(cq, cnt - got, wc + got);

		assert_true(n >= 0);
		got += n;
		if (n == 0 && now_ms() >= end)
			break;
		if (n == 0)
			nap();
	}
	return got;
}

void kit_expect(struct ibv_cq *cq, enum ibv_wc_status status, struct ibv_wc *wc_out)
{
	struct ibv_wc wc;

	if (kit_poll(cq, &wc, 1, KIT_WAIT_MS) != 1)
		fail_msg("no completion; wanted %s", ibv_wc_status_str(status));
	if (wc.status != status)
		fail_msg("%s (vendor 0x%x); wanted %s", ibv_wc_status_str(wc.status), wc.vendor_err,
			 ibv_wc_status_str(status));
	if (wc_out)
		*wc_out = wc;
}

void kit_expect_nothing(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	if (kit_poll(cq, &wc, 1, KIT_QUIET_MS))
		fail_msg("a completion came: %s", ibv_wc_status_str(wc.status));
}

enum ibv_qp_state kit_state(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

void kit_expect_event(struct kit *k, enum ibv_event_type type)
{
	const uint64_t end = now_ms() + KIT_WAIT_MS;
	struct pollfd p = {.fd = k->ctx->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	while (now_ms() < end) {
		if (poll(&p, 1, 100) != 1 || ibv_get_async_event(k->ctx, &event))
			continue;
		ibv_ack_async_event(&event);
		if (event.event_type == type)
			return;
	}
	fail_msg("no event %s", ibv_event_type_str(type));
}

void kit_expect_no_event(struct kit *k)
{
	struct pollfd p = {.fd = k->ctx->async_fd, .events = POLLIN};

	assert_int_equal(poll(&p, 1, KIT_QUIET_MS), 0);
}

void kit_expect_bytes(const uint8_t *at, size_t len, unsigned seed)
{
	const uint64_t end = now_ms() + KIT_WAIT_MS;

	while (!kit_same(at, len, seed)) {
		assert_true(now_ms() < end);
		nap();
	}
}

void kit_check_alive(struct kit *k, struct kit_end *a, struct kit_end *b)
{
	const uint32_t len = 3000;
	uint8_t *to = k->buf + KIT_BUF_BYTES / 2;
	struct ibv_wc wc;

	kit_fill(k->buf, len, 77);
	memset(to, 0, len);
	assert_int_equal(kit_recv(b, to, len, k->mr->lkey), 0);
	assert_int_equal(kit_post(a, IBV_WR_SEND, k->buf, len, k->mr->lkey, 0, 0), 0);
	kit_expect(a->cq, IBV_WC_SUCCESS, NULL);
	kit_expect(b->cq, IBV_WC_SUCCESS, &wc);
	assert_int_equal(wc.byte_len, len);
	assert_true(kit_same(to, len, 77));
}

static uint8_t pattern(size_t i, unsigned seed)
{
	return (uint8_t)((i * 2654435761u + seed * 40503u) >> 13);
}

void kit_fill(uint8_t *at, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		at[i] = pattern(i, seed);
}

bool kit_same(const uint8_t *at, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		if (at[i] != pattern(i, seed))
			return false;
	return true;
}
