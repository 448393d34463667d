/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The litmus on a GPU: its attributes, the choice of memory, each kind of memory and each CUDA
 * executor with the litmus's own handler, then its broken builds (broken/litmus.cu). Prints a line
 * for each. Skips with status 77 where there is no GPU.
 *
 *   litmus_test [--level quick|long] [--found NAME,...] [PLUGIN ...]
 *
 * --found names the plug-ins that the litmus must find on this machine; "none" must pass on each.
 * Resident kernels end by themselves after LIFE_MS, whatever goes wrong.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "exec/spw_litmus.h"
#include "plat/spw_plat.h"
#include "topo/spw_topo_litmus.h"

#define LIFE_MS 5000u

static struct spw_topo topo;
static enum spw_litmus_level level = SPW_LITMUS_QUICK;

static void print_attributes(void)
{
	struct spw_plat_gpu gpu;

	if (spw_plat_gpu_read(0, &gpu)) {
		printf("skipped: %s\n", spw_err_text());
		exit(77);
	}
	printf("%s\n", gpu.name);
	for (int a = 0; a < SPW_PLAT_GPU_ATTR_CNT; a++)
		printf("  %-48s %d\n", spw_plat_gpu_attr_name((enum spw_plat_gpu_attr)a),
		       gpu.attr[a]);
}

static int open_topology(enum spw_mem_kind memory, enum spw_exec_kind kind)
{
	static struct spw_port_spec spec;
	struct spw_topo_conf conf = {
		.port = {{.spec = &spec, .queue_cnt = 1, .profile = "latency"}},
		.port_cnt = 1,
		.lane = {{.numa_node = -1}},
		.lane_cnt = 1,
		.memory = {.kind = memory, .slots = 256, .slot_bytes = SPW_LITMUS_BYTES_MAX},
		.exec = {.backend[0].kind = kind,
			 .backend_cnt = 1,
			 .handler = &spw_litmus_handler,
			 .life_ms = LIFE_MS},
		.pipe = {.burst = 32},
	};
	int rc = spw_tsc_calibrate(20, &conf.tsc);

	rc = rc ? rc : spw_port_spec_parse("null:size=64", &spec);
	return rc ? rc : spw_topo_open(&topo, &conf);
}

/* Returns: as spw_topo_litmus. Prints one line. */
static int run(const char *what, enum spw_mem_kind memory, enum spw_exec_kind kind,
	       const struct spw_handler *handler)
{
	struct spw_litmus out = {0};
	int rc = open_topology(memory, kind);
	bool opened = !rc;

	if (opened)
		rc = spw_topo_litmus(&topo, level, handler, &out);
	printf("%-10s %-10s %-16s", what,
	       opened ? spw_mem_kind_name(topo.region[0].kind) : spw_mem_kind_name(memory),
	       spw_exec_kind_name(kind));
	if (rc)
		printf(" %s: %s\n", rc == -EIO ? "FOUND" : "not run", spw_err_text());
	else
		printf(" passed: %lu frames, %lu bytes in %.3f s, %.0f frames/s; %s\n",
		       (unsigned long)out.frames[SPW_LITMUS_answer], (unsigned long)out.bytes,
		       (double)out.ns * 1e-9, (double)out.round_trips * 1e9 / (double)(out.ns + 1),
		       topo.region[0].why);
	if (rc == -EBUSY) {
		printf("the executor does not end\n");
		_exit(1);
	}
	spw_topo_close(&topo);
	return rc;
}

/* A kind that the machine cannot do is refused with a reason; what it can do passes. */
static int run_kinds(void)
{
	static const enum spw_mem_kind kind[] = {SPW_MEM_AUTO, SPW_MEM_HOST, SPW_MEM_CUDA_HOST,
						 SPW_MEM_CUDA_REG};
	int failed = 0;

	for (uint32_t m = 0; m < SPW_ARRAY_CNT(kind); m++)
		for (int e = SPW_EXEC_CUDA_PERSISTENT; e <= SPW_EXEC_CUDA_LAUNCH; e++) {
			int rc = run("whole", kind[m], (enum spw_exec_kind)e, &spw_litmus_handler);

			failed += rc && rc != -ENOTSUP;
		}
	return failed;
}

static bool is_listed(const char *list, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = list; (at = strstr(at, name)); at += len)
		if ((at == list || at[-1] == ',') && (!at[len] || at[len] == ','))
			return true;
	return false;
}

/* .../litmus_fence.so -> fence */
static void name_of(const char *path, char *out, size_t bytes)
{
	const char *at = strrchr(path, '_');

	snprintf(out, bytes, "%s", at ? at + 1 : path);
	out[strcspn(out, ".")] = '\0';
}

static int run_broken(const char *path, const char *must_find)
{
	const struct spw_handler *handler;
	char name[32];
	int rc;

	name_of(path, name, sizeof(name));
	if (spw_handler_open(path, &handler)) {
		printf("%-10s %s\n", name, spw_err_text());
		return 1;
	}
	rc = run(name, SPW_MEM_AUTO, SPW_EXEC_CUDA_PERSISTENT, handler);
	spw_handler_close(handler);
	if (!strcmp(name, "none"))
		return rc != 0;
	return rc != -EIO && is_listed(must_find, name);
}

int main(int argc, char **argv)
{
	const char *must_find = "";
	int failed = 0, i = 1;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (; i + 1 < argc && !strncmp(argv[i], "--", 2); i += 2) {
		if (!strcmp(argv[i], "--found"))
			must_find = argv[i + 1];
		else if (!strcmp(argv[i + 1], "long"))
			level = SPW_LITMUS_LONG;
	}
	print_attributes();
	failed = run_kinds();
	for (; i < argc; i++)
		failed += run_broken(argv[i], must_find);
	printf("%d failed\n", failed);
	return failed != 0;
}
