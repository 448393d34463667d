/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * rails: one stream over several ports (rails.h). The calls of struct spw_port_driver: each is made
 * on every rail, and what the rails need or can do is joined here. Called by lib/port/port.c.
 *
 * Stamps. The rails' clocks differ, so frames go without NIC stamps (caps.nic_clock_hz is 0).
 *
 *   open      rails_spec_parse ─► spw_port_open of each ─► do they fit together? ─► tables, caps
 *   set-up    each rail gets its part of the pool ─► window (window.c) ─► bursts (rx.c, tx.c)
 *   start     rail by rail                 stop   parked frames returned ─► rail by rail
 *   counts    of the wire: the rails'; of what was lent: rails' own
 *
 * Thread: setup; stat and rails: any; slots: the owner, or after stop.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "frame/spw_ident.h"
#include "port/rails/rails.h"
#include "time/spw_time.h"

#define FLOW_CNT     65536u /* values of a tag's flow */
#define PARKED_SHARE 4u     /* of the slots, the part that may be parked */

/* ---- open ---- */

/* The buckets of rails that are down go to the others in turn. For each mask of rails that are up:
 * the rail of each bucket of flows, and the next rail for frames that are spread one by one. So a
 * burst looks up, and divides nothing. */
static void rails_tables_fill(struct rails_port *rp)
{
	const uint32_t cnt = rp->conf.rail_cnt;

	rp->all = (1u << cnt) - 1;
	for (uint32_t mask = 1; mask <= rp->all; mask++) {
		uint8_t up[SPW_PORT_RAIL_MAX];
		uint32_t n = 0;

		for (uint8_t r = 0; r < cnt; r++)
			if (mask >> r & 1)
				up[n++] = r;
		for (uint32_t b = 0; b < RAILS_BUCKETS; b++)
			rp->rail_of[mask][b] = mask >> b % cnt & 1 ? (uint8_t)(b % cnt)
								   : up[b / cnt % n];
		for (uint32_t r = 0; r < cnt; r++) {
			uint32_t k = 0;

			while (k < n && up[k] <= r)
				k++;
			rp->rail_after[mask][r] = up[k == n ? 0 : k];
		}
	}
}

/* A port without a device, null, may stand there more than once. */
static int rails_check_pair(const struct spw_port *a, const struct spw_port *b)
{
	if (!strcmp(a->name, b->name) && !port_driver_find(a->name))
		return spw_err(EINVAL, "rail %s is named twice: each rail is a port of its own",
			       a->name);
	if (a->caps.messages != b->caps.messages)
		return spw_err(EINVAL,
			       "rail %s carries %s, rail %s carries %s: use one mode= for all",
			       a->name, a->caps.messages ? "messages" : "frames", b->name,
			       b->caps.messages ? "messages" : "frames");
	if (a->caps.head_bytes || b->caps.head_bytes)
		return spw_err(EINVAL, "rails take frames in one piece: leave out split");
	if (a->caps.mtu && b->caps.mtu && a->caps.mtu != b->caps.mtu)
		return spw_err(EINVAL,
			       "the MTU of rail %s is %u, that of rail %s is %u: set both alike "
			       "(mtu=, or ip link set IFACE mtu BYTES)",
			       a->name, a->caps.mtu, b->name, b->caps.mtu);
	return 0;
}

/* Each pair is checked: one that differs is named together with one that it differs from. */
static int rails_check_rails(const struct rails_port *rp)
{
	int rc = 0;

	for (uint32_t b = 1; b < rp->conf.rail_cnt; b++)
		for (uint32_t a = 0; a < b && !rc; a++)
			rc = rails_check_pair(rp->rail[a], rp->rail[b]);
	if (!rc && rp->conf.order == RAILS_ORDER_STREAM && rp->base.queue_cnt > 1)
		rc = spw_err(EINVAL,
			     "rails_order=stream needs all frames in one queue, not in %u: use one "
			     "worker lcore, or rails_order=flow",
			     rp->base.queue_cnt);
	return rc;
}

/* What every rail can do, and what the most demanding one needs. */
static void rails_caps_join(struct rails_port *rp)
{
	struct spw_port_caps *caps = &rp->base.caps;

	*caps = rp->rail[0]->caps;
	for (uint32_t r = 1; r < rp->conf.rail_cnt; r++) {
		const struct spw_port_caps *rail = &rp->rail[r]->caps;

		caps->queue_max = SPW_MIN(caps->queue_max, rail->queue_max);
		caps->slot_headroom = SPW_MAX(caps->slot_headroom, rail->slot_headroom);
		caps->slot_align = SPW_MAX(caps->slot_align, rail->slot_align);
		caps->slot_bytes_min = SPW_MAX(caps->slot_bytes_min, rail->slot_bytes_min);
		caps->slot_cnt_min = SPW_MAX(caps->slot_cnt_min, rail->slot_cnt_min);
		caps->can_tx &= rail->can_tx;
		caps->gpu_memory &= rail->gpu_memory;
		caps->numa_node = caps->numa_node == rail->numa_node ? caps->numa_node : -1;
	}
	caps->slot_cnt_min *= rp->conf.rail_cnt; /* each has an equal part of the pool */
	caps->gpu_memory &= rp->conf.order == RAILS_ORDER_NONE; /* the CPU reads every tag */
	caps->nic_clock_hz = 0;
}

