/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * --capture: what the ports received, as pcapng. It stands between the pipe and the port: rx_burst of a queue becomes one that
 * calls the driver's and copies the first bytes of each frame into a ring; a thread of its own writes. Without --capture
 * nothing of it is in the loop. The lcore never waits: where the ring is full, the frame is not captured, and counted.
 *
 *   lcore ── driver's rx_burst ── copy ──► ring ──► writer ──► file       not captured: ring full, limit, disk
 */
#include <errno.h>
#include <inttypes.h>
#include <numa.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "app.h"
#include "base/spw_err.h"
#include "base/spw_log.h"
#include "pcapng/spw_pcapng.h"
#include "ring/spw_ring.h"

#define ENTRIES       4096u /* per queue: a millisecond at 4 M frames/s */
#define NAP_NS        1000000
#define NIC_MAP_NS    20000000ull
#define WALL_PAIR_NS  1000000000ull
#define ENTRY_HEAD    ((uint32_t)offsetof(struct capture_entry, data))
#define BLOCK_EXTRA   64u   /* of a packet block beside its bytes, and of a block of statistics */

struct capture_entry {
	uint64_t stamp;       /* ticks of the NIC or of the CPU */
	uint32_t wire_bytes;
	uint16_t bytes;
	bool by_nic;
	uint8_t data[];
};

struct capture_queue {
	struct spw_port_queue real; /* the driver's */
	struct spw_port_queue *place;
	const struct spw_pool *pool;
	uint32_t snap_bytes, entry_bytes;
	bool nic_clock;             /* the port's clock is read: its stamps mean something */
	uint8_t *entries;
	uint64_t seen, ring_full;   /* written by the lcore */
	struct spw_ring ring;
	/* the writer's */
	uint64_t limited;
	uint16_t port;
};

struct app_capture {
	struct app *app;
	struct spw_pcapng *file;
	struct capture_queue *queue[APP_LCORE_MAX];
	uint32_t queue_cnt;
	struct spw_clock_map nic[SPW_PORT_MAX]; /* as the control thread has found them */
	struct spw_clock_pair wall; /* ns since 1970 beside ticks */
	uint64_t wall_due_tsc, nic_due_tsc;
	bool limit_told, disk_told;
	uint32_t stop SPW_ALIGNED(2 * SPW_CACHE_LINE);
	pthread_t writer;
	bool running;
};

/* ---- the lcore's side -------------------------------------------------------------------------------- */

SPW_INLINE void keep(struct capture_queue *cq, const struct spw_desc *desc, uint64_t at, uint64_t polled_tsc)
{
	struct capture_entry *entry = (struct capture_entry *)(void *)(cq->entries + (at & (ENTRIES - 1)) * cq->entry_bytes);

	entry->by_nic = cq->nic_clock && (desc->flags & SPW_DESC_NIC_STAMP);
	entry->stamp = entry->by_nic ? desc->nic_stamp : polled_tsc;
	entry->wire_bytes = desc->len;
	entry->bytes = (uint16_t)SPW_MIN(desc->len, cq->snap_bytes);
	memcpy(entry->data, spw_pool_slot_addr(cq->pool, desc->slot) + desc->offset, entry->bytes);
}

static uint16_t capture_rx(void *queue, struct spw_desc *desc, uint16_t cnt)
{
	struct capture_queue *cq = queue;
	uint16_t got = cq->real.rx_burst(cq->real.q, desc, cnt);
	uint64_t now, at;
	uint32_t room;

	if (got == 0)
		return 0;
	now = spw_tsc_now();
	at = spw_ring_write_pos(&cq->ring);
	room = spw_ring_room(&cq->ring, got);
	for (uint32_t i = 0; i < room; i++)
		keep(cq, &desc[i], at + i, now);
	spw_ring_publish(&cq->ring, room);
	spw_thr_count(&cq->seen, got);
	spw_thr_count(&cq->ring_full, got - room);
	return got;
}

static void capture_release(void *queue, const uint32_t *slot, uint16_t cnt)
{
	struct capture_queue *cq = queue;

	cq->real.release_burst(cq->real.q, slot, cnt);
}

static uint16_t capture_tx(void *queue, struct spw_desc **desc, uint16_t cnt)
{
	struct capture_queue *cq = queue;

	return cq->real.tx_burst(cq->real.q, desc, cnt);
}

static uint16_t capture_events(void *queue, struct spw_port_event *event, uint16_t cnt)
{
	struct capture_queue *cq = queue;

	return cq->real.events(cq->real.q, event, cnt);
}

static uint16_t capture_lend(void *queue, uint32_t *slot, uint16_t cnt)
{
	struct capture_queue *cq = queue;

	return cq->real.lend_burst(cq->real.q, slot, cnt);
}

/* ---- the writer: clocks ------------------------------------------------------------------------------ */

