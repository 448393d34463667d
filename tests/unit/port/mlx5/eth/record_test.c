/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A recording of a lane over the NIC that is moved by hand: its raw CQEs are read again by the
 * port's burst function and come to the recorded frames, whatever the layout; what was changed in
 * the file is found, and its batch named. record_test FOLDER writes recordings for the
 * corpus of fuzz_flight instead (tests/corpus/make_flight_corpus.py).
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exec/spw_handler.h"
#include "hand_pipe.h"
#include "model.h"
#include "replay/spw_replay.h"
#include "port/mlx5/eth/raw.h"

#define RING_BYTES ((size_t)8 << 20)

/* A lane: the NIC's queue, an inline executor, a pipe that is recorded. */
struct lane {
	struct hand h;
	const struct spw_handler *handler;
	struct spw_exec *exec;
	struct spw_pipe *pipe;
	struct spw_flight flight;
	uint64_t seed;
	bool bad; /* frames arrive that the NIC could not deliver */
};

static struct lane lane; /* aligned, and too large for a stack under a sanitizer */

static void lane_open(unsigned flags, uint32_t snap_bytes)
{
	struct hand_conf c = model_conf(flags, 0, 0);
	/* so low a threshold makes a gap of many a poll, whose record comes before the burst's */
	const struct spw_pipe_conf pc = {.burst = 16,
					 .record = true,
					 .flight = &lane.flight,
					 .slow_tsc = 2000,
					 .slow_wait_tsc = 1000};

	memset(&lane, 0, sizeof(lane));
	lane.seed = 7;
	assert_int_equal(hand_open(&lane.h, &c), 0);
	assert_int_equal(mlx5_eth_queue_raw_keep(lane.h.q, &lane.h.pq), 0);
	assert_int_equal(spw_handler_open("sum", &lane.handler), 0);
	lane.exec = hand_exec(&lane.h, lane.handler);
	assert_int_equal(spw_flight_open(&lane.flight, RING_BYTES, snap_bytes, -1), 0);
	lane.pipe = hand_pipe(&lane.h, lane.exec, pc);
}

/* Frames arrive in sessions and one by one; an enhanced block needs a plain CQE before it. */
static void arrive(void)
{
	bool compressed = lane.h.conf.flags & MLX5_F_COMPRESSED,
	     enhanced = lane.h.conf.flags & MLX5_F_ENHANCED;
	struct hand_frame f[SPW_BURST_MAX];
	uint64_t r = unit_random(&lane.seed);
	uint32_t cnt = 2 + (uint32_t)(r >> 8) % (enhanced ? MLX5_MINI_ENHANCED_CNT - 2 : 30);

	if (compressed && lane.h.pi && r & 1) {
		if (cnt <= hand_room(&lane.h))
			hand_session(&lane.h, cnt, f);
		return;
	}
	if (lane.bad && hand_room(&lane.h))
		hand_bad_frame(&lane.h, SPW_PRM_SYN_LOCAL_LENGTH_ERR, 1);
	for (uint32_t i = 0; i < cnt && hand_room(&lane.h); i++)
		hand_plain(&lane.h, 64 + (uint32_t)(unit_random(&lane.seed) % 128), NULL);
}

static void lane_run(uint64_t frames)
{
	spw_pipe_begin(lane.pipe);
	while (lane.pipe->ledger.polled_frames < frames) {
		arrive();
		spw_pipe_run_once(lane.pipe);
	}
	spw_pipe_end(lane.pipe);
	spw_flight_freeze(&lane.flight);
}

static void lane_close(void)
{
	spw_exec_stop(lane.exec, 1000);
	spw_exec_close(lane.exec);
	spw_handler_close(lane.handler);
	spw_flight_close(&lane.flight);
	free(lane.pipe);
	assert_int_equal(hand_close(&lane.h), 0);
}

static void file_write(const char *path)
{
	struct spw_flight_file file = {.lane_cnt = 1, .tsc_hz = 1000000000, .why = "test"};
	struct spw_flight_lane conf = {.port = "mlx5", .handler = "sum"};
	struct spw_flight *ring = &lane.flight;

	spw_pipe_flight_lane(lane.pipe, &conf);
	assert_int_equal(spw_flight_write(&ring, &conf, &file, 0, path), 0);
}

static void record(unsigned flags, uint32_t snap_bytes, uint64_t frames, const char *path)
{
	lane_open(flags, snap_bytes);
	lane_run(frames);
	file_write(path);
	lane_close();
}

static void record_bad(uint64_t frames, const char *path)
{
	lane_open(MLX5_F_STAMP, 0);
	lane.bad = true;
	lane_run(frames);
	file_write(path);
	lane_close();
}

/* The file in memory; the caller frees it. */
static uint8_t *file_read(const char *path, size_t *bytes_out)
{
	FILE *file = fopen(path, "rb");
	struct stat st;
	uint8_t *at;

	assert_non_null(file);
	assert_int_equal(fstat(fileno(file), &st), 0);
	*bytes_out = (size_t)st.st_size;
	at = malloc(*bytes_out);
	assert_non_null(at);
	assert_int_equal(fread(at, 1, *bytes_out, file), *bytes_out);
	fclose(file);
	return at;
}

