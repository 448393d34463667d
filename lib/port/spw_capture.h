/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Captures what port queues receive, as pcapng. A capture stands between a pipe and a driver: it
 * replaces the calls of a queue (struct spw_port_queue) by its own, which call the driver's;
 * rx_burst also copies the first bytes of each frame into a ring, and a thread of the capture's
 * writes them to the file. A queue that is not captured carries none of it.
 *
 *   lcore ── driver's rx_burst ── copy ──► ring ──► writer ──► file
 *                                  │                  │          │
 *   not captured:               ring full           limit      disk
 *
 * The lcore never waits: a frame that finds the ring full is not captured, and counted. Frames are
 * stamped by the NIC where a clock map is given, else when the burst was polled; both become ns
 * since 1970 in the writer.
 *
 * The order of calls: open, queue (each), start, [lcores run], stop, stat, close. Threads: all are
 * "setup".
 *
 * Source of the format: draft-ietf-opsawg-pcapng (pcapng/spw_pcapng.h).
 */
#ifndef SPW_CAPTURE_H
#define SPW_CAPTURE_H

#include "base/spw_types.h"
#include "pool/spw_pool.h"
#include "port/spw_port.h"
#include "time/spw_time.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_CAPTURE_QUEUE_MAX 64u

struct spw_capture;

struct spw_capture_conf {
	const char *path;     /* outlives the capture */
	uint32_t snap_bytes;  /* of a frame at most, 1 .. 65535; of one that is split: its head */
	uint64_t limit_bytes; /* of the file */
	struct spw_tsc tsc;   /* calibrated */
};

struct spw_capture_queue_conf {
	struct spw_port *port;
	uint16_t queue;                  /* set up, not started */
	const struct spw_pool *pool;     /* of the queue; readable by the CPU */
	int numa_node;                   /* of the lcore that runs it */
	struct spw_clock_box *nic_clock; /* map of the port's stamps, with a first value; NULL: they
					    mean nothing */
};

/* Frames that were received, and those that are not in the file, by reason. */
struct spw_capture_stat {
	uint64_t frames, ring_full, limited, disk;
	uint64_t bytes; /* of the file */
};

/* Purpose: creates the file. Ignores SIGXFSZ in the process, so that a file that may not grow is a
 *          full disk.
 * Owner:   the caller, until spw_capture_close.
 * Thread:  setup.
 * Errors:  -ENOMEM, or what spw_pcapng_open returns. */
int spw_capture_open(const struct spw_capture_conf *conf, struct spw_capture **capture_out);

/* Purpose: captures one more queue: replaces its calls, adds an interface to the file, allocates a
 *          ring of 4096 frames on conf->numa_node.
 * Shape:   at most SPW_CAPTURE_QUEUE_MAX queues, all before start; the CPU can read the pool
 *          (region->host_va is not NULL).
 * Owner:   the caller keeps port, pool and clock alive until spw_capture_stop.
 * Thread:  setup.
 * Errors:  -ENOMEM, -ENOSPC, or what spw_pcapng_interface returns. */
int spw_capture_queue(struct spw_capture *capture, const struct spw_capture_queue_conf *conf);

/* Purpose: starts the thread that writes.
 * Thread:  setup.
 * Errors:  -EAGAIN. */
int spw_capture_start(struct spw_capture *capture);

/* Purpose: writes everything that is left and the statistics, and restores the drivers' calls.
 *          NULL and a capture that was not started are fine.
 * Order:   the lcores have ended (Q4); releases the writer's stop word (CAP1).
 * Thread:  setup.
 * Errors:  -errno of write(): the file has no statistics. Frames that were lost are counted. */
int spw_capture_stop(struct spw_capture *capture);

/* Purpose: sums over all queues.
 * Thread:  setup, after spw_capture_stop. */
void spw_capture_stat(const struct spw_capture *capture, struct spw_capture_stat *stat_out);

/* Purpose: stops and frees; NULL is fine.
 * Thread:  setup, before the ports are closed. */
void spw_capture_close(struct spw_capture *capture);

#ifdef __cplusplus
}
#endif
#endif