/* "mlx5_0+mlx5_1" */
static void rails_name_join(struct rails_port *rp)
{
	char *name = rp->base.name;
	size_t n = 0;

	for (uint32_t r = 0; r < rp->conf.rail_cnt && n < sizeof(rp->base.name); r++)
		n += (size_t)snprintf(name + n, sizeof(rp->base.name) - n, "%s%s", r ? "+" : "",
				      rp->rail[r]->name);
}

static int rails_need(const struct spw_port_spec *spec, struct spw_port_need *need_out)
{
	struct rails_conf conf;
	uint32_t allow = 0;
	int rc = rails_spec_parse(spec, &conf);

	for (uint32_t r = 0; !rc && r < conf.rail_cnt; r++) {
		struct spw_port_need need;

		rc = spw_port_need(&conf.rail[r], &need);
		need_out->caps |= need.caps;
		need_out->pci |= need.pci;
		if (need.allow[0][0])
			memcpy(need_out->allow[allow++], need.allow[0], sizeof(need.allow[0]));
	}
	return rc;
}

/* Parked frames go back to their rails before those close; also undoes a failed open. */
static void rails_close(struct spw_port *port)
{
	struct rails_port *rp = rails_of(port);

	for (uint16_t i = 0; rp->queue && i < port->queue_cnt; i++)
		rails_rx_flush(&rp->queue[i]);
	for (uint32_t r = 0; r < SPW_PORT_RAIL_MAX; r++)
		spw_port_close(rp->rail[r]);
	for (uint16_t i = 0; rp->queue && i < port->queue_cnt; i++) {
		rails_window_fini(&rp->queue[i].window);
		free(rp->queue[i].home);
	}
	free(rp->queue);
	free(rp);
}

/* Takes 20 ms (spw_tsc_calibrate). */
static int rails_wait_scale(struct rails_port *rp)
{
	struct spw_tsc tsc;
	int rc = spw_tsc_calibrate(20, &tsc);

	rp->wait_tsc = rc ? 0 : spw_tsc_from_ns(&tsc, rp->conf.wait_us * 1000);
	return rc;
}

/* The port is created with the rails' own index, so that descriptors of all rails name this port.
 */
static int rails_open(const struct spw_port_spec *spec, uint16_t index, uint16_t queue_cnt,
		      struct spw_port **port_out)
{
	struct rails_port *rp = port_alloc(&port_rails_driver, spec, index, queue_cnt, sizeof(*rp));
	int rc;

	if (!rp)
		return -ENOMEM;
	rp->queue = port_queues_alloc(queue_cnt, sizeof(*rp->queue));
	rc = rp->queue ? rails_spec_parse(spec, &rp->conf) : -ENOMEM;
	for (uint32_t r = 0; !rc && r < rp->conf.rail_cnt; r++)
		rc = spw_port_open(&rp->conf.rail[r], index, queue_cnt, &rp->rail[r]);
	rc = rc ? rc : rails_check_rails(rp);
	rc = rc ? rc : rails_wait_scale(rp);
	if (rc) {
		rails_close(&rp->base);
		return rc;
	}
	rails_tables_fill(rp);
	rails_caps_join(rp);
	rails_name_join(rp);
	*port_out = &rp->base;
	return 0;
}

/* ---- set-up, start, stop ---- */

static int rails_region_attach(struct spw_port *port, const struct spw_region *region)
{
	struct rails_port *rp = rails_of(port);
	int rc = 0;

	for (uint32_t r = 0; !rc && r < rp->conf.rail_cnt; r++)
		rc = spw_port_region_attach(rp->rail[r], region);
	return rc;
}

/* Only a part of the slots may be parked: a gap must not take all of them from the rails. */
static int rails_window_make(struct rails_queue *q, const struct rails_conf *conf,
			     uint32_t slot_cnt)
{
	const struct rails_window_conf wc = {
		.cnt = (uint32_t)conf->window,
		.seq_cnt = conf->order == RAILS_ORDER_STREAM ? SPW_IDENT_STREAM_CNT : FLOW_CNT,
		.slot_cnt = slot_cnt,
		.parked_max = slot_cnt / PARKED_SHARE,
		.wait_tsc = q->port->wait_tsc,
	};

	return rails_window_init(&q->window, &wc);
}

