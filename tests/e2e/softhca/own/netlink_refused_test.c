/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * NETLINK_RDMA: questions that the kernel refuses, or passes over, and by which error.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netlink_kit.h"
#include "verbs_kit.h"

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

static void test_wrong_questions(void **state)
{
	struct rnl_reply r;

	(void)state;
	assert_int_equal(rnl_error(sock, ASK(.command = RDMA_NLDEV_CMD_GET)), -EINVAL);
	assert_int_equal(rnl_error(sock, ASK(.command = RDMA_NLDEV_CMD_GET, .dev1 = dev1 + 77)),
			 -EINVAL);
	assert_int_equal(rnl_error(sock, ASK(.command = 999, .dev1 = dev1)), -EINVAL);
	assert_int_equal(rnl_error(sock, ASK(.command = RDMA_NLDEV_CMD_UNSPEC)), -EINVAL);
	assert_int_equal(
		rnl_error(sock, ASK(.command = RDMA_NLDEV_CMD_SYS_GET, .flags = NLM_F_DUMP)),
		-EINVAL);
	assert_int_equal(
		rnl_error(sock, ASK(.command = RDMA_NLDEV_CMD_PORT_GET, .dev1 = dev1, .port = 2)),
		-EINVAL);
	assert_int_equal(rnl_error(sock, ASK(.command = RDMA_NLDEV_CMD_STAT_GET, .dev1 = dev1)),
			 -EINVAL);
	/* Newer commands refuse attributes that they do not know; older ones pass over them. */
	assert_int_equal(rnl_error(sock, ASK(.command = RDMA_NLDEV_CMD_STAT_GET, .dev1 = dev1,
					     .port = 1, .attr = 2000)),
			 -EINVAL);
	assert_int_equal(
		rnl_error(sock, ASK(.command = RDMA_NLDEV_CMD_GET, .dev1 = dev1, .attr = 2000)), 0);
	/* A dump's error is in its end. */
	rnl_question(sock, ASK(.command = RDMA_NLDEV_CMD_RES_QP_GET, .flags = NLM_F_DUMP), &r);
	assert_true(r.done);
	assert_int_equal(r.error, -EINVAL);
	free(r.bytes);
}

/* A message, and then its acknowledgement. */
static void test_acknowledgement(void **state)
{
	struct rnl_reply r;
	size_t bytes;

	(void)state;
	rnl_question(sock, ASK(.command = RDMA_NLDEV_CMD_SYS_GET, .flags = NLM_F_ACK), &r);
	assert_true(r.acked);
	assert_int_equal(r.error, 0);
	assert_non_null(rnl_message(&r, 0, &bytes));
	free(r.bytes);
}

/* What changes something is refused, in the kernel's order of checks. */
static void test_changes_are_refused(void **state)
{
	(void)state;
	if (!rnl_administrate(true))
		skip();
	assert_int_equal(
		rnl_error(sock, ASK(.command = RDMA_NLDEV_CMD_SET, .dev1 = dev1,
				    .text_attr = RDMA_NLDEV_ATTR_DEV_NAME, .text_value = "other")),
		-EOPNOTSUPP);
	assert_int_equal(rnl_error(sock, ASK(.command = RDMA_NLDEV_CMD_DELLINK, .dev1 = dev1)),
			 -EINVAL);
	assert_int_equal(
		rnl_error(sock, ASK(.command = RDMA_NLDEV_CMD_STAT_SET, .dev1 = dev1, .port = 1)),
		-EINVAL);
	assert_int_equal(rnl_error(sock, ASK(.command = RDMA_NLDEV_CMD_RES_QP_GET_RAW, .dev1 = dev1,
					     .port = 1, .attr = RDMA_NLDEV_ATTR_RES_LQPN,
					     .value = a.qp->qp_num)),
			 -EOPNOTSUPP);
}

/* Messages that are cut, or longer than the datagram, have no answer; the socket still works. */
static void test_cut_messages(void **state)
{
	const struct nlmsghdr head = {
		.nlmsg_len = sizeof(head),
		.nlmsg_type = (uint16_t)RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_SYS_GET),
		.nlmsg_flags = NLM_F_REQUEST};
	struct nlmsghdr wrong;
	struct pollfd p = {.fd = sock, .events = POLLIN};

	(void)state;
	for (uint32_t len = 0; len < 64; len++) {
		if (len == sizeof(head))
			continue;
		wrong = head;
		wrong.nlmsg_len = len;
		assert_int_equal(send(sock, &wrong, sizeof(wrong), 0), sizeof(wrong));
	}
	for (size_t bytes = 0; bytes < sizeof(head); bytes++)
		assert_int_equal(send(sock, &head, bytes, 0), bytes);
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_int_equal(rnl_error(sock, ASK(.command = RDMA_NLDEV_CMD_SYS_GET)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wrong_questions),
		cmocka_unit_test(test_acknowledgement),
		cmocka_unit_test(test_changes_are_refused),
		cmocka_unit_test(test_cut_messages),
	};

	return cmocka_run_group_tests(tests, open_all, close_all);
}
