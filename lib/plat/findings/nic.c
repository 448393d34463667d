/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Findings about NICs: PCIe, link, halves of one port, MTU, GIDs, counters that move (findings.c
 * has the rules).
 *
 * Unknown is -1 for numbers of which 0 is a value (carrier, port_active, counters of errors), and 0
 * for the others (width, speed, MTU): no condition here may hold for it.
 *
 * Halves: a port of a DGX Spark has two PCIe functions, each with a netdev and an RDMA device.
 * nic.half_of is the index of the first half, seen from the second; the pair is judged once, with
 * the second.
 */
#include <stdio.h>
#include <string.h>

#include "plat/findings.h"

#define MTU_WANTED 9000u

/* What the user knows it by: the interface, else the RDMA device, else the PCI function. */
static const char *nic_name(const struct spw_plat_nic *nic)
{
	return nic->netdev[0] ? nic->netdev : nic->rdma[0] ? nic->rdma : nic->pci;
}

/* An interface in another network namespace shows no carrier, but its RDMA port a state. */
static bool nic_has_link(const struct spw_plat_nic *nic)
{
	return nic->carrier == 1 || (nic->carrier < 0 && nic->port_active == 1);
}

/* ---- PCIe ---- */

static void nic_pcie_judge(struct spw_plat *plat, const struct spw_plat_nic *nic)
{
	const char *name = nic_name(nic);

	if (nic->pcie_width && nic->pcie_mtps &&
	    (nic->pcie_width < nic->pcie_width_max || nic->pcie_mtps < nic->pcie_mtps_max))
		plat_find(plat, NIC_PCIE_NARROW, name, nic->pcie_width, nic->pcie_mtps / 1000,
			  nic->pcie_mtps / 100 % 10, nic->pcie_width_max, nic->pcie_mtps_max / 1000,
			  nic->pcie_mtps_max / 100 % 10, nic->pci);
	if (strncmp(nic->iommu, "DMA", 3) == 0)
		plat_find(plat, NIC_IOMMU, name, nic->iommu);
	/* On aarch64 it is no loss: relaxed ordering made protection errors on Tegra (DAQIRI). */
	if (nic->relaxed_ordering == 0 && strcmp(plat->arch, "aarch64"))
		plat_find(plat, NIC_RELAXED_ORDERING, name, nic->pci);
	if (nic->aer_nonfatal > 0 || nic->aer_fatal > 0)
		plat_find(plat, NIC_AER, name, nic->aer_nonfatal, nic->aer_fatal, nic->pci);
}

/* irq_cpus is a list of cores; what remains of it are the isolated ones. */
static void nic_irqs_judge(struct spw_plat *plat, const struct spw_plat_nic *nic)
{
	bool served[SPW_PLAT_CORE_MAX] = {false};
	char text[96];

	spw_plat_list_parse(nic->irq_cpus, served, SPW_PLAT_CORE_MAX);
	for (uint32_t i = 0; i < plat->core_cnt; i++)
		served[plat->core[i].cpu] &= plat->core[i].isolated;
	spw_plat_list_text(served, SPW_PLAT_CORE_MAX, text, sizeof(text));
	if (text[0])
		plat_find(plat, NIC_IRQS, nic_name(nic), text, nic->pci);
}

/* ---- link and MTU ---- */

/* An interface without an address and without a link is just not cabled: no finding. Speed and MTU
 * matter for RDMA only here. */
static void nic_link_judge(struct spw_plat *plat, const struct spw_plat_nic *nic)
{
	if (nic->carrier == 0 && nic->ipv4[0])
		plat_find(plat, LINK_DOWN, nic_name(nic), nic->ipv4, nic->netdev, nic->netdev);
	if (nic->rdma[0] && nic->carrier == 1 && nic->speed_mbit > 0 &&
	    nic->speed_mbit < nic->speed_max_mbit)
		plat_find(plat, LINK_SLOW, nic_name(nic), nic->speed_mbit / 1000,
			  nic->speed_max_mbit / 1000, nic->netdev, nic->netdev);
}

