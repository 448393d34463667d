/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The link of a network interface by ethtool's netlink, put into a live tree:
 *
 *   ethtool/DEV/link = speed 200000 max 200000 autoneg 1 lanes 4, by netlink     Mbit/s, -1 unknown
 *
 * The kernel sends its link modes with their names, "200000baseCR4/Full", so the fastest one that
 * the port supports is found without a table of them. Called by netdev.c, which asks by ioctl
 * where this is not answered: kernels before 5.6. Source: Linux
 * Documentation/networking/ethtool-netlink.rst, LINKMODES_GET.
 */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/ethtool.h>
#include <linux/ethtool_netlink.h>
#include <linux/genetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plat/plat_impl.h"

#define ANSWER_BYTES 32768u /* some hundred link modes */

struct asking {
	struct mnl_socket *nl;
	uint32_t seq;
	char buf[ANSWER_BYTES];
};

/* ---- one question, one answer ---- */

/* The header of a generic netlink message; attributes are added behind it. */
static struct genlmsghdr *link_request(struct asking *a, uint16_t family, uint8_t cmd)
{
	struct nlmsghdr *head = mnl_nlmsg_put_header(a->buf);
	struct genlmsghdr *body;

	head->nlmsg_type = family;
	head->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	head->nlmsg_seq = ++a->seq;
	body = mnl_nlmsg_put_extra_header(head, sizeof(*body));
	body->cmd = cmd;
	body->version = 1;
	return body;
}

/* Sends what is in buf and calls fn with the answer. Returns: 0 or -errno. */
static int link_receive(struct asking *a, mnl_cb_t fn, void *arg)
{
	const struct nlmsghdr *head = (const struct nlmsghdr *)(void *)a->buf;
	int rc = mnl_socket_sendto(a->nl, head, head->nlmsg_len) < 0 ? -1 : MNL_CB_OK;

	while (rc == MNL_CB_OK) {
		ssize_t n = mnl_socket_recvfrom(a->nl, a->buf, sizeof(a->buf));

		rc = n < 0 ? -1
			   : mnl_cb_run(a->buf, (size_t)n, a->seq, mnl_socket_get_portid(a->nl), fn,
					arg);
	}
	return rc < 0 ? -errno : 0;
}

/* The number of ethtool's family differs between machines. */
static int link_family(const struct nlmsghdr *head, void *arg)
{
	const struct nlattr *attr;

	mnl_attr_for_each (attr, head, sizeof(struct genlmsghdr))
		if (mnl_attr_get_type(attr) == CTRL_ATTR_FAMILY_ID &&
		    mnl_attr_validate(attr, MNL_TYPE_U16) == 0)
			*(uint16_t *)arg = mnl_attr_get_u16(attr);
	return MNL_CB_OK;
}

/* ---- link modes ---- */

struct link {
	int64_t speed, max, autoneg, lanes;
};

/* A bit of the set of modes: its name begins with Mbit/s; "FEC_RS" and "Autoneg" do not. */
static void link_mode_read(const struct nlattr *bit, struct link *link)
{
	const struct nlattr *attr;

	mnl_attr_for_each_nested (attr, bit)
		if (mnl_attr_get_type(attr) == ETHTOOL_A_BITSET_BIT_NAME &&
		    mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) == 0)
			link->max = SPW_MAX(link->max, strtoll(mnl_attr_get_str(attr), NULL, 10));
}

static void link_modes_read(const struct nlattr *set, struct link *link)
{
	const struct nlattr *bits, *bit;

	mnl_attr_for_each_nested (bits, set)
		if (mnl_attr_get_type(bits) == ETHTOOL_A_BITSET_BITS)
			mnl_attr_for_each_nested (bit, bits)
				link_mode_read(bit, link);
	link->max = link->max ? link->max : -1;
}

/* Attributes of the wrong type are passed over: they stay unknown. */
static int link_read(const struct nlmsghdr *head, void *arg)
{
	struct link *link = arg;
	const struct nlattr *attr;

	mnl_attr_for_each (attr, head, sizeof(struct genlmsghdr))
		switch (mnl_attr_get_type(attr)) {
		case ETHTOOL_A_LINKMODES_OURS:
			link_modes_read(attr, link);
			break;
		case ETHTOOL_A_LINKMODES_SPEED:
			if (mnl_attr_validate(attr, MNL_TYPE_U32) == 0)
				link->speed = (int32_t)mnl_attr_get_u32(attr);
			break;
		case ETHTOOL_A_LINKMODES_LANES:
			if (mnl_attr_validate(attr, MNL_TYPE_U32) == 0)
				link->lanes = (int32_t)mnl_attr_get_u32(attr);
			break;
		case ETHTOOL_A_LINKMODES_AUTONEG:
			if (mnl_attr_validate(attr, MNL_TYPE_U8) == 0)
				link->autoneg = mnl_attr_get_u8(attr);
			break;
		default:
			break;
		}
	return MNL_CB_OK;
}

/* Two questions on one socket: the family's number, then the link. */
static int link_ask(struct asking *a, const char *netdev, struct link *link_out)
{
	struct nlmsghdr *head = (struct nlmsghdr *)(void *)a->buf;
	struct nlattr *nest;
	uint16_t family = 0;
	int rc;

	link_request(a, GENL_ID_CTRL, CTRL_CMD_GETFAMILY);
	mnl_attr_put_strz(head, CTRL_ATTR_FAMILY_NAME, ETHTOOL_GENL_NAME);
	rc = link_receive(a, link_family, &family);
	if (rc || !family)
		return rc ? rc : -ENOENT;
	link_request(a, family, ETHTOOL_MSG_LINKMODES_GET);
	nest = mnl_attr_nest_start(head, ETHTOOL_A_LINKMODES_HEADER);
	mnl_attr_put_strz(head, ETHTOOL_A_HEADER_DEV_NAME, netdev);
	mnl_attr_nest_end(head, nest);
	return link_receive(a, link_read, link_out);
}

/* Nothing is put after an error, so that the caller asks by ioctl instead. */
int plat_probe_link(struct plat_tree *tree, const char *netdev)
{
	struct link link = {.speed = -1, .max = 0, .autoneg = 0, .lanes = -1};
	struct asking *a = calloc(1, sizeof(*a));
	char path[96], text[96];
	int rc = a && (a->nl = mnl_socket_open(NETLINK_GENERIC)) ? 0 : -EOPNOTSUPP;

	if (!rc && mnl_socket_bind(a->nl, 0, MNL_SOCKET_AUTOPID) < 0)
		rc = -errno;
	rc = rc ? rc : link_ask(a, netdev, &link);
	if (a && a->nl)
		mnl_socket_close(a->nl);
	free(a);
	if (rc)
		return rc;
	snprintf(path, sizeof(path), "ethtool/%.15s/link", netdev);
	snprintf(text, sizeof(text), "speed %lld max %lld autoneg %lld lanes %lld, by netlink",
		 (long long)link.speed, (long long)(link.max ? link.max : -1),
		 (long long)link.autoneg, (long long)link.lanes);
	plat_tree_put(tree, path, text);
	return 0;
}
