/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Findings about the machine as a whole: drivers, rights, container, names (findings.c has the
 * rules).
 *
 *    function on PCI ── driver? ── RDMA device? ── /dev/infiniband? ── rights? ── GID variables?
 *                       modules    modules, LAG    container, udev     uverbs    NCCL, UCX
 *
 * Files, rights and GIDs are judged only where there is an RDMA device, so a driver that is missing
 * gives one finding.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "plat/findings.h"

#define CAP_NET_RAW 13

/* NULL: no interface and no RDMA device lead to the function. */
static const struct spw_plat_nic *nic_by_pci(const struct spw_plat *plat, const char *pci)
{
	for (uint32_t i = 0; i < plat->nic_cnt; i++)
		if (!strcmp(plat->nic[i].pci, pci))
			return &plat->nic[i];
	return NULL;
}

static bool host_has_rdma(const struct spw_plat *plat)
{
	for (uint32_t i = 0; i < plat->nic_cnt; i++)
		if (plat->nic[i].rdma[0])
			return true;
	return false;
}

/* RoCE LAG: mlx5 makes one RDMA device for the ports of a bond, on the first one's function.
 * Returns: that function; NULL: the function's interface is in no such bond. Source: Linux
 * drivers/infiniband/hw/mlx5/main.c, "mlx5_bond_%d". */
static const struct spw_plat_nic *lag_of(const struct spw_plat *plat,
					 const struct spw_plat_nic *nic)
{
	for (uint32_t i = 0; nic && nic->bond[0] && i < plat->nic_cnt; i++)
		if (plat->nic[i].rdma[0] && !strcmp(plat->nic[i].bond, nic->bond))
			return &plat->nic[i];
	return NULL;
}

/* The port without an RDMA device of its own is the one that a user misses. */
static void host_lag_judge(struct spw_plat *plat)
{
	for (uint32_t i = 0; i < plat->nic_cnt; i++) {
		const struct spw_plat_nic *nic = &plat->nic[i], *lag = lag_of(plat, nic);

		if (!lag || nic->rdma[0])
			continue;
		plat_find(plat, NIC_LAG, lag->rdma, lag->netdev, nic->netdev, nic->bond,
			  lag->netdev, nic->netdev);
	}
}

/* plat->pci has every network function of NVIDIA's, with or without a driver. */
static void host_drivers_judge(struct spw_plat *plat)
{
	for (uint32_t i = 0; i < plat->pci_cnt; i++) {
		const struct spw_plat_pci *pci = &plat->pci[i];
		const struct spw_plat_nic *nic = nic_by_pci(plat, pci->pci);

		if (!pci->driver[0] && plat->mlx5_core)
			plat_find(plat, MODULES_NOT_BOUND, pci->pci, pci->pci);
		else if (!pci->driver[0])
			plat_find(plat, MODULES_NOT_LOADED, pci->pci, pci->pci);
		else if (!strcmp(pci->driver, "mlx5_core") && !(nic && nic->rdma[0]) &&
			 !lag_of(plat, nic))
			plat_find(plat, MODULES_NO_RDMA, pci->pci,
				  plat->mlx5_ib ? "loaded" : "not loaded");
	}
}

/* Every maker's machine with a GB10 has another name, but the GPU and the cores are those of a DGX
 * Spark: no other processor that runs Linux servers has both kinds. */
static bool host_is_gb10(const struct spw_plat *plat)
{
	bool x925 = false, a725 = false;

	for (uint32_t i = 0; i < plat->gpu_cnt; i++)
		if (strstr(plat->gpu[i].name, "GB10"))
			return true;
	for (uint32_t i = 0; i < plat->core_cnt; i++) {
		x925 = x925 || !strcmp(plat->core[i].model, "Cortex-X925");
		a725 = a725 || !strcmp(plat->core[i].model, "Cortex-A725");
	}
	return strstr(plat->machine, "DGX_Spark") || strstr(plat->machine, "DGX Spark") ||
	       (x925 && a725);
}

