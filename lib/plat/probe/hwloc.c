/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What hwloc knows of the topology, put into a live tree. sysfs lacks some of it: caches of cores
 * whose firmware describes none (hwloc asks CPUID), memory-side caches, and the node of a PCI
 * function whose numa_node is -1 (hwloc takes its host bridge's).
 *
 *   hwloc/api_version = 2.8.0
 *   hwloc/cpu/3 = package 0 core 3 l3 0-7 node 0
 *   hwloc/node/0 = cpus 0-19 memory_cache 0
 *   hwloc/pci/0000:01:00.0 = node 0 cpus 0-19
 *
 * Answers, and not hwloc's own XML: a recorded machine is replayed without hwloc, and a hostile one
 * never reaches its parser. Lists as the kernel writes them; -1 and "-" unknown. Called once, by
 * plat.c. Source: hwloc's documentation, "Object types".
 */
#include <hwloc.h>
#include <stdio.h>

#include "plat/plat_impl.h"

/* Backends that would start a GPU's driver; what they know is asked of the libraries themselves. */
#define NOT_ASKED "cuda,nvml,opencl,rsmi,levelzero,gl"

static void probe_hwloc_put(struct plat_tree *tree, const char *path, const char *text)
{
	char full[64];

	snprintf(full, sizeof(full), "hwloc/%.48s", path);
	plat_tree_put(tree, full, text);
}

/* "0-3,8"; "-" for none. */
static void probe_hwloc_list(hwloc_const_bitmap_t set, char *out, size_t bytes)
{
	if (!set || hwloc_bitmap_iszero(set) ||
	    hwloc_bitmap_list_snprintf(out, bytes, set) >= (int)bytes)
		snprintf(out, bytes, "-");
}

static int probe_hwloc_number(hwloc_topology_t topo, hwloc_obj_type_t type, hwloc_obj_t from)
{
	hwloc_obj_t obj = hwloc_get_ancestor_obj_by_type(topo, type, from);

	return obj ? (int)obj->os_index : -1;
}

static void probe_hwloc_cpus(struct plat_tree *tree, hwloc_topology_t topo)
{
	for (hwloc_obj_t pu = NULL; (pu = hwloc_get_next_obj_by_type(topo, HWLOC_OBJ_PU, pu));) {
		hwloc_obj_t l3 = hwloc_get_ancestor_obj_by_type(topo, HWLOC_OBJ_L3CACHE, pu);
		char path[32], l3_list[96], text[256];

		probe_hwloc_list(l3 ? l3->cpuset : NULL, l3_list, sizeof(l3_list));
		snprintf(path, sizeof(path), "cpu/%u", pu->os_index);
		snprintf(text, sizeof(text), "package %d core %d l3 %s node %d",
			 probe_hwloc_number(topo, HWLOC_OBJ_PACKAGE, pu),
			 probe_hwloc_number(topo, HWLOC_OBJ_CORE, pu), l3_list,
			 pu->nodeset ? hwloc_bitmap_first(pu->nodeset) : -1);
		probe_hwloc_put(tree, path, text);
	}
}

/* The memory-side cache is the parent of its node. */
static void probe_hwloc_nodes(struct plat_tree *tree, hwloc_topology_t topo)
{
	for (hwloc_obj_t node = NULL;
	     (node = hwloc_get_next_obj_by_type(topo, HWLOC_OBJ_NUMANODE, node));) {
		bool cached = node->parent && node->parent->type == HWLOC_OBJ_MEMCACHE;
		char path[32], cpus[96], text[160];

		probe_hwloc_list(node->cpuset, cpus, sizeof(cpus));
		snprintf(path, sizeof(path), "node/%u", node->os_index);
		snprintf(text, sizeof(text), "cpus %s memory_cache %llu", cpus,
			 cached ? (unsigned long long)node->parent->attr->cache.size : 0ull);
		probe_hwloc_put(tree, path, text);
	}
}

/* A function belongs to the cores of the object that its host bridge hangs from; that is the whole
 * machine where nothing is known. */
static void probe_hwloc_functions(struct plat_tree *tree, hwloc_topology_t topo)
{
	for (hwloc_obj_t pci = NULL; (pci = hwloc_get_next_pcidev(topo, pci));) {
		const struct hwloc_pcidev_attr_s *at = &pci->attr->pcidev;
		hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(topo, pci);
		bool known = near && near->parent && near->nodeset;
		char path[48], cpus[96], text[160];

		probe_hwloc_list(known ? near->cpuset : NULL, cpus, sizeof(cpus));
		snprintf(path, sizeof(path), "pci/%04x:%02x:%02x.%x", at->domain, at->bus, at->dev,
			 at->func);
		snprintf(text, sizeof(text), "node %d cpus %s",
			 known ? hwloc_bitmap_first(near->nodeset) : -1, cpus);
		probe_hwloc_put(tree, path, text);
	}
}

/* Cores outside the cpuset are included: the findings compare what this process may use with what
 * there is. */
void plat_probe_hwloc(struct plat_tree *tree)
{
	unsigned int version = hwloc_get_api_version();
	hwloc_topology_t topo;
	char text[32];

	if (hwloc_topology_init(&topo))
		return;
	hwloc_topology_set_flags(topo, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
	hwloc_topology_set_io_types_filter(topo, HWLOC_TYPE_FILTER_KEEP_ALL);
	hwloc_topology_set_components(topo, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, NOT_ASKED);
	if (hwloc_topology_load(topo) == 0) {
		snprintf(text, sizeof(text), "%u.%u.%u", version >> 16, version >> 8 & 255,
			 version & 255);
		probe_hwloc_put(tree, "api_version", text);
		probe_hwloc_cpus(tree, topo);
		probe_hwloc_nodes(tree, topo);
		probe_hwloc_functions(tree, topo);
	}
	hwloc_topology_destroy(topo);
}
