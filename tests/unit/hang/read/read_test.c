/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The collectors on recorded hosts, in states that a host can have; and on this one.
 */
#include <errno.h>
#include <sys/mman.h>

#include "hang/read/read_page.h"
#include "read_kit.h"

static struct spw_hang_snap snap, later;

/* ---- processes ---- */

static void a_rank_without_a_page(void **state)
{
	(void)state;
	kit_rank(4711, "3");
	kit_put("sys/fs/cgroup/job/cgroup.events", "populated 1\nfrozen 0\n");
	kit_put("sys/fs/cgroup/job/cpu.stat", "usage_usec 9\nthrottled_usec 1234\n");
	kit_put("proc/1/maps", "7f00 r-xp 0 0:0 1 /usr/lib/libc.so.6\n");
	kit_thread(1, 1, 'S', 1, 0, 0);
	assert_int_equal(kit_read(NULL, &snap), 0);
	assert_int_equal(snap.proc_cnt, 1);
	kit_equal(snap.proc[0].pid, 4711);
	kit_equal(snap.proc[0].start, 1000);
	kit_equal(snap.proc[0].rank, 3);
	kit_equal(snap.proc[0].world, 2);
	kit_equal(snap.proc[0].page, 0);
	kit_equal(snap.proc[0].gone, 0);
	kit_equal(snap.proc[0].frozen, 0);
	kit_equal(snap.proc[0].throttled_us, 1234);
	kit_equal(snap.proc[0].tracer, 0);
	kit_equal(snap.proc[0].cuda, 0);
	assert_false(snap.proc[0].profiler.known);
	assert_string_equal(snap.proc[0].nccl, "/v/libnccl.so.2");
	assert_string_equal(snap.proc[0].name, "python3");
	assert_int_equal(snap.thread_cnt, 1);
	assert_string_equal(snap.thread[0].state, "S");
	assert_string_equal(snap.why[SPW_HANG_SOURCE_page], "no process has one");
	spw_hang_snap_free(&snap);
}

/* Version 1, and a container that sees its group's path as the host names it. */
static void a_frozen_group(void **state)
{
	(void)state;
	kit_rank(4711, "0");
	kit_proc_put(4711, "cgroup", "7:freezer:/docker/abc\n2:cpu,cpuacct:/docker/abc\n0::/\n");
	kit_put("sys/fs/cgroup/freezer/freezer.state", "FROZEN\n");
	kit_put("sys/fs/cgroup/cpu,cpuacct/cpu.stat", "nr_periods 3\nthrottled_time 5000000\n");
	assert_int_equal(kit_read(NULL, &snap), 0);
	kit_equal(snap.proc[0].frozen, 1);
	kit_equal(snap.proc[0].throttled_us, 5000);
	spw_hang_snap_free(&snap);

	kit_proc_put(4711, "cgroup", "0::/\n");
	kit_put("sys/fs/cgroup/cpu.stat", "usage_usec 9\n");
	assert_int_equal(kit_read(NULL, &snap), 0);
	kit_equal(snap.proc[0].frozen, 0);
	kit_equal(snap.proc[0].throttled_us, 0);
	spw_hang_snap_free(&snap);

	kit_proc_put(4711, "cgroup", "0::/elsewhere\n");
	kit_remove_file("sys/fs/cgroup/cpu.stat");
	assert_int_equal(kit_read(NULL, &snap), 0);
	assert_false(snap.proc[0].frozen.known);
	assert_false(snap.proc[0].throttled_us.known);
	spw_hang_snap_free(&snap);
}

/* Ended, became a zombie, or another process has its number. */
static void a_process_that_ended(void **state)
{
	(void)state;
	kit_rank(10, "0");
	kit_rank(11, "1");
	kit_rank(12, "2");
	assert_int_equal(kit_read(NULL, &snap), 0);
	assert_int_equal(snap.proc_cnt, 3);
	kit_remove_file("proc/10/stat");
	kit_thread(11, 11, 'Z', 100, 2, 0);
	kit_proc_put(12, "stat", "12 (a) S 1 1 1 0 -1 0 0 0 0 0 1 7 0 0 20 0 3 0 2000 0");
	assert_int_equal(kit_read(&snap, &later), 0);
	assert_int_equal(later.proc_cnt, 3);
	for (int i = 0; i < 3; i++) {
		kit_equal(later.proc[i].gone, 1);
		kit_equal(later.proc[i].rank, i);
	}
	spw_hang_snap_free(&snap);
	spw_hang_snap_free(&later);
}

