/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The driver behind struct cq_port (cq_port.h): only what lib/topo calls.
 */
#include "cq_port.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "time/spw_time.h"

static struct cq_port *port_of(struct spw_port *port)
{
	return spw_container_of(port, struct cq_port, base);
}

static int queue_setup(struct spw_port *port, uint16_t queue SPW_UNUSED,
		       const struct spw_port_queue_conf *conf)
{
	struct cq_port *cp = port_of(port);
	struct mlx5_eth_queue_conf qc = {
		.cq = {cp->ring->mem.buf, NULL, cp->ring->cnt, 64},
		.rq = {.dbrec = &cp->db[0], .cnt = cp->ring->cnt, .stride = 16},
		.pool = conf->pool,
		.flags = cp->flags,
		.refill_min = cp->refill_min,
	};
	int rc;

	cp->wqe = aligned_alloc(4096, (size_t)cp->ring->cnt * 16);
	if (!cp->wqe)
		return spw_err(ENOMEM, "no memory for receive entries");
	qc.rq.buf = cp->wqe;
	rc = mlx5_eth_queue_init(&cp->queue, &qc);
	if (rc == 0)
		mlx5_eth_queue_calls(&cp->queue, &port->queue[0]);
	return rc;
}

static int raw_keep(struct spw_port *port, uint16_t queue)
{
	return mlx5_eth_queue_raw_keep(&port_of(port)->queue, &port->queue[queue]);
}

static int start(struct spw_port *port)
{
	mlx5_eth_queue_arm(&port_of(port)->queue);
	return 0;
}

static int stop(struct spw_port *port)
{
	struct cq_port *cp = port_of(port);

	mlx5_eth_queue_disarm(&cp->queue);
	mlx5_eth_queue_fini(&cp->queue);
	free(cp->wqe);
	cp->wqe = NULL;
	return 0;
}

/* One and the same clock: cq_ring_stamps() is given the CPU's ticks. */
static int pair_clock(struct spw_port *port SPW_UNUSED, uint64_t *nic_ticks_out, uint64_t *tsc_out,
		      uint64_t *uncertainty_ns_out)
{
	*nic_ticks_out = *tsc_out = spw_tsc_now();
	*uncertainty_ns_out = 0;
	return 0;
}

void cq_port_init(struct cq_port *port, struct cq_ring *ring, unsigned flags, uint32_t refill_min,
		  uint64_t clock_hz)
{
	static const struct spw_port_driver driver = {
		.name = "cq",
		.queue_setup = queue_setup,
		.raw_keep = raw_keep,
		.start = start,
		.stop = stop,
		.pair_clock = pair_clock,
	};

	memset(port, 0, sizeof(*port));
	port->base.driver = &driver;
	strcpy(port->base.name, "cq");
	port->base.queue_cnt = 1;
	port->base.caps = (struct spw_port_caps){.queue_max = 1,
						 .slot_align = 64,
						 .slot_bytes_min = CQ_SLOT_BYTES,
						 .slot_cnt_min = ring->cnt,
						 .nic_clock_hz = clock_hz,
						 .numa_node = -1};
	port->ring = ring;
	port->flags = flags;
	port->refill_min = refill_min;
}
