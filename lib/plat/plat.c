/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Reads all facts of a machine by calling each reader in turn (plat_impl.h), and then the findings,
 * which need all of them. Called by spinwire at start (app/spinwire/machine.c), and by tests on
 * trees that they write.
 *
 * Order: cores first, because a tree without cores is no sysfs tree; nodes, NICs and GPUs next;
 * findings last. Roots can be replaced, so a machine of which parts of /sys and /proc were copied
 * is read as if it were this one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "plat/plat_impl.h"

/* Product name from DMI (x86, Arm servers) or the device tree (embedded boards). */
static void machine_read(const struct plat_root *root, struct spw_plat *plat)
{
	struct utsname uts;

	if (!plat_text(plat->machine, sizeof(plat->machine), root->sys,
		       "class/dmi/id/product_name"))
		plat_text(plat->machine, sizeof(plat->machine), root->sys,
			  "firmware/devicetree/base/model");
	plat_text(plat->kernel, sizeof(plat->kernel), root->proc, "sys/kernel/osrelease");
	if (!plat_text(plat->arch, sizeof(plat->arch), root->proc, "sys/kernel/arch") &&
	    uname(&uts) == 0)
		plat_copy(plat->arch, sizeof(plat->arch), uts.machine);
	plat->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
}

/* "Max locked memory   8388608   8388608   bytes": soft and hard limit, or "unlimited". */
static void memlock_read(const struct plat_root *root, struct spw_plat *plat)
{
	char text[128], *end;

	plat->memlock_bytes = UINT64_MAX;
	if (!plat_label_text(text, sizeof(text), root->proc, "self/limits", "Max locked memory"))
		return;
	if (strncmp(text, "unlimited", 9) != 0)
		plat->memlock_bytes = strtoull(text, &end, 10);
}

int spw_plat_read(const struct spw_plat_from *from, struct spw_plat **plat_out)
{
	struct plat_root root = {"/sys", "/proc", "libcuda.so.1"};
	struct spw_plat *plat = calloc(1, sizeof(*plat));
	int rc;

	if (!plat)
		return spw_err(ENOMEM, "no memory for the facts of this machine");
	if (from && from->sys)
		root.sys = from->sys;
	if (from && from->proc)
		root.proc = from->proc;
	if (from && from->cuda_lib)
		root.cuda_lib = from->cuda_lib;
	rc = plat_cores_read(&root, plat);
	if (rc) {
		spw_plat_free(plat);
		return rc;
	}
	machine_read(&root, plat);
	memlock_read(&root, plat);
	plat_nodes_read(&root, plat);
	plat_nics_read(&root, plat);
	plat_gpus_read(&root, plat);
	plat_findings_make(plat);
	*plat_out = plat;
	return 0;
}

void spw_plat_free(struct spw_plat *plat)
{
	if (plat)
		free(plat->core);
	free(plat);
}

const struct spw_plat_core *spw_plat_core_by_cpu(const struct spw_plat *plat, uint32_t cpu)
{
	for (uint32_t i = 0; i < plat->core_cnt; i++)
		if (plat->core[i].cpu == cpu)
			return &plat->core[i];
	return NULL;
}

const struct spw_plat_node *spw_plat_node_by_id(const struct spw_plat *plat, int32_t node)
{
	for (uint32_t i = 0; i < plat->node_cnt; i++)
		if (plat->node[i].node == node)
			return &plat->node[i];
	return NULL;
}

const char *spw_plat_severity_name(enum spw_plat_severity severity)
{
	static const char *const name[] = {"note", "warn", "stop"};

	return name[severity];
}

const char *spw_plat_core_kind_name(enum spw_plat_core_kind kind)
{
	static const char *const name[] = {"only", "big", "little"};

	return name[kind];
}
