/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What Linux refuses to a process: rights that it lacks, memory beyond its limit of locked memory,
 * objects beyond the device's limits. Called by the create commands.
 *
 *   capable(CAP_NET_RAW)   EPERM    raw packet QPs and flow rules (core/uverbs_cmd.c)
 *   RLIMIT_MEMLOCK         ENOMEM   rings and regions, by whole pages, each as often as it is
 *                                   registered; not for CAP_IPC_LOCK, not for a dma-buf; with a
 *                                   limit of 0: EPERM (core/umem.c, ib_umem_get)
 *   number of objects      ENOMEM   a command that firmware ends with LIM_ERR
 *                                   (drivers/net/ethernet/mellanox/mlx5/core/cmd.c)
 *
 * Paths are those of Linux below drivers/infiniband. Nothing is locked here, only counted. The
 * page of a doorbell record, which Linux counts too, is not.
 */
#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "softhca/kernel/cmd.h"
#include "softhca/kernel/ctl.h"

static uint64_t pinned_pages; /* of the process: Linux counts in its mm */

bool hca_capable(unsigned int capability)
{
	struct __user_cap_header_struct hdr = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};

	if (syscall(SYS_capget, &hdr, data))
		return true; /* a sandbox that does not answer */
	return data[capability / 32].effective >> capability % 32 & 1;
}

static uint64_t limits_pages(uint64_t addr, uint64_t bytes)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return (addr % page + bytes + page - 1) / page;
}

int hca_obj_pin(struct hca_obj *o, uint64_t addr, uint64_t bytes)
{
	const uint64_t pages = bytes ? limits_pages(addr, bytes) : 0;
	const uint64_t all = spw_thr_fetch_add(&pinned_pages, pages) + pages;
	struct rlimit limit;
	int rc = 0;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
	    all > limit.rlim_cur / (uint64_t)sysconf(_SC_PAGESIZE) && !hca_capable(CAP_IPC_LOCK))
		rc = limit.rlim_cur ? -ENOMEM : -EPERM;
	if (rc)
		spw_thr_fetch_add(&pinned_pages, -pages);
	else
		o->pinned_pages += pages;
	return rc;
}

void hca_obj_unpin(struct hca_obj *o)
{
	spw_thr_fetch_add(&pinned_pages, -o->pinned_pages);
	o->pinned_pages = 0;
}

int hca_obj_repin(struct hca_obj *o, uint64_t addr, uint64_t bytes)
{
	const uint64_t before = o->pinned_pages;
	int rc = hca_obj_pin(o, addr, bytes);

	if (rc)
		return rc;
	spw_thr_fetch_add(&pinned_pages, -before);
	o->pinned_pages -= before;
	return 0;
}

bool hca_obj_room(const struct hca_dev *dev, enum hca_obj_type type)
{
	static const uint32_t max[HCA_OBJ_TYPES] = {
		[HCA_PD] = CAP_PD_CNT,
		[HCA_MR] = 1u << (CAP_MR_LOG2 - 1),
		[HCA_CQ] = 1u << (CAP_CQ_LOG2 - 1),
		[HCA_SRQ] = 1u << (CAP_SRQ_LOG2 - 1),
		[HCA_WQ] = 1u << (CAP_WQ_LOG2 - 1),
		[HCA_RWQ_TBL] = CAP_RWQ_TBL_CNT,
		[HCA_QP] = 1u << (CAP_QP_LOG2 - 1),
	};

	return !max[type] || dev->obj_cnt[type] < max[type];
}

int hca_mcast_room(const struct hca_dev *dev, const uint8_t gid[16])
{
	uint32_t groups = 0, in_group = 0;

	for (const struct hca_mcast *m = dev->mcast; m; m = m->next) {
		const struct hca_mcast *first = dev->mcast;

		while (memcmp(first->gid, m->gid, 16))
			first = first->next;
		groups += first == m;
		in_group += memcmp(m->gid, gid, 16) == 0;
	}
	if (in_group >= CAP_MCAST_QP_CNT || (!in_group && groups >= CAP_MCAST_GRP_CNT))
		return -ENOMEM;
	return 0;
}
