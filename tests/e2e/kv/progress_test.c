/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Agents with threads of their own: a call starts something, and it ends although nobody asks
 * again; with nothing to do the threads sleep. What happens is read from totals, which make no
 * progress. Arguments: the rails of both.
 */
#include <dirent.h>
#include <stdio.h>
#include <time.h>

#include "kv_kit.h"

#define ROUNDS   2000u
#define QUIET_MS 400u
#define LEN      ((size_t)1 << 20)

static struct agent a, b;
static uint8_t text[SPW_KV_NOTE_MAX];

static int open_both(void **state SPW_UNUSED)
{
	const struct spw_kv_conf conf = {.thread = true};

	agent_open(&a, "a", kv_rails[0], &conf);
	agent_open(&b, "b", kv_rails[1], &conf);
	agent_load(&a, &b);
	agent_load(&b, &a);
	return 0;
}

static int close_both(void **state SPW_UNUSED)
{
	agent_close(&a);
	agent_close(&b);
	return 0;
}

static void pause_ns(long ns)
{
	nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

static struct spw_kv_stat totals(const struct agent *at)
{
	struct spw_kv_stat stat;

	spw_kv_stat(at->kv, &stat);
	return stat;
}

/* Until one of `at`'s totals, which only grows, has got there. */
#define WAIT_FOR(at, total, cnt)                                                            \
	do {                                                                                \
		const uint64_t end_ = kit_now_ms() + KIT_WAIT_MS;                           \
                                                                                            \
		while (totals(at).total < (cnt)) {                                          \
			if (kit_now_ms() >= end_)                                           \
				fail_msg("%s: " #total " did not come to %llu", (at)->name, \
					 (unsigned long long)(cnt));                        \
			pause_ns(20000);                                                    \
		}                                                                           \
	} while (0)

/* Of one task of this process: what its scheduler counted, 0 if it is none of an agent's. */
static uint64_t task_cpu_ns(const char *task)
{
	char path[300], name[16] = "";
	unsigned long long ns = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task);
	f = fopen(path, "r");
	if (f) {
		(void)!fscanf(f, "%15s", name);
		fclose(f);
	}
	snprintf(path, sizeof(path), "/proc/self/task/%s/schedstat", task);
	f = strcmp(name, "spw-kv") ? NULL : fopen(path, "r");
	if (f) {
		assert_int_equal(fscanf(f, "%llu", &ns), 1);
		fclose(f);
	}
	return ns;
}

/* Of the threads of both agents, since they were opened. */
static uint64_t agents_cpu_ns(void)
{
	DIR *dir = opendir("/proc/self/task");
	uint64_t sum = 0;

	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		sum += entry->d_name[0] == '.' ? 0 : task_cpu_ns(entry->d_name);
	closedir(dir);
	assert_true(sum > 0);
	return sum;
}

/* Until both sleep, and nothing wakes them for a while. */
static void wait_asleep(void)
{
	const uint64_t end = kit_now_ms() + KIT_WAIT_MS;
	uint64_t sleeps, cpu_ns;

	do {
		assert_true(kit_now_ms() < end);
		sleeps = totals(&a).sleeps + totals(&b).sleeps;
		cpu_ns = agents_cpu_ns();
		pause_ns(QUIET_MS * 1000000l);
		cpu_ns = agents_cpu_ns() - cpu_ns;
	} while (sleeps != totals(&a).sleeps + totals(&b).sleeps ||
		 cpu_ns > QUIET_MS * 10000u); /* 1 % of a core */
	print_message("   asleep: %llu ns of %u ms\n", (unsigned long long)cpu_ns, QUIET_MS);
}

static void notify(const struct agent *from, const struct agent *to, const void *at, size_t bytes)
{
	kv_must(spw_kv_notify(from->kv, to->name, strlen(to->name), at, bytes), "notify");
}

/* One that has arrived. */
static void take(const struct agent *from, const struct agent *at, const void *what, size_t bytes)
{
	struct spw_kv_note *note;

	kv_must(spw_kv_note_take(at->kv, &note), "take");
	assert_memory_equal(note->name, from->name, note->name_bytes);
	assert_int_equal(note->bytes, bytes);
	assert_memory_equal(note->text, what, bytes);
	spw_kv_note_free(note);
}

