/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The watch over this process's live page (watch.h). Its thread sleeps, reads the page as any
 * reader does, and takes no lock of NCCL's calls.
 *
 *   open    requests of a connection that NCCL has not taken yet, or a connection being made
 *   moved   any of what a connection counts, or the stages of its requests
 *
 * An idle job has nothing open, and so never stands still. Time counts only as far as this thread
 * itself ran: a process that was stopped or frozen has not watched meanwhile. What moves again
 * while the snapshots are taken is not reported, and the watch goes on.
 *
 * Its end: finalize waits for it, END_MS at most, since a read of /proc or NVML may be stuck with
 * what hangs. The library stays in memory from the start of the thread on, so that one that is
 * stuck returns to code.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "base/spw_monotonic.h"
#include "base/spw_thread.h"
#include "hang/spw_hang.h"
#include "ncclnet/live.h"
#include "ncclnet/watch.h"
#include "opt/spw_opt.h"

#define SECOND_NS 1000000000ull
#define MIN_NS    SECOND_NS
#define MAX_NS    (3600 * SECOND_NS)
#define LOOK_CNT  16u /* in the time that nothing moves */
#define END_MS    2000u
#define STAGE_CNT                                         \
	((offsetof(struct spw_hang_conn_view, rail_cnt) - \
	  offsetof(struct spw_hang_conn_view, waiting)) / \
	 sizeof(uint32_t))

