/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Faults on request: a program breaks its own device over the control socket (its path is the first
 * argument) and checks what rdma-core reports: events, states, error completions; and that traffic
 * goes on afterwards.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "verbs_kit.h"

#define LEN 1000u

static struct kit k;
static struct kit_end a, b;
static uint8_t *far; /* end b's half of the buffer */
static const char *control_path;
static int control = -1;

/* Sends one command. Returns: its line of answer. */
static void say(const char *format, unsigned number)
{
	char line[128], answer[512];
	int n = snprintf(line, sizeof(line), format, number);
	ssize_t got;

	assert_int_equal(send(control, strcat(line, "\n"), (size_t)n + 1, 0), n + 1);
	got = recv(control, answer, sizeof(answer) - 1, 0);
	assert_true(got > 0);
	answer[got] = '\0';
	if (strncmp(answer, "ok", 2))
		fail_msg("%s: %s", line, answer);
}

static void port_state_is(enum ibv_port_state state)
{
	struct ibv_port_attr port;

	assert_int_equal(ibv_query_port(k.ctx, 1, &port), 0);
	assert_int_equal(port.state, state);
}

/* The state of the port in sysfs, as in "4: ACTIVE". */
static void sysfs_state_is(const char *want)
{
	char path[256], text[64] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/state",
		 ibv_get_device_name(k.ctx->device));
	f = fopen(path, "r");
	assert_non_null(f);
	assert_non_null(fgets(text, sizeof(text), f));
	fclose(f);
	assert_memory_equal(text, want, strlen(want));
}

static int pair_open(void **state)
{
	*state = NULL;
	kit_pair_open(&k, &a, &b, &(struct kit_how){0});
	return 0;
}

static int pair_close(void **state)
{
	(void)state;
	kit_end_close(&a);
	kit_end_close(&b);
	return 0;
}

static void post_pair(unsigned seed)
{
	kit_fill(k.buf, LEN, seed);
	memset(far, 0, LEN);
	assert_int_equal(kit_recv(&b, far, LEN, k.mr->lkey), 0);
	assert_int_equal(kit_post(&a, IBV_WR_SEND, k.buf, LEN, k.mr->lkey, 0, 0), 0);
}

static void expect_pair(unsigned seed)
{
	kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
	kit_expect(b.cq, IBV_WC_SUCCESS, NULL);
	assert_true(kit_same(far, LEN, seed));
}

/* ---- the port ---- */

/* Events, state and sysfs report it; requests sent meanwhile arrive by retransmission. */
static void test_link_down_and_up(void **state)
{
	(void)state;
	say("link-down=60s", 0);
	post_pair(1);
	kit_expect_event(&k, IBV_EVENT_PORT_ERR);
	port_state_is(IBV_PORT_DOWN);
	sysfs_state_is("1: DOWN");
	say("link-down=0s", 0);
	kit_expect_event(&k, IBV_EVENT_PORT_ACTIVE);
	port_state_is(IBV_PORT_ACTIVE);
	sysfs_state_is("4: ACTIVE");
	expect_pair(1);
	kit_check_alive(&k, &a, &b);
}

/* Another fault that is set or taken back meanwhile lets no frame pass. */
static void test_link_down_while_faults_change(void **state)
{
	(void)state;
	say("link-down=60s", 0);
	say("fault=dup=0", 0);
	post_pair(7);
	kit_expect_nothing(b.cq);
	kit_expect_event(&k, IBV_EVENT_PORT_ERR);
	say("link-down=0s", 0);
	kit_expect_event(&k, IBV_EVENT_PORT_ACTIVE);
	expect_pair(7);
	kit_check_alive(&k, &a, &b);
}

/* The link is down for longer than the retries last: only the sender gets an error. */
static void test_link_down_for_too_long(void **state)
{
	struct ibv_wc wc;

	(void)state;
	kit_pair_open(&k, &a, &b, &(struct kit_how){.timeout = 8, .retry = 2}); /* 1 ms */
	say("link-down=1s", 0);
	post_pair(2);
	kit_expect(a.cq, IBV_WC_RETRY_EXC_ERR, &wc);
	assert_int_equal(kit_state(a.qp), IBV_QPS_ERR);
	assert_int_equal(kit_state(b.qp), IBV_QPS_RTS);
	kit_expect_event(&k, IBV_EVENT_PORT_ACTIVE);
	kit_end_close(&a);
	kit_end_close(&b);
}

static void wait_for_port(enum ibv_port_state state)
{
	const uint64_t from = kit_now_us();
	struct ibv_port_attr port = {0};

	do
		assert_int_equal(ibv_query_port(k.ctx, 1, &port), 0);
	while (port.state != state && kit_now_us() - from < KIT_WAIT_MS * 1000ull);
	assert_int_equal(port.state, state);
}

