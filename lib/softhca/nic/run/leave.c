/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The end of a process: nic_leave(), called by the preload library's exit handler (contract in
 * nic.h).
 *
 * The device stays locked for good, so that neither the NIC thread nor the control socket's thread
 * touches its cable until the process is gone. Nothing here allocates, frees, or waits for long:
 * exit() may have been called in a signal handler that interrupted malloc or a command.
 */
#include <time.h>

#include "softhca/cm/cm.h"
#include "softhca/inject/inject.h"
#include "softhca/nic/port/port.h"
#include "softhca/nic/port/trace.h"
#include "softhca/nic/transport/qp.h"
#include "softhca/nic/run/run.h"
#include "softhca/nic/port/trail.h"

#define LOCK_WAIT_S 1

/* Returns false if the lock is not free within LOCK_WAIT_S: this thread was interrupted in a
 * command, or another thread is stuck in one. */
static bool leave_lock(struct hca_dev *dev)
{
	struct timespec until;
	int rc;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += LOCK_WAIT_S;
	spw_thr_fetch_add(&dev->cmd_waiting, 1u);
	rc = pthread_mutex_clocklock(&dev->mutex, CLOCK_MONOTONIC, &until);
	spw_thr_fetch_add(&dev->cmd_waiting, -1u);
	return rc == 0;
}

static int leave_send_last(void *arg)
{
	struct nic_dev *nd = arg;

	inject_leave(nd);
	for (struct nic_qp *q = nd->qps; q; q = q->next)
		if (q->transport == SPW_PRM_RC && q->qp->state >= HCA_QPS_RTR)
			qp_last_ack(q);
	cm_leave(nd->dev);
	nic_tx_flush(nd);
	return 0;
}

void nic_leave(struct hca_dev *dev)
{
	struct nic_dev *nd = dev->nic;

	if (!nd)
		return;
	if (leave_lock(dev)) {
		nic_guarded(dev, leave_send_last, nd);
		if (nd->trace)
			(void)spw_pcapng_flush(nd->trace);
		trail_end();
		nic_doorbells_report(nd);
	}
	control_leave(nd);
	nd->cable->ops->leave(nd->cable);
}
