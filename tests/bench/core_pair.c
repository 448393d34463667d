/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Two threads, each pinned to a CPU, write one word in turn (core_pair.h). Called by
 * bench_softhca.c, whose rows depend on it.
 */
#include "core_pair.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <time.h>

#include "base/spw_order.h"

#define CPUS_MAX 4u
#define TRIPS    10000u
#define TRIES    5u

struct side {
	pthread_t thread;
	uint32_t *word; /* on a line of its own */
	bool first;
	double ns; /* of one trip, by the first side */
};

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void await(uint32_t *word, uint32_t value)
{
	for (uint32_t i = 1; spw_thr_load_acq(word) != value; i++)
		if (i % 65536 == 0)
			sched_yield(); /* the other may be waiting for this CPU */
}

/* The first writes odd numbers, the other even ones. [acquire and release of the same word on both
 * sides] */
static void *side_main(void *arg)
{
	struct side *s = arg;
	double start;

	if (s->first)
		await(s->word, UINT32_MAX);
	else
		spw_thr_store_rel(s->word, UINT32_MAX);
	start = now_ns();
	for (uint32_t i = 0; i < TRIPS; i++) {
		if (s->first) {
			spw_thr_store_rel(s->word, 2 * i + 1);
			await(s->word, 2 * i + 2);
		} else {
			await(s->word, 2 * i + 1);
			spw_thr_store_rel(s->word, 2 * i + 2);
		}
	}
	s->ns = (now_ns() - start) / TRIPS;
	return NULL;
}

static int side_start(struct side *s, int cpu)
{
	pthread_attr_t attr;
	cpu_set_t set;
	int rc;

	CPU_ZERO(&set);
	CPU_SET((unsigned)cpu, &set);
	pthread_attr_init(&attr);
	pthread_attr_setaffinity_np(&attr, sizeof(set), &set);
	rc = pthread_create(&s->thread, &attr, side_main, s);
	pthread_attr_destroy(&attr);
	return -rc;
}

static int pair_ns(int a, int b, double *ns_out)
{
	static _Alignas(128) uint32_t word[32];

	*ns_out = 1e12;
	for (uint32_t i = 0; i < TRIES; i++) {
		struct side first = {.word = word, .first = true}, second = {.word = word};
		int rc;

		spw_thr_store_rel(word, 0u);
		rc = side_start(&first, a);
		if (rc)
			return rc;
		rc = side_start(&second, b);
		if (rc) { /* play the second side here */
			side_main(&second);
			pthread_join(first.thread, NULL);
			return rc;
		}
		pthread_join(first.thread, NULL);
		pthread_join(second.thread, NULL);
		*ns_out = first.ns < *ns_out ? first.ns : *ns_out;
	}
	return 0;
}

int core_pair_ns(double *ns_out)
{
	int cpu[CPUS_MAX], cnt = 0, rc = 0;
	cpu_set_t mask;

	*ns_out = 0;
	if (sched_getaffinity(0, sizeof(mask), &mask))
		return -errno;
	for (int i = 0; i < CPU_SETSIZE && cnt < (int)CPUS_MAX; i++)
		if (CPU_ISSET((unsigned)i, &mask))
			cpu[cnt++] = i;
	for (int a = 0; a < cnt && !rc; a++) {
		for (int b = a + 1; b < cnt && !rc; b++) {
			double ns;

			rc = pair_ns(cpu[a], cpu[b], &ns);
			*ns_out = !rc && ns > *ns_out ? ns : *ns_out;
		}
	}
	return cnt < 2 ? -ENODEV : rc;
}
