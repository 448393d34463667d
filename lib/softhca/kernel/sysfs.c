/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The emulated /sys: writes the files of each device into the private folder. Class entries are
 * links into devices/, as on a real machine: UCX and NCCL walk up from there to the PCI function.
 *
 *   sys/devices/pciDDDD:00/<root port>/<function>/      vendor, device, resource, ...
 *     (of a scalable function: .../<function>/mlx5_core.sf.N/)
 *       infiniband/<name>/ports/1/                      state, gids/, counters/, hw_counters/
 *       infiniband_verbs/uverbsN/                       ibdev, dev, abi_version
 *       net/<interface>/                                with --netdev, or of the card
 *   sys/class/infiniband/<name>, sys/class/infiniband_verbs/uverbsN, sys/bus/pci/devices/<function>
 *   sys/class/misc/rdma_cm/                             abi_version, dev
 *   dev/infiniband/uverbsN, dev/infiniband/rdma_cm, dev/ptpN
 *
 *   sysfs_build     all files, when the process first looks for a device       preload/proc.c
 *   sysfs_refresh   what changes, before the program opens or reads it         preload/vfs.c
 *   sysfs_drop      the entries of a device that has left the bus              preload/vfs.c
 *
 * What to know before changing it: programs parse these texts, so each is written as Linux writes
 * it (drivers/pci/pci-sysfs.c, drivers/infiniband/core/sysfs.c, net/core/net-sysfs.c). A file that
 * changes while programs run belongs in refresh_dev, and its name into preload/vfs.c
 * (counter_name).
 */
#include <errno.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "softhca/kernel/cmd.h"
#include "softhca/kernel/ctl.h"
#include "softhca/kernel/tree.h"

#define SF_FIRST     2u  /* N of mlx5_core.sf.N: 0 and 1 are other auxiliary devices */
#define SF_NUM_FIRST 88u /* as the administrator numbers them */

/* A folder being filled; rc keeps the first error, so callers write file after file and look once.
 */
struct dir {
	const struct tree *t;
	char path[256];
	int rc;
};

static void dir_put(struct dir *d, const char *name, const char *fmt, ...) SPW_PRINTF(3, 4);

static void dir_put(struct dir *d, const char *name, const char *fmt, ...)
{
	char path[400], text[512];
	va_list ap;
	int rc;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	snprintf(path, sizeof(path), "%s/%s", d->path, name);
	rc = tree_file(d->t, path, "%s", text);
	d->rc = d->rc ? d->rc : rc;
}

/* target is relative to the folder of the link, so that a program that follows it stays in the
 * private folder. */
static void put_dev_link(struct dir *d, const char *name, const char *target)
{
	char path[400];
	int rc;

	snprintf(path, sizeof(path), "%s/%s", d->path, name);
	rc = tree_link(d->t, path, target);
	d->rc = d->rc ? d->rc : rc;
}

/* Domain, bus, device and function, as the names of PCI devices in /sys. */
static void bdf_text(const struct hca_dev_cfg *id, char *buf, size_t bytes)
{
	snprintf(buf, bytes, "%04x:%02x:%02x.%x", id->pci_domain, id->pci_bus, id->pci_dev,
		 id->pci_func);
}

/* Below a root port, as a card is. */
void sysfs_pci_path(const struct hca_dev_cfg *id, char *buf, size_t bytes)
{
	char bdf[32];

	bdf_text(id, bdf, sizeof(bdf));
	snprintf(buf, bytes, "/sys/devices/pci%04x:00/%04x:00:%02x.0/%s", id->pci_domain,
		 id->pci_domain, id->pci_bus, bdf);
}

/* The folder of the device that the RDMA device belongs to: the PCI function, or an auxiliary
 * device below it. */
static void device_path(const struct hca_dev *dev, char *buf, size_t bytes)
{
	char pci[128];

	sysfs_pci_path(&dev->id, pci, sizeof(pci));
	if (dev->cfg->card->is_sf)
		snprintf(buf, bytes, "%s/mlx5_core.sf.%u", pci, SF_FIRST + dev->idx);
	else
		snprintf(buf, bytes, "%s", pci);
}

/* ---- PCI function ---- */

/* libibverbs finds the driver of a device by this text (rdma-core, libibverbs/init.c). */
static void put_modalias(struct dir *d, const struct hca_card *card)
{
	dir_put(d, "modalias", "pci:v000015B3d%08Xsv000015B3sd%08Xbc02sc00i00", card->part_id,
		card->subsys_id);
}