static struct spw_kv_transfer *make(bool write)
{
	const struct spw_kv_near near = {a.mem, a.at, LEN};
	const struct spw_kv_far far = {agent_region(&a, &b), 0, LEN};
	const struct spw_kv_lists lists = {&near, &far, 1, 1, write};
	struct spw_kv_transfer *t;

	kv_must(spw_kv_transfer_make(a.kv, "b", 1, &lists, &t), "make");
	return t;
}

/* ---- tests ---- */

/* The first call connects, too. */
static void what_was_asked_ends_though_nobody_asks_again(void **state SPW_UNUSED)
{
	struct spw_kv_transfer *read = make(false), *write = make(true);

	kit_fill(a.at, LEN, 1);
	kv_must(spw_kv_post(write, "written", 7), "post");
	WAIT_FOR(&a, done, 1);
	assert_memory_equal(a.at, b.at, LEN);
	WAIT_FOR(&b, rx_notes, 1);
	take(&a, &b, "written", 7);
	wait_asleep();
	kit_fill(b.at, LEN, 2);
	kv_must(spw_kv_post(read, NULL, 0), "post");
	WAIT_FOR(&a, done, 2);
	assert_int_equal(spw_kv_check(read), 0);
	assert_memory_equal(a.at, b.at, LEN);
	wait_asleep();
	kit_fill(text, sizeof(text), 3);
	notify(&b, &a, text, sizeof(text));
	WAIT_FOR(&a, rx_notes, 1);
	take(&b, &a, text, sizeof(text));
	spw_kv_release(read);
	spw_kv_release(write);
}

/* Who asks a few times, and then no more, must not have taken an event that the thread waits for.
 */
static void ask(const struct agent *at, const struct agent *of, uint32_t times)
{
	while (times--)
		(void)spw_kv_peer_connect(at->kv, of->name, strlen(of->name));
}

/* Short pauses around the moment when a thread falls asleep, so that news meet it there. */
static void no_news_are_slept_over(void **state SPW_UNUSED)
{
	for (uint32_t i = 1; i <= ROUNDS; i++) {
		pause_ns((long)(i % 40) * 5000);
		notify(&a, &b, &i, sizeof(i));
		ask(&b, &a, i % 8);
		WAIT_FOR(&b, rx_notes, i);
		take(&a, &b, &i, sizeof(i));
		notify(&b, &a, &i, sizeof(i));
		ask(&b, &a, i % 8);
		WAIT_FOR(&a, rx_notes, i);
		take(&b, &a, &i, sizeof(i));
	}
}

/* The sender sleeps, too, until the receiver has room again. */
static void room_in_the_queue_wakes_who_was_held_up(void **state SPW_UNUSED)
{
	const uint64_t end = kit_now_ms() + KIT_WAIT_MS;
	uint32_t cnt = 0;

	kit_fill(text, sizeof(text), 4);
	while (!totals(&b).held && kit_now_ms() < end) {
		cnt += !spw_kv_notify(a.kv, "b", 1, text, sizeof(text));
		pause_ns(20000);
	}
	wait_asleep();
	assert_true(totals(&a).tx_notes < cnt);
	for (uint32_t i = 1; i <= cnt; i++) {
		WAIT_FOR(&b, rx_notes, i);
		take(&a, &b, text, sizeof(text));
	}
	WAIT_FOR(&a, tx_notes, cnt);
}

static void an_agent_s_end_wakes_the_other(void **state SPW_UNUSED)
{
	notify(&a, &b, "x", 1);
	WAIT_FOR(&a, tx_notes, 1);
	wait_asleep();
	agent_close(&b);
	WAIT_FOR(&a, peers_ended, 1);
	assert_int_equal(spw_kv_peer_connect(a.kv, "b", 1), -ECONNRESET);
}

/* Its own memory and notifications are the thread's work, too. */
static void an_agent_alone_sleeps_too(void **state SPW_UNUSED)
{
	notify(&a, &a, "myself", 6);
	WAIT_FOR(&a, rx_notes, 1);
	take(&a, &a, "myself", 6);
	wait_asleep();
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_both, close_both)
	const struct CMUnitTest tests[] = {
		TEST(what_was_asked_ends_though_nobody_asks_again),
		TEST(no_news_are_slept_over),
		TEST(room_in_the_queue_wakes_who_was_held_up),
		TEST(an_agent_s_end_wakes_the_other),
		TEST(an_agent_alone_sleeps_too),
	};

	kv_take_rails(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
