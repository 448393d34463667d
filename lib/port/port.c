/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The table of drivers, and the control calls in front of them: what all drivers would check,
 * checked once.
 *
 * The program names a driver in the port's text and never sees its type: spw_port_open puts the
 * driver's table into the port, and the calls below go through it, with the port's name put in
 * front of an error. The data path does not pass here: queue->rx_burst and its neighbours are the
 * driver's own functions.
 *
 *   spw_port_open        text's driver ─► driver->open: the port, with driver and caps filled in
 *   spw_port_queue_setup caps checked against pool and ring ─► driver->queue_setup: burst functions
 *   spw_port_start       every queue set up? ─► driver->start
 *   stat, slots          zeroed ─► driver fills in what it counts
 *
 * Callers: lib/topo, the programs, and the interposers fault and rails for the ports behind them. A
 * call that a driver does not have is NULL in its table; what then happens is here.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "base/spw_order.h"
#include "port/port.h"
#include "port/spw_port_raw.h"
#include "port/spw_port.h"

static const struct spw_port_driver *const driver_table[] = {
	&port_ethdev_driver,
#ifdef SPW_HAVE_MLX5DV
	&port_mlx5_driver,
#endif
	&port_null_driver,
#ifdef SPW_HAVE_RDMA
	&port_verbs_driver,
#endif
	&port_fault_driver,  &port_rails_driver,
};

/* NULL: this build has no such driver. */
const struct spw_port_driver *port_driver_find(const char *name)
{
	for (size_t i = 0; i < SPW_ARRAY_CNT(driver_table); i++)
		if (!strcmp(driver_table[i]->name, name))
			return driver_table[i];
	return NULL;
}

const struct spw_port_driver *spw_port_driver(uint32_t idx)
{
	return idx < SPW_ARRAY_CNT(driver_table) ? driver_table[idx] : NULL;
}

/* For messages and the usage; valid in this thread until its next call. */
const char *spw_port_driver_names(void)
{
	static _Thread_local char names[128];
	size_t n = 0;

	for (size_t i = 0; i < SPW_ARRAY_CNT(driver_table); i++)
		n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", i ? ", " : "",
				      driver_table[i]->name);
	return names;
}

const char *spw_port_drop_name(enum spw_port_drop drop)
{
	static const struct spw_enum_word word[] = {SPW_ENUM_WORDS(SPW_PORT_DROP)};

	return SPW_ENUM_NAME(word, drop);
}

const char *spw_port_err_name(enum spw_port_err err)
{
	static const struct spw_enum_word word[] = {SPW_ENUM_WORDS(SPW_PORT_ERR)};

	return SPW_ENUM_NAME(word, err);
}

/* An unknown driver needs nothing: spw_port_open reports it. */
int spw_port_need(const struct spw_port_spec *spec, struct spw_port_need *need_out)
{
	const struct spw_port_driver *driver = port_driver_find(spec->driver);
	int rc = 0;

	memset(need_out, 0, sizeof(*need_out));
	if (!driver)
		return 0;
	if (!driver->more_keys)
		rc = spw_port_spec_check_keys(spec, driver->keys);
	if (!rc && driver->need)
		rc = driver->need(spec, need_out);
	return rc ? spw_err_ctx(rc, "port '%.200s'", spec->text) : 0;
}

int spw_port_open(const struct spw_port_spec *spec, uint16_t index, uint16_t queue_cnt,
		  struct spw_port **port_out)
{
	const struct spw_port_driver *driver = port_driver_find(spec->driver);
	int rc;

	*port_out = NULL;
	if (!driver)
		return spw_err(EINVAL, "port '%.200s': driver '%s' is not known: use %s",
			       spec->text, spec->driver, spw_port_driver_names());
	if (index >= SPW_PORT_MAX)
		return spw_err(ERANGE, "port '%.200s': at most %d ports", spec->text, SPW_PORT_MAX);
	if (queue_cnt == 0 || queue_cnt > SPW_PORT_QUEUE_MAX)
		return spw_err(ERANGE, "port '%.200s': %u queues: use 1 .. %d", spec->text,
			       queue_cnt, SPW_PORT_QUEUE_MAX);
	rc = driver->open(spec, index, queue_cnt, port_out);
	return rc ? spw_err_ctx(rc, "port '%.200s'", spec->text) : 0;
}

/* A driver that never touches a frame's bytes says so (caps.gpu_memory); all others need memory
 * that the CPU can reach. */
