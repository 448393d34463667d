/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Queue pairs and completion queues in every state that they can reach, with the events and errors
 * of each.
 */
#include "verbs_kit.h"

#include <errno.h>
#include <string.h>

static struct kit k;

static int open_kit(void **state)
{
	(void)state;
	kit_open(&k);
	return 0;
}

static int close_kit(void **state)
{
	(void)state;
	kit_close(&k);
	return 0;
}

static int to_state(struct ibv_qp *qp, enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = {.qp_state = to};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

/* Query, transition to the same state where that is legal, reset and destroy, from every state that
 * a type can reach. */
static void each_state(enum ibv_qp_type type)
{
	static const enum ibv_qp_state ends[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
						 IBV_QPS_RTS, IBV_QPS_ERR};
	static const enum ibv_qp_state wrong[] = {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_INIT,
						  IBV_QPS_INIT, IBV_QPS_RTS};

	for (unsigned i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		for (unsigned reset = 0; reset < 2; reset++) {
			const struct kit_how how = {.type = type};
			struct kit_end e;
			struct ibv_qp_attr attr;
			struct ibv_qp_init_attr init;

			kit_end_open(&k, &e, &how);
			kit_end_bring(&k, &e, e.qp->qp_num, &how,
				      ends[i] == IBV_QPS_ERR ? IBV_QPS_RTS : ends[i]);
			if (ends[i] == IBV_QPS_ERR)
				assert_int_equal(to_state(e.qp, IBV_QPS_ERR), 0);
			assert_int_equal(
				ibv_query_qp(e.qp, &attr, IBV_QP_STATE | IBV_QP_CAP, &init), 0);
			assert_int_equal(attr.qp_state, ends[i]);
			assert_int_equal(init.qp_type, type);
			assert_true(attr.cap.max_send_wr >= KIT_DEPTH);
			if (ends[i] == IBV_QPS_ERR)
				assert_int_equal(to_state(e.qp, IBV_QPS_ERR), 0);
			assert_int_equal(to_state(e.qp, wrong[i]), EINVAL);
			assert_int_equal(kit_state(e.qp), ends[i]);
			if (reset) {
				assert_int_equal(to_state(e.qp, IBV_QPS_RESET), 0);
				assert_int_equal(kit_state(e.qp), IBV_QPS_RESET);
				kit_end_bring(&k, &e, e.qp->qp_num, &how, IBV_QPS_RTS);
			}
			kit_end_close(&e);
		}
	}
}

static void test_states_rc(void **state)
{
	(void)state;
	each_state(IBV_QPT_RC);
}
static void test_states_uc(void **state)
{
	(void)state;
	each_state(IBV_QPT_UC);
}
static void test_states_ud(void **state)
{
	(void)state;
	each_state(IBV_QPT_UD);
}
static void test_states_raw(void **state)
{
	(void)state;
	each_state(IBV_QPT_RAW_PACKET);
}

/* A query returns what modify set. */
static void test_attributes(void **state)
{
	struct kit_how how = {.timeout = 9, .retry = 3, .rnr_retry = 2, .min_rnr_timer = 26};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct kit_end a, b;

	(void)state;
	kit_pair_open(&k, &a, &b, &how);
	assert_int_equal(
		ibv_query_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_TIMEOUT, &init), 0);
	assert_int_equal(attr.cur_qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.timeout, 9);
	assert_int_equal(attr.retry_cnt, 3);
	assert_int_equal(attr.rnr_retry, 2);
	assert_int_equal(attr.min_rnr_timer, 26);
	assert_int_equal(attr.dest_qp_num, b.qp->qp_num);
	assert_int_equal(attr.path_mtu, IBV_MTU_1024);
	assert_int_equal(attr.max_rd_atomic, 8);
	assert_int_equal(attr.max_dest_rd_atomic, 8);
	assert_int_equal(attr.port_num, 1);
	assert_int_equal(attr.ah_attr.is_global, 1);
	assert_int_equal(attr.ah_attr.grh.sgid_index, k.gid_idx);
	assert_memory_equal(&attr.ah_attr.grh.dgid, &k.gid, sizeof(k.gid));
	assert_ptr_equal(init.send_cq, a.cq);
	kit_end_close(&a);
	kit_end_close(&b);
}

