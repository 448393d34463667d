/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Netlink messages of a datagram and attributes of a message, one after the other. Source: Linux
 * include/uapi/linux/netlink.h; rtnetlink's have the same layout.
 */
#ifndef SPW_NETLINK_H
#define SPW_NETLINK_H

#include <linux/netlink.h>
#include <string.h>

#include "base/spw_types.h"

struct spw_netlink_attr {
	uint16_t type; /* without its flags */
	const uint8_t *value;
	size_t bytes; /* of the value */
};

/* Purpose: takes the attribute at *at off the *left bytes there; both then name what follows it.
 * Returns: false: there is none, or it does not lie within them.
 * Thread: any; pure.
 */
SPW_INLINE bool spw_netlink_next(const uint8_t **at, size_t *left,
				 struct spw_netlink_attr *attr_out)
{
	struct nlattr head;
	size_t whole;

	if (*left < NLA_HDRLEN)
		return false;
	memcpy(&head, *at, sizeof(head));
	if (head.nla_len < NLA_HDRLEN || head.nla_len > *left)
		return false;
	*attr_out = (struct spw_netlink_attr){.type = (uint16_t)(head.nla_type & NLA_TYPE_MASK),
					      .value = *at + NLA_HDRLEN,
					      .bytes = head.nla_len - (size_t)NLA_HDRLEN};
	whole = SPW_MIN((size_t)NLA_ALIGN(head.nla_len), *left);
	*at += whole;
	*left -= whole;
	return true;
}

/* Purpose: the same with the message at *at; its body begins NLMSG_HDRLEN behind *msg_out.
 * Returns: false: there is none, or it does not lie within them: *left is NLMSG_HDRLEN at least.
 * Thread: any; pure.
 */
SPW_INLINE bool spw_netlink_message(const uint8_t **at, size_t *left, struct nlmsghdr *head_out,
				    const uint8_t **msg_out)
{
	size_t whole;

	if (*left < NLMSG_HDRLEN)
		return false;
	memcpy(head_out, *at, sizeof(*head_out));
	if (head_out->nlmsg_len < NLMSG_HDRLEN || head_out->nlmsg_len > *left)
		return false;
	*msg_out = *at;
	whole = SPW_MIN((size_t)NLMSG_ALIGN(head_out->nlmsg_len), *left);
	*at += whole;
	*left -= whole;
	return true;
}

#endif