/* A GB10 removes all four functions while no cable is plugged in. Source: DAQIRI,
 * docs/tutorials/system_configuration.md. */
static void host_gb10_judge(struct spw_plat *plat)
{
	for (uint32_t i = 0; i < plat->nic_cnt; i++)
		if (plat->nic[i].vendor == 0x15b3)
			return;
	if (plat->pci_cnt == 0 && host_is_gb10(plat))
		plat_find(plat, NIC_GONE);
}

/* A warning: reliable connections need no such right. */
static void host_rights_judge(struct spw_plat *plat)
{
	if (host_has_rdma(plat) && plat->cap_known && !(plat->cap >> CAP_NET_RAW & 1))
		plat_find(plat, CAP_NET_RAW);
}

/* Why the file cannot be opened decides the remedy: rights, a container, or udev. */
static void host_uverbs_judge(struct spw_plat *plat, const struct spw_plat_nic *nic)
{
	if (!nic->rdma[0] || nic->uverbs_error <= 0)
		return;
	if (nic->uverbs_error != ENOENT)
		plat_find(plat, UVERBS_RIGHTS, nic->uverbs, nic->rdma, strerror(nic->uverbs_error),
			  nic->uverbs);
	else if (plat->container[0])
		plat_find(plat, CONTAINER_NO_DEVICE, plat->container, nic->uverbs, nic->rdma);
	else
		plat_find(plat, UVERBS_ABSENT, nic->rdma, nic->uverbs);
}

/* NCCL's and UCX's variables name one index for all devices. */
static void host_gid_variable_judge(struct spw_plat *plat, const char *name, int32_t idx)
{
	for (uint32_t i = 0; i < plat->nic_cnt && idx >= 0; i++) {
		const struct spw_plat_nic *nic = &plat->nic[i];

		if (nic->port_active != 1 || nic->gid_v2_ipv4 < 0 || idx == nic->gid_v2_ipv4 ||
		    idx == nic->gid_routable)
			continue;
		plat_find(plat, GID_VARIABLE, name, idx, nic->gid_ipv4, nic->gid_v2_ipv4, nic->rdma,
			  name, nic->gid_v2_ipv4);
		return;
	}
}

/* A blank ends each name in the list, so "eth1" is not found in "eth10". */
static void host_names_judge(struct spw_plat *plat)
{
	char wanted[32];

	for (uint32_t i = 0; i < plat->nic_cnt; i++) {
		const struct spw_plat_nic *nic = &plat->nic[i];

		snprintf(wanted, sizeof(wanted), "%s ", nic->netdev);
		if (nic->rdma[0] && nic->netdev[0] && strstr(plat->set_name, wanted))
			plat_find(plat, NIC_RENAMED, nic->netdev, nic->rdma, nic->netdev);
	}
}

/* A quota that all usable cores together cannot exceed stops nobody. */
static void host_quota_judge(struct spw_plat *plat)
{
	if (!plat->quota_us || plat->quota_us >= (uint64_t)plat->allowed_cnt * plat->period_us)
		return;
	plat_find(plat, CORES_QUOTA, plat->quota_us / 1000, plat->quota_us / 100 % 10,
		  plat->period_us / 1000, plat->period_us / 100 % 10,
		  plat->quota_us / plat->period_us,
		  (uint32_t)((uint64_t)plat->quota_us * 100 / plat->period_us % 100),
		  plat->allowed_cnt, plat->quota_throttled_cnt, plat->quota_period_cnt);
}

void plat_host_judge(struct spw_plat *plat)
{
	host_quota_judge(plat);
	host_drivers_judge(plat);
	host_lag_judge(plat);
	host_gb10_judge(plat);
	host_rights_judge(plat);
	for (uint32_t i = 0; i < plat->nic_cnt; i++)
		host_uverbs_judge(plat, &plat->nic[i]);
	host_gid_variable_judge(plat, "NCCL_IB_GID_INDEX", plat->nccl_gid);
	host_gid_variable_judge(plat, "UCX_IB_GID_INDEX", plat->ucx_gid);
	host_names_judge(plat);
}
