/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Finds or creates the ethdev of a port and configures it. Virtual devices are created here, after
 * rte_eal_init, so that EAL's arguments name none and --no-pci is never in the way; PCI devices
 * were allowed before (ethdev_dev_allow).
 *
 * The port's text and the PMD's keys are one list: own_key[] are ours, every other key goes to the
 * PMD as a devarg, unchanged.
 */
#include <errno.h>
#include <inttypes.h>
#include <net/if.h>
#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_pci.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "plat/spw_netdev.h"
#include "port/ethdev/ethdev.h"

#define MTU_MAX   9978u /* the largest jumbo frame that common NICs take */
#define L2_ROOM   26u   /* Ethernet header, two VLAN tags, FCS */
#define BUF_MIN   2048u /* many NICs take their buffer size in KiB, rounded down */
#define RING_DFLT 1024u

static const struct spw_port_key own_key[] = {
	{"flow", "all",
	 "Needed for an interface that the kernel uses, which then receives nothing: the default "
	 "route, an address, or such a bridge, bond or VLAN on top.",
	 NULL, 0, 0},
	{"mtu", "BYTES", "The longest IP packet that slots must hold; set where the PMD can.",
	 "1500", 68, MTU_MAX},
	{"promisc", "0|1", "Whether frames to other addresses are received.", "1", 0, 1},
	{"stamps", "0|1", "Whether the NIC's receive timestamps are used, where it has them.", "1",
	 0, 1},
};
const struct spw_port_keys ethdev_keys = {NULL, own_key, SPW_ARRAY_CNT(own_key)};

static bool ethdev_is_own_key(const char *key)
{
	for (size_t i = 0; i < SPW_ARRAY_CNT(own_key); i++)
		if (!strcmp(own_key[i].name, key))
			return true;
	return false;
}

/* Whether the device is a PCI address; name then has its full form, 0000:01:00.0. */
static bool ethdev_pci_name(const char *device, char *name, size_t bytes)
{
	struct rte_pci_addr addr;

	if (rte_pci_addr_parse(device, &addr))
		return false;
	rte_pci_device_name(&addr, name, bytes);
	return true;
}

/* The PMD's keys as devargs: "k=v,k=v". */
static int ethdev_devargs(const struct spw_port_spec *spec, char *text, size_t bytes)
{
	size_t n = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < spec->arg_cnt && n < bytes; i++)
		if (!ethdev_is_own_key(spw_port_spec_key(spec, i)))
			n += (size_t)snprintf(text + n, bytes - n, "%s%s=%s", n ? "," : "",
					      spw_port_spec_key(spec, i),
					      spw_port_spec_value(spec, i));
	return n < bytes ? 0 : spw_err(EINVAL, "its keys are too long");
}

int ethdev_dev_allow(const struct spw_port_spec *spec, char *text_out, size_t text_bytes)
{
	char name[PCI_PRI_STR_SIZE + 1], args[sizeof(spec->text)];
	int rc;

	text_out[0] = '\0';
	if (!ethdev_pci_name(spec->device, name, sizeof(name)))
		return 0;
	rc = ethdev_devargs(spec, args, sizeof(args));
	if (!rc)
		snprintf(text_out, text_bytes, "%s%s%s", name, args[0] ? "," : "", args);
	return rc;
}

/* ---- finding ---- */

static int ethdev_probe(const char *bus, const char *name, const char *args)
{
	int rc = rte_eal_hotplug_add(bus, name, args);

	if (rc == 0)
		return 0;
	/* EAL's codes differ from bus to bus (EFAULT: no such driver); all mean that there is no
	 * such device. */
	return spw_err(
		ENODEV, "EAL cannot create %s device '%s' with '%s': %s; %s", bus, name, args,
		rte_strerror(-rc),
		strcmp(bus, "vdev")
			? "is it bound to vfio-pci or its bifurcated driver, and allowed with -a?"
			: "is it the name of a PMD (net_memif0, net_pcap0, net_af_packet0...), and "
			  "are "
			  "its keys right? DPDK's log line says more");
}

