/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What faults and the adversary do to a device as a whole: set-up and end, stalls, commands whose
 * time has come, the flapping link (inject.h).
 *
 *   nic_attach   inject_open              each round   inject_stall, if one is due; inject_frames
 *   nic_detach   inject_close             each tick    inject_tick, inject_link_tick
 *   nic_leave    inject_leave             end of a QP  inject_frames_all
 *
 * What to know before changing it: the model calls these whether or not anything is injected, so
 * those of a round or a tick must cost next to nothing while no fault is set.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/spw_err.h"
#include "softhca/inject/adversary.h"
#include "softhca/inject/control.h"
#include "softhca/inject/inject.h"
#include "softhca/nic/host/host.h"
#include "softhca/nic/port/port.h"

/* nd->fault is there always; the adversary only if it was asked for. A failure leaves nothing. */
int inject_open(struct nic_dev *nd)
{
	const struct hca_cfg *cfg = nd->dev->cfg;
	int rc;

	nd->fault = calloc(1, sizeof(*nd->fault));
	if (!nd->fault)
		return spw_err(ENOMEM, "no memory for a NIC");
	rc = fault_init(nd->fault, cfg->fault, cfg->seed + nd->dev->idx);
	if (!rc && cfg->adversary.what && !(nd->adv = adv_open(&cfg->adversary, nd->dev->idx)))
		rc = spw_err(ENOMEM, "no memory for a NIC");
	if (rc)
		inject_close(nd);
	return rc;
}

void inject_close(struct nic_dev *nd)
{
	fault_fini(nd->fault);
	free(nd->fault);
	nd->fault = NULL;
	adv_close(nd->adv);
	nd->adv = NULL;
}

/* Neither allocates nor frees: the process may be in a signal handler. */
void inject_leave(struct nic_dev *nd)
{
	fault_leave(nd->fault, nd->cable);
}

/* As if the thread had lost its core. The log has from and to, in ticks of the CPU's counter. */
void inject_stall(struct nic_dev *nd)
{
	struct fault *f = nd->fault;
	const struct timespec ts = {(time_t)(f->stall_ns / 1000000000),
				    (long)(f->stall_ns % 1000000000)};
	const uint64_t from = spw_cpu_counter();

	f->stall_ns = 0;
	/* Peers are not to wait for turns of this end meanwhile. */
	cable_stalls(nd->cable);
	nanosleep(&ts, NULL);
	if (f->log_fd >= 0 && dprintf(f->log_fd, "0 stalled %llu %llu\n", (unsigned long long)from,
				      (unsigned long long)spw_cpu_counter()) < 0)
		f->log_fd = -1;
	nd->now_ns = nic_now_ns();
}

/* Nobody reads the answers. The last entry moves into the place of one that ran, so commands of one
 * tick have no order. */
void inject_tick(struct nic_dev *nd)
{
	struct fault *f = nd->fault;
	char answer[128];

	for (uint32_t i = 0; i < f->at_cnt; i++) {
		if (nd->now_ns - nd->attach_ns < f->at[i].ns)
			continue;
		control_exec(nd, f->at[i].what, answer, sizeof(answer));
		f->at[i] = f->at[--f->at_cnt];
		i--;
	}
}

/* Before a QP ends: its last ACK must not stay behind (qp_last_ack). */
void inject_frames_all(struct nic_dev *nd)
{
	if (nd->fault->queued_cnt)
		fault_tick(nd->fault, nd->cable, UINT64_MAX);
}

/* A time counts from the moment at which the link was found up, so that it is never up or down for
 * less than was asked for, however late the thread is. */
void inject_link_tick(struct nic_dev *nd, uint64_t down_until_ns)
{
	struct fault *f = nd->fault;

	if (spw_likely(!f->flap_down_ns))
		return;
	if (nd->now_ns < down_until_ns)
		f->flap_at_ns = 0;
	else if (!f->flap_at_ns)
		f->flap_at_ns = nd->now_ns + f->flap_up_ns;
	else if (nd->now_ns >= f->flap_at_ns)
		nic_link_fail(nd, nd->now_ns + f->flap_down_ns);
}
