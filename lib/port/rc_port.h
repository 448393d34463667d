/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A port with reliable connections (mode=rc), shared by mlx5/ and verbs/. The driver owns the
 * device, its objects and its bursts; keys, connections, the slots of peers, the litmus's loop,
 * start, stop and counters are here. Private to lib/port.
 *
 *   rc_queue.h   a queue and its peers, in memory     rc_inline.h   what the bursts share
 *   rc_port.c    the driver's calls                   rc_turn.c     the owner's turns, draining
 *   rc_slots.c   slots leave the pool and return      rc_loop.c     a peer connected to itself
 */
#ifndef SPW_PORT_RC_PORT_H
#define SPW_PORT_RC_PORT_H

#include "peer/spw_peer.h"
#include "port/port.h"
#include "port/rc_queue.h"
#include "rdma/spw_rdma_netdev.h"
#include "rdma/spw_rdma_retransmit.h"

/* Stands first in the driver's own struct. */
struct port_peers {
	struct spw_port base;
	struct rdma_dev *dev; /* the driver's, from port_peers_open on */
	struct spw_peer_conf conf;
	struct spw_peer_conn *conn; /* NULL until port_peers_open */
	void *queue; /* queue_cnt structs of the driver's, each beginning with struct port_rc_queue
		      */
	size_t queue_bytes; /* of one */
	/* The driver's. Destroys the QPs of a queue: the device touches no slot from here on.
	 * Idempotent. */
	void (*destroy_qps)(struct port_rc_queue *q);
	/* The driver's. The QP of the queue's first peer was connected to itself, for the litmus.
	 * 0, or -errno with a text. NULL: nothing is left of that. */
	int (*loop_ended)(struct port_rc_queue *q);
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

SPW_INLINE struct port_peers *port_peers_of(struct spw_port *port)
{
	return spw_container_of(port, struct port_peers, base);
}

SPW_INLINE struct port_rc_queue *port_rc_queue_at(const struct port_peers *pp, uint16_t queue)
{
	return (void *)((uint8_t *)pp->queue + queue * pp->queue_bytes);
}

/* The connection of the queue's peer `local`: peer i of queue q is entry q + i * queue_cnt of the
 * port's table. */
SPW_INLINE struct spw_peer *port_rc_conn_peer(const struct port_rc_queue *q, uint32_t local)
{
	return spw_peer_conn_peer(q->port->conn, q->index + local * q->port->base.queue_cnt);
}

/* Purpose: begins the set-up of a queue: the slots of its peers leave the pool, and lib/peer
 *          registers them.
 * Shape:   the driver then makes its objects, calls port_rc_queue_init and attaches each peer
 *          (port_rc_peer_conf), and last sets slots_at to PORT_RC_AT_QUEUE. After an error
 *          port_rc_queue_close undoes it.
 * Thread:  setup
 * Errors:  -EBUSY it was set up before, or slots are in use; those of lib/peer. */
int port_rc_queue_begin(struct spw_port *port, uint16_t queue,
			const struct spw_port_queue_conf *conf);
/* Purpose: destroys the QPs and returns the slots to the pool. A zeroed queue is fine. The tables
 *          live on, because lent slots may be released afterwards. Thread: setup. */
void port_rc_queue_close(struct port_rc_queue *q);

/* Purpose: what port_rc_attach wants of a peer of this queue; rings of the driver's size. */
struct port_rc_peer_conf port_rc_peer_conf_of(const struct port_rc_queue *q, uint32_t local,
					      uint32_t sq_cnt, uint32_t rq_cnt);

/* Purpose: the calls of spw_port_driver that need no more of a driver than port_rc_ops. */
int port_peers_region_attach(struct spw_port *port, const struct spw_region *region);
int port_rc_loop(struct spw_port *port, uint16_t queue, uint8_t *head_out);
int port_rc_start(struct spw_port *port);
int port_rc_stop(struct spw_port *port);
void port_rc_stat(struct spw_port *port, struct spw_port_stat *stat);
void port_rc_slots(struct spw_port *port, uint16_t queue, struct spw_port_slots *slots);

/* ---- rc_turn.c ---- */

/* Purpose: spw_port_queue.events: gives each peer its turn. Thread: owner. */
uint16_t port_rc_events(void *vq, struct spw_port_event *event, uint16_t cnt);
/* Purpose: at stop, before spw_peer_conn_stop: what was sent is acknowledged, or its time is over.
 * Thread: setup. */
void port_rc_send_out(struct port_rc_queue *q);
/* Purpose: after spw_peer_conn_stop: takes the flush of all QPs, for at most 200 ms, and counts the
 *          messages that nobody polled as flushed. Thread: setup. */
void port_rc_drain(struct port_rc_queue *q);

#endif
