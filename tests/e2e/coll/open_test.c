/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Groups that cannot be, and processes that cannot use one: every rank that is there gets one line
 * in bounded time, which names what is wrong and, where it is one, the rank.
 */
#include "base/spw_monotonic.h"
#include "group.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coll/coll.h"

#define VERSION_AT 4u /* in what a rank gives to the exchange (join.c, struct hello) */

/* ---- what rank 1 has otherwise ---- */

static void other_bytes(struct member *m)
{
	m->conf.bytes_max = m->conf.rank ? 4096 : 8192;
}

static void other_count(struct member *m)
{
	m->conf.rank_cnt += m->conf.rank;
}

static void same_rank(struct member *m)
{
	m->conf.rank = 0;
}

static int with_another_version(void *arg, const void *mine, void *all, size_t bytes)
{
	const int rc = group_exchange(arg, mine, all, bytes);

	((uint8_t *)all)[bytes + VERSION_AT]++;
	return rc;
}

static void other_version(struct member *m)
{
	m->conf.exchange = with_another_version;
}

/* It takes part, and then does not go on. */
static int that_fails_for_one(void *arg, const void *mine, void *all, size_t bytes)
{
	const struct member *m = arg;
	const int rc = group_exchange(arg, mine, all, bytes);

	return m->conf.rank ? spw_err(EIO, "the store is gone") : rc;
}

static void one_gives_up(struct member *m)
{
	m->conf.join_ms = 300;
	m->conf.exchange = that_fails_for_one;
}

static void too_many(struct member *m)
{
	m->conf.rank_cnt = SPW_COLL_RANK_MAX + 1;
}

static void too_long(struct member *m)
{
	m->conf.bytes_max = SPW_COLL_BYTES_MAX + 1;
}

static void no_exchange(struct member *m)
{
	m->conf.exchange = NULL;
}

static void no_such_rail(struct member *m)
{
	m->conf.xfer.rails = "mlx5_77";
}

static void on_a_gpu(struct member *m)
{
	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	m->conf.exec = SPW_COLL_CUDA;
}

/* ---- what both are told ---- */

static const struct refusal {
	tune_fn *tune;
	int error[2];
	const char *text[2];
} refusals[] = {
	{other_bytes,
	 {-EINVAL, -EINVAL},
	 {"rank 1 has bytes_max 4096, this one 8192", "rank 0 has bytes_max 8192, this one 4096"}},
	{other_count, {-EINVAL, -EINVAL}, {"brought rank 1 of 3", "brought rank 0 of 2"}},
	{same_rank, {-EINVAL, -EINVAL}, {"in place of rank 1 of 2", "in place of rank 1 of 2"}},
	{other_version,
	 {-EPROTO, -EPROTO},
	 {"rank 1 runs another version", "rank 1 runs another version"}},
	{one_gives_up, {0, -EIO}, {"rank 1 (", "exchange: the store is gone"}},
	{too_many, {-EINVAL, -EINVAL}, {"2 .. 8 ranks", "2 .. 8 ranks"}},
	{too_long, {-EINVAL, -EINVAL}, {"bytes_max 2097153", "bytes_max 2097153"}},
	{no_exchange, {-EINVAL, -EINVAL}, {"no exchange", "no exchange"}},
	{no_such_rail, {0, 0}, {"mlx5_77", "mlx5_77"}},
	{on_a_gpu, {-ENOTSUP, -ENOTSUP}, {"the cpu executor", "the cpu executor"}},
};

static void refused(struct member *m)
{
	const struct refusal *r = m->g->arg;
	const uint32_t at = (uint32_t)(m - m->g->member);
	const char *text = spw_err_text();

	if (m->coll)
		member_wrong(m, "it opened");
	else if ((r->error[at] && m->opened != r->error[at]) || !strstr(text, r->text[at]) ||
		 strchr(text, '\n'))
		member_wrong(m, "%d: %s; not %d: %s", m->opened, text, r->error[at], r->text[at]);
}

static void groups_that_cannot_be(void **state SPW_UNUSED)
{
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(refusals); i++) {
		struct refusal r = refusals[i];
		struct group g = {.rank_cnt = 2,
				  .tune = r.tune,
				  .part = refused,
				  .refused = true,
				  .arg = &r,
				  .bytes_max = 4096,
				  .timeout_ms = 1000};
		const uint64_t begin = spw_monotonic_ns();

		print_message("%s\n", r.text[0]);
		group_run(&g);
		assert_true(spw_monotonic_ns() - begin < 15000000000ull);
	}
}

/* ---- fork ---- */

/* Returns: whether each call refused, in words, and close did nothing. */
static bool child_is_refused(struct member *m)
{
	uint32_t word = 0;
	bool done;
	const struct spw_coll_call call = {.count = 1, .in = &word, .out = &word};
	bool ok = spw_coll_run(m->coll, &call) == -ECHILD && strstr(spw_err_text(), "was forked");

	ok = ok && spw_coll_test(m->coll, &done) == -ECHILD && !done;
	spw_coll_close(m->coll);
	return ok;
}

static void one_forks(struct member *m)
{
	int status = -1;
	pid_t pid;

	member_call(m, &(struct spw_coll_call){.count = 100}, 1);
	if (m->conf.rank == 0) {
		pid = fork();
		if (!pid)
			_exit(!child_is_refused(m));
		MEMBER_EXPECT(m, waitpid(pid, &status, 0) == pid && !status);
	}
	member_call(m, &(struct spw_coll_call){.count = 100}, 2);
}

static void a_forked_child_is_refused(void **state SPW_UNUSED)
{
	struct group g = {.rank_cnt = 2, .part = one_forks, .timeout_ms = 10000};

	group_run(&g);
	g.progress = SPW_COLL_CALLER;
	group_run(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(groups_that_cannot_be),
					   cmocka_unit_test(a_forked_child_is_refused)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
