/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Dumps of a flight recorder as PyTorch writes them (pickle, protocol 2), and what is refused.
 */
#include <errno.h>
#include <fcntl.h>

#include "hang/read/pickle.h"
#include "read_kit.h"

static struct spw_hang_snap snap;
static uint8_t dump[4096];
static size_t used;

/* ---- a writer ---- */

static void op(int opcode)
{
	dump[used++] = (uint8_t)opcode;
}

static void word(uint64_t value, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		op((int)(value >> 8 * i & 255));
}

static void text(const char *value)
{
	op('X');
	word(strlen(value), 4);
	memcpy(dump + used, value, strlen(value));
	used += strlen(value);
}

static void number(int64_t value)
{
	op(0x8a);
	op(8);
	word((uint64_t)value, 8);
}

static void named(const char *name, int64_t value)
{
	text(name);
	number(value);
}

static void sizes(const char *name, int64_t size)
{
	text(name);
	op(']');
	op(']');
	number(size);
	op('a');
	number(8);
	op('a');
	op('a');
}

static void frame(const char *file, const char *function)
{
	op('}');
	op('(');
	text("name");
	text(function);
	text("filename");
	text(file);
	named("line", 42);
	op('u');
	op('a');
}

static void entry(int64_t sequence, const char *state)
{
	op('}');
	op('(');
	text("process_group");
	text("0");
	text("default_pg");
	op(0x86);
	named("collective_seq_id", sequence);
	named("p2p_seq_id", 0);
	text("is_p2p");
	op(0x89);
	text("profiling_name");
	text("nccl:all_reduce");
	named("time_created_ns", 1700000000000000000);
	sizes("input_sizes", 4096);
	sizes("output_sizes", 2048);
	text("state");
	text(state);
	text("time_discovered_started_ns");
	op('N');
	text("frames");
	op(']');
	frame("/v/site-packages/torch/distributed/distributed_c10d.py", "all_reduce");
	frame("/home/u/train.py", "step");
	op('u');
	op('a');
}

static void dump_write(void)
{
	used = 0;
	op(0x80);
	op(2);
	op('}');
	op('(');
	text("version");
	text("2.10");
	text("entries");
	op(']');
	op('q');
	op(0);
	entry(6, "completed");
	entry(7, "completed");
	entry(8, "started");
	entry(9, "scheduled");
	op('u');
	op('.');
}

/* ---- tests ---- */

static void rank_write(void)
{
	static const char environ[] = "RANK=1\0TORCH_FR_DUMP_TEMP_FILE=/tmp/fr_\0";

	kit_rank(4711, "1");
	kit_put_bytes("proc/4711/environ", environ, sizeof(environ) - 1);
	kit_put("now", "1 1700000060000000000");
}

static int last_read(void)
{
	memset(&snap, 0, sizeof(snap));
	return spw_hang_read(&(struct spw_hang_where){.root = root, .last = true}, &snap);
}

static void what_is_under_way(void **state)
{
	(void)state;
	rank_write();
	dump_write();
	kit_put_bytes("proc/4711/root/tmp/fr_1", dump, used);
	assert_int_equal(last_read(), 0);
	assert_int_equal(snap.op_cnt, 2);
	assert_string_equal(snap.op[0].group, "0");
	assert_string_equal(snap.op[0].function, "nccl:all_reduce");
	assert_string_equal(snap.op[0].state, "started");
	assert_string_equal(snap.op[0].sizes, "4096x8 2048x8");
	assert_string_equal(snap.op[0].site, "/home/u/train.py:42 step");
	kit_equal(snap.op[0].sequence, 8);
	kit_equal(snap.op[0].rank, 1);
	kit_equal(snap.op[0].is_p2p, 0);
	kit_equal(snap.op[0].age_ns, 60000000000);
	kit_equal(snap.op[1].sequence, 9);
	assert_string_equal(snap.why[SPW_HANG_SOURCE_recorder], "");
	spw_hang_snap_free(&snap);
	assert_int_equal(kit_read(NULL, &snap), 0);
	assert_int_equal(snap.op_cnt, 0);
	assert_non_null(strstr(snap.why[SPW_HANG_SOURCE_recorder], "last"));
	spw_hang_snap_free(&snap);
}

static uint32_t ops_read(void)
{
	uint32_t cnt;

	assert_int_equal(last_read(), 0);
	cnt = snap.op_cnt;
	spw_hang_snap_free(&snap);
	return cnt;
}

