/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Opens an RDMA device by name and reads its port, limits and counters (spw_rdma.h). Called at
 * set-up by every RDMA driver. Plain verbs and sysfs.
 *
 *   rdma_dev_open   name ─► context ─► facts (attributes, port, NUMA node, tick counter) ─► PD
 *                   ─► events without waiting (event.c) ─► clock (clock.c)
 *   rdma_dev_close  regions ─► PD ─► context: each needs the next
 *
 * The facts do not change later, except dev->port, which rdma_dev_check_link reads again. lib/xfer,
 * spinwire-perf and spinwire-doctor open devices here, too.
 */
#include "rdma/spw_rdma.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_err.h"

#define TSC_WINDOW_MS 20u

/* ---- by name ---- */

/* The devices that there are, for the message. */
static void rdma_dev_names_text(struct ibv_device **list, char *text, size_t bytes)
{
	size_t n = 0;

	text[0] = '\0';
	for (uint32_t i = 0; list[i] && n < bytes; i++)
		n += (size_t)snprintf(text + n, bytes - n, "%s%s", i ? ", " : "",
				      ibv_get_device_name(list[i]));
}

/* rdma-core tries a second path if the first cannot be opened, and returns the errno of the second
 * only: open the first one again for its errno. */
static int rdma_dev_open_failed(const struct ibv_device *device, const char *name, int code)
{
	char path[IBV_SYSFS_NAME_MAX + 32];
	int fd;

	snprintf(path, sizeof(path), "/dev/infiniband/%s", device->dev_name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		code = errno;
	else
		close(fd);
	if (code == EACCES || code == EPERM)
		return spw_err(code,
			       "%s: %s may not be opened: run as root, or give the user read and "
			       "write access to that file "
			       "(mode 0666 is what rdma-core's udev rules set)",
			       name, path);
	return spw_err(code, "%s: %s cannot be opened: %s; dmesg may say more", name, path,
		       strerror(code));
}

/* Errors: those of the open; -ENODEV with the names of the devices that there are. */
static int rdma_dev_open_listed(struct ibv_device **list, const char *name,
				struct ibv_context **ctx_out)
{
	char names[256];

	for (uint32_t i = 0; list[i]; i++) {
		if (strcmp(ibv_get_device_name(list[i]), name))
			continue;
		errno = 0;
		*ctx_out = ibv_open_device(list[i]);
		return *ctx_out ? 0 : rdma_dev_open_failed(list[i], name, errno ? errno : ENODEV);
	}
	rdma_dev_names_text(list, names, sizeof(names));
	if (!names[0])
		return spw_err(ENODEV, "no RDMA device here: load its driver (modprobe mlx5_ib), "
				       "and in a container pass "
				       "/dev/infiniband through");
	return spw_err(ENODEV, "there is no device '%s'; this machine has %s", name, names);
}

/* A missing list and an empty one have different causes: without ib_uverbs there is no list. */
static int rdma_dev_open_by_name(const char *name, struct ibv_context **ctx_out)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int rc;

	if (!list)
		return spw_err(errno == EPERM ? EPERM : ENODEV,
			       "no RDMA here: %s; load ib_uverbs and the device's driver "
			       "(modprobe ib_uverbs mlx5_ib), or emulate a card: with-softhca "
			       "COMMAND",
			       strerror(errno));
	rc = rdma_dev_open_listed(list, name, ctx_out);
	ibv_free_device_list(list);
	return rc;
}

/* Linux, drivers/infiniband/core/uverbs_cmd.c: create_qp and ib_uverbs_ex_create_flow. */
uint64_t rdma_caps(const struct spw_port_spec *spec)
{
	const char *mode = spw_port_spec_find(spec, "mode");

	return mode && !strcmp(mode, "rc") ? 0 : 1ull << CAP_NET_RAW;
}

/* ---- what it is ---- */

/* format is that of scanf(3) for the type of *value_out. */
static bool rdma_dev_read_number(const char *path, const char *format, void *value_out)
{
	FILE *f = fopen(path, "re");
	bool ok = f && fscanf(f, format, value_out) == 1;

	if (f)
		fclose(f);
	return ok;
}

/* -1: unknown, or a device without PCI. */
static int rdma_dev_node_of(const struct ibv_device *device)
{
	char path[IBV_SYSFS_PATH_MAX + 32];
	int node;

	snprintf(path, sizeof(path), "%s/device/numa_node", device->ibdev_path);
	return rdma_dev_read_number(path, "%d", &node) ? node : -1;
}