static void renew_wall(struct app_capture *cap)
{
	clockid_t clock = CLOCK_REALTIME;

	spw_clock_pair_take(spw_clock_read_posix, &clock, 16, &cap->wall);
	cap->wall_due_tsc = spw_tsc_now() + spw_tsc_from_ns(&cap->app->tsc, WALL_PAIR_NS);
}

static void renew_nics(struct app_capture *cap)
{
	for (uint32_t p = 0; p < cap->app->port_cnt; p++)
		if (cap->app->nic_clock[p].on)
			spw_clock_box_get(&cap->app->nic_clock[p].box, &cap->nic[p]);
	cap->nic_due_tsc = spw_tsc_now() + spw_tsc_from_ns(&cap->app->tsc, NIC_MAP_NS);
}

static void renew_clocks(struct app_capture *cap)
{
	uint64_t now = spw_tsc_now();

	if ((int64_t)(now - cap->wall_due_tsc) >= 0)
		renew_wall(cap);
	if ((int64_t)(now - cap->nic_due_tsc) >= 0)
		renew_nics(cap);
}

static uint64_t wall_ns(const struct app_capture *cap, uint64_t tsc)
{
	int64_t away = (int64_t)(tsc - cap->wall.ref);

	return away < 0 ? cap->wall.other - spw_tsc_to_ns(&cap->app->tsc, (uint64_t)-away)
			: cap->wall.other + spw_tsc_to_ns(&cap->app->tsc, (uint64_t)away);
}

/* ---- the writer: frames ------------------------------------------------------------------------------- */

static void write_entry(struct app_capture *cap, struct capture_queue *cq, uint32_t iface, const struct capture_entry *entry)
{
	uint64_t tsc = entry->by_nic ? spw_clock_map_ref(&cap->nic[cq->port], entry->stamp) : entry->stamp;

	if (spw_pcapng_bytes(cap->file) + entry->bytes + BLOCK_EXTRA * (1 + cap->queue_cnt) > cap->app->conf.run.capture_limit) {
		cq->limited++;
		if (!cap->limit_told)
			spw_warn("capture: %s has reached --capture-limit; the rest is counted, not written",
				 cap->app->conf.run.capture);
		cap->limit_told = true;
		return;
	}
	spw_pcapng_packet(cap->file, &(struct spw_pcapng_packet){
		.iface = iface, .way = SPW_PCAPNG_IN, .stamp_ns = wall_ns(cap, tsc), .data = entry->data, .bytes = entry->bytes,
		.wire_bytes = entry->wire_bytes});
}

/* Returns: whether there was anything. */
static bool drain(struct app_capture *cap, uint32_t i)
{
	struct capture_queue *cq = cap->queue[i];
	uint64_t at = spw_ring_read_pos(&cq->ring);
	uint32_t cnt = spw_ring_ready(&cq->ring, ENTRIES);

	for (uint32_t n = 0; n < cnt; n++)
		write_entry(cap, cq, i, (const void *)(cq->entries + ((at + n) & (ENTRIES - 1)) * cq->entry_bytes));
	spw_ring_release(&cq->ring, cnt);
	return cnt != 0;
}

static bool drain_all(struct app_capture *cap)
{
	bool any = false;

	for (uint32_t i = 0; i < cap->queue_cnt; i++)
		any |= drain(cap, i);
	return any;
}

static void tell_disk(struct app_capture *cap, int rc)
{
	if (spw_pcapng_lost(cap->file) == 0 || cap->disk_told)
		return;
	spw_warn("capture: %s cannot be written%s%s; frames are counted until it can", cap->app->conf.run.capture, rc ? ": " : "",
		 rc ? strerror(-rc) : "");
	cap->disk_told = true;
}

static void *writer_main(void *arg)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};
	struct app_capture *cap = arg;

	while (!spw_thr_load_rlx(&cap->stop)) {
		renew_clocks(cap);
		if (drain_all(cap))
			continue;
		tell_disk(cap, spw_pcapng_flush(cap->file));
		nanosleep(&nap, NULL);
	}
	while (drain_all(cap))
		;
	tell_disk(cap, spw_pcapng_flush(cap->file));
	return NULL;
}

/* ---- open and close ------------------------------------------------------------------------------------ */

static struct capture_queue *queue_new(const struct app_lcore *lc, uint32_t entry_bytes)
{
	size_t bytes = sizeof(struct capture_queue) + (size_t)ENTRIES * entry_bytes;
	struct capture_queue *cq = numa_available() < 0 ? numa_alloc(bytes) : numa_alloc_onnode(bytes, lc->numa_node);

	if (cq)
		memset(cq, 0, bytes); /* every page is touched before the loop */
	return cq;
}