/* A rail may reserve slots of its own part only; all rails get and put slots of the one pool. */
static int rails_rail_setup(struct rails_queue *q, uint32_t r,
			    const struct spw_port_queue_conf *conf)
{
	const uint32_t share = conf->pool->slot_cnt / q->rail_cnt;
	struct spw_port_queue_conf rail = *conf;

	rail.slot_first = r * share;
	rail.slot_cnt = share;
	q->rail[r] = &q->port->rail[r]->queue[q->index];
	return spw_port_queue_setup(q->port->rail[r], q->index, &rail);
}

static int rails_queue_setup(struct spw_port *port, uint16_t queue,
			     const struct spw_port_queue_conf *conf)
{
	struct rails_port *rp = rails_of(port);
	struct rails_queue *q = &rp->queue[queue];
	int rc = 0;

	if (q->port)
		return spw_err(EBUSY, "it was set up before");
	*q = (struct rails_queue){.port = rp,
				  .index = queue,
				  .rail_cnt = rp->conf.rail_cnt,
				  .pool = conf->pool,
				  .by_frame = rp->conf.by_frame,
				  .messages = port->caps.messages,
				  .readable = conf->pool->region->host_va != NULL};
	q->home = calloc(conf->pool->slot_cnt, sizeof(*q->home));
	if (!q->home)
		return spw_err(ENOMEM, "no memory for a table of %u slots", conf->pool->slot_cnt);
	for (uint32_t r = 0; !rc && r < q->rail_cnt; r++)
		rc = rails_rail_setup(q, r, conf);
	rc = rc ? rc : rails_window_make(q, &rp->conf, conf->pool->slot_cnt);
	if (rc)
		return rc;
	port->queue[queue] = (struct spw_port_queue){
		.rx_burst = rails_rx_choose(&rp->conf, q->messages),
		.release_burst = rails_release,
		.tx_burst = rails_tx,
		.events = rails_events,
		.lend_burst = rails_lend,
		.q = q,
		.no_slot = &q->no_slot,
	};
	return 0;
}

/* On an error the rails before it are started already: stop ends them. */
static int rails_start(struct spw_port *port)
{
	struct rails_port *rp = rails_of(port);
	int rc = 0;

	for (uint32_t r = 0; !rc && r < rp->conf.rail_cnt; r++)
		rc = spw_port_start(rp->rail[r]);
	return rc;
}

/* Parked frames are lent to rails: they are returned before the rails stop. All rails are stopped,
 * also after an error; the first one is returned. */
static int rails_stop(struct spw_port *port)
{
	struct rails_port *rp = rails_of(port);
	int rc, first = 0;

	for (uint16_t i = 0; i < port->queue_cnt; i++)
		if (rp->queue[i].port)
			rails_rx_flush(&rp->queue[i]);
	for (uint32_t r = 0; r < rp->conf.rail_cnt; r++) {
		rc = spw_port_stop(rp->rail[r]);
		first = first ? first : rc;
	}
	return first;
}

/* ---- what it counts ---- */

static void rails_rail_add(struct spw_port_stat *sum, const struct spw_port_stat *rail)
{
	sum->wire_frames += rail->wire_frames;
	sum->missed_frames += rail->missed_frames;
	sum->missed_known &= rail->missed_known;
	sum->retransmits += rail->retransmits;
	sum->retransmits_known &= rail->retransmits_known;
	sum->rx_bytes += rail->rx_bytes;
	sum->tx_frames += rail->tx_frames;
	sum->tx_bytes += rail->tx_bytes;
	sum->tx_flushed += rail->tx_flushed;
	sum->link_bps += rail->link_bps;
	sum->port_copies += rail->port_copies;
	for (unsigned i = 0; i < SPW_PORT_DROP_CNT; i++)
		sum->dropped[i] += rail->dropped[i];
	for (unsigned i = 0; i < SPW_PORT_ERR_CNT; i++)
		sum->err[i] += rail->err[i];
}

/* What rails received and did not lend counts as dropped here, by reason. */
static void rails_queue_add(const struct rails_queue *q, struct spw_port_stat *sum)
{
	const struct rails_window_stat *w = &q->window.stat;

	sum->rx_frames += spw_thr_load_rlx(&q->rx_frames);
	sum->err[SPW_PORT_ERR_gap] += spw_thr_load_rlx(&w->gap);
	sum->err[SPW_PORT_ERR_gap_down] += spw_thr_load_rlx(&w->gap_down);
	for (uint32_t r = 0; r < q->rail_cnt; r++) {
		const struct rails_count *count = &q->count[r];

		sum->rx_bytes -= spw_thr_load_rlx(&count->dropped_bytes);
		sum->dropped[SPW_PORT_DROP_late] += spw_thr_load_rlx(&count->late);
		sum->dropped[SPW_PORT_DROP_duplicate] += spw_thr_load_rlx(&count->duplicate);
		sum->dropped[SPW_PORT_DROP_rx_flushed] += spw_thr_load_rlx(&count->flushed);
		sum->err[SPW_PORT_ERR_rail_moved] += spw_thr_load_rlx(&count->moved);
		sum->err[SPW_PORT_ERR_rail_down] += spw_thr_load_rlx(&count->outages);
	}
}

