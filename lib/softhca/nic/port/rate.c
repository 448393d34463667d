/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Rates (--rate, and the faults link-speed= and port-rate=), and the switch inside the card. A
 * frame on the wire passes two links, its port and its function's PCIe link; one between two
 * functions of a port passes PCIe twice and no port:
 *
 *   function 0 ──┐ PCIe link 0          ┌── port 0 ── cable
 *   function 2 ──┼── ... PCIe link 1 ───┤   (functions 0 and 2 are its halves)
 *                                       └── port 1 ── cable
 *
 * A link is booked up to a time; a frame may be booked AHEAD_NS into the future, and time that went
 * by unused counts for CREDIT_NS, because the NIC thread naps and is preempted. port/tx.c asks
 * before it reserves room, run/dev.c before it takes a frame off the cable: frames that wait there
 * make the sender wait, which both ends count as pause frames. Without pause frames (pause=off) the
 * port takes them from the wire, and what then neither PCIe nor the port's buffer takes is lost.
 */
#include "softhca/inject/inject.h"
#include "softhca/nic/host/host.h"
#include "softhca/nic/port/port.h"

#define AHEAD_NS       20000u
#define CREDIT_NS      20000000u
#define BUFFER_BYTES   262144u /* of a port, for frames from the wire; believed */
#define WIRE_OVERHEAD  24u     /* FCS, preamble, gap */
#define MBIT_NS(bytes) ((uint64_t)(bytes)*8000u)

static bool link_has_room(const struct hca_rate *r, uint32_t direction, uint64_t until_ns)
{
	return !r->mbps || spw_thr_load_rlx(&r->until_ns[direction]) <= until_ns;
}

static void link_book(struct hca_rate *r, uint32_t direction, uint32_t bytes, uint64_t now_ns)
{
	uint64_t from = spw_thr_load_rlx(&r->until_ns[direction]);

	if (!r->mbps)
		return;
	from = SPW_MAX(from, now_ns - CREDIT_NS);
	spw_thr_store_rlx(&r->until_ns[direction], from + MBIT_NS(bytes) / r->mbps);
}

static struct hca_rate *rate_of_port(const struct nic_dev *nd)
{
	return &nd->dev->chip->port[nd->dev->id.port].rate;
}

static struct hca_rate *rate_of_pcie(const struct nic_dev *nd)
{
	return &nd->dev->chip->pcie[nd->dev->pcie];
}

/* Frames from the wire, unless its sender is paused. */
static bool rate_may_discard(const struct nic_dev *nd, uint32_t direction, bool on_chip)
{
	return direction == HCA_RX && !on_chip && nd->dev->cfg->rate_no_pause;
}

bool rate_has_room(const struct nic_dev *nd, uint32_t direction, bool on_chip)
{
	const uint64_t until_ns = nic_now_ns() + AHEAD_NS;

	return (rate_may_discard(nd, direction, on_chip) ||
		link_has_room(rate_of_pcie(nd), direction, until_ns)) &&
	       (on_chip || link_has_room(rate_of_port(nd), direction, until_ns));
}

bool rate_book(const struct nic_dev *nd, uint32_t direction, bool on_chip, uint32_t bytes)
{
	struct hca_rate *pcie = rate_of_pcie(nd);
	const uint64_t now_ns = nic_now_ns();

	if (!on_chip)
		link_book(rate_of_port(nd), direction, bytes + WIRE_OVERHEAD, now_ns);
	if (rate_may_discard(nd, direction, on_chip) && pcie->mbps &&
	    !link_has_room(pcie, direction, now_ns + MBIT_NS(BUFFER_BYTES) / pcie->mbps))
		return false;
	link_book(pcie, direction, bytes, now_ns);
	return true;
}

void rate_setup(struct nic_dev *nd)
{
	const struct hca_cfg *cfg = nd->dev->cfg;
	struct hca_chip *chip = nd->dev->chip;
	const uint32_t port = nd->dev->id.port;
	const uint32_t speed = inject_link_mbps(nd) ? inject_link_mbps(nd) : cfg->speed_mbps;
	uint64_t mbps = cfg->rate_card ? speed : cfg->rate_port_mbps;
	const uint64_t fault_mbps = inject_port_mbps(nd);
	uint32_t paced = 0;

	if (fault_mbps)
		mbps = mbps ? SPW_MIN(mbps, fault_mbps) : fault_mbps;
	spw_thr_store_rlx(&chip->port[port].speed_mbps, speed);
	chip->port[port].rate.mbps = mbps;
	chip->pcie[nd->dev->pcie].mbps = cfg->rate_card ? cfg->card->pcie_mbps
							: cfg->rate_pcie_mbps;
	for (uint32_t i = 0; i < HCA_DEV_MAX; i++)
		paced |= chip->port[i].rate.mbps || chip->pcie[i].mbps;
	spw_thr_store_rlx(&chip->paced, paced);
}

/* ---- the switch: it joins the functions of a port, and each with itself ---- */

bool chip_has_mac(const struct nic_dev *nd, const uint8_t *mac)
{
	const struct hca_dev *d = hca_first(nd->dev);

	for (uint32_t i = 0; i < nd->dev->cfg->dev_cnt; i++)
		if (hca_same_port(&d[i], nd->dev) && memcmp(d[i].id.mac, mac, 6) == 0)
			return true;
	return false;
}

bool chip_has_cable_port(const struct nic_dev *nd, uint32_t from)
{
	const struct hca_dev *d = hca_first(nd->dev);

	for (uint32_t i = 0; from != CABLE_FROM_ANY && i < nd->dev->cfg->dev_cnt; i++)
		if (hca_same_port(&d[i], nd->dev) && d[i].nic &&
		    (d[i].cable_port == from || d[i].nic->cable->twins >> from & 1))
			return true;
	return false;
}

bool chip_has_halves(const struct nic_dev *nd)
{
	const struct hca_card *card = nd->dev->cfg->card;
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < card->func_cnt; i++)
		cnt += card->func[i].port == nd->dev->id.port;
	return cnt > 1;
}
