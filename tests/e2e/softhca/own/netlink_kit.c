/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 */
#include "netlink_kit.h"

#include <errno.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#define RECEIVE_BYTES (64u << 10)
#define WAIT_S        20

int rnl_open(void)
{
	const struct timeval wait = {.tv_sec = WAIT_S};
	struct sockaddr_nl a = {.nl_family = AF_NETLINK};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)), 0);
	return fd;
}

static size_t rnl_add(uint8_t *buf, size_t used, uint16_t type, const void *value, size_t bytes)
{
	const struct nlattr head = {.nla_len = (uint16_t)(NLA_HDRLEN + bytes), .nla_type = type};

	memcpy(buf + used, &head, sizeof(head));
	memcpy(buf + used + NLA_HDRLEN, value, bytes);
	return used + (size_t)NLA_ALIGN(head.nla_len);
}

void rnl_send(int fd, const struct rnl_ask *ask)
{
	uint8_t buf[256] = {0};
	const uint32_t dev = ask->dev1 - 1;
	size_t used = NLMSG_HDRLEN;
	struct nlmsghdr head = {.nlmsg_type =
					(uint16_t)RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, ask->command),
				.nlmsg_flags = (uint16_t)(NLM_F_REQUEST | ask->flags),
				.nlmsg_seq = 7};

	if (ask->dev1)
		used = rnl_add(buf, used, RDMA_NLDEV_ATTR_DEV_INDEX, &dev, 4);
	if (ask->port)
		used = rnl_add(buf, used, RDMA_NLDEV_ATTR_PORT_INDEX, &ask->port, 4);
	if (ask->attr)
		used = rnl_add(buf, used, ask->attr, &ask->value, 4);
	if (ask->text_attr)
		used = rnl_add(buf, used, ask->text_attr, ask->text_value,
			       strlen(ask->text_value) + 1);
	head.nlmsg_len = (uint32_t)used;
	memcpy(buf, &head, sizeof(head));
	assert_int_equal(send(fd, buf, used, 0), used);
}

static void rnl_keep(struct rnl_reply *r, const uint8_t *at, size_t bytes)
{
	r->bytes = realloc(r->bytes, r->used + NLMSG_ALIGN(bytes));
	assert_non_null(r->bytes);
	memcpy(r->bytes + r->used, at, bytes);
	r->used += NLMSG_ALIGN(bytes);
}

/* One datagram. Returns: whether more follow. */
static bool rnl_take(const struct rnl_ask *ask, struct rnl_reply *r, const uint8_t *at,
		     size_t bytes)
{
	const bool single = !(ask->flags & (NLM_F_DUMP | NLM_F_ACK));
	bool more = true;

	while (bytes >= NLMSG_HDRLEN) {
		struct nlmsghdr head;

		memcpy(&head, at, sizeof(head));
		assert_in_range(head.nlmsg_len, NLMSG_HDRLEN, bytes);
		assert_int_equal(head.nlmsg_seq, 7);
		if (head.nlmsg_type == NLMSG_ERROR || head.nlmsg_type == NLMSG_DONE) {
			memcpy(&r->error, at + NLMSG_HDRLEN, sizeof(r->error));
			r->acked |= head.nlmsg_type == NLMSG_ERROR;
			r->done |= head.nlmsg_type == NLMSG_DONE;
			more = false;
		} else {
			rnl_keep(r, at, head.nlmsg_len);
			more &= !single;
		}
		if (NLMSG_ALIGN(head.nlmsg_len) >= bytes)
			break;
		at += NLMSG_ALIGN(head.nlmsg_len);
		bytes -= NLMSG_ALIGN(head.nlmsg_len);
	}
	return more;
}

/* The sender must be the kernel. */
void rnl_receive(int fd, const struct rnl_ask *ask, struct rnl_reply *r)
{
	static uint8_t buf[RECEIVE_BYTES];
	bool more = true;

	memset(r, 0, sizeof(*r));
	while (more) {
		struct sockaddr_nl from;
		struct iovec iov = {buf, sizeof(buf)};
		struct msghdr m = {.msg_name = &from,
				   .msg_namelen = sizeof(from),
				   .msg_iov = &iov,
				   .msg_iovlen = 1};
		const ssize_t n = recvmsg(fd, &m, 0);

		assert_true(n > 0);
		assert_int_equal(m.msg_namelen, sizeof(from));
		assert_int_equal(from.nl_family, AF_NETLINK);
		assert_int_equal(from.nl_pid, 0);
		r->datagrams++;
		r->longest = (size_t)n > r->longest ? (size_t)n : r->longest;
		more = rnl_take(ask, r, buf, (size_t)n);
	}
}

