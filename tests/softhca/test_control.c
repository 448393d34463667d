/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The control path through rdma-core's own libraries: what is created works, what is busy stays, what is not
 * there is refused with the kernel's errno, and events say what happened.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verbs_kit.h"

#define RW (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define LEN 256u

static struct kit kit;
static struct kit_end a, b;

static void send_one(unsigned seed)
{
	uint8_t *to = kit.buf + KIT_BUF_BYTES / 2 + seed * LEN;

	kit_fill(kit.buf + seed * LEN, LEN, seed);
	assert_int_equal(kit_recv(&b, to, LEN, kit.mr->lkey), 0);
	assert_int_equal(kit_post(&a, IBV_WR_SEND, kit.buf + seed * LEN, LEN, kit.mr->lkey, 0, 0, IBV_SEND_SIGNALED), 0);
}

/* Completions that lie in the old ring, unread, come out of the new one, in order and once. */
static void test_resize_cq(void **state)
{
	static const int sizes[] = {300, 1000, 40};
	struct ibv_wc wc[10];

	(void)state;
	kit_pair_open(&kit, &a, &b, &(struct kit_how){.cqe = 100});
	for (size_t s = 0; s < 3; s++) {
		for (unsigned i = 0; i < 10; i++)
			send_one(i);
		/* The sender's completions say that the receiver's are there. */
		assert_int_equal(kit_poll(a.cq, wc, 10, KIT_WAIT_MS), 10);
		assert_int_equal(ibv_resize_cq(b.cq, sizes[s]), 0);
		assert_true(b.cq->cqe >= sizes[s]);
		assert_int_equal(kit_poll(b.cq, wc, 10, KIT_WAIT_MS), 10);
		for (unsigned i = 0; i < 10; i++) {
			assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
			assert_int_equal(wc[i].byte_len, LEN);
			assert_true(kit_same(kit.buf + KIT_BUF_BYTES / 2 + i * LEN, LEN, i));
		}
		kit_check_alive(&kit, &a, &b);
	}
	kit_end_close(&a);
	kit_end_close(&b);
}

/* Any descriptor that can be mapped stands in for a dma-buf. */
static void test_dmabuf(void **state)
{
	int fd = memfd_create("dmabuf", 0);
	struct ibv_mr *mr;
	struct ibv_wc wc;
	uint8_t *at;

	(void)state;
	assert_int_equal(ftruncate(fd, 65536), 0);
	at = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(at != MAP_FAILED);
	mr = ibv_reg_dmabuf_mr(kit.pd, 4096, 8192, 4096, fd, RW);
	assert_non_null(mr);
	kit_pair_open(&kit, &a, &b, &(struct kit_how){0});
	kit_fill(kit.buf, LEN, 1);
	assert_int_equal(kit_post(&a, IBV_WR_RDMA_WRITE, kit.buf, LEN, kit.mr->lkey, 4096 + 100, mr->rkey,
				  IBV_SEND_SIGNALED), 0);
	kit_expect(a.cq, IBV_WC_SUCCESS, &wc);
	assert_true(kit_same(at + 4096 + 100, LEN, 1));
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_null(ibv_reg_dmabuf_mr(kit.pd, 0, 4096, 0, 12345, RW));
	kit_end_close(&a);
	kit_end_close(&b);
	munmap(at, 65536);
	close(fd);
}

static void test_rereg(void **state)
{
	uint8_t *mem = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = ibv_reg_mr(kit.pd, mem, 4096, RW);
	struct ibv_wc wc;
	uint32_t old;

	(void)state;
	assert_non_null(mr);
	old = mr->rkey;
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, mem, 65536, 0), 0);
	kit_pair_open(&kit, &a, &b, &(struct kit_how){0});
	kit_fill(kit.buf, LEN, 2);
	assert_int_equal(kit_post(&a, IBV_WR_RDMA_WRITE, kit.buf, LEN, kit.mr->lkey, (uintptr_t)mem + 60000, mr->rkey,
				  IBV_SEND_SIGNALED), 0);
	kit_expect(a.cq, IBV_WC_SUCCESS, &wc);
	assert_true(kit_same(mem + 60000, LEN, 2));
	assert_int_equal(kit_post(&a, IBV_WR_RDMA_WRITE, kit.buf, LEN, kit.mr->lkey, (uintptr_t)mem, old, IBV_SEND_SIGNALED),
			 0);
	kit_expect(a.cq, IBV_WC_REM_ACCESS_ERR, &wc);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	kit_end_close(&a);
	kit_end_close(&b);
	munmap(mem, 65536);
}