static int queue_open(struct app_capture *cap, struct app_lcore *lc)
{
	struct spw_port *port = cap->app->port[lc->port];
	uint32_t snap = (uint32_t)cap->app->conf.run.capture_snap, entry_bytes = SPW_ALIGN_UP(ENTRY_HEAD + snap, 8u);
	struct capture_queue *cq = queue_new(lc, entry_bytes);
	char name[96];
	int rc;

	if (!cq)
		return spw_err(ENOMEM, "--capture: no memory for %u frames of %u bytes", ENTRIES, snap);
	cap->queue[cap->queue_cnt++] = cq;
	cq->entries = (uint8_t *)(cq + 1);
	cq->entry_bytes = entry_bytes;
	cq->snap_bytes = snap;
	cq->pool = &lc->pool;
	cq->port = lc->port;
	cq->nic_clock = cap->app->nic_clock[lc->port].on;
	snprintf(name, sizeof(name), "%s queue %u", port->name, lc->queue);
	rc = spw_pcapng_interface(cap->file, SPW_PCAPNG_ETHERNET, snap, name,
				  cq->nic_clock ? "stamps: the NIC's, where a frame has one" : "stamps: when the burst was polled");
	if (rc < 0 || (rc = spw_ring_init(&cq->ring, ENTRIES)) < 0)
		return rc;
	cq->place = &port->queue[lc->queue];
	cq->real = *cq->place;
	cq->place->rx_burst = capture_rx;
	cq->place->release_burst = capture_release;
	cq->place->tx_burst = capture_tx;
	cq->place->events = capture_events;
	cq->place->lend_burst = capture_lend;
	cq->place->q = cq;
	return 0;
}

int app_capture_open(struct app *app)
{
	struct app_capture *cap;
	int rc;

	if (!app->conf.run.capture[0])
		return 0;
	for (uint32_t i = 0; i < app->region_cnt; i++)
		if (!app->region[i].host_va)
			return spw_err(ENOTSUP, "--capture: the CPU cannot read memory kind gpu: use --memory cuda-reg");
	cap = numa_alloc(sizeof(*cap));
	if (!cap)
		return spw_err(ENOMEM, "no memory for --capture");
	memset(cap, 0, sizeof(*cap));
	app->capture = cap;
	cap->app = app;
	signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is a full disk, not the end */
	if ((rc = spw_pcapng_open(app->conf.run.capture, &cap->file)) < 0)
		return spw_err_ctx(rc, "--capture");
	renew_wall(cap);
	renew_nics(cap);
	for (uint32_t i = 0; rc == 0 && i < app->lcore_cnt; i++)
		rc = queue_open(cap, app->lcore[i]);
	if (rc == 0 && pthread_create(&cap->writer, NULL, writer_main, cap))
		rc = spw_err(EAGAIN, "--capture: its thread cannot be started");
	cap->running = rc == 0;
	return rc;
}

void app_capture_stat(const struct app *app, struct app_capture_stat *stat_out)
{
	const struct app_capture *cap = app->capture;

	memset(stat_out, 0, sizeof(*stat_out));
	for (uint32_t i = 0; i < cap->queue_cnt; i++) {
		stat_out->seen += spw_thr_load_rlx(&cap->queue[i]->seen);
		stat_out->ring_full += spw_thr_load_rlx(&cap->queue[i]->ring_full);
		stat_out->limited += cap->queue[i]->limited;
	}
	stat_out->disk = spw_pcapng_lost(cap->file);
	stat_out->bytes = spw_pcapng_bytes(cap->file);
}

/* What the disk lost is not known by queue: it is told with the first. */
static void write_statistics(struct app_capture *cap)
{
	uint64_t now = wall_ns(cap, spw_tsc_now()), disk = spw_pcapng_lost(cap->file);

	for (uint32_t i = 0; i < cap->queue_cnt; i++) {
		const struct capture_queue *cq = cap->queue[i];

		spw_pcapng_statistics(cap->file, i, now, cq->seen, cq->ring_full + cq->limited + (i ? 0 : disk));
	}
	spw_pcapng_flush(cap->file);
}

void app_capture_stop(struct app *app)
{
	struct app_capture *cap = app->capture;

	if (!cap || !cap->running)
		return;
	spw_thr_store_rlx(&cap->stop, 1);
	pthread_join(cap->writer, NULL);
	cap->running = false;
	for (uint32_t i = 0; i < cap->queue_cnt; i++)
		*cap->queue[i]->place = cap->queue[i]->real;
	write_statistics(cap);
}

void app_capture_close(struct app *app)
{
	struct app_capture *cap = app->capture;

	if (!cap)
		return;
	app_capture_stop(app);
	for (uint32_t i = 0; i < cap->queue_cnt; i++)
		numa_free(cap->queue[i], sizeof(*cap->queue[i]) + (size_t)ENTRIES * cap->queue[i]->entry_bytes);
	spw_pcapng_close(cap->file);
	numa_free(cap, sizeof(*cap));
	app->capture = NULL;
}
