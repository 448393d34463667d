/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Events of a queue's objects: which of them are to be recovered from, and which are of a queue
 * that was recovered since.
 */
#include <time.h>

#include "base/spw_monotonic.h"
#include "rdma/spw_rdma_ctl.h"
#include "rdma/spw_rdma_side.h"
#include "unit_test.h"

static void inject(struct rdma_side *side, enum ibv_event_type type)
{
	struct ibv_cq cq = {.cq_context = side};
	struct ibv_wq wq = {.wq_context = side};
	struct ibv_async_event event = {.event_type = type};

	if (type == IBV_EVENT_CQ_ERR)
		event.element.cq = &cq;
	else
		event.element.wq = &wq;
	rdma_side_async(NULL, &event);
}

static void nap(uint32_t ms)
{
	const struct timespec ts = {.tv_nsec = ms * 1000000l};

	nanosleep(&ts, NULL);
}

/* An event within the window after a recovery is observed at 7 completions, and waits. Once more if
 * this thread stood still until the window was over. */
static void recovered_and_late(struct rdma_side *side)
{
	const char *what;

	do {
		*side = (struct rdma_side){0};
		rdma_side_recovered(side, true);
		inject(side, IBV_EVENT_WQ_FATAL);
		what = rdma_side_take(side, 7);
	} while (what && spw_monotonic_ms() - side->recovered_ms >= RDMA_SIDE_LATE_MS);
	assert_null(what);
}

static void test_first_event(void **state)
{
	struct rdma_side side = {0};

	(void)state;
	assert_null(rdma_side_take(&side, 0));
	inject(&side, IBV_EVENT_WQ_FATAL);
	assert_non_null(rdma_side_take(&side, 7));
	assert_null(rdma_side_take(&side, 7));
	inject(&side, IBV_EVENT_WQ_FATAL);
	rdma_side_reset(&side); /* a completion reported it first: one reset is enough */
	assert_null(rdma_side_take(&side, 7));
}

/* The event comes when the queue works again, and the queue goes on receiving: nothing. */
static void test_late_event(void **state)
{
	struct rdma_side side;

	(void)state;
	recovered_and_late(&side);
	assert_null(rdma_side_take(&side, 8));
	nap(RDMA_SIDE_LATE_MS + 5);
	assert_null(rdma_side_take(&side, 9));
	assert_null(rdma_side_take(&side, 9));
	inject(&side, IBV_EVENT_WQ_FATAL); /* long enough after a recovery not to be late */
	assert_non_null(rdma_side_take(&side, 9));
}

/* The owner is preempted from the event to the end of the window. What the queue has completed
 * meanwhile is read by the burst after that call. */
static void test_late_event_and_late_owner(void **state)
{
	struct rdma_side side;

	(void)state;
	recovered_and_late(&side);
	nap(RDMA_SIDE_LATE_MS + 5);
	assert_null(rdma_side_take(&side, 7));
	assert_null(rdma_side_take(&side, 8));
	assert_null(rdma_side_take(&side, 8));
}

/* The queue completes nothing after it: it did fail again, without a flush. A completion
 * queue's error never waits. */
static void test_silent_failure(void **state)
{
	struct rdma_side side;

	(void)state;
	recovered_and_late(&side);
	nap(RDMA_SIDE_LATE_MS + 5);
	assert_null(rdma_side_take(&side, 7));
	assert_non_null(rdma_side_take(&side, 7));
	assert_null(rdma_side_take(&side, 7));
	rdma_side_recovered(&side, true);
	inject(&side, IBV_EVENT_CQ_ERR);
	assert_non_null(rdma_side_take(&side, 7));
	assert_true(side.recreate);
}

/* Twice for no known reason, and nothing in between. */
static void test_stuck(void **state)
{
	struct rdma_side side = {0};

	(void)state;
	assert_false(rdma_side_is_stuck(&side));
	rdma_side_take(&side, 7);
	rdma_side_recovered(&side, false);
	rdma_side_take(&side, 7);
	assert_true(rdma_side_is_stuck(&side));
	rdma_side_take(&side, 8);
	assert_false(rdma_side_is_stuck(&side));
	rdma_side_recovered(&side, true);
	assert_false(rdma_side_is_stuck(&side));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_event),
		cmocka_unit_test(test_late_event),
		cmocka_unit_test(test_late_event_and_late_owner),
		cmocka_unit_test(test_silent_failure),
		cmocka_unit_test(test_stuck),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