int ethdev_dev_find(const struct spw_port_spec *spec, struct ethdev_port *ep)
{
	char name[RTE_ETH_NAME_MAX_LEN], args[sizeof(spec->text)];
	bool is_pci = ethdev_pci_name(spec->device, name, sizeof(name));
	int rc;

	if (!is_pci)
		snprintf(name, sizeof(name), "%.*s", (int)sizeof(name) - 1, spec->device);
	if (strlen(spec->device) >= sizeof(name))
		return spw_err(EINVAL, "the device name has more than %zu characters",
			       sizeof(name) - 1);
	if (!name[0])
		return spw_err(EINVAL, "no device: use ethdev:net_memif0,role=server,socket=PATH "
				       "or ethdev:0000:01:00.0");
	rc = ethdev_devargs(spec, args, sizeof(args));
	ep->cut_bytes = UINT32_MAX;
	if (!rc && !is_pci)
		rc = ethdev_vdev_check(spec, ep);
	if (rc)
		return rc;
	if (ep->more_args[0])
		snprintf(args + strlen(args), sizeof(args) - strlen(args), "%s%s",
			 args[0] ? "," : "", ep->more_args);
	if (rte_eth_dev_get_port_by_name(name, &ep->port_id) == 0)
		return 0; /* created by EAL or by the application */
	ethdev_packet_before(ep);
	rc = ethdev_probe(is_pci ? "pci" : "vdev", name, args);
	if (rc)
		return rc;
	ethdev_packet_after(ep);
	ep->probed = true;
	if (rte_eth_dev_get_port_by_name(name, &ep->port_id))
		return spw_err(ENODEV, "'%s' is a device, but no Ethernet port came of it", name);
	return 0;
}

static bool taken[RTE_MAX_ETHPORTS]; /* by a port of this driver; setup alone */

/* One spinwire port per ethdev, and none over what another part of the process owns (a bonding or
 * failsafe PMD). Ownership is not taken: RTE_ETH_FOREACH_DEV passes over owned ports, and with it
 * DPDK's own /ethdev/list and whatever reads that (lib/ethdev/rte_ethdev_telemetry.c). */
static int ethdev_adopt(struct ethdev_port *ep)
{
	struct rte_eth_dev_owner owner = {.id = RTE_ETH_DEV_NO_OWNER};

	rte_eth_dev_owner_get(ep->port_id, &owner);
	if (taken[ep->port_id] || owner.id != RTE_ETH_DEV_NO_OWNER)
		return spw_err(EBUSY, "another part of the program already uses this port");
	taken[ep->port_id] = ep->owned = true;
	ethdev_dump_refuse();
	return 0;
}

/* ---- configuring ---- */

/* Asks for what costs nothing per frame: checksums, the hash, stamps. Fast free on transmit holds
 * because every mbuf of a queue comes from one mempool and has one reference. */
static void ethdev_choose_offloads(const struct rte_eth_dev_info *info, uint16_t queue_cnt,
				   bool stamps, struct ethdev_port *ep, struct rte_eth_conf *conf)
{
	/* A frame keeps its tags. net_af_packet receives it without the outer one, and
	 * reports that tag only with this offload. */
	uint64_t want = RTE_ETH_RX_OFFLOAD_CHECKSUM | RTE_ETH_RX_OFFLOAD_RSS_HASH |
			(ep->netdev[0] ? RTE_ETH_RX_OFFLOAD_VLAN_STRIP : 0);

	conf->rxmode.offloads = info->rx_offload_capa &
				(want | (stamps ? RTE_ETH_RX_OFFLOAD_TIMESTAMP : 0));
	conf->txmode.offloads = info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
	if (info->flow_type_rss_offloads &&
	    (queue_cnt > 1 || (conf->rxmode.offloads & RTE_ETH_RX_OFFLOAD_RSS_HASH))) {
		conf->rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf->rx_adv_conf.rss_conf.rss_hf =
			info->flow_type_rss_offloads &
			(RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_TCP);
	}
	conf->intr_conf.lsc = info->dev_flags && (*info->dev_flags & RTE_ETH_DEV_INTR_LSC);
	ep->stamps = conf->rxmode.offloads & RTE_ETH_RX_OFFLOAD_TIMESTAMP;
	ep->offloads = (conf->rxmode.offloads & ~RTE_ETH_RX_OFFLOAD_TIMESTAMP) ||
		       conf->rxmode.mq_mode;
}

