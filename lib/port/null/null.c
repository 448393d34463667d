/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * null: a source and sink without a device. Every slot holds a whole frame from the start, so that
 * a burst costs only the descriptors: it is what the cost of everything else is measured against,
 * and what makes overload and bad frames at will. With a rate it is open-loop: frames fall due by
 * the clock, wait in a ring of ring_size as a NIC's would, and are missed when that is full.
 *
 * The time line of an open-loop source (rate=), in frames:
 *
 *   taken = lent + missed          due = rate * time            due <= count
 *      |<--- waiting, at most ring_size --->|
 *      what is over the ring's size at a poll is missed, as a NIC without a WQE would
 *
 * One body (null_rx) is instantiated per variant with constant flags. All counters are the owner's;
 * other threads sample them.
 *
 *   lib/port/port.c ─► open, set-up (slots written, instance chosen), start, stop
 *   lcore           ─► null_rx_*, null_release, null_tx, null_lend, null_events
 *   other threads   ─► null_stat (single-writer counters)
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "port/null/null.h"
#include "port/null/rate.h"
#include "port/port.h"
#include "time/spw_time.h"

#define NULL_RING_DFLT 1024u

struct null_queue {
	struct spw_pool *pool;
	uint32_t frame_bytes;
	uint16_t region_id, port_idx;
	/* the source; written by the owner, sampled by others */
	uint64_t due_frames; /* that have arrived on the wire: lent, missed or waiting */
	uint64_t rx_frames, missed_frames, no_slot;
	uint64_t back_frames; /* released, sent, or lent empty and returned */
	uint64_t rx_bytes, tx_frames, tx_bytes, lent_empty;
	uint64_t wait_max; /* ring_size: how many may wait */
	uint64_t count_max;
	struct null_rate rate;
	uint64_t start_tsc;
	/* bad frames */
	uint64_t bad_every, bad_in;
	uint8_t *slot_is_bad; /* [slot_cnt]: the slot's bytes must be written again before the next
				 use */
	uint32_t flow_mask;
	enum null_pattern pattern;
	enum null_bad bad;
	bool link_reported;
} SPW_ALIGNED(2 * SPW_CACHE_LINE);

struct null_port {
	struct spw_port base;
	uint64_t size, rate, rate_to, ramp_s, count, flows, bad_every, stamps;
	bool stopped; /* what was due and not taken is lost */
	enum null_pattern pattern;
	enum null_bad bad;
	struct spw_tsc tsc;
	struct null_queue *queue;
};

/* ---- data path ---- */

/* How many frames wait now. Flags are constants of the variant. */
SPW_INLINE uint64_t null_waiting(struct null_queue *q, uint64_t now, bool rated)
{
	uint64_t taken = q->rx_frames + q->missed_frames;
	uint64_t due, wait;

	if (!rated)
		return q->count_max - taken;
	due = SPW_MIN(null_rate_due(&q->rate, now - q->start_tsc), q->count_max);
	wait = due - taken;
	if (spw_unlikely(wait > q->wait_max)) {
		spw_thr_count(&q->missed_frames, wait - q->wait_max);
		wait = q->wait_max;
	}
	spw_thr_store_rlx(&q->due_frames, due);
	return wait;
}

/* The length of this frame, after making the slot's bytes what they should be: wrong, or right
 * again, and with its number; a missed frame has one too, which the receiver finds missing. */
static SPW_NOINLINE uint32_t null_frame_renew(struct null_queue *q, uint32_t slot, uint64_t number)
{
	uint8_t *frame = spw_pool_slot_addr(q->pool, slot);
	const spw_be64 wire = spw_cpu_to_be64(number);
	enum null_bad bad = NULL_BAD_NONE;
	uint32_t len = q->frame_bytes;

	if (--q->bad_in == 0) {
		q->bad_in = q->bad_every;
		bad = q->bad;
	}
	if (bad != NULL_BAD_NONE || q->slot_is_bad[slot]) {
		q->slot_is_bad[slot] = bad != NULL_BAD_NONE;
		len = null_frame_write(frame, len, slot & q->flow_mask, q->pattern, bad);
	}
	if (q->pattern == NULL_PATTERN_COUNTER)
		memcpy(frame + NULL_HEADER_BYTES, &wire, sizeof(wire));
	return len;
}

