/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The PCIe function of a NIC: its link, IOMMU, relaxed ordering, error counts and interrupts.
 * Source: Linux Documentation/ABI/testing/sysfs-bus-pci, sysfs-bus-pci-devices-aer_stats; PCI
 * Express Base Specification, Device Control register.
 *
 * nics.c calls plat_nic_pci_read for each function. Configuration space is read byte by byte from
 * the tree's text: capabilities are a list whose links come from a device, or from a recorded
 * tree that may be wrong, so the hops are bounded.
 *
 *   0x34 ─► id, next ─► id, next ─► ... ─► id 0x10 (PCI Express); 8 bytes on: Device Control
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plat/plat_impl.h"

#define PCI_CAPABILITY_LIST  0x34
#define PCI_CAP_ID_EXPRESS   0x10
#define PCI_EXP_DEVCTL       0x08
#define PCI_EXP_DEVCTL_RELAX 0x0010
#define CONFIG_BYTES         256

/* "32.0 GT/s PCIe" -> 32000 */
static uint32_t pci_transfers(const char *text)
{
	char *end;
	double gts = strtod(text, &end);

	return end == text || !(gts >= 0 && gts <= 1000) ? 0 : (uint32_t)(gts * 1000 + 0.5);
}

static void pci_link_read(struct plat_read *r, struct spw_plat_nic *nic, const char *dir)
{
	char text[64];

	nic->pcie_width = (uint32_t)plat_number(r, "pcie_width", 0, "%s/current_link_width", dir);
	nic->pcie_width_max =
		(uint32_t)plat_number(r, "pcie_width_max", 0, "%s/max_link_width", dir);
	if (nic->pcie_width > 32 || nic->pcie_width_max > 32) /* 255 and 63 stand for "no link" */
		nic->pcie_width = nic->pcie_width_max = 0;
	plat_text(r, "pcie_speed", text, sizeof(text), "%s/current_link_speed", dir);
	nic->pcie_mtps = pci_transfers(text);
	plat_text(r, "pcie_speed_max", text, sizeof(text), "%s/max_link_speed", dir);
	nic->pcie_mtps_max = pci_transfers(text);
}

/* ---- configuration space ---- */

/* The tree keeps the configuration space as hexadecimal digits (tree.c, tree_text). */
static uint32_t pci_config_byte(const char *hex, uint32_t at)
{
	char two[3] = {hex[2 * at], hex[2 * at + 1], '\0'};

	return (uint32_t)strtoul(two, NULL, 16);
}

/* The offset of the PCI Express capability; 0: none, or the list ends early. */
static uint32_t pci_express_at(const char *hex, uint32_t bytes)
{
	uint32_t at = pci_config_byte(hex, PCI_CAPABILITY_LIST) & ~3u;

	for (int hops = 0; hops < 48 && at >= 0x40 && at + 12 <= bytes; hops++) {
		if (pci_config_byte(hex, at) == PCI_CAP_ID_EXPRESS)
			return at;
		at = pci_config_byte(hex, at + 1) & ~3u;
	}
	return 0;
}

/* -1 with a reason where it cannot be known: users other than root are shown 64 bytes only. */
static void pci_relaxed_read(struct plat_read *r, struct spw_plat_nic *nic, const char *dir)
{
	char path[PLAT_TREE_PATH_MAX + 16], source[PLAT_TREE_PATH_MAX + 48];
	const char *hex, *why = NULL;
	uint32_t bytes, at = 0;
	int error;

	nic->relaxed_ordering = -1;
	snprintf(path, sizeof(path), "%s/config", dir);
	snprintf(source, sizeof(source), "/%s DevCtl", path);
	error = plat_tree_read(r->tree, path, &hex);
	bytes = (uint32_t)SPW_MIN(strlen(hex) / 2, (size_t)CONFIG_BYTES);
	if (error)
		why = strerror(error);
	else if (bytes < CONFIG_BYTES)
		why = "only root reads the whole configuration space";
	else if ((at = pci_express_at(hex, bytes)) == 0)
		why = "no PCI Express capability";
	else
		nic->relaxed_ordering =
			(pci_config_byte(hex, at + PCI_EXP_DEVCTL) & PCI_EXP_DEVCTL_RELAX) != 0;
	plat_note(r, "relaxed_ordering", why ? "" : nic->relaxed_ordering ? "1" : "0", source, why);
}

