/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The port's link: what it reports, and why. Called in each tick (nic_dev.c), and by the commands
 * of the control socket.
 *
 *   the cable has no carrier       down as long as that
 *   link-down=TIME                 down for TIME: frames are lost (fault_frame.c)
 *   flap=DOWN:UP                   the same, again and again
 *   the other half's link-down     the same (chip_check in nic_dev.c)
 */
#include "softhca/nic/nic_impl.h"
#include "softhca/nic/nic_run.h"

void nic_link_set(struct nic_dev *nd, bool up)
{
	if (nd->dev->link_up == up)
		return;
	nd->dev->link_up = up;
	if (!up)
		NIC_CNT(nd, link_downed);
	hca_event_port(nd->dev, up ? HCA_EVENT_PORT_ACTIVE : HCA_EVENT_PORT_ERR);
}

void nic_link_fail(struct nic_dev *nd, uint64_t until_ns)
{
	nd->dev->chip->port[nd->dev->id.port].down_until_ns = until_ns;
	fault_link_set(nd->fault, until_ns);
	nic_link_set(nd, false);
}

/* The port follows its cable, but a fault that took the link down keeps it down for its time. */
static void carrier_check(struct nic_dev *nd)
{
	const bool carrier = cable_link_up(nd->cable);

	if (spw_likely(carrier == nd->carrier))
		return;
	nd->carrier = carrier;
	if (!nd->fault->link_down_until_ns)
		nic_link_set(nd, carrier);
}

/* A time counts from the moment at which the link was seen up, so that it is never up or down for
 * less than was asked for, however late the thread is. */
static void flap(struct nic_dev *nd)
{
	struct fault *f = nd->fault;

	if (spw_likely(!f->flap_down_ns) || f->link_down_until_ns)
		return;
	if (!f->flap_at_ns)
		f->flap_at_ns = nd->now_ns + f->flap_up_ns;
	else if (nd->now_ns >= f->flap_at_ns)
		nic_link_fail(nd, nd->now_ns + f->flap_down_ns);
}

void nic_link_tick(struct nic_dev *nd)
{
	struct fault *f = nd->fault;

	if (f->link_down_until_ns && nd->now_ns >= f->link_down_until_ns) {
		fault_link_set(f, 0);
		f->flap_at_ns = 0;
		nic_link_set(nd, nd->carrier);
	}
	flap(nd);
	carrier_check(nd);
}
