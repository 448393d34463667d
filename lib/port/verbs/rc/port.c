/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The verbs driver's own calls for mode=rc: open, set up, close. The others are port/rc_port.c
 * (port/spw_port.h has the contracts). The tables live until close, because lent slots may be
 * released after stop.
 *
 *   verbs/port.c ─ mode=rc ─► verbs_rc_open ─► keys read ─► device ─► link ─► port_peers_open
 *   set-up of a queue         port_rc_queue_begin ─► objects (obj.c) ─► the burst calls
 *   close                     stop ─► QPs, slots back to the pool ─► CQs ─► connections ─► device
 *
 * The order of close matters: a QP refers to a peer's protection domain, which lib/peer owns, and
 * that to the device.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/spw_log.h"
#include "port/verbs/verbs.h"
#include "port/verbs/rc/rc.h"

static const struct spw_port_key verbs_rc_key[] = {
	{"mode", "rc", "Reliable connections, as those of mlx5: either end can be either driver.",
	 NULL, 0, 0},
	VERBS_KEY_PORT,
	PORT_PEERS_KEY_GID,
};
const struct spw_port_keys verbs_rc_keys = {"mode=rc", verbs_rc_key, SPW_ARRAY_CNT(verbs_rc_key)};
static const struct spw_port_keys *const verbs_rc_sets[] = {&verbs_rc_keys, &spw_peer_keys, NULL};

static struct verbs_rc_port *verbs_rc_of(struct spw_port *port)
{
	return spw_container_of(port, struct verbs_rc_port, peers.base);
}

/* ---- open ---- */

/* Once, at close: an error completion itself only counts. */
static void verbs_rc_log_errors(const struct spw_port *port, const struct port_rc_queue *q)
{
	for (unsigned i = 0; i < PORT_RC_ERROR_CNT; i++)
		if (q->error[i])
			spw_info("port %s queue %u: error completions: %llu, %s", port->name,
				 q->index, (unsigned long long)q->error[i],
				 ibv_wc_status_str((enum ibv_wc_status)i));
}

/* Also undoes a failed open or set-up. */
static void verbs_rc_close(struct spw_port *port)
{
	struct verbs_rc_port *vp = verbs_rc_of(port);

	port_rc_stop(port);
	for (uint16_t i = 0; i < port->queue_cnt && vp->queue; i++) {
		verbs_rc_log_errors(port, &vp->queue[i].rc);
		port_rc_queue_close(&vp->queue[i].rc);
		verbs_rc_queue_free(&vp->queue[i]);
	}
	port_peers_close(&vp->peers);
	rdma_dev_close(&vp->dev);
	free(vp->queue);
	free(vp);
}

/* Text first, as far as it can be checked without the device. */
static int verbs_rc_open_all(const struct spw_port_spec *spec, struct verbs_rc_port *vp)
{
	uint64_t port_num;
	int rc = port_peers_parse(spec, verbs_rc_sets, &vp->peers);

	rc = rc ? rc : spw_port_spec_number(spec, &verbs_rc_keys, "port", &port_num);
	rc = rc ? rc : rdma_dev_open(spec->device, (uint8_t)port_num, &vp->dev);
	rc = rc ? rc : rdma_dev_check_link(&vp->dev);
	return rc ? rc : port_peers_open(spec, &vp->dev, NULL, &vp->peers);
}

/* The struct is known to port_rc_* by `peers`; the calls that need this driver's objects are set
 * before anything can fail, since close uses them. */
int verbs_rc_open(const struct spw_port_spec *spec, uint16_t index, uint16_t queue_cnt,
		  struct spw_port **port_out)
{
	struct verbs_rc_port *vp =
		port_alloc(&verbs_rc_driver, spec, index, queue_cnt, sizeof(*vp));
	int rc;

	if (!vp)
		return -ENOMEM;
	vp->peers.queue = vp->queue = port_queues_alloc(queue_cnt, sizeof(*vp->queue));
	vp->peers.queue_bytes = sizeof(*vp->queue);
	vp->peers.destroy_qps = verbs_rc_destroy_qps;
	vp->peers.loop_ended = verbs_rc_qp_again;
	rc = vp->queue ? verbs_rc_open_all(spec, vp) : -ENOMEM;
	if (rc) {
		verbs_rc_close(&vp->peers.base);
		return rc;
	}
	*port_out = &vp->peers.base;
	return 0;
}

/* ---- set-up ---- */

/* slots_at comes last: until then the slots are the peers', and port_rc_queue_close returns them
 * from there. The calls of a queue that failed are never set, so no burst can reach half of one. */
static int verbs_rc_queue_setup(struct spw_port *port, uint16_t queue,
				const struct spw_port_queue_conf *conf)
{
	struct verbs_rc_queue *q = &verbs_rc_of(port)->queue[queue];
	int rc = port_rc_queue_begin(port, queue, conf);

	rc = rc ? rc : verbs_rc_queue_make(q, conf);
	if (rc)
		return rc;
	q->rc.slots_at = PORT_RC_AT_QUEUE;
	port->queue[queue] = (struct spw_port_queue){
		.rx_burst = verbs_rc_rx,
		.release_burst = port_rc_release,
		.tx_burst = verbs_rc_tx,
		.events = port_rc_events,
		.lend_burst = port_rc_lend,
		.q = q,
		.no_slot = &q->rc.stat.err[SPW_PORT_ERR_no_slot],
	};
	return 0;
}

/* No .keys, .need and .open: those are asked of port_verbs_driver, which then chooses this one. */
const struct spw_port_driver verbs_rc_driver = {
	.name = "verbs",
	.region_attach = port_peers_region_attach,
	.queue_setup = verbs_rc_queue_setup,
	.loop = port_rc_loop,
	.start = port_rc_start,
	.stop = port_rc_stop,
	.stat = port_rc_stat,
	.slots = port_rc_slots,
	.close = verbs_rc_close,
};
