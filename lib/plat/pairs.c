/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Measured pairs of RDMA ports: kept in the tree, so that a recorded machine has them too, and
 * judged by what port and PCIe link promise.
 *
 *   measured/way/0 = cable 1 mbps 13100 nominal 98400 packets 160000 wire 160012 from A to B
 *
 * -1 stands for what is unknown: no nominal rate, counters that cannot be read; mbps -1: no answer.
 *
 * app/spinwire-doctor measures and calls spw_plat_pairs_put; a recorded machine is read by plat.c.
 * Both end in plat_pairs_judge, so a replayed machine has the findings of the one that was
 * measured.
 */
#include <inttypes.h>
#include <stdio.h>

#include "plat/findings.h"

/* Of a PCIe link's bits, what is payload at the usual payload sizes. Of 126 Gb/s on Gen5 x4, 96 to
 * 100 were measured. Source: geerlingguy/sbc-reviews issue 92; PCI Express encodes 128 bits as 130
 * from 8 GT/s on, 8 as 10 below. */
#define PCIE_PAYLOAD_PERCENT 79u

#define SLOW_PERCENT 60 /* of the nominal rate: below, a pair is slow */

/* What one function can carry: the smaller of PCIe and port; -1 if neither is known, or the cores
 * decide. */
int64_t spw_plat_nic_nominal_mbps(const struct spw_plat_nic *nic)
{
	uint64_t bits = (uint64_t)nic->pcie_mtps * nic->pcie_width;
	int64_t pcie = (int64_t)(bits * (nic->pcie_mtps >= 8000 ? 128 : 104) / 130 *
				 PCIE_PAYLOAD_PERCENT / 100);

	if (nic->is_software)
		return -1;
	/* The port's speed is unknown without a link: PCIe alone decides. */
	if (nic->speed_mbit <= 0)
		return pcie ? pcie : -1;
	return pcie ? SPW_MIN(pcie, nic->speed_mbit) : nic->speed_mbit;
}

/* Half of the packets is enough: counters of the port are refreshed late. */
enum spw_plat_wire spw_plat_pair_wire(const struct spw_plat_pair *pair)
{
	if (pair->wire < 0 || pair->packets <= 0)
		return SPW_PLAT_WIRE_UNVERIFIED;
	return pair->wire >= pair->packets / 2 ? SPW_PLAT_WIRE_CABLE : SPW_PLAT_WIRE_INSIDE;
}

const char *spw_plat_wire_name(enum spw_plat_wire wire)
{
	static const char *const name[] = {"unverified", "cable", "inside the NIC"};

	return name[wire];
}

/* ---- the tree ---- */

/* The whole line or nothing: numbers of a torn line would be judged. */
static bool pair_parse(const char *text, struct spw_plat_pair *pair)
{
	int cable = 0;

	*pair = (struct spw_plat_pair){.mbps = -1};
	if (sscanf(text,
		   "cable %1d mbps %" SCNd64 " nominal %" SCNd64 " packets %" SCNd64
		   " wire %" SCNd64 " from %79s to %79s",
		   &cable, &pair->mbps, &pair->nominal_mbps, &pair->packets, &pair->wire,
		   pair->from, pair->to) != 7)
		return false;
	pair->cable = cable == 1;
	return true;
}

/* Lines that are no pair are left out; the rest is read. */
static bool pair_read(const char *number, void *arg)
{
	struct plat_read *r = arg;
	struct spw_plat *plat = r->plat;
	char text[320], name[SPW_PLAT_NAME_MAX];

	snprintf(name, sizeof(name), "way_%.8s", number);
	if (plat->pair_cnt < SPW_PLAT_PAIR_MAX &&
	    plat_text(r, name, text, sizeof(text), "measured/way/%.8s", number) &&
	    pair_parse(text, &plat->pair[plat->pair_cnt]))
		plat->pair_cnt++;
	return plat->pair_cnt < SPW_PLAT_PAIR_MAX;
}

void plat_pairs_read(struct plat_read *r)
{
	plat_of(r, "measured");
	plat_tree_each(r->tree, "measured/way", pair_read, r);
}

/* Through the tree, as if it had been recorded: what is saved and what is judged is the same. */
void spw_plat_pairs_put(struct spw_plat *plat, const struct spw_plat_pair *pair, uint32_t cnt)
{
	struct plat_read r = {.tree = plat->tree, .plat = plat};

	for (uint32_t i = 0; i < cnt; i++) {
		char path[32], text[320];

		snprintf(path, sizeof(path), "measured/way/%02u", i);
		snprintf(text, sizeof(text),
			 "cable %d mbps %" PRId64 " nominal %" PRId64 " packets %" PRId64
			 " wire %" PRId64 " from %s to %s",
			 pair[i].cable, pair[i].mbps, pair[i].nominal_mbps, pair[i].packets,
			 pair[i].wire, pair[i].from, pair[i].to);
		plat_tree_put(plat->tree, path, text);
	}
	plat_pairs_read(&r);
	plat_pairs_judge(plat);
}

/* ---- findings ---- */

bool spw_plat_pair_is_slow(const struct spw_plat_pair *pair)
{
	return pair->mbps >= 0 && pair->nominal_mbps > 0 &&
	       pair->mbps * 100 < pair->nominal_mbps * SLOW_PERCENT;
}

/* The state in which link and PCIe look right and 13 Gb/s arrive shows in no file. Source: NVIDIA
 * dgx-spark-playbooks pull request 108. */
static void pair_slow_judge(struct spw_plat *plat, const struct spw_plat_pair *pair)
{
	const double got = (double)pair->mbps / 1000, nominal = (double)pair->nominal_mbps / 1000;

	if (pair->cable)
		plat_find(plat, MEASURED_SLOW, pair->from, pair->to, got, nominal);
	else
		plat_find(plat, MEASURED_PCIE, pair->from, pair->to, got, nominal);
}

/* One finding a pair: a slow one that turned round inside the NIC is explained by that. */
void plat_pairs_judge(struct spw_plat *plat)
{
	for (uint32_t i = 0; i < plat->pair_cnt; i++) {
		const struct spw_plat_pair *pair = &plat->pair[i];

		if (pair->mbps < 0 && pair->cable)
			plat_find(plat, MEASURED_NO_ANSWER, pair->from, pair->to);
		else if (pair->mbps >= 0 && pair->cable &&
			 spw_plat_pair_wire(pair) == SPW_PLAT_WIRE_INSIDE)
			plat_find(plat, MEASURED_INSIDE, pair->from, pair->to, pair->packets,
				  pair->wire);
		else if (spw_plat_pair_is_slow(pair))
			pair_slow_judge(plat, pair);
	}
}
