/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Stacks as eu-stack, gdb and the kernel print them, and as another process may make them look.
 */
#include "hang/read/read_impl.h"
#include "read_kit.h"

static struct spw_hang_snap snap;

static void stacks_read(bool stacks)
{
	memset(&snap, 0, sizeof(snap));
	assert_int_equal(
		spw_hang_read(
			&(struct spw_hang_where){.root = root, .last = true, .stacks = stacks},
			&snap),
		0);
}

/* Process 10 with two threads. */
static void process_put(char state)
{
	kit_rank(10, "0");
	kit_thread(10, 10, state, 1, 0, 0);
	kit_thread(10, 11, 'R', 1, 0, 0);
}

static void of_elfutils(void **state)
{
	(void)state;
	process_put('S');
	kit_put("proc/10/task/10/stack", "[<0>] mlx5_cmd_exec+0x1a/0x90 [mlx5_core]\n"
					 "[<0>] ksys_ioctl+0x60/0x90\n");
	kit_put("proc/10/stacks", "PID 10 - process\nTID 10:\n"
				  "#0  0x00007f0000001000     clock_nanosleep@@GLIBC_2.17\n"
				  "#1  0x00007f0000001001 - 1 main\n"
				  "TID 11:\n#0  0x00007f0000002000 sched_yield\n"
				  "#1  0x00007f0000002001 - 1 ncclLocalOpAppend(ncclComm*)\n"
				  "#2  0x00007f0000002002 - 1 ncclProxyStart\n"
				  "TID 99:\n#0  0x00007f0000003000 nobody\n");
	stacks_read(true);
	assert_int_equal(snap.thread_cnt, 2);
	assert_string_equal(snap.thread[0].stack, "clock_nanosleep < main");
	assert_string_equal(snap.thread[0].frame, "-");
	assert_string_equal(snap.thread[0].kernel, "mlx5_cmd_exec < ksys_ioctl");
	assert_string_equal(snap.thread[1].stack, "sched_yield < ncclLocalOpAppend < "
						  "ncclProxyStart");
	assert_string_equal(snap.thread[1].frame, "ncclLocalOpAppend");
	assert_string_equal(snap.why[SPW_HANG_SOURCE_stacks], "");
	spw_hang_snap_free(&snap);
}

static void of_gdb(void **state)
{
	(void)state;
	process_put('S');
	kit_put("proc/10/stacks",
		"[New LWP 11]\nwarning: Error disabling address space randomization\n"
		"Thread 2 (Thread 0x7f00 (LWP 11) \"NCCL (LWP 10)\"):\n"
		"#0  0x00007f01 in recvProxyProgress (args=0x7) at net.cc:1\n"
		"#1  ncclProxyProgress (p=<optimized out>) at proxy.cc:2\n"
		"Thread 1 (Thread 0x7f02 (LWP 10) \"python\"):\n#0  poll () from libc.so.6\n");
	stacks_read(true);
	assert_string_equal(snap.thread[1].stack, "recvProxyProgress < ncclProxyProgress");
	assert_string_equal(snap.thread[1].frame, "ncclProxyProgress");
	assert_string_equal(snap.thread[0].stack, "poll");
	spw_hang_snap_free(&snap);
}

static void only_on_request_and_not_of_the_stopped(void **state)
{
	(void)state;
	process_put('S');
	kit_put("proc/10/task/10/stack", "[<0>] mlx5_cmd_exec+0x1a/0x90\n");
	kit_put("proc/10/stacks", "TID 10:\n#0  0x1 main\n");
	stacks_read(false);
	assert_string_equal(snap.thread[0].stack, "");
	assert_string_equal(snap.thread[0].kernel, "");
	assert_non_null(strstr(snap.why[SPW_HANG_SOURCE_stacks], "--stacks"));
	spw_hang_snap_free(&snap);

	process_put('T');
	stacks_read(true);
	assert_string_equal(snap.thread[0].stack, "");
	assert_string_equal(snap.thread[0].kernel, "mlx5_cmd_exec");
	assert_non_null(strstr(snap.why[SPW_HANG_SOURCE_stacks], "stopped"));
	spw_hang_snap_free(&snap);

	process_put('S');
	kit_remove_file("proc/10/stacks");
	stacks_read(true);
	assert_non_null(strstr(snap.why[SPW_HANG_SOURCE_stacks], "gdb"));
	spw_hang_snap_free(&snap);
}

/* Names may be of any length and any bytes. */
static void of_any_bytes(void **state)
{
	static const char *const piece[] = {
		"TID 10:\n", "#0 ",  "0x1 ", "- 1 ", "in ", "(LWP 11)", "nccl",   "\n",
		"\xff",      "\x1b", "#",    " ",    "@",   "main",     "TID \n", "(LWP "};
	struct hang_read r = {.where = &(struct spw_hang_where){.root = root}, .snap = &snap};
	uint64_t seed = 29;

	(void)state;
	process_put('S');
	stacks_read(false);
	for (uint32_t n = 0; n < 20000; n++) {
		char text[1024] = "TID 10:\n";

		for (uint32_t i = 0; i < n % 80; i++)
			strcat(text, piece[unit_random(&seed) % SPW_ARRAY_CNT(piece)]);
		hang_stack_rows(&r, 10, text);
		for (uint32_t i = 0; i < snap.thread_cnt; i++) {
			assert_non_null(
				memchr(snap.thread[i].stack, 0, sizeof(snap.thread[i].stack)));
			assert_null(strchr(snap.thread[i].stack, '\n'));
		}
	}
	spw_hang_snap_free(&snap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RECORDED(of_elfutils),
		RECORDED(of_gdb),
		RECORDED(only_on_request_and_not_of_the_stopped),
		RECORDED(of_any_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