/* A worker that loads data has its parent's library and variables. */
static void a_fork_is_no_rank(void **state)
{
	(void)state;
	kit_rank(10, "0");
	kit_rank(11, "0");
	kit_proc_put(11, "stat", "11 (a) S 10 1 1 0 -1 0 0 0 0 0 1 7 0 0 20 0 3 0 1000 0");
	assert_int_equal(kit_read(NULL, &snap), 0);
	assert_int_equal(snap.proc_cnt, 1);
	spw_hang_snap_free(&snap);
}

/* Slurm's task started two: neither's rank is the task's. */
static void one_rank_for_two_processes_is_none(void **state)
{
	(void)state;
	kit_rank(10, "0");
	kit_rank(11, "0");
	assert_int_equal(kit_read(NULL, &snap), 0);
	assert_int_equal(snap.proc_cnt, 2);
	assert_false(snap.proc[0].rank.known);
	assert_false(snap.proc[1].rank.known);
	spw_hang_snap_free(&snap);
}

/* ---- threads ---- */

/* A real-time thread on the proxy's CPU, which a name tells. */
static void a_proxy_that_gets_no_cpu(void **state)
{
	const struct spw_hang_thread_row *proxy = NULL;

	(void)state;
	kit_rank(10, "0");
	kit_thread(10, 20, 'R', 5, 3, 0);
	kit_proc_put(10, "task/20/comm", "NCCL Progress 1\n");
	kit_proc_put(10, "task/20/schedstat", "100 0 5\n");
	kit_proc_put(10, "task/20/wchan", "0");
	kit_proc_put(10, "task/10/wchan", "futex_wait_queue");
	kit_thread(99, 99, 'R', 900, 3, 50);
	kit_proc_put(99, "task/99/comm", "hog\n");
	kit_thread(98, 98, 'R', 900, 3, 0);
	kit_thread(97, 97, 'R', 900, 2, 99);
	assert_int_equal(kit_read(NULL, &snap), 0);
	snap.at_ns -= 1000000000;
	kit_proc_put(10, "task/20/schedstat", "100 990000000 5\n");
	assert_int_equal(kit_read(&snap, &later), 0);
	assert_int_equal(later.thread_cnt, 2);
	for (uint32_t i = 0; i < later.thread_cnt; i++)
		if (later.thread[i].tid.value == 20)
			proxy = &later.thread[i];
		else {
			kit_equal(later.thread[i].proxy, 0);
			assert_string_equal(later.thread[i].wchan, "futex_wait_queue");
		}
	assert_non_null(proxy);
	kit_equal(proxy->proxy, 1);
	kit_equal(proxy->utime, 5);
	kit_equal(proxy->stime, 7);
	kit_equal(proxy->cpu, 3);
	kit_equal(proxy->run_ns, 100);
	kit_equal(proxy->wait_ns, 990000000);
	assert_string_equal(proxy->wchan, "");
	assert_string_equal(proxy->rival, "hog (pid 99)");
	spw_hang_snap_free(&snap);
	spw_hang_snap_free(&later);
}

static void without_names_the_proxy_is_unknown(void **state)
{
	(void)state;
	kit_rank(10, "0");
	kit_thread(10, 20, 'R', 5, 3, 0);
	assert_int_equal(kit_read(NULL, &snap), 0);
	assert_int_equal(snap.thread_cnt, 2);
	assert_false(snap.thread[0].proxy.known);
	assert_false(snap.thread[1].proxy.known);
	spw_hang_snap_free(&snap);
}

/* ---- the page ---- */

static struct spw_hang_page page;

static void page_fill(void)
{
	struct spw_hang_conn_view *view = &page.conn[7].view;

	memset(&page, 0, sizeof(page));
	page.magic = SPW_HANG_PAGE_MAGIC;
	page.version = SPW_HANG_PAGE_VERSION;
	page.bytes = SPW_HANG_PAGE_BYTES;
	page.pid = 12;
	page.tsc_hz = 2000000000;
	page.comm[0] = (struct spw_hang_comm){.used = 1,
					      .rank = 1,
					      .rank_cnt = 2,
					      .node_cnt = -1,
					      .comm_hash = 0xabc,
					      .colls = 9,
					      .coll = {.sequence = 8, .count = 4, .root = -1}};
	memset(page.comm[0].coll.function, 'F', sizeof(page.comm[0].coll.function));
	page.conn[7].calls = 640;
	page.conn[7].begun = 5;
	page.conn[7].ended = 3;
	*view = (struct spw_hang_conn_view){.state = SPW_HANG_CONN_READY,
					    .is_send = 1,
					    .tid = 13,
					    .error = -ECONNRESET,
					    .pair = 0x1122,
					    .taken_begun = 5,
					    .taken_ended = 3,
					    .moved_tsc = 4000,
					    .waiting = 2,
					    .rail_cnt = 99,
					    .peer = "192.0.2.2:7000"};
	page.conn[7].rail[0] = (struct spw_hang_rail){
		.state = SPW_HANG_RAIL_TRYING, .down_tsc = 2000, .device = "rocep1s0f0"};
	page.conn[7].rail[1] = (struct spw_hang_rail){.state = 77};
	page.conn[8].view.state = 1000;
}

