/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Fuzzing the answers of NETLINK_RDMA: an input is one datagram of a program. There are objects of
 * all kinds, more than one datagram holds. Whatever is asked, what comes back are whole messages
 * that fit into a program's buffer, and only errors are longer (they have the question in them).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_netlink.h"
#include "softhca/kernel/ctl.h"
#include "softhca/kernel/nldev/nl_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ROWS_OF_A_KIND 60u
#define PORTID         77u

static struct hca_cfg cfg;
static struct hca_dev *devs;

/* Every second QP belongs to the first SRQ: many ranges. */
static void more_rows(struct nl_rows *rows)
{
	for (uint32_t i = 0; i < ROWS_OF_A_KIND * NL_KINDS; i++) {
		struct nl_row *r = nl_row_add(rows);

		if (!r)
			abort();
		r->kind = (uint8_t)(i % NL_KINDS);
		r->id = 1 + i / NL_KINDS;
		r->port = 1;
		r->qpn = i & 1;
		r->type = IB_UVERBS_QPT_RC;
		r->srqn = r->id & 1;
		r->src.sin6_family = AF_INET6;
	}
}

static void setup(void)
{
	if (hca_cfg_parse("", &cfg) || hca_devs_open(&cfg, &devs)) {
		fprintf(stderr, "fuzz_nldev: cannot set up\n");
		exit(1);
	}
	nl_rows_more(more_rows);
}

static void check_attributes(const uint8_t *at, size_t bytes)
{
	struct spw_netlink_attr attr;

	while (spw_netlink_next(&at, &bytes, &attr))
		if (attr.type >= RDMA_NLDEV_ATTR_MAX)
			abort();
	if (bytes)
		abort();
}

static void check_datagram(const uint8_t *at, size_t bytes)
{
	while (bytes) {
		struct nlmsghdr head;

		if (bytes < sizeof(head))
			abort();
		memcpy(&head, at, sizeof(head));
		if (head.nlmsg_len < NLMSG_HDRLEN || NLMSG_ALIGN(head.nlmsg_len) > bytes ||
		    head.nlmsg_pid != PORTID)
			abort();
		if (head.nlmsg_type >= NLMSG_MIN_TYPE)
			check_attributes(at + NLMSG_HDRLEN, head.nlmsg_len - (size_t)NLMSG_HDRLEN);
		else if (head.nlmsg_type != NLMSG_ERROR && head.nlmsg_type != NLMSG_DONE)
			abort();
		at += NLMSG_ALIGN(head.nlmsg_len);
		bytes -= NLMSG_ALIGN(head.nlmsg_len);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct nl_file f = {.fd = -1, .own_fd = -1, .real_fd = -1};
	const uint8_t *at;
	uint32_t bytes;

	if (!devs)
		setup();
	f.devs = devs;
	f.dev_cnt = cfg.dev_cnt;
	f.short_ack = size & 1;
	nl_question(&f, data, size, PORTID);
	while ((at = nl_queue_first(&f.queue, &bytes))) {
		if (bytes > NL_DATAGRAM_BYTES + size)
			abort();
		check_datagram(at, bytes);
		nl_queue_took(&f.queue);
	}
	nl_queue_clear(&f.queue);
	return 0;
}
