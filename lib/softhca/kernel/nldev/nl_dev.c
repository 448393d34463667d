/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Commands of NETLINK_RDMA about devices, ports, device files and counters. What they report is
 * what sysfs and the query commands of verbs report. Source: Linux drivers/infiniband/core/nldev.c.
 *
 * Counters can not be bound to a QP: the model counts for a device. STAT_SET is refused as by a
 * driver that has no such counters.
 */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "softhca/kernel/cmd.h"
#include "softhca/kernel/ctl.h"
#include "softhca/kernel/nldev/nl_impl.h"
#include "softhca/kernel/tree.h"

#define NODE_TYPE_CA  1u /* RDMA_NODE_IB_CA */
#define STATE_DOWN    1u /* IB_PORT_DOWN, IB_PORT_ACTIVE */
#define STATE_ACTIVE  4u
#define PHYS_DISABLED 3u
#define PHYS_LINK_UP  5u
#define UVERBS_ABI    1u /* of mlx5 */
#define RDMA_CM_ABI   4u

/* ---- devices ---- */

static void nl_fill_dev(struct nl_call *c, const struct hca_dev *dev, uint16_t flags)
{
	const uint64_t fw = hca_fw_ver(dev);
	uint8_t guid[8];
	char text[32];

	nl_answer(c, RDMA_NLDEV_CMD_GET, flags);
	nl_put_device(c, dev);
	nl_u32(&c->out, RDMA_NLDEV_ATTR_PORT_INDEX, NL_THE_PORT);
	nl_u64(&c->out, RDMA_NLDEV_ATTR_CAP_FLAGS, hca_device_caps(dev));
	snprintf(text, sizeof(text), "%u.%u.%04u", (unsigned int)(fw >> 32),
		 (unsigned int)(fw >> 16 & 0xffff), (unsigned int)(fw & 0xffff));
	nl_str(&c->out, RDMA_NLDEV_ATTR_FW_VERSION, text);
	hca_node_guid(dev, guid);
	nl_u64(&c->out, RDMA_NLDEV_ATTR_NODE_GUID, spw_be64_load(guid));
	hca_system_guid(dev, guid);
	nl_u64(&c->out, RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, spw_be64_load(guid));
	nl_u8(&c->out, RDMA_NLDEV_ATTR_DEV_NODE_TYPE, NODE_TYPE_CA);
	nl_u8(&c->out, RDMA_NLDEV_ATTR_DEV_DIM, 1);
	nl_str(&c->out, RDMA_NLDEV_ATTR_DEV_PROTOCOL, "roce");
}

int nl_get(struct nl_call *c)
{
	return nl_one(c, nl_device(c), nl_fill_dev);
}

int nl_get_dump(struct nl_call *c)
{
	return nl_dump_all(c, nl_fill_dev);
}

/* Names, namespaces and moderation are options of the library, and fixed. */
int nl_set(struct nl_call *c)
{
	if (!nl_device(c))
		return -EINVAL;
	return c->req.renames || c->req.moves || c->req.dims ? -EOPNOTSUPP : 0;
}

/* ---- ports ---- */

/* An interface that only the emulated /sys knows has no index. */
static void nl_fill_port(struct nl_call *c, const struct hca_dev *dev, uint16_t flags)
{
	const uint32_t ifindex = dev->id.netdev[0] ? if_nametoindex(dev->id.netdev) : 0;

	/* The kernel names GET in the answer for one port, PORT_GET in a dump. */
	nl_answer(c, flags ? RDMA_NLDEV_CMD_PORT_GET : RDMA_NLDEV_CMD_GET, flags);
	nl_put_device(c, dev);
	nl_u32(&c->out, RDMA_NLDEV_ATTR_PORT_INDEX, NL_THE_PORT);
	nl_u8(&c->out, RDMA_NLDEV_ATTR_PORT_STATE, dev->link_up ? STATE_ACTIVE : STATE_DOWN);
	nl_u8(&c->out, RDMA_NLDEV_ATTR_PORT_PHYS_STATE,
	      dev->link_up ? PHYS_LINK_UP : PHYS_DISABLED);
	if (!ifindex)
		return;
	nl_u32(&c->out, RDMA_NLDEV_ATTR_NDEV_INDEX, ifindex);
	nl_str(&c->out, RDMA_NLDEV_ATTR_NDEV_NAME, dev->id.netdev);
}

/* Returns: the device, if the question has a port of it too. */
static struct hca_dev *nl_device_port(const struct nl_call *c)
{
	return nl_has(&c->req, NL_PORT) && c->req.arg[NL_PORT] == NL_THE_PORT ? nl_device(c) : NULL;
}

int nl_port_get(struct nl_call *c)
{
	return nl_one(c, nl_device_port(c), nl_fill_port);
}

int nl_port_get_dump(struct nl_call *c)
{
	return nl_dump_one(c, nl_device(c), nl_fill_port);
}

/* ---- device files, the subsystem ---- */