/* A bad cable: each way down is an event and is counted, and messages get over it. */
static void test_flapping_link(void **state)
{
	const uint64_t before = kit_counter(&k, "counters/link_downed");

	(void)state;
	say("fault=flap=60ms:120ms", 0);
	for (unsigned i = 0; i < 3; i++) {
		kit_expect_event(&k, IBV_EVENT_PORT_ERR);
		post_pair(8 + i);
		kit_expect_event(&k, IBV_EVENT_PORT_ACTIVE);
		expect_pair(8 + i);
	}
	say("fault=flap=none", 0);
	wait_for_port(IBV_PORT_ACTIVE);
	assert_true(kit_counter(&k, "counters/link_downed") >= before + 3);
	kit_check_alive(&k, &a, &b);
}

/* ---- receivers that are not ready ---- */

static void test_rnr_storm_is_waited_out(void **state)
{
	(void)state;
	say("rnr=60s", 0);
	post_pair(3);
	kit_expect_nothing(b.cq);
	say("rnr=0ms", 0);
	expect_pair(3);
	kit_check_alive(&k, &a, &b);
}

static void test_rnr_storm_without_retries(void **state)
{
	(void)state;
	kit_pair_open(&k, &a, &b, &(struct kit_how){.no_retry = true});
	say("rnr=10s", 0);
	post_pair(4);
	kit_expect(a.cq, IBV_WC_RNR_RETRY_EXC_ERR, NULL);
	say("rnr=0ms", 0);
	kit_end_close(&a);
	kit_end_close(&b);
}

/* ---- queues ---- */

static void test_cq_overrun(void **state)
{
	struct mlx5dv_cq dv;
	struct mlx5dv_obj obj = {.cq = {.in = b.cq, .out = &dv}};

	(void)state;
	assert_int_equal(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ), 0);
	say("cq-overrun=%u", dv.cqn);
	kit_expect_event(&k, IBV_EVENT_CQ_ERR);
	kit_expect_event(&k, IBV_EVENT_QP_FATAL);
	assert_int_equal(kit_state(b.qp), IBV_QPS_ERR);
	assert_int_equal(kit_state(a.qp), IBV_QPS_RTS);
}

