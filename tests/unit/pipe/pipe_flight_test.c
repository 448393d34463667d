/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The flight recorder: what a pipe recorded runs again and comes out the same, whatever the
 * executor, from the start of a run and out of its middle; the ring wraps; a file is written while
 * the lane goes on; a file that was cut, changed or made by somebody else is refused with one line.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "exec/spw_handler.h"
#include "flight_kit.h"

/* Records a whole run of `frames` and runs it again. */
static void whole_run(const char *port, const char *handler, enum spw_exec_kind kind,
		      struct spw_pipe_conf conf, uint16_t tx_room)
{
	struct spw_ledger ledger;
	struct outcome out;
	char path[256];
	struct rig rig;

	flight_file_name(path, sizeof(path), "whole");
	assert_int_equal(spw_flight_open(&flight, (size_t)64 << 20, 0, -1), 0);
	rig_open(&rig, port, handler, kind, 8);
	rig_pipe(&rig, flight_conf(conf));
	rig.tx_room = tx_room;
	spw_pipe_run(rig.pipe, &rig.stop);
	spw_flight_freeze(&flight);
	flight_file_write(&rig, path);
	out = outcome_of(&rig);
	rig_close(&rig, &ledger);
	assert_true(flight_again(path, &out).from_start);
	free(out.view);
	spw_flight_close(&flight);
	unlink(path);
}

static void test_runs_again(void **state)
{
	(void)state;
	whole_run("null:size=64", "null", SPW_EXEC_CPU, (struct spw_pipe_conf){.frames_max = 60000},
		  SPW_BURST_MAX);
	whole_run("null:size=64", "echo", SPW_EXEC_INLINE,
		  (struct spw_pipe_conf){.frames_max = 60001,
					 .can_tx = true,
					 .backend[0].learns = SPW_CAUSE_EXEC_INLINE},
		  SPW_BURST_MAX);
	whole_run("null:size=64,stamps=1", "echo", SPW_EXEC_CPU,
		  (struct spw_pipe_conf){.frames_max = 60000,
					 .can_tx = true,
					 .burst = 32,
					 .nic_stamps = true,
					 .nic_frames = true},
		  SPW_BURST_MAX);
}

/* Every way by which a frame can be lost or refused. */
static void test_runs_losses_again(void **state)
{
	(void)state;
	whole_run("null:size=128,bad=checksum,bad_every=7,pattern=crc", "crc32c", SPW_EXEC_INLINE,
		  (struct spw_pipe_conf){.frames_max = 20000,
					 .backend[0].learns = SPW_CAUSE_EXEC_INLINE},
		  SPW_BURST_MAX);
	whole_run("null:size=64", "echo", SPW_EXEC_CPU,
		  (struct spw_pipe_conf){.frames_max = 20000, .can_tx = true}, 10);
	whole_run("null:size=64", "echo", SPW_EXEC_CPU, (struct spw_pipe_conf){.frames_max = 20000},
		  SPW_BURST_MAX);
}

/* The control thread narrows and widens the burst while the lane runs: polls of every size are in
 * one recording, full and not. */
static void test_changed_burst(void **state)
{
	static const uint16_t burst[] = {64, 4, 32, 1, 64, 8};
	struct spw_ledger ledger;
	char path[256];
	struct rig rig;

	(void)state;
	flight_file_name(path, sizeof(path), "burst");
	assert_int_equal(spw_flight_open(&flight, SMALL, 0, -1), 0);
	rig_open(&rig, "null:size=64", "echo", SPW_EXEC_INLINE, 8);
	rig_pipe(&rig, flight_conf((struct spw_pipe_conf){
			       .can_tx = true, .backend[0].learns = SPW_CAUSE_EXEC_INLINE}));
	spw_pipe_begin(rig.pipe);
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(burst); i++) {
		spw_pipe_ask(rig.pipe, 0, burst[i]);
		for (uint32_t turn = 0; turn < 1000; turn++)
			spw_pipe_run_once(rig.pipe);
		assert_int_equal(rig.pipe->burst, burst[i]);
	}
	spw_pipe_end(rig.pipe);
	spw_flight_freeze(&flight);
	flight_file_write(&rig, path);
	assert_true(flight_again(path, NULL).ended);
	rig_close(&rig, &ledger);
	spw_flight_close(&flight);
	unlink(path);
}

