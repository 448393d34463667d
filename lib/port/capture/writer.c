/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The thread that writes a capture's file: drains each queue's ring in turn, translates stamps to
 * ns since 1970, and sleeps a millisecond when all rings are empty. It reads both clocks it needs
 * again and again: the wall clock once a second, the ports' maps every 20 ms.
 *
 *   lcore (capture.c)   entry ─► ring of its queue ─┐
 *   this thread         ring ─► stamp to wall clock ─► packet block ─► file (lib/pcapng)
 *   end                 lcores have ended ─► stop (CAP1) ─► drained (CAP2) ─► statistics
 *
 * The lcores never wait for it: a full ring is counted there (ring_full), and so are the limit of
 * the file and a full disk here.
 */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "capture.h"

#define PAUSE_NS     1000000
#define NIC_MAP_NS   20000000ull
#define WALL_PAIR_NS 1000000000ull
#define BLOCK_EXTRA                                                                  \
	64u /* bytes of a packet block beside its data, and of a block of statistics \
	     */

/* ---- clocks ---- */

/* A pair of wall clock and TSC: all stamps of the next second are translated by it. */
static void capture_read_wall(struct spw_capture *cap)
{
	clockid_t clock = CLOCK_REALTIME;

	spw_clock_pair_take(spw_clock_read_posix, &clock, 16, &cap->wall);
	cap->wall_due_tsc = spw_tsc_now() + spw_tsc_from_ns(&cap->conf.tsc, WALL_PAIR_NS);
}

static void capture_read_nics(struct spw_capture *cap)
{
	for (uint32_t i = 0; i < cap->queue_cnt; i++)
		if (cap->queue[i]->nic_clock)
			spw_clock_box_get(cap->queue[i]->nic_box, &cap->queue[i]->nic_map);
	cap->nic_due_tsc = spw_tsc_now() + spw_tsc_from_ns(&cap->conf.tsc, NIC_MAP_NS);
}

/* Once before the thread starts, so that the first frames are translated. */
void capture_clocks_read(struct spw_capture *cap)
{
	capture_read_wall(cap);
	capture_read_nics(cap);
}

static void capture_refresh_clocks(struct spw_capture *cap)
{
	uint64_t now = spw_tsc_now();

	if ((int64_t)(now - cap->wall_due_tsc) >= 0)
		capture_read_wall(cap);
	if ((int64_t)(now - cap->nic_due_tsc) >= 0)
		capture_read_nics(cap);
}

/* Before or after the pair; stamps of frames lie on both sides of it. */
static uint64_t capture_wall_ns(const struct spw_capture *cap, uint64_t tsc)
{
	int64_t since = (int64_t)(tsc - cap->wall.ref);

	return since < 0 ? cap->wall.other - spw_tsc_to_ns(&cap->conf.tsc, (uint64_t)-since)
			 : cap->wall.other + spw_tsc_to_ns(&cap->conf.tsc, (uint64_t)since);
}

/* ---- frames ---- */

/* The limit leaves room for the statistics blocks, so that a capture cut by its limit is still
 * complete. */
static void capture_write_entry(struct spw_capture *cap, struct capture_queue *cq, uint32_t iface,
				const struct capture_entry *entry)
{
	uint64_t tsc = entry->by_nic ? spw_clock_map_ref(&cq->nic_map, entry->stamp) : entry->stamp;

	if (spw_pcapng_bytes(cap->file) + entry->bytes + BLOCK_EXTRA * (1 + cap->queue_cnt) >
	    cap->conf.limit_bytes) {
		cq->limited++;
		if (!cap->limit_reported)
			spw_warn("capture: %s has reached --capture-limit; the rest is counted, "
				 "not written",
				 cap->conf.path);
		cap->limit_reported = true;
		return;
	}
	spw_pcapng_packet(cap->file,
			  &(struct spw_pcapng_packet){.iface = iface,
						      .direction = SPW_PCAPNG_IN,
						      .stamp_ns = capture_wall_ns(cap, tsc),
						      .data = entry->data,
						      .bytes = entry->bytes,
						      .wire_bytes = entry->wire_bytes});
}

/* Writes what queue i has captured. Returns: whether anything was there. */
static bool capture_drain(struct spw_capture *cap, uint32_t i)
{
	struct capture_queue *cq = cap->queue[i];
	uint64_t at = spw_ring_read_pos(&cq->ring);
	uint32_t cnt = spw_ring_ready(&cq->ring, CAPTURE_ENTRIES);

	for (uint32_t n = 0; n < cnt; n++)
		capture_write_entry(cap, cq, i, capture_entry(cq, at + n));
	spw_ring_release(&cq->ring, cnt);
	return cnt != 0;
}

/* Returns: whether there was anything, so that the thread does not sleep while frames come. */
static bool capture_drain_all(struct spw_capture *cap)
{
	bool any = false;

	for (uint32_t i = 0; i < cap->queue_cnt; i++)
		any |= capture_drain(cap, i);
	return any;
}

/* Once; the statistics at the end have the count. */
static void capture_report_disk(struct spw_capture *cap, int rc)
{
	if (spw_pcapng_lost(cap->file) == 0 || cap->disk_reported)
		return;
	spw_warn("capture: %s cannot be written%s%s; frames are counted until it can",
		 cap->conf.path, rc ? ": " : "", rc ? strerror(-rc) : "");
	cap->disk_reported = true;
}

/* After stop no lcore writes: what is found then is all. */
void *capture_writer_main(void *arg)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	struct spw_capture *cap = arg;

	/* [CAP2 acquire, pairs with CAP1 in spw_capture_stop: the drain below reads every frame of
	 * the ended lcores] */
	while (!spw_thr_load_acq(&cap->stop)) {
		capture_refresh_clocks(cap);
		if (capture_drain_all(cap))
			continue;
		capture_report_disk(cap, spw_pcapng_flush(cap->file));
		nanosleep(&pause, NULL);
	}
	while (capture_drain_all(cap))
		;
	capture_report_disk(cap, spw_pcapng_flush(cap->file));
	return NULL;
}

/* The file's losses are not known by queue: the first interface reports them all. */
int capture_write_statistics(struct spw_capture *cap)
{
	uint64_t now = capture_wall_ns(cap, spw_tsc_now()), disk = spw_pcapng_lost(cap->file);
	int rc;

	for (uint32_t i = 0; i < cap->queue_cnt; i++) {
		const struct capture_queue *cq = cap->queue[i];

		spw_pcapng_statistics(cap->file, i, now, cq->frames,
				      cq->ring_full + cq->limited + (i ? 0 : disk));
	}
	rc = spw_pcapng_flush(cap->file);
	return rc ? spw_err(-rc, "--capture %s: the statistics at its end cannot be written: %s",
			    cap->conf.path, strerror(-rc))
		  : 0;
}
