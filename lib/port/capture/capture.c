/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A capture from open to close, and the calls that it puts in front of a driver's. app/spinwire
 * opens it between the topology and the start of the ports; the calls below run on the lcore,
 * everything else on the control thread.
 *
 * Before changing it: rx_burst is the data path. What it does for a frame is one copy of at most
 * snap_bytes and one ring entry; nothing in it waits, and the counters are the lcore's own.
 *
 * What is interposed, and the two threads:
 *
 *   pipe ─rx_burst─► capture_rx ─► real.rx_burst ─► copy ≤ snap_bytes ─► ring (R3) ─► writer thread
 *   pipe ─other calls─► passed on unchanged                                                │
 *                                                                           pcapng file ◄──┘
 *
 * Order at the end: lcores end (Q4) ─► stop word (CAP1) ─► the writer drains the rings and ends ─►
 * the port's calls are put back ─► statistics blocks.
 */
#include <errno.h>
#include <numa.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "capture.h"

#define ENTRY_HEAD ((uint32_t)offsetof(struct capture_entry, data))

/* ---- the lcore's side ---- */

/* Copies the head of a frame into a ring entry. The slot is lent to the caller, so its bytes are
 * stable. */
SPW_INLINE void capture_keep(struct capture_queue *cq, const struct spw_desc *desc, uint64_t at,
			     uint64_t polled_tsc)
{
	struct capture_entry *entry = capture_entry(cq, at);

	entry->by_nic = cq->nic_clock && (desc->flags & SPW_DESC_NIC_STAMP);
	entry->stamp = entry->by_nic ? desc->nic_stamp : polled_tsc;
	entry->wire_bytes = desc->len;
	entry->bytes = (uint16_t)SPW_MIN(desc->len, cq->snap_bytes);
	memcpy(entry->data, spw_pool_head_addr(cq->pool, desc->slot) + desc->offset, entry->bytes);
}

/* If the ring has no room, the frame is received all the same and only the copy is missing, counted
 * ring_full. */
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
		capture_keep(cq, &desc[i], at + i, now);
	spw_ring_publish(&cq->ring, room);
	spw_thr_count(&cq->frames, got);
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

/* ---- open ---- */

/* Opens the file first: a path that cannot be written must end the program before traffic starts.
 */
int spw_capture_open(const struct spw_capture_conf *conf, struct spw_capture **capture_out)
{
	struct spw_capture *cap = numa_alloc(sizeof(*cap));
	int rc;

	*capture_out = NULL;
	if (!cap)
		return spw_err(ENOMEM, "no memory for --capture");
	memset(cap, 0, sizeof(*cap));
	cap->conf = *conf;
	signal(SIGXFSZ, SIG_IGN); /* a file over its size limit is treated as a full disk */
	rc = spw_pcapng_open(conf->path, &cap->file);
	if (rc < 0) {
		numa_free(cap, sizeof(*cap));
		return spw_err_ctx(rc, "--capture");
	}
	*capture_out = cap;
	return 0;
}

static struct capture_queue *capture_queue_new(uint32_t entry_bytes, int numa_node)
{
	size_t bytes = sizeof(struct capture_queue) + (size_t)CAPTURE_ENTRIES * entry_bytes;
	struct capture_queue *cq = numa_available() < 0 || numa_node < 0
					   ? numa_alloc(bytes)
					   : numa_alloc_onnode(bytes, numa_node);

	if (cq)
		memset(cq, 0, bytes); /* touches every page before the loop runs */
	return cq;
}

/* From here on the pipe's calls pass through the capture. */
static void capture_interpose(struct capture_queue *cq, struct spw_port_queue *place)
{
	cq->place = place;
	cq->real = *place;
	place->rx_burst = capture_rx;
	place->release_burst = capture_release;
	place->tx_burst = capture_tx;
	place->events = capture_events;
	place->lend_burst = capture_lend;
	place->q = cq;
}

/* Must come after the driver's queue_setup, which fills the calls that are interposed. */
int spw_capture_queue(struct spw_capture *cap, const struct spw_capture_queue_conf *conf)
{
	const uint32_t snap = SPW_MIN(cap->conf.snap_bytes, conf->pool->head_bytes),
		       entry_bytes = SPW_ALIGN_UP(ENTRY_HEAD + snap, 8u);
	struct capture_queue *cq;
	char name[96];
	int rc;

	if (cap->queue_cnt == SPW_CAPTURE_QUEUE_MAX)
		return spw_err(ENOSPC, "--capture: more than %u queues", SPW_CAPTURE_QUEUE_MAX);
	cq = capture_queue_new(entry_bytes, conf->numa_node);
	if (!cq)
		return spw_err(ENOMEM, "--capture: no memory for %u frames of %u bytes",
			       CAPTURE_ENTRIES, snap);
	cap->queue[cap->queue_cnt++] = cq;
	cq->entries = (uint8_t *)(cq + 1);
	cq->entry_bytes = entry_bytes;
	cq->snap_bytes = snap;
	cq->pool = conf->pool;
	cq->nic_box = conf->nic_clock;
	cq->nic_clock = conf->nic_clock != NULL;
	snprintf(name, sizeof(name), "%s queue %u", conf->port->name, conf->queue);
	rc = spw_pcapng_interface(cap->file, SPW_PCAPNG_ETHERNET, snap, name,
				  cq->nic_clock ? "stamps: the NIC's, where a frame has one"
						: "stamps: when the burst was polled");
	if (rc < 0 || (rc = spw_ring_init(&cq->ring, CAPTURE_ENTRIES)) < 0)
		return rc;
	capture_interpose(cq, &conf->port->queue[conf->queue]);
	return 0;
}

int spw_capture_start(struct spw_capture *cap)
{
	capture_clocks_read(cap);
	if (pthread_create(&cap->writer, NULL, capture_writer_main, cap))
		return spw_err(EAGAIN, "--capture: its thread cannot be started");
	cap->running = true;
	return 0;
}

/* ---- stop and close ---- */

int spw_capture_stop(struct spw_capture *cap)
{
	if (!cap || !cap->running)
		return 0;
	/* [CAP1 release, pairs with CAP2 in capture_writer_main: the lcores have ended (Q4), so
	 * what they published comes before it] */
	spw_thr_store_rel(&cap->stop, 1);
	pthread_join(cap->writer, NULL);
	cap->running = false;
	for (uint32_t i = 0; i < cap->queue_cnt; i++)
		*cap->queue[i]->place = cap->queue[i]->real;
	return capture_write_statistics(cap);
}

void spw_capture_stat(const struct spw_capture *cap, struct spw_capture_stat *stat_out)
{
	memset(stat_out, 0, sizeof(*stat_out));
	for (uint32_t i = 0; i < cap->queue_cnt; i++) {
		stat_out->frames += spw_thr_load_rlx(&cap->queue[i]->frames);
		stat_out->ring_full += spw_thr_load_rlx(&cap->queue[i]->ring_full);
		stat_out->limited += cap->queue[i]->limited;
	}
	stat_out->disk = spw_pcapng_lost(cap->file);
	stat_out->bytes = spw_pcapng_bytes(cap->file);
}

void spw_capture_close(struct spw_capture *cap)
{
	if (!cap)
		return;
	spw_capture_stop(cap);
	for (uint32_t i = 0; i < cap->queue_cnt; i++)
		numa_free(cap->queue[i],
			  sizeof(*cap->queue[i]) +
				  (size_t)CAPTURE_ENTRIES * cap->queue[i]->entry_bytes);
	spw_pcapng_close(cap->file);
	numa_free(cap, sizeof(*cap));
}