static void a_live_page(void **state)
{
	(void)state;
	kit_rank(4711, "1");
	kit_thread(4711, 4712, 'S', 5, 3, 0);
	kit_proc_put(4711, "task/4712/status", "Name:\tx\nNSpid:\t4712\t13\n");
	page_fill();
	kit_put("now", "2000004000 1700000000000000000");
	kit_put_bytes("proc/4711/fd/5", &page, sizeof(page));
	assert_int_equal(kit_read(NULL, &snap), 0);
	kit_equal(snap.proc[0].page, 1);
	kit_equal(snap.proc[0].profiler, 1);
	assert_int_equal(snap.comm_cnt, 1);
	assert_string_equal(snap.comm[0].comm, "0000000000000abc");
	assert_string_equal(snap.comm[0].function, "FFFFFFFFFFFFFFFFFFFFFFF");
	kit_equal(snap.comm[0].rank, 1);
	kit_equal(snap.comm[0].sequence, 8);
	assert_false(snap.comm[0].node_cnt.known);
	assert_false(snap.comm[0].root.known);
	assert_int_equal(snap.conn_cnt, 1);
	kit_equal(snap.conn[0].entry, 7);
	kit_equal(snap.conn[0].calls, 640);
	kit_equal(snap.conn[0].error, ECONNRESET);
	kit_equal(snap.conn[0].moved_ns, 1000000000);
	kit_equal(snap.conn[0].oldest_ns, -1);
	kit_equal(snap.conn[0].waiting, 2);
	kit_equal(snap.conn[0].tid, 4712);
	assert_string_equal(snap.conn[0].state, "ready");
	assert_string_equal(snap.conn[0].pair, "0000000000001122");
	assert_string_equal(snap.conn[0].comm, "");
	assert_int_equal(snap.rail_cnt, 1);
	assert_string_equal(snap.rail[0].state, "trying");
	kit_equal(snap.rail[0].down_ns, 1000001000);
	assert_int_equal(snap.thread_cnt, 2);
	for (uint32_t i = 0; i < 2; i++)
		kit_equal(snap.thread[i].proxy, snap.thread[i].tid.value == 4712);
	spw_hang_snap_free(&snap);
}

/* A view that has missed a request: only their number is known; of a full page not even that. */
static void a_view_that_is_older_than_its_counts(void **state)
{
	(void)state;
	kit_rank(4711, "1");
	page_fill();
	page.conn[7].begun = 6;
	kit_put_bytes("proc/4711/fd/5", &page, sizeof(page));
	assert_int_equal(kit_read(NULL, &snap), 0);
	assert_false(snap.conn[0].waiting.known);
	assert_false(snap.conn[0].oldest_ns.known);
	kit_equal(snap.conn[0].begun, 6);
	spw_hang_snap_free(&snap);

	page.conn[7].begun = page.conn[7].ended = 7;
	page.conns_left_out = 3;
	kit_put_bytes("proc/4711/fd/5", &page, sizeof(page));
	assert_int_equal(kit_read(NULL, &snap), 0);
	kit_equal(snap.conn[0].waiting, 0);
	kit_equal(snap.conn[0].oldest_ns, -1);
	assert_false(snap.proc[0].page.known);
	assert_string_equal(snap.why[SPW_HANG_SOURCE_page], "the page of 4711 lacks 3 connections");
	assert_int_equal(kit_read(&snap, &later), 0);
	assert_int_equal(later.conn_cnt, 1);
	spw_hang_snap_free(&snap);
	spw_hang_snap_free(&later);
}

/* Its writer was stopped within a change: what the entries say is not known, nor that they are
 * free.
 */