void rnl_question(int fd, const struct rnl_ask *ask, struct rnl_reply *reply)
{
	rnl_send(fd, ask);
	rnl_receive(fd, ask, reply);
}

int rnl_error(int fd, const struct rnl_ask *ask)
{
	struct rnl_reply r;

	rnl_question(fd, ask, &r);
	free(r.bytes);
	return r.error;
}

const uint8_t *rnl_find(const uint8_t *at, size_t bytes, uint16_t type, uint32_t n,
			size_t *bytes_out)
{
	while (bytes >= NLA_HDRLEN) {
		struct nlattr head;

		memcpy(&head, at, sizeof(head));
		assert_in_range(head.nla_len, NLA_HDRLEN, bytes);
		if ((head.nla_type & NLA_TYPE_MASK) == type && n-- == 0) {
			*bytes_out = head.nla_len - (size_t)NLA_HDRLEN;
			return at + NLA_HDRLEN;
		}
		if ((size_t)NLA_ALIGN(head.nla_len) >= bytes)
			return NULL;
		at += NLA_ALIGN(head.nla_len);
		bytes -= NLA_ALIGN(head.nla_len);
	}
	return NULL;
}

uint64_t rnl_number(const uint8_t *at, size_t bytes, uint16_t type)
{
	size_t n = 0;
	const uint8_t *value = rnl_find(at, bytes, type, 0, &n);
	uint64_t all = 0;

	if (!value || (n != 1 && n != 4 && n != 8))
		fail_msg("attribute %u has %zu bytes", type, n);
	for (size_t i = 0; i < n; i++) /* of this machine: both kinds that exist here are little */
		all |= (uint64_t)value[i] << 8 * i;
	return all;
}

const uint8_t *rnl_message(const struct rnl_reply *r, uint32_t n, size_t *bytes_out)
{
	for (size_t at = 0; at < r->used;) {
		struct nlmsghdr head;

		memcpy(&head, r->bytes + at, sizeof(head));
		if (n-- == 0) {
			*bytes_out = head.nlmsg_len - (size_t)NLMSG_HDRLEN;
			return r->bytes + at + NLMSG_HDRLEN;
		}
		at += NLMSG_ALIGN(head.nlmsg_len);
	}
	return NULL;
}

void rnl_entries(const struct rnl_reply *r, uint16_t table, uint16_t entry,
		 void (*fn)(const uint8_t *at, size_t bytes, void *arg), void *arg)
{
	size_t bytes, table_bytes = 0, n;
	const uint8_t *msg, *at, *e;

	for (uint32_t m = 0; (msg = rnl_message(r, m, &bytes)); m++) {
		at = rnl_find(msg, bytes, table, 0, &table_bytes);
		assert_non_null(at);
		for (uint32_t i = 0; (e = rnl_find(at, table_bytes, entry, i, &n)); i++)
			fn(e, n, arg);
	}
}

const uint8_t *rnl_device(const struct rnl_reply *r, const char *name, size_t *bytes_out)
{
	const uint8_t *msg, *text;
	size_t n;

	for (uint32_t i = 0; (msg = rnl_message(r, i, bytes_out)); i++) {
		text = rnl_find(msg, *bytes_out, RDMA_NLDEV_ATTR_DEV_NAME, 0, &n);
		assert_non_null(text);
		if (strcmp((const char *)text, name) == 0)
			return msg;
	}
	return NULL;
}

bool rnl_administrate(bool on)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	assert_int_equal(syscall(SYS_capget, &head, data), 0);
	if (!(data[0].permitted & 1u << CAP_NET_ADMIN))
		return false;
	data[0].effective &= ~(1u << CAP_NET_ADMIN);
	data[0].effective |= on ? 1u << CAP_NET_ADMIN : 0;
	assert_int_equal(syscall(SYS_capset, &head, data), 0);
	return true;
}
