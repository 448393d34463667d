/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * fault: any other port, with faults injected on a schedule. It interposes between the pipe and
 * that port, so that whatever attributes causes can be tested with a cause that is known. The
 * moments at which each fault was active are written to a log.
 *
 *   fault:null,size=64,rate=100k,fault_do=tx_spin,fault_for_us=2000,
 *                   fault_every_us=50000,fault_log=FILE
 *   fault:ethdev:net_memif0,role=client,...,fault_do=rx_hold,...
 *
 *   due         due + every          due + 2 * every
 *    ├─ for ─┐    ├─ for ─┐            ├─ for ─┐        _spin: busy within one call
 *    hold on      hold on              hold on          _hold, _refuse: a state between calls
 *
 * Faults of the second kind begin and end when the loop calls; window[] holds when they really did.
 * Slots that refill_hold keeps are counted as in_rx, so the pool's balance holds.
 *
 * Every call passes to the port behind, which has all frames, counters and objects; only the bursts
 * and the balance of slots (refill_hold) differ. A build has this driver always: it costs nothing
 * unless it is named. The schedule is per queue, and the owner's; fault_stop reads it after the
 * lcores have ended.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_file.h"
#include "base/spw_log.h"
#include "port/fault/fault.h"
#include "port/spw_port_raw.h"
#include "port/spw_port.h"
#include "time/spw_time.h"

#define FAULT_KEY "fault_"

static const struct spw_port_key fault_key[] = {
	{"fault_do", "KIND",
	 "rx_hold: polls return nothing. rx_spin, refill_spin, tx_spin: one receive, release or "
	 "transmit burst takes so long. refill_hold: released slots are held back. tx_refuse: "
	 "transmit bursts take nothing. Must be given.",
	 NULL, 0, 0},
	{"fault_for_us", "US", "How long a fault lasts.", "1000", 1, 60000000},
	{"fault_every_us", "US", "From the begin of one fault to the next.", "100000", 1,
	 3600000000},
	{"fault_count", "N", "How many there are; 0: no end.", "0", 0, UINT64_MAX / 2},
	{"fault_log", "FILE", "The moments at which each fault was active.", NULL, 0, 0},
};
static const struct spw_port_keys fault_keys = {NULL, fault_key, SPW_ARRAY_CNT(fault_key)};
static const struct spw_port_keys *const fault_sets[] = {&fault_keys, NULL};

/* One kind of fault for each port; several are several ports, or runs. */
struct fault_port {
	struct spw_port base;
	struct spw_port *inner;
	struct spw_tsc tsc;
	enum fault_kind kind;
	uint64_t for_us, every_us, count;
	char log[256];
	struct fault_queue *queue;
};

static const struct spw_enum_word kind_word[] = {SPW_ENUM_WORDS(FAULT)};

/* ---- data path ---- */

/* The next fault is due a period after this one was, but not before this one has ended. Beyond
 * FAULT_WINDOW_MAX faults go on, without a line in the log. */
static void fault_note(struct fault_queue *q, uint64_t from, uint64_t to)
{
	if (q->window_cnt < FAULT_WINDOW_MAX)
		q->window[q->window_cnt++] = (struct fault_window){from, to};
	q->due_tsc = SPW_MAX(q->due_tsc + q->every_tsc, to);
	q->left--;
}

/* Spins for one fault, if one of this kind is due. */
static void fault_spin(struct fault_queue *q, enum fault_kind kind)
{
	uint64_t from = spw_tsc_now(), now = from;

	if (q->kind != kind || q->left == 0 || from < q->due_tsc)
		return;
	while (now - from < q->for_tsc)
		now = spw_tsc_now();
	fault_note(q, from, now);
}

/* Whether a fault of this kind is active; begins it, or ends it, if its time has come. */
static bool fault_on(struct fault_queue *q, enum fault_kind kind)
{
	uint64_t now = spw_tsc_now();

	if (q->kind != kind)
		return false;
	if (q->begin_tsc && now - q->begin_tsc >= q->for_tsc) {
		fault_note(q, q->begin_tsc, now);
		q->begin_tsc = 0;
	} else if (!q->begin_tsc && q->left && now >= q->due_tsc) {
		q->begin_tsc = now;
	}
	return q->begin_tsc != 0;
}