int spw_port_region_attach(struct spw_port *port, const struct spw_region *region)
{
	int rc;

	if (!region->host_va && !port->caps.gpu_memory)
		return spw_err(ENOTSUP,
			       "port %s: its frames pass through the CPU, which cannot reach "
			       "memory kind %s: use --memory cuda-reg",
			       port->name, spw_mem_kind_name(region->kind));
	rc = port->driver->region_attach ? port->driver->region_attach(port, region) : 0;
	return rc ? spw_err_ctx(rc, "port %s, memory region %u", port->name, region->id) : 0;
}

/* The driver stated its needs in caps; they are checked here, once for all drivers. */
static int port_check_pool(const struct spw_port *port, const struct spw_port_queue_conf *conf)
{
	const struct spw_port_caps *caps = &port->caps;
	const struct spw_pool *pool = conf->pool;
	const uint32_t slots = port_conf_slots(conf);

	if (pool->slot_bytes < caps->slot_bytes_min)
		return spw_err(EINVAL, "slots of %zu bytes are too small: it needs %u",
			       pool->slot_bytes, caps->slot_bytes_min);
	if (pool->slot_bytes % caps->slot_align || (uintptr_t)pool->base % caps->slot_align)
		return spw_err(EINVAL, "slots must start on multiples of %u bytes",
			       caps->slot_align);
	if ((spw_pool_is_split(pool) ? pool->head_bytes : 0) != caps->head_bytes)
		return spw_err(EINVAL,
			       "split=%u is for spinwire, on a port with objects: leave it "
			       "out",
			       caps->head_bytes);
	if (slots < caps->slot_cnt_min)
		return spw_err(EINVAL, "%u slots are too few: it needs %u per queue", slots,
			       caps->slot_cnt_min);
	return 0;
}

int spw_port_queue_setup(struct spw_port *port, uint16_t queue,
			 const struct spw_port_queue_conf *conf)
{
	int rc;

	if (queue >= port->queue_cnt)
		return spw_err(ERANGE, "port %s: queue %u of %u", port->name, queue,
			       port->queue_cnt);
	if (conf->ring_size && !SPW_IS_POW2(conf->ring_size))
		return spw_err(EINVAL, "port %s: ring size %u is no power of 2", port->name,
			       conf->ring_size);
	rc = port_check_pool(port, conf);
	if (!rc)
		rc = port->driver->queue_setup(port, queue, conf);
	return rc ? spw_err_ctx(rc, "port %s, queue %u", port->name, queue) : 0;
}

/* After queue_setup: the driver replaces the burst function by one that keeps the completions. */
int spw_port_raw_keep(struct spw_port *port, uint16_t queue)
{
	if (!port->driver->raw_keep)
		return spw_err(ENOTSUP, "driver %s keeps no raw completions", port->driver->name);
	return port->driver->raw_keep(port, queue);
}

int spw_port_sent_keep(struct spw_port *port, uint16_t queue, const struct spw_port_sent **sent_out)
{
	*sent_out = NULL;
	if (!port->driver->sent_keep)
		return spw_err(ENOTSUP, "driver %s keeps no send completions", port->driver->name);
	return port->driver->sent_keep(port, queue, sent_out);
}

/* Lcores poll every queue from the start on. */
static int port_check_queues(const struct spw_port *port)
{
	for (uint16_t i = 0; i < port->queue_cnt; i++)
		if (!port->queue[i].q)
			return spw_err(EINVAL, "port %s: queue %u was not set up", port->name, i);
	return 0;
}

/* The litmus only; the driver ends the loop at start. */
int spw_port_loop(struct spw_port *port, uint16_t queue, uint8_t *head_out)
{
	int rc = port_check_queues(port);

	if (rc)
		return rc;
	if (!port->driver->loop)
		return spw_err(ENOTSUP, "driver %s cannot send to itself", port->driver->name);
	return port->driver->loop(port, queue, head_out);
}

void spw_port_loop_end(struct spw_port *port)
{
	if (port->driver->loop_end)
		port->driver->loop_end(port);
}

int spw_port_start(struct spw_port *port)
{
	int rc = port_check_queues(port);

	rc = rc ? rc : port->driver->start(port);
	return rc ? spw_err_ctx(rc, "port %s: start", port->name) : 0;
}

int spw_port_stop(struct spw_port *port)
{
	int rc = port->driver->stop(port);

	return rc ? spw_err_ctx(rc, "port %s: stop", port->name) : 0;
}

/* A driver adds to zeros: what it does not count stays 0 and unknown. */
void spw_port_stat(struct spw_port *port, struct spw_port_stat *stat_out)
{
	memset(stat_out, 0, sizeof(*stat_out));
	port->driver->stat(port, stat_out);
}

uint32_t spw_port_rails(struct spw_port *port, struct spw_port_rail *rail_out)
{
	return port->driver->rails ? port->driver->rails(port, rail_out) : 0;
}

