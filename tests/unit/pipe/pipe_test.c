/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The pipe over the real null port and the real CPU executors. What the null port never does (refuse a transmit, lose its
 * link) is put between the two.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "gpu/spw_handler.h"
#include "pipe/spw_pipe.h"
#include "time/spw_time.h"
#include "unit_test.h"

#define SLOTS 1024u

/* A port, a pool, an executor and the pipe between them. */
struct rig {
	struct spw_region region;
	struct spw_pool pool;
	struct spw_port *port;
	struct spw_exec *exec;
	const struct spw_handler *handler;
	struct spw_pipe *pipe;
	/* between the pipe and the port */
	struct spw_port_queue real, queue;
	uint16_t tx_room;            /* frames that each transmit takes; the rest is refused */
	struct spw_port_event event; /* handed out once if told is set */
	bool tell;
	uint32_t lent_twice;
	uint8_t lent[SLOTS];
	uint32_t stop;
};

static uint16_t rig_rx(void *arg, struct spw_desc *desc, uint16_t cnt)
{
	struct rig *rig = arg;
	uint16_t n = spw_port_rx_burst(&rig->real, desc, cnt);

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

	if (!rig->tell || !cnt)
		return 0;
	rig->tell = false;
	*event = rig->event;
	return 1;
}

static void rig_open(struct rig *rig, const char *port, const char *handler, enum spw_exec_kind kind, uint32_t batches)
{
	struct spw_mem_req req = {.kind = SPW_MEM_HOST, .bytes = SLOTS * 2048, .numa_node = -1};
	struct spw_exec_conf ec = {.kind = kind, .ring_cnt = 1, .batch_cnt = batches, .region = &rig->region,
				   .region_cnt = 1, .numa_node = -1};
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
	ec.handler = rig->handler;
	assert_int_equal(spw_exec_open(&ec, &rig->exec), 0);
	assert_int_equal(spw_exec_start(rig->exec), 0);
	assert_int_equal(spw_port_start(rig->port), 0);
	rig->real = rig->port->queue[0];
	rig->queue = (struct spw_port_queue){.rx_burst = rig_rx, .release_burst = rig_release, .tx_burst = rig_tx,
					     .events = rig_events, .q = rig};
}

static void rig_pipe(struct rig *rig, struct spw_pipe_conf conf)
{
	conf.queue = &rig->queue;
	conf.ring = spw_exec_ring(rig->exec, 0);
	conf.pool = &rig->pool;
	conf.exec = rig->exec;
	conf.burst = conf.burst ? conf.burst : SPW_BURST_MAX;
	conf.drain_tsc = conf.drain_tsc ? conf.drain_tsc : 20000000000ull;
	rig->pipe = aligned_alloc(128, SPW_ALIGN_UP(sizeof(*rig->pipe), 128ul));
	assert_non_null(rig->pipe);
	assert_int_equal(spw_pipe_init(rig->pipe, &conf), 0);
}

/* Stops everything and draws the balance, each side from who counted it. */
static void rig_close(struct rig *rig, struct spw_ledger *ledger_out)
{
	static const char *bad_name[SPW_BAD_CNT];
	struct spw_ledger_sum sum;
	struct spw_port_stat port;
	struct spw_exec_stat exec;

	spw_exec_stop(rig->exec, 2000);
	spw_pipe_reclaim(rig->pipe);
	assert_int_equal(spw_port_stop(rig->port), 0);
	spw_port_stat(rig->port, &port);
	spw_exec_stat(rig->exec, &exec);
	memset(ledger_out, 0, sizeof(*ledger_out));
	ledger_out->wire_frames = port.wire_frames;
	ledger_out->missed_frames = port.missed_frames;
	ledger_out->missed_known = true;
	ledger_out->lent_frames = port.rx_frames;
	ledger_out->sent_frames = port.tx_frames;
	ledger_out->executed_frames = exec.frames;
	for (int i = 0; i < SPW_BAD_CNT; i++)
		bad_name[i] = spw_bad_name((enum spw_bad)i);
	spw_ledger_add_reasons(&ledger_out->bad, bad_name, rig->pipe->bad, SPW_BAD_CNT);
	spw_ledger_add_lcore(ledger_out, &rig->pipe->ledger);
	ledger_out->pool_slots = SLOTS;
	ledger_out->pool_free = rig->pool.free_cnt;
	spw_ledger_balance(ledger_out, &sum);
	assert_int_equal(sum.residual, 0);
	assert_int_equal(sum.leaked, 0);
	assert_int_equal(rig->lent_twice, 0);
	spw_exec_close(rig->exec);
	spw_port_close(rig->port);
	assert_int_equal(spw_pool_fini(&rig->pool), 0);
	spw_region_free(&rig->region);
	spw_handler_close(rig->handler);
	free(rig->pipe);
}