/* The limit is told once and disarmed; a QP that leaves an SRQ says when it takes no more from it. */
static void test_srq_events(void **state)
{
	struct ibv_srq *srq = ibv_create_srq(kit.pd, &(struct ibv_srq_init_attr){.attr = {.max_wr = 16, .max_sge = 1}});
	struct ibv_srq_attr attr = {.srq_limit = 3};
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	struct ibv_wc wc;

	(void)state;
	assert_non_null(srq);
	kit_pair_open(&kit, &a, &b, &(struct kit_how){.srq = srq});
	for (unsigned i = 0; i < 4; i++) {
		struct ibv_sge sge = {(uintptr_t)kit.buf + KIT_BUF_BYTES / 2, LEN, kit.mr->lkey};
		struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

		assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
	}
	assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(kit_post(&a, IBV_WR_SEND, kit.buf, LEN, kit.mr->lkey, 0, 0, IBV_SEND_SIGNALED), 0);
		kit_expect(b.cq, IBV_WC_SUCCESS, &wc);
	}
	kit_expect_event(&kit, IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_int_equal(ibv_query_srq(srq, &attr), 0);
	assert_int_equal(attr.srq_limit, 0);
	assert_int_equal(ibv_modify_qp(b.qp, &err, IBV_QP_STATE), 0);
	kit_expect_event(&kit, IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_int_equal(ibv_destroy_srq(srq), EBUSY);
	/* Would hang if a destroy reported an event that nobody was given. */
	kit_end_close(&a);
	kit_end_close(&b);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static struct ibv_qp *rss_qp(struct ibv_rwq_ind_table *tbl, uint64_t fields)
{
	static uint8_t key[40] = {0x6d, 0x5a, 1};
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
		.pd = kit.pd,
		.rwq_ind_tbl = tbl,
		.rx_hash_conf = {IBV_RX_HASH_FUNC_TOEPLITZ, sizeof(key), key, fields}};

	return ibv_create_qp_ex(kit.ctx, &attr);
}

static void test_rss_objects(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(kit.ctx, 127, NULL, NULL, 0);
	struct ibv_wq_init_attr wa = {.wq_type = IBV_WQT_RQ, .max_wr = 64, .max_sge = 1, .pd = kit.pd, .cq = cq};
	struct mlx5dv_wq_init_attr striding = {.comp_mask = MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ,
					       .striding_rq_attrs = {.single_stride_log_num_of_bytes = 8,
								     .single_wqe_log_num_of_strides = 6}};
	struct ibv_wq_attr rdy = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY};
	struct ibv_wq *wq[2] = {ibv_create_wq(kit.ctx, &wa), mlx5dv_create_wq(kit.ctx, &wa, &striding)};
	struct ibv_rwq_ind_table_init_attr ta = {.log_ind_tbl_size = 1, .ind_tbl = wq};
	struct ibv_rwq_ind_table *tbl;
	struct ibv_flow_attr all = {.type = IBV_FLOW_ATTR_ALL_DEFAULT, .size = sizeof(all), .port = 1};
	struct ibv_flow *flow;
	struct ibv_qp *qp;

	(void)state;
	assert_true(cq && wq[0] && wq[1]);
	assert_int_equal(ibv_modify_wq(wq[0], &rdy), 0);
	rdy.wq_state = IBV_WQS_ERR;
	assert_int_not_equal(ibv_modify_wq(wq[1], &rdy), 0); /* not from RESET */
	tbl = ibv_create_rwq_ind_table(kit.ctx, &ta);
	assert_non_null(tbl);
	assert_null(rss_qp(tbl, IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_SRC_IPV6));
	assert_int_equal(errno, EINVAL);
	qp = rss_qp(tbl, IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4);
	assert_non_null(qp);
	flow = ibv_create_flow(qp, &all);
	assert_non_null(flow);
	assert_int_equal(ibv_destroy_qp(qp), EBUSY);
	assert_int_equal(ibv_destroy_rwq_ind_table(tbl), EBUSY);
	assert_int_equal(ibv_destroy_wq(wq[0]), EBUSY);
	assert_int_equal(ibv_destroy_flow(flow), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_rwq_ind_table(tbl), 0);
	assert_int_equal(ibv_destroy_wq(wq[0]), 0);
	assert_int_equal(ibv_destroy_wq(wq[1]), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void test_not_there(void **state)
{
	struct ibv_alloc_dm_attr dm = {.length = 64};
	struct ibv_xrcd_init_attr xrc = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1,
					 .oflags = O_CREAT};

	(void)state;
	assert_null(ibv_alloc_mw(kit.pd, IBV_MW_TYPE_1));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(ibv_alloc_dm(kit.ctx, &dm));
	assert_null(ibv_open_xrcd(kit.ctx, &xrc));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(ibv_reg_mr(kit.pd, kit.buf, 4096, IBV_ACCESS_REMOTE_WRITE));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_mr(kit.pd, (void *)4096, 4096, 0));
	assert_int_equal(errno, EFAULT);
	assert_int_equal(ibv_dealloc_pd(kit.pd), EBUSY);
}