/* The stamp of a frame is the moment at which it was due, so its wait in the port is part of its
 * latency. */
SPW_INLINE uint16_t null_rx(struct null_queue *q, struct spw_desc *desc, uint16_t cnt, bool rated,
			    bool stamped, bool renewed)
{
	uint64_t now = rated || stamped ? spw_tsc_now() : 0;
	uint64_t wait = null_waiting(q, now, rated), bytes = 0;
	uint64_t first = q->rx_frames + q->missed_frames;
	uint32_t slot[SPW_BURST_MAX];
	uint32_t want = (uint32_t)SPW_MIN(wait, cnt);
	uint32_t n = spw_pool_get(q->pool, slot, want);

	for (uint32_t i = 0; i < n; i++) {
		uint32_t len = renewed ? null_frame_renew(q, slot[i], first + i) : q->frame_bytes;

		if (rated)
			now = q->start_tsc + null_rate_when(&q->rate, first + i + 1);
		desc[i] = (struct spw_desc){
			.nic_stamp = now,
			.slot = slot[i],
			.len = len,
			.meta = slot[i] & q->flow_mask,
			.flags = stamped ? SPW_DESC_NIC_STAMP : 0,
			.region = q->region_id,
			.port = q->port_idx,
		};
		bytes += len;
	}
	if (spw_unlikely(n < want))
		spw_thr_count(&q->no_slot, 1);
	spw_thr_count(&q->rx_frames, n);
	spw_thr_count(&q->rx_bytes, bytes);
	return (uint16_t)n;
}

#define NULL_RX(name, rated, stamped, renewed)                             \
	static uint16_t name(void *q, struct spw_desc *desc, uint16_t cnt) \
	{                                                                  \
		return null_rx(q, desc, cnt, rated, stamped, renewed);     \
	}

NULL_RX(null_rx_plain, false, false, false)
NULL_RX(null_rx_renewed, false, false, true)
NULL_RX(null_rx_stamped, false, true, false)
NULL_RX(null_rx_stamped_renewed, false, true, true)
NULL_RX(null_rx_rated, true, true, false)
NULL_RX(null_rx_rated_renewed, true, true, true)

/* released and sent slots go straight back to the pool: there is no device that could still own
 * them. */
static void null_release(void *queue, const uint32_t *slot, uint16_t cnt)
{
	struct null_queue *q = queue;

	spw_pool_put(q->pool, slot, cnt);
	spw_thr_count(&q->back_frames, cnt);
}

/* Sends at once: a sent frame is a returned slot and a count. */
static uint16_t null_tx(void *queue, struct spw_desc **desc, uint16_t cnt)
{
	struct null_queue *q = queue;
	uint32_t slot[SPW_BURST_MAX];
	uint64_t bytes = 0;

	for (uint16_t i = 0; i < cnt; i++) {
		slot[i] = desc[i]->slot;
		bytes += desc[i]->len;
	}
	null_release(q, slot, cnt);
	spw_thr_count(&q->tx_frames, cnt);
	spw_thr_count(&q->tx_bytes, bytes);
	return cnt;
}

static uint16_t null_lend(void *queue, uint32_t *slot, uint16_t cnt)
{
	struct null_queue *q = queue;
	uint32_t n = spw_pool_get(q->pool, slot, cnt);

	spw_thr_count(&q->lent_empty, n);
	return (uint16_t)n;
}

/* The link is up from the start; no other event ever follows. */
static uint16_t null_events(void *queue, struct spw_port_event *event, uint16_t cnt)
{
	struct null_queue *q = queue;

	if (spw_likely(q->link_reported) || !cnt)
		return 0;
	q->link_reported = true;
	*event = (struct spw_port_event){.kind = SPW_PORT_EVENT_LINK_UP,
					 .text = "null: the link is up"};
	return 1;
}

