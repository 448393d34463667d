/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The emulated /sys: writes the files of each device into the private folder. Class entries are
 * links into devices/, as on a real machine: UCX and NCCL walk up from there to the PCI function.
 *
 *   sys/devices/pciDDDD:00/<root port>/<function>/      vendor, device, resource, ...
 *       infiniband/<name>/ports/1/                      state, gids/, counters/, hw_counters/
 *       infiniband_verbs/uverbsN/                       ibdev, dev, abi_version
 *       net/<interface>/                                with --netdev
 *   sys/class/infiniband/<name>, sys/class/infiniband_verbs/uverbsN, sys/bus/pci/devices/<function>
 *   dev/infiniband/uverbsN
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

/* A folder being filled; rc keeps the first error. */
struct dir {
	const struct tree *t;
	char path[256];
	int rc;
};

static void put(struct dir *d, const char *name, const char *fmt, ...) SPW_PRINTF(3, 4);

static void put(struct dir *d, const char *name, const char *fmt, ...)
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

static void put_link(struct dir *d, const char *name, const char *target)
{
	char path[400];
	int rc;

	snprintf(path, sizeof(path), "%s/%s", d->path, name);
	rc = tree_link(d->t, path, target);
	d->rc = d->rc ? d->rc : rc;
}

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

/* ---- PCI function ---- */

static void put_pci(struct dir *d, const struct hca_dev *dev)
{
	const struct hca_card *card = dev->cfg->card;
	char bdf[32], cpus[256] = "0";

	bdf_text(&dev->id, bdf, sizeof(bdf));
	snprintf(cpus, sizeof(cpus), "0-%ld", sysconf(_SC_NPROCESSORS_CONF) - 1);
	put(d, "modalias", "pci:v000015B3d%08Xsv000015B3sd%08Xbc02sc00i00", card->part_id,
	    card->subsys_id);
	put(d, "vendor", "0x15b3");
	put(d, "device", "0x%04x", card->part_id);
	put(d, "subsystem_vendor", "0x15b3");
	put(d, "subsystem_device", "0x%04x", card->subsys_id);
	put(d, "class", "0x020000");
	put(d, "revision", "0x00");
	put(d, "irq", "0");
	put(d, "numa_node", "-1");
	put(d, "local_cpulist", "%s", cpus);
	put(d, "local_cpus", "%lx",
	    sysconf(_SC_NPROCESSORS_CONF) >= 64 ? ~0ul
						: (1ul << sysconf(_SC_NPROCESSORS_CONF)) - 1);
	put(d, "current_link_speed", "%s", card->pcie_speed);
	put(d, "max_link_speed", "%s", card->pcie_speed);
	put(d, "current_link_width", "%u", card->pcie_width);
	put(d, "max_link_width", "%u", card->pcie_width);
	put(d, "enable", "1");
	put(d, "max_vfs", "0");
	put(d, "sriov_numvfs", "0");
	put(d, "sriov_totalvfs", "0");
	put(d, "uevent",
	    "DRIVER=mlx5_core\nPCI_CLASS=20000\nPCI_ID=15B3:%04X\nPCI_SUBSYS_ID=15B3:%04X\n"
	    "PCI_SLOT_NAME=%s",
	    card->part_id, card->subsys_id, bdf);
	put(d, "resource", "%s%s",
	    "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
	    "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
	    "0x0000000000000000 0x0000000000000000 0x0000000000000000\n",
	    "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
	    "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
	    "0x0000000000000000 0x0000000000000000 0x0000000000000000");
	put_link(d, "driver", "../../../../bus/pci/drivers/mlx5_core");
	put_link(d, "subsystem", "../../../../bus/pci");
}

