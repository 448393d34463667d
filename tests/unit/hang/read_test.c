/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The collectors on recorded hosts, in states that a host can have; and on this one.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <sys/mman.h>

#include "hang/read_page.h"
#include "hang/read_qp.h"
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
					    .moved_tsc = 4000,
					    .waiting = 2,
					    .rail_cnt = 99,
					    .peer = "192.0.2.2:7000"};
	page.conn[7].rail[0] = (struct spw_hang_rail){
		.state = SPW_HANG_RAIL_TRYING, .down_tsc = 2000, .device = "rocep1s0f0"};
	page.conn[7].rail[1] = (struct spw_hang_rail){.state = 77};
	page.conn[8].view.state = 1000;
	page.conn[9].mark = 1; /* its writer was killed within a change */
	page.conn[9].view.state = SPW_HANG_CONN_READY;
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

/* ---- ports ---- */

#define PORT "sys/class/infiniband/rocep1s0f0/ports/1/"

static void a_port(void **state)
{
	(void)state;
	kit_put(PORT "state", "4: ACTIVE\n");
	kit_put(PORT "rate", "200 Gb/sec (4X HDR)\n");
	kit_put(PORT "gid_attrs/ndevs/0", "enp1s0f0np0\n");
	kit_put(PORT "hw_counters/packet_seq_err", "4830\n");
	kit_put(PORT "hw_counters/out_of_sequence", "5057\n");
	kit_put("sys/class/infiniband/rocep1s0f0/device/aer_dev_nonfatal",
		"Undefined 0\nTOTAL_ERR_NONFATAL 2\n");
	kit_put("sys/class/infiniband/rocep1s0f0/device/aer_dev_fatal", "TOTAL_ERR_FATAL 1\n");
	kit_put("sys/class/net/enp1s0f0np0/carrier", "1\n");
	kit_put("sys/class/net/enp1s0f0np0/mtu", "9000\n");
	kit_put("proc/1/maps", "");
	assert_int_equal(kit_read(NULL, &snap), 0);
	assert_int_equal(snap.port_cnt, 1);
	assert_string_equal(snap.port[0].state, "ACTIVE");
	assert_string_equal(snap.port[0].netdev, "enp1s0f0np0");
	kit_equal(snap.port[0].mbps, 200000);
	kit_equal(snap.port[0].carrier, 1);
	kit_equal(snap.port[0].mtu, 9000);
	kit_equal(snap.port[0].aer, 3);
	kit_equal(snap.port[0].packet_seq_err, 4830);
	kit_equal(snap.port[0].out_of_sequence, 5057);
	assert_false(snap.port[0].roce_adp_retrans.known);
	spw_hang_snap_free(&snap);
}

/* ---- queue pairs, TCP ---- */

struct attr {
	uint16_t bytes, type;
	uint32_t value;
};

/* One entry of an answer, as nldev.c of the kernel lays it out. */
struct qp_answer {
	struct nlmsghdr head;
	struct nlattr table, entry;
	struct attr field[4];
};

static struct qp_answer qp_answer(void)
{
	return (struct qp_answer){
		.head = {.nlmsg_len = sizeof(struct qp_answer), .nlmsg_type = 0x140d},
		.table = {.nla_len = sizeof(struct qp_answer) - NLMSG_HDRLEN,
			  .nla_type = RDMA_NLDEV_ATTR_RES_QP | NLA_F_NESTED},
		.entry = {.nla_len = sizeof(struct qp_answer) - NLMSG_HDRLEN - NLA_HDRLEN,
			  .nla_type = RDMA_NLDEV_ATTR_RES_QP_ENTRY | NLA_F_NESTED},
		.field = {{8, RDMA_NLDEV_ATTR_RES_LQPN, 77},
			  {8, RDMA_NLDEV_ATTR_RES_RQPN, 78},
			  {5, RDMA_NLDEV_ATTR_RES_STATE, 6},
			  {8, RDMA_NLDEV_ATTR_RES_PID, 4711}}};
}

