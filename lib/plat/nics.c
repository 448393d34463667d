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
 * Two passes: nics_net_read adds each PCI function with a netdev, nics_rdma_read finds the same
 * function by its address and adds the RDMA device's name, or adds a function that has no netdev.
 * Sorted by address, so that function 0 of a port stands before its twin, which half_of then names.
 * RDMA devices that are no PCI function, software of the kernel above all, are a list of their own.
 */
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plat/plat_impl.h"

#define VENDOR_NVIDIA_NETWORKING 0x15b3
#define CLASS_NETWORK            0x02

static bool nics_is_pci_address(const char *text)
{
	unsigned int domain, bus, dev, fn;
	int used = 0;

	return sscanf(text, "%4x:%2x:%2x.%1x%n", &domain, &bus, &dev, &fn, &used) == 4 &&
	       text[used] == '\0';
}

/* The PCI function that a device link leads to: its target, or (virtio) the folder above. pci is ""
 * if there is none. */
static void nics_pci_of(struct plat_read *r, const char *device, char dir[PLAT_TREE_PATH_MAX],
			char *pci, size_t pci_bytes)
{
	char *slash;

	pci[0] = '\0';
	plat_tree_real(r->tree, device, dir);
	for (int up = 0; up < 2 && (slash = strrchr(dir, '/')); up++) {
		if (nics_is_pci_address(slash + 1)) {
			plat_copy(pci, pci_bytes, slash + 1);
			return;
		}
		*slash = '\0';
	}
}

/* Adds the function that the device link leads to. Returns: NULL if it is not a PCI function, or
 * the table is full. */
static struct spw_plat_nic *nics_add(struct plat_read *r, const char *device, const char *name)
{
	struct spw_plat *plat = r->plat;
	struct spw_plat_nic *nic = &plat->nic[SPW_MIN(plat->nic_cnt, SPW_PLAT_NIC_MAX - 1)];
	char dir[PLAT_TREE_PATH_MAX], pci[sizeof(nic->pci)];

	nics_pci_of(r, device, dir, pci, sizeof(pci));
	if (pci[0] == '\0' || plat->nic_cnt == SPW_PLAT_NIC_MAX)
		return NULL;
	plat->nic_cnt++;
	plat_copy(nic->pci, sizeof(nic->pci), pci);
	nic->half_of = -1;
	nic->carrier = nic->port_active = nic->gid_v2_ipv4 = nic->gid_routable = -1;
	nic->speed_mbit = nic->speed_max_mbit = -1;
	nic->uverbs_error = -1;
	plat_of(r, "nic %.32s", name);
	plat_note(r, "pci", pci, device, NULL);
	plat_nic_pci_read(r, nic, dir);
	return nic;
}

static void nics_netdev_set(struct plat_read *r, struct spw_plat_nic *nic, const char *dir,
			    const char *name)
{
	plat_copy(nic->netdev, sizeof(nic->netdev), name);
	if (plat_tree_is_live(r->tree))
		plat_probe_netdev(r->tree, name);
	plat_nic_eth_read(r, nic, dir);
}

/* A netdev without a PCI function (bridge, tunnel) is passed over: nics_add finds no address. */
static bool nics_net_read(const char *name, void *arg)
{
	struct plat_read *r = arg;
	struct spw_plat_nic *nic;
	char dir[96], device[128];

	snprintf(dir, sizeof(dir), "sys/class/net/%.64s", name);
	snprintf(device, sizeof(device), "%s/device", dir);
	nic = nics_add(r, device, name);
	if (nic)
		nics_netdev_set(r, nic, dir, name);
	return true;
}

static bool nics_name_take(const char *name, void *out)
{
	plat_copy(out, IFNAMSIZ, name);
	return false;
}

/* An RDMA device whose function class/net does not lead to; its interface, if there is one, is in
 * another network namespace or hidden, and the function's own folder shows it. */
static struct spw_plat_nic *nics_rdma_add(struct plat_read *r, const char *device, const char *rdma,
					  const char *pci_dir)
{
	char folder[PLAT_TREE_PATH_MAX + 8], dir[sizeof(folder) + IFNAMSIZ + 2];
	char netdev[IFNAMSIZ] = "";
	struct spw_plat_nic *nic;

	snprintf(folder, sizeof(folder), "%s/net", pci_dir);
	plat_tree_each(r->tree, folder, nics_name_take, netdev);
	nic = nics_add(r, device, netdev[0] ? netdev : rdma);
	snprintf(dir, sizeof(dir), "%s/%s", folder, netdev);
	if (nic && netdev[0])
		nics_netdev_set(r, nic, dir, netdev);
	return nic;
}

/* Kernels up to 5.10 link software to the PCI function whose interface it uses, so its description
 * decides. Source: Linux drivers/infiniband/sw/rxe/rxe_verbs.c, include/uapi/rdma/siw-abi.h. */
static bool nics_is_software(const char *desc)
{
	return !strcmp(desc, "rxe") || !strcmp(desc, "Software iWARP stack");
}

