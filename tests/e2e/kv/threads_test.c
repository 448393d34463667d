/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Two agents, each used by several threads at once: some post, check and notify, one takes what
 * arrives. Every byte and every notification is compared. Arguments: the rails of both.
 */
#include <pthread.h>
#include <sched.h>

#include "kv_kit.h"

#define WORKERS 3u
#define ROUNDS  100u
#define PIECES  50u
#define LEN     2000u
#define SPACING (2 * LEN) /* none follows another */

static struct agent a, b;
static struct spw_kv_region *region;

struct worker {
	pthread_t thread;
	uint32_t idx;
	uint32_t taken; /* its notifications that arrived at b */
	char why[256];  /* "": all is well */
};

static struct worker worker[WORKERS];

static uint8_t *place(const struct agent *at, uint32_t idx, uint32_t piece)
{
	return at->at + ((size_t)idx * PIECES + piece) * SPACING;
}

static int worker_make(uint32_t idx, bool write, struct spw_kv_transfer **t_out)
{
	struct spw_kv_near near[PIECES];
	struct spw_kv_far far[PIECES];
	const struct spw_kv_lists lists = {near, far, PIECES, PIECES, write};

	for (uint32_t i = 0; i < PIECES; i++) {
		near[i] = (struct spw_kv_near){a.mem, place(&a, idx, i), LEN};
		far[i] = (struct spw_kv_far){region, (uint64_t)(place(&b, idx, i) - b.at), LEN};
	}
	return spw_kv_transfer_make(a.kv, "b", 1, &lists, t_out);
}

static int worker_pass(struct spw_kv_transfer *t, const uint32_t note[2])
{
	int rc = spw_kv_post(t, note, note ? 8 : 0);

	while (!rc && (rc = spw_kv_check(t)) == -EAGAIN) {
		rc = 0;
		sched_yield();
	}
	return rc;
}

/* Writes, and reads the same back into the same place, which it has cleared. */
static int worker_round(struct worker *w, struct spw_kv_transfer *const t[2], uint32_t round)
{
	int rc;

	for (uint32_t i = 0; i < PIECES; i++)
		memset(place(&a, w->idx, i), (int)(w->idx + round + i), LEN);
	rc = worker_pass(t[1], (uint32_t[2]){w->idx, round});
	for (uint32_t i = 0; i < PIECES; i++)
		memset(place(&a, w->idx, i), 0xee, LEN);
	rc = rc ? rc : worker_pass(t[0], NULL);
	for (uint32_t i = 0; i < PIECES && !rc; i++)
		for (uint32_t j = 0; j < LEN && !rc; j++)
			if (place(&a, w->idx, i)[j] != (uint8_t)(w->idx + round + i))
				rc = spw_err(EIO, "byte %u of piece %u, round %u", j, i, round);
	return rc;
}

static void *worker_body(void *arg)
{
	struct worker *w = arg;
	struct spw_kv_transfer *t[2] = {NULL, NULL};
	int rc = worker_make(w->idx, false, &t[0]);

	rc = rc ? rc : worker_make(w->idx, true, &t[1]);
	for (uint32_t round = 0; round < ROUNDS && !rc; round++)
		rc = worker_round(w, t, round);
	if (rc)
		snprintf(w->why, sizeof(w->why), "%d: %s", rc, spw_err_text());
	spw_kv_release(t[0]);
	spw_kv_release(t[1]);
	return NULL;
}

/* Takes all of a's notifications, in the order of each of a's threads, and answers each. */
static void *taker_body(void *arg)
{
	const uint64_t end = kit_now_ms() + 3 * KIT_WAIT_MS;
	struct spw_kv_note *note;
	char *why = arg;
	uint32_t got[2];

	for (uint32_t n = 0; n < WORKERS * ROUNDS && kit_now_ms() < end;) {
		if (spw_kv_note_take(b.kv, &note)) {
			sched_yield();
			continue;
		}
		memcpy(got, note->text, sizeof(got));
		if (got[0] >= WORKERS || got[1] != worker[got[0]].taken++)
			snprintf(why, 256, "notification %u of thread %u came out of turn", got[1],
				 got[0]);
		if (spw_kv_notify(b.kv, "a", 1, &n, sizeof(n)))
			snprintf(why, 256, "an answer: %s", spw_err_text());
		spw_kv_note_free(note);
		n++;
	}
	return NULL;
}

static void many_threads_use_an_agent(void **state SPW_UNUSED)
{
	static char why[256];
	pthread_t taker;

	agent_open(&a, "a", kv_rails[0], NULL);
	agent_open(&b, "b", kv_rails[1], NULL);
	agent_load(&a, &b);
	agent_load(&b, &a);
	region = agent_region(&a, &b);
	assert_int_equal(pthread_create(&taker, NULL, taker_body, why), 0);
	for (uint32_t i = 0; i < WORKERS; i++) {
		worker[i].idx = i;
		assert_int_equal(pthread_create(&worker[i].thread, NULL, worker_body, &worker[i]),
				 0);
	}
	for (uint32_t n = 0; n < WORKERS * ROUNDS; n++) {
		struct spw_kv_note *note = agents_note(&b, &a);

		assert_memory_equal(note->text, &n, sizeof(n));
		spw_kv_note_free(note);
	}
	for (uint32_t i = 0; i < WORKERS; i++) {
		pthread_join(worker[i].thread, NULL);
		assert_string_equal(worker[i].why, "");
	}
	pthread_join(taker, NULL);
	assert_string_equal(why, "");
	agent_close(&a);
	agent_close(&b);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(many_threads_use_an_agent)};

	kv_take_rails(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