/* A software NIC sends what it is asked to: only the size of RDMA packets matters. */
static void nic_mtu_judge(struct spw_plat *plat, const struct spw_plat_nic *nic)
{
	if (!nic->rdma[0] || !nic_has_link(nic) || !nic->mtu || nic->mtu >= MTU_WANTED)
		return;
	if (!nic->is_software)
		plat_find(plat, LINK_MTU, nic_name(nic), nic->mtu, nic->path_mtu, nic->netdev,
			  MTU_WANTED)
			->severity = nic->path_mtu < 4096 ? SPW_PLAT_WARN : SPW_PLAT_NOTE;
	else if (nic->path_mtu < 4096)
		plat_find(plat, LINK_MTU_SOFTWARE, nic_name(nic), nic->mtu, nic->path_mtu,
			  MTU_WANTED);
}

static bool nic_has_ethernet(const struct spw_plat *plat)
{
	for (uint32_t i = 0; i < plat->nic_cnt; i++)
		if (plat->nic[i].rdma[0] && plat->nic[i].link_is_ethernet)
			return true;
	return false;
}

/* A card that can do both (VPI) comes with its ports in either mode. An error only if no other port
 * is left. mlxconfig counts ports from 1; a port's name, else its function, from 0. */
static void nic_mode_judge(struct spw_plat *plat, const struct spw_plat_nic *nic)
{
	const char *digit = nic->port_name[0] ? strpbrk(nic->port_name, "0123456789")
					      : strrchr(nic->pci, '.') + 1;

	if (nic->link_is_infiniband)
		plat_find(plat, LINK_INFINIBAND, nic->rdma, nic->pci,
			  digit && *digit == '1' ? 2 : 1)
			->severity = nic_has_ethernet(plat) ? SPW_PLAT_WARN : SPW_PLAT_ERROR;
}

/* One port whose link is up or unknown is enough for silence. */
static void nic_any_link_judge(struct spw_plat *plat)
{
	const struct spw_plat_nic *down = NULL;

	for (uint32_t i = 0; i < plat->nic_cnt; i++) {
		const struct spw_plat_nic *nic = &plat->nic[i];

		if (!nic->rdma[0])
			continue;
		if (nic->port_active != 0 && nic->carrier != 0)
			return;
		down = nic;
	}
	if (down)
		plat_find(plat, LINK_NONE, down->rdma, nic_name(down), nic_name(down));
}

/* ---- halves ---- */

/* It has an address, by which RoCE v2 could reach it. */
static bool nic_is_usable(const struct spw_plat_nic *nic)
{
	return nic->gid_v2_ipv4 >= 0 || nic->ipv4[0];
}

/* Both halves share a cable, so links that differ mean that one interface is down. A half without
 * an address carries nothing, and its share of the port's rate is lost. */
static void nic_halves_judge(struct spw_plat *plat, const struct spw_plat_nic *twin,
			     const struct spw_plat_nic *nic)
{
	const struct spw_plat_nic *idle = nic_is_usable(twin) ? nic : twin,
				  *used = idle == nic ? twin : nic;

	if (twin->carrier != nic->carrier && twin->carrier >= 0 && nic->carrier >= 0)
		plat_find(plat, NIC_HALVES_LINK, nic_name(twin), nic_name(nic), twin->carrier,
			  nic->carrier, nic_name(twin), nic_name(nic));
	else if (twin->mtu != nic->mtu && twin->mtu && nic->mtu)
		plat_find(plat, NIC_HALVES_MTU, nic_name(twin), nic_name(nic), twin->mtu, nic->mtu,
			  twin->mtu < nic->mtu ? nic_name(twin) : nic_name(nic),
			  SPW_MAX(twin->mtu, nic->mtu));
	if (nic_has_link(nic) && nic_is_usable(used) && !nic_is_usable(idle))
		plat_find(plat, NIC_HALF_IDLE, nic_name(used), nic_name(idle));
}

/* The next address of a list as the kernel's tools write it, "10.0.0.1/24 ...", in host order.
 * Returns: the rest of the list; NULL: there is none, or it is no address. */