/* Posted WQEs are flushed, and after RESET the QP works again. */
static void test_qp_error_and_back(void **state)
{
	const struct kit_how how = {0};
	struct ibv_wc wc[3];

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(kit_recv(&b, far, LEN, k.mr->lkey), 0);
	say("qp-error=%u", b.qp->qp_num);
	kit_expect_event(&k, IBV_EVENT_QP_FATAL);
	assert_int_equal(kit_state(b.qp), IBV_QPS_ERR);
	assert_int_equal(kit_poll(b.cq, wc, 3, KIT_WAIT_MS), 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(wc[i].status, IBV_WC_WR_FLUSH_ERR);
	for (struct kit_end *e = &a; e; e = e == &a ? &b : NULL)
		assert_int_equal(ibv_modify_qp(e->qp,
					       &(struct ibv_qp_attr){.qp_state = IBV_QPS_RESET},
					       IBV_QP_STATE),
				 0);
	kit_end_connect(&k, &a, b.qp->qp_num, &how);
	kit_end_connect(&k, &b, a.qp->qp_num, &how);
	kit_check_alive(&k, &a, &b);
}

/* ---- memory ---- */

/* The peer's WRITE into the revoked region fails and changes nothing. */
static void test_mr_revoked_for_the_peer(void **state)
{
	struct ibv_mr *mr =
		ibv_reg_mr(k.pd, far, LEN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	(void)state;
	assert_non_null(mr);
	kit_fill(k.buf, LEN, 5);
	memset(far, 0, LEN);
	assert_int_equal(
		kit_post(&a, IBV_WR_RDMA_WRITE, k.buf, LEN, k.mr->lkey, (uintptr_t)far, mr->rkey),
		0);
	kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
	assert_true(kit_same(far, LEN, 5));
	say("mr-revoke=%u", mr->rkey);
	kit_fill(k.buf, LEN, 6);
	assert_int_equal(
		kit_post(&a, IBV_WR_RDMA_WRITE, k.buf, LEN, k.mr->lkey, (uintptr_t)far, mr->rkey),
		0);
	kit_expect(a.cq, IBV_WC_REM_ACCESS_ERR, NULL);
	assert_true(kit_same(far, LEN, 5));
	assert_int_equal(kit_state(a.qp), IBV_QPS_ERR);
	kit_expect_event(&k, IBV_EVENT_QP_ACCESS_ERR); /* at the responder */
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void test_mr_revoked_for_its_owner(void **state)
{
	struct ibv_mr *mr = ibv_reg_mr(k.pd, k.buf, LEN, IBV_ACCESS_LOCAL_WRITE);

	(void)state;
	assert_non_null(mr);
	say("mr-revoke=%u", mr->lkey);
	assert_int_equal(kit_recv(&b, far, LEN, k.mr->lkey), 0);
	assert_int_equal(kit_post(&a, IBV_WR_SEND, k.buf, LEN, mr->lkey, 0, 0), 0);
	kit_expect(a.cq, IBV_WC_LOC_PROT_ERR, NULL);
	assert_int_equal(kit_state(a.qp), IBV_QPS_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* ---- hold and release ---- */

static void send_datagrams(struct ibv_ah *ah, unsigned cnt)
{
	for (unsigned i = 0; i < cnt; i++) {
		struct ibv_sge sge = {.addr = (uintptr_t)k.buf, .length = 100, .lkey = k.mr->lkey};
		struct ibv_send_wr *bad, wr = {.sg_list = &sge,
					       .num_sge = 1,
					       .opcode = IBV_WR_SEND,
					       .send_flags = IBV_SEND_SIGNALED};

		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = b.qp->qp_num;
		wr.wr.ud.remote_qkey = 0x1111;
		assert_int_equal(kit_recv(&b, far + i * 256, 256, k.mr->lkey), 0);
		assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
		kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
	}
}

/* After hold the NIC delivers nothing; after release=N it delivers N frames and holds again. */
static void test_hold_and_release(void **state)
{
	struct ibv_ah_attr to = {.is_global = 1,
				 .port_num = 1,
				 .grh = {.dgid = k.gid, .sgid_index = k.gid_idx, .hop_limit = 64}};
	struct ibv_ah *ah = ibv_create_ah(k.pd, &to);
	struct ibv_wc wc[10];

	(void)state;
	assert_non_null(ah);
	kit_pair_open(&k, &a, &b, &(struct kit_how){.type = IBV_QPT_UD});
	say("hold", 0);
	send_datagrams(ah, 10);
	kit_expect_nothing(b.cq);
	say("release=%u", 4);
	assert_int_equal(kit_poll(b.cq, wc, 4, KIT_WAIT_MS), 4);
	kit_expect_nothing(b.cq);
	say("release", 0);
	assert_int_equal(kit_poll(b.cq, wc, 6, KIT_WAIT_MS), 6);
	kit_expect_nothing(b.cq);
	kit_end_close(&a);
	kit_end_close(&b);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

/* ---- the socket itself ---- */

static void refused(const char *line, const char *with)
{
	char answer[512];
	ssize_t got;

	assert_true(send(control, line, strlen(line), 0) == (ssize_t)strlen(line));
	got = recv(control, answer, sizeof(answer) - 1, 0);
	assert_true(got > 0);
	answer[got] = '\0';
	assert_memory_equal(answer, "error", 5);
	if (!strstr(answer, with))
		fail_msg("%s answered %s", line, answer);
}

static void test_bad_commands_are_refused(void **state)
{
	(void)state;
	refused("explode\n", "no command");
	refused("link-down=soon\n", "not a time");
	refused("rnr=-1ms\n", "not a time");
	refused("cq-overrun=99999\n", "no CQ");
	refused("qp-error=99999\n", "no QP");
	refused("mr-revoke=99999\n", "no region");
	refused("fault loss=2\n", "0 to 1");
	refused("fault delay=0.1\n", "SHARE:TIME");
	refused("fault flap=1s\n", "DOWN:UP");
	refused("fault flap=10ms:1s\n", "50ms at least");
	say("status", 0);
}

static int open_all(void **state)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};

	*state = NULL;
	kit_open(&k);
	far = k.buf + KIT_BUF_BYTES / 2;
	snprintf(to.sun_path, sizeof(to.sun_path), "%s", control_path);
	control = socket(AF_UNIX, SOCK_STREAM, 0);
	return control < 0 || connect(control, (struct sockaddr *)&to, sizeof(to));
}

static int close_all(void **state)
{
	(void)state;
	close(control);
	kit_close(&k);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_link_down_and_up, pair_open, pair_close),
		cmocka_unit_test_setup_teardown(test_link_down_while_faults_change, pair_open,
						pair_close),
		cmocka_unit_test(test_link_down_for_too_long),
		cmocka_unit_test_setup_teardown(test_flapping_link, pair_open, pair_close),
		cmocka_unit_test_setup_teardown(test_rnr_storm_is_waited_out, pair_open,
						pair_close),
		cmocka_unit_test(test_rnr_storm_without_retries),
		cmocka_unit_test_setup_teardown(test_cq_overrun, pair_open, pair_close),
		cmocka_unit_test_setup_teardown(test_qp_error_and_back, pair_open, pair_close),
		cmocka_unit_test_setup_teardown(test_mr_revoked_for_the_peer, pair_open,
						pair_close),
		cmocka_unit_test_setup_teardown(test_mr_revoked_for_its_owner, pair_open,
						pair_close),
		cmocka_unit_test(test_hold_and_release),
		cmocka_unit_test(test_bad_commands_are_refused),
	};

	if (argc < 2) {
		fprintf(stderr, "usage: %s CONTROL_SOCKET\n", argv[0]);
		return 2;
	}
	control_path = argv[1];
	return cmocka_run_group_tests(tests, open_all, close_all);
}