static void entries_that_cannot_be_read(void **state)
{
	(void)state;
	kit_rank(4711, "1");
	page_fill();
	page.conn[9].mark = page.comm[3].mark = 1;
	kit_put_bytes("proc/4711/fd/5", &page, sizeof(page));
	assert_int_equal(kit_read(NULL, &snap), 0);
	assert_int_equal(snap.conn_cnt, 1);
	assert_int_equal(snap.comm_cnt, 1);
	assert_false(snap.proc[0].page.known);
	assert_false(snap.proc[0].profiler.known);
	assert_string_equal(snap.why[SPW_HANG_SOURCE_page], "the page of 4711 lacks 1 connections");
	assert_string_equal(snap.why[SPW_HANG_SOURCE_profiler],
			    "the page of 4711 lacks 1 communicators");
	spw_hang_snap_free(&snap);
}

/* Of another version, of another process, cut, or older than the host's record of time. */
static void pages_that_are_none(void **state)
{
	(void)state;
	kit_rank(4711, "1");
	for (int i = 0; i < 4; i++) {
		page_fill();
		page.version += i == 0;
		page.pid += i == 1;
		page.magic += i == 2;
		kit_put_bytes("proc/4711/fd/5", &page, sizeof(page) - (i == 3));
		assert_int_equal(kit_read(NULL, &snap), 0);
		kit_equal(snap.proc[0].page, 0);
		assert_int_equal(snap.conn_cnt, 0);
		spw_hang_snap_free(&snap);
	}
	page_fill();
	kit_put_bytes("proc/4711/fd/5", &page, sizeof(page));
	assert_int_equal(kit_read(NULL, &snap), 0);
	assert_int_equal(snap.conn_cnt, 1);
	assert_false(snap.conn[0].moved_ns.known);
	assert_false(snap.conn[0].tid.known);
	spw_hang_snap_free(&snap);
}

/* This process with a page, read through /proc as another one would: one without seals is not
 * mapped. */
static void a_page_of_this_process(void **state)
{
	const struct spw_hang_where here = {.root = "", .pid = (uint32_t)getpid()};
	int fd = memfd_create(SPW_HANG_PAGE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct spw_hang_page *map;

	(void)state;
	if (getenv("MESON_EXE_WRAPPER"))
		skip(); /* qemu-user makes up /proc/PID/stat, and leaves most of it out */
	assert_int_equal(ftruncate(fd, SPW_HANG_PAGE_BYTES), 0);
	map = mmap(NULL, SPW_HANG_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(map != MAP_FAILED);
	page_fill();
	page.pid = (uint32_t)getpid();
	page.conn[7].view.tid = (uint32_t)gettid();
	*map = page;
	assert_int_equal(spw_hang_read(&here, &snap), 0);
	assert_int_equal(snap.proc_cnt, 0);
	spw_hang_snap_free(&snap);

	assert_int_equal(fcntl(fd, F_ADD_SEALS, SPW_HANG_PAGE_SEALS), 0);
	assert_int_equal(spw_hang_read(&here, &snap), 0);
	assert_int_equal(snap.proc_cnt, 1);
	kit_equal(snap.proc[0].page, 1);
	kit_equal(snap.proc[0].frozen, 0);
	assert_true(snap.proc[0].throttled_us.known);
	kit_equal(snap.conn[0].tid, gettid());
	assert_true(snap.thread_cnt >= 1);
	assert_true(snap.thread[0].run_ns.known && snap.thread[0].wait_ns.known);
	spw_hang_snap_free(&snap);
	munmap(map, SPW_HANG_PAGE_BYTES);
	close(fd);
}

/* ---- nothing ---- */

static void no_host_at_all(void **state)
{
	(void)state;
	assert_int_equal(kit_read(NULL, &snap), 0);
	assert_int_equal(snap.proc_cnt, 0);
	assert_non_null(strstr(snap.why[SPW_HANG_SOURCE_proc], "No such file"));
	assert_non_null(strstr(snap.why[SPW_HANG_SOURCE_counters], "no RDMA device"));
	spw_hang_snap_free(&snap);
	assert_int_equal(spw_hang_read(&(struct spw_hang_where){.root = "/nonexistent"}, &snap),
			 -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RECORDED(a_rank_without_a_page),
		RECORDED(a_frozen_group),
		RECORDED(a_process_that_ended),
		RECORDED(a_fork_is_no_rank),
		RECORDED(one_rank_for_two_processes_is_none),
		RECORDED(a_proxy_that_gets_no_cpu),
		RECORDED(without_names_the_proxy_is_unknown),
		RECORDED(a_live_page),
		RECORDED(a_view_that_is_older_than_its_counts),
		RECORDED(entries_that_cannot_be_read),
		RECORDED(pages_that_are_none),
		cmocka_unit_test(a_page_of_this_process),
		RECORDED(no_host_at_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
