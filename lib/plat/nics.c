/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Network functions, found under class/net and class/infiniband and joined by their PCI address.
 *
 * Two PCIe functions may lead to one physical port: the two x4 halves of GB10's ConnectX-7, and
 * socket-direct adapters. They are recognised by the adapter (RDMA system image GUID, or switch id)
 * and the name of its port. Source: Linux Documentation/ABI/testing/sysfs-class-net,
 * sysfs-bus-pci.
 *
 * Two passes: net_read adds each PCI function with a netdev, rdma_read finds the same function by
 * its address and adds the RDMA device's name, or adds a function that has no netdev. Sorted by
 * address, so that function 0 of a port stands before its twin, which half_of then names.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plat/plat_impl.h"

struct nic_walk {
	const struct plat_root *root;
	struct spw_plat *plat;
};

static bool is_pci_address(const char *text)
{
	unsigned int domain, bus, dev, fn;
	int used = 0;

	return sscanf(text, "%4x:%2x:%2x.%1x%n", &domain, &bus, &dev, &fn, &used) == 4 &&
	       text[used] == '\0';
}

/* "32.0 GT/s PCIe" -> 32000 */
static uint32_t transfers_of(const char *text)
{
	char *end;
	double gts = strtod(text, &end);

	return end == text || gts < 0 || gts > 1000 ? 0 : (uint32_t)(gts * 1000 + 0.5);
}

/* The PCI function that a device link leads to: its target, or (virtio) the folder above. pci is ""
 * if there is none. */
static void pci_of(const struct plat_root *root, const char *device, char *dir, char *pci,
		   size_t pci_bytes)
{
	char path[PLAT_PATH_BYTES], *slash;

	snprintf(path, sizeof(path), "%s/%s", root->sys, device);
	pci[0] = '\0';
	if (!realpath(path, dir))
		dir[0] = '\0';
	for (int up = 0; up < 2 && (slash = strrchr(dir, '/')); up++) {
		if (is_pci_address(slash + 1)) {
			plat_copy(pci, pci_bytes, slash + 1);
			return;
		}
		*slash = '\0';
	}
}

/* Facts of the PCI function; dir is its folder under sys/devices. */
static void pci_read(struct spw_plat_nic *nic, const char *dir)
{
	char text[64];

	nic->vendor = (uint16_t)plat_number(0, dir, "vendor");
	nic->device = (uint16_t)plat_number(0, dir, "device");
	nic->node = (int32_t)plat_number(-1, dir, "numa_node");
	plat_text(nic->iommu, sizeof(nic->iommu), dir, "iommu_group/type");
	nic->pcie_width = (uint32_t)plat_number(0, dir, "current_link_width");
	nic->pcie_width_max = (uint32_t)plat_number(0, dir, "max_link_width");
	if (nic->pcie_width > 32 || nic->pcie_width_max > 32) /* 255 and 63 stand for "no link" */
		nic->pcie_width = nic->pcie_width_max = 0;
	plat_text(text, sizeof(text), dir, "current_link_speed");
	nic->pcie_mtps = transfers_of(text);
	plat_text(text, sizeof(text), dir, "max_link_speed");
	nic->pcie_mtps_max = transfers_of(text);
	plat_link_name(nic->driver, sizeof(nic->driver), dir, "driver");
}

/* phys_switch_id and phys_port_name are what devlink calls the port: equal for two halves of one
 * port. */
static void netdev_read(const struct plat_root *root, struct spw_plat_nic *nic)
{
	const char *dev = nic->netdev;

	plat_text(nic->switch_id, sizeof(nic->switch_id), root->sys, "class/net/%s/phys_switch_id",
		  dev);
	plat_text(nic->port_name, sizeof(nic->port_name), root->sys, "class/net/%s/phys_port_name",
		  dev);
	plat_text(nic->mac, sizeof(nic->mac), root->sys, "class/net/%s/address", dev);
	nic->mtu = (uint32_t)plat_number(0, root->sys, "class/net/%s/mtu", dev);
	nic->carrier = (int32_t)plat_number(-1, root->sys, "class/net/%s/carrier", dev);
	nic->speed_mbit = plat_number(-1, root->sys, "class/net/%s/speed", dev);
}