/* The process began 50 s ago: a file that is 55 s old is of a rank before it. */
static void a_dump_of_another_process(void **state)
{
	struct timespec times[2] = {{.tv_sec = 1700000005}, {.tv_sec = 1700000005}};
	char path[128];

	(void)state;
	rank_write();
	dump_write();
	kit_put_bytes("proc/4711/root/tmp/fr_1", dump, used);
	snprintf(path, sizeof(path), "%s/proc/4711/root/tmp/fr_1", root);
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
	assert_int_equal(ops_read(), 2);
	snprintf(path, sizeof(path), "%ld.50 7.00\n", 50 + 1000 / sysconf(_SC_CLK_TCK));
	kit_put("proc/uptime", path);
	assert_int_equal(ops_read(), 0);
}

/* A path that the user names is read in place of the variables', however old the dump is, as long
 * as the process wrote it. */
static void a_dump_at_a_path_that_is_named(void **state)
{
	struct timespec times[2] = {{.tv_sec = 1690000000}, {.tv_sec = 1690000000}};
	const struct spw_hang_where where = {.root = root, .last = true, .torch_dump = "/var/d/r"};
	char path[128];

	(void)state;
	rank_write();
	dump_write();
	kit_put_bytes("var/d/r1", dump, used);
	kit_put_bytes("proc/4711/root/tmp/fr_1", "no dump", 7);
	snprintf(path, sizeof(path), "%s/var/d/r1", root);
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
	assert_int_equal(spw_hang_read(&where, &snap), 0);
	assert_int_equal(snap.op_cnt, 2);
	spw_hang_snap_free(&snap);
	kit_put("proc/uptime", "100.00 7.00\n");
	assert_int_equal(spw_hang_read(&where, &snap), 0);
	assert_int_equal(snap.op_cnt, 0);
	assert_non_null(strstr(snap.why[SPW_HANG_SOURCE_recorder], "no dump there"));
	spw_hang_snap_free(&snap);
}

/* Another user can make a file of that name before the job does. */
static void a_dump_of_another_user(void **state)
{
	char path[128];

	(void)state;
	rank_write();
	dump_write();
	kit_put_bytes("proc/4711/root/tmp/fr_1", dump, used);
	snprintf(path, sizeof(path), "%s/proc/4711/root/tmp/fr_1", root);
	if (chown(path, 65534, (gid_t)-1) < 0)
		skip();
	assert_int_equal(ops_read(), 0);
}

/* An import, a call, an object: what makes a pickle run. */
static void nothing_is_run(void **state)
{
	static const char run[] = "\x80\x02"
				  "cos\nsystem\n(X\x02\0\0\0idtR.";
	struct pickle p;

	(void)state;
	assert_int_equal(pickle_read(&p, run, sizeof(run) - 1), -EPROTO);
	assert_non_null(strstr(spw_err_text(), "plain data"));
	pickle_free(&p);
	rank_write();
	kit_put_bytes("proc/4711/root/tmp/fr_1", run, sizeof(run) - 1);
	assert_int_equal(last_read(), 0);
	assert_int_equal(snap.op_cnt, 0);
	assert_non_null(strstr(snap.why[SPW_HANG_SOURCE_recorder], "plain data"));
	spw_hang_snap_free(&snap);
}

static void a_dump_cut_at_each_byte(void **state)
{
	struct pickle p;

	(void)state;
	dump_write();
	for (size_t left = 0; left < used; left++) {
		assert_int_equal(pickle_read(&p, dump, left), -EPROTO);
		pickle_free(&p);
	}
	assert_int_equal(pickle_read(&p, dump, used), 0);
	assert_int_equal(p.top->kind, PICKLE_DICT);
	pickle_free(&p);
}

/* A list in itself, by the memo: ']' 'q' 0 'h' 0 'a' '.' */
static void a_list_that_contains_itself(void **state)
{
	static const uint8_t loop[] = {']', 'q', 0, 'h', 0, 'a', '.'};
	uint32_t cursor = 0;
	struct pickle p;

	(void)state;
	assert_int_equal(pickle_read(&p, loop, sizeof(loop)), 0);
	assert_ptr_equal(pickle_next(&p, p.top, &cursor), p.top);
	assert_null(pickle_next(&p, p.top, &cursor));
	pickle_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RECORDED(what_is_under_way),
		RECORDED(a_dump_of_another_process),
		RECORDED(a_dump_at_a_path_that_is_named),
		RECORDED(a_dump_of_another_user),
		RECORDED(nothing_is_run),
		cmocka_unit_test(a_dump_cut_at_each_byte),
		cmocka_unit_test(a_list_that_contains_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
