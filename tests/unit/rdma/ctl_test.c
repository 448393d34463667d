/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Events on their way from the control thread to an owner that does not take them for a while. The
 * device is a descriptor that never becomes readable; the test's client floods the ring in the
 * control thread.
 */
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/spw_monotonic.h"
#include "../unit_test.h"
#include "rdma/spw_rdma_ctl.h"

#define FLOOD  (4u * RDMA_CTL_EVENT_CNT)
#define WAIT_S 20

struct rig {
	struct ibv_context ctx;
	struct rdma_dev dev;
	struct rdma_ctl *ctl;
	uint32_t go, done; /* what to do next, what was done */
};

static void report(struct rig *rig, enum spw_port_event_kind kind, uint32_t code)
{
	const struct spw_port_event event = {.kind = kind, .code = code};

	rdma_ctl_report(rig->ctl, 0, &event);
}

static void flood(void *arg, uint64_t now_ms SPW_UNUSED)
{
	struct rig *rig = arg;

	if (rig->done == spw_thr_load_acq(&rig->go)) /* [T1 acquire, pairs with run_flood] */
		return;
	for (uint32_t i = 0; i < FLOOD; i++)
		report(rig, SPW_PORT_EVENT_PEER_DOWN, i);
	for (uint32_t i = 0; i < FLOOD; i++)
		report(rig, i % 2 ? SPW_PORT_EVENT_LINK_UP : SPW_PORT_EVENT_LINK_DOWN, i);
	report(rig, SPW_PORT_EVENT_DEVICE_GONE, 0);
	report(rig, SPW_PORT_EVENT_LINK_DOWN, FLOOD);
	spw_thr_store_rel(&rig->done, rig->go); /* [T1 release, pairs with run_flood] */
}

static void run_flood(struct rig *rig)
{
	const time_t nap_ns = 1000000;

	spw_thr_store_rel(&rig->go, 1); /* [T1 release, pairs with flood] */
	rdma_ctl_wake(rig->ctl);
	while (!spw_thr_load_acq(&rig->done)) /* [T1 acquire, pairs with flood] */
		nanosleep(&(struct timespec){.tv_nsec = nap_ns}, NULL);
}

static void rig_open(struct rig *rig)
{
	const struct rdma_ctl_client client = {.arg = rig, .turn = flood};

	memset(rig, 0, sizeof(*rig));
	rig->ctx.async_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	rig->dev.ctx = &rig->ctx;
	strcpy(rig->dev.name, "none");
	assert_int_equal(rdma_ctl_open(&rig->dev, 1, &client, &rig->ctl), 0);
	assert_int_equal(rdma_ctl_start(rig->ctl), 0);
}

static void rig_close(struct rig *rig)
{
	rdma_ctl_close(rig->ctl);
	close(rig->ctx.async_fd);
}

/* The owner slept through all of it. */
static void urgent_events_are_not_lost(void **state SPW_UNUSED)
{
	const uint64_t give_up = spw_monotonic_ms() + WAIT_S * 1000;
	uint32_t cnt = 0, gone = 0, peer = 0, link = 0;
	struct spw_port_event event;
	struct rig rig;

	rig_open(&rig);
	run_flood(&rig);
	while (link != FLOOD) { /* the newest state of the link comes when there is room again */
		assert_true(spw_monotonic_ms() < give_up);
		if (!rdma_ctl_events(rig.ctl, 0, &event, 1))
			continue;
		cnt++;
		gone += event.kind == SPW_PORT_EVENT_DEVICE_GONE;
		if (event.kind == SPW_PORT_EVENT_PEER_DOWN)
			assert_int_equal(event.code, peer++); /* in order, from the first one */
		else
			link = event.code;
	}
	assert_int_equal(gone, 1);
	assert_true(peer > 0 && cnt <= RDMA_CTL_EVENT_CNT + 1);
	assert_int_equal(rdma_ctl_events(rig.ctl, 0, &event, 1), 0);
	rig_close(&rig);
}

/* Several laps of the ring, taken in pieces: nothing is lost, doubled or out of order. */
static void events_that_are_taken_arrive(void **state SPW_UNUSED)
{
	struct spw_port_event event[7];
	uint32_t sent = 0, got = 0;
	struct rig rig;

	rig_open(&rig);
	rdma_ctl_stop(rig.ctl); /* this thread is both ends now */
	while (got < 5 * RDMA_CTL_EVENT_CNT) {
		for (uint32_t i = 0; i < 5; i++)
			report(&rig, SPW_PORT_EVENT_PEER_UP, sent++);
		for (uint16_t n = rdma_ctl_events(rig.ctl, 0, event, SPW_ARRAY_CNT(event)), i = 0;
		     i < n; i++)
			assert_int_equal(event[i].code, got++);
	}
	rig_close(&rig);
}

#define PAUSE_MS 300u
#define SLEEP_MS 20

struct sleeper {
	uint64_t now_ms[3], real_ms[3]; /* at the turns */
	uint32_t turns;
};

static uint32_t sleep_shortly(void *arg SPW_UNUSED, uint64_t now_ms SPW_UNUSED,
			      struct pollfd *fd SPW_UNUSED, uint32_t fd_max SPW_UNUSED,
			      int *timeout_ms)
{
	*timeout_ms = SLEEP_MS;
	return 0;
}

/* Stands still in the first turn, as if the process were stopped there. */
static void stand_still(void *arg, uint64_t now_ms)
{
	struct sleeper *s = arg;
	const uint32_t turn = s->turns;

	if (turn == SPW_ARRAY_CNT(s->now_ms))
		return;
	s->now_ms[turn] = now_ms;
	s->real_ms[turn] = spw_monotonic_ms();
	if (!turn)
		nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000}, NULL);
	spw_thr_store_rel(&s->turns, turn + 1); /* [T2 release, pairs with a_pause] */
}

/* Nobody's deadline passes while this thread does not look: of each step its sleep counts, and a
 * little. */
static void a_pause_does_not_count(void **state SPW_UNUSED)
{
	struct sleeper s = {.turns = 0};
	const struct rdma_ctl_client client = {
		.arg = &s, .prepare = sleep_shortly, .turn = stand_still};
	struct rig rig = {.ctx.async_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};

	rig.dev.ctx = &rig.ctx;
	assert_int_equal(rdma_ctl_open(&rig.dev, 1, &client, &rig.ctl), 0);
	assert_int_equal(rdma_ctl_start(rig.ctl), 0);
	/* [T2 acquire, pairs with stand_still] */
	while (spw_thr_load_acq(&s.turns) < SPW_ARRAY_CNT(s.now_ms))
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	rig_close(&rig);
	assert_true(s.real_ms[1] - s.real_ms[0] >= PAUSE_MS);
	for (uint32_t i = 1; i < SPW_ARRAY_CNT(s.now_ms); i++)
		assert_in_range(s.now_ms[i] - s.now_ms[i - 1], SLEEP_MS, SLEEP_MS + 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(urgent_events_are_not_lost),
		cmocka_unit_test(events_that_are_taken_arrive),
		cmocka_unit_test(a_pause_does_not_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