/* Releases what refill_hold has kept, burst by burst. */
static void fault_give_back(struct fault_queue *q)
{
	while (q->kept_cnt) {
		uint16_t n = (uint16_t)SPW_MIN(q->kept_cnt, SPW_BURST_MAX);

		q->kept_cnt -= n;
		spw_port_release_burst(q->inner, q->kept + q->kept_cnt, n);
	}
}

/* The first call of a turn: it also ends a refill_hold whose time is over. */
static uint16_t fault_rx(void *queue, struct spw_desc *desc, uint16_t cnt)
{
	struct fault_queue *q = queue;

	if (fault_on(q, FAULT_rx_hold)) {
		if (q->inner->raw)
			q->inner->raw->bytes = 0;
		return 0;
	}
	if (!fault_on(q, FAULT_refill_hold))
		fault_give_back(q);
	fault_spin(q, FAULT_rx_spin);
	return spw_port_rx_burst(q->inner, desc, cnt);
}

static void fault_release(void *queue, const uint32_t *slot, uint16_t cnt)
{
	struct fault_queue *q = queue;

	fault_spin(q, FAULT_refill_spin);
	if (!fault_on(q, FAULT_refill_hold)) {
		spw_port_release_burst(q->inner, slot, cnt);
		return;
	}
	memcpy(q->kept + q->kept_cnt, slot, cnt * sizeof(*slot));
	q->kept_cnt += cnt;
}

/* What is refused stays the pipe's: it counts tx_full, as with a full ring. */
static uint16_t fault_tx(void *queue, struct spw_desc **desc, uint16_t cnt)
{
	struct fault_queue *q = queue;

	fault_spin(q, FAULT_tx_spin);
	return fault_on(q, FAULT_tx_refuse) ? 0 : spw_port_tx_burst(q->inner, desc, cnt);
}

static uint16_t fault_events(void *queue, struct spw_port_event *event, uint16_t cnt)
{
	return spw_port_events(((struct fault_queue *)queue)->inner, event, cnt);
}

static uint16_t fault_lend(void *queue, uint32_t *slot, uint16_t cnt)
{
	return spw_port_lend_burst(((struct fault_queue *)queue)->inner, slot, cnt);
}

/* ---- the specification ---- */

static bool fault_is_own_key(const char *key)
{
	return !strncmp(key, FAULT_KEY, strlen(FAULT_KEY));
}

/* The specification of the port behind: its driver and device are this port's device, and every key
 * without our prefix is its own. */
static int fault_inner_spec(const struct spw_port_spec *spec, struct spw_port_spec *inner_out)
{
	char text[sizeof(spec->text)];
	size_t n = (size_t)snprintf(text, sizeof(text), "%s%s", spec->device,
				    strchr(spec->device, ':') ? "" : ":");
	const char *sep = n && text[n - 1] == ':' ? "" : ",";
	char keys[200];

	if (!spec->device[0])
		return spw_err(EINVAL,
			       "the port behind it is missing: fault:null,... or "
			       "fault:DRIVER:DEVICE,...; its own keys are %s",
			       spw_port_keys_text(fault_sets, keys, sizeof(keys)));
	for (uint32_t i = 0; i < spec->arg_cnt && n < sizeof(text); i++) {
		if (fault_is_own_key(spw_port_spec_key(spec, i)))
			continue;
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s=%s", sep,
				      spw_port_spec_key(spec, i), spw_port_spec_value(spec, i));
		sep = ",";
	}
	return spw_port_spec_parse(text, inner_out);
}

/* The log is tried here, so that a run is not lost to a folder that is not there. */
static int fault_own_keys(const struct spw_port_spec *spec, struct fault_port *fp)
{
	const char *kind = spw_port_spec_find(spec, "fault_do"),
		   *log = spw_port_spec_find(spec, "fault_log");
	struct spw_port_spec own = *spec;
	int rc;

	own.arg_cnt = 0;
	for (uint32_t i = 0; i < spec->arg_cnt; i++)
		if (fault_is_own_key(spw_port_spec_key(spec, i)))
			own.arg[own.arg_cnt++] = spec->arg[i];
	rc = spw_port_spec_check_keys(&own, fault_sets);
	if (rc)
		return rc;
	for (fp->kind = 0; kind && fp->kind < FAULT_CNT && strcmp(kind, kind_word[fp->kind].name);)
		fp->kind++;
	if (!kind || fp->kind == FAULT_CNT)
		return spw_err(EINVAL,
			       "fault_do=%s is no fault; use rx_hold, rx_spin, refill_hold, "
			       "refill_spin, tx_spin or tx_refuse",
			       kind ? kind : "");
	snprintf(fp->log, sizeof(fp->log), "%s", log ? log : "");
	rc = spw_file_try(fp->log);
	if (rc)
		return spw_err_ctx(rc, "fault_log");
	rc = spw_port_spec_number(spec, &fault_keys, "fault_for_us", &fp->for_us);
	rc = rc ? rc : spw_port_spec_number(spec, &fault_keys, "fault_every_us", &fp->every_us);
	rc = rc ? rc : spw_port_spec_number(spec, &fault_keys, "fault_count", &fp->count);
	if (!rc && fp->every_us <= fp->for_us)
		rc = spw_err(EINVAL, "fault_every_us must be more than fault_for_us");
	return rc;
}

