/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The part of mode=eth that needs no queue (eth_port.h). Called by mlx5/eth and verbs/eth.
 *
 *   open    link, use of the interface, multicast groups,         the driver has opened the device
 *           control thread, caps
 *   loop    the litmus: a rule that leads own frames to one queue
 *   start   control thread, queues ─► loop ends ─► base of the counters ─► flow rules
 *   stop    control thread ─► loop, flow rules ─► queues
 *
 * Thread: setup, except port_eth_steer after a recovery (owner, under dev->lock), and stat and
 * pair_clock (any).
 */
#include "port/eth_port.h"

#include <string.h>

#include "base/spw_err.h"
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

/* ---- states of the queues' objects ---- */

/* The WQ has no attribute but its state. A reset returns when the device has stopped using the
 * ring.
 */
int port_eth_wq_state(struct ibv_wq *wq, enum ibv_wq_state state)
{
	struct ibv_wq_attr attr = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = state};
	int rc = ibv_modify_wq(wq, &attr);

	return rc ? spw_err(rc, "a receive queue to state %d: %s", (int)state, strerror(rc)) : 0;
}

static int port_eth_sq_state(struct ibv_qp *qp, enum ibv_qp_state state, uint8_t port_num)
{
	struct ibv_qp_attr attr = {.qp_state = state, .port_num = port_num};
	int rc = ibv_modify_qp(qp, &attr, IBV_QP_STATE | (state == IBV_QPS_INIT ? IBV_QP_PORT : 0));

	return rc ? spw_err(rc, "a send queue to state %d: %s", (int)state, strerror(rc)) : 0;
}

int port_eth_sq_reset(struct ibv_qp *qp)
{
	return port_eth_sq_state(qp, IBV_QPS_RESET, 0);
}

/* A raw packet QP has no peer: its transitions need no attribute but the port, at INIT. */
int port_eth_sq_ready(const struct rdma_dev *dev, struct ibv_qp *qp)
{
	int rc = port_eth_sq_state(qp, IBV_QPS_INIT, dev->port_num);

	rc = rc ? rc : port_eth_sq_state(qp, IBV_QPS_RTR, 0);
	return rc ? rc : port_eth_sq_state(qp, IBV_QPS_RTS, 0);
}

/* ---- loop, start, stop ---- */

/* Queues that can take frames, once; no rule leads to them yet. The litmus may be the first to ask.
 */
static int port_eth_queues_start(struct port_eth *pe)
{
	int rc;

	if (pe->started)
		return 0;
	pe->started = true; /* also after a failure: stop undoes what was started */
	rc = rdma_ctl_start(pe->ctl);
	for (uint16_t i = 0; i < pe->base.queue_cnt && !rc; i++)
		rc = pe->ops->queue_start(pe, i);
	return rc;
}

/* The queues run from here on; start only adds the rules. Returns: how many frames the loop takes
 * at once. */
int port_eth_loop(struct spw_port *port, uint16_t queue, uint8_t *head_out)
{
	struct port_eth *pe = port_eth_of(port);
	int rc = port_eth_queues_start(pe);

	rc = rc ? rc
		: rdma_loop_make(pe->dev, pe->wq[queue], SPW_PORT_LOOP_TYPE, &pe->loop, head_out);
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

/* The device's counters cannot be reset, so that their values here are the base. The flow rules
 * come last, when every queue can take frames. */
int port_eth_start(struct spw_port *port)
{
	struct port_eth *pe = port_eth_of(port);
	int rc = port_eth_queues_start(pe);

	for (uint16_t i = 0; i < port->queue_cnt; i++)
		pe->ops->stat_reset(pe, i);
	if (rc)
		return rc;
	rdma_loop_end(&pe->loop);
	pe->drops_known = rdma_dev_counter(pe->dev, MISSED, &pe->drops_base);
	rdma_phy_start(pe->dev, &pe->phy);
	return port_eth_steer(pe);
}

/* Idempotent; also called by close. The control thread ends first: no event reaches a queue that is
 * taken down. All queues are stopped, and the first error is returned. */
int port_eth_stop(struct spw_port *port)
{
	struct port_eth *pe = port_eth_of(port);
	int rc = 0;

	if (!pe->started)
		return 0;
	pe->started = false;
	rdma_ctl_stop(pe->ctl);
	rdma_loop_end(&pe->loop);
	rdma_steer_down(&pe->steer);
	for (uint16_t i = 0; i < port->queue_cnt; i++) {
		int rc_queue = pe->ops->queue_stop(pe, i);

		rc = rc ? rc : rc_queue;
	}
	return pe->dev->gone ? 0 : rc; /* a removed device fails every call */
}

/* ---- rules while frames come ----
 *
 * The port's rules are the same for all of its queues. Owners that recover take the same lock;
 * bursts never do. A device that refuses a rule leaves the port with those that it had. */

int port_eth_rule(struct spw_port *port, const char *text, bool add)
{
	struct port_eth *pe = port_eth_of(port);
	struct rdma_flow_conf rules;
	int rc;

	pthread_mutex_lock(&pe->dev->lock);
	rc = rdma_flow_parse_rule(&pe->flow, text, &rules);
	if (!rc && add)
		rc = rdma_steer_add(pe->dev, &pe->flow, &pe->steer, &rules);
	else if (!rc)
		rc = rdma_steer_remove(&pe->flow, &pe->steer, &rules);
	pthread_mutex_unlock(&pe->dev->lock);
	return rc;
}

/* Places of removed rules are left out. Frames go on meanwhile: counts are sampled one by one, and
 * their sum need not be that of the port. */
uint32_t port_eth_rules(struct spw_port *port, struct spw_port_rule *rule_out)
{
	struct port_eth *pe = port_eth_of(port);
	uint32_t cnt = 0;

	pthread_mutex_lock(&pe->dev->lock);
	for (uint32_t i = 0; i < pe->flow.rule_cnt; i++) {
		const struct rdma_rule_place *place = &pe->flow.rule[i];
		struct spw_port_rule *rule = &rule_out[cnt];

		if (!place->tag)
			continue;
		rdma_flow_rule_text(&pe->flow, &place->rule, rule->text, sizeof(rule->text));
		rule->frames_known = pe->ops->tag_frames != NULL;
		rule->frames = rule->frames_known ? pe->ops->tag_frames(pe, place->tag) : 0;
		cnt++;
	}
	pthread_mutex_unlock(&pe->dev->lock);
	return cnt;
}

/* ---- counters ---- */

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
