/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 */
#include "group.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "coll/coll.h"
#include "numbers.h"

/* ---- an exchange between threads ---- */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t turn;
	uint32_t here, laps;
	uint8_t blob[SPW_COLL_RANK_MAX][4096];
} table = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, {{0}}};

#define MEET_S 60 /* a rank that does not come is reported, and not waited for any longer */

/* All ranks of a test come by the same number of times; -ETIMEDOUT: one did not. */
int group_exchange(void *arg, const void *mine, void *all, size_t bytes)
{
	const struct member *m = arg;
	struct timespec until;
	uint32_t lap;
	int rc = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += MEET_S;
	pthread_mutex_lock(&table.lock);
	memcpy(table.blob[m - m->g->member], mine, bytes);
	lap = table.laps;
	if (++table.here == m->g->rank_cnt) {
		table.here = 0;
		table.laps++;
		pthread_cond_broadcast(&table.turn);
	}
	while (lap == table.laps && !rc)
		rc = pthread_cond_clockwait(&table.turn, &table.lock, CLOCK_MONOTONIC, &until);
	for (uint32_t i = 0; i < m->g->rank_cnt; i++)
		memcpy((uint8_t *)all + i * bytes, table.blob[i], bytes);
	pthread_mutex_unlock(&table.lock);
	return -rc;
}

/* ---- members ---- */

void member_wrong(struct member *m, const char *fmt, ...)
{
	va_list args;

	if (m->wrong[0])
		return;
	va_start(args, fmt);
	vsnprintf(m->wrong, sizeof(m->wrong), fmt, args);
	va_end(args);
	print_error("rank %u of %u: %s\n", m->conf.rank, m->conf.rank_cnt, m->wrong);
}

static void *member_main(void *arg)
{
	struct member *m = arg;
	char rails[64];

	snprintf(rails, sizeof(rails), "mlx5_%u", m->conf.rank);
	m->conf.exchange = group_exchange;
	m->conf.exchange_arg = m;
	m->conf.timeout_ms = m->g->timeout_ms;
	m->conf.bytes_max = m->g->bytes_max;
	m->conf.progress = m->g->progress;
	m->conf.xfer.rails = m->g->rails ? m->g->rails : rails;
	m->conf.xfer.bind = "127.0.0.1:0";
	m->seed = m->conf.rank;
	if (m->g->tune)
		m->g->tune(m);
	m->opened = spw_coll_open(&m->conf, &m->coll);
	if (m->opened && !m->g->refused)
		member_wrong(m, "open: %s", spw_err_text());
	else
		m->g->part(m);
	spw_coll_close(m->coll);
	return NULL;
}

void group_run(struct group *g)
{
	pthread_t thread[SPW_COLL_RANK_MAX];
	bool wrong = false;

	for (uint32_t i = 0; i < g->rank_cnt; i++) {
		g->member[i] =
			(struct member){.g = g, .conf = {.rank = i, .rank_cnt = g->rank_cnt}};
		assert_int_equal(pthread_create(&thread[i], NULL, member_main, &g->member[i]), 0);
	}
	for (uint32_t i = 0; i < g->rank_cnt; i++) {
		pthread_join(thread[i], NULL);
		wrong |= g->member[i].wrong[0] != 0;
	}
	assert_false(wrong);
}

/* ---- calls ---- */

void member_call(struct member *m, const struct spw_coll_call *call, uint64_t round)
{
	const uint32_t size = spw_coll_type_bytes(call->type);
	const uint64_t bytes = call->count * size,
		       whole = call->kind == SPW_COLL_ALL_GATHER ? m->conf.rank_cnt * bytes : bytes;
	/* exactly as long as they must be, so that ASan watches their ends */
	uint8_t *in = malloc(bytes + !bytes), *out = malloc(whole + !whole),
		*want = malloc(whole + !whole);
	struct spw_coll_call c = *call;

	numbers_fill(in, c.count, c.type, m->conf.rank, round);
	memset(out, 0xee, whole);
	c.in = in;
	c.out = out;
	if (round % 3 == 0 && bytes) { /* in place */
		c.in = out + (c.kind == SPW_COLL_ALL_GATHER ? m->conf.rank * bytes : 0);
		memcpy((void *)(uintptr_t)c.in, in, bytes);
	}
	numbers_reference(&c, m->conf.rank_cnt, round, want);
	if (spw_coll_run(m->coll, &c))
		member_wrong(m, "round %llu: %s", (unsigned long long)round, spw_err_text());
	else if (memcmp(out, want, whole))
		member_wrong(m, "round %llu: kind %d, type %d, op %d, %llu elements: wrong bits",
			     (unsigned long long)round, (int)c.kind, (int)c.type, (int)c.op,
			     (unsigned long long)c.count);
	free(in);
	free(out);
	free(want);
}

void member_meet(struct member *m)
{
	uint32_t here[SPW_COLL_RANK_MAX];

	while (m->conf.progress == SPW_COLL_CALLER && coll_puts_open(m->coll, ~0u))
		spw_coll_progress(m->coll);
	MEMBER_EXPECT(m, !group_exchange(m, &m->conf.rank, here, sizeof(here[0])));
}
