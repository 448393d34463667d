/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The ethdev driver's control calls: any DPDK port as a spinwire port. lib/port/port.c calls them
 * through the driver's table, all in setup; the data path is rxtx.c.
 *
 *   need        "-a" for a PCI device, so that EAL scans only what is used; capabilities
 *   open        vdev_check ─► EAL makes or finds the device (dev.c) ─► configure ─► facts (fact.c)
 *   attach      the region's memory becomes known to EAL and to the device's IOMMU (pool.c)
 *   queue_setup a mempool over the queue's pool (pool.c) ─► rte_eth_rx/tx_queue_setup
 *   start, stop device; link watch and clocks (stat.c); net_memif's control channel (memif_ctl.c)
 *
 * memif_ctl_enter and memif_ctl_leave enclose every call that runs control code of net_memif; for
 * other PMDs they do nothing.
 */
#include <errno.h>
#include <linux/capability.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "port/ethdev/ethdev.h"

/* Capabilities by PMD. One that is not named here may use any that it finds. */
static uint64_t ethdev_caps(const char *device)
{
	static const struct {
		const char *pmd;
		uint64_t caps;
	} known[] = {
		{"net_memif", 0},
		{"net_null", 0},
		{"net_ring", 0},
		{"net_pcap", 1ull << CAP_NET_RAW}, /* rx_iface= */
		/* its start sets the interface's MAC address and flags anew */
		{"net_af_packet", 1ull << CAP_NET_RAW | 1ull << CAP_NET_ADMIN},
	};

	for (size_t i = 0; i < SPW_ARRAY_CNT(known); i++)
		if (!strncmp(device, known[i].pmd, strlen(known[i].pmd)))
			return known[i].caps;
	return SPW_PORT_CAPS_ALL;
}

/* A number, by which testpmd names a port, depends on what else EAL probes. */
static int ethdev_need(const struct spw_port_spec *spec, struct spw_port_need *need)
{
	int rc;

	if (spec->device[0] && !spec->device[strspn(spec->device, "0123456789")])
		return spw_err(EINVAL, "a port has no number; " PORT_BY_NAME);
	rc = ethdev_dev_allow(spec, need->allow[0], sizeof(need->allow[0]));

	need->pci = need->allow[0][0] != '\0';
	need->caps = ethdev_caps(spec->device);
	return rc;
}

/* Also undoes a failed open: each step undoes what is there and skips what is not. */
static void ethdev_close(struct spw_port *port)
{
	struct ethdev_port *ep = ethdev_of(port);

	ethdev_link_unwatch(ep);
	memif_ctl_enter(ep);
	for (uint16_t id = 0; id < SPW_REGION_MAX; id++)
		if (ep->region_mapped >> id & 1)
			ethdev_region_unmap(ep->device, &ep->region[id]);
	memif_ctl_stop(ep); /* before the device frees what its registrations point to */
	ethdev_dev_close(ep);
	memif_ctl_remove(ep);
	memif_ctl_leave(ep);
	memif_ctl_settle(ep);
	for (uint16_t i = 0; i < ep->base.queue_cnt && ep->queue; i++)
		ethdev_pool_free(&ep->queue[i]);
	free(ep->queue);
	free(ep);
}

static int ethdev_open(const struct spw_port_spec *spec, uint16_t index, uint16_t queue_cnt,
		       struct spw_port **port_out)
{
	struct ethdev_port *ep =
		port_alloc(&port_ethdev_driver, spec, index, queue_cnt, sizeof(*ep));
	int rc;

	if (!ep)
		return -ENOMEM;
	ep->is_memif = ethdev_dev_is(spec, "net_memif");
	ep->queue = port_queues_alloc(queue_cnt, sizeof(*ep->queue));
	memif_ctl_enter(ep);
	rc = ep->queue ? ethdev_dev_find(spec, ep) : -ENOMEM;
	rc = rc ? rc : ethdev_dev_configure(spec, queue_cnt, ep);
	if (!rc)
		memif_ctl_add(ep);
	memif_ctl_leave(ep);
	if (rc) {
		ethdev_close(&ep->base);
		return rc;
	}
	*port_out = &ep->base;
	return 0;
}

/* A virtual device copies or passes pointers and needs no mapping; a real one gets each region
 * once. */
static int ethdev_region_attach(struct spw_port *port, const struct spw_region *region)
{
	struct ethdev_port *ep = ethdev_of(port);
	int rc;

	if (!ep->is_dma || (ep->region_mapped >> region->id & 1))
		return 0;
	rc = ethdev_region_map(ep->device, region);
	if (rc)
		return rc;
	ep->region_mapped |= 1ull << region->id;
	ep->region[region->id] = *region;
	return 0;
}