/* ---- control path ---- */

static struct null_port *null_of(struct spw_port *port)
{
	return spw_container_of(port, struct null_port, base);
}

static const struct spw_port_key null_key[] = {
	{"size", "BYTES", "Length of a frame without FCS.", "64", NULL_HEADER_BYTES + 4, 65535},
	{"rate", "FRAMES/S", "Rate of each queue; 0: as fast as it is polled.", "0", 0, 1000000000},
	{"rate_to", "FRAMES/S", "The rate that it has reached after ramp_s=.", "that of rate=", 0,
	 1000000000},
	{"ramp_s", "SECONDS", "How long the rate takes from rate= to rate_to=.",
	 "none: the rate is constant", 1, 86400},
	{"count", "FRAMES", "How many frames each queue makes; 0: no end.", "0", 0, UINT64_MAX / 2},
	{"pattern", "udp|crc|counter",
	 "UDP frames; such with a CRC-32C for --handler crc32c; or such that begin with their "
	 "number, 64 bits, for --objects counter.",
	 "udp", 0, 0},
	{"flows", "N", "Flows, a power of 2, by UDP source port.", "1024", 1, 32768},
	{"bad", "REASON",
	 "What is wrong with one frame of bad_every=: none, short_frame, not_ipv4, ip_length, "
	 "not_udp, udp_length or checksum.",
	 "none", 0, 0},
	{"bad_every", "N", "One frame of so many is bad.", "100", 1, UINT64_MAX / 2},
	{"stamps", "0|1", "1: frames have stamps, as those of a NIC.", "0", 0, 1},
};
static const struct spw_port_keys null_keys = {NULL, null_key, SPW_ARRAY_CNT(null_key)};
static const struct spw_port_keys *const null_sets[] = {&null_keys, NULL};

/* Keys that exclude each other are found here, and not only when a queue is set up. */
static int null_parse(const struct spw_port_spec *spec, struct null_port *np)
{
	const char *pattern = spw_port_spec_find(spec, "pattern");
	const char *bad = spw_port_spec_find(spec, "bad");
	const struct {
		const char *name;
		uint64_t *value;
	} number[] = {{"size", &np->size},           {"rate", &np->rate},
		      {"rate_to", &np->rate_to},     {"ramp_s", &np->ramp_s},
		      {"count", &np->count},         {"flows", &np->flows},
		      {"bad_every", &np->bad_every}, {"stamps", &np->stamps}};
	int rc = spw_port_spec_check_keys(spec, null_sets);

	for (uint32_t i = 0; !rc && i < SPW_ARRAY_CNT(number); i++)
		rc = spw_port_spec_number(spec, &null_keys, number[i].name, number[i].value);
	if (!spw_port_spec_find(spec, "rate_to"))
		np->rate_to = np->rate;
	rc = rc || !pattern ? rc : null_pattern_parse(pattern, &np->pattern);
	rc = rc || !bad ? rc : null_bad_parse(bad, &np->bad);
	if (!rc && (!np->rate_to != !np->rate || (np->rate_to != np->rate) != (np->ramp_s > 0)))
		rc = spw_err(EINVAL, "a rate that changes needs rate= (not 0), rate_to= (another "
				     "one) and ramp_s=");
	if (!rc && !SPW_IS_POW2(np->flows))
		rc = spw_err(EINVAL, "flows=%u is no power of 2", (unsigned)np->flows);
	if (!rc && np->pattern == NULL_PATTERN_COUNTER && np->size < NULL_HEADER_BYTES + 8)
		rc = spw_err(EINVAL, "pattern=counter needs size=50 or more: 42 bytes of headers, "
				     "and 8 of the counter");
	if (!rc && np->bad == NULL_BAD_CHECKSUM && np->pattern != NULL_PATTERN_CRC)
		rc = spw_err(EINVAL, "bad=checksum needs pattern=crc: other frames have no "
				     "checksum to be wrong");
	return rc;
}

