/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * NUMA nodes, their memory and their hugepages. Source: Linux
 * Documentation/ABI/stable/sysfs-devices-node.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plat/plat_impl.h"

struct huge_walk {
	const struct plat_root *root;
	const char *folder;
	struct spw_plat_node *node;
};

/* name: "hugepages-2048kB". */
static bool huge_read(const char *name, void *arg)
{
	struct huge_walk *walk = arg;
	struct spw_plat_huge *huge = &walk->node->huge[walk->node->huge_cnt];
	uint64_t kb;

	if (strncmp(name, "hugepages-", 10) || (kb = strtoull(name + 10, NULL, 10)) == 0)
		return true;
	huge->page_bytes = kb << 10;
	huge->total_cnt =
		(uint64_t)plat_number(0, walk->root->sys, "%s/%s/nr_hugepages", walk->folder, name);
	huge->free_cnt = (uint64_t)plat_number(0, walk->root->sys, "%s/%s/free_hugepages",
					       walk->folder, name);
	return ++walk->node->huge_cnt < SPW_PLAT_HUGE_MAX;
}

struct node_walk {
	const struct plat_root *root;
	struct spw_plat *plat;
};

/* name: "node0". Other entries of the folder are skipped. */
static bool node_read(const char *name, void *arg)
{
	struct node_walk *walk = arg;
	struct spw_plat *plat = walk->plat;
	struct spw_plat_node *node = &plat->node[plat->node_cnt];
	char path[128], label[64];
	struct huge_walk huge = {walk->root, path, node};

	if (strncmp(name, "node", 4) || name[4] < '0' || name[4] > '9')
		return true;
	node->node = atoi(name + 4);
	snprintf(path, sizeof(path), "devices/system/node/%.16s/meminfo", name);
	snprintf(label, sizeof(label), "Node %d MemTotal:", node->node);
	node->mem_bytes = (uint64_t)plat_labelled(0, walk->root->sys, path, label) << 10;
	snprintf(label, sizeof(label), "Node %d MemFree:", node->node);
	node->mem_free_bytes = (uint64_t)plat_labelled(0, walk->root->sys, path, label) << 10;
	snprintf(path, sizeof(path), "devices/system/node/%.16s/hugepages", name);
	plat_each(walk->root->sys, path, huge_read, &huge);
	return ++plat->node_cnt < SPW_PLAT_NODE_MAX;
}

static int by_number(const void *a, const void *b)
{
	return ((const struct spw_plat_node *)a)->node - ((const struct spw_plat_node *)b)->node;
}

void plat_nodes_read(const struct plat_root *root, struct spw_plat *plat)
{
	struct node_walk walk = {root, plat};
	struct huge_walk huge = {root, "kernel/mm/hugepages", &plat->node[0]};

	plat_each(root->sys, "devices/system/node", node_read, &walk);
	if (plat->node_cnt) {
		qsort(plat->node, plat->node_cnt, sizeof(plat->node[0]), by_number);
		return;
	}
	/* A kernel without NUMA: the machine is one node. */
	plat->node_cnt = 1;
	plat->node[0].mem_bytes = (uint64_t)plat_labelled(0, root->proc, "meminfo", "MemTotal:")
				  << 10;
	plat->node[0].mem_free_bytes = (uint64_t)plat_labelled(0, root->proc, "meminfo", "MemFree:")
				       << 10;
	plat_each(root->sys, huge.folder, huge_read, &huge);
}