/* handler: runs again; NULL: verdicts are taken as recorded. */
static struct spw_replay_result again(const uint8_t *at, size_t bytes, const char *handler)
{
	const struct spw_handler *h;
	struct spw_replay_result result;
	struct spw_replay *replay;
	struct spw_flight_read file;

	assert_int_equal(spw_flight_read_memory(at, bytes, &file), 0);
	assert_int_equal(spw_replay_open(&file.lane[0], &replay), 0);
	if (handler) {
		assert_int_equal(spw_handler_open(handler, &h), 0);
		assert_int_equal(spw_replay_handler(replay, h), 0);
	}
	assert_int_equal(spw_replay_run(replay), 0);
	result = *spw_replay_result(replay);
	spw_replay_close(replay);
	return result;
}

static void temporary(char *path, size_t bytes)
{
	const char *folder = getenv("TMPDIR");

	snprintf(path, bytes, "%s/spw_mlx5_%d.rec", folder ? folder : "/tmp", (int)getpid());
}

static void test_every_layout(void **state)
{
	static const unsigned flags[] = {
		MLX5_F_STAMP,
		0,
		MLX5_F_COMPRESSED,
		MLX5_F_COMPRESSED | MLX5_F_ENHANCED,
		MLX5_F_STRIDING | MLX5_F_STAMP,
		MLX5_F_STRIDING | MLX5_F_COMPRESSED,
		MLX5_F_STRIDING | MLX5_F_COMPRESSED | MLX5_F_ENHANCED,
	};
	struct spw_replay_result result;
	char path[256];

	(void)state;
	temporary(path, sizeof(path));
	for (unsigned i = 0; i < SPW_ARRAY_CNT(flags); i++) {
		size_t bytes;
		uint8_t *at;

		record(flags[i], 0, 5000, path);
		at = file_read(path, &bytes);
		result = again(at, bytes, NULL);
		assert_string_equal(result.raw_first, "");
		assert_int_equal(result.raw_differs, 0);
		assert_true(result.frames >= 5000);
		assert_in_range(result.raw_bursts, result.polls, 2 * result.polls);
		assert_int_equal(result.ledger_differs, 0);
		free(at);
	}
	unlink(path);
}

/* A CQE of a frame that was lost ends a burst, or is all that one reads: a record without frames.
 */
static void test_without_frames(void **state)
{
	struct spw_replay_result result;
	const struct spw_flight_rec *rec;
	struct spw_flight_read file;
	uint32_t raws = 0;
	char path[256];
	size_t bytes;
	uint8_t *at;

	(void)state;
	temporary(path, sizeof(path));
	record_bad(500, path);
	at = file_read(path, &bytes);
	assert_int_equal(spw_flight_read_memory(at, bytes, &file), 0);
	for (rec = spw_flight_first(file.lane[0].seg[0]); rec;
	     rec = spw_flight_after(file.lane[0].seg[0], rec))
		raws += rec->kind == SPW_FLIGHT_RAW;
	assert_true(raws >= 10);
	result = again(at, bytes, NULL);
	assert_int_equal(result.raw_differs, 0);
	assert_int_equal(result.raw_bursts, result.polls + raws);
	assert_int_equal(result.ledger_differs, 0);
	free(at);
	unlink(path);
}

/* The run of plain CQEs in the first POLL with more than `frames` frames. */
static struct mlx5_eth_raw_run *run_find(const uint8_t *at, size_t bytes, uint32_t frames)
{
	const struct spw_flight_rec *rec;
	struct spw_flight_read file;

	assert_int_equal(spw_flight_read_memory(at, bytes, &file), 0);
	for (rec = spw_flight_first(file.lane[0].seg[0]); rec;
	     rec = spw_flight_after(file.lane[0].seg[0], rec))
		if (rec->kind == SPW_FLIGHT_POLL && rec->cnt > frames)
			break;
	assert_non_null(rec);
	assert_true(rec->what & SPW_FLIGHT_CQES);
	return (void *)((uint8_t *)(uintptr_t)rec + sizeof(struct spw_flight_poll) +
			sizeof(struct spw_flight_sums) + sizeof(struct mlx5_eth_raw_head));
}