static int null_need(const struct spw_port_spec *spec, struct spw_port_need *need SPW_UNUSED)
{
	struct null_port np = {.queue = NULL};

	return null_parse(spec, &np);
}

static void null_close(struct spw_port *port)
{
	struct null_port *np = null_of(port);

	for (uint16_t i = 0; i < port->queue_cnt && np->queue; i++)
		free(np->queue[i].slot_is_bad);
	free(np->queue);
	free(np);
}

/* The counter is calibrated only where a clock is needed: 20 ms. */
static int null_open(const struct spw_port_spec *spec, uint16_t index, uint16_t queue_cnt,
		     struct spw_port **port_out)
{
	struct null_port *np = port_alloc(&port_null_driver, spec, index, queue_cnt, sizeof(*np));
	int rc;

	if (!np)
		return -ENOMEM;
	np->queue = port_queues_alloc(queue_cnt, sizeof(*np->queue));
	rc = np->queue ? null_parse(spec, np) : -ENOMEM;
	if (!rc && (np->rate || np->stamps))
		rc = spw_tsc_calibrate(20, &np->tsc);
	if (rc) {
		free(np->queue);
		free(np);
		return rc;
	}
	np->base.caps = (struct spw_port_caps){
		.queue_max = SPW_PORT_QUEUE_MAX,
		.slot_align = SPW_CACHE_LINE,
		.slot_bytes_min = (uint32_t)SPW_ALIGN_UP(np->size, SPW_CACHE_LINE),
		.slot_cnt_min = 1,
		.nic_clock_hz = np->tsc.hz, /* the CPU's clock plays the NIC's */
		.can_tx = true,
		.numa_node = -1,
	};
	*port_out = &np->base;
	return 0;
}

/* Picks the instance of null_rx; the data path then tests no configuration. */
static void null_choose(struct spw_port_queue *pq, const struct null_port *np)
{
	const bool renewed = np->bad || np->pattern == NULL_PATTERN_COUNTER;

	if (np->rate)
		pq->rx_burst = renewed ? null_rx_rated_renewed : null_rx_rated;
	else if (np->stamps)
		pq->rx_burst = renewed ? null_rx_stamped_renewed : null_rx_stamped;
	else
		pq->rx_burst = renewed ? null_rx_renewed : null_rx_plain;
	pq->release_burst = null_release;
	pq->tx_burst = null_tx;
	pq->events = null_events;
	pq->lend_burst = null_lend;
}

/* Writes every slot; taking them all is what gives the right to. */
static int null_fill(struct null_queue *q)
{
	uint32_t *slot = malloc(q->pool->slot_cnt * sizeof(*slot));
	uint32_t cnt;

	if (!slot)
		return spw_err(ENOMEM, "no memory to name %u slots", q->pool->slot_cnt);
	cnt = spw_pool_get(q->pool, slot, q->pool->slot_cnt);
	for (uint32_t i = 0; i < cnt; i++)
		null_frame_write(spw_pool_slot_addr(q->pool, slot[i]), q->frame_bytes,
				 slot[i] & q->flow_mask, q->pattern, NULL_BAD_NONE);
	spw_pool_put(q->pool, slot, cnt);
	free(slot);
	return 0;
}

/* The rate is per port and divided among its queues. */
static int null_rate_share(struct null_queue *q, const struct null_port *np)
{
	const uint16_t cnt = np->base.queue_cnt;

	return np->rate ? null_rate_make(np->tsc.hz, np->rate / cnt, np->rate_to / cnt,
					 np->ramp_s * np->tsc.hz, &q->rate)
			: 0;
}