/* What the PMD sends at most. A kernel interface below it decides, unless the user's mtu= was set
 * there; net_af_packet has none to set. 0: a PMD without an MTU. */
static uint32_t ethdev_mtu_sent(const struct rte_eth_dev_info *info, bool mtu_is_set, uint64_t mtu,
				const struct ethdev_port *ep)
{
	char name[IF_NAMESIZE];
	uint32_t has = info->if_index && if_indextoname(info->if_index, name)
			       ? ethdev_netdev_mtu(name)
			       : 0;

	if (has && (ep->netdev[0] || !mtu_is_set))
		return has;
	return ep->fact->any_mtu ? 0 : (uint32_t)mtu;
}

/* A PMD that allocates in the receive call needs few slots; one that posts a ring needs all of it
 * and a burst to spare. */
static void ethdev_fill_caps(const struct rte_eth_dev_info *info, uint64_t mtu,
			     struct ethdev_port *ep)
{
	uint32_t buf = (uint32_t)SPW_MAX(SPW_MAX(mtu + L2_ROOM, BUF_MIN), info->min_rx_bufsize);
	struct spw_port_caps *caps = &ep->base.caps;

	if (ep->netdev[0]) /* the PMD refuses smaller ones with ENOMEM */
		buf = SPW_MAX(buf, ep->cut_bytes + L2_ROOM + 16);
	ep->rx_desc_dflt = info->default_rxportconf.ring_size ? info->default_rxportconf.ring_size
							      : RING_DFLT;
	ep->tx_desc_dflt = info->default_txportconf.ring_size ? info->default_txportconf.ring_size
							      : RING_DFLT;
	*caps = (struct spw_port_caps){
		.queue_max = SPW_MIN(SPW_MIN(info->max_rx_queues, info->max_tx_queues),
				     SPW_PORT_QUEUE_MAX),
		.slot_headroom = RTE_PKTMBUF_HEADROOM,
		.slot_align = SPW_CACHE_LINE,
		.slot_bytes_min = SPW_ALIGN_UP(RTE_PKTMBUF_HEADROOM + buf, SPW_CACHE_LINE),
		.slot_cnt_min = ep->fact->alloc_on_rx ? SPW_BURST_MAX
						      : ep->rx_desc_dflt + 2 * SPW_BURST_MAX,
		.can_tx = info->max_tx_queues > 0,
		.numa_node = rte_eth_dev_socket_id(ep->port_id),
	};
}

static int ethdev_apply(const struct rte_eth_dev_info *info, uint16_t queue_cnt,
			const struct ethdev_port *ep, const struct rte_eth_conf *conf)
{
	int rc = rte_eth_dev_configure(ep->port_id, queue_cnt, queue_cnt, conf);

	if (rc)
		return spw_err(-rc,
			       "rte_eth_dev_configure (%s, %u queues, MTU %u, offloads 0x%" PRIx64
			       "): %s",
			       info->driver_name, queue_cnt, conf->rxmode.mtu,
			       conf->rxmode.offloads, rte_strerror(-rc));
	return 0;
}

/* A PMD beside the kernel's driver, net_mlx5 above all, takes every frame of the interface from it;
 * net_af_packet copies them, and an echo answers strangers. */
