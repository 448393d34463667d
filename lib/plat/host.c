/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What belongs to the machine or to this process as a whole: names, limits, capabilities, modules,
 * container, variables of the environment. Source: Linux proc(5), capabilities(7).
 *
 * plat.c calls plat_host_read once. Everything read here leaves a default that hurts nothing when
 * it is missing: a container hides much of it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plat/plat_impl.h"

/* Product name from DMI (x86, Arm servers) or the device tree (embedded boards). */
static void host_names_read(struct plat_read *r)
{
	struct spw_plat *plat = r->plat;

	if (!plat_text(r, "machine", plat->machine, sizeof(plat->machine),
		       "sys/class/dmi/id/product_name"))
		plat_text(r, "machine", plat->machine, sizeof(plat->machine),
			  "sys/firmware/devicetree/base/model");
	plat_text(r, "kernel", plat->kernel, sizeof(plat->kernel), "proc/sys/kernel/osrelease");
	if (!plat_text(r, "arch", plat->arch, sizeof(plat->arch), "proc/sys/kernel/arch"))
		plat_text(r, "arch", plat->arch, sizeof(plat->arch), "sysconf/arch");
	plat->page_bytes = (uint64_t)plat_number(r, "page_bytes", 4096, "sysconf/pagesize");
	plat->uid = (uint32_t)plat_number(r, "uid", 0, "sysconf/uid");
}

/* "Max locked memory   8388608   8388608   bytes": soft and hard limit, or "unlimited". A limit
 * that cannot be read counts as none: an unknown fact is never a finding. */
static void host_rights_read(struct plat_read *r)
{
	struct spw_plat *plat = r->plat;
	char text[128], *end;

	plat->memlock_bytes = UINT64_MAX;
	if (plat_label_text(r, "memlock", text, sizeof(text), "proc/self/limits",
			    "Max locked memory") &&
	    strncmp(text, "unlimited", 9) != 0)
		plat->memlock_bytes = strtoull(text, &end, 10);
	plat->cap_known = plat_label_text(r, "capabilities", text, sizeof(text), "proc/self/status",
					  "CapEff:");
	plat->cap = strtoull(text, NULL, 16);
	plat->pinned_bytes =
		(uint64_t)plat_labelled(r, "pinned_kb", 0, "proc/self/status", "VmPin:") << 10;
	plat->user_namespace = plat_text(r, "uid_map", text, sizeof(text), "proc/self/uid_map") &&
			       !strstr(text, "4294967295");
}

/* A machine that does not say how much is left has enough: an unknown fact is never a finding. */
static void host_memory_read(struct plat_read *r)
{
	static const char file[] = "proc/meminfo";
	struct spw_plat *plat = r->plat;
	int64_t left = plat_labelled(r, "mem_available_kb", -1, file, "MemAvailable:");

	plat->available_bytes = left < 0 ? UINT64_MAX : (uint64_t)left << 10;
	plat->cma_total_bytes = (uint64_t)plat_labelled(r, "cma_total_kb", 0, file, "CmaTotal:")
				<< 10;
	plat->cma_free_bytes = (uint64_t)plat_labelled(r, "cma_free_kb", 0, file, "CmaFree:") << 10;
}

/* A module is loaded or built in; sysfs has a folder for it as soon as it has a parameter. */
static bool host_module_read(struct plat_read *r, const char *name)
{
	char fact[SPW_PLAT_NAME_MAX], source[64];
	bool there = plat_is_there(r, "sys/module/%s", name);

	snprintf(fact, sizeof(fact), "module_%.30s", name);
	snprintf(source, sizeof(source), "/sys/module/%.30s", name);
	plat_note(r, fact, there ? "there" : "absent", source, NULL);
	return there;
}

/* Always true: every file is read. */
static bool host_load_file_read(const char *name, void *arg)
{
	struct plat_read *r = arg;
	char path[PLAT_TREE_PATH_MAX];
	const char *text;

	snprintf(path, sizeof(path), "etc/modules-load.d/%.200s", name);
	if (plat_tree_read(r->tree, path, &text) == 0 &&
	    (strstr(text, "nvidia-peermem") || strstr(text, "nvidia_peermem")))
		r->plat->peermem_wanted = true;
	return true;
}