/* The text of an error names the port, or the rail. */
static int port_rule_one(struct spw_port *port, const char *text, bool add)
{
	int rc = port->driver->rule
			 ? port->driver->rule(port, text, add)
			 : spw_err(ENOTSUP, "driver %s has no flow rules", port->driver->name);

	return rc ? spw_err_ctx(rc, "port %s", port->name) : 0;
}

/* What the rails before a failed one did is undone, in reverse order, so that all rails take the
 * same frames. An undo that fails leaves them different: that is logged, and /spinwire/rules shows
 * each rail's own. The first error is what the caller gets. */
int spw_port_rule(struct spw_port *port, const char *text, bool add)
{
	struct spw_port_rail rail[SPW_PORT_RAIL_MAX];
	const uint32_t cnt = spw_port_rails(port, rail);
	uint32_t done = 0;
	char why[256];
	int rc = 0;

	if (!cnt)
		return port_rule_one(port, text, add);
	while (done < cnt && !rc) {
		rc = port_rule_one(rail[done].port, text, add);
		done += !rc;
	}
	if (!rc)
		return 0;
	snprintf(why, sizeof(why), "%s", spw_err_text());
	while (done--)
		if (port_rule_one(rail[done].port, text, !add))
			spw_warn("undo of a rule that another rail refused: %s", spw_err_text());
	return spw_err(-rc, "%s", why);
}

uint32_t spw_port_rules(struct spw_port *port, struct spw_port_rule rule_out[SPW_PORT_RULE_MAX])
{
	return port->driver->rules ? port->driver->rules(port, rule_out) : 0;
}

/* Exact only while the queue's owner is outside of a burst. */
void spw_port_slots(struct spw_port *port, uint16_t queue, struct spw_port_slots *slots_out)
{
	memset(slots_out, 0, sizeof(*slots_out));
	port->driver->slots(port, queue, slots_out);
}

int spw_port_pair_clock(struct spw_port *port, uint64_t *nic_ticks_out, uint64_t *tsc_out,
			uint64_t *uncertainty_ns_out)
{
	if (!port->driver->pair_clock || !port->caps.nic_clock_hz)
		return spw_err(ENOTSUP, "port %s has no hardware clock", port->name);
	return port->driver->pair_clock(port, nic_ticks_out, tsc_out, uncertainty_ns_out);
}

/* ---- for the drivers ---- */

/* Aligned to two cache lines: queues of different lcores must share none. */
static void *port_zeroed(size_t bytes)
{
	const size_t align = 2 * SPW_CACHE_LINE;
	void *memory = aligned_alloc(align, SPW_ALIGN_UP(bytes, align));

	return memory ? memset(memory, 0, bytes) : NULL;
}

void *port_alloc(const struct spw_port_driver *driver, const struct spw_port_spec *spec,
		 uint16_t index, uint16_t queue_cnt, size_t bytes)
{
	struct spw_port *port = port_zeroed(bytes);

	if (!port) {
		spw_err(ENOMEM, "no memory for the port");
		return NULL;
	}
	port->driver = driver;
	port->index = index;
	port->queue_cnt = queue_cnt;
	snprintf(port->name, sizeof(port->name), "%.63s",
		 spec->device[0] ? spec->device : driver->name);
	return port;
}

void *port_queues_alloc(uint16_t queue_cnt, size_t bytes)
{
	void *queue = port_zeroed(queue_cnt * bytes);

	if (!queue)
		spw_err(ENOMEM, "no memory for %u queues", queue_cnt);
	return queue;
}

/* Adds one queue's counters. Drivers that count in the queue have no count of the wire: what was
 * lent or dropped is what arrived. */
void port_stat_add(struct spw_port_stat *stat, const struct port_queue_stat *from)
{
	const uint64_t rx = spw_thr_load_rlx(&from->rx_frames);

	stat->wire_frames += rx;
	stat->rx_frames += rx;
	stat->rx_bytes += spw_thr_load_rlx(&from->rx_bytes);
	stat->tx_frames += spw_thr_load_rlx(&from->tx_frames);
	stat->tx_bytes += spw_thr_load_rlx(&from->tx_bytes);
	stat->tx_flushed += spw_thr_load_rlx(&from->tx_flushed);
	for (unsigned i = 0; i < SPW_PORT_DROP_CNT; i++) {
		const uint64_t dropped = spw_thr_load_rlx(&from->dropped[i]);

		stat->wire_frames += dropped;
		stat->dropped[i] += dropped;
	}
	for (unsigned i = 0; i < SPW_PORT_ERR_CNT; i++)
		stat->err[i] += spw_thr_load_rlx(&from->err[i]);
}

void spw_port_close(struct spw_port *port)
{
	if (port)
		port->driver->close(port);
}