/* libibverbs finds the driver of a scalable function by netlink or, where the kernel refuses that,
 * by the modalias of the PCI function. */
static void put_auxiliary(struct dir *d, const struct hca_dev *dev)
{
	put_modalias(d, dev->cfg->card);
	dir_put(d, "sfnum", "%u", SF_NUM_FIRST + dev->idx);
}

static void put_pci(struct dir *d, const struct hca_dev *dev)
{
	const struct hca_card *card = dev->cfg->card;
	char bdf[32], ptp[48], cpus[256] = "0";

	bdf_text(&dev->id, bdf, sizeof(bdf));
	snprintf(cpus, sizeof(cpus), "0-%ld", sysconf(_SC_NPROCESSORS_CONF) - 1);
	put_modalias(d, card);
	dir_put(d, "vendor", "0x15b3");
	dir_put(d, "device", "0x%04x", card->part_id);
	dir_put(d, "subsystem_vendor", "0x15b3");
	dir_put(d, "subsystem_device", "0x%04x", card->subsys_id);
	dir_put(d, "class", "0x020000");
	dir_put(d, "revision", "0x00");
	dir_put(d, "irq", "0");
	dir_put(d, "numa_node", "-1");
	dir_put(d, "local_cpulist", "%s", cpus);
	dir_put(d, "local_cpus", "%lx",
		sysconf(_SC_NPROCESSORS_CONF) >= 64 ? ~0ul
						    : (1ul << sysconf(_SC_NPROCESSORS_CONF)) - 1);
	dir_put(d, "current_link_speed", "%s", card->pcie_speed);
	dir_put(d, "max_link_speed", "%s", card->pcie_speed);
	dir_put(d, "current_link_width", "%u", card->pcie_width);
	dir_put(d, "max_link_width", "%u", card->pcie_width);
	dir_put(d, "enable", "1");
	dir_put(d, "max_vfs", "0");
	dir_put(d, "sriov_numvfs", "0");
	dir_put(d, "sriov_totalvfs", "0");
	snprintf(ptp, sizeof(ptp), "ptp/ptp%u/clock_name", SYSFS_PTP_FIRST + dev->idx);
	dir_put(d, ptp, "mlx5_ptp");
	dir_put(d, "uevent",
		"DRIVER=mlx5_core\nPCI_CLASS=20000\nPCI_ID=15B3:%04X\nPCI_SUBSYS_ID=15B3:%04X\n"
		"PCI_SLOT_NAME=%s",
		card->part_id, card->subsys_id, bdf);
	/* No BAR: applications map registers from the device file (uar.c), never from here. */
	dir_put(d, "resource", "%s%s",
		"0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
		"0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
		"0x0000000000000000 0x0000000000000000 0x0000000000000000\n",
		"0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
		"0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
		"0x0000000000000000 0x0000000000000000 0x0000000000000000");
	put_dev_link(d, "driver", "../../../../bus/pci/drivers/mlx5_core");
	put_dev_link(d, "subsystem", "../../../../bus/pci");
}

/* ---- network interface ---- */

/* As Linux prints a switch id: the bytes of the GUID from the last on (a number in the memory of a
 * little-endian machine). */
static void switch_id_text(const struct hca_dev *dev, char text[17])
{
	uint8_t guid[8];

	hca_system_guid(dev, guid);
	for (uint32_t i = 0; i < 8; i++)
		snprintf(text + 2 * i, 3, "%02x", guid[7 - i]);
}

/* One of the parts that refresh_dev writes again. */
static void put_link_state(struct dir *d, const struct hca_dev *dev)
{
	dir_put(d, "carrier", "%u", dev->link_up);
	dir_put(d, "operstate", "%s", dev->link_up ? "up" : "down");
	dir_put(d, "speed", "%u", hca_speed_mbps(dev));
}

