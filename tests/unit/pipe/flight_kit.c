/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include "flight_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/spw_err.h"

/* Without the padding behind the last counter, which a copy may leave out. */
#define LEDGER_BYTES                                  \
	(offsetof(struct spw_ledger_lcore, dropped) + \
	 sizeof(((struct spw_ledger_lcore *)0)->dropped))

struct spw_flight flight;

void flight_file_name(char *path, size_t bytes, const char *name)
{
	const char *folder = getenv("TMPDIR");

	snprintf(path, bytes, "%s/spw_flight_%d_%s.rec", folder ? folder : "/tmp", (int)getpid(),
		 name);
}

struct spw_pipe_conf flight_conf(struct spw_pipe_conf conf)
{
	conf.record = true;
	conf.flight = &flight;
	conf.slow_tsc = 20000;
	conf.slow_wait_tsc = 10000;
	for (uint32_t i = 0; i < SPW_PIPE_BACKEND_MAX; i++)
		if (!conf.backend[i].learns)
			conf.backend[i].learns = SPW_CAUSE_EXEC_POLLS;
	return conf;
}

void flight_file_write(const struct rig *rig, const char *path)
{
	struct spw_flight_file file = {.lane_cnt = 1, .tsc_hz = 1000000000, .why = "test"};
	struct spw_flight *ring = &flight;
	struct spw_flight_lane lane = {.port = "null", .handler = "echo"};

	spw_pipe_flight_lane(rig->pipe, &lane);
	assert_int_equal(spw_flight_write(&ring, &lane, &file, 0, path), 0);
}

static struct spw_rec_view *view_of(struct spw_pipe *pipe)
{
	struct spw_rec_view *view = aligned_alloc(_Alignof(struct spw_rec_view), sizeof(*view));

	assert_non_null(view);
	spw_rec_view_init(view);
	spw_pipe_collect_rest(pipe, view);
	return view;
}

struct outcome outcome_of(const struct rig *rig)
{
	struct spw_pipe_summary sum;
	struct outcome out = {.view = view_of(rig->pipe)};

	spw_pipe_summary(rig->pipe, &sum);
	out.ledger = sum.ledger;
	out.executed = rig_executed(rig);
	return out;
}

static void assert_same_worst(const struct spw_rec_view *a, const struct spw_rec_view *b)
{
	assert_int_equal(a->worst_cnt, b->worst_cnt);
	for (uint32_t i = 0; i < a->worst_cnt; i++) {
		assert_int_equal(a->worst[i].seq, b->worst[i].seq);
		assert_int_equal(a->worst[i].cause, b->worst[i].cause);
		assert_memory_equal(&a->worst[i].at, &b->worst[i].at, sizeof(a->worst[i].at));
		assert_memory_equal(a->worst[i].blame, b->worst[i].blame,
				    sizeof(a->worst[i].blame));
	}
}

struct spw_replay_result flight_again(const char *path, const struct outcome *out)
{
	struct spw_replay_result result;
	struct spw_replay *replay;
	struct spw_pipe_summary sum;
	struct spw_flight_read file;

	if (spw_flight_read_open(path, &file))
		fail_msg("%s", spw_err_text());
	if (spw_replay_open(&file.lane[0], &replay))
		fail_msg("%s", spw_err_text());
	if (spw_replay_run(replay))
		fail_msg("%s", spw_err_text());
	result = *spw_replay_result(replay);
	assert_int_equal(result.ledger_differs, 0);
	assert_int_equal(result.cause_differs, 0);
	assert_int_equal(result.since_differs, 0);
	if (out) {
		spw_pipe_summary(spw_replay_pipe(replay), &sum);
		assert_memory_equal(&sum.ledger, &out->ledger, LEDGER_BYTES);
		assert_int_equal(spw_replay_executed(replay), out->executed);
	}
	if (out && out->view) {
		struct spw_rec_view *view = view_of(spw_replay_pipe(replay));

		assert_memory_equal(&view->causes, &out->view->causes, sizeof(view->causes));
		assert_same_worst(view, out->view);
		assert_memory_equal(view->total, out->view->total, sizeof(view->total));
		free(view);
	}
	spw_replay_close(replay);
	spw_flight_read_close(&file);
	return result;
}
