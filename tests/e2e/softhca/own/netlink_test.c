/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * NETLINK_RDMA against verbs and sysfs: what it says of devices, ports, counters and objects is
 * what those say; wrong questions have the kernel's errno (Linux drivers/infiniband/core/nldev.c,
 * netlink.c).
 */
#include <endian.h>
#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "netlink_kit.h"
#include "verbs_kit.h"

#define MANY 3000u /* PDs: more than a socket's buffer holds */

static struct kit kit;
static struct kit_end a, b;
static uint32_t dev1; /* index of kit's device, + 1 */
static int sock;

static int open_all(void **state)
{
	const struct kit_how how = {0};
	struct rnl_reply r;
	const uint8_t *msg;
	size_t bytes;

	(void)state;
	kit_open(&kit);
	kit_pair_open(&kit, &a, &b, &how);
	sock = rnl_open();
	rnl_question(sock, ASK(.command = RDMA_NLDEV_CMD_GET, .flags = NLM_F_DUMP), &r);
	assert_int_equal(r.error, 0);
	msg = rnl_device(&r, ibv_get_device_name(kit.ctx->device), &bytes);
	assert_non_null(msg);
	dev1 = (uint32_t)rnl_number(msg, bytes, RDMA_NLDEV_ATTR_DEV_INDEX) + 1;
	free(r.bytes);
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	close(sock);
	kit_end_close(&a);
	kit_end_close(&b);
	kit_close(&kit);
	return 0;
}

/* ---- devices, ports, counters ---- */

static void test_devices_are_those_of_verbs(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_device_attr_ex attr;
	struct rnl_reply r;
	size_t bytes, n;
	const uint8_t *msg;

	(void)state;
	rnl_question(sock, ASK(.command = RDMA_NLDEV_CMD_GET, .flags = NLM_F_DUMP), &r);
	assert_true(r.done);
	for (uint32_t i = 0; list[i]; i++) {
		msg = rnl_device(&r, ibv_get_device_name(list[i]), &bytes);
		assert_non_null(msg);
		assert_int_equal(rnl_number(msg, bytes, RDMA_NLDEV_ATTR_NODE_GUID),
				 be64toh(ibv_get_device_guid(list[i])));
	}
	msg = rnl_device(&r, ibv_get_device_name(kit.ctx->device), &bytes);
	assert_int_equal(ibv_query_device_ex(kit.ctx, NULL, &attr), 0);
	assert_int_equal(rnl_number(msg, bytes, RDMA_NLDEV_ATTR_CAP_FLAGS),
			 attr.device_cap_flags_ex);
	assert_int_equal(rnl_number(msg, bytes, RDMA_NLDEV_ATTR_SYS_IMAGE_GUID),
			 be64toh(attr.orig_attr.sys_image_guid));
	assert_string_equal((const char *)rnl_find(msg, bytes, RDMA_NLDEV_ATTR_FW_VERSION, 0, &n),
			    attr.orig_attr.fw_ver);
	assert_int_equal(rnl_number(msg, bytes, RDMA_NLDEV_ATTR_PORT_INDEX),
			 attr.orig_attr.phys_port_cnt);
	ibv_free_device_list(list);
	free(r.bytes);
}

/* One by its index answers what the list says of it. */
static void test_one_device_and_its_port(void **state)
{
	struct ibv_port_attr port;
	struct rnl_reply r;
	size_t bytes;
	const uint8_t *msg;

	(void)state;
	rnl_question(sock, ASK(.command = RDMA_NLDEV_CMD_GET, .dev1 = dev1), &r);
	assert_non_null(rnl_device(&r, ibv_get_device_name(kit.ctx->device), &bytes));
	free(r.bytes);
	assert_int_equal(ibv_query_port(kit.ctx, 1, &port), 0);
	for (uint32_t dump = 0; dump < 2; dump++) {
		rnl_question(sock,
			     ASK(.command = RDMA_NLDEV_CMD_PORT_GET, .dev1 = dev1, .port = 1,
				 .flags = dump ? NLM_F_DUMP : 0),
			     &r);
		assert_int_equal(r.error, 0);
		msg = rnl_message(&r, 0, &bytes);
		assert_non_null(msg);
		assert_int_equal(rnl_number(msg, bytes, RDMA_NLDEV_ATTR_PORT_STATE), port.state);
		assert_int_equal(rnl_number(msg, bytes, RDMA_NLDEV_ATTR_PORT_PHYS_STATE),
				 port.phys_state);
		free(r.bytes);
	}
}