/* Files, not a link into the real /sys, which may show another network namespace. */
static void put_netdev(struct dir *d, const struct hca_dev *dev)
{
	const uint8_t *m = dev->id.mac;
	size_t at = strlen(d->path);
	char id[17];

	snprintf(d->path + at, sizeof(d->path) - at, "/net/%s", dev->id.netdev);
	switch_id_text(dev, id);
	dir_put(d, "dev_port", "0");
	dir_put(d, "dev_id", "0x0");
	dir_put(d, "type", "1");
	dir_put(d, "ifindex", "%u", if_nametoindex(dev->id.netdev));
	dir_put(d, "mtu", "%u", dev->mtu_bytes);
	dir_put(d, "address", "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5]);
	dir_put(d, "phys_port_name", "p%u", dev->id.port);
	dir_put(d, "phys_switch_id", "%s", id);
	put_link_state(d, dev);
	put_dev_link(d, "device", "../..");
	d->path[at] = 0;
}

/* ---- port ---- */

/* IBTA's states; the link is either all up or all down. */
static void put_state(struct dir *d, const struct hca_dev *dev)
{
	dir_put(d, "state", "%s", dev->link_up ? "4: ACTIVE" : "1: DOWN");
	dir_put(d, "phys_state", "%s", dev->link_up ? "5: LinkUp" : "3: Disabled");
}

/* Without an interface of its own a device names lo, as hca_netdev_ifindex does. */
static void put_gids(struct dir *d, const struct hca_dev *dev)
{
	for (uint32_t i = 0; i < HCA_GID_CNT; i++) {
		const uint8_t *g = dev->gid[i];
		char name[64], text[64];
		size_t n = 0;

		for (uint32_t k = 0; k < 16; k += 2)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%02x%02x",
					      k ? ":" : "", g[k], g[k + 1]);
		snprintf(name, sizeof(name), "gids/%u", i);
		dir_put(d, name, "%s", text);
		snprintf(name, sizeof(name), "gid_attrs/types/%u", i);
		dir_put(d, name, "%s", i & 1 ? "RoCE v2" : "IB/RoCE v1");
		snprintf(name, sizeof(name), "gid_attrs/ndevs/%u", i);
		dir_put(d, name, "%s", dev->id.netdev[0] ? dev->id.netdev : "lo");
	}
}

