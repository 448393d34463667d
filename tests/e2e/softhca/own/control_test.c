/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The control path through rdma-core's own libraries: created objects work, busy ones cannot be
 * destroyed, what is not modelled is refused with the kernel's errno, and events report what
 * happened.
 */
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "verbs_kit.h"

#define RW  (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define LEN 256u

static struct kit kit;
static struct kit_end a, b;

static void send_one(unsigned seed)
{
	uint8_t *to = kit.buf + KIT_BUF_BYTES / 2 + seed * LEN;

	kit_fill(kit.buf + seed * LEN, LEN, seed);
	assert_int_equal(kit_recv(&b, to, LEN, kit.mr->lkey), 0);
	assert_int_equal(kit_post(&a, IBV_WR_SEND, kit.buf + seed * LEN, LEN, kit.mr->lkey, 0, 0),
			 0);
}

/* Unread completions move from the old ring to the new one: each once, in order. */
static void test_resize_cq(void **state)
{
	static const int sizes[] = {300, 1000, 40};
	struct ibv_wc wc[10];

	(void)state;
	kit_pair_open(&kit, &a, &b, &(struct kit_how){.cqe = 100});
	for (size_t s = 0; s < 3; s++) {
		for (unsigned i = 0; i < 10; i++)
			send_one(i);
		/* The sender's completions imply that the receiver's have been written. */
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

/* Arms the CQ, sends `cnt` requests and waits for the event. Returns: how long that took. */
static uint64_t event_us(struct ibv_comp_channel *ch, struct ibv_cq *cq, struct ibv_qp *qp, int cnt)
{
	struct ibv_sge sge = {(uintptr_t)kit.buf, 8, kit.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {(uintptr_t)kit.buf + 4096, kit.mr->rkey}},
			   *bad;
	struct ibv_wc wc[16];
	uint64_t from;
	void *ctx;

	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	from = kit_now_us();
	for (int i = 0; i < cnt; i++)
		assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	assert_int_equal(ibv_get_cq_event(ch, &cq, &ctx), 0);
	from = kit_now_us() - from;
	ibv_ack_cq_events(cq, 1);
	assert_int_equal(kit_poll(cq, wc, cnt, KIT_WAIT_MS), cnt);
	return from;
}

/* The event comes when the moderation time after the first completion is over or the number of
 * completions is reached; with one of them 0, at once. */
static void test_moderation(void **state)
{
	struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE,
					  .moderate = {.cq_count = 4, .cq_period = 4000}};
	struct ibv_comp_channel *ch = ibv_create_comp_channel(kit.ctx);
	struct ibv_cq *cq = ch ? ibv_create_cq(kit.ctx, 63, NULL, ch, 0) : NULL;
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 16, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct kit_end e = {cq, cq ? ibv_create_qp(kit.pd, &init) : NULL};
	uint64_t least = UINT64_MAX;

	(void)state;
	assert_non_null(e.qp);
	kit_end_connect(&kit, &e, e.qp->qp_num, &(struct kit_how){0}); /* to itself */
	assert_int_equal(ibv_modify_cq(cq, &attr), 0);
	for (int i = 0; i < 5; i++)
		assert_true(event_us(ch, cq, e.qp, 3) >=
			    3950); /* the two clocks may differ by a little */
	for (int i = 0; i < 200 && least >= 3950; i++) {
		const uint64_t us = event_us(ch, cq, e.qp, 4);

		least = us < least ? us : least;
	}
	assert_true(least < 3950);
	attr.moderate.cq_count = 0;
	assert_int_equal(ibv_modify_cq(cq, &attr), 0);
	for (least = UINT64_MAX; least >= 3950;)
		least = event_us(ch, cq, e.qp, 1);
	attr.moderate.cq_period = 0x1000;
	assert_int_equal(ibv_modify_cq(cq, &attr), EINVAL);
	kit_end_close(&e);
	assert_int_equal(ibv_destroy_comp_channel(ch), 0);
}

/* The limit is reported once and disarmed; a QP that leaves an SRQ reports when it takes no more
 * from it.
 */
static void test_srq_events(void **state)
{
	struct ibv_srq *srq = ibv_create_srq(
		kit.pd, &(struct ibv_srq_init_attr){.attr = {.max_wr = 16, .max_sge = 1}});
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
		assert_int_equal(kit_post(&a, IBV_WR_SEND, kit.buf, LEN, kit.mr->lkey, 0, 0), 0);
		kit_expect(b.cq, IBV_WC_SUCCESS, &wc);
	}
	kit_expect_event(&kit, IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_int_equal(ibv_query_srq(srq, &attr), 0);
	assert_int_equal(attr.srq_limit, 0);
	assert_int_equal(ibv_modify_qp(b.qp, &err, IBV_QP_STATE), 0);
	kit_expect_event(&kit, IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_int_equal(ibv_destroy_srq(srq), EBUSY);
	/* Would hang if a destroy reported an event that was never delivered. */
	kit_end_close(&a);
	kit_end_close(&b);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static struct ibv_qp *rss_qp(struct ibv_rwq_ind_table *tbl, uint64_t fields)
{
	static uint8_t key[40] = {0x6d, 0x5a, 1};
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE |
			     IBV_QP_INIT_ATTR_RX_HASH,
		.pd = kit.pd,
		.rwq_ind_tbl = tbl,
		.rx_hash_conf = {IBV_RX_HASH_FUNC_TOEPLITZ, sizeof(key), key, fields}};

	return ibv_create_qp_ex(kit.ctx, &attr);
}

static void test_rss_objects(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(kit.ctx, 127, NULL, NULL, 0);
	struct ibv_wq_init_attr wa = {
		.wq_type = IBV_WQT_RQ, .max_wr = 64, .max_sge = 1, .pd = kit.pd, .cq = cq};
	struct mlx5dv_wq_init_attr striding = {
		.comp_mask = MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ,
		.striding_rq_attrs = {.single_stride_log_num_of_bytes = 8,
				      .single_wqe_log_num_of_strides = 6}};
	struct ibv_wq_attr rdy = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY};
	struct ibv_wq *wq[2] = {ibv_create_wq(kit.ctx, &wa),
				mlx5dv_create_wq(kit.ctx, &wa, &striding)};
	struct ibv_rwq_ind_table_init_attr ta = {.log_ind_tbl_size = 1, .ind_tbl = wq};
	struct ibv_rwq_ind_table *tbl;
	struct ibv_flow_attr all = {
		.type = IBV_FLOW_ATTR_ALL_DEFAULT, .size = sizeof(all), .port = 1};
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
	struct ibv_xrcd_init_attr xrc = {.comp_mask = IBV_XRCD_INIT_ATTR_FD |
						      IBV_XRCD_INIT_ATTR_OFLAGS,
					 .fd = -1,
					 .oflags = O_CREAT};

	(void)state;
	assert_null(ibv_alloc_mw(kit.pd, IBV_MW_TYPE_1));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(ibv_alloc_dm(kit.ctx, &dm));
	assert_null(ibv_create_counters(kit.ctx, &(struct ibv_counters_init_attr){0}));
	assert_int_equal(errno, EPROTONOSUPPORT);
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

/* The value of --clock offset=. */
static uint64_t clock_offset(void)
{
	const char *options = getenv("SPW_SOFTHCA"),
		   *at = options ? strstr(options, "clock=offset=") : NULL;

	return at ? strtoull(at + strlen("clock=offset="), NULL, 10) : 0;
}

static uint64_t host_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* The stamp of a completion lies between a moment before its request and one after it, on the NIC's
 * clock. */
static void test_stamps(void **state)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 63,
					   .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(kit.ctx, &attr);
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = ibv_cq_ex_to_cq(cq),
		.recv_cq = ibv_cq_ex_to_cq(cq),
		.cap = {.max_send_wr = 16, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct kit_end e = {ibv_cq_ex_to_cq(cq), ibv_create_qp(kit.pd, &init)};

	(void)state;
	assert_non_null(e.qp);
	kit_end_connect(&kit, &e, e.qp->qp_num, &(struct kit_how){0});
	for (int i = 0; i < 100; i++) {
		const uint64_t before = host_ns() + clock_offset();
		uint64_t stamp;

		assert_int_equal(kit_post(&e, IBV_WR_RDMA_WRITE, kit.buf, 8, kit.mr->lkey,
					  (uintptr_t)kit.buf + 4096, kit.mr->rkey),
				 0);
		while (ibv_start_poll(cq, &(struct ibv_poll_cq_attr){0}))
			assert_true(host_ns() + clock_offset() - before < KIT_WAIT_MS * 1000000ull);
		assert_int_equal(cq->status, IBV_WC_SUCCESS);
		stamp = ibv_wc_read_completion_ts(cq);
		ibv_end_poll(cq);
		assert_in_range(stamp, before, host_ns() + clock_offset());
	}
	kit_end_close(&e);
}

static void test_clock(void **state)
{
	uint64_t from = raw_clock();
	struct mlx5dv_clock_info ci;

	(void)state;
	for (unsigned ms = 0; ms < KIT_WAIT_MS && raw_clock() == from; ms++)
		usleep(1000);
	assert_true(raw_clock() > from);
	assert_in_range(from, 0, host_ns() + clock_offset());
	assert_in_range(host_ns() + clock_offset() - from, 0,
			2ull * KIT_WAIT_MS * 1000000); /* a page may be stale, not wrong */
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

/* The value of one counter, read as ethtool -S does. */
static unsigned long long ethtool_stat(const char *name)
{
	static _Alignas(8) char strings[sizeof(struct ethtool_gstrings) + 64 * ETH_GSTRING_LEN],
		stats[sizeof(struct ethtool_stats) + 64 * 8];
	struct ethtool_gstrings *s = (void *)strings;
	struct ethtool_stats *v = (void *)stats;
	struct ifreq ifr = {.ifr_name = "lo"};
	const int fd = socket(AF_INET, SOCK_DGRAM, 0);

	s->cmd = ETHTOOL_GSTRINGS;
	s->string_set = ETH_SS_STATS;
	v->cmd = ETHTOOL_GSTATS;
	ifr.ifr_data = (void *)s;
	assert_int_equal(ioctl(fd, SIOCETHTOOL, &ifr), 0);
	ifr.ifr_data = (void *)v;
	assert_int_equal(ioctl(fd, SIOCETHTOOL, &ifr), 0);
	close(fd);
	assert_int_equal(s->len, v->n_stats);
	for (uint32_t i = 0; i < s->len; i++)
		if (strcmp((char *)s->data + i * ETH_GSTRING_LEN, name) == 0)
			return v->data[i];
	fail_msg("no %s", name);
	return 0;
}

/* The counters of the interface (--netdev lo) are the port's. */
static void test_ethtool(void **state)
{
	const unsigned long long packets = ethtool_stat("rx_packets_phy"),
				 bytes = ethtool_stat("rx_bytes_phy");

	(void)state;
	kit_pair_open(&kit, &a, &b, &(struct kit_how){0});
	kit_check_alive(&kit, &a, &b);
	kit_end_close(&a);
	kit_end_close(&b);
	assert_true(ethtool_stat("rx_packets_phy") > packets);
	assert_true(ethtool_stat("rx_bytes_phy") >
		    bytes + 60 * (ethtool_stat("rx_packets_phy") - packets));
	assert_int_equal(ethtool_stat("rx_packets_phy"), counter("port_rcv_packets"));
	assert_int_equal(ethtool_stat("tx_packets_phy"), counter("port_xmit_packets"));
	assert_int_equal(ethtool_stat("rx_discards_phy"), 0);
}

/* A forked child creates its own NIC, and its exit does not disturb the parent. */
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
		cmocka_unit_test(test_resize_cq),  cmocka_unit_test(test_moderation),
		cmocka_unit_test(test_srq_events), cmocka_unit_test(test_rss_objects),
		cmocka_unit_test(test_not_there),  cmocka_unit_test(test_clock),
		cmocka_unit_test(test_stamps),     cmocka_unit_test(test_counters),
		cmocka_unit_test(test_ethtool),    cmocka_unit_test(test_fork),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