static const char *nic_address_next(const char *list, uint32_t *addr_out, uint32_t *mask_out)
{
	unsigned int byte[4], prefix;
	int used = 0;

	if (sscanf(list, " %3u.%3u.%3u.%3u/%2u%n", &byte[0], &byte[1], &byte[2], &byte[3], &prefix,
		   &used) != 5 ||
	    prefix > 32 || (byte[0] | byte[1] | byte[2] | byte[3]) > 255)
		return NULL;
	*addr_out = byte[0] << 24 | byte[1] << 16 | byte[2] << 8 | byte[3];
	*mask_out = prefix ? ~0u << (32 - prefix) : 0;
	return list + used;
}

/* Whether two lists have addresses of one subnet, the wider mask deciding. */
static bool nic_share_subnet(const char *a, const char *b)
{
	uint32_t x, x_mask, y, y_mask;

	for (const char *i = a; (i = nic_address_next(i, &x, &x_mask));)
		for (const char *k = b; (k = nic_address_next(k, &y, &y_mask));)
			if (((x ^ y) & (x_mask & y_mask)) == 0)
				return true;
	return false;
}

/* Two RDMA interfaces in one subnet: the kernel routes all of it through the first, and answers ARP
 * for the address of either with the MAC address of whichever interface heard the question. Source:
 * Linux Documentation/networking/ip-sysctl.rst, arp_filter and arp_ignore. */
static void nic_subnet_judge(struct spw_plat *plat, const struct spw_plat_nic *a,
			     const struct spw_plat_nic *b)
{
	if (a->rdma[0] && b->rdma[0] && nic_has_link(a) && nic_has_link(b) &&
	    nic_share_subnet(a->ipv4, b->ipv4))
		plat_find(plat, NIC_ONE_SUBNET, nic_name(a), a->ipv4, nic_name(b), b->ipv4);
}

/* Of one kind of device only: different models have different firmware. */
static void nic_firmware_judge(struct spw_plat *plat, const struct spw_plat_nic *a,
			       const struct spw_plat_nic *b)
{
	if (a->device == b->device && a->firmware[0] && b->firmware[0] &&
	    strcmp(a->firmware, b->firmware))
		plat_find(plat, NIC_FIRMWARE_MIXED, a->rdma, a->firmware, b->rdma, b->firmware);
}

/* An MTU that DHCP gave is in no file either: hence a note. */
static void nic_boot_judge(struct spw_plat *plat, const struct spw_plat_nic *nic)
{
	char text[32], wanted[16], list[sizeof(plat->boot_mtu) + 2];

	if (!plat->boot_known || !nic->rdma[0] || nic->is_software)
		return;
	snprintf(text, sizeof(text), "MTU %u", nic->mtu);
	snprintf(wanted, sizeof(wanted), " %u ", nic->mtu);
	snprintf(list, sizeof(list), " %s ", plat->boot_mtu);
	if (nic->mtu > 1500 && !strstr(list, wanted))
		plat_find(plat, ROCE_VOLATILE, nic_name(nic), text);
	snprintf(text, sizeof(text), "PFC 0x%02x", (unsigned int)nic->pfc);
	if (nic->pfc > 0 && !plat->boot_pfc)
		plat_find(plat, ROCE_VOLATILE, nic_name(nic), text);
}

/* A half whose MTU differs from its twin's gets one finding about that, not a second one about its
 * own. Of NICs with other firmware each is compared with the next that differs. */
void plat_nics_judge(struct spw_plat *plat)
{
	nic_any_link_judge(plat);
	for (uint32_t i = 0; i < plat->nic_cnt; i++) {
		const struct spw_plat_nic *nic = &plat->nic[i];
		const struct spw_plat_nic *twin = nic->half_of < 0 ? NULL
								   : &plat->nic[nic->half_of];

		nic_pcie_judge(plat, nic);
		nic_irqs_judge(plat, nic);
		nic_link_judge(plat, nic);
		nic_mode_judge(plat, nic);
		nic_boot_judge(plat, nic);
		if (!twin || twin->mtu == nic->mtu)
			nic_mtu_judge(plat, nic);
		if (twin)
			nic_halves_judge(plat, twin, nic);
		for (uint32_t k = i + 1; k < plat->nic_cnt; k++)
			nic_subnet_judge(plat, nic, &plat->nic[k]);
		for (uint32_t k = i + 1; k < plat->nic_cnt && nic->rdma[0]; k++)
			if (plat->nic[k].rdma[0] && strcmp(nic->firmware, plat->nic[k].firmware)) {
				nic_firmware_judge(plat, nic, &plat->nic[k]);
				break;
			}
	}
}