/* The first value of a column is in all of its values. */
static void test_changed_byte(void **state)
{
	static const struct {
		uint32_t column;
		uint64_t bit;
		const char *words;
	} change[] = {{2, 1, "sum of lengths"},
		      {1, 1, "sum of hashes"},
		      {3, SPW_DESC_L3_OK << 9, "sum of flags"},
		      {0, 1, "sum of NIC stamps"},
		      {3, 1u << 24, "frames in the burst: 0, recorded"}};
	struct spw_replay_result result;
	struct mlx5_eth_raw_run *run;
	struct spw_columns *columns;
	uint8_t *at, *stamp;
	char path[256];
	size_t bytes;

	(void)state;
	temporary(path, sizeof(path));
	record(MLX5_F_STAMP, 0, 300, path);
	at = file_read(path, &bytes);
	run = run_find(at, bytes, 3);
	columns = (void *)(run + 1);
	assert_true(spw_column_width(run->widths, 0) > 0);
	for (unsigned i = 0; i < SPW_ARRAY_CNT(change); i++) {
		columns->first[change[i].column] ^= change[i].bit;
		result = again(at, bytes, NULL);
		assert_int_equal(result.raw_differs, 1);
		assert_non_null(strstr(result.raw_first, change[i].words));
		columns->first[change[i].column] ^= change[i].bit;
	}
	/* the stamp of frame 3 alone */
	stamp = (uint8_t *)(columns + 1) + (size_t)3 * spw_column_width(run->widths, 0);
	*stamp ^= 1;
	result = again(at, bytes, NULL);
	assert_int_equal(result.raw_differs, 1);
	assert_non_null(strstr(result.raw_first, "sum of NIC stamps"));
	*stamp ^= 1;
	assert_int_equal(again(at, bytes, NULL).raw_differs, 0);
	free(at);
	unlink(path);
}

/* Runs that no burst writes, or that reach beyond their record, come to no frame. */
static void test_bad_runs(void **state)
{
	static const struct mlx5_eth_raw_run bad[] = {
		{0, 0, 1, 0},
		{0, SPW_BURST_MAX + 2, 1, 0},
		{0, UINT16_MAX, 1, 0xff},
		{0, 4, 2, 0},
		{0, 4, UINT8_MAX, 0},
		{0, SPW_BURST_MAX, 1, 0xff},
		{0, SPW_BURST_MAX, 0, 0},
	};
	struct mlx5_eth_raw_run *run;
	char path[256];
	size_t bytes;
	uint8_t *at;

	(void)state;
	temporary(path, sizeof(path));
	record(MLX5_F_STAMP, 0, 300, path);
	at = file_read(path, &bytes);
	run = run_find(at, bytes, 3);
	for (unsigned i = 0; i < SPW_ARRAY_CNT(bad); i++) {
		const struct mlx5_eth_raw_run good = *run;

		*run = bad[i];
		run->ci = good.ci;
		assert_int_equal(again(at, bytes, NULL).raw_differs, 1);
		*run = good;
	}
	assert_int_equal(again(at, bytes, NULL).raw_differs, 0);
	free(at);
	unlink(path);
}

/* Frames of 64 to 191 bytes, of which 128 are kept: some are whole, and only they run again. */
static void test_verdicts(void **state)
{
	struct spw_replay_result result;
	char path[256];
	size_t bytes;
	uint8_t *at;

	(void)state;
	temporary(path, sizeof(path));
	record(MLX5_F_STAMP, 128, 2000, path);
	at = file_read(path, &bytes);
	result = again(at, bytes, NULL);
	assert_int_equal(result.verdicts + result.as_recorded, 0);
	result = again(at, bytes, "sum");
	assert_true(result.verdicts > 500 && result.as_recorded > 500);
	assert_int_equal(result.verdicts + result.as_recorded, result.frames);
	assert_int_equal(result.verdict_differs + result.digest_differs, 0);
	result = again(at, bytes, "echo"); /* they are no IPv4 */
	assert_int_equal(result.verdict_differs, result.verdicts);
	assert_non_null(strstr(result.verdict_first, ": bad, recorded consume"));
	free(at);
	record(MLX5_F_STAMP, 192, 2000, path);
	at = file_read(path, &bytes);
	result = again(at, bytes, "sum");
	assert_int_equal(result.as_recorded, 0);
	assert_int_equal(result.verdicts, result.frames);
	assert_int_equal(result.digest_differs, 0);
	result = again(at, bytes, "null"); /* the same verdicts, and no sum */
	assert_int_equal(result.verdict_differs, 0);
	assert_true(result.digest_differs > 50);
	assert_non_null(strstr(result.verdict_first, "batch 0, digest 0, recorded "));
	free(at);
	unlink(path);
}

static int corpus(const char *folder)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/mlx5_latency", folder);
	record(MLX5_F_STAMP, 0, 60, path);
	snprintf(path, sizeof(path), "%s/mlx5_compressed", folder);
	record(MLX5_F_COMPRESSED, 128, 60, path);
	snprintf(path, sizeof(path), "%s/mlx5_striding", folder);
	record(MLX5_F_STRIDING | MLX5_F_COMPRESSED | MLX5_F_ENHANCED, 0, 60, path);
	snprintf(path, sizeof(path), "%s/mlx5_errors", folder);
	record_bad(60, path);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_layout), cmocka_unit_test(test_without_frames),
		cmocka_unit_test(test_changed_byte), cmocka_unit_test(test_bad_runs),
		cmocka_unit_test(test_verdicts),
	};

	return argc > 1 ? corpus(argv[1]) : cmocka_run_group_tests(tests, NULL, NULL);
}