static void post_ud(struct kit_end *e, struct ibv_ah *ah, uint32_t qpn, uint32_t lkey)
{
	struct ibv_sge sge = {(uintptr_t)k.buf, 64, lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.ud = {.ah = ah, .remote_qpn = qpn, .remote_qkey = 0x1111}},
			   *bad;

	assert_int_equal(ibv_post_send(e->qp, &wr, &bad), 0);
}

/* A datagram QP whose request fails stops sending (SQE) but receives, until it is set to RTS again.
 */
static void test_send_queue_error(void **state)
{
	const struct kit_how how = {.type = IBV_QPT_UD};
	struct ibv_ah_attr to = {.is_global = 1,
				 .port_num = 1,
				 .grh = {.dgid = k.gid, .sgid_index = k.gid_idx, .hop_limit = 64}};
	struct ibv_ah *ah = ibv_create_ah(k.pd, &to);
	struct kit_end a, b;

	(void)state;
	assert_non_null(ah);
	kit_pair_open(&k, &a, &b, &how);
	post_ud(&a, ah, b.qp->qp_num, k.mr->lkey ^ 0xff00);
	kit_expect(a.cq, IBV_WC_LOC_PROT_ERR, NULL);
	assert_int_equal(kit_state(a.qp), IBV_QPS_SQE);
	post_ud(&a, ah, b.qp->qp_num, k.mr->lkey);
	kit_expect(a.cq, IBV_WC_WR_FLUSH_ERR, NULL);
	assert_int_equal(kit_recv(&a, k.buf + 4096, 1000, k.mr->lkey), 0);
	post_ud(&b, ah, a.qp->qp_num, k.mr->lkey);
	kit_expect(b.cq, IBV_WC_SUCCESS, NULL);
	kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
	assert_int_equal(to_state(a.qp, IBV_QPS_RTS), 0);
	assert_int_equal(kit_recv(&b, k.buf + 8192, 1000, k.mr->lkey), 0);
	post_ud(&a, ah, b.qp->qp_num, k.mr->lkey);
	kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
	kit_expect(b.cq, IBV_WC_SUCCESS, NULL);
	kit_end_close(&a);
	kit_end_close(&b);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

/* Nothing is in flight: SQ_DRAINED comes at once. Requests posted in SQD wait. */
static void test_send_queue_drained(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct kit_end a, b;

	(void)state;
	kit_pair_open(&k, &a, &b, &(struct kit_how){0});
	assert_int_equal(kit_post(&a, IBV_WR_RDMA_WRITE, k.buf, 100000, k.mr->lkey,
				  (uintptr_t)k.buf + (1 << 20), k.mr->rkey),
			 0);
	kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
	assert_int_equal(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	kit_expect_event(&k, IBV_EVENT_SQ_DRAINED);
	assert_int_equal(kit_state(a.qp), IBV_QPS_SQD);
	assert_int_equal(kit_post(&a, IBV_WR_RDMA_WRITE, k.buf, 64, k.mr->lkey,
				  (uintptr_t)k.buf + (1 << 20), k.mr->rkey),
			 0);
	kit_expect_nothing(a.cq);
	assert_int_equal(to_state(a.qp, IBV_QPS_RTS), 0);
	kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
	kit_end_close(&a);
	kit_end_close(&b);
}

/* The peer sends first: one COMM_EST, though the QP is not yet in RTS. */
static void test_communication_established(void **state)
{
	struct kit_how how = {0};
	struct kit_end a, b;

	(void)state;
	kit_end_open(&k, &a, &how);
	kit_end_open(&k, &b, &how);
	kit_end_bring(&k, &b, a.qp->qp_num, &how, IBV_QPS_RTR);
	kit_end_bring(&k, &a, b.qp->qp_num, &how, IBV_QPS_RTS);
	assert_int_equal(kit_recv(&b, k.buf + 4096, 64, k.mr->lkey), 0);
	assert_int_equal(kit_recv(&b, k.buf + 4096, 64, k.mr->lkey), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(kit_post(&a, IBV_WR_SEND, k.buf, 64, k.mr->lkey, 0, 0), 0);
		kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
		kit_expect(b.cq, IBV_WC_SUCCESS, NULL);
	}
	kit_expect_event(&k, IBV_EVENT_COMM_EST);
	kit_expect_no_event(&k);
	kit_end_close(&a);
	kit_end_close(&b);
}

/* A peer cannot invalidate a user's region: the receive fails, and both QPs go to ERR. */
static void test_remote_invalidate(void **state)
{
	struct kit_how how = {.timeout = 8, .retry = 1};
	struct ibv_sge sge = {(uintptr_t)k.buf, 64, k.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND_WITH_INV,
				 .send_flags = IBV_SEND_SIGNALED,
				 .invalidate_rkey = k.mr->rkey},
			   *bad;
	struct kit_end a, b;

	(void)state;
	kit_pair_open(&k, &a, &b, &how);
	assert_int_equal(kit_recv(&b, k.buf + 4096, 64, k.mr->lkey), 0);
	assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
	kit_expect(b.cq, IBV_WC_REM_INV_REQ_ERR, NULL);
	assert_int_equal(kit_state(b.qp), IBV_QPS_ERR);
	kit_expect(a.cq, IBV_WC_RETRY_EXC_ERR, NULL);
	kit_end_close(&a);
	kit_end_close(&b);
	kit_pair_open(&k, &a, &b, &(struct kit_how){0}); /* the region is untouched */
	kit_check_alive(&k, &a, &b);
	kit_end_close(&a);
	kit_end_close(&b);
}

/* Opcodes that are not modelled: the request or the call fails. */
static void test_refused_work(void **state)
{
	struct kit_end a, b;
	struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV,
				 .send_flags = IBV_SEND_SIGNALED,
				 .invalidate_rkey = k.mr->rkey},
			   *bad;

	(void)state;
	kit_pair_open(&k, &a, &b, &(struct kit_how){0});
	assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
	kit_expect(a.cq, IBV_WC_LOC_QP_OP_ERR, NULL);
	kit_end_close(&a);
	kit_end_close(&b);
	assert_null(ibv_alloc_mw(k.pd, IBV_MW_TYPE_2));
	assert_int_equal(errno, EOPNOTSUPP);
}

/* ---- completion queues that are too small ---- */

/* 40 requests into a ring of 16, nobody polls. */
static void overrun(bool ignore, struct kit_end *a, struct kit_end *b)
{
	const struct kit_how how = {.cqe = 15, .ignore_overrun = ignore};

	kit_pair_open(&k, a, b, &how);
	for (int i = 0; i < 40; i++)
		assert_int_equal(kit_post(a, IBV_WR_RDMA_WRITE, k.buf, 8, k.mr->lkey,
					  (uintptr_t)k.buf + 4096, k.mr->rkey),
				 0);
}

static void test_cq_overrun_is_fatal(void **state)
{
	struct kit_end a, b;

	(void)state;
	overrun(false, &a, &b);
	kit_expect_event(&k, IBV_EVENT_CQ_ERR);
	assert_int_equal(kit_state(a.qp), IBV_QPS_ERR);
	assert_int_equal(kit_state(b.qp), IBV_QPS_RTS);
	kit_end_close(&a);
	kit_end_close(&b);
}

/* With IGNORE_OVERRUN nothing is checked: old completions are overwritten. */
static void test_cq_overrun_ignored(void **state)
{
	struct kit_end a, b;

	(void)state;
	overrun(true, &a, &b);
	kit_fill(k.buf, 64, 77);
	assert_int_equal(kit_post(&a, IBV_WR_RDMA_WRITE, k.buf, 64, k.mr->lkey,
				  (uintptr_t)k.buf + 8192, k.mr->rkey),
			 0);
	kit_expect_bytes(k.buf + 8192, 64, 77);
	kit_expect_no_event(&k);
	assert_int_equal(kit_state(a.qp), IBV_QPS_RTS);
	kit_end_close(&a);
	kit_end_close(&b);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, open_kit, close_kit)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CASE(test_states_rc),           CASE(test_states_uc),
		CASE(test_states_ud),           CASE(test_states_raw),
		CASE(test_attributes),          CASE(test_send_queue_error),
		CASE(test_send_queue_drained),  CASE(test_communication_established),
		CASE(test_remote_invalidate),   CASE(test_refused_work),
		CASE(test_cq_overrun_is_fatal), CASE(test_cq_overrun_ignored),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
