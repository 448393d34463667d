/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/port: the table of drivers and what they share.
 */
#ifndef SPW_PORT_IMPL_H
#define SPW_PORT_IMPL_H

#include "port/spw_port.h"

extern const struct spw_port_driver port_null_driver;
extern const struct spw_port_driver port_ethdev_driver;
extern const struct spw_port_driver port_fault_driver;
extern const struct spw_port_driver port_rails_driver;
extern const struct spw_port_driver port_mlx5_driver;  /* where the build has rdma-core */
extern const struct spw_port_driver port_verbs_driver; /* likewise */

/* What a refused number is answered with. */
#define PORT_BY_NAME                                                                           \
	"name its device: ethdev:0000:01:00.0, or ethdev:net_memif0,role=server,socket=PATH, " \
	"which "                                                                               \
	"need neither -a nor --vdev"

/* Purpose: the driver of that name.
 * Returns: NULL if there is none.
 * Thread:  any */
const struct spw_port_driver *port_driver_find(const char *name);

/* Purpose: memory for what a driver opens: its own struct of `bytes`, which begins with struct
 *          spw_port (driver, index, queue count and name filled in), and queue_cnt structs of
 *          `bytes` each.
 * Shape:   zeroed; aligned to two cache lines, more than which no struct of a port needs.
 * Owner:   the caller, until free().
 * Thread:  setup
 * Errors:  NULL with a text (-ENOMEM). */
void *port_alloc(const struct spw_port_driver *driver, const struct spw_port_spec *spec,
		 uint16_t index, uint16_t queue_cnt, size_t bytes);
void *port_queues_alloc(uint16_t queue_cnt, size_t bytes);

/* Purpose: how many slots of the pool are this queue's part.
 * Thread:  any */
SPW_INLINE uint32_t port_conf_slots(const struct spw_port_queue_conf *conf)
{
	return conf->slot_cnt ? conf->slot_cnt : conf->pool->slot_cnt;
}

/* What a queue of an RDMA driver counts. Written by the owner, sampled by others. */
struct port_queue_stat {
	uint64_t rx_frames, rx_bytes;
	uint64_t tx_frames, tx_bytes;
	uint64_t tx_flushed; /* taken by tx_burst, and no CQE shows that it was sent */
	uint64_t dropped[SPW_PORT_DROP_CNT];
	uint64_t err[SPW_PORT_ERR_CNT];
};

/* Purpose: adds one queue's counters to the port's. wire_frames grows by what was lent and what was
 *          dropped: both came over the wire.
 * Order:   relaxed loads.
 * Thread:  any */
void port_stat_add(struct spw_port_stat *stat, const struct port_queue_stat *from);

#endif