/* Files, not a link into the real /sys, which may show another network namespace. */
static void put_netdev(struct dir *d, const struct hca_dev *dev)
{
	size_t at = strlen(d->path);

	snprintf(d->path + at, sizeof(d->path) - at, "/net/%s", dev->id.netdev);
	put(d, "dev_port", "0");
	put(d, "dev_id", "0x0");
	put(d, "type", "1");
	put(d, "ifindex", "%u", if_nametoindex(dev->id.netdev));
	put(d, "mtu", "%u", dev->mtu_bytes);
	d->path[at] = 0;
}

/* ---- port ---- */

static void put_state(struct dir *d, const struct hca_dev *dev)
{
	put(d, "state", "%s", dev->link_up ? "4: ACTIVE" : "1: DOWN");
	put(d, "phys_state", "%s", dev->link_up ? "5: LinkUp" : "3: Disabled");
}

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
		put(d, name, "%s", text);
		snprintf(name, sizeof(name), "gid_attrs/types/%u", i);
		put(d, name, "%s", i & 1 ? "RoCE v2" : "IB/RoCE v1");
		snprintf(name, sizeof(name), "gid_attrs/ndevs/%u", i);
		put(d, name, "%s", dev->id.netdev[0] ? dev->id.netdev : "lo");
	}
}