static void test_counts_exactly(void **state)
{
	static const struct {
		enum spw_exec_kind kind;
		bool record;
		uint16_t burst;
	} c[] = {{SPW_EXEC_INLINE, true, 64}, {SPW_EXEC_INLINE, false, 32}, {SPW_EXEC_CPU, true, 64}, {SPW_EXEC_CPU, false, 1}};
	struct spw_ledger ledger;
	struct rig rig;

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(c); i++) {
		rig_open(&rig, "null:size=64", "null", c[i].kind, 64);
		rig_pipe(&rig, (struct spw_pipe_conf){.record = c[i].record, .burst = c[i].burst, .frames_max = 20011});
		spw_pipe_run(rig.pipe, &rig.stop);
		assert_true(spw_pipe_ended(rig.pipe));
		rig_close(&rig, &ledger);
		assert_int_equal(ledger.pipe.polled_frames, 20011);
		assert_int_equal(ledger.pipe.consumed_frames + ledger.pipe.dropped[SPW_DROP_ring_full], 20011);
		if (c[i].kind == SPW_EXEC_INLINE)
			assert_int_equal(ledger.pipe.consumed_frames, 20011);
	}
}

/* One frame in seven is malformed: it goes home, the others are sent. */
static void test_verdicts_part_ways(void **state)
{
	struct spw_ledger ledger;
	struct rig rig;

	(void)state;
	rig_open(&rig, "null:size=128,bad=checksum,bad_every=7,pattern=crc", "crc32c", SPW_EXEC_INLINE, 8);
	rig_pipe(&rig, (struct spw_pipe_conf){.record = true, .frames_max = 7000, .can_tx = true});
	spw_pipe_run(rig.pipe, &rig.stop);
	rig_close(&rig, &ledger);
	assert_int_equal(ledger.pipe.consumed_frames, 6000);
	assert_int_equal(ledger.pipe.bad_frames, 1000);
}

static void test_echo(void **state)
{
	struct spw_ledger ledger;
	struct rig rig;

	(void)state;
	rig_open(&rig, "null:size=64,bad=not_ip,bad_every=3", "echo", SPW_EXEC_INLINE, 8);
	rig_pipe(&rig, (struct spw_pipe_conf){.record = true, .frames_max = 3000, .can_tx = true});
	spw_pipe_run(rig.pipe, &rig.stop);
	rig_close(&rig, &ledger);
	assert_int_equal(ledger.pipe.tx_frames, 2000);
	assert_int_equal(ledger.pipe.bad_frames, 1000);
	assert_int_equal(ledger.sent_frames, 2000);
}

/* The port takes ten frames of each burst: the rest goes home as tx_full, or tx_down where it cannot transmit at all. */
static void test_refused_transmit(void **state)
{
	struct spw_ledger ledger;
	struct rig rig;

	(void)state;
	for (int can_tx = 0; can_tx < 2; can_tx++) {
		rig_open(&rig, "null:size=64", "echo", SPW_EXEC_INLINE, 8);
		rig_pipe(&rig, (struct spw_pipe_conf){.record = true, .frames_max = 6400, .can_tx = can_tx});
		rig.tx_room = 10;
		spw_pipe_run(rig.pipe, &rig.stop);
		rig_close(&rig, &ledger);
		assert_int_equal(ledger.pipe.tx_frames, 1000);
		assert_int_equal(ledger.pipe.dropped[can_tx ? SPW_DROP_tx_full : SPW_DROP_tx_down], 5400);
	}
}