static struct {
	pthread_mutex_t lock; /* of end and runs */
	pthread_cond_t wake;
	bool end, runs;
	bool done; /* it has logged an answer, or is stuck */
	pthread_t thread;
	struct spw_hang_page *page;
	uint64_t limit_ns;
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

/* ---- the page ---- */

/* What a look finds. */
struct look {
	uint64_t sum; /* of all that moves */
	uint64_t open;
};

static void look_add(struct look *look, uint64_t value)
{
	look->sum = (look->sum ^ value) * 0x100000001b3ull; /* FNV-1a's prime */
}

/* An entry that changes under each try moves. */
static void look_conn(struct look *look, const struct spw_hang_conn *entry)
{
	struct spw_hang_conn c;
	uint32_t stage[STAGE_CNT];

	if (!spw_hang_entry_read(entry, &c, sizeof(c))) {
		look_add(look, spw_monotonic_ns());
		return;
	}
	look_add(look, c.view.state);
	look_add(look, c.begun);
	look_add(look, c.ended);
	memcpy(stage, &c.view.waiting, sizeof(stage));
	for (uint32_t i = 0; i < STAGE_CNT; i++)
		look_add(look, stage[i]);
	for (uint32_t i = 0; i < SPW_HANG_RAIL_MAX; i++)
		look_add(look, c.rail[i].acked_bytes);
	look->open += c.view.state == SPW_HANG_CONN_CONNECTING ? 1 : c.begun - c.ended;
}

/* An entry that was never written has the mark 0. */
static void look_take(const struct spw_hang_page *page, struct look *out)
{
	*out = (struct look){0};
	for (uint32_t i = 0; i < SPW_HANG_CONN_MAX; i++)
		if (spw_thr_load_rlx(&page->conn[i].mark))
			look_conn(out, &page->conn[i]);
}

/* ---- the thread ---- */

/* Returns: false: it has to end. */
static bool watch_nap(uint64_t until_ns, void *arg)
{
	const struct timespec until = {.tv_sec = (time_t)(until_ns / SECOND_NS),
				       .tv_nsec = (long)(until_ns % SECOND_NS)};
	bool end;

	(void)arg;
	pthread_mutex_lock(&watch.lock);
	while (!watch.end && spw_monotonic_ns() < until_ns)
		pthread_cond_clockwait(&watch.wake, &watch.lock, CLOCK_MONOTONIC, &until);
	end = watch.end;
	pthread_mutex_unlock(&watch.lock);
	return !end;
}

static void watch_line(const char *line, void *arg)
{
	(void)arg;
	spw_warn("%s", line);
}

static void watch_log(const struct spw_hang_answer *answer, const struct look *look)
{
	spw_warn("nothing has moved for %u s, and %u request%s open; what this host knows "
		 "(spinwire-doctor hang --hosts A,B asks all; the job goes on):",
		 (uint32_t)(watch.limit_ns / SECOND_NS), (uint32_t)look->open,
		 look->open == 1 ? " is" : "s are");
	spw_hang_answer_lines(answer, watch_line, NULL);
}

/* Not the sources that make a thread of the job work. Returns: whether this is over: an answer was
 * logged, or cannot be had. */
static bool watch_ask(const struct look *still)
{
	const struct spw_hang_where where = {.root = ""};
	struct spw_hang_case *c = calloc(1, sizeof(*c));
	struct spw_hang_answer answer;
	struct look now;
	int rc = c ? spw_hang_host_read(&where, watch_nap, NULL, c) : -ENOMEM;
	bool over = true;

	if (!rc) {
		spw_hang_host_focus(&c->host[0], nnet_live_pid());
		spw_hang_judge(c, &answer);
		look_take(watch.page, &now);
		over = now.sum == still->sum && answer.outcome != SPW_HANG_OUTCOME_moves;
		if (over)
			watch_log(&answer, still);
	} else if (rc != -ECANCELED) {
		spw_warn("NCCL_SPINWIRE_HANG: nothing moves, and why cannot be read: %s",
			 c ? spw_err_text() : "no memory");
	}
	if (c)
		spw_hang_case_free(c);
	free(c);
	return over;
}

/* Returns: NULL: it was ended; else it has done what it is for. */
static void *watch_run(void *arg)
{
	const uint64_t step_ns = watch.limit_ns / LOOK_CNT;
	uint64_t then = spw_monotonic_ns(), still_ns = 0;
	struct look was = {0}, is;

	(void)arg;
	pthread_setname_np(pthread_self(), "spw-watch");
	while (watch_nap(then + step_ns, NULL)) {
		const uint64_t now = spw_monotonic_ns();

		look_take(watch.page, &is);
		still_ns = is.open && is.sum == was.sum
				   ? still_ns + SPW_MIN(now - then, 2 * step_ns)
				   : 0;
		was = is;
		then = now;
		if (still_ns < watch.limit_ns)
			continue;
		if (watch_ask(&is))
			return &watch;
		still_ns = 0;
		then = spw_monotonic_ns();
	}
	return NULL;
}

/* ---- start and end ---- */

/* Returns: whether it is asked for, and *ns_out. A value that makes no sense is none. */
static bool watch_wanted(uint64_t *ns_out)
{
	const char *text = getenv("NCCL_SPINWIRE_HANG");

	if (!text || !*text || !strcmp(text, "0"))
		return false;
	if (!spw_opt_quantity(text, SPW_OPT_UNIT_NS, SECOND_NS, ns_out) &&
	    spw_in_range(*ns_out, MIN_NS, MAX_NS))
		return true;
	spw_warn("NCCL_SPINWIRE_HANG=%.64s: no time from 1s to 60min, so nobody looks for a hang: "
		 "set it to 30s, or to 0",
		 text);
	return false;
}

static void watch_pin(void)
{
	Dl_info info;

	if (dladdr(&watch, &info) && info.dli_fname)
		dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

/* The environment is read for each communicator that opens, until there is a thread. */
void nnet_watch_start(void)
{
	int rc;

	if (watch.runs || watch.done || !watch_wanted(&watch.limit_ns))
		return;
	watch.page = nnet_live_open();
	if (!watch.page) {
		spw_warn("NCCL_SPINWIRE_HANG needs the live page: unset NCCL_SPINWIRE_LIVE");
		return;
	}
	watch_pin();
	watch.end = false;
	rc = spw_thread_start(&watch.thread, watch_run, NULL);
	watch.runs = !rc;
	if (rc) {
		spw_warn("NCCL_SPINWIRE_HANG: no thread: %s", strerror(-rc));
		nnet_live_close(watch.page);
	}
}

/* A thread that is stuck keeps the page, and no other one is started. */
void nnet_watch_stop(void)
{
	const uint64_t until_ns = spw_monotonic_ns() + END_MS * 1000000ull;
	const struct timespec until = {.tv_sec = (time_t)(until_ns / SECOND_NS),
				       .tv_nsec = (long)(until_ns % SECOND_NS)};
	void *over = NULL;
	bool ran;

	pthread_mutex_lock(&watch.lock);
	ran = watch.runs;
	watch.runs = false;
	watch.end = true;
	pthread_cond_signal(&watch.wake);
	pthread_mutex_unlock(&watch.lock);
	if (!ran)
		return;
	if (pthread_clockjoin_np(watch.thread, &over, CLOCK_MONOTONIC, &until) == 0)
		nnet_live_close(watch.page);
	else
		over = &watch;
	watch.done = over != NULL;
}
