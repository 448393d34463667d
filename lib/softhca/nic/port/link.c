/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The port's link: what it reports, and why. Called in each tick (run/dev.c), when something
 * changed on the cable, and by the commands of the control socket.
 *
 *   the cable has no carrier       down as long as that. On a cable of shared memory: while the
 *                                  link of every other NIC is down for one of the reasons below
 *   link-down=TIME                 down for TIME, and so is the other half of the port
 *   flap=DOWN:UP                   the same, again and again
 *   unplug                         down for good
 *   the cable's file was cut       the same
 *
 * While the link is down frames are lost: those that leave (inject/fault_frame.c), those that
 * arrive (run/dev.c). The other ends are shown the reasons of this port, not its cable's: two that
 * waited for each other's carrier would never get it back.
 */
#include "base/spw_log.h"
#include "softhca/inject/inject.h"
#include "softhca/kernel/kernel.h"
#include "softhca/nic/port/port.h"

static void link_set(struct nic_dev *nd, bool up)
{
	if (nd->dev->link_up == up)
		return;
	nd->dev->link_up = up;
	inject_link_set(nd, up);
	if (!up)
		NIC_CNT(nd, link_downed);
	hca_event_port(nd->dev, up ? HCA_EVENT_PORT_ACTIVE : HCA_EVENT_PORT_ERR);
}

/* The two functions of a port have locks of their own. */
static uint64_t *link_down_until(const struct nic_dev *nd)
{
	return &nd->dev->chip->port[nd->dev->id.port].down_until_ns;
}

void nic_link_fail(struct nic_dev *nd, uint64_t until_ns)
{
	spw_thr_store_rlx(link_down_until(nd), until_ns);
	cable_link_set(nd->cable, false);
	link_set(nd, false);
}

/* Has the cable a carrier? The functions of this port are no other end of it. */
static bool link_has_carrier(struct nic_dev *nd)
{
	uint32_t own = 0;

	for (uint32_t p = 0; p < 32; p++)
		own |= (uint32_t)chip_has_cable_port(nd, p) << p;
	nd->cable->changed = false;
	return cable_link_up(nd->cable, own);
}

/* For good: no time ends it. */
static bool link_is_cut(struct nic_dev *nd)
{
	if (spw_unlikely(nd->cable->lost) && nd->dev->link_up)
		spw_warn("%s: the file of cable %s was cut while it was in use; the link is down "
			 "for good",
			 nd->dev->id.name, nd->dev->cfg->cable);
	return nd->cable->lost || nd->dev->chip->unplugged_ns;
}

void nic_link_tick(struct nic_dev *nd)
{
	bool up;

	inject_link_tick(nd, spw_thr_load_rlx(link_down_until(nd)));
	up = nd->now_ns >= spw_thr_load_rlx(link_down_until(nd)) && !link_is_cut(nd);
	cable_link_set(nd->cable, up);
	link_set(nd, link_has_carrier(nd) && up);
}

void nic_link_begin(struct nic_dev *nd)
{
	nd->dev->link_up = link_has_carrier(nd);
	inject_link_set(nd, nd->dev->link_up);
}
