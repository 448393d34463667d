/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include "pipe_rig.h"

#include <stdlib.h>

#include "exec/spw_handler.h"

/* ---- between pipe and port ---- */

static uint16_t rig_rx(void *arg, struct spw_desc *desc, uint16_t cnt)
{
	struct rig *rig = arg;
	uint16_t n = rig->dry ? 0 : spw_port_rx_burst(&rig->real, desc, cnt);

	for (uint16_t i = 0; i < n; i++)
		rig->lent_twice += rig->lent[desc[i].slot]++ != 0;
	return n;
}

static void rig_release(void *arg, const uint32_t *slot, uint16_t cnt)
{
	struct rig *rig = arg;

	for (uint16_t i = 0; i < cnt; i++)
		rig->lent_twice += rig->lent[slot[i]]-- != 1;
	spw_port_release_burst(&rig->real, slot, cnt);
}

static uint16_t rig_tx(void *arg, struct spw_desc **desc, uint16_t cnt)
{
	struct rig *rig = arg;
	uint16_t n = spw_port_tx_burst(&rig->real, desc, SPW_MIN(cnt, rig->tx_room));

	for (uint16_t i = 0; i < n; i++)
		rig->lent_twice += rig->lent[desc[i]->slot]-- != 1;
	return n;
}

static uint16_t rig_events(void *arg, struct spw_port_event *event, uint16_t cnt)
{
	struct rig *rig = arg;

	if (!rig->report || !cnt)
		return 0;
	rig->report = false;
	*event = rig->event;
	return 1;
}

static struct spw_exec *exec_new(const struct rig *rig, enum spw_exec_kind kind, uint32_t batches)
{
	struct spw_exec_conf ec = {.kind = kind,
				   .handler = rig->handler,
				   .ring_cnt = 1,
				   .batch_cnt = batches,
				   .region = &rig->region,
				   .region_cnt = 1,
				   .numa_node = -1};
	struct spw_exec *exec;

	assert_int_equal(spw_exec_open(&ec, &exec), 0);
	assert_int_equal(spw_exec_start(exec), 0);
	return exec;
}

void rig_open(struct rig *rig, const char *port, const char *handler, enum spw_exec_kind kind,
	      uint32_t batches)
{
	struct spw_mem_req req = {.kind = SPW_MEM_HOST, .bytes = SLOTS * 2048, .numa_node = -1};
	struct spw_port_queue_conf qc = {.pool = &rig->pool, .numa_node = -1, .profile = "latency"};
	struct spw_port_spec spec;

	memset(rig, 0, sizeof(*rig));
	rig->tx_room = SPW_BURST_MAX;
	assert_int_equal(spw_port_spec_parse(port, &spec), 0);
	assert_int_equal(spw_port_open(&spec, 0, 1, &rig->port), 0);
	assert_int_equal(spw_region_alloc(&req, &rig->region), 0);
	assert_int_equal(spw_pool_init(&rig->pool, &rig->region, 0, 2048, SLOTS), 0);
	assert_int_equal(spw_port_region_attach(rig->port, &rig->region), 0);
	assert_int_equal(spw_port_queue_setup(rig->port, 0, &qc), 0);
	assert_int_equal(spw_handler_open(handler, &rig->handler), 0);
	rig->exec = exec_new(rig, kind, batches);
	assert_int_equal(spw_port_start(rig->port), 0);
	rig->real = rig->port->queue[0];
	rig->queue = (struct spw_port_queue){.rx_burst = rig_rx,
					     .release_burst = rig_release,
					     .tx_burst = rig_tx,
					     .events = rig_events,
					     .q = rig};
}

void rig_also(struct rig *rig, enum spw_exec_kind kind, uint32_t batches)
{
	assert_true(rig->also_cnt < SPW_ARRAY_CNT(rig->also));
	rig->also[rig->also_cnt++] = exec_new(rig, kind, batches);
}

