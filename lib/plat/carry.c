/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What network functions carry together (spw_plat.h). Two functions of a DGX Spark's four share
 * each port, and two others each PCIe link, so rates do not add up: the most that flows is the
 * smallest cut, which takes port or PCIe link of each function, and counts once what several share.
 *
 * Called by lib/ncclnet for a set of rails, with the facts that plat.c read. cnt rails have 2^cnt
 * cuts; all are tried, since there are few rails.
 *
 *    rail 0 ── port A ── PCIe 1        cut at the ports: A + A (paid once) + B
 *    rail 1 ── port A ── PCIe 2        cut at PCIe:     1 + 2 + 1 (paid once)
 *    rail 2 ── port B ── PCIe 1        a choice for each rail; the cheapest is the limit
 */
#include <string.h>

#include "plat/spw_plat.h"

#define TLP_BYTES      256u /* of a PCIe write with the usual maximum payload */
#define TLP_HEAD_BYTES 24u  /* header, sequence number, CRC, framing */

uint32_t spw_plat_pcie_mbps(uint32_t lanes, uint32_t mtps)
{
	uint64_t raw = (uint64_t)lanes * mtps; /* a transfer is a bit of a lane */

	raw = mtps > 5000 ? raw * 128 / 130 : raw * 8 / 10;
	return (uint32_t)SPW_MIN(raw * TLP_BYTES / (TLP_BYTES + TLP_HEAD_BYTES),
				 (uint64_t)UINT32_MAX);
}

bool spw_plat_same_pcie(const char *a, const char *b)
{
	const size_t len = strcspn(a, ".");

	return *a && len == strcspn(b, ".") && !strncmp(a, b, len);
}

static const struct spw_plat_nic *nic_of(const struct spw_plat *plat, const char *rdma)
{
	for (uint32_t i = 0; i < plat->nic_cnt; i++)
		if (!strcmp(plat->nic[i].rdma, rdma))
			return &plat->nic[i];
	return NULL;
}

/* half_of refers to the first half, so both halves come to the same index. */
static bool carry_same_port(const struct spw_plat *plat, const struct spw_plat_nic *a,
			    const struct spw_plat_nic *b)
{
	const long first_a = a->half_of >= 0 ? a->half_of : a - plat->nic;
	const long first_b = b->half_of >= 0 ? b->half_of : b - plat->nic;

	return first_a == first_b;
}

/* Of rail i, cut at its PCIe link or its port; 0: another one before it has paid for that. */
static uint32_t carry_price(const struct spw_plat *plat, const struct spw_plat_carry *rail,
			    uint32_t i, uint32_t at_pcie)
{
	const struct spw_plat_nic *nic = nic_of(plat, rail[i].rdma);
	const bool pcie = nic && at_pcie >> i & 1u && nic->pcie_width && nic->pcie_mtps;

	for (uint32_t k = 0; nic && k < i; k++) {
		const struct spw_plat_nic *other = nic_of(plat, rail[k].rdma);

		if (!other || (at_pcie >> k & 1u) != (at_pcie >> i & 1u))
			continue;
		if (pcie ? spw_plat_same_pcie(nic->pci, other->pci)
			 : carry_same_port(plat, nic, other))
			return 0;
	}
	return pcie ? spw_plat_pcie_mbps(nic->pcie_width, nic->pcie_mtps) : rail[i].mbps;
}

/* Bit i of the choice says where rail i is cut. */
uint32_t spw_plat_carry_mbps(const struct spw_plat *plat, const struct spw_plat_carry *rail,
			     uint32_t cnt)
{
	uint64_t best = UINT32_MAX;

	for (uint32_t at_pcie = 0; at_pcie < 1u << cnt; at_pcie++) {
		uint64_t sum = 0;

		for (uint32_t i = 0; i < cnt; i++)
			sum += carry_price(plat, rail, i, at_pcie);
		best = SPW_MIN(best, sum);
	}
	return cnt ? (uint32_t)best : 0;
}