static int null_queue_setup(struct spw_port *port, uint16_t queue,
			    const struct spw_port_queue_conf *conf)
{
	struct null_port *np = null_of(port);
	struct null_queue *q = &np->queue[queue];
	uint64_t share = np->count / port->queue_cnt + (queue < np->count % port->queue_cnt);
	int rc = null_rate_share(q, np);

	if (rc)
		return rc;
	q->pool = conf->pool;
	q->frame_bytes = (uint32_t)np->size;
	q->region_id = conf->pool->region->id;
	q->port_idx = port->index;
	q->wait_max = conf->ring_size ? conf->ring_size : NULL_RING_DFLT;
	q->count_max = np->count ? share : UINT64_MAX;
	q->flow_mask = (uint32_t)np->flows - 1;
	q->pattern = np->pattern;
	q->bad = np->bad;
	q->bad_every = q->bad_in = np->bad_every;
	free(q->slot_is_bad);
	q->slot_is_bad = calloc(conf->pool->slot_cnt, 1);
	if (!q->slot_is_bad)
		return spw_err(ENOMEM, "no memory to mark %u slots", conf->pool->slot_cnt);
	rc = null_fill(q);
	if (rc)
		return rc;
	null_choose(&port->queue[queue], np);
	port->queue[queue].q = q;
	port->queue[queue].no_slot = &q->no_slot;
	return 0;
}

/* After a stop the source goes on where it was: frames that were taken are not due again. */
static int null_start(struct spw_port *port)
{
	struct null_port *np = null_of(port);
	uint64_t now = spw_tsc_now();

	spw_thr_store_rlx(&np->stopped, false);
	for (uint16_t i = 0; i < port->queue_cnt; i++) {
		struct null_queue *q = &np->queue[i];
		uint64_t taken = q->rx_frames + q->missed_frames;

		q->start_tsc = now - null_rate_restart(&q->rate, taken);
		q->due_frames = taken;
	}
	return 0;
}

static int null_stop(struct spw_port *port)
{
	spw_thr_store_rlx(&null_of(port)->stopped, true);
	return 0;
}

/* After stop, what was due and not taken has been lost: it counts as flushed. */
static void null_stat(struct spw_port *port, struct spw_port_stat *stat)
{
	struct null_port *np = null_of(port);

	stat->missed_known = true;
	for (uint16_t i = 0; i < port->queue_cnt; i++) {
		struct null_queue *q = &np->queue[i];
		uint64_t rx = spw_thr_load_rlx(&q->rx_frames),
			 missed = spw_thr_load_rlx(&q->missed_frames);
		bool over = np->rate && spw_thr_load_rlx(&np->stopped);
		uint64_t wire = over ? SPW_MAX(spw_thr_load_rlx(&q->due_frames), rx + missed)
				     : rx + missed;

		stat->wire_frames += wire;
		stat->missed_frames += missed;
		stat->rx_frames += rx;
		stat->rx_bytes += spw_thr_load_rlx(&q->rx_bytes);
		stat->tx_frames += spw_thr_load_rlx(&q->tx_frames);
		stat->tx_bytes += spw_thr_load_rlx(&q->tx_bytes);
		stat->dropped[SPW_PORT_DROP_rx_flushed] += wire - rx - missed;
		stat->err[SPW_PORT_ERR_no_slot] += spw_thr_load_rlx(&q->no_slot);
	}
}

/* All slots that are not lent are in the pool: there is no device to own any. */
static void null_slots(struct spw_port *port, uint16_t queue, struct spw_port_slots *slots)
{
	const struct null_queue *q = &null_of(port)->queue[queue];

	slots->lent = (uint32_t)(q->rx_frames + q->lent_empty - q->back_frames);
}

static int null_pair_clock(struct spw_port *port SPW_UNUSED, uint64_t *nic_ticks_out,
			   uint64_t *tsc_out, uint64_t *uncertainty_ns_out)
{
	*nic_ticks_out = *tsc_out = spw_tsc_now();
	*uncertainty_ns_out = 0; /* one and the same clock */
	return 0;
}

const struct spw_port_driver port_null_driver = {
	.name = "null",
	.about = "a synthetic source and sink, for a machine without a NIC, as "
		 "null:rate=100kpps",
	.keys = null_sets,
	.need = null_need,
	.open = null_open,
	.queue_setup = null_queue_setup,
	.start = null_start,
	.stop = null_stop,
	.stat = null_stat,
	.slots = null_slots,
	.pair_clock = null_pair_clock,
	.close = null_close,
};
