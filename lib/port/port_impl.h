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
extern const struct spw_port_driver port_mlx5_driver; /* where the build has rdma-core */
extern const struct spw_port_driver port_verbs_driver; /* likewise */

/* Purpose: the driver of that name, NULL if none. */
const struct spw_port_driver *port_driver_find(const char *name);

/* Purpose: a number with an optional suffix k, M, G (powers of 1000) for the key of a spec.
 * Returns: dflt if the key is not there. Errors: -EINVAL, -ERANGE naming key, value and limits. */
int port_spec_u64(const struct spw_port_spec *spec, const char *key, uint64_t dflt, uint64_t min, uint64_t max,
		  uint64_t *value_out);

/* Purpose: refuses keys that a driver does not know. Errors: -EINVAL with the usage text. */
int port_spec_check_keys(const struct spw_port_spec *spec, const char *const *known, size_t known_cnt,
			 const char *usage);

/* Purpose: memory for what a driver opens: its own struct of `bytes`, which starts with the struct spw_port, with driver,
 *          index, queue count and name filled in; and queue_cnt structs of `bytes` each. The rest is zero.
 * Shape:   aligned to two cache lines, as no struct of a port asks for more.
 * Owner:   the caller, until free(). Errors: NULL with a text (-ENOMEM). Thread: setup. */
void *port_alloc(const struct spw_port_driver *driver, const struct spw_port_spec *spec, uint16_t index, uint16_t queue_cnt,
		 size_t bytes);
void *port_queues_alloc(uint16_t queue_cnt, size_t bytes);

/* What a queue of an RDMA driver counts. Written by the owner, sampled by others. */
struct port_queue_stat {
	uint64_t rx_frames, rx_bytes;
	uint64_t tx_frames, tx_bytes;
	uint64_t tx_flushed;   /* taken by tx_burst and not sent, as far as the CQEs tell */
	uint64_t dropped[SPW_PORT_DROP_CNT];
	uint64_t err[SPW_PORT_ERR_CNT];
};

/* Purpose: adds one queue's counters; what it lent and what it dropped came over the wire. Thread: any. */
void port_stat_add(struct spw_port_stat *stat, const struct port_queue_stat *from);

#endif
