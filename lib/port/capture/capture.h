/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the two sides of a capture share: capture.c (open to close, and the lcore's calls) and
 * writer.c (the thread that writes).
 */
#ifndef CAPTURE_H
#define CAPTURE_H

#include <pthread.h>

#include "pcapng/spw_pcapng.h"
#include "port/spw_capture.h"
#include "ring/spw_ring.h"

#define CAPTURE_ENTRIES 4096u /* per queue: a millisecond at 4 M frames/s */

struct capture_entry {
	uint64_t stamp; /* ticks of the NIC or of the CPU */
	uint32_t wire_bytes;
	uint16_t bytes;
	bool by_nic;
	uint8_t data[];
};

/* One queue and its ring of entries, which follows it in memory. */
struct capture_queue {
	struct spw_port_queue real; /* the driver's calls */
	struct spw_port_queue *place;
	const struct spw_pool *pool;
	uint32_t snap_bytes, entry_bytes;
	bool nic_clock; /* NIC stamps can be translated */
	uint8_t *entries;
	uint64_t frames, ring_full; /* written by the lcore */
	struct spw_ring ring;       /* written by the lcore, read by the writer */
	/* the writer's */
	uint64_t limited;
	struct spw_clock_box *nic_box;
	struct spw_clock_map nic_map;
};

struct spw_capture {
	struct spw_capture_conf conf;
	struct spw_pcapng *file;
	struct capture_queue *queue[SPW_CAPTURE_QUEUE_MAX];
	uint32_t queue_cnt;
	struct spw_clock_pair wall; /* ns since 1970 beside ticks */
	uint64_t wall_due_tsc, nic_due_tsc;
	bool limit_reported, disk_reported;
	uint32_t stop SPW_ALIGNED(2 * SPW_CACHE_LINE);
	pthread_t writer;
	bool running;
};

SPW_INLINE struct capture_entry *capture_entry(const struct capture_queue *cq, uint64_t at)
{
	return (struct capture_entry *)(void *)(cq->entries +
						(at & (CAPTURE_ENTRIES - 1)) * cq->entry_bytes);
}

/* Reads wall clock and NIC clock maps for the first time. */
void capture_clocks_read(struct spw_capture *cap);
/* The thread; arg: the capture. */
void *capture_writer_main(void *arg);
/* One statistics block per queue, after the thread has ended. Errors: -errno of write(). */
int capture_write_statistics(struct spw_capture *cap);

#endif