static int fault_need(const struct spw_port_spec *spec, struct spw_port_need *need_out)
{
	struct spw_port_spec inner;
	int rc = fault_inner_spec(spec, &inner);

	return rc ? rc : spw_port_need(&inner, need_out);
}

/* ---- control path ---- */

static struct fault_port *fault_of(const struct spw_port *port)
{
	return spw_container_of((struct spw_port *)(uintptr_t)port, struct fault_port, base);
}

const struct fault_queue *fault_queue_of(const struct spw_port *port, uint16_t queue)
{
	return &fault_of(port)->queue[queue];
}

static bool fault_log_line(int fd, const struct fault_port *fp, uint16_t queue,
			   const struct fault_window *window)
{
	char line[128];
	int n = snprintf(line, sizeof(line), "%s %u %" PRIu64 " %" PRIu64 "\n",
			 kind_word[fp->kind].name, queue, window->from, window->to);

	return spw_file_put(fd, line, (size_t)n);
}

/* One line per fault: kind, queue, begin and end in ticks. A log that cannot be written is a
 * warning: the run itself is good. */
static void fault_log(const struct fault_port *fp)
{
	struct spw_file file;
	bool good = true;
	int rc;

	if (!fp->log[0])
		return;
	rc = spw_file_begin(fp->log, 0666, &file);
	for (uint16_t i = 0; !rc && i < fp->base.queue_cnt; i++)
		for (uint32_t w = 0; good && w < fp->queue[i].window_cnt; w++)
			good = fault_log_line(file.fd, fp, i, &fp->queue[i].window[w]);
	rc = rc ? rc : spw_file_end(&file, good ? 0 : errno);
	if (rc)
		spw_warn("port %s: fault_log: %s", fp->base.name, spw_err_text());
}

/* Also undoes a failed open. */
static void fault_close(struct spw_port *port)
{
	struct fault_port *fp = fault_of(port);

	spw_port_close(fp->inner);
	for (uint16_t i = 0; fp->queue && i < port->queue_cnt; i++)
		free(fp->queue[i].kept);
	free(fp->queue);
	free(fp);
}

/* Named after the port behind, as if it stood there itself. */
static int fault_open(const struct spw_port_spec *spec, uint16_t index, uint16_t queue_cnt,
		      struct spw_port **port_out)
{
	struct fault_port *fp = port_alloc(&port_fault_driver, spec, index, queue_cnt, sizeof(*fp));
	struct spw_port_spec inner;
	int rc;

	if (!fp)
		return -ENOMEM;
	fp->queue = port_queues_alloc(queue_cnt, sizeof(*fp->queue));
	rc = fp->queue ? fault_own_keys(spec, fp) : -ENOMEM;
	rc = rc ? rc : fault_inner_spec(spec, &inner);
	rc = rc ? rc : spw_tsc_calibrate(20, &fp->tsc);
	rc = rc ? rc : spw_port_open(&inner, index, queue_cnt, &fp->inner);
	if (rc) {
		fault_close(&fp->base);
		return rc;
	}
	fp->base.caps = fp->inner->caps;
	snprintf(fp->base.name, sizeof(fp->base.name), "%s", fp->inner->name);
	*port_out = &fp->base;
	return 0;
}

static int fault_region_attach(struct spw_port *port, const struct spw_region *region)
{
	return spw_port_region_attach(fault_of(port)->inner, region);
}

