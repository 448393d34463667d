/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Reads all facts of a machine by calling each reader in turn (plat_impl.h), and then the findings,
 * which need all of them. Called by spinwire at start (app/spinwire/machine.c), by spinwire-doctor,
 * and by tests on recorded machines.
 *
 * Order: probes first, because readers find their answers in the tree; cores next, because a tree
 * without cores is no machine's; counters again last, as late as possible; then the findings.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <jansson.h>

#include "base/spw_err.h"
#include "plat/plat_impl.h"

/* Loads a recorded machine; without one the tree is live. */
static int plat_tree_open(const struct spw_plat_from *from, struct plat_tree **tree_out)
{
	int rc = plat_tree_new(from->record[0] == NULL, tree_out);

	for (uint32_t i = 0; rc == 0 && i < SPW_ARRAY_CNT(from->record) && from->record[i]; i++)
		rc = plat_tree_load(*tree_out, from->name[i] ? from->name[i] : "recorded machine",
				    from->record[i]);
	return rc;
}

/* Asks the libraries and the system for what no file has. */
static void plat_probe(const struct spw_plat_from *from, struct plat_tree *tree)
{
	bool live = plat_tree_is_live(tree);
	const char *cuda = from->cuda_lib ? from->cuda_lib : live ? "libcuda.so.1" : "";
	const char *nvml = from->nvml_lib ? from->nvml_lib : live ? "libnvidia-ml.so.1" : "";

	if (live)
		plat_probe_process(tree);
	if (live && from->nccl) {
		plat_probe_nccl(tree);
		plat_probe_boot(tree);
	}
	if (live && !from->skip_hwloc)
		plat_probe_hwloc(tree);
	if (cuda[0])
		plat_probe_cuda(tree, cuda);
	if (nvml[0])
		plat_probe_nvml(tree, nvml);
}

/* A recorded machine brings its second reading along, in later/, with the time between the two. */
static void plat_sample_again(struct plat_read *r, uint32_t sample_ms)
{
	const struct timespec wait = {.tv_sec = sample_ms / 1000,
				      .tv_nsec = (long)(sample_ms % 1000) * 1000000};
	char text[16];

	if (plat_tree_is_live(r->tree) && sample_ms) {
		snprintf(text, sizeof(text), "%u", sample_ms);
		plat_tree_put(r->tree, "later/ms", text);
		nanosleep(&wait, NULL);
	}
	plat_of(r, "host");
	r->plat->sample_ms = (uint32_t)plat_number(r, "sample_ms", 0, "later/ms");
	if (r->plat->sample_ms)
		plat_counts_read(r, true);
}

/* Findings last: each rests on facts of several readers. */
static int plat_all_read(struct plat_read *r, const struct spw_plat_from *from)
{
	int rc;

	plat_probe(from, r->tree);
	if ((rc = plat_cores_read(r)) < 0)
		return rc;
	plat_cgroup_read(r);
	plat_host_read(r);
	plat_nodes_read(r);
	plat_nics_read(r);
	if (from->sample_ms || !plat_tree_is_live(r->tree))
		plat_counts_read(r, false);
	plat_gpus_read(r);
	plat_nccl_read(r);
	plat_sample_again(r, from->sample_ms);
	plat_cores_judge(r->plat);
	plat_host_judge(r->plat);
	plat_nics_judge(r->plat);
	plat_rdma_judge(r->plat);
	plat_counts_judge(r->plat);
	plat_gpus_judge(r->plat);
	plat_nccl_judge(r->plat);
	plat_pairs_read(r);
	plat_pairs_judge(r->plat);
	return 0;
}

/* r.tree belongs to plat from the start, so one spw_plat_free undoes everything after an error. */
int spw_plat_read(const struct spw_plat_from *from, struct spw_plat **plat_out)
{
	static const struct spw_plat_from running;
	struct plat_read r = {.plat = calloc(1, sizeof(*r.plat))};
	int rc;

	if (!r.plat)
		return spw_err(ENOMEM, "no memory for the facts of this machine");
	from = from ? from : &running;
	rc = plat_tree_open(from, &r.tree);
	r.plat->tree = r.tree;
	if (rc == 0)
		rc = plat_all_read(&r, from);
	if (rc < 0)
		spw_plat_free(r.plat);
	else
		*plat_out = r.plat;
	return rc;
}

/* What was read, and nothing else: a recorded machine answers the questions that were asked. */
json_t *spw_plat_record(const struct spw_plat *plat)
{
	return plat_tree_document(plat->tree);
}

/* NULL is fine: callers free what they may not have read. */
void spw_plat_free(struct spw_plat *plat)
{
	if (!plat)
		return;
	plat_tree_free(plat->tree);
	free(plat->core);
	free(plat->fact);
	free(plat);
}

const struct spw_plat_core *spw_plat_core_by_cpu(const struct spw_plat *plat, uint32_t cpu)
{
	for (uint32_t i = 0; i < plat->core_cnt; i++)
		if (plat->core[i].cpu == cpu)
			return &plat->core[i];
	return NULL;
}

const char *spw_plat_severity_name(enum spw_plat_severity severity)
{
	static const char *const name[] = {"note", "warn", "error"};

	return name[severity];
}