static void *run_pipe(void *arg)
{
	struct rig *rig = arg;

	spw_pipe_run(rig->pipe, &rig->stop);
	return NULL;
}

static void polled(const struct rig *rig, uint64_t more)
{
	uint64_t until = spw_thr_load_rlx(&rig->pipe->ledger.polled_frames) + more;

	while (spw_thr_load_rlx(&rig->pipe->ledger.polled_frames) < until)
		usleep(100);
}

/* Files out of a run that goes on, with a ring that wraps many times: each runs again, and begins
 * where its ring does. The last one has the end of the run. */
static void test_windows(void **state)
{
	struct spw_replay_result result;
	uint64_t frames = 0;
	pthread_t thread;
	char path[256];
	struct rig rig;

	(void)state;
	flight_file_name(path, sizeof(path), "window");
	assert_int_equal(spw_flight_open(&flight, SMALL, 0, -1), 0);
	rig_open(&rig, "null:size=64,rate=1M", "echo", SPW_EXEC_CPU, 64);
	rig_pipe(&rig, flight_conf((struct spw_pipe_conf){.can_tx = true, .burst = 8}));
	assert_int_equal(pthread_create(&thread, NULL, run_pipe, &rig), 0);
	for (int i = 0; i < 4 || !flight.frozen_from; i++) { /* until it has wrapped */
		polled(&rig, 100000);
		spw_flight_ask(&flight);
		while (!spw_flight_is_granted(&flight))
			usleep(100);
		flight_file_write(&rig, path);
		spw_flight_return(&flight);
		result = flight_again(path, NULL);
		assert_true(!flight.frozen_from || !result.from_start);
		assert_false(result.ended);
		frames += result.frames;
	}
	assert_true(frames > 0);
	polled(&rig, 100000); /* it may have filled its half: until it records again */
	spw_thr_store_rlx(&rig.stop, 1);
	pthread_join(thread, NULL);
	spw_flight_freeze(&flight);
	flight_file_write(&rig, path);
	assert_true(flight_again(path, NULL).ended);
	spw_exec_stop(rig.exec, 2000);
	spw_pipe_reclaim(rig.pipe);
	rig_free(&rig); /* the rated source counts what it still had */
	spw_flight_close(&flight);
	unlink(path);
}

/* A clock whose uncertainty grows all the time fills no ring while no frame comes: one CLOCK holds
 * the newest. Frames were stamped long before they are polled, so that since when they have waited
 * hangs on the uncertainty at that moment. */
static void test_idle_clock(void **state)
{
	static struct spw_clock_box box;
	struct spw_pipe_conf conf = {.can_tx = true,
				     .nic_stamps = true,
				     .nic_clock = &box,
				     .backend[0].learns = SPW_CAUSE_EXEC_INLINE};
	struct spw_clock_map map;
	struct outcome out;
	struct spw_ledger ledger;
	char path[256];
	uint8_t *idle;
	struct rig rig;

	(void)state;
	flight_file_name(path, sizeof(path), "idle");
	spw_clock_map_identity(&map);
	map.other_base = spw_tsc_now();
	map.ref_base = map.other_base - (1u << 30);
	map.drift_2_32 = 1u << 20;
	spw_clock_box_put(&box, &map);
	assert_int_equal(spw_flight_open(&flight, SMALL, 0, -1), 0);
	rig_open(&rig, "null:size=64,stamps=1", "echo", SPW_EXEC_INLINE, 8);
	conf = flight_conf(conf);
	conf.slow_tsc = 1ull << 60; /* nothing else is recorded: no step of the loop is a gap */
	rig_pipe(&rig, conf);
	spw_pipe_begin(rig.pipe);
	for (int part = 0; part < 3; part++) {
		rig.dry = true;
		while (rig.pipe->rec.pending_head != rig.pipe->rec.pending_tail)
			spw_pipe_run_once(rig.pipe);
		idle = flight.at;
		for (int i = 0; i < 3000; i++) {
			rig.pipe->house_turns = 1;
			spw_pipe_run_once(rig.pipe);
		}
		assert_in_range(flight.at - idle, 0, sizeof(struct spw_flight_clock));
		rig.dry = false;
		for (int i = 0; i < 100; i++)
			spw_pipe_run_once(rig.pipe);
	}
	spw_pipe_end(rig.pipe);
	spw_flight_freeze(&flight);
	flight_file_write(&rig, path);
	out = outcome_of(&rig);
	assert_true(flight_again(path, &out).from_start);
	free(out.view);
	rig_close(&rig, &ledger);
	spw_flight_close(&flight);
	unlink(path);
}

