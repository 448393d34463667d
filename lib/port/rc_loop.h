/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A queue of mode=rc whose first peer is connected to itself, for the litmus: shared by mlx5/ and
 * verbs/. Private to lib/port.
 */
#ifndef SPW_PORT_RC_LOOP_H
#define SPW_PORT_RC_LOOP_H

#include "peer/spw_peer.h"
#include "port/spw_port.h"

/* Purpose: connects the queue's first peer to itself. Bursts work on return.
 * Shape:   before spw_peer_conn_start; with an SRQ its receives are posted.
 * Thread:  setup
 * Returns: how many messages may be under way at once; else an error as spw_port_loop. */
int port_peer_loop(struct spw_peer_conn *conn, uint16_t queue, struct spw_port_queue *pq);

/* Purpose: takes the connection down and waits for its flush. Idempotent.
 * Thread:  setup
 * Errors:  -ETIME: the device does not finish. */
int port_peer_loop_end(struct spw_peer_conn *conn, uint16_t queue, struct spw_port_queue *pq);

#endif
