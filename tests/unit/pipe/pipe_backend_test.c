/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A pipe with several executors: a change that is given up leaves everything as it was; a recording
 * says which executor had each batch, so that a run with changes comes out the same again, whole or
 * from its middle, where the window begins with batches under way. pipe_backend_test FOLDER writes
 * a recording for the corpus of fuzz_flight instead (tests/corpus/make_flight_corpus.py).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "exec/spw_exec.h"
#include "flight_kit.h"

/* Batches that the late executor leaves in its ring. */
#define LATE 3u

/* The executor's thread has ended, so what is pushed stays in its ring, and the loop waits in vain
 * for the ring to be empty. */
static void test_given_up(void **state)
{
	struct spw_ledger ledger;
	uint64_t busy, end;
	struct rig rig;

	(void)state;
	rig_open(&rig, "null:size=64", "sum", SPW_EXEC_CPU, 8);
	rig_also(&rig, SPW_EXEC_INLINE, 8);
	rig_pipe(&rig, (struct spw_pipe_conf){.record = true, .drain_tsc = 1});
	spw_pipe_begin(rig.pipe);
	while (rig.pipe->ledger.reaped_batches < 100)
		spw_pipe_run_once(rig.pipe);
	rig.dry = true;
	while (rig.pipe->ring->retired_seq != rig.pipe->ring->head_seq)
		spw_pipe_run_once(rig.pipe);
	assert_int_equal(spw_exec_stop(rig.exec, 2000), 0);
	rig.dry = false;
	spw_pipe_run_once(rig.pipe);
	busy = rig.pipe->exec_busy;
	end = rig.pipe->exec_last_end;
	spw_pipe_ask(rig.pipe, 1, SPW_BURST_MAX);
	while (!rig.pipe->change_tsc) /* until it tries */
		spw_pipe_run_once(rig.pipe);
	while (!spw_pipe_run_once(rig.pipe)) /* and polls again */
		;
	assert_int_equal(rig.pipe->backend_idx, 0);
	assert_int_equal(rig.pipe->backend_changes, 0);
	assert_true(busy > 0 && end > 0);
	assert_int_equal(rig.pipe->exec_busy, busy);
	assert_int_equal(rig.pipe->exec_last_end, end);
	spw_pipe_end(rig.pipe);
	rig_close(&rig, &ledger);
	assert_true(ledger.pipe.dropped[SPW_DROP_exec_lost] > 0);
}

/* ---- recorded ---- */

static void (*kick_now)(struct spw_gring *ring);

/* An inline executor that is always LATE batches behind, so that batches are under way at every end
 * of a segment, whatever the machine does. */
static void kick_late(struct spw_gring *ring)
{
	if (ring->head_seq - ring->tail_seq > LATE)
		kick_now(ring);
}

/* What another way than the first is. CLOCK: its stamps are of another clock, so that each change
 * needs its map. Like a GPU's, in ns since 1970, that clock has more than the 56 bits that stamps
 * carry. */
enum also { NONE, INLINE, BEHIND, CLOCK };

#define FAR ((uint64_t)24 << 56)

static struct spw_clock_box box;

static uint64_t far_now(struct spw_gring *ring SPW_UNUSED)
{
	return FAR + spw_tsc_now();
}

static void box_fill(void)
{
	struct spw_clock_map map;

	memset(&box, 0, sizeof(box));
	spw_clock_map_identity(&map);
	map.other_base += FAR;
	map.ref_base += 500;
	map.unc = 1000;
	spw_clock_box_put(&box, &map);
}

static struct spw_pipe_backend backend_open(struct rig *rig, enum also also, uint32_t batches)
{
	struct spw_pipe_backend backend = {.has_clock = also == CLOCK,
					   .clock = also == CLOCK ? &box : NULL};
	struct spw_gring *ring;

	rig_also(rig, SPW_EXEC_INLINE, batches);
	ring = spw_exec_ring(rig->also[rig->also_cnt - 1], 0);
	if (also == INLINE)
		backend.learns = SPW_CAUSE_EXEC_INLINE;
	else
		ring->kick = kick_late;
	if (also == CLOCK)
		ring->exec_now = far_now;
	return backend;
}