/* The wire's side is the rails'; what was lent, rails counts itself, so that the ledger compares
 * two counts. What belongs to a physical port is in the rails' own rows only: two rails may be two
 * functions of one. */
static void rails_stat(struct spw_port *port, struct spw_port_stat *stat_out)
{
	const struct rails_port *rp = rails_of(port);
	bool speeds_known = true;

	stat_out->missed_known = true;
	stat_out->retransmits_known = true;
	for (uint32_t r = 0; r < rp->conf.rail_cnt; r++) {
		struct spw_port_stat rail;

		spw_port_stat(rp->rail[r], &rail);
		rails_rail_add(stat_out, &rail);
		speeds_known &= rail.link_bps != 0;
	}
	stat_out->link_bps *= speeds_known;
	for (uint16_t i = 0; i < port->queue_cnt; i++)
		if (rp->queue[i].port)
			rails_queue_add(&rp->queue[i], stat_out);
}

static uint64_t rails_apart(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* What a rail counted itself against what was polled of it; 0 if they agree. */
static uint64_t rails_residual_of(const struct spw_port_rail *rail)
{
	const struct spw_port_stat *stat = &rail->stat;
	uint64_t received = stat->rx_frames;

	for (unsigned i = 0; i < SPW_PORT_DROP_CNT; i++)
		received += stat->dropped[i];
	return rails_apart(stat->wire_frames - stat->missed_frames, received) +
	       rails_apart(stat->rx_frames, rail->polled);
}

static uint32_t rails_rails(struct spw_port *port, struct spw_port_rail *rail_out)
{
	const struct rails_port *rp = rails_of(port);

	for (uint32_t r = 0; r < rp->conf.rail_cnt; r++) {
		struct spw_port_rail *rail = &rail_out[r];

		*rail = (struct spw_port_rail){.port = rp->rail[r]};
		spw_port_stat(rp->rail[r], &rail->stat);
		for (uint16_t i = 0; i < port->queue_cnt; i++) {
			const struct rails_count *count = &rp->queue[i].count[r];

			rail->polled += spw_thr_load_rlx(&count->polled);
			rail->late += spw_thr_load_rlx(&count->late);
			rail->duplicate += spw_thr_load_rlx(&count->duplicate);
			rail->flushed += spw_thr_load_rlx(&count->flushed);
			rail->moved += spw_thr_load_rlx(&count->moved);
			rail->outages += spw_thr_load_rlx(&count->outages);
		}
		rail->residual = rails_residual_of(rail);
	}
	return rp->conf.rail_cnt;
}

/* Parked and ready frames are lent by a rail, and in the port to everybody else. Where a slot that
 * one rail lent was sent by another, the two counts are off by one each, and their sum is right. */
static void rails_slots(struct spw_port *port, uint16_t queue, struct spw_port_slots *slots_out)
{
	const struct rails_port *rp = rails_of(port);
	const struct rails_queue *q = &rp->queue[queue];
	const uint32_t held = q->window.parked_cnt + q->window.ready_in - q->window.ready_out;

	for (uint32_t r = 0; r < q->rail_cnt; r++) {
		struct spw_port_slots rail;

		spw_port_slots(rp->rail[r], queue, &rail);
		slots_out->in_rx += rail.in_rx;
		slots_out->in_tx += rail.in_tx;
		slots_out->lent += rail.lent;
	}
	slots_out->in_rx += held;
	slots_out->lent += q->lent_cnt - held;
}

const struct spw_port_driver port_rails_driver = {
	.name = "rails",
	.about = "one stream over two to four ports of this process, as "
		 "rails:mlx5:mlx5_0,mode=eth+mlx5:mlx5_1,mode=eth. Each is a whole specification "
		 "with its own keys, and has no + in it",
	.keys = rails_sets,
	.more_keys = true,
	.need = rails_need,
	.open = rails_open,
	.region_attach = rails_region_attach,
	.queue_setup = rails_queue_setup,
	.start = rails_start,
	.stop = rails_stop,
	.stat = rails_stat,
	.slots = rails_slots,
	.rails = rails_rails,
	.close = rails_close,
};
