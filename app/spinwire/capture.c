/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * --capture: puts a capture (port/spw_capture.h) in front of every queue of the topology. Opened by
 * topology.c after the queues are set up and the clocks paired, before the ports start.
 *
 * The capture owns one thread, which writes the file, and a ring for each queue; lcores only fill
 * the rings. main.c calls spw_capture_stop, which writes the rest, before the summary counts it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "app.h"
#include "base/spw_err.h"

/* What was not captured is named by reason: the run went on without waiting for the file. */
void app_capture_print(const struct app *app)
{
	struct spw_capture_stat stat;

	if (!app->capture)
		return;
	spw_capture_stat(app->capture, &stat);
	printf("\ncapture    %s: %" PRIu64 " of %" PRIu64 " frames, %" PRIu64
	       " bytes; not captured: ring full %" PRIu64 ", limit %" PRIu64 ", disk %" PRIu64 "\n",
	       app->conf.run.capture, stat.frames - stat.ring_full - stat.limited - stat.disk,
	       stat.frames, stat.bytes, stat.ring_full, stat.limited, stat.disk);
}

/* A full disk does not end a run: it is reported after it, as an error of the file alone. */
int app_capture_end(const struct app *app)
{
	struct spw_capture_stat stat;

	if (!app->capture)
		return 0;
	spw_capture_stat(app->capture, &stat);
	return stat.disk ? spw_err(ENOSPC,
				   "--capture %s: %llu frames could not be written; make room, or "
				   "keep less (--capture-snap, --capture-limit)",
				   app->conf.run.capture, (unsigned long long)stat.disk)
			 : 0;
}

/* The writer reads frames with the CPU, so memory that it cannot reach is refused; of a frame that
 * is split it reads the head. */
int app_capture_open(struct app *app)
{
	struct spw_capture_conf conf = {
		.path = app->conf.run.capture,
		.snap_bytes = (uint32_t)app->conf.run.capture_snap,
		.limit_bytes = app->conf.run.capture_limit,
		.tsc = app->tsc,
	};
	int rc;

	if (!app->conf.run.capture[0])
		return 0;
	for (uint32_t i = 0; i < app->topo.lane_cnt; i++)
		if (!app->topo.lane[i]->pool.head_region->host_va)
			return spw_err(ENOTSUP, "--capture: the CPU cannot read memory kind gpu: "
						"use --memory cuda-reg");
	rc = spw_capture_open(&conf, &app->capture);
	for (uint32_t i = 0; rc == 0 && i < app->topo.lane_cnt; i++) {
		struct spw_topo_lane *lane = app->topo.lane[i];
		struct spw_clock_feed *nic = &app->topo.nic_clock[lane->conf.port];
		/* Frames are stamped by the NIC where its clock is paired, else when they were
		 * polled. */
		struct spw_capture_queue_conf qc = {
			.port = lane->port,
			.queue = lane->conf.queue,
			.pool = &lane->pool,
			.numa_node = lane->conf.numa_node,
			.nic_clock = nic->on ? &nic->box : NULL,
		};

		rc = spw_capture_queue(app->capture, &qc);
	}
	return rc < 0 ? rc : spw_capture_start(app->capture);
}
