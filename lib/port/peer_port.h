/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a port with reliable connections (mode=rc) is without its queues: shared by mlx5/ and
 * verbs/. The driver owns the device and the queues; keys, connections, the litmus's loop and what
 * the device counts are here. Private to lib/port.
 */
#ifndef SPW_PORT_PEER_PORT_H
#define SPW_PORT_PEER_PORT_H

#include "peer/spw_peer.h"
#include "port/port.h"
#include "rdma/spw_rdma_netdev.h"
#include "rdma/spw_rdma_retransmit.h"

/* Stands first in the driver's own struct. */
struct port_peers {
	struct spw_port base;
	struct rdma_dev *dev; /* the driver's, from port_peers_open on */
	struct spw_peer_conf conf;
	struct spw_peer_conn *conn; /* NULL until port_peers_open */
	struct rdma_phy phy;
	struct rdma_retransmits retransmits;
	bool started;  /* must be stopped; true after a failed start too */
	uint16_t loop; /* the litmus's queue + 1; 0: none is connected to itself */
};

/* A row of a driver's own keys. */
#define PORT_PEERS_KEY_GID                                                               \
	{                                                                                \
		"gid", "INDEX", "Entry of the device's table of RoCE addresses (GIDs).", \
			"the first of RoCE v2, IPv4 before IPv6", 0, 0                   \
	}

/* Purpose: spw_port_driver.need of the drivers of RDMA devices: refuses what can be refused without
 *          the device. mode=eth needs CAP_NET_RAW, for as long as the port is open; mode=rc
 * nothing. Thread:  setup Errors:  -EINVAL, -ERANGE with a text. */
int port_rdma_need(const struct spw_port_spec *spec, struct spw_port_need *need_out);

/* Purpose: reads the keys of a specification: the sets of the driver, that of lib/peer included.
 * Thread:  setup
 * Errors:  -EINVAL, -ERANGE with a text. */
int port_peers_parse(const struct spw_port_spec *spec, const struct spw_port_keys *const *sets,
		     struct port_peers *pp);

/* Purpose: makes the connections over an open device, and fills in what such a port can do.
 * Shape:   async: called for events of CQs and SRQs, with pp as argument; NULL: not wanted.
 * Owner:   the caller, until port_peers_close; dev is borrowed until then.
 * Thread:  setup
 * Errors:  -EINVAL the MTU is larger than the link's; those of spw_peer_conn_open. */
int port_peers_open(const struct spw_port_spec *spec, struct rdma_dev *dev,
		    rdma_dev_object_fn *async, struct port_peers *pp);
/* Zeroed is fine. The secret is wiped here; lib/peer wipes its own copy. Thread: setup. */
void port_peers_close(struct port_peers *pp);

/* Purpose: spw_port_driver.region_attach. Thread: setup. */
int port_peers_region_attach(struct spw_port *port, const struct spw_region *region);

/* Purpose: connects a queue's first peer to itself, as spw_port_driver.loop.
 * Shape:   the loop before was ended; shared receives are posted.
 * Thread:  setup */
int port_peers_loop(struct port_peers *pp, uint16_t queue, uint8_t *head_out);
/* Purpose: takes the last loop down; nothing to do if there is none. The litmus asks for one queue
 *          after the other, so the next loop, or the start, ends the one before.
 * Thread:  setup */
int port_peers_loop_end(struct port_peers *pp);

/* Purpose: begins counting, and lets peers connect. Comes last: all shared receives are posted.
 * Thread:  setup */
int port_peers_start(struct port_peers *pp);

/* Purpose: adds what connections and device count to the sums of the queues.
 * Thread:  any */
void port_peers_stat(struct port_peers *pp, struct spw_port_stat *stat);

#endif