/* Whole, cut at each byte, and with each length that lies. */
static void queue_pairs_by_netlink(void **state)
{
	struct qp_answer answer = qp_answer();
	struct hang_read r = {.snap = &snap};

	(void)state;
	memset(&snap, 0, sizeof(snap));
	((struct spw_hang_proc_row *)spw_hang_row_add(&snap, SPW_HANG_TABLE_proc))->pid =
		spw_hang_num(4711);
	assert_int_equal(hang_qp_messages(&r, "mlx5_0", &answer, sizeof(answer)), 1);
	assert_int_equal(snap.qp_cnt, 1);
	assert_string_equal(snap.qp[0].device, "mlx5_0");
	assert_string_equal(snap.qp[0].state, "ERR");
	kit_equal(snap.qp[0].qpn, 77);
	kit_equal(snap.qp[0].peer_qpn, 78);
	for (size_t left = 0; left < sizeof(answer); left++)
		hang_qp_messages(&r, "mlx5_0", &answer, left);
	for (size_t at = 0; at < sizeof(answer); at++)
		for (int bit = 0; bit < 8; bit++) {
			answer = qp_answer();
			((uint8_t *)&answer)[at] ^= (uint8_t)(1u << bit);
			hang_qp_messages(&r, "mlx5_0", &answer, sizeof(answer));
		}
	answer = qp_answer();
	answer.field[3].value = 4712;
	snap.qp_cnt = 0;
	hang_qp_messages(&r, "mlx5_0", &answer, sizeof(answer));
	assert_int_equal(snap.qp_cnt, 0);
	spw_hang_snap_free(&snap);
}

static void recorded_queue_pairs(void **state)
{
	(void)state;
	kit_rank(4711, "0");
	kit_put("qp", "mlx5_0 77 78 RTS 4711\nmlx5_0 79 80 ERR 4712\nmlx5_0 1\n");
	assert_int_equal(kit_read(NULL, &snap), 0);
	assert_int_equal(snap.qp_cnt, 1);
	assert_string_equal(snap.qp[0].state, "RTS");
	assert_string_equal(snap.why[SPW_HANG_SOURCE_qp], "");
	spw_hang_snap_free(&snap);
}

/* The rank's own, not those of another process of its namespace. */
static void a_connection_without_an_answer(void **state)
{
	static const char head[] = "  sl  local_address rem_address   st tx_queue rx_queue\n";
	char text[512], link[128];

	(void)state;
	kit_rank(4711, "0");
	snprintf(
		text, sizeof(text),
		"%s   0: %08X:A3F2 %08X:1B58 02 00000001:00000000 01:00000064 00000003  1000 0 55 "
		"2\n"
		"   1: %08X:A3F2 %08X:1B58 02 00000001:00000000 01:00000064 00000003  1000 0 56 2\n"
		"   2: %08X:A3F2 %08X:1B58 01 00000001:00000000 01:00000064 00000003  1000 0 55 "
		"2\n",
		head, htonl(0xc0000201), htonl(0xc0000202), 1, 2, 1, 2);
	kit_proc_put(4711, "net/tcp", text);
	kit_proc_put(4711, "net/tcp6", head);
	snprintf(link, sizeof(link), "%s/proc/4711/fd/9", root);
	assert_int_equal(symlink("socket:[55]", link), 0);
	kit_put("addr", "192.0.2.1\nfe80::1\n");
	assert_int_equal(kit_read(NULL, &snap), 0);
	assert_int_equal(snap.dial_cnt, 1);
	assert_string_equal(snap.dial[0].local, "192.0.2.1:41970");
	assert_string_equal(snap.dial[0].remote, "192.0.2.2:7000");
	assert_string_equal(snap.dial[0].state, "SYN_SENT");
	assert_int_equal(snap.addr_cnt, 2);
	assert_string_equal(snap.addr[1].addr, "fe80::1");
	spw_hang_snap_free(&snap);
}

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

#define RECORDED(test) cmocka_unit_test_setup_teardown(test, kit_open, kit_close)

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
		RECORDED(pages_that_are_none),
		cmocka_unit_test(a_page_of_this_process),
		RECORDED(a_port),
		cmocka_unit_test(queue_pairs_by_netlink),
		RECORDED(recorded_queue_pairs),
		RECORDED(a_connection_without_an_answer),
		RECORDED(no_host_at_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
