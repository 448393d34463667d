/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Facts of this process that no file has, put into a live tree under names of their own (tree.h).
 *
 * plat.c calls plat_probe_process once for a live tree, nic_port.c plat_probe_access for each
 * device. A recorded machine keeps the answers, so its findings are those of the process that
 * recorded it.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "plat/plat_impl.h"

/* Variables that change what NCCL and UCX do on this machine, or say where it runs. No others are
 * recorded: an environment may hold secrets. */
static const char *const variable[] = {"NCCL_IB_GID_INDEX", "UCX_IB_GID_INDEX",
				       "KUBERNETES_SERVICE_HOST"};

static void process_put_number(struct plat_tree *tree, const char *path, long number)
{
	char text[32];

	snprintf(text, sizeof(text), "%ld", number);
	plat_tree_put(tree, path, text);
}

/* The kernel cuts a mask to the cpuset, so what is left of a mask of all cores is the cpuset. */
static void *process_cores_ask(void *arg)
{
	size_t bytes = CPU_ALLOC_SIZE(SPW_PLAT_CORE_MAX);
	cpu_set_t *mask = CPU_ALLOC(SPW_PLAT_CORE_MAX);
	bool *set = arg;

	if (!mask)
		return NULL;
	memset(mask, 0xff, bytes);
	if (sched_setaffinity(0, bytes, mask) == 0 && sched_getaffinity(0, bytes, mask) == 0)
		for (uint32_t i = 0; i < SPW_PLAT_CORE_MAX; i++)
			set[i] = CPU_ISSET_S(i, bytes, mask);
	CPU_FREE(mask);
	return NULL;
}

uint32_t spw_plat_cores_accepted(bool *set)
{
	uint32_t cnt = 0;
	pthread_t thread;

	memset(set, 0, SPW_PLAT_CORE_MAX * sizeof(*set));
	if (pthread_create(&thread, NULL, process_cores_ask, set) == 0)
		pthread_join(thread, NULL);
	for (uint32_t i = 0; i < SPW_PLAT_CORE_MAX; i++)
		cnt += set[i];
	return cnt;
}

static void process_put_cores(struct plat_tree *tree)
{
	bool set[SPW_PLAT_CORE_MAX];
	char text[4096];

	if (spw_plat_cores_accepted(set)) {
		spw_plat_list_text(set, SPW_PLAT_CORE_MAX, text, sizeof(text));
		plat_tree_put(tree, "sysconf/cores", text);
	}
}

void plat_probe_process(struct plat_tree *tree)
{
	struct utsname uts;
	char path[64];

	if (uname(&uts) == 0)
		plat_tree_put(tree, "sysconf/arch", uts.machine);
	process_put_number(tree, "sysconf/pagesize", sysconf(_SC_PAGESIZE));
	process_put_number(tree, "sysconf/uid", (long)geteuid());
	process_put_cores(tree);
	for (size_t i = 0; i < SPW_ARRAY_CNT(variable); i++) {
		const char *value = getenv(variable[i]);

		snprintf(path, sizeof(path), "env/%s", variable[i]);
		if (value)
			plat_tree_put(tree, path, value);
	}
}

/* The path is a file of the machine; the answer is of this process, so it has a place of its own
 * below access/. */
void plat_probe_access(struct plat_tree *tree, const char *path)
{
	char full[PLAT_TREE_PATH_MAX];

	snprintf(full, sizeof(full), "/%s", path);
	if (access(full, R_OK | W_OK)) {
		int error = errno;

		snprintf(full, sizeof(full), "access/%s", path);
		plat_tree_put_error(tree, full, error);
	} else {
		snprintf(full, sizeof(full), "access/%s", path);
		plat_tree_put(tree, full, "rw");
	}
}