/* Backend 0 is late; the others are as stated. Rings of different sizes, each numbering from 0. */
static void backends_open(struct rig *rig, const enum also also[SPW_PIPE_BACKEND_MAX - 1])
{
	struct spw_pipe_conf conf = {.can_tx = true};

	assert_int_equal(spw_flight_open(&flight, SMALL, 0, -1), 0);
	rig_open(rig, "null:size=64", "echo", SPW_EXEC_INLINE, 16);
	kick_now = spw_exec_ring(rig->exec, 0)->kick;
	spw_exec_ring(rig->exec, 0)->kick = kick_late;
	box_fill();
	for (uint32_t i = 0; i < SPW_PIPE_BACKEND_MAX - 1 && also[i]; i++)
		conf.backend[1 + i] = backend_open(rig, also[i], 8u << i);
	conf = flight_conf(conf);
	conf.slow_tsc = 8; /* every batch is slow: each is described, judged and compared */
	rig_pipe(rig, conf);
	spw_pipe_begin(rig->pipe);
}

/* A turn that ends with housekeeping, so that what is asked for comes within a few turns. */
static uint16_t turn(struct rig *rig)
{
	rig->pipe->house_turns = 1;
	return spw_pipe_run_once(rig->pipe);
}

/* The next backend, and some turns with it: more than LATE, so that LATE batches are under way. */
static void change(struct rig *rig, uint32_t turns)
{
	uint32_t backend = (rig->pipe->backend_idx + 1) % rig->pipe->backend_cnt;

	spw_pipe_ask(rig->pipe, backend, (uint16_t)(4 << backend));
	while (rig->pipe->backend_idx != backend)
		if (!turn(rig))
			kick_now(rig->pipe->ring);
	while (turns--)
		turn(rig);
}

static void freeze(struct rig *rig)
{
	spw_flight_ask(&flight);
	while (!spw_flight_is_granted(&flight))
		turn(rig);
}

static void backends_end(struct rig *rig)
{
	for (uint32_t i = 0; i < LATE; i++)
		kick_now(rig->pipe->ring);
	spw_pipe_end(rig->pipe);
	spw_flight_freeze(&flight);
}

static void backends_close(struct rig *rig)
{
	struct spw_ledger ledger;

	rig_close(rig, &ledger);
	spw_flight_close(&flight);
}

static void recorded(const enum also also[SPW_PIPE_BACKEND_MAX - 1], uint32_t backend_cnt)
{
	struct spw_replay_result result;
	struct outcome out;
	char path[256];
	struct rig rig;

	flight_file_name(path, sizeof(path), "backends");
	backends_open(&rig, also);
	assert_int_equal(rig.pipe->backend_cnt, backend_cnt);
	for (int i = 0; i < 20; i++)
		change(&rig, 100);
	backends_end(&rig);
	flight_file_write(&rig, path);
	out = outcome_of(&rig);
	result = flight_again(path, &out);
	assert_true(result.from_start && result.ended);
	assert_int_equal(result.backend_changes, 20);
	assert_int_equal(rig.pipe->backend_changes, 20);
	free(out.view);
	backends_close(&rig);
	unlink(path);
}

static const enum also late_too[SPW_PIPE_BACKEND_MAX - 1] = {BEHIND};

static void test_recorded(void **state)
{
	(void)state;
	recorded((const enum also[SPW_PIPE_BACKEND_MAX - 1]){INLINE}, 2);
	recorded(late_too, 2);
	recorded((const enum also[SPW_PIPE_BACKEND_MAX - 1]){CLOCK}, 2);
}

/* As many as there can be, in turn. */
static void test_recorded_five(void **state)
{
	(void)state;
	recorded((const enum also[SPW_PIPE_BACKEND_MAX - 1]){INLINE, BEHIND, CLOCK, CLOCK},
		 SPW_PIPE_BACKEND_MAX);
}

/* Files out of a run that goes on. Only requests end segments here, so once the ring has wrapped
 * each file holds as many as may be frozen, and the first of them serves the lead-in: the window
 * begins with LATE batches of one backend, then of the other. */
static void test_windows(void **state)
{
	const uint32_t held = SPW_FLIGHT_SEG_CNT / 2;
	struct spw_replay_result result;
	struct outcome out;
	char path[256];
	struct rig rig;

	(void)state;
	flight_file_name(path, sizeof(path), "backend_windows");
	backends_open(&rig, late_too);
	for (uint32_t i = 1; i < held + 4; i++) {
		change(&rig, 20);
		freeze(&rig);
		flight_file_write(&rig, path);
		spw_flight_return(&flight);
		result = flight_again(path, NULL);
		assert_int_equal(result.unknown, 0);
		assert_int_equal(result.from_start, i <= held);
		assert_int_equal(result.lead_in, i <= held ? 0 : LATE);
		assert_int_equal(result.backend_changes, i <= held ? i : held - 1);
	}
	backends_end(&rig);
	flight_file_write(&rig, path);
	out = outcome_of(&rig);
	free(out.view);
	out.view = NULL; /* of the whole run, not of the window; the counters are */
	flight_again(path, &out);
	backends_close(&rig);
	unlink(path);
}

