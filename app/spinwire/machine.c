/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Logs what on this machine will cost latency, before it does: reads lib/plat's findings at the
 * start and, once the topology is known, reports those that matter for the lcores and devices in
 * use.
 */
#include <string.h>

#include <rte_lcore.h>

#include "app.h"
#include "base/spw_err.h"
#include "base/spw_log.h"

static bool on_shared_core(const struct app *app, const struct spw_plat *plat)
{
	for (uint32_t i = 0; i < app->topo.lane_cnt; i++) {
		const struct spw_plat_core *core =
			spw_plat_core_by_cpu(plat, app_lcore_cpu(app->topo.lane[i]->conf.lcore_id));

		if (core && !core->isolated)
			return true;
	}
	return false;
}

static bool matters_here(const struct app *app, const struct spw_plat *plat,
			 const struct spw_plat_finding *finding)
{
	if (!strcmp(finding->code, "cores-shared") || !strcmp(finding->code, "cores-autogroup"))
		return on_shared_core(app, plat);
	if (!strcmp(finding->code, "nic-iommu"))
		return app->eal.pci;
	if (!strcmp(finding->code, "hugepages-none"))
		return false; /* lib/mem reports it, with the number of pages that it needs */
	return finding->severity >= SPW_PLAT_WARN;
}

void app_machine_read(struct app *app)
{
	struct spw_plat_from from = {
		.cuda_lib = ""}; /* the executor reads GPUs itself, if it uses one */

	if (spw_plat_read(&from, &app->plat) < 0) {
		spw_warn("machine: %s", spw_err_text());
		app->plat = NULL;
	}
}

void app_machine_report(struct app *app)
{
	for (uint32_t i = 0; app->plat && i < app->plat->finding_cnt; i++) {
		const struct spw_plat_finding *f = &app->plat->finding[i];

		if (!matters_here(app, app->plat, f))
			continue;
		if (f->severity >= SPW_PLAT_WARN)
			spw_warn("machine: %s: %s; %s", f->code, f->what, f->todo);
		else
			spw_info("machine: %s: %s; %s", f->code, f->what, f->todo);
	}
	spw_plat_free(app->plat);
	app->plat = NULL;
}
