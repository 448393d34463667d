/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Logs what on this machine will cost latency, before it does: reads lib/plat's findings at the
 * start and, once the topology is known, reports those that matter for the lcores and devices in
 * use.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "app.h"
#include "app_lcores.h"
#include "app_limits.h"
#include "base/spw_err.h"
#include "base/spw_log.h"

/* Findings below a warning are left to spinwire-doctor, but for those that concern every run. */
static bool machine_matters_here(const struct app *app, const struct spw_plat_finding *finding)
{
	if (!strcmp(finding->code, "nic-iommu"))
		return app->eal.pci;
	if (!strcmp(finding->code, "cores-autogroup"))
		return true;
	if (!strcmp(finding->code, "hugepages-none"))
		return false; /* lib/mem reports it, with the number of pages that it needs */
	return finding->severity >= SPW_PLAT_WARN;
}

void app_machine_read(struct app *app)
{
	/* The executor reads GPUs itself, if it uses one; hwloc serves the choice of cores. */
	struct spw_plat_from from = {
		.cuda_lib = "", .nvml_lib = "", .skip_hwloc = !app_lcores_are_auto(&app->eal)};

	if (spw_plat_read(&from, &app->plat) < 0) {
		spw_warn("machine: %s", spw_err_text());
		app->plat = NULL;
		return;
	}
	snprintf(app->quota_stat, sizeof(app->quota_stat), "%s", app->plat->quota_stat);
	spw_plat_quota_read(app->quota_stat, &app->quota);
	if (app->quota_stat[0])
		app->quota_fd = open(app->quota_stat, O_RDONLY | O_CLOEXEC);
	/* A pipe treats 0 as no quota. */
	if (app->quota_fd < 0)
		app->quota_fd = 0;
}

/* One lcore for each queue and, if an executor may run on cores, one for each of its threads. */
static uint32_t machine_worker_cnt(const struct app *app)
{
	enum spw_exec_kind kind = app->conf.executor.kind;
	bool spare = (kind == SPW_EXEC_CPU || kind == SPW_EXEC_AUTO) &&
		     app->conf.executor.cores.cnt == 0;
	uint32_t queues = 0;

	for (uint32_t p = 0; p < app->conf.port_cnt; p++)
		queues += app->conf.port[p].queues;
	return spare && spw_plat_core_cnt(app->plat) > 2 * queues ? 2 * queues : queues;
}

/* --executor-cores is checked first: those cores are outside EAL's arguments. */
int app_machine_choose(struct app *app)
{
	const struct spw_conf_cores *cores = &app->conf.executor.cores;

	if (app_limits_cores(cores->core, cores->cnt, "--executor-cores") < 0)
		return -ENOENT;
	if (!app_lcores_are_auto(&app->eal))
		return 0;
	if (!app->plat)
		return spw_err(ENODEV, "--lcores auto: the cores of this machine cannot be read; "
				       "name them");
	return app_lcores_choose(&app->eal, app->plat, machine_worker_cnt(app),
				 app->conf.port_cnt ? app->conf.port[0].spec.device : NULL);
}

/* Of lcores that run a queue: others may be slow. */
static void machine_lcores_warn(const struct app *app)
{
	uint32_t id[SPW_TOPO_LANE_MAX];

	for (uint32_t i = 0; i < app->topo.lane_cnt; i++)
		id[i] = app->topo.lane[i]->conf.lcore_id;
	app_lcores_warn(app->plat, id, app->topo.lane_cnt);
}

/* After the topology is open, and then the facts are released: a run needs them no more. */
void app_machine_report(struct app *app)
{
	if (app->plat)
		machine_lcores_warn(app);
	for (uint32_t i = 0; app->plat && i < app->plat->finding_cnt; i++) {
		const struct spw_plat_finding *f = &app->plat->finding[i];

		if (!machine_matters_here(app, f))
			continue;
		spw_advise("%s: %s; %s", f->code, f->what, f->todo);
	}
	spw_plat_free(app->plat);
	app->plat = NULL;
}