/* only: the name of one counter; NULL: all. The lists are in hca_cnt.h. */
static void put_counters(struct dir *d, const struct hca_dev *dev, const char *only)
{
#define PUT_IN(folder, name)                         \
	if (!only || strcmp(only, #name) == 0)       \
		dir_put(d, folder "/" #name, "%llu", \
			(unsigned long long)spw_thr_load_rlx(&dev->cnt.name));
#define PUT_PORT(name) PUT_IN("counters", name)
#define PUT_HW(name)   PUT_IN("hw_counters", name)
	HCA_PORT_CNT(PUT_PORT)
	HCA_HW_CNT(PUT_HW)
	if (!only)
		dir_put(d, "hw_counters/lifespan", "10");
}

/* The text of Linux has the width and the lane speed beside the rate. A rate that is not in the
 * table has no file. */
static void put_rate(struct dir *d, const struct hca_dev *dev)
{
	const uint32_t gbps = hca_speed_mbps(dev) / 1000;
	static const struct {
		uint32_t gbps;
		const char *text;
	} rates[] = {{10, "10 Gb/sec (1X QDR)"},   {25, "25 Gb/sec (1X EDR)"},
		     {40, "40 Gb/sec (4X FDR10)"}, {50, "50 Gb/sec (1X HDR)"},
		     {100, "100 Gb/sec (4X EDR)"}, {200, "200 Gb/sec (4X HDR)"},
		     {400, "400 Gb/sec (4X NDR)"}};

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(rates); i++)
		if (rates[i].gbps == gbps)
			dir_put(d, "rate", "%s", rates[i].text);
}

/* P_Key, LID and the subnet manager's fields are those of every RoCE port. */
static void put_port(struct dir *d, const struct hca_dev *dev)
{
	put_state(d, dev);
	put_rate(d, dev);
	put_gids(d, dev);
	put_counters(d, dev, NULL);
	dir_put(d, "link_layer", "Ethernet");
	dir_put(d, "pkeys/0", "0xffff");
	dir_put(d, "lid", "0x0");
	dir_put(d, "lid_mask_count", "0");
	dir_put(d, "sm_lid", "0x0");
	dir_put(d, "sm_sl", "0");
	dir_put(d, "cap_mask", "0x04010000");
}

/* ---- RDMA device ---- */

static void put_guid(struct dir *d, const char *name, const uint8_t g[8])
{
	dir_put(d, name, "%02x%02x:%02x%02x:%02x%02x:%02x%02x", g[0], g[1], g[2], g[3], g[4], g[5],
		g[6], g[7]);
}

/* No card has this file: what --rate enforces, Mbit/s of port and PCIe link; 0: nothing. */
static void put_enforced(struct dir *d, const struct hca_dev *dev)
{
	const struct hca_cfg *cfg = dev->cfg;

	dir_put(d, "enforced_mbps", "%u %u",
		cfg->rate_card ? hca_speed_mbps(dev) : cfg->rate_port_mbps,
		cfg->rate_card ? cfg->card->pcie_mbps : cfg->rate_pcie_mbps);
}

static void put_ibdev(struct dir *d, const struct hca_dev *dev)
{
	uint64_t fw = hca_fw_ver(dev);
	uint8_t guid[8];

	dir_put(d, "node_type", "1: CA");
	hca_node_guid(dev, guid);
	put_guid(d, "node_guid", guid);
	hca_system_guid(dev, guid);
	put_guid(d, "sys_image_guid", guid);
	dir_put(d, "node_desc", "spinwire software HCA");
	dir_put(d, "fw_ver", "%u.%02u.%04u", (unsigned int)(fw >> 32),
		(unsigned int)(fw >> 16 & 0xffff), (unsigned int)(fw & 0xffff));
	dir_put(d, "hw_rev", "0");
	dir_put(d, "board_id", "%s", dev->cfg->card->board_id);
	dir_put(d, "hca_type", "%s", dev->cfg->card->hca_type);
	put_enforced(d, dev);
	put_dev_link(d, "device", "../..");
}

/* dev is what libibverbs compares with the device file that it opens. */
static void put_uverbs(struct dir *d, const struct hca_dev *dev)
{
	dir_put(d, "ibdev", "%s", dev->id.name);
	dir_put(d, "dev", "%u:%u", UVERBS_MAJOR, UVERBS_MINOR(dev->cfg, dev->idx));
	dir_put(d, "abi_version", "1");
	put_dev_link(d, "device", "../..");
}

/* The entries of a device in the classes and buses, all links into its own folder. */
static void put_links(struct dir *d, const struct hca_dev *dev)
{
	const uint32_t uverbs = sysfs_uverbs(dev->cfg, dev->idx);
	char at[160], bdf[32], path[300], target[360];

	device_path(dev, at, sizeof(at));
	snprintf(d->path, sizeof(d->path), "sys/class");
	snprintf(path, sizeof(path), "infiniband/%s", dev->id.name);
	snprintf(target, sizeof(target), "../..%s/infiniband/%s", at + strlen("/sys"),
		 dev->id.name);
	put_dev_link(d, path, target);
	snprintf(path, sizeof(path), "infiniband_verbs/uverbs%u", uverbs);
	snprintf(target, sizeof(target), "../..%s/infiniband_verbs/uverbs%u", at + strlen("/sys"),
		 uverbs);
	put_dev_link(d, path, target);
	if (dev->id.netdev_emulated) {
		snprintf(path, sizeof(path), "net/%s", dev->id.netdev);
		snprintf(target, sizeof(target), "../..%s/net/%s", at + strlen("/sys"),
			 dev->id.netdev);
		put_dev_link(d, path, target);
	}
	sysfs_pci_path(&dev->id, at, sizeof(at));
	bdf_text(&dev->id, bdf, sizeof(bdf));
	snprintf(d->path, sizeof(d->path), "sys/bus/pci/devices");
	/* Devices of a bus lie one folder deeper than those of a class. */
	snprintf(target, sizeof(target), "../../..%s", at + strlen("/sys"));
	put_dev_link(d, bdf, target);
}

/* The files in dev only have to exist: open() of uverbsN is intercepted, and ioctl() of ptpN
 * (preload/). */
static int build_dev(const struct tree *t, const struct hca_dev *dev)
{
	const uint32_t uverbs = sysfs_uverbs(dev->cfg, dev->idx);
	struct dir d = {.t = t};
	char at[160], path[64];

	sysfs_pci_path(&dev->id, at, sizeof(at));
	snprintf(d.path, sizeof(d.path), "%s", at + 1);
	put_pci(&d, dev);
	device_path(dev, at, sizeof(at));
	snprintf(d.path, sizeof(d.path), "%s", at + 1);
	if (dev->cfg->card->is_sf)
		put_auxiliary(&d, dev);
	if (dev->id.netdev[0])
		put_netdev(&d, dev);
	snprintf(d.path, sizeof(d.path), "%s/infiniband/%s", at + 1, dev->id.name);
	put_ibdev(&d, dev);
	snprintf(d.path, sizeof(d.path), "%s/infiniband/%s/ports/1", at + 1, dev->id.name);
	put_port(&d, dev);
	snprintf(d.path, sizeof(d.path), "%s/infiniband_verbs/uverbs%u", at + 1, uverbs);
	put_uverbs(&d, dev);
	put_links(&d, dev);
	snprintf(d.path, sizeof(d.path), "dev/infiniband");
	snprintf(path, sizeof(path), "uverbs%u", uverbs);
	dir_put(&d, path, "%s", dev->id.name);
	snprintf(d.path, sizeof(d.path), "dev");
	snprintf(path, sizeof(path), "ptp%u", SYSFS_PTP_FIRST + dev->idx);
	dir_put(&d, path, "%s", dev->id.name);
	return d.rc;
}

/* A device that is removed vanishes from its classes and buses; its own folder stays, since
 * programs may have files of it open. */
void sysfs_drop(const struct tree *t, const struct hca_dev *dev)
{
	const uint32_t uverbs = sysfs_uverbs(dev->cfg, dev->idx);
	char bdf[32], path[128];

	bdf_text(&dev->id, bdf, sizeof(bdf));
	snprintf(path, sizeof(path), "sys/class/infiniband/%s", dev->id.name);
	tree_unlink(t, path);
	snprintf(path, sizeof(path), "sys/class/infiniband_verbs/uverbs%u", uverbs);
	tree_unlink(t, path);
	snprintf(path, sizeof(path), "sys/class/net/%s", dev->id.netdev);
	tree_unlink(t, path);
	snprintf(path, sizeof(path), "sys/bus/pci/devices/%s", bdf);
	tree_unlink(t, path);
	snprintf(path, sizeof(path), "dev/infiniband/uverbs%u", uverbs);
	tree_unlink(t, path);
}

/* The machine's own devices come last, so that emulated ones of the same name are there first. */
int sysfs_build(const struct tree *t, const struct hca_dev *devs, uint32_t cnt)
{
	int rc = tree_file(t, "sys/class/infiniband_verbs/abi_version", "6");

	rc = rc ? rc : tree_file(t, "sys/class/misc/rdma_cm/abi_version", "4");
	rc = rc ? rc
		: tree_file(t, "sys/class/misc/rdma_cm/dev", "%u:%u", RDMA_CM_MAJOR, RDMA_CM_MINOR);
	rc = rc ? rc : tree_file(t, "dev/infiniband/rdma_cm", "rdma_cm");
	rc = rc ? rc : tree_dir(t, "sys/bus/pci/drivers/mlx5_core");
	for (uint32_t i = 0; i < cnt && !rc; i++)
		rc = build_dev(t, &devs[i]);
	if (rc)
		return spw_err(-rc, "cannot write %s: %s%s", t->root, strerror(-rc),
			       rc == -ENOSPC ? " (docker: --shm-size)" : "");
	sysfs_link_real(t, devs->cfg);
	return 0;
}

/* Files that change while programs run are written again when one of them is opened; name is that
 * file's, and says which part is needed. */
static void refresh_dev(const struct tree *t, const struct hca_dev *dev, const char *name)
{
	struct dir d = {.t = t};
	char at[160];

	device_path(dev, at, sizeof(at));
	snprintf(d.path, sizeof(d.path), "%s/net/%s", at + 1, dev->id.netdev);
	if (strcmp(name, "carrier") == 0 || strcmp(name, "operstate") == 0 ||
	    strcmp(name, "speed") == 0) {
		if (dev->id.netdev[0])
			put_link_state(&d, dev);
		return;
	}
	snprintf(d.path, sizeof(d.path), "%s/infiniband/%s/ports/1", at + 1, dev->id.name);
	if (strcmp(name, "state") == 0 || strcmp(name, "phys_state") == 0)
		put_state(&d, dev);
	else if (strcmp(name, "rate") == 0)
		put_rate(&d, dev);
	else
		put_counters(&d, dev, name);
}

void sysfs_refresh(const struct tree *t, const struct hca_dev *devs, uint32_t cnt, const char *name)
{
	for (uint32_t i = 0; i < cnt; i++)
		refresh_dev(t, &devs[i], name);
}

/* An emulated interface has no number in the kernel; lo is on every machine. */
uint32_t hca_netdev_ifindex(const struct hca_dev *dev)
{
	return if_nametoindex(dev->id.netdev[0] && !dev->id.netdev_emulated ? dev->id.netdev
									    : "lo");
}
