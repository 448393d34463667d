/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Reads the device's clock together with the CPU's, in one of two ways (rdma_dev_clock_open):
 *
 *   page   raw counter
 *   PTP    /dev/ptpN: ns ─► kernel's conversion page, backwards ─► raw counter
 *
 * The page: libmlx5 reads a card's clock with three loads:
 * high word, low word, and the high word again until it is unchanged (rdma-core
 * providers/mlx5/verbs.c, mlx5_read_clock); the low word is sampled in the middle. A software
 * device shows a page that its NIC thread refreshes.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ptp_clock.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#ifdef SPW_HAVE_MLX5DV
#include <infiniband/mlx5dv.h>
#endif

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "rdma/spw_rdma.h"

#define CLOCK_TRIES 10u /* enough to distinguish a register from a page */
#define CLOCK_READS                                                                              \
	2000u /* about 150 us: a software device that sleeps shows its clock every 2 ms, and who \
		 asks may ask again */

static int rdma_clock_read_page(void *arg, uint64_t *value_out)
{
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};

	if (ibv_query_rt_values_ex(arg, &values) || !(values.comp_mask & IBV_VALUES_MASK_RAW_CLOCK))
		return -ENOTSUP;
	*value_out = (uint64_t)values.raw_clock.tv_nsec; /* ticks, despite the name */
	return 0;
}

#ifdef SPW_HAVE_MLX5DV
/* The inverse of mlx5dv_ts_to_ns(). A PTP clock that was set and not yet converted anew may lie on
 * either side of the page's base. */
static int rdma_clock_ticks_of_ns(struct ibv_context *ctx, uint64_t ns, uint64_t *ticks_out)
{
	struct mlx5dv_clock_info info;
	__int128 ticks;

	if (mlx5dv_get_clock_info(ctx, &info) || !info.mult)
		return -ENOTSUP;
	ticks = (__int128)(int64_t)(ns - info.nsec) * (1ll << info.shift) - (int64_t)info.frac;
	*ticks_out = (info.last_cycles + (uint64_t)(ticks / info.mult)) & info.mask;
	return 0;
}
#else
static int rdma_clock_ticks_of_ns(struct ibv_context *ctx SPW_UNUSED, uint64_t ns SPW_UNUSED,
				  uint64_t *ticks_out SPW_UNUSED)
{
	return -ENOTSUP;
}
#endif

static int rdma_clock_read_ptp(void *arg, uint64_t *value_out)
{
	const struct rdma_dev *dev = arg;
	struct ptp_sys_offset_extended off = {.n_samples = 1};

	if (ioctl(dev->ptp_fd, PTP_SYS_OFFSET_EXTENDED, &off))
		return -errno;
	return rdma_clock_ticks_of_ns(
		dev->ctx, (uint64_t)off.ts[0][1].sec * 1000000000u + off.ts[0][1].nsec, value_out);
}

/* The PTP clock of the device's PCI function: "ptpN", or "" if it has none. */
static void rdma_clock_ptp_name(const struct rdma_dev *dev, char *name_out, size_t bytes)
{
	char path[IBV_SYSFS_PATH_MAX + 32];
	const struct dirent *e;
	DIR *dir;

	name_out[0] = 0;
	snprintf(path, sizeof(path), "%s/device/ptp", dev->ctx->device->ibdev_path);
	dir = opendir(path);
	while (dir && (e = readdir(dir)))
		if (strncmp(e->d_name, "ptp", 3) == 0)
			snprintf(name_out, bytes, "%.16s", e->d_name);
	if (dir)
		closedir(dir);
}

/* A card whose PTP clock can be opened but not read or converted counts as one without. */
static int rdma_clock_ptp_open(struct rdma_dev *dev, const char *name)
{
	char path[32];
	uint64_t now;
	int rc;

	if (!name[0])
		return -ENODEV;
	snprintf(path, sizeof(path), "/dev/%s", name);
	dev->ptp_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (dev->ptp_fd < 0)
		return -errno;
	rc = rdma_clock_read_ptp(dev, &now);
	if (rc)
		close(dev->ptp_fd);
	dev->has_ptp = !rc;
	return rc;
}

/* The page first: it is read without a system call. Without the right to /dev/ptpN a device works,
 * only without NIC stamps, so this is no error of rdma_dev_open. */
void rdma_dev_clock_open(struct rdma_dev *dev)
{
	char name[20];
	uint64_t now;
	int rc;

	if (!dev->attr.hca_core_clock || !rdma_clock_read_page(dev->ctx, &now))
		return;
	rdma_clock_ptp_name(dev, name, sizeof(name));
	rc = rdma_clock_ptp_open(dev, name);
	if (!rc)
		spw_info("%s: the kernel maps no page of its clock; it is read by /dev/%s, to a "
			 "few microseconds",
			 dev->name, name);
	else
		spw_warn(
			"%s: the kernel maps no page of its clock, and /dev/%s: %s; NIC stamps are "
			"not used",
			dev->name, name[0] ? name : "ptp*", strerror(-rc));
}

static int rdma_clock_read(void *arg, uint64_t *value_out)
{
	struct rdma_dev *dev = arg;

	return dev->has_ptp ? rdma_clock_read_ptp(dev, value_out)
			    : rdma_clock_read_page(dev->ctx, value_out);
}

int rdma_dev_pair_clock(struct rdma_dev *dev, uint64_t *nic_ticks_out, uint64_t *tsc_out,
			uint64_t *uncertainty_ns_out)
{
	struct spw_clock_pair pair;
	int rc = spw_clock_pair_step(rdma_clock_read, dev, CLOCK_TRIES, CLOCK_READS, &pair);

	if (rc)
		return spw_err(-rc, "%s: its clock cannot be read: %s", dev->name, strerror(-rc));
	*nic_ticks_out = pair.other;
	*tsc_out = pair.ref;
	*uncertainty_ns_out = spw_tsc_to_ns(&dev->tsc, pair.unc) + 1;
	return 0;
}

uint64_t rdma_dev_clock_hz(const struct rdma_dev *dev)
{
	uint64_t now;

	return dev->has_ptp || !rdma_clock_read_page(dev->ctx, &now)
		       ? dev->attr.hca_core_clock * 1000
		       : 0;
}