/* Ring sizes as the device takes them. The pool must fill the receive ring and have a burst to
 * spare. */
static int ethdev_ring_sizes(struct ethdev_port *ep, const struct spw_port_queue_conf *conf,
			     uint16_t *rx_out, uint16_t *tx_out)
{
	const uint32_t slots = port_conf_slots(conf);
	int rc;

	*rx_out = (uint16_t)(conf->ring_size ? SPW_MIN(conf->ring_size, 32768u) : ep->rx_desc_dflt);
	*tx_out = (uint16_t)(conf->ring_size ? SPW_MIN(conf->ring_size, 32768u) : ep->tx_desc_dflt);
	rc = rte_eth_dev_adjust_nb_rx_tx_desc(ep->port_id, rx_out, tx_out);
	if (rc)
		return spw_err(-rc, "ring of %u entries: %s", conf->ring_size, rte_strerror(-rc));
	if (!ep->fact->alloc_on_rx && slots < (uint32_t)*rx_out + SPW_BURST_MAX)
		return spw_err(EINVAL,
			       "%u slots cannot fill a receive ring of %u and leave a burst of %u: "
			       "use more slots "
			       "or a smaller ring",
			       slots, *rx_out, SPW_BURST_MAX);
	return 0;
}

/* The rings lie on the node that the caller names, if it names one. */
static int ethdev_queue_rings(struct ethdev_port *ep, struct ethdev_queue *q,
			      const struct spw_port_queue_conf *conf)
{
	unsigned int socket = conf->numa_node >= 0 ? (unsigned int)conf->numa_node
						   : (unsigned int)SOCKET_ID_ANY;
	uint16_t rx_cnt, tx_cnt;
	int rc = ethdev_ring_sizes(ep, conf, &rx_cnt, &tx_cnt);

	if (rc)
		return rc;
	rc = rte_eth_rx_queue_setup(ep->port_id, q->queue_id, rx_cnt, socket, NULL, q->mp);
	if (rc)
		return spw_err(-rc, "rte_eth_rx_queue_setup (%u entries): %s", rx_cnt,
			       rte_strerror(-rc));
	rc = rte_eth_tx_queue_setup(ep->port_id, q->queue_id, tx_cnt, socket, NULL);
	if (rc)
		return spw_err(-rc, "rte_eth_tx_queue_setup (%u entries): %s", tx_cnt,
			       rte_strerror(-rc));
	return 0;
}

/* On an error ethdev_close frees what was made. */
static int ethdev_queue_setup(struct spw_port *port, uint16_t queue,
			      const struct spw_port_queue_conf *conf)
{
	struct ethdev_port *ep = ethdev_of(port);
	struct ethdev_queue *q = &ep->queue[queue];
	const struct spw_region *region = conf->pool->region;
	int rc;

	if (q->mp)
		return spw_err(EBUSY, "it was set up before");
	if (ep->is_dma && !(ep->region_mapped >> region->id & 1))
		return spw_err(EINVAL, "memory region %u was not attached to the port", region->id);
	q->port = ep;
	q->port_id = ep->port_id;
	q->queue_id = queue;
	q->port_idx = port->index;
	q->region_id = region->id;
	q->cut_bytes = ep->cut_bytes;
	q->burst_floor = ep->fact->alloc_on_rx ? 0 : UINT32_MAX;
	rc = ethdev_pool_make(q, conf);
	rc = rc ? rc : ethdev_queue_rings(ep, q, conf);
	if (rc)
		return rc;
	ethdev_burst_choose(ep, &port->queue[queue]);
	port->queue[queue].q = q;
	port->queue[queue].no_slot = &q->no_slot;
	return 0;
}

/* The ethdev API has lpbk_mode, but what it means is each PMD's own, and no call keeps the wire's
 * frames out meanwhile on all of them. */
static int ethdev_loop(struct spw_port *port, uint16_t queue SPW_UNUSED, uint8_t *head SPW_UNUSED)
{
	return spw_err(ENOTSUP, ethdev_of(port)->is_dma
					? "a DPDK driver is not asked to return its own frames; "
					  "mlx5: and verbs: test the NIC of a ConnectX"
					: "it is a software port: no NIC moves its bytes, so there "
					  "is none to prove");
}

/* Errors of a PMD are bare numbers: the hint is what we know of this one. */
static int ethdev_start_failed(const struct ethdev_port *ep, int rc)
{
	if (ep->start_hint[0])
		return spw_err(-rc, "%s; %s", rte_strerror(-rc), ep->start_hint);
	return spw_err(-rc, "%s%s", rte_strerror(-rc),
		       rc == -EPERM ? "; it needs CAP_NET_ADMIN: run as root, or give it that "
				      "capability (docs/010)"
				    : "");
}