/* A ring whose executor never comes to it: two batches fit, then frames are dropped at the door, then reclaimed. */
static void test_full_ring_drops(void **state)
{
	struct spw_ledger ledger;
	struct spw_gring *ring;
	struct rig rig;

	(void)state;
	rig_open(&rig, "null:size=64", "null", SPW_EXEC_INLINE, 2);
	rig_pipe(&rig, (struct spw_pipe_conf){.record = true, .drain_tsc = 1});
	ring = spw_exec_ring(rig.exec, 0);
	ring->kick = NULL;
	spw_rec_begin(&rig.pipe->rec);
	for (int i = 0; i < 5; i++)
		assert_int_equal(spw_pipe_run_once(rig.pipe), 64);
	assert_int_equal(rig.pipe->ledger.dropped[SPW_DROP_ring_full], 3 * 64);
	assert_int_equal(ring->in_exec_frames, 2 * 64);
	assert_int_equal(rig.pool.free_cnt, SLOTS - 2 * 64);
	assert_int_equal(spw_pipe_reclaim(rig.pipe), 2 * 64);
	rig_close(&rig, &ledger);
	assert_int_equal(ledger.pipe.dropped[SPW_DROP_exec_lost], 2 * 64);
}

/* A backlog melts: turns settle more than they push. */
static void test_backlog_melts(void **state)
{
	struct spw_ledger ledger;
	struct spw_gring *ring;
	void (*kick)(struct spw_gring *ring);
	struct rig rig;

	(void)state;
	rig_open(&rig, "null:size=64,count=640", "null", SPW_EXEC_INLINE, 16);
	rig_pipe(&rig, (struct spw_pipe_conf){.record = true, .burst = 32});
	ring = spw_exec_ring(rig.exec, 0);
	kick = ring->kick;
	ring->kick = NULL;
	spw_rec_begin(&rig.pipe->rec);
	for (int i = 0; i < 8; i++)
		spw_pipe_run_once(rig.pipe);
	assert_int_equal(ring->head_seq - ring->retired_seq, 8);
	for (int i = 0; i < 8; i++)
		kick(ring);
	ring->kick = kick;
	for (int i = 0; i < 8; i++)
		spw_pipe_run_once(rig.pipe);
	assert_int_equal(ring->head_seq - ring->retired_seq, 0);
	rig_close(&rig, &ledger);
}

/* Regimes add up to the time that passed, and every stage has every frame. */
static void test_records_all(void **state)
{
	struct spw_rec_view *view = calloc(1, sizeof(*view));
	struct spw_ledger ledger;
	uint64_t sum = 0, begin, end;
	struct rig rig;

	(void)state;
	assert_non_null(view);
	rig_open(&rig, "null:size=64", "echo", SPW_EXEC_INLINE, 8);
	rig_pipe(&rig, (struct spw_pipe_conf){.record = true, .frames_max = 50000, .can_tx = true});
	begin = spw_tsc_now_ordered();
	spw_pipe_run(rig.pipe, &rig.stop);
	end = spw_tsc_now_ordered();
	spw_rec_view_init(view);
	spw_rec_collect_rest(&rig.pipe->rec, view);
	for (int i = 0; i < SPW_REGIME_CNT; i++)
		sum += view->regime_tsc[i];
	assert_true(sum <= end - begin);
	assert_true(sum > (end - begin) / 2);
	assert_int_equal(sum, view->elapsed_tsc);
	assert_int_equal(spw_hist_total(&view->total[SPW_STAGE_polled_sent]), 50000);
	assert_int_equal(spw_hist_total(&view->total[SPW_STAGE_start_end]), 50000);
	for (int i = 0; i < SPW_STAGE_CNT; i++)
		assert_int_equal(view->defects[i], 0);
	rig_close(&rig, &ledger);
	free(view);
}