static int fault_queue_setup(struct spw_port *port, uint16_t queue,
			     const struct spw_port_queue_conf *conf)
{
	struct fault_port *fp = fault_of(port);
	struct fault_queue *q = &fp->queue[queue];
	int rc = spw_port_queue_setup(fp->inner, queue, conf);

	if (rc)
		return rc;
	free(q->kept);
	q->kept = calloc(conf->pool->slot_cnt, sizeof(*q->kept));
	if (!q->kept)
		return spw_err(ENOMEM, "no memory to hold %u slots", conf->pool->slot_cnt);
	q->inner = &fp->inner->queue[queue];
	q->kind = fp->kind;
	q->for_tsc = spw_tsc_from_ns(&fp->tsc, fp->for_us * 1000);
	q->every_tsc = spw_tsc_from_ns(&fp->tsc, fp->every_us * 1000);
	q->left = fp->count ? fp->count : UINT64_MAX;
	port->queue[queue] = (struct spw_port_queue){
		.rx_burst = fault_rx,
		.release_burst = fault_release,
		.tx_burst = fault_tx,
		.events = fault_events,
		.lend_burst = fault_lend,
		.q = q,
		.no_slot = q->inner->no_slot,
	};
	return 0;
}

/* The raw completions are the inner queue's; fault_rx empties them while it polls nothing. */
static int fault_raw_keep(struct spw_port *port, uint16_t queue)
{
	struct spw_port *inner = fault_of(port)->inner;
	int rc = spw_port_raw_keep(inner, queue);

	port->queue[queue].raw = inner->queue[queue].raw;
	return rc;
}

static int fault_sent_keep(struct spw_port *port, uint16_t queue,
			   const struct spw_port_sent **sent_out)
{
	return spw_port_sent_keep(fault_of(port)->inner, queue, sent_out);
}

/* The first fault is one period after the start. */
static int fault_start(struct spw_port *port)
{
	struct fault_port *fp = fault_of(port);

	for (uint16_t i = 0; i < port->queue_cnt; i++)
		fp->queue[i].due_tsc = spw_tsc_now() + fp->queue[i].every_tsc;
	return spw_port_start(fp->inner);
}

/* Slots go back before the port behind counts its own. */
static int fault_stop(struct spw_port *port)
{
	struct fault_port *fp = fault_of(port);

	for (uint16_t i = 0; i < port->queue_cnt; i++)
		fault_give_back(&fp->queue[i]);
	fault_log(fp);
	return spw_port_stop(fp->inner);
}

static void fault_stat(struct spw_port *port, struct spw_port_stat *stat_out)
{
	spw_port_stat(fault_of(port)->inner, stat_out);
}

static uint32_t fault_rails(struct spw_port *port, struct spw_port_rail *rail_out)
{
	return spw_port_rails(fault_of(port)->inner, rail_out);
}

/* Not passed on: the frames that come must not change between two runs of one schedule. */
static int fault_rule(struct spw_port *port SPW_UNUSED, const char *text, bool add SPW_UNUSED)
{
	return spw_err(ENOTSUP,
		       "%s: a port with faults keeps the rules that it began with: name them as "
		       "its keys, or add them to the port without fault:",
		       text);
}

static void fault_slots(struct spw_port *port, uint16_t queue, struct spw_port_slots *slots_out)
{
	struct fault_port *fp = fault_of(port);

	spw_port_slots(fp->inner, queue, slots_out);
	slots_out->lent -= fp->queue[queue].kept_cnt; /* to the port behind they are lent */
	slots_out->in_rx += fp->queue[queue].kept_cnt;
}

static int fault_pair_clock(struct spw_port *port, uint64_t *nic_ticks_out, uint64_t *tsc_out,
			    uint64_t *uncertainty_ns_out)
{
	return spw_port_pair_clock(fault_of(port)->inner, nic_ticks_out, tsc_out,
				   uncertainty_ns_out);
}

const struct spw_port_driver port_fault_driver = {
	.name = "fault",
	.about = "any other port, with faults injected on a schedule, as "
		 "fault:null,rate=100k,fault_do=rx_hold. Keys that are not below are those of "
		 "the port behind it",
	.keys = fault_sets,
	.more_keys = true,
	.need = fault_need,
	.open = fault_open,
	.region_attach = fault_region_attach,
	.queue_setup = fault_queue_setup,
	.raw_keep = fault_raw_keep,
	.sent_keep = fault_sent_keep,
	.start = fault_start,
	.stop = fault_stop,
	.stat = fault_stat,
	.slots = fault_slots,
	.rails = fault_rails,
	.rule = fault_rule,
	.pair_clock = fault_pair_clock,
	.close = fault_close,
};