/* Warns about what would otherwise be silence: a netdev that is down, promiscuous mode refused. */
static int ethdev_start(struct spw_port *port)
{
	struct ethdev_port *ep = ethdev_of(port);
	int rc = ethdev_stamps_open(ep);

	if (rc)
		return rc;
	ethdev_link_watch(ep);
	memif_ctl_enter(ep);
	rc = rte_eth_dev_start(ep->port_id);
	ep->started = rc == 0;
	rc = rc ? ethdev_start_failed(ep, rc) : memif_ctl_check(ep);
	memif_ctl_leave(ep);
	if (rc)
		return rc;
	if (ep->netdev[0] && !ethdev_netdev_is_up(ep->netdev))
		spw_warn("port %s: %s is down: nothing arrives until 'ip link set %s up', and its "
			 "far end is up",
			 port->name, ep->netdev, ep->netdev);
	if (!ep->missed_known)
		spw_info(
			"port %s: neither this driver nor the device counts frames that find its "
			"receive ring full: `missed` and `wire` are unknown, and such a loss is in "
			"no count",
			port->name);
	if (ep->promisc && rte_eth_promiscuous_enable(ep->port_id) && ep->is_dma)
		spw_warn("port %s: promiscuous mode was refused; only frames to its own address "
			 "arrive",
			 port->name);
	if (ep->stamps)
		port->caps.nic_clock_hz = ethdev_clock_hz(ep->port_id);
	ethdev_phy_start(ep);
	for (uint16_t i = 0; i < port->queue_cnt; i++)
		ep->queue[i].can_clean = rte_eth_tx_done_cleanup(ep->port_id, i, 0) != -ENOTSUP;
	return 0;
}

/* Whether the PMD still holds slots of ours after the device has stopped. */
static bool ethdev_slots_out(const struct ethdev_port *ep)
{
	struct spw_port_slots slots;

	for (uint16_t i = 0; i < ep->base.queue_cnt; i++) {
		ethdev_slots((struct spw_port *)(uintptr_t)&ep->base, i, &slots);
		if (slots.in_rx + slots.in_tx)
			return true;
	}
	return false;
}

/* Frames that arrived and were not polled are taken first, and counted rx_flushed. A PMD that keeps
 * mbufs in its queues returns them only when it is closed. */
static int ethdev_dev_stop(struct ethdev_port *ep)
{
	int rc;

	for (uint16_t i = 0; i < ep->base.queue_cnt; i++)
		ethdev_rx_flush(&ep->queue[i]);
	ethdev_stat_read(ep);
	ethdev_packet_end(ep);
	rc = rte_eth_dev_stop(ep->port_id);
	memif_ctl_stop(ep);
	ethdev_stat_read(ep);
	ethdev_phy_keep(ep);
	if (ethdev_slots_out(ep)) { /* some PMDs hold mbufs until their queues are freed */
		ethdev_link_unwatch(ep);
		rte_eth_dev_close(ep->port_id);
		ep->closed = true;
	}
	return rc ? spw_err(-rc, "rte_eth_dev_stop: %s", rte_strerror(-rc)) : 0;
}

/* Idempotent. The device can be started again, unless it had to be closed for its mbufs. */
static int ethdev_stop(struct spw_port *port)
{
	struct ethdev_port *ep = ethdev_of(port);
	int rc;

	if (!ep->started)
		return 0;
	ep->started = false;
	memif_ctl_enter(ep);
	rc = ethdev_dev_stop(ep);
	memif_ctl_leave(ep);
	memif_ctl_settle(ep);
	return rc;
}

const struct spw_port_driver port_ethdev_driver = {
	.name = "ethdev",
	.about = "any port of DPDK: a NIC by its PCI address, as ethdev:0000:01:00.0, or a virtual "
		 "device by the name of its PMD, as ethdev:net_memif0,role=server,socket=PATH. "
		 "Keys that are not below are the PMD's",
	.keys = (const struct spw_port_keys *const[]){&ethdev_keys, NULL},
	.more_keys = true,
	.need = ethdev_need,
	.open = ethdev_open,
	.region_attach = ethdev_region_attach,
	.queue_setup = ethdev_queue_setup,
	.loop = ethdev_loop,
	.start = ethdev_start,
	.stop = ethdev_stop,
	.stat = ethdev_stat,
	.slots = ethdev_slots,
	.pair_clock = ethdev_pair_clock,
	.close = ethdev_close,
};