/* A link that goes down changes the reason, and the event reaches the control thread. */
static void test_link_events(void **state)
{
	struct spw_port_event event;
	struct spw_ledger ledger;
	struct rig rig;

	(void)state;
	rig_open(&rig, "null:size=64", "echo", SPW_EXEC_INLINE, 8);
	rig_pipe(&rig, (struct spw_pipe_conf){.can_tx = true});
	rig.tx_room = 0;
	rig.event.kind = SPW_PORT_EVENT_LINK_DOWN;
	rig.tell = true;
	for (int i = 0; i < 1000 && rig.tell; i++)
		spw_pipe_run_once(rig.pipe);
	assert_false(rig.tell);
	memset(&rig.pipe->ledger.dropped, 0, sizeof(rig.pipe->ledger.dropped));
	assert_int_equal(spw_pipe_run_once(rig.pipe), 64);
	assert_int_equal(rig.pipe->ledger.dropped[SPW_DROP_tx_down], 64);
	assert_true(spw_pipe_event(rig.pipe, &event));
	assert_int_equal(event.kind, SPW_PORT_EVENT_LINK_DOWN);
	assert_false(spw_pipe_event(rig.pipe, &event));
	memset(&rig.pipe->ledger, 0, sizeof(rig.pipe->ledger));
	rig.pipe->ledger.polled_frames = rig.pipe->ledger.dropped[SPW_DROP_tx_down] = 0;
	(void)ledger;
	spw_exec_stop(rig.exec, 1000);
	spw_exec_close(rig.exec);
	spw_port_stop(rig.port);
	spw_port_close(rig.port);
	assert_int_equal(spw_pool_fini(&rig.pool), 0);
	spw_region_free(&rig.region);
	free(rig.pipe);
}

static void *run_until_told(void *arg)
{
	struct rig *rig = arg;

	spw_pipe_run(rig->pipe, &rig->stop);
	return NULL;
}

/* Told to stop in mid-stream by another thread, the pipe drains: nothing is left in the executor. */
static void test_stop_drains(void **state)
{
	struct spw_ledger ledger;
	pthread_t thread;
	struct rig rig;

	(void)state;
	rig_open(&rig, "null:size=64", "sum", SPW_EXEC_CPU, 64);
	rig_pipe(&rig, (struct spw_pipe_conf){.record = true});
	assert_int_equal(pthread_create(&thread, NULL, run_until_told, &rig), 0);
	while (spw_thr_load_rlx(&rig.pipe->ledger.polled_frames) < 10000)
		spw_cpu_relax();
	spw_thr_store_rlx(&rig.stop, 1);
	pthread_join(thread, NULL);
	assert_true(spw_pipe_ended(rig.pipe));
	assert_int_equal(spw_exec_ring(rig.exec, 0)->in_exec_frames, 0);
	rig_close(&rig, &ledger);
	assert_int_equal(ledger.pipe.dropped[SPW_DROP_exec_lost], 0);
	assert_true(ledger.executed_frames > 0);
}

static void test_refuses(void **state)
{
	struct spw_pipe *pipe = aligned_alloc(128, SPW_ALIGN_UP(sizeof(*pipe), 128ul));
	struct spw_port_queue queue = {0};
	struct spw_gring ring = {0};
	struct spw_pool pool = {0};

	(void)state;
	assert_int_equal(spw_pipe_init(pipe, &(struct spw_pipe_conf){.burst = 1}), -EINVAL);
	assert_int_equal(spw_pipe_init(pipe, &(struct spw_pipe_conf){.queue = &queue, .ring = &ring, .pool = &pool, .burst = 0}), -EINVAL);
	assert_int_equal(spw_pipe_init(pipe, &(struct spw_pipe_conf){.queue = &queue, .ring = &ring, .pool = &pool, .burst = 65}), -EINVAL);
	assert_non_null(strstr(spw_err_text(), "burst"));
	free(pipe);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counts_exactly),   cmocka_unit_test(test_verdicts_part_ways),
		cmocka_unit_test(test_echo),             cmocka_unit_test(test_refused_transmit),
		cmocka_unit_test(test_full_ring_drops),  cmocka_unit_test(test_backlog_melts),
		cmocka_unit_test(test_records_all),      cmocka_unit_test(test_link_events),
		cmocka_unit_test(test_stop_drains),      cmocka_unit_test(test_refuses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