/* An RDMA device that is no NIC. dev has its name and its description. */
static void nics_other_add(struct plat_read *r, struct spw_plat_rdma *dev)
{
	struct spw_plat *plat = r->plat;

	plat_of(r, "rdma %.32s", dev->rdma);
	plat_note(r, "description", dev->desc, "/sys/class/infiniband/*/node_desc",
		  dev->desc[0] ? NULL : "absent");
	if (!plat_text(r, "netdev", dev->netdev, sizeof(dev->netdev),
		       "sys/class/infiniband/%s/parent", dev->rdma))
		plat_text(r, "netdev", dev->netdev, sizeof(dev->netdev),
			  "sys/class/infiniband/%s/ports/1/gid_attrs/ndevs/0", dev->rdma);
	dev->software = nics_is_software(dev->desc);
	if (plat->rdma_cnt < SPW_PLAT_RDMA_MAX)
		plat->rdma[plat->rdma_cnt++] = *dev;
}

/* Software devices are sorted out before the function is looked for, since old kernels link them
 * to it. */
static bool nics_rdma_read(const char *name, void *arg)
{
	struct plat_read *r = arg;
	struct spw_plat *plat = r->plat;
	struct spw_plat_nic *nic = NULL;
	struct spw_plat_rdma other = {0};
	char device[128], dir[PLAT_TREE_PATH_MAX], pci[sizeof(nic->pci)];

	snprintf(device, sizeof(device), "sys/class/infiniband/%.64s/device", name);
	nics_pci_of(r, device, dir, pci, sizeof(pci));
	plat_copy(other.rdma, sizeof(other.rdma), name);
	plat_text(r, "", other.desc, sizeof(other.desc), "sys/class/infiniband/%s/node_desc",
		  other.rdma);
	if (!pci[0] || nics_is_software(other.desc)) {
		nics_other_add(r, &other);
		return true;
	}
	for (uint32_t i = 0; i < plat->nic_cnt; i++)
		if (strcmp(plat->nic[i].pci, pci) == 0)
			nic = &plat->nic[i];
	if (!nic)
		nic = nics_rdma_add(r, device, name, dir);
	if (!nic)
		return true;
	plat_of(r, "nic %.32s", nic->netdev[0] ? nic->netdev : name);
	plat_copy(nic->rdma, sizeof(nic->rdma), name);
	plat_nic_rdma_read(r, nic);
	return true;
}

/* ---- functions without a driver ---- */

/* class/net does not show a function without a driver, and the findings have to name it. */
static bool nics_function_read(const char *name, void *arg)
{
	struct plat_read *r = arg;
	struct spw_plat *plat = r->plat;
	struct spw_plat_pci *pci = &plat->pci[plat->pci_cnt];

	if (!nics_is_pci_address(name) ||
	    plat_number(r, "", 0, "sys/bus/pci/devices/%s/vendor", name) !=
		    VENDOR_NVIDIA_NETWORKING ||
	    plat_number(r, "", 0, "sys/bus/pci/devices/%s/class", name) >> 16 != CLASS_NETWORK)
		return true;
	plat_of(r, "pci %s", name);
	plat_copy(pci->pci, sizeof(pci->pci), name);
	pci->device = (uint16_t)plat_number(r, "device", 0, "sys/bus/pci/devices/%s/device", name);
	plat_link_name(r, "driver", pci->driver, sizeof(pci->driver),
		       "sys/bus/pci/devices/%s/driver", name);
	return ++plat->pci_cnt < SPW_PLAT_NIC_MAX;
}

/* ---- halves ---- */

static bool nics_same_known(const char *a, const char *b)
{
	return a[0] && strcmp(a, b) == 0;
}

/* Whether two functions of one adapter lead to the same port: by the port's name or, if neither has
 * one, by the function number. */
static bool nics_same_port(const struct spw_plat_nic *a, const struct spw_plat_nic *b)
{
	if (a->vendor != b->vendor || a->device != b->device || strcmp(a->pci, b->pci) == 0 ||
	    a->is_vf || b->is_vf)
		return false;
	if (!nics_same_known(a->serial_guid, b->serial_guid) &&
	    !nics_same_known(a->switch_id, b->switch_id))
		return false;
	if (a->port_name[0] || b->port_name[0])
		return strcmp(a->port_name, b->port_name) == 0;
	return strcmp(strrchr(a->pci, '.'), strrchr(b->pci, '.')) == 0;
}

static int nics_by_address(const void *a, const void *b)
{
	return strcmp(((const struct spw_plat_nic *)a)->pci, ((const struct spw_plat_nic *)b)->pci);
}

/* Halves are found last, over the sorted table, so half_of always refers backwards. */
void plat_nics_read(struct plat_read *r)
{
	struct spw_plat *plat = r->plat;

	plat_tree_each(r->tree, "sys/bus/pci/devices", nics_function_read, r);
	plat_tree_each(r->tree, "sys/class/net", nics_net_read, r);
	plat_tree_each(r->tree, "sys/class/infiniband", nics_rdma_read, r);
	/* half_of is set below: indices are final from here on. */
	qsort(plat->nic, plat->nic_cnt, sizeof(plat->nic[0]), nics_by_address);
	for (uint32_t i = 1; i < plat->nic_cnt; i++)
		for (uint32_t k = 0; k < i && plat->nic[i].half_of < 0; k++)
			if (plat->nic[k].half_of < 0 &&
			    nics_same_port(&plat->nic[k], &plat->nic[i]))
				plat->nic[i].half_of = (int32_t)k;
}