/* ---- GIDs ---- */

/* The other half has an address: nic-half-idle reports this one, which is no error. */
static bool nic_twin_has_gid(const struct spw_plat *plat, uint32_t i)
{
	for (uint32_t k = 0; k < plat->nic_cnt; k++)
		if ((plat->nic[k].half_of == (int32_t)i || plat->nic[i].half_of == (int32_t)k) &&
		    nic_is_usable(&plat->nic[k]))
			return true;
	return false;
}

/* NCCL and UCX choose the first GID of RoCE v2 over IPv4; a link-local one before the routable one
 * is taken, and no router forwards it. */
void plat_rdma_judge(struct spw_plat *plat)
{
	for (uint32_t i = 0; i < plat->nic_cnt; i++) {
		const struct spw_plat_nic *nic = &plat->nic[i];

		if (nic->port_active != 1 || !nic->link_is_ethernet || !nic->gids_known)
			continue;
		if (nic->gid_v2_ipv4 < 0 && !nic_twin_has_gid(plat, i))
			plat_find(plat, GID_NONE, nic->rdma, nic_name(nic), i, nic_name(nic));
		if (nic->gid_routable >= 0 && nic->gid_v2_ipv4 != nic->gid_routable)
			plat_find(plat, GID_LINK_LOCAL, nic->rdma, nic->gid_v2_ipv4, nic->gid_ipv4,
				  nic->gid_routable, nic->gid_ipv4, nic_name(nic));
	}
}

/* ---- counters ---- */

/* Counters by what they mean. One that moved while it was watched hurts now; its total may be from
 * years ago and says nothing. */
static const struct {
	const char *code, *text, *counter[8];
} moving[] = {
	{FIND_PORT_PAUSE_CODE,
	 FIND_PORT_PAUSE_TEXT,
	 {"rx_pause_ctrl_phy", "tx_pause_ctrl_phy", "rx_global_pause", "tx_global_pause",
	  "rx_prio3_pause", "tx_prio3_pause"}},
	{FIND_PORT_DISCARDS_CODE,
	 FIND_PORT_DISCARDS_TEXT,
	 {"rx_discards_phy", "tx_discards_phy", "rx_out_of_buffer", "out_of_buffer"}},
	{FIND_PORT_ECN_CODE,
	 FIND_PORT_ECN_TEXT,
	 {"rx_ecn_mark", "np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled"}},
	{FIND_PORT_ERRORS_CODE,
	 FIND_PORT_ERRORS_TEXT,
	 {"rx_symbol_err_phy", "rx_crc_errors_phy", "link_down_events_phy", "packet_seq_err",
	  "out_of_sequence", "local_ack_timeout_err", "rx_icrc_encapsulated",
	  "req_transport_retries_exceeded"}},
};

/* One finding per NIC and kind, with every counter of the kind that moved. */
static void nic_count_judge(struct spw_plat *plat, const struct spw_plat_nic *nic, uint32_t kind)
{
	char text[200] = "";
	size_t used = 0;

	for (uint32_t i = 0; i < nic->count_cnt && used < sizeof(text); i++) {
		const struct spw_plat_count *c = &nic->count[i];

		for (uint32_t k = 0; k < SPW_ARRAY_CNT(moving[0].counter); k++)
			if (moving[kind].counter[k] && c->later > c->first &&
			    !strcmp(moving[kind].counter[k], c->name))
				used += (size_t)snprintf(text + used, sizeof(text) - used,
							 "%s%s +%" PRIu64, used ? ", " : "",
							 c->name, c->later - c->first);
	}
	if (text[0])
		plat_finding_add(plat, SPW_PLAT_WARN, moving[kind].code, moving[kind].text,
				 nic_name(nic), plat->sample_ms, text, nic_name(nic));
}

/* Only counters that moved between the two readings are findings. */
void plat_counts_judge(struct spw_plat *plat)
{
	for (uint32_t i = 0; i < plat->nic_cnt; i++)
		for (uint32_t kind = 0; kind < SPW_ARRAY_CNT(moving); kind++)
			nic_count_judge(plat, &plat->nic[i], kind);
}