/* ---- errors and interrupts ---- */

/* -1: the kernel or the function has no such counts. */
static int64_t pci_aer_read(struct plat_read *r, const char *dir, const char *kind,
			    const char *total)
{
	char path[PLAT_TREE_PATH_MAX + 32], name[SPW_PLAT_NAME_MAX];

	snprintf(path, sizeof(path), "%s/aer_dev_%s", dir, kind);
	snprintf(name, sizeof(name), "aer_%s", kind);
	return plat_labelled(r, name, -1, path, total);
}

struct irq_walk {
	struct plat_read *r;
	bool cpu[SPW_PLAT_CORE_MAX];
};

/* The effective list is what the interrupt controller uses; older kernels show only the one that
 * was asked for. */
static bool pci_irq_read(const char *number, void *arg)
{
	struct irq_walk *walk = arg;
	char text[512];

	if (!plat_text(walk->r, "", text, sizeof(text), "proc/irq/%.16s/effective_affinity_list",
		       number) ||
	    !text[0])
		plat_text(walk->r, "", text, sizeof(text), "proc/irq/%.16s/smp_affinity_list",
			  number);
	spw_plat_list_parse(text, walk->cpu, SPW_PLAT_CORE_MAX);
	return true;
}

static void pci_irqs_read(struct plat_read *r, struct spw_plat_nic *nic, const char *dir)
{
	struct irq_walk walk = {.r = r};
	char path[PLAT_TREE_PATH_MAX + 16];

	snprintf(path, sizeof(path), "%s/msi_irqs", dir);
	plat_tree_each(r->tree, path, pci_irq_read, &walk);
	spw_plat_list_text(walk.cpu, SPW_PLAT_CORE_MAX, nic->irq_cpus, sizeof(nic->irq_cpus));
	plat_note(r, "irq_cores", nic->irq_cpus, "/proc/irq/*/effective_affinity_list",
		  nic->irq_cpus[0] ? NULL : "no interrupt of this function is listed");
}

/* hwloc's locality, for a function whose numa_node sysfs does not know. */
static void pci_locality_read(struct plat_read *r, struct spw_plat_nic *nic)
{
	char text[160];
	int node = -1;

	plat_text(r, "hwloc", text, sizeof(text), "hwloc/pci/%s", nic->pci);
	if (sscanf(text, "node %d cpus %95s", &node, nic->near_cpus) < 2 ||
	    nic->near_cpus[0] == '-')
		nic->near_cpus[0] = '\0';
	if (nic->node < 0 && node >= 0 && node < (int)SPW_PLAT_NODE_MAX)
		nic->node = node;
}

/* dir is the function's real folder, also where class/net leads to a child of it (virtio). */
void plat_nic_pci_read(struct plat_read *r, struct spw_plat_nic *nic, const char *dir)
{
	nic->vendor = (uint16_t)plat_number(r, "vendor", 0, "%s/vendor", dir);
	nic->device = (uint16_t)plat_number(r, "device", 0, "%s/device", dir);
	nic->node = (int32_t)plat_number(r, "numa_node", -1, "%s/numa_node", dir);
	pci_locality_read(r, nic);
	nic->is_vf = plat_is_there(r, "%s/physfn", dir);
	plat_text(r, "iommu", nic->iommu, sizeof(nic->iommu), "%s/iommu_group/type", dir);
	plat_link_name(r, "driver", nic->driver, sizeof(nic->driver), "%s/driver", dir);
	pci_link_read(r, nic, dir);
	pci_relaxed_read(r, nic, dir);
	nic->aer_correctable = pci_aer_read(r, dir, "correctable", "TOTAL_ERR_COR");
	nic->aer_nonfatal = pci_aer_read(r, dir, "nonfatal", "TOTAL_ERR_NONFATAL");
	nic->aer_fatal = pci_aer_read(r, dir, "fatal", "TOTAL_ERR_FATAL");
	pci_irqs_read(r, nic, dir);
}