/* Nobody gives the frozen half back: the owner fills the other one, then records nothing, and what
 * comes after is not joined to what was before. */
static void test_frozen_for_long(void **state)
{
	struct spw_ledger ledger;
	pthread_t thread;
	char path[256];
	struct rig rig;

	(void)state;
	flight_file_name(path, sizeof(path), "frozen");
	assert_int_equal(spw_flight_open(&flight, SMALL, 0, -1), 0);
	rig_open(&rig, "null:size=64", "null", SPW_EXEC_INLINE, 64);
	rig_pipe(&rig, flight_conf((struct spw_pipe_conf){
			       .burst = 1, .backend[0].learns = SPW_CAUSE_EXEC_INLINE}));
	assert_int_equal(pthread_create(&thread, NULL, run_pipe, &rig), 0);
	polled(&rig, 100000);
	spw_flight_ask(&flight);
	while (!spw_flight_is_granted(&flight))
		usleep(100);
	while (!spw_thr_load_rlx(&flight.missed_cnt))
		usleep(100);
	flight_file_write(&rig, path);
	flight_again(path, NULL); /* nobody wrote into it meanwhile */
	spw_flight_return(&flight);
	polled(&rig, 100000);
	spw_thr_store_rlx(&rig.stop, 1);
	pthread_join(thread, NULL);
	spw_flight_freeze(&flight);
	flight_file_write(&rig, path);
	assert_true(flight_again(path, NULL).ended);
	rig_close(&rig, &ledger);
	spw_flight_close(&flight);
	unlink(path);
}

/* ---- files ---- */

/* A short recording: its bytes in memory. */
static uint8_t *short_file(const char *path, size_t *bytes_out)
{
	struct spw_ledger ledger;
	uint8_t *memory;
	struct stat st;
	struct rig rig;
	int fd;

	assert_int_equal(spw_flight_open(&flight, SMALL, 16, -1), 0);
	rig_open(&rig, "null:size=64", "echo", SPW_EXEC_INLINE, 8);
	rig_pipe(&rig,
		 flight_conf((struct spw_pipe_conf){.frames_max = 300,
						    .can_tx = true,
						    .backend[0].learns = SPW_CAUSE_EXEC_INLINE}));
	spw_pipe_run(rig.pipe, &rig.stop);
	spw_flight_freeze(&flight);
	flight_file_write(&rig, path);
	rig_close(&rig, &ledger);
	spw_flight_close(&flight);
	fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	*bytes_out = (size_t)st.st_size;
	memory = malloc(*bytes_out);
	assert_non_null(memory);
	assert_int_equal(read(fd, memory, *bytes_out), st.st_size);
	close(fd);
	return memory;
}

/* Cut anywhere, or changed where it matters: one line, and nothing is used. */
static void test_broken_files(void **state)
{
	struct spw_flight_read file;
	char path[256], text[64];
	uint8_t *memory;
	size_t bytes;

	(void)state;
	flight_file_name(path, sizeof(path), "broken");
	memory = short_file(path, &bytes);
	assert_int_equal(spw_flight_read_memory(memory, bytes, &file), 0);
	for (size_t cut = 0; cut < bytes; cut += 8) {
		assert_int_equal(spw_flight_read_memory(memory, cut, &file), -EPROTO);
		assert_null(strchr(spw_err_text(), '\n'));
	}
	for (uint32_t version = 0; version < SPW_FLIGHT_VERSION; version++) {
		((struct spw_flight_file *)memory)->version = version;
		snprintf(text, sizeof(text), "a recording of format %u; this program reads format",
			 version);
		assert_int_equal(spw_flight_read_memory(memory, bytes, &file), -EPROTO);
		assert_non_null(strstr(spw_err_text(), text));
	}
	((struct spw_flight_file *)memory)->version = SPW_FLIGHT_VERSION;
	memory[sizeof(struct spw_flight_file) + sizeof(struct spw_flight_lane) +
	       sizeof(struct spw_flight_seg)] = SPW_FLIGHT_KIND_CNT;
	assert_int_equal(spw_flight_read_memory(memory, bytes, &file), -EPROTO);
	free(memory);
	assert_int_equal(truncate(path, (off_t)bytes - 8), 0);
	assert_int_equal(spw_flight_read_open(path, &file), -EPROTO);
	assert_non_null(strstr(spw_err_text(), path));
	unlink(path);
	assert_int_equal(spw_flight_read_open(path, &file), -ENOENT);
}