static void test_character_devices(void **state)
{
	struct rnl_reply r;
	size_t bytes, n;
	const uint8_t *msg;

	(void)state;
	rnl_question(sock,
		     ASK(.command = RDMA_NLDEV_CMD_GET_CHARDEV, .dev1 = dev1,
			 .text_attr = RDMA_NLDEV_ATTR_CHARDEV_TYPE, .text_value = "uverbs"),
		     &r);
	assert_int_equal(r.error, 0);
	msg = rnl_message(&r, 0, &bytes);
	assert_string_equal((const char *)rnl_find(msg, bytes, RDMA_NLDEV_ATTR_CHARDEV_NAME, 0, &n),
			    kit.ctx->device->dev_name);
	free(r.bytes);
	assert_int_equal(rnl_error(sock, ASK(.command = RDMA_NLDEV_CMD_GET_CHARDEV,
					     .text_attr = RDMA_NLDEV_ATTR_CHARDEV_TYPE,
					     .text_value = "rdma_cm")),
			 0);
	assert_int_equal(rnl_error(sock, ASK(.command = RDMA_NLDEV_CMD_GET_CHARDEV, .dev1 = dev1,
					     .text_attr = RDMA_NLDEV_ATTR_CHARDEV_TYPE,
					     .text_value = "no such client")),
			 -EOPNOTSUPP);
	assert_int_equal(rnl_error(sock, ASK(.command = RDMA_NLDEV_CMD_GET_CHARDEV, .dev1 = dev1)),
			 -EINVAL);
}

static void is_counter_of_sysfs(const uint8_t *at, size_t bytes, void *arg)
{
	size_t n;
	const char *name =
		(const char *)rnl_find(at, bytes, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, 0, &n);
	char path[128];

	assert_non_null(name);
	snprintf(path, sizeof(path), "hw_counters/%s", name);
	assert_int_equal(rnl_number(at, bytes, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE),
			 kit_counter(&kit, path));
	*(uint32_t *)arg += 1;
}

/* After WRITEs, so that not all are 0. */
static void test_counters_are_those_of_sysfs(void **state)
{
	struct rnl_reply r;
	uint32_t cnt = 0;

	(void)state;
	assert_int_equal(kit_post(&a, IBV_WR_RDMA_WRITE, kit.buf, 64, kit.mr->lkey,
				  (uintptr_t)kit.buf + KIT_BUF_BYTES / 2, kit.mr->rkey),
			 0);
	kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
	assert_true(kit_counter(&kit, "hw_counters/rx_write_requests") > 0);
	rnl_question(sock, ASK(.command = RDMA_NLDEV_CMD_STAT_GET, .dev1 = dev1, .port = 1), &r);
	assert_int_equal(r.error, 0);
	rnl_entries(&r, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY,
		    is_counter_of_sysfs, &cnt);
	assert_true(cnt >= 20);
	free(r.bytes);
}

/* ---- objects ---- */

struct wanted {
	const struct kit_end *end; /* of the QP that is looked for */
	uint32_t qpn, pid, state, found, cnt;
};

static void compare_qp(const uint8_t *at, size_t bytes, void *arg)
{
	struct wanted *w = arg;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	w->cnt++;
	if (rnl_number(at, bytes, RDMA_NLDEV_ATTR_RES_LQPN) != w->qpn)
		return;
	w->found++;
	w->pid = (uint32_t)rnl_number(at, bytes, RDMA_NLDEV_ATTR_RES_PID);
	w->state = (uint32_t)rnl_number(at, bytes, RDMA_NLDEV_ATTR_RES_STATE);
	if (!w->end)
		return;
	assert_int_equal(ibv_query_qp(w->end->qp, &attr,
				      IBV_QP_STATE | IBV_QP_RQ_PSN | IBV_QP_SQ_PSN |
					      IBV_QP_DEST_QPN | IBV_QP_PORT,
				      &init),
			 0);
	assert_int_equal(w->state, attr.qp_state);
	assert_int_equal(rnl_number(at, bytes, RDMA_NLDEV_ATTR_RES_TYPE), init.qp_type);
	assert_int_equal(rnl_number(at, bytes, RDMA_NLDEV_ATTR_RES_RQPN), attr.dest_qp_num);
	assert_int_equal(rnl_number(at, bytes, RDMA_NLDEV_ATTR_RES_RQ_PSN), attr.rq_psn);
	assert_int_equal(rnl_number(at, bytes, RDMA_NLDEV_ATTR_RES_SQ_PSN), attr.sq_psn);
	assert_int_equal(rnl_number(at, bytes, RDMA_NLDEV_ATTR_PORT_INDEX), attr.port_num);
}