static void host_modules_read(struct plat_read *r)
{
	struct spw_plat *plat = r->plat;
	const char *text;

	plat->mlx5_core = host_module_read(r, "mlx5_core");
	plat->mlx5_ib = host_module_read(r, "mlx5_ib");
	plat->peermem = host_module_read(r, "nvidia_peermem");
	host_module_read(r, "nvidia");
	host_module_read(r, "rdma_ucm");
	plat_tree_each(r->tree, "etc/modules-load.d", host_load_file_read, r);
	if (plat_tree_read(r->tree, "etc/modules", &text) == 0 && strstr(text, "peermem"))
		plat->peermem_wanted = true;
	plat_note(r, "peermem_at_boot", plat->peermem_wanted ? "yes" : "no",
		  "/etc/modules-load.d /etc/modules", NULL);
}

/* Each engine leaves another mark; the first that is found names it. The name is for messages
 * only. */
static void host_container_read(struct plat_read *r)
{
	static const struct {
		const char *file, *name;
	} mark[] = {{".dockerenv", "docker"}, {"run/.containerenv", "podman"}};
	struct spw_plat *plat = r->plat;

	plat_text(r, "", plat->container, sizeof(plat->container), "run/systemd/container");
	for (size_t i = 0; i < SPW_ARRAY_CNT(mark); i++)
		if (!plat->container[0] && plat_is_there(r, "%s", mark[i].file))
			plat_copy(plat->container, sizeof(plat->container), mark[i].name);
	if (!plat->container[0] && plat_is_there(r, "env/KUBERNETES_SERVICE_HOST"))
		plat_copy(plat->container, sizeof(plat->container), "kubernetes");
	plat_note(r, "container", plat->container[0] ? plat->container : "none",
		  "/.dockerenv /run/.containerenv /run/systemd/container", NULL);
}

/* Adds NAME of each line "set-name: NAME". No YAML is parsed: a comment that looks like such a line
 * adds a name too many. */
static bool host_netplan_read(const char *file, void *arg)
{
	struct plat_read *r = arg;
	char *out = r->plat->set_name, path[PLAT_TREE_PATH_MAX];
	const char *text, *at;

	snprintf(path, sizeof(path), "etc/netplan/%.200s", file);
	if (plat_tree_read(r->tree, path, &text))
		return true;
	for (at = text; (at = strstr(at, "set-name:")); at += 9) {
		const char *name = at + 9 + strspn(at + 9, " \"'");
		size_t used = strlen(out), n = strcspn(name, " \"'\n#");

		if (n && used + n + 2 < sizeof(r->plat->set_name))
			snprintf(out + used, sizeof(r->plat->set_name) - used, "%.*s ", (int)n,
				 name);
	}
	return true;
}

/* The variable itself or, for NCCL, the same name in /etc/nccl.conf. */
static int32_t host_variable_read(struct plat_read *r, const char *name, const char *file)
{
	char path[64], text[32];
	int64_t value = -1;

	snprintf(path, sizeof(path), "env/%.40s", name);
	if (plat_text(r, name, text, sizeof(text), "%s", path))
		value = plat_number(r, "", -1, "%s", path);
	else if (file && plat_label_text(r, name, text, sizeof(text), file, name) && text[0] == '=')
		value = strtoll(text + 1, NULL, 10);
	return (int32_t)SPW_MAX(SPW_MIN(value, 1000), -1);
}

void plat_host_read(struct plat_read *r)
{
	plat_of(r, "host");
	host_names_read(r);
	host_rights_read(r);
	host_memory_read(r);
	host_modules_read(r);
	host_container_read(r);
	plat_tree_each(r->tree, "etc/netplan", host_netplan_read, r);
	plat_note(r, "netplan_names", r->plat->set_name, "/etc/netplan", NULL);
	r->plat->boot_known =
		plat_text(r, "boot_mtu", r->plat->boot_mtu, sizeof(r->plat->boot_mtu), "boot/mtu");
	r->plat->boot_pfc = plat_number(r, "boot_pfc", 0, "boot/pfc") > 0;
	r->plat->nccl_gid = host_variable_read(r, "NCCL_IB_GID_INDEX", "etc/nccl.conf");
	r->plat->ucx_gid = host_variable_read(r, "UCX_IB_GID_INDEX", NULL);
}