static int ethdev_check_use(const struct spw_port_spec *spec, const struct rte_eth_dev_info *info)
{
	const char *flow = spw_port_spec_find(spec, "flow");
	char name[IF_NAMESIZE], why[80];

	if (flow)
		return strcmp(flow, "all")
			       ? spw_err(EINVAL, "flow=%s: only flow=all is known", flow)
			       : 0;
	if (!info->if_index || !if_indextoname(info->if_index, name) ||
	    !spw_netdev_in_use(name, why, sizeof(why)))
		return 0;
	return spw_err(EBUSY, "%s, and this port gets every frame: write flow=all if that is meant",
		       why);
}

/* What net_mlx5 prints when it cannot make flow rules does not name the key that helps. */
static void ethdev_hint_flows(const struct spw_port_spec *spec, const struct rte_eth_dev_info *info,
			      struct ethdev_port *ep)
{
	if (strcmp(info->driver_name, "mlx5_pci") || spw_port_spec_find(spec, "dv_flow_en"))
		return;
	snprintf(ep->start_hint, sizeof(ep->start_hint),
		 "a device without flow tables of its own needs dv_flow_en=0: "
		 "ethdev:%.32s,dv_flow_en=0",
		 spec->device);
}

/* An MTU is set only where the user gave one and the PMD has one: many virtual devices refuse any.
 */
int ethdev_dev_configure(const struct spw_port_spec *spec, uint16_t queue_cnt,
			 struct ethdev_port *ep)
{
	struct rte_eth_conf eth = {0};
	struct rte_eth_dev_info info;
	uint64_t mtu, stamps, promisc;
	int rc = rte_eth_dev_info_get(ep->port_id, &info);

	if (rc)
		return spw_err(-rc, "rte_eth_dev_info_get: %s", rte_strerror(-rc));
	ep->device = info.device;
	rc = spw_port_spec_number(spec, &ethdev_keys, "mtu", &mtu);
	rc = rc ? rc : spw_port_spec_number(spec, &ethdev_keys, "stamps", &stamps);
	rc = rc ? rc : spw_port_spec_number(spec, &ethdev_keys, "promisc", &promisc);
	rc = rc ? rc : ethdev_check_use(spec, &info);
	rc = rc ? rc : ethdev_adopt(ep);
	if (rc)
		return rc;
	ep->promisc = promisc;
	ep->is_dma = strcmp(rte_bus_name(rte_dev_bus(info.device)), "vdev") != 0;
	ep->fact = ethdev_fact_find(info.driver_name, !ep->is_dma);
	ep->missed_known = ep->fact->missed_known || ep->packet_cnt;
	ethdev_hint_flows(spec, &info, ep);
	ethdev_fill_caps(&info, mtu, ep);
	rte_eth_macaddr_get(ep->port_id, (struct rte_ether_addr *)ep->base.caps.mac);
	ep->base.caps.mtu = ethdev_mtu_sent(&info, spw_port_spec_find(spec, "mtu"), mtu, ep);
	if (queue_cnt > ep->base.caps.queue_max)
		return spw_err(ERANGE, "%u queues were asked for, and %s has %u", queue_cnt,
			       info.driver_name, ep->base.caps.queue_max);
	if (!ep->fact->any_mtu && spw_port_spec_find(spec, "mtu"))
		eth.rxmode.mtu = (uint32_t)mtu;
	ethdev_choose_offloads(&info, queue_cnt, stamps, ep, &eth);
	return ethdev_apply(&info, queue_cnt, ep, &eth);
}

void ethdev_dev_close(struct ethdev_port *ep)
{
	if (ep->owned && !ep->closed)
		rte_eth_dev_close(ep->port_id);
	ep->closed = true;
	if (ep->owned)
		taken[ep->port_id] = false;
	ep->owned = false;
	if (ep->probed && ep->device && rte_dev_remove(ep->device))
		spw_warn("port %s: rte_dev_remove: %s", ep->base.name, rte_strerror(rte_errno));
	ep->probed = false;
}