/* Moves the first SNAP behind the DONE after it: the bytes come when their batch is no more. */
static void snap_late(const struct spw_flight_seg *seg)
{
	const struct spw_flight_rec *snap = spw_flight_first(seg), *done;
	uint8_t bytes[2048], *at, *next;
	size_t between;

	while (snap->kind != SPW_FLIGHT_SNAP)
		snap = spw_flight_after(seg, snap);
	for (done = snap; done->kind != SPW_FLIGHT_DONE;)
		done = spw_flight_after(seg, done);
	assert_in_range(snap->bytes, 1, sizeof(bytes));
	memcpy(bytes, snap, snap->bytes);
	at = (uint8_t *)(uintptr_t)snap;
	next = at + snap->bytes;
	between = (size_t)((const uint8_t *)done + done->bytes - next);
	memmove(at, next, between);
	memcpy(at + between, bytes, (size_t)(next - at));
}

static void test_late_snap(void **state)
{
	const struct spw_handler *handler;
	struct spw_replay *replay;
	struct spw_flight_read file;
	uint8_t *memory;
	char path[256];
	size_t bytes;

	(void)state;
	flight_file_name(path, sizeof(path), "snap");
	memory = short_file(path, &bytes);
	assert_int_equal(spw_flight_read_memory(memory, bytes, &file), 0);
	snap_late(file.lane[0].seg[0]);
	assert_int_equal(spw_handler_open("echo", &handler), 0);
	assert_int_equal(spw_replay_open(&file.lane[0], &replay), 0);
	assert_int_equal(spw_replay_handler(replay, handler), 0);
	assert_int_equal(spw_replay_run(replay), 0);
	assert_int_equal(spw_replay_result(replay)->as_recorded, 300);
	spw_replay_close(replay);
	spw_handler_close(handler);
	free(memory);
	unlink(path);
}

/* Killed while it writes the next file: the one before is whole. A process that is killed at any
 * moment stands for a crash. */
static void test_killed_while_writing(void **state)
{
	struct spw_ledger ledger;
	char path[256], beside[300];
	struct rig rig;

	(void)state;
	flight_file_name(path, sizeof(path), "killed");
	assert_int_equal(spw_flight_open(&flight, SMALL, 0, -1), 0);
	rig_open(&rig, "null:size=64", "echo", SPW_EXEC_INLINE, 8);
	rig_pipe(&rig,
		 flight_conf((struct spw_pipe_conf){.frames_max = 100000,
						    .burst = 4,
						    .can_tx = true,
						    .backend[0].learns = SPW_CAUSE_EXEC_INLINE}));
	spw_pipe_run(rig.pipe, &rig.stop);
	spw_flight_freeze(&flight);
	flight_file_write(&rig, path);
	for (int i = 0; i < 20; i++) {
		pid_t child = fork();

		assert_true(child >= 0);
		if (child == 0)
			for (;;)
				flight_file_write(&rig, path);
		usleep(500 + 700 * (useconds_t)i);
		kill(child, SIGKILL);
		snprintf(beside, sizeof(beside), "%s.%d.tmp", path, (int)child);
		assert_int_equal(waitpid(child, NULL, 0), child);
		unlink(beside);
		flight_again(path, NULL);
	}
	rig_close(&rig, &ledger);
	spw_flight_close(&flight);
	unlink(path);
}

static void test_too_small(void **state)
{
	(void)state;
	assert_int_equal(spw_flight_open(&flight, 4 << 20, 2048, -1), -EINVAL);
	assert_non_null(strstr(spw_err_text(), "MiB"));
	assert_int_equal(spw_flight_open(&flight, 4 << 20, SPW_FLIGHT_SNAP_MAX + 1, -1), -EINVAL);
	spw_flight_close(&flight);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_runs_again),
		cmocka_unit_test(test_runs_losses_again),
		cmocka_unit_test(test_changed_burst),
		cmocka_unit_test(test_idle_clock),
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_frozen_for_long),
		cmocka_unit_test(test_broken_files),
		cmocka_unit_test(test_late_snap),
		cmocka_unit_test(test_killed_while_writing),
		cmocka_unit_test(test_too_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