/* Takes TSC_WINDOW_MS, for the tick counter: only at set-up. */
static int rdma_dev_read_facts(struct rdma_dev *dev)
{
	int rc = ibv_query_device_ex(dev->ctx, NULL, &dev->attr);

	if (rc)
		return spw_err(rc, "%s: ibv_query_device_ex: %s", dev->name, strerror(rc));
	if (dev->port_num < 1 || dev->port_num > dev->attr.orig_attr.phys_port_cnt)
		return spw_err(ERANGE, "%s has no port %u: use 1 .. %u", dev->name, dev->port_num,
			       dev->attr.orig_attr.phys_port_cnt);
	rc = ibv_query_port(dev->ctx, dev->port_num, &dev->port);
	if (rc)
		return spw_err(rc, "%s: ibv_query_port: %s", dev->name, strerror(rc));
	dev->numa_node = rdma_dev_node_of(dev->ctx->device);
	return spw_tsc_calibrate(TSC_WINDOW_MS, &dev->tsc);
}

/* Port numbers of RDMA begin at 1. On an error nothing is left open. */
int rdma_dev_open(const char *name, uint8_t port_num, struct rdma_dev *dev)
{
	int rc;

	memset(dev, 0, sizeof(*dev));
	pthread_mutex_init(&dev->lock, NULL);
	dev->port_num = port_num;
	snprintf(dev->name, sizeof(dev->name), "%s", name);
	rc = rdma_dev_open_by_name(name, &dev->ctx);
	rc = rc ? rc : rdma_dev_read_facts(dev);
	if (!rc) {
		dev->pd = ibv_alloc_pd(dev->ctx);
		rc = dev->pd ? 0 : spw_err(errno, "%s: ibv_alloc_pd: %s", name, strerror(errno));
	}
	rc = rc ? rc : rdma_dev_events_open(dev);
	if (rc)
		rdma_dev_close(dev);
	else
		rdma_dev_clock_open(dev);
	return rc;
}

void rdma_dev_close(struct rdma_dev *dev)
{
	for (uint32_t id = 0; id < SPW_REGION_MAX; id++) {
		if (dev->region[id].mr)
			ibv_dereg_mr(dev->region[id].mr);
		dev->region[id].mr = NULL;
	}
	if (dev->channel)
		ibv_destroy_comp_channel(dev->channel);
	if (dev->pd)
		ibv_dealloc_pd(dev->pd);
	dev->channel = NULL;
	if (dev->has_ptp)
		close(dev->ptp_fd);
	dev->has_ptp = false;
	if (dev->ctx) {
		ibv_close_device(dev->ctx);
		pthread_mutex_destroy(&dev->lock);
	}
	dev->pd = NULL;
	dev->ctx = NULL;
}

/* ---- port ---- */

/* At open, because a program that polls a port without a link would only show no frames. */
int rdma_dev_check_link(struct rdma_dev *dev)
{
	int rc = ibv_query_port(dev->ctx, dev->port_num, &dev->port);

	if (dev->gone || rc == EIO || rc == ENODEV) /* Linux: a disassociated file is EIO */
		return spw_err(rc ? rc : ENODEV, "%s: " RDMA_GONE_TEXT, dev->name);
	if (rc)
		return spw_err(rc, "%s: ibv_query_port: %s", dev->name, strerror(rc));
	if (dev->port.state != IBV_PORT_ACTIVE)
		return spw_err(ENETDOWN,
			       "%s port %u is %s: plug in the cable, or bring its interface up (ip "
			       "link set dev ... up; "
			       "rdma link names it)",
			       dev->name, dev->port_num, ibv_port_state_str(dev->port.state));
	return 0;
}

/* Mbit/s of one lane by active_speed, lanes by active_width; rdma-core names neither. [IBTA]
 * PortInfo. */
uint32_t rdma_dev_speed_mbps(const struct rdma_dev *dev)
{
	static const struct {
		uint8_t bit;
		uint32_t mbps;
	} speed[] = {
		{1, 2500},   {2, 5000},   {4, 10000},  {8, 10000},
		{16, 14000}, {32, 25000}, {64, 50000}, {128, 100000},
	};
	static const struct {
		uint8_t bit;
		uint32_t lanes;
	} width[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
	uint32_t mbps = 0, lanes = 0;

	for (size_t i = 0; i < SPW_ARRAY_CNT(speed); i++)
		if (dev->port.active_speed == speed[i].bit)
			mbps = speed[i].mbps;
	for (size_t i = 0; i < SPW_ARRAY_CNT(width); i++)
		if (dev->port.active_width == width[i].bit)
			lanes = width[i].lanes;
	return mbps * lanes;
}

/* enum ibv_mtu: 1 is 256 bytes, and each step doubles, up to 5: 4096. */
uint32_t rdma_dev_mtu_bytes(const struct rdma_dev *dev)
{
	return 128u << SPW_MIN(SPW_MAX((unsigned)dev->port.active_mtu, 1u), 5u);
}

bool rdma_dev_counter(const struct rdma_dev *dev, const char *path, uint64_t *value_out)
{
	char file[IBV_SYSFS_PATH_MAX + 96];

	snprintf(file, sizeof(file), "%s/ports/%u/%.64s", dev->ctx->device->ibdev_path,
		 dev->port_num, path);
	return rdma_dev_read_number(file, "%" SCNu64, value_out);
}