/* Adds the function that the device link leads to. Returns: NULL if it is not a PCI function, or
 * the table is full. */
static struct spw_plat_nic *nic_add(struct nic_walk *walk, const char *device)
{
	struct spw_plat *plat = walk->plat;
	struct spw_plat_nic *nic = &plat->nic[plat->nic_cnt];
	char dir[PATH_MAX], pci[sizeof(nic->pci)];

	pci_of(walk->root, device, dir, pci, sizeof(pci));
	if (pci[0] == '\0' || plat->nic_cnt == SPW_PLAT_NIC_MAX)
		return NULL;
	plat->nic_cnt++;
	plat_copy(nic->pci, sizeof(nic->pci), pci);
	nic->half_of = -1;
	nic->carrier = -1;
	nic->speed_mbit = -1;
	pci_read(nic, dir);
	return nic;
}

static bool net_read(const char *name, void *arg)
{
	struct nic_walk *walk = arg;
	struct spw_plat_nic *nic;
	char device[128];

	snprintf(device, sizeof(device), "class/net/%.64s/device", name);
	nic = nic_add(walk, device);
	if (nic) {
		plat_copy(nic->netdev, sizeof(nic->netdev), name);
		netdev_read(walk->root, nic);
	}
	return true;
}

static bool rdma_read(const char *name, void *arg)
{
	struct nic_walk *walk = arg;
	struct spw_plat *plat = walk->plat;
	struct spw_plat_nic *nic = NULL;
	char device[128], dir[PATH_MAX], pci[sizeof(nic->pci)];

	snprintf(device, sizeof(device), "class/infiniband/%.64s/device", name);
	pci_of(walk->root, device, dir, pci, sizeof(pci));
	for (uint32_t i = 0; i < plat->nic_cnt; i++)
		if (pci[0] && strcmp(plat->nic[i].pci, pci) == 0)
			nic = &plat->nic[i];
	if (!nic)
		nic = nic_add(walk, device);
	if (!nic)
		return true;
	plat_copy(nic->rdma, sizeof(nic->rdma), name);
	plat_text(nic->serial_guid, sizeof(nic->serial_guid), walk->root->sys,
		  "class/infiniband/%s/sys_image_guid", name);
	return true;
}

static bool same_known(const char *a, const char *b)
{
	return a[0] && strcmp(a, b) == 0;
}

/* Whether two functions of one adapter lead to the same port: by the port's name or, if neither has
 * one, by the function number. */
static bool same_port(const struct spw_plat_nic *a, const struct spw_plat_nic *b)
{
	if (a->vendor != b->vendor || a->device != b->device || strcmp(a->pci, b->pci) == 0)
		return false;
	if (!same_known(a->serial_guid, b->serial_guid) && !same_known(a->switch_id, b->switch_id))
		return false;
	if (a->port_name[0] || b->port_name[0])
		return strcmp(a->port_name, b->port_name) == 0;
	return strcmp(strrchr(a->pci, '.'), strrchr(b->pci, '.')) == 0;
}

static int by_address(const void *a, const void *b)
{
	return strcmp(((const struct spw_plat_nic *)a)->pci, ((const struct spw_plat_nic *)b)->pci);
}

void plat_nics_read(const struct plat_root *root, struct spw_plat *plat)
{
	struct nic_walk walk = {root, plat};

	plat_each(root->sys, "class/net", net_read, &walk);
	plat_each(root->sys, "class/infiniband", rdma_read, &walk);
	qsort(plat->nic, plat->nic_cnt, sizeof(plat->nic[0]), by_address);
	for (uint32_t i = 1; i < plat->nic_cnt; i++)
		for (uint32_t k = 0; k < i && plat->nic[i].half_of < 0; k++)
			if (plat->nic[k].half_of < 0 && same_port(&plat->nic[k], &plat->nic[i]))
				plat->nic[i].half_of = (int32_t)k;
}
