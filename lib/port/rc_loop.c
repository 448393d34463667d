/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The turns of setup and of the queue's owner, which are one thread here, until the first peer of a
 * queue is connected to itself, or is down again (rc_loop.h).
 *
 * How many messages may be under way: each occupies a slot of the peer until it was sent on, and to
 * be sent on it needs the credit of another. With at most half of the slots occupied there is
 * always one: the peer advertises what waits at a quarter.
 */
#include "port/rc_loop.h"

#include <errno.h>
#include <time.h>

#include "base/spw_err.h"

#define PAUSE_NS  100000
#define PAUSE_MAX 20000u /* 2 s and more */

/* A queue with an SRQ knows that its QP has no more receives by polling them. */
static void port_peer_poll_off(struct spw_port_queue *pq)
{
	struct spw_desc desc[SPW_BURST_MAX];
	uint32_t slot[SPW_BURST_MAX];
	uint16_t cnt = spw_port_rx_burst(pq, desc, SPW_BURST_MAX);

	for (uint16_t i = 0; i < cnt; i++)
		slot[i] = desc[i].slot;
	if (cnt)
		spw_port_release_burst(pq, slot, cnt);
}

typedef int step_fn(struct spw_peer_conn *conn, uint32_t peer);

static int port_peer_steps(step_fn *step, struct spw_peer_conn *conn, uint16_t queue,
			   struct spw_port_queue *pq)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	int rc = -EAGAIN;

	for (uint32_t i = 0; rc == -EAGAIN && i < PAUSE_MAX; i++) {
		rc = step(conn, queue);
		port_peer_poll_off(pq);
		spw_port_events(pq, NULL, 0);
		if (i > 2)
			nanosleep(&pause, NULL);
	}
	return rc;
}

int port_peer_loop(struct spw_peer_conn *conn, uint16_t queue, struct spw_port_queue *pq)
{
	int rc = port_peer_steps(spw_peer_conn_loop, conn, queue, pq);

	if (rc == -EAGAIN)
		return spw_err(ENOTSUP, "a QP that is connected to itself does not come up");
	return rc ? rc : (int)SPW_MAX(spw_peer_conn_peer(conn, queue)->credit_cnt / 2, 1u);
}

int port_peer_loop_end(struct spw_peer_conn *conn, uint16_t queue, struct spw_port_queue *pq)
{
	int rc = port_peer_steps(spw_peer_conn_loop_end, conn, queue, pq);

	return rc == -EAGAIN ? spw_err(ETIME,
				       "litmus: queue %u does not let go of its test connection: "
				       "--litmus off starts without it",
				       queue)
			     : rc;
}