static uint64_t raw_clock(void)
{
	struct ibv_values_ex v = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};

	assert_int_equal(ibv_query_rt_values_ex(kit.ctx, &v), 0);
	return (uint64_t)v.raw_clock.tv_nsec;
}

static void test_clock(void **state)
{
	uint64_t from = raw_clock();
	struct mlx5dv_clock_info ci;

	(void)state;
	for (unsigned ms = 0; ms < KIT_WAIT_MS && raw_clock() == from; ms++)
		usleep(1000);
	assert_true(raw_clock() > from);
	assert_int_equal(mlx5dv_get_clock_info(kit.ctx, &ci), 0);
	assert_true(mlx5dv_ts_to_ns(&ci, from) <= mlx5dv_ts_to_ns(&ci, raw_clock()));
}

static unsigned long long counter(const char *name)
{
	char path[512], text[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "%s/ports/1/counters/%s", kit.ctx->device->ibdev_path, name);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_non_null(fgets(text, sizeof(text), f));
	fclose(f);
	return strtoull(text, NULL, 10);
}

static void test_counters(void **state)
{
	unsigned long long before = counter("port_xmit_packets");

	(void)state;
	kit_pair_open(&kit, &a, &b, &(struct kit_how){0});
	kit_check_alive(&kit, &a, &b);
	assert_true(counter("port_xmit_packets") > before);
	kit_end_close(&a);
	kit_end_close(&b);
}

/* A child has a NIC of its own, and its end is nothing to the parent. */
static void test_fork(void **state)
{
	pid_t child;
	int status;

	(void)state;
	kit_pair_open(&kit, &a, &b, &(struct kit_how){0});
	child = fork();
	if (child == 0) {
		struct ibv_device **list = ibv_get_device_list(NULL);
		struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
		struct ibv_pd *pd = ctx ? ibv_alloc_pd(ctx) : NULL;

		exit(pd && ibv_dealloc_pd(pd) == 0 && ibv_close_device(ctx) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	kit_check_alive(&kit, &a, &b);
	kit_end_close(&a);
	kit_end_close(&b);
}

static int setup(void **state)
{
	(void)state;
	kit_open(&kit);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kit_close(&kit);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_resize_cq), cmocka_unit_test(test_dmabuf),      cmocka_unit_test(test_rereg),
		cmocka_unit_test(test_srq_events), cmocka_unit_test(test_rss_objects), cmocka_unit_test(test_not_there),
		cmocka_unit_test(test_clock),     cmocka_unit_test(test_counters),    cmocka_unit_test(test_fork),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