void rig_pipe(struct rig *rig, struct spw_pipe_conf conf)
{
	conf.queue = &rig->queue;
	conf.pool = &rig->pool;
	conf.backend[0].ring = spw_exec_ring(rig->exec, 0);
	conf.backend[0].exec = rig->exec;
	conf.backend_cnt = 1 + rig->also_cnt;
	for (uint32_t i = 0; i < rig->also_cnt; i++) {
		conf.backend[1 + i].ring = spw_exec_ring(rig->also[i], 0);
		conf.backend[1 + i].exec = rig->also[i];
	}
	conf.burst = conf.burst ? conf.burst : SPW_BURST_MAX;
	conf.drain_tsc = conf.drain_tsc ? conf.drain_tsc : 20000000000ull;
	rig->pipe = aligned_alloc(128, SPW_ALIGN_UP(sizeof(*rig->pipe), 128ul));
	assert_non_null(rig->pipe);
	assert_int_equal(spw_pipe_init(rig->pipe, &conf), 0);
}

void rig_report(struct rig *rig, enum spw_port_event_kind kind)
{
	rig->event.kind = kind;
	rig->report = true;
	for (int i = 0; i < 1000 && rig->report; i++)
		spw_pipe_run_once(rig->pipe);
	assert_false(rig->report);
}

static void rig_fini(struct rig *rig)
{
	spw_exec_close(rig->exec);
	for (uint32_t i = 0; i < rig->also_cnt; i++)
		spw_exec_close(rig->also[i]);
	spw_port_close(rig->port);
	assert_int_equal(spw_pool_fini(&rig->pool), 0);
	spw_region_free(&rig->region);
	spw_handler_close(rig->handler);
	free(rig->pipe);
}

void rig_free(struct rig *rig)
{
	spw_exec_stop(rig->exec, 1000);
	spw_port_stop(rig->port);
	rig_fini(rig);
}

uint64_t rig_executed(const struct rig *rig)
{
	struct spw_exec_stat exec;
	uint64_t frames;

	spw_exec_stat(rig->exec, &exec);
	frames = exec.frames;
	for (uint32_t i = 0; i < rig->also_cnt; i++) {
		spw_exec_stat(rig->also[i], &exec);
		frames += exec.frames;
	}
	return frames;
}

/* Each side of the balance comes from whoever counted it. */
void rig_close(struct rig *rig, struct spw_ledger *ledger_out)
{
	static const char *bad_name[SPW_BAD_CNT];
	struct spw_ledger_sum sum;
	struct spw_port_stat port;
	struct spw_pipe_summary pipe;

	spw_exec_stop(rig->exec, 2000);
	for (uint32_t i = 0; i < rig->also_cnt; i++)
		spw_exec_stop(rig->also[i], 2000);
	spw_pipe_reclaim(rig->pipe);
	assert_int_equal(spw_port_stop(rig->port), 0);
	spw_port_stat(rig->port, &port);
	memset(ledger_out, 0, sizeof(*ledger_out));
	ledger_out->wire_frames = port.wire_frames;
	ledger_out->missed_frames = port.missed_frames;
	ledger_out->missed_known = true;
	ledger_out->lent_frames = port.rx_frames;
	ledger_out->sent_frames = port.tx_frames;
	ledger_out->executed_frames = rig_executed(rig);
	for (int i = 0; i < SPW_BAD_CNT; i++)
		bad_name[i] = spw_bad_name((enum spw_bad)i);
	spw_pipe_summary(rig->pipe, &pipe);
	spw_ledger_add_reasons(&ledger_out->bad, bad_name, pipe.bad, SPW_BAD_CNT);
	spw_ledger_add_lcore(ledger_out, &pipe.ledger);
	ledger_out->pool_slots = SLOTS;
	ledger_out->pool_free = rig->pool.free_cnt;
	spw_ledger_balance(ledger_out, &sum);
	assert_int_equal(sum.residual, 0);
	assert_int_equal(sum.leaked, 0);
	assert_int_equal(rig->lent_twice, 0);
	rig_fini(rig);
}