static void put_counters(struct dir *d, const struct hca_dev *dev, const char *only)
{
#define PUT_IN(folder, name)                     \
	if (!only || strcmp(only, #name) == 0)   \
		put(d, folder "/" #name, "%llu", \
		    (unsigned long long)spw_thr_load_rlx(&dev->cnt.name));
#define PUT_PORT(name) PUT_IN("counters", name)
#define PUT_HW(name)   PUT_IN("hw_counters", name)
	HCA_PORT_CNT(PUT_PORT)
	HCA_HW_CNT(PUT_HW)
	if (!only)
		put(d, "hw_counters/lifespan", "10");
}

static void put_port(struct dir *d, const struct hca_dev *dev)
{
	uint32_t gbps = dev->cfg->speed_mbps / 1000;
	static const struct {
		uint32_t gbps;
		const char *text;
	} rates[] = {{10, "10 Gb/sec (1X QDR)"},   {25, "25 Gb/sec (1X EDR)"},
		     {40, "40 Gb/sec (4X FDR10)"}, {50, "50 Gb/sec (1X HDR)"},
		     {100, "100 Gb/sec (4X EDR)"}, {200, "200 Gb/sec (4X HDR)"},
		     {400, "400 Gb/sec (4X NDR)"}};

	put_state(d, dev);
	put_gids(d, dev);
	put_counters(d, dev, NULL);
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(rates); i++)
		if (rates[i].gbps == gbps)
			put(d, "rate", "%s", rates[i].text);
	put(d, "link_layer", "Ethernet");
	put(d, "pkeys/0", "0xffff");
	put(d, "lid", "0x0");
	put(d, "lid_mask_count", "0");
	put(d, "sm_lid", "0x0");
	put(d, "sm_sl", "0");
	put(d, "cap_mask", "0x04010000");
}

/* ---- RDMA device ---- */

static void put_ibdev(struct dir *d, const struct hca_dev *dev)
{
	const uint8_t *m = dev->id.mac;
	uint64_t fw = hca_fw_ver(dev);
	char guid[32];

	snprintf(guid, sizeof(guid), "%02x%02x:%02xff:fe%02x:%02x%02x", m[0], m[1], m[2], m[3],
		 m[4], m[5]);
	put(d, "node_type", "1: CA");
	put(d, "node_guid", "%s", guid);
	put(d, "sys_image_guid", "%s", guid);
	put(d, "node_desc", "spinwire software HCA");
	put(d, "fw_ver", "%u.%02u.%04u", (unsigned int)(fw >> 32),
	    (unsigned int)(fw >> 16 & 0xffff), (unsigned int)(fw & 0xffff));
	put(d, "hw_rev", "0");
	put(d, "board_id", "%s", dev->cfg->card->board_id);
	put(d, "hca_type", "%s", dev->cfg->card->hca_type);
	put_link(d, "device", "../..");
}

static void put_uverbs(struct dir *d, const struct hca_dev *dev)
{
	put(d, "ibdev", "%s", dev->id.name);
	put(d, "dev", "%u:%u", UVERBS_MAJOR, UVERBS_MINOR(dev->cfg, dev->idx));
	put(d, "abi_version", "1");
	put_link(d, "device", "../..");
}

static int build_dev(const struct tree *t, const struct hca_dev *dev)
{
	const uint32_t uverbs = sysfs_uverbs(dev->cfg, dev->idx);
	struct dir d = {.t = t};
	char pci[128], bdf[32], path[300], target[300];

	sysfs_pci_path(&dev->id, pci, sizeof(pci));
	bdf_text(&dev->id, bdf, sizeof(bdf));
	snprintf(d.path, sizeof(d.path), "%s", pci + 1);
	put_pci(&d, dev);
	if (dev->id.netdev[0])
		put_netdev(&d, dev);
	snprintf(d.path, sizeof(d.path), "%s/infiniband/%s", pci + 1, dev->id.name);
	put_ibdev(&d, dev);
	snprintf(d.path, sizeof(d.path), "%s/infiniband/%s/ports/1", pci + 1, dev->id.name);
	put_port(&d, dev);
	snprintf(d.path, sizeof(d.path), "%s/infiniband_verbs/uverbs%u", pci + 1, uverbs);
	put_uverbs(&d, dev);

	snprintf(d.path, sizeof(d.path), "sys/class");
	snprintf(path, sizeof(path), "infiniband/%s", dev->id.name);
	snprintf(target, sizeof(target), "../..%s/infiniband/%s", pci + strlen("/sys"),
		 dev->id.name);
	put_link(&d, path, target);
	snprintf(path, sizeof(path), "infiniband_verbs/uverbs%u", uverbs);
	snprintf(target, sizeof(target), "../..%s/infiniband_verbs/uverbs%u", pci + strlen("/sys"),
		 uverbs);
	put_link(&d, path, target);
	snprintf(d.path, sizeof(d.path), "sys/bus/pci/devices");
	snprintf(target, sizeof(target), "../../..%s", pci + strlen("/sys"));
	put_link(&d, bdf, target);
	snprintf(d.path, sizeof(d.path), "dev/infiniband");
	snprintf(path, sizeof(path), "uverbs%u", uverbs);
	put(&d, path, "%s", dev->id.name);
	return d.rc;
}

int sysfs_build(const struct tree *t, const struct hca_dev *devs, uint32_t cnt)
{
	int rc = tree_file(t, "sys/class/infiniband_verbs/abi_version", "6");

	rc = rc ? rc : tree_dir(t, "sys/bus/pci/drivers/mlx5_core");
	for (uint32_t i = 0; i < cnt && !rc; i++)
		rc = build_dev(t, &devs[i]);
	if (rc)
		return spw_err(-rc, "cannot write %s: %s", t->root, strerror(-rc));
	sysfs_link_real(t, devs->cfg);
	return 0;
}

void sysfs_refresh(const struct tree *t, const struct hca_dev *devs, uint32_t cnt, const char *name)
{
	bool state = strcmp(name, "state") == 0 || strcmp(name, "phys_state") == 0;

	for (uint32_t i = 0; i < cnt; i++) {
		struct dir d = {.t = t};
		char pci[128];

		sysfs_pci_path(&devs[i].id, pci, sizeof(pci));
		snprintf(d.path, sizeof(d.path), "%s/infiniband/%s/ports/1", pci + 1,
			 devs[i].id.name);
		if (state)
			put_state(&d, &devs[i]);
		else
			put_counters(&d, &devs[i], name);
	}
}

uint32_t hca_netdev_ifindex(const struct hca_dev *dev)
{
	return if_nametoindex(dev->id.netdev[0] ? dev->id.netdev : "lo");
}
