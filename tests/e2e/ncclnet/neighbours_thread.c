/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * neighbours.h as a library for a program that is not a test: its turns run in a thread of their
 * own, as a cmocka test, so that a failure is printed. tests/gpu/nccl_ranks.py loads it.
 */
#include <pthread.h>
#include <sched.h>

#include "base/spw_order.h"
#include "neighbours.h"

/* What passed between start and stop. */
struct neighbours_passed {
	uint64_t frames, messages, message_bytes;
};

static struct {
	const char *rule;
	pthread_t thread;
	uint32_t stop; /* [relaxed: nothing is published by it] */
	struct neighbours_passed passed;
	int failed;
} self;

static void run_until_stopped(void **state SPW_UNUSED)
{
	struct ucx_side_stat ucx;
	struct neighbours n;

	neighbours_start(&n, self.rule);
	while (!spw_thr_load_rlx(&self.stop)) {
		neighbours_turn(&n);
		sched_yield();
	}
	neighbours_stop(&n, &ucx);
	self.passed = (struct neighbours_passed){n.run.echoed, ucx.received, ucx.received_bytes};
}

static void *thread_main(void *arg SPW_UNUSED)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(run_until_stopped)};

	self.failed = cmocka_run_group_tests_name("neighbours", tests, NULL, NULL);
	return NULL;
}

/* called by tests/gpu/nccl_ranks.py */
int neighbours_thread_start(const char *rule);
int neighbours_thread_stop(struct neighbours_passed *passed_out);

/* rule lives until the stop. Returns: 0 or an error number. */
int neighbours_thread_start(const char *rule)
{
	self.rule = rule;
	self.stop = 0;
	return pthread_create(&self.thread, NULL, thread_main, NULL);
}

/* Returns: 0, or not 0: what went wrong was printed. */
int neighbours_thread_stop(struct neighbours_passed *passed_out)
{
	spw_thr_store_rlx(&self.stop, 1u);
	pthread_join(self.thread, NULL);
	*passed_out = self.passed;
	return self.failed;
}