static void look_for_qp(struct wanted *w)
{
	struct rnl_reply r;

	w->found = w->cnt = 0;
	rnl_question(sock,
		     ASK(.command = RDMA_NLDEV_CMD_RES_QP_GET, .flags = NLM_F_DUMP, .dev1 = dev1),
		     &r);
	assert_int_equal(r.error, 0);
	rnl_entries(&r, RDMA_NLDEV_ATTR_RES_QP, RDMA_NLDEV_ATTR_RES_QP_ENTRY, compare_qp, w);
	free(r.bytes);
}

static void test_queue_pairs_are_those_of_verbs(void **state)
{
	struct wanted w = {.end = &a, .qpn = a.qp->qp_num};
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	const struct kit_how how = {0};

	(void)state;
	look_for_qp(&w);
	assert_int_equal(w.found, 1);
	assert_int_equal(w.pid, getpid());
	assert_int_equal(w.state, IBV_QPS_RTS);
	assert_int_equal(ibv_modify_qp(a.qp, &err, IBV_QP_STATE), 0);
	look_for_qp(&w);
	assert_int_equal(w.state, IBV_QPS_ERR);
	kit_end_close(&a);
	look_for_qp(&w);
	assert_int_equal(w.found, 0);
	kit_end_close(&b);
	kit_pair_open(&kit, &a, &b, &how);
}

/* By its number, and with a port: what belongs to one is asked for with it, all else without. */
static void test_one_queue_pair(void **state)
{
	struct rnl_ask ask = {.command = RDMA_NLDEV_CMD_RES_QP_GET,
			      .dev1 = dev1,
			      .port = 1,
			      .attr = RDMA_NLDEV_ATTR_RES_LQPN,
			      .value = b.qp->qp_num};
	struct rnl_reply r;
	size_t bytes;
	const uint8_t *msg;

	(void)state;
	rnl_question(sock, &ask, &r);
	assert_int_equal(r.error, 0);
	msg = rnl_message(&r, 0, &bytes);
	assert_int_equal(rnl_number(msg, bytes, RDMA_NLDEV_ATTR_RES_LQPN), b.qp->qp_num);
	assert_int_equal(rnl_number(msg, bytes, RDMA_NLDEV_ATTR_DEV_INDEX), dev1 - 1);
	free(r.bytes);
	ask.value ^= 0x8000;
	assert_int_equal(rnl_error(sock, &ask), -ENOENT);
	ask.value ^= 0x8000;
	ask.port = 2;
	assert_int_equal(rnl_error(sock, &ask), -EINVAL);
	ask.port = 0;
	assert_int_equal(rnl_error(sock, &ask), -EINVAL);
}

struct region {
	uint32_t rkey, found, keys;
};

static void find_region(const uint8_t *at, size_t bytes, void *arg)
{
	struct region *want = arg;
	size_t n;

	want->found += rnl_number(at, bytes, RDMA_NLDEV_ATTR_RES_MRLEN) == KIT_BUF_BYTES;
	if (rnl_find(at, bytes, RDMA_NLDEV_ATTR_RES_RKEY, 0, &n))
		want->keys += rnl_number(at, bytes, RDMA_NLDEV_ATTR_RES_RKEY) == want->rkey;
}

static struct region list_regions(void)
{
	struct region want = {.rkey = kit.mr->rkey};
	struct rnl_reply r;

	rnl_question(sock,
		     ASK(.command = RDMA_NLDEV_CMD_RES_MR_GET, .flags = NLM_F_DUMP, .dev1 = dev1),
		     &r);
	rnl_entries(&r, RDMA_NLDEV_ATTR_RES_MR, RDMA_NLDEV_ATTR_RES_MR_ENTRY, find_region, &want);
	free(r.bytes);
	return want;
}

static void test_keys_are_for_administrators(void **state)
{
	struct region r;

	(void)state;
	if (rnl_administrate(true)) {
		r = list_regions();
		assert_int_equal(r.found, 1);
		assert_int_equal(r.keys, 1);
	}
	rnl_administrate(false);
	r = list_regions();
	assert_int_equal(r.found, 1);
	assert_int_equal(r.keys, 0);
	assert_int_equal(rnl_error(sock, ASK(.command = RDMA_NLDEV_CMD_SET, .dev1 = dev1)), -EPERM);
	assert_int_equal(rnl_error(sock, ASK(.command = RDMA_NLDEV_CMD_STAT_SET, .dev1 = dev1)),
			 -EPERM);
	rnl_administrate(true);
}

