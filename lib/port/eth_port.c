/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The part of mode=eth that needs no queue (eth_port.h). Called by mlx5/eth and verbs/eth.
 *
 *   open    link, use of the interface, multicast groups,         the driver has opened the device
 *           control thread, caps
 *   loop    the litmus: a rule that leads own frames to one queue
 *   start   loop ends ─► base of the counters ─► flow rules       the driver has its queues ready
 *   stop    control thread ─► loop, flow rules                    the queues stop afterwards
 *
 * Thread: setup, except port_eth_steer after a recovery (owner, under dev->lock), and stat and
 * pair_clock (any).
 */
#include "port/eth_port.h"

#include "rdma/spw_rdma_side.h"

#define L2_ROOM 22u /* Ethernet header and two VLAN tags; the device strips the FCS */
#define MISSED  "hw_counters/out_of_buffer"

/* The headroom is 0: the NIC writes the frame at the start of its slot. */
static void port_eth_fill_caps(struct port_eth *pe, uint32_t mtu)
{
	const uint32_t table = pe->dev->attr.rss_caps.max_rwq_indirection_table_size;

	pe->base.caps = (struct spw_port_caps){
		.queue_max = (uint16_t)SPW_MIN(SPW_MAX(table, 1u), SPW_PORT_QUEUE_MAX),
		.slot_align = SPW_CACHE_LINE,
		.slot_bytes_min = (uint32_t)SPW_ALIGN_UP(mtu + L2_ROOM, SPW_CACHE_LINE),
		.slot_cnt_min = 2 * SPW_BURST_MAX,
		.mtu = rdma_eth_mtu_sent(pe->dev, mtu),
		.nic_clock_hz = rdma_dev_clock_hz(pe->dev),
		.can_tx = true,
		.numa_node = pe->dev->numa_node,
	};
	rdma_eth_mac(pe->dev, pe->base.caps.mac);
}

/* The keys of flow rules were parsed before. On an error the driver calls port_eth_close. */
int port_eth_open(struct rdma_dev *dev, uint64_t mtu, struct port_eth *pe)
{
	const struct rdma_ctl_client client = {.async = rdma_side_async};
	int rc = rdma_dev_check_link(dev);

	pe->dev = dev;
	rc = rc ? rc : rdma_eth_check_use(dev, &pe->flow);
	rc = rc ? rc : rdma_join_groups(dev, &pe->flow, &pe->join);
	rc = rc ? rc : rdma_ctl_open(dev, pe->base.queue_cnt, &client, &pe->ctl);
	if (!rc)
		port_eth_fill_caps(pe, rdma_eth_mtu(dev, mtu));
	return rc;
}

/* Fine without an open. */
void port_eth_close(struct port_eth *pe)
{
	rdma_join_end(&pe->join);
	rdma_ctl_close(pe->ctl);
}

static struct port_eth *port_eth_of(struct spw_port *port)
{
	return spw_container_of(port, struct port_eth, base);
}

int port_eth_region_attach(struct spw_port *port, const struct spw_region *region)
{
	return rdma_dev_attach(port_eth_of(port)->dev, region);
}

int port_eth_pair_clock(struct spw_port *port, uint64_t *nic_ticks_out, uint64_t *tsc_out,
			uint64_t *uncertainty_ns_out)
{
	return rdma_dev_pair_clock(port_eth_of(port)->dev, nic_ticks_out, tsc_out,
				   uncertainty_ns_out);
}

/* Returns: how many frames the loop takes at once. */
int port_eth_loop(struct port_eth *pe, uint16_t queue, uint8_t *head_out)
{
	int rc = rdma_loop_make(pe->dev, pe->wq[queue], SPW_PORT_LOOP_TYPE, &pe->loop, head_out);

	return rc ? rc : SPW_BURST_MAX;
}

void port_eth_loop_end(struct spw_port *port)
{
	rdma_loop_end(&port_eth_of(port)->loop);
}

/* Flow rules name a table of all WQs, so the port has one set of rules for all queues. */
int port_eth_steer(struct port_eth *pe)
{
	return rdma_steer_up(pe->dev, &pe->flow, pe->wq, pe->base.queue_cnt, &pe->steer);
}

/* The device's counters cannot be reset, so that their values here are the base. */
int port_eth_start(struct port_eth *pe)
{
	rdma_loop_end(&pe->loop);
	pe->drops_known = rdma_dev_counter(pe->dev, MISSED, &pe->drops_base);
	rdma_phy_start(pe->dev, &pe->phy);
	return port_eth_steer(pe);
}

/* The control thread ends first: no event reaches a queue that is taken down. */
void port_eth_stop(struct port_eth *pe)
{
	pe->started = false;
	rdma_ctl_stop(pe->ctl);
	rdma_loop_end(&pe->loop);
	rdma_steer_down(&pe->steer);
}

/* by_cqe: frames that the queues' CQEs report as missed. */
void port_eth_stat(struct port_eth *pe, uint64_t by_cqe, struct spw_port_stat *stat)
{
	uint64_t counted = 0;
	bool known = pe->drops_known && rdma_dev_counter(pe->dev, MISSED, &counted);

	rdma_missed_stat(known, counted - pe->drops_base, by_cqe, stat);
	rdma_phy_stat(&pe->phy, stat);
	stat->link_bps = rdma_dev_speed_mbps(pe->dev) * 1000000ull;
	stat->err[SPW_PORT_ERR_link_down] += spw_thr_load_rlx(&pe->dev->link_down_cnt);
}
