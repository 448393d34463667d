/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A recorded host in a folder of its own, made file by file (hang/read/read_impl.h).
 */
#ifndef READ_KIT_H
#define READ_KIT_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hang/spw_hang.h"
#include "hang/spw_hang_page.h"
#include "unit_test.h"

static char root[64];

static int kit_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

/* Before and after each test. */
static SPW_UNUSED int kit_open(void **state)
{
	(void)state;
	snprintf(root, sizeof(root), "/tmp/spw_hang.XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static SPW_UNUSED int kit_close(void **state)
{
	(void)state;
	return nftw(root, kit_remove, 8, FTW_DEPTH | FTW_PHYS);
}

static SPW_UNUSED void kit_put_bytes(const char *path, const void *bytes, size_t cnt)
{
	char full[256];
	FILE *file;

	snprintf(full, sizeof(full), "%s/%s", root, path);
	for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')); *at++ = '/') {
		*at = '\0';
		mkdir(full, 0700);
	}
	file = fopen(full, "we");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, cnt, file), cnt);
	fclose(file);
}

static SPW_UNUSED void kit_put(const char *path, const char *text)
{
	kit_put_bytes(path, text, strlen(text));
}

static SPW_UNUSED void kit_remove_file(const char *path)
{
	char full[256];

	snprintf(full, sizeof(full), "%s/%s", root, path);
	assert_int_equal(unlink(full), 0);
}

/* A thread as /proc shows it: state and times in clock ticks, on a CPU. */
static SPW_UNUSED void kit_thread(int pid, int tid, char state, int utime, int cpu, int rt)
{
	char path[64], text[256];

	snprintf(text, sizeof(text),
		 "%d (a) b) %c 1 1 1 0 -1 0 0 0 0 0 %d 7 0 0 20 0 3 0 1000 0 0 0 0 0 0 0 0 0 0 0 0 "
		 "0 0 0 17 %d %d 0 0 0 0",
		 tid, state, utime, cpu, rt);
	snprintf(path, sizeof(path), "proc/%d/task/%d/stat", pid, tid);
	kit_put(path, text);
	if (pid != tid)
		return;
	snprintf(path, sizeof(path), "proc/%d/stat", pid);
	kit_put(path, text);
}

static SPW_UNUSED void kit_proc_put(int pid, const char *name, const char *text)
{
	char path[96];

	snprintf(path, sizeof(path), "proc/%d/%s", pid, name);
	kit_put(path, text);
}

/* A rank with NCCL loaded and no page, process 12 of its container. */
static SPW_UNUSED void kit_rank(int pid, const char *rank)
{
	char text[64], path[64];
	size_t used;

	kit_thread(pid, pid, 'S', 100, 2, 0);
	kit_proc_put(pid, "maps", "7f00 r-xp 0 0:0 1 /v/libnccl.so.2\n7f01 r-xp 0 0:0 2 [stack]\n");
	kit_proc_put(pid, "comm", "python3\n");
	kit_proc_put(pid, "cgroup", "0::/job\n");
	snprintf(text, sizeof(text), "Name:\tpython3\nNSpid:\t%d\t12\nTracerPid:\t0\n", pid);
	kit_proc_put(pid, "status", text);
	snprintf(path, sizeof(path), "task/%d/status", pid);
	kit_proc_put(pid, path, text);
	kit_proc_put(pid, "fd/0", "");
	used = (size_t)snprintf(text, sizeof(text), "RANK=%s", rank) + 1;
	used += (size_t)snprintf(text + used, sizeof(text) - used, "WORLD_SIZE=2") + 1;
	snprintf(path, sizeof(path), "proc/%d/environ", pid);
	kit_put_bytes(path, text, used);
}

static SPW_UNUSED int kit_read(const struct spw_hang_snap *before, struct spw_hang_snap *snap)
{
	memset(snap, 0, sizeof(*snap));
	return spw_hang_read(&(struct spw_hang_where){.root = root, .before = before}, snap);
}

static SPW_UNUSED void kit_equal(struct spw_hang_num num, int64_t value)
{
	assert_true(num.known);
	assert_int_equal(num.value, value);
}

#define RECORDED(test) cmocka_unit_test_setup_teardown(test, kit_open, kit_close)

#endif