static void count_pd(const uint8_t *at, size_t bytes, void *arg)
{
	const uint32_t pdn = (uint32_t)rnl_number(at, bytes, RDMA_NLDEV_ATTR_RES_PDN);
	uint32_t *last = arg;

	assert_true(last[1] == 0 || pdn > last[0]); /* ascending: none twice */
	last[0] = pdn;
	last[1]++;
}

/* More than the socket's buffer holds: it is refilled as the program receives. A second dump has to
 * wait for its end. */
static void test_long_dump(void **state)
{
	const struct rnl_ask *ask =
		ASK(.command = RDMA_NLDEV_CMD_RES_PD_GET, .flags = NLM_F_DUMP, .dev1 = dev1);
	static struct ibv_pd *pd[MANY];
	const int small = 4096;
	uint32_t before[2] = {0}, last[2] = {0};
	struct rnl_reply r;

	(void)state;
	rnl_question(sock, ask, &r);
	rnl_entries(&r, RDMA_NLDEV_ATTR_RES_PD, RDMA_NLDEV_ATTR_RES_PD_ENTRY, count_pd, before);
	free(r.bytes);
	for (uint32_t i = 0; i < MANY; i++)
		assert_non_null(pd[i] = ibv_alloc_pd(kit.ctx));
	assert_int_equal(setsockopt(sock, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
	rnl_send(sock, ask);
	rnl_send(sock, ask);
	rnl_receive(sock, ask, &r);
	assert_true(r.done);
	assert_int_equal(r.error, 0);
	assert_true(r.datagrams > 10);
	assert_in_range(r.longest, 1, 4096);
	rnl_entries(&r, RDMA_NLDEV_ATTR_RES_PD, RDMA_NLDEV_ATTR_RES_PD_ENTRY, count_pd, last);
	assert_int_equal(last[1], before[1] + MANY);
	free(r.bytes);
	rnl_receive(sock, ask, &r);
	assert_true(r.acked);
	assert_int_equal(r.error, -EBUSY);
	for (uint32_t i = 0; i < MANY; i++)
		assert_int_equal(ibv_dealloc_pd(pd[i]), 0);
}

/* ---- other processes of the machine ---- */

/* Makes a QP, reports its number, and waits to be killed. */
static void other_process(int out)
{
	const struct kit_how how = {0};
	struct kit k;
	struct kit_end e;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	kit_open(&k);
	kit_end_open(&k, &e, &how);
	if (write(out, &e.qp->qp_num, sizeof(e.qp->qp_num)) != sizeof(e.qp->qp_num))
		_exit(1);
	for (;;)
		pause();
}

static void test_objects_of_another_process(void **state)
{
	struct wanted w = {0};
	uint64_t before;
	int out[2];
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(out), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		other_process(out[1]);
	close(out[1]);
	assert_int_equal(read(out[0], &w.qpn, sizeof(w.qpn)), sizeof(w.qpn));
	before = kit_now_us();
	do /* a process that gets no core for a while is left out */
		look_for_qp(&w);
	while (!w.found && kit_now_us() - before < KIT_WAIT_MS * 1000);
	assert_int_equal(w.found, 1);
	assert_int_equal(w.pid, pid);
	assert_int_equal(w.state, IBV_QPS_RESET);
	assert_int_equal(kill(pid, SIGSTOP), 0); /* and nobody waits for it for ever */
	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
	before = kit_now_us();
	look_for_qp(&w);
	assert_int_equal(w.found, 0);
	assert_true(w.cnt >= 2);
	assert_true(kit_now_us() - before < KIT_WAIT_MS * 1000);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	look_for_qp(&w);
	assert_int_equal(w.found, 0);
	close(out[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_devices_are_those_of_verbs),
		cmocka_unit_test(test_one_device_and_its_port),
		cmocka_unit_test(test_character_devices),
		cmocka_unit_test(test_counters_are_those_of_sysfs),
		cmocka_unit_test(test_queue_pairs_are_those_of_verbs),
		cmocka_unit_test(test_one_queue_pair),
		cmocka_unit_test(test_keys_are_for_administrators),
		cmocka_unit_test(test_long_dump),
		cmocka_unit_test(test_objects_of_another_process),
	};

	return cmocka_run_group_tests(tests, open_all, close_all);
}