int nl_chardev(struct nl_call *c)
{
	const struct hca_dev *dev = nl_device(c);
	char name[32] = "rdma_cm";
	uint64_t cdev = makedev(RDMA_CM_MAJOR, RDMA_CM_MINOR), abi = RDMA_CM_ABI;

	if (!c->req.chardev[0] || (nl_has(&c->req, NL_DEV) && !dev) ||
	    (nl_has(&c->req, NL_PORT) && !nl_device_port(c)))
		return -EINVAL;
	nl_answer(c, RDMA_NLDEV_CMD_GET_CHARDEV, 0);
	if (dev && strcmp(c->req.chardev, "uverbs") == 0) {
		cdev = makedev(UVERBS_MAJOR, UVERBS_MINOR(dev->cfg, dev->idx));
		abi = UVERBS_ABI;
		snprintf(name, sizeof(name), "uverbs%u", sysfs_uverbs(dev->cfg, dev->idx));
		nl_u32(&c->out, RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, RDMA_DRIVER_MLX5);
	} else if (dev || strcmp(c->req.chardev, name) != 0) {
		return -EOPNOTSUPP;
	}
	nl_u64(&c->out, RDMA_NLDEV_ATTR_CHARDEV, cdev);
	nl_u64(&c->out, RDMA_NLDEV_ATTR_CHARDEV_ABI, abi);
	nl_str(&c->out, RDMA_NLDEV_ATTR_CHARDEV_NAME, name);
	return 0;
}

/* Shared by all network namespaces. The NIC works in the memory of the process that registered it,
 * whatever a child writes: no page has to be kept from fork(). */
int nl_sys_get(struct nl_call *c)
{
	nl_answer(c, RDMA_NLDEV_CMD_SYS_GET, 0);
	nl_u8(&c->out, RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 1);
	nl_u8(&c->out, RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, 1);
	return 0;
}

/* ---- counters ---- */

/* All of sysfs' hw_counters in its order, each as a nest: with its value, or its number. */
static void nl_fill_counters(struct nl_call *c, const struct hca_dev *dev, bool values)
{
	struct nl_out *o = &c->out;
	const uint32_t table = nl_nest(o, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS | NLA_F_NESTED);
	uint32_t idx = 0, entry;

	/* clang-format off */
#define COUNTER(name)                                                                          \
	entry = nl_nest(o, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY | NLA_F_NESTED);               \
	nl_str(o, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, #name);                           \
	if (values)                                                                            \
		nl_u64(o, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE,                          \
		       spw_thr_load_rlx(&dev->cnt.name));                                      \
	else                                                                                   \
		nl_u32(o, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX, idx);                          \
	nl_nest_end(o, entry);                                                                 \
	idx++;
	HCA_HW_CNT(COUNTER)
#undef COUNTER
	/* clang-format on */
	nl_nest_end(o, table);
}

static int nl_stat_default(struct nl_call *c, uint16_t op, bool values)
{
	const struct hca_dev *dev = nl_device_port(c);

	if (!dev)
		return -EINVAL;
	nl_answer(c, op, 0);
	nl_put_device(c, dev);
	nl_u32(&c->out, RDMA_NLDEV_ATTR_PORT_INDEX, NL_THE_PORT);
	nl_fill_counters(c, dev, values);
	return 0;
}

int nl_stat_status(struct nl_call *c)
{
	return nl_stat_default(c, RDMA_NLDEV_CMD_STAT_GET_STATUS, false);
}

int nl_stat_get(struct nl_call *c)
{
	const struct hca_dev *dev = nl_device_port(c);

	if (!nl_has(&c->req, NL_STAT_RES))
		return nl_stat_default(c, RDMA_NLDEV_CMD_STAT_GET, true);
	if (c->req.arg[NL_STAT_RES] != RDMA_NLDEV_ATTR_RES_QP || !dev)
		return -EINVAL;
	if (nl_has(&c->req, NL_COUNTER_ID))
		return -ENOENT; /* none is bound */
	if (!nl_has(&c->req, NL_STAT_MODE))
		return -EINVAL;
	nl_answer(c, RDMA_NLDEV_CMD_STAT_GET, 0);
	nl_put_device(c, dev);
	nl_u32(&c->out, RDMA_NLDEV_ATTR_PORT_INDEX, NL_THE_PORT);
	nl_u32(&c->out, RDMA_NLDEV_ATTR_STAT_MODE, RDMA_COUNTER_MODE_NONE);
	return 0;
}

/* Of QPs: none is bound to a counter. Of regions, only their numbers: what mlx5 counts is on-demand
 * paging. */
int nl_stat_get_dump(struct nl_call *c)
{
	if (nl_has(&c->req, NL_STAT_RES) && c->req.arg[NL_STAT_RES] == RDMA_NLDEV_ATTR_RES_MR)
		return nl_res_dump(c);
	if (!nl_has(&c->req, NL_STAT_RES) || c->req.arg[NL_STAT_RES] != RDMA_NLDEV_ATTR_RES_QP ||
	    !nl_device(c) || (nl_has(&c->req, NL_PORT) && !nl_device_port(c)))
		return -EINVAL;
	return 0;
}

int nl_stat_set(struct nl_call *c)
{
	const struct nl_req *r = &c->req;

	if (!nl_device_port(c) || !nl_has(r, NL_STAT_MODE))
		return -EINVAL; /* without a mode: optional counters, of which there are none */
	if (!nl_has(r, NL_STAT_RES) || r->arg[NL_STAT_RES] != RDMA_NLDEV_ATTR_RES_QP)
		return -EINVAL;
	if (r->arg[NL_STAT_MODE] != RDMA_COUNTER_MODE_AUTO && !nl_has(r, NL_LQPN))
		return -EINVAL;
	return -EOPNOTSUPP;
}

int nl_stat_del(struct nl_call *c)
{
	const struct nl_req *r = &c->req;

	if (!nl_device_port(c) || !nl_has(r, NL_STAT_RES) || !nl_has(r, NL_COUNTER_ID) ||
	    !nl_has(r, NL_LQPN) || r->arg[NL_STAT_RES] != RDMA_NLDEV_ATTR_RES_QP)
		return -EINVAL;
	return -ENOENT;
}