/* ---- files ---- */

#define TURNS 10u

/* A file whose second segment begins with LATE batches of backend 0 under way. It then has TURNS
 * batches of backend 1, which are all judged, since the backend is left again. */
static void two_segments(const char *path)
{
	struct rig rig;

	backends_open(&rig, late_too);
	for (uint32_t i = 0; i < 2 * TURNS; i++)
		turn(&rig);
	freeze(&rig);
	spw_flight_return(&flight);
	change(&rig, TURNS);
	change(&rig, 0);
	backends_end(&rig);
	flight_file_write(&rig, path);
	backends_close(&rig);
}

/* Batches whose POLLs are not in the file, as behind an executor that stood still for longer than
 * the recording: they are counted, and the other way's with the same numbers are judged. */
static void test_unknown(void **state)
{
	struct spw_replay_result result;
	struct spw_flight_read_lane lane;
	struct spw_replay *replay;
	struct spw_flight_lane conf;
	struct spw_flight_read file;
	char path[256];

	(void)state;
	flight_file_name(path, sizeof(path), "backend_unknown");
	two_segments(path);
	assert_int_equal(spw_flight_read_open(path, &file), 0);
	conf = *file.lane[0].conf;
	conf.seg_cnt = 1;
	lane = (struct spw_flight_read_lane){.conf = &conf, .seg[0] = file.lane[0].seg[1]};
	assert_int_equal(spw_replay_open(&lane, &replay), 0);
	assert_int_equal(spw_replay_run(replay), 0);
	result = *spw_replay_result(replay);
	assert_int_equal(result.unknown, LATE);
	assert_int_equal(result.backend_changes, 2);
	assert_true(result.described >= TURNS);
	assert_int_equal(result.ledger_differs + result.cause_differs + result.since_differs, 0);
	spw_replay_close(replay);
	spw_flight_read_close(&file);
	unlink(path);
}

static int read_again(const struct spw_flight_read *file)
{
	struct spw_flight_read again;

	return spw_flight_read_memory(file->memory, file->file->file_bytes, &again);
}

/* A backend that the lane does not have is refused by the reader; a change while a batch is in
 * flight by the replay, since nothing in the record itself is wrong. */
static void test_broken_files(void **state)
{
	struct spw_replay *replay;
	struct spw_flight_read file;
	struct spw_flight_lane *conf;
	struct spw_flight_state *s;
	char path[256];

	(void)state;
	flight_file_name(path, sizeof(path), "backend_broken");
	two_segments(path);
	assert_int_equal(spw_flight_read_open(path, &file), 0);
	conf = (struct spw_flight_lane *)(uintptr_t)file.lane[0].conf;
	s = (struct spw_flight_state *)(uintptr_t)spw_flight_first(file.lane[0].seg[1]);
	assert_int_equal(s->backend, 0);
	s->backend = 1;
	assert_int_equal(spw_replay_open(&file.lane[0], &replay), 0);
	assert_int_equal(spw_replay_run(replay), -EPROTO);
	assert_non_null(strstr(spw_err_text(), "while it was in flight"));
	spw_replay_close(replay);
	s->backend = 2;
	assert_int_equal(read_again(&file), -EPROTO);
	s->backend = 0;
	for (uint32_t backends = 0; backends <= SPW_FLIGHT_BACKEND_MAX + 1; backends++) {
		conf->backend_cnt = backends;
		assert_int_equal(read_again(&file), backends == 2 ? 0 : -EPROTO);
	}
	conf->backend_cnt = 2;
	conf->backend[1].unit_cnt = 0;
	assert_int_equal(read_again(&file), -EPROTO);
	spw_flight_read_close(&file);
	unlink(path);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_given_up),      cmocka_unit_test(test_recorded),
		cmocka_unit_test(test_recorded_five), cmocka_unit_test(test_windows),
		cmocka_unit_test(test_unknown),       cmocka_unit_test(test_broken_files),
	};

	if (argc == 2) {
		char path[1024];

		snprintf(path, sizeof(path), "%s/two_backends", argv[1]);
		two_segments(path);
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
