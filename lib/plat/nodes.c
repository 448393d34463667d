/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * NUMA nodes, their memory and their hugepages. Source: Linux
 * Documentation/ABI/stable/sysfs-devices-node.
 *
 * plat.c calls plat_nodes_read once; the findings add up the free hugepages of all nodes. Nodes are
 * sorted, because folders are listed in alphabetical order, where node10 comes before node2.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plat/plat_impl.h"

struct huge_walk {
	struct plat_read *r;
	const char *folder;
	struct spw_plat_node *node;
};

/* name: "hugepages-2048kB". */
static bool node_huge_read(const char *name, void *arg)
{
	struct huge_walk *walk = arg;
	struct spw_plat_huge *huge = &walk->node->huge[walk->node->huge_cnt];
	char fact[SPW_PLAT_NAME_MAX];
	uint64_t kb;

	if (strncmp(name, "hugepages-", 10) || (kb = strtoull(name + 10, NULL, 10)) == 0)
		return true;
	huge->page_bytes = kb << 10;
	snprintf(fact, sizeof(fact), "%.30s_total", name);
	huge->total_cnt = plat_count(walk->r, fact, "%s/%s/nr_hugepages", walk->folder, name);
	snprintf(fact, sizeof(fact), "%.30s_free", name);
	huge->free_cnt = plat_count(walk->r, fact, "%s/%s/free_hugepages", walk->folder, name);
	return ++walk->node->huge_cnt < SPW_PLAT_HUGE_MAX;
}

/* A line of meminfo begins with the node's number in sysfs, and without it in /proc. */
static void node_memory(struct plat_read *r, struct spw_plat_node *node, const char *path,
			const char *total, const char *unused)
{
	node->mem_bytes = (uint64_t)plat_labelled(r, "mem_total_kb", 0, path, total) << 10;
	node->mem_free_bytes = (uint64_t)plat_labelled(r, "mem_free_kb", 0, path, unused) << 10;
}

/* sysfs shows a memory-side cache only where the firmware has a table for it; hwloc also finds
 * those of a processor that it knows. */
static void node_memory_cache(struct plat_read *r, struct spw_plat_node *node)
{
	char text[160];
	const char *at;

	plat_text(r, "hwloc", text, sizeof(text), "hwloc/node/%d", node->node);
	at = strstr(text, "memory_cache ");
	node->mem_cache_bytes = at ? strtoull(at + strlen("memory_cache "), NULL, 10) : 0;
}

/* name: "node0". Other entries of the folder are skipped. */
static bool node_read(const char *name, void *arg)
{
	struct plat_read *r = arg;
	struct spw_plat *plat = r->plat;
	struct spw_plat_node *node = &plat->node[plat->node_cnt];
	char path[128], total[64], unused[64];
	struct huge_walk huge = {r, path, node};

	if (strncmp(name, "node", 4) || name[4] < '0' || name[4] > '9')
		return true;
	node->node = atoi(name + 4);
	plat_of(r, "node %d", node->node);
	snprintf(path, sizeof(path), "sys/devices/system/node/%.16s/meminfo", name);
	snprintf(total, sizeof(total), "Node %d MemTotal:", node->node);
	snprintf(unused, sizeof(unused), "Node %d MemFree:", node->node);
	node_memory(r, node, path, total, unused);
	node_memory_cache(r, node);
	snprintf(path, sizeof(path), "sys/devices/system/node/%.16s/hugepages", name);
	plat_tree_each(r->tree, path, node_huge_read, &huge);
	return ++plat->node_cnt < SPW_PLAT_NODE_MAX;
}

static int node_by_number(const void *a, const void *b)
{
	return ((const struct spw_plat_node *)a)->node - ((const struct spw_plat_node *)b)->node;
}

void plat_nodes_read(struct plat_read *r)
{
	struct spw_plat *plat = r->plat;
	struct huge_walk huge = {r, "sys/kernel/mm/hugepages", &plat->node[0]};

	plat_tree_each(r->tree, "sys/devices/system/node", node_read, r);
	if (plat->node_cnt) {
		qsort(plat->node, plat->node_cnt, sizeof(plat->node[0]), node_by_number);
		return;
	}
	/* A kernel without NUMA: the machine is one node. */
	plat->node_cnt = 1;
	plat_of(r, "node 0");
	node_memory(r, &plat->node[0], "proc/meminfo", "MemTotal:", "MemFree:");
	plat_tree_each(r->tree, huge.folder, node_huge_read, &huge);
}
