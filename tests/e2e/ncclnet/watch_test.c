/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * NCCL_SPINWIRE_HANG within a process: what is a standstill and what is none, when the thread is
 * there, and values that are refused. pair.py has two processes.
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net_pair.h"

#define HEAD "nothing has moved for 1 s"

static struct pair p;

/* The number in a line of a thread's status, in the base; -1: there is none. */
static long status_number(const char *tid, const char *label, int base)
{
	char path[64], line[256];
	long number = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%.10s/status", tid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, label, strlen(label)))
			number = strtol(line + strlen(label), NULL, base);
	if (f)
		fclose(f);
	return number;
}

/* Whether the thread of the watch is there; its blocked signals 1 to 31. */
static bool watch_is_there(long *blocked_out)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *e;
	bool found = false;

	assert_non_null(dir);
	while ((e = readdir(dir)) && !found) {
		char path[64], name[32] = "";
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%.10s/comm", e->d_name);
		f = fopen(path, "r");
		found = f && fgets(name, sizeof(name), f) && !strcmp(name, "spw-watch\n");
		if (f)
			fclose(f);
		if (found && blocked_out)
			*blocked_out = status_number(e->d_name, "SigBlk:", 16) & 0x7fffffff;
	}
	closedir(dir);
	return found;
}

/* A thread that was joined may be listed for a moment still. */
static void expect_no_watch(void)
{
	const uint64_t until = pair_now_ms() + PAIR_WAIT_MS;

	while (watch_is_there(NULL)) {
		assert_true(pair_now_ms() < until);
		usleep(1000);
	}
}

static void wait_ms(uint64_t ms)
{
	const uint64_t until = pair_now_ms() + ms;

	while (pair_now_ms() < until)
		usleep(1000);
}

/* What is logged from now on, until a text comes or the time is over. */
static const char *log_until(const char *text, uint64_t ms)
{
	static char all[NET_LOG_MAX];
	const uint64_t until = pair_now_ms() + ms;

	all[0] = '\0';
	while (!strstr(all, text) && pair_now_ms() < until) {
		strncat(all, net_log(), sizeof(all) - strlen(all) - 1);
		usleep(10000);
	}
	return all;
}

static void refuses_what_is_no_time(void **state)
{
	static const char *const bad[] = {"abc", "10ms", "-1s", "61min", "30 s", "1h"};

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(bad) && pair_version() >= 11; i++) {
		struct net net;

		setenv("NCCL_SPINWIRE_HANG", bad[i], 1);
		net_log();
		pair_init(&net, pair_rails_a());
		assert_non_null(strstr(net_log(), "no time from 1s to 60min"));
		assert_false(watch_is_there(NULL));
		assert_int_equal(net_finalize(&net), NCCL_SUCCESS);
	}
}

static void needs_the_page(void **state)
{
	struct net net;

	(void)state;
	if (pair_version() < 11)
		return;
	setenv("NCCL_SPINWIRE_HANG", "1s", 1);
	setenv("NCCL_SPINWIRE_LIVE", "0", 1);
	net_log();
	pair_init(&net, pair_rails_a());
	assert_non_null(strstr(net_log(), "unset NCCL_SPINWIRE_LIVE"));
	assert_false(watch_is_there(NULL));
	assert_int_equal(net_finalize(&net), NCCL_SUCCESS);
	unsetenv("NCCL_SPINWIRE_LIVE");
}

/* From the first context to the last, with all signals blocked. */
static void lasts_as_long_as_the_contexts(void **state)
{
	const long never = 1 << (SIGKILL - 1) | 1 << (SIGSTOP - 1);
	long blocked = 0;

	(void)state;
	setenv("NCCL_SPINWIRE_HANG", "1s", 1);
	for (int i = 0; i < 2 && pair_version() >= 11; i++) {
		const uint64_t start = pair_now_ms();

		expect_no_watch();
		pair_open(&p);
		while (!watch_is_there(&blocked))
			assert_true(pair_now_ms() < start + PAIR_WAIT_MS);
		assert_int_equal(blocked | never, 0x7fffffff);
		pair_close(&p);
		expect_no_watch();
	}
}

static void is_silent_while_nothing_is_open(void **state)
{
	(void)state;
	net_log();
	for (int i = 0; i < 2; i++) {
		pair_pass(&p, 100000, 100000);
		wait_ms(2500);
	}
	assert_null(strstr(net_log(), HEAD));
}

/* A receive that ever another one follows: something is open at each moment, and it moves. */
static void is_silent_while_it_moves(void **state)
{
	const uint64_t until = pair_now_ms() + 3000;
	void *open[2] = {pair_recv(&p, 0, 1000, 0), NULL};

	(void)state;
	net_log();
	while (pair_now_ms() < until) {
		void *next = pair_recv(&p, 65536, 1000, 0);

		open[1] = pair_send(&p, 0, 1000, 0);
		pair_finish(&p, open, 2, NULL);
		open[0] = next;
		wait_ms(300);
	}
	open[1] = pair_send(&p, 0, 1000, 0);
	pair_finish(&p, open, 2, NULL);
	assert_null(strstr(net_log(), HEAD));
}

/* What moves again within the five seconds of the snapshots is no standstill, and the watch goes
 * on. */
static void forgets_what_moved_again(void **state)
{
	void *req[2] = {pair_recv(&p, 0, 1000, 0), NULL};

	(void)state;
	net_log();
	wait_ms(3000);
	req[1] = pair_send(&p, 0, 1000, 0);
	pair_finish(&p, req, 2, NULL);
	wait_ms(5000);
	assert_null(strstr(net_log(), HEAD));
	assert_true(watch_is_there(NULL));
}

static void a_child_has_no_thread(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	pid = fork();
	if (!pid)
		_exit(watch_is_there(NULL));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(watch_is_there(NULL));
}

/* The job goes on after it, and nothing more is said, by a later communicator neither. */
static void answers_once(void **state)
{
	void *req[2] = {pair_recv(&p, 0, 1000, 0), NULL};
	const char *text;

	(void)state;
	net_log();
	text = log_until("ranks found", 20000);
	assert_non_null(strstr(text, HEAD ", and 1 request is open"));
	assert_non_null(strstr(text, "1 ranks found"));
	req[1] = pair_send(&p, 0, 1000, 0);
	pair_finish(&p, req, 2, NULL);
	req[0] = pair_recv(&p, 0, 1000, 0);
	assert_null(strstr(log_until(HEAD, 8000), HEAD));
	req[1] = pair_send(&p, 0, 1000, 0);
	pair_finish(&p, req, 2, NULL);
	assert_false(watch_is_there(NULL));
}

static void no_other_thread_comes(void **state)
{
	(void)state;
	assert_false(watch_is_there(NULL));
}

int main(int argc, char **argv)
{
#define WITH_PAIR(F) cmocka_unit_test_prestate_setup_teardown(F, pair_set_up, pair_tear_down, &p)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refuses_what_is_no_time),
		cmocka_unit_test(needs_the_page),
		cmocka_unit_test(lasts_as_long_as_the_contexts),
		WITH_PAIR(is_silent_while_nothing_is_open),
		WITH_PAIR(is_silent_while_it_moves),
		WITH_PAIR(forgets_what_moved_again),
		WITH_PAIR(a_child_has_no_thread),
		WITH_PAIR(answers_once),
		WITH_PAIR(no_other_thread_comes),
	};
	char comm[32];

	snprintf(comm, sizeof(comm), "%d", getpid());
	setenv("SPW_TEST_COMM", comm, 1);
	if (!pair_args(argc, argv))
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
