/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The machine's own RDMA devices: their commands go to the kernel as they are, and its answers come
 * back with the port of the application's socket in place of ours. In a listing, a device that has
 * the name of an emulated one is left out, as in /sys (sysfs_real.c).
 *
 * The kernel answers before send() returns, and goes on with a dump in each receive; so what can be
 * received without waiting is the whole answer.
 */
#include <string.h>
#include <sys/socket.h>

#include "base/spw_netlink.h"
#include "softhca/kernel/nldev/nl_impl.h"

#define RECEIVE_BYTES (32u << 10) /* the longest datagram of a dump */

static bool nl_real_is_hidden(const struct nl_file *f, const uint8_t *at, size_t bytes)
{
	struct spw_netlink_attr attr;

	while (spw_netlink_next(&at, &bytes, &attr)) {
		if (attr.type != RDMA_NLDEV_ATTR_DEV_NAME)
			continue;
		for (uint32_t i = 0; i < f->dev_cnt; i++) {
			const char *name = f->devs[i].id.name;

			if (attr.bytes == strlen(name) + 1 &&
			    memcmp(attr.value, name, attr.bytes) == 0)
				return true;
		}
	}
	return false;
}

/* One message of the kernel. In a listing the end, and an error, are not passed on. */
static void nl_real_message(struct nl_file *f, uint8_t *at, struct nlmsghdr head, uint32_t portid,
			    bool listing)
{
	if (listing &&
	    (head.nlmsg_type < NLMSG_MIN_TYPE ||
	     nl_real_is_hidden(f, at + NLMSG_HDRLEN, head.nlmsg_len - (size_t)NLMSG_HDRLEN)))
		return;
	head.nlmsg_pid = portid;
	memcpy(at, &head, sizeof(head));
	nl_queue_put(&f->queue, at, head.nlmsg_len);
}

static void nl_real_datagram(struct nl_file *f, uint8_t *at, size_t bytes, uint32_t portid,
			     bool listing)
{
	const uint8_t *next = at, *msg;
	struct nlmsghdr head;

	while (spw_netlink_message(&next, &bytes, &head, &msg))
		nl_real_message(f, at + (msg - at), head, portid, listing);
}

void nl_real_relay(struct nl_file *f, const void *msg, size_t bytes, uint32_t portid, bool listing)
{
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	static uint8_t buf[RECEIVE_BYTES]; /* with the lock of all sockets */
	ssize_t n;

	if (f->real_fd < 0 || sendto(f->real_fd, msg, bytes, MSG_NOSIGNAL,
				     (const struct sockaddr *)&kernel, sizeof(kernel)) < 0)
		return;
	while ((n = recv(f->real_fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0)
		nl_real_datagram(f, buf, (size_t)n, portid, listing);
}
