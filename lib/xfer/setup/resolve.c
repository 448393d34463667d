/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * INIT to RTR in a thread of its own. The kernel resolves the MAC of the peer's GID in this system
 * call, and waits a second for a neighbour that does not answer (Linux,
 * drivers/infiniband/core/addr.c, rdma_addr_find_l2_eth_by_grh): the owner's thread, which moves
 * the data of all connections, must not.
 *
 *   owner   start ─────────────► result: 0 ─► RTS, with the rights of the peer
 *   thread        ibv_modify_qp ─► done (X4)
 *
 * A thread for each attempt, so that one silent neighbour does not keep the others waiting;
 * attempts are rare. Until it is done the QP belongs to the thread: nobody else modifies or
 * destroys it. It has no rights of access before the owner moves it to RTS, so a rail that was
 * abandoned in between cannot be written through.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_thread.h"
#include "peer/spw_peer_qp.h"
#include "xfer/connection.h"
#include "xfer/endpoint.h"
#include "xfer/reach.h"

/* It runs wherever it may, not only on the core that its owner keeps busy. */
static void leave_core(void)
{
	cpu_set_t all;

	memset(&all, 0xff, sizeof(all));
	(void)sched_setaffinity(0, sizeof(all), &all);
}

static void *resolve_run(void *arg)
{
	struct xfer_resolve *r = arg;

	leave_core();
	r->error = peer_qp_rtr(r->qp, &r->path);
	if (r->error)
		snprintf(r->why, sizeof(r->why), "%.127s", spw_err_text());
	spw_thr_store_rel(&r->done, 1u); /* [X4 release, pairs with xfer_resolve_result] */
	return NULL;
}

/* From here on QP and CQ are the thread's, until its result was taken. */
int xfer_resolve_start(struct xfer_rail *rail, const struct peer_qp_path *path)
{
	struct xfer_resolve *r = calloc(1, sizeof(*r));
	int error;

	if (!r)
		return spw_err(ENOMEM, "no memory for a thread");
	r->qp = rail->qp;
	r->cq = rail->cq;
	r->path = *path;
	xfer_list_init(&r->link);
	error = -spw_thread_start(&r->thread, resolve_run, r);
	if (error) {
		free(r);
		return spw_err(error, "a thread that finds the peer's MAC: %s (ulimit -u)",
			       strerror(error));
	}
	rail->resolve = r;
	return 0;
}

int xfer_resolve_result(struct xfer_rail *rail)
{
	struct xfer_resolve *r = rail->resolve;
	int rc;

	if (!spw_thr_load_acq(&r->done)) /* [X4 acquire, pairs with resolve_run] */
		return -EINPROGRESS;
	pthread_join(r->thread, NULL);
	rail->resolve = NULL;
	rc = r->error ? spw_err(-r->error, "%s", r->why) : 0;
	free(r);
	return rc;
}

/* The thread cannot be stopped: it ends by itself, within the kernel's time for a neighbour. */
void xfer_resolve_abandon(struct xfer_rail *rail)
{
	xfer_list_add(&rail->conn->x->resolves, &rail->resolve->link);
	rail->resolve = NULL;
	rail->qp = NULL;
	rail->cq = NULL;
}

void xfer_resolve_reap(struct spw_xfer *x, bool all)
{
	struct xfer_list *next;

	for (struct xfer_list *i = x->resolves.next; i != &x->resolves; i = next) {
		struct xfer_resolve *r = spw_container_of(i, struct xfer_resolve, link);

		next = i->next;
		if (!all && !spw_thr_load_acq(&r->done)) /* [X4 acquire] */
			continue;
		pthread_join(r->thread, NULL);
		ibv_destroy_qp(r->qp);
		ibv_destroy_cq(r->cq);
		xfer_list_del(&r->link);
		free(r);
	}
}
