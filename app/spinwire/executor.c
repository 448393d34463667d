/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Which executor, with which handler, on which cores: fills the executor part of the topology's
 * configuration. Called by topology.c once the lcores are assigned, because AUTO depends on how
 * many are left over.
 */
#include <stdio.h>

#include "app.h"
#include "base/spw_err.h"
#include "base/spw_log.h"

/* The cpu backend's threads run on the cores that the user named, else on spare worker lcores, else
 * wherever the kernel puts them. */
static void executor_place_threads(struct app *app)
{
	const struct spw_conf_cores *cores = &app->conf.executor.cores;

	for (uint32_t i = 0; i < app->topo_conf.lane_cnt; i++) {
		if (i < cores->cnt)
			app->exec_cpu[i] = (int)cores->core[i];
		else
			app->exec_cpu[i] = i < app->spare_cnt ? app->spare_cpu[i] : -1;
	}
	if (app->topo_conf.exec.backend[0].kind == SPW_EXEC_CPU &&
	    app->topo_conf.lane_cnt > SPW_MAX(cores->cnt, app->spare_cnt))
		spw_warn("%u cpu executor threads share %u spare cores: latency will show it; give "
			 "EAL more lcores",
			 app->topo_conf.lane_cnt, SPW_MAX(cores->cnt, app->spare_cnt));
}

/* CUDA's first call may load the GPU's driver, by a setuid program. */
void app_executor_wake(const struct app *app)
{
	enum spw_exec_kind kind = app->conf.executor.kind;

	if (kind != SPW_EXEC_INLINE && kind != SPW_EXEC_CPU)
		spw_exec_check(SPW_EXEC_CUDA_PERSISTENT, NULL, 0);
}

/* One that was asked for is taken or refused; only AUTO looks for another, which is a GPU only if
 * it can run the handlers of all ports. */
static int executor_kind_choose(struct app *app, uint32_t spare, enum spw_exec_kind *kind)
{
	const uint32_t rings = app->topo_conf.lane_cnt;
	const bool choose = *kind == SPW_EXEC_AUTO;
	int rc;

	snprintf(app->exec_why, sizeof(app->exec_why), "as asked for");
	for (uint32_t i = 0; i < app->handler_cnt; i++) {
		const struct spw_handler *handler = app->handler[i].handler;

		if (choose && (i == 0 || *kind >= SPW_EXEC_CUDA_PERSISTENT))
			*kind = spw_exec_choose(handler, rings, spare >= rings ? spare : 0,
						app->exec_why, sizeof(app->exec_why));
		rc = choose ? 0 : spw_exec_check(*kind, handler, rings);
		if (rc < 0)
			return spw_err_ctx(rc, "executor %s", spw_exec_kind_name(*kind));
	}
	spw_info("executor %s: %s", spw_exec_kind_name(*kind), app->exec_why);
	return 0;
}

/* backend[0] is what the run begins with; --slo may add others, between which lib/topo changes. */
int app_executor_choose(struct app *app)
{
	const struct spw_conf_cores *cores = &app->conf.executor.cores;
	uint32_t rings = app->topo_conf.lane_cnt, spare = cores->cnt ? cores->cnt : app->spare_cnt;
	enum spw_exec_kind kind = app->conf.executor.kind;
	int rc;

	if ((rc = executor_kind_choose(app, spare, &kind)) < 0)
		return rc;
	app->topo_conf.exec.backend[0] =
		(struct spw_topo_exec){kind, (uint16_t)app->conf.executor.ctas};
	app->topo_conf.exec.backend_cnt = 1;
	app_slo_backends(app, spare >= rings, kind);
	/* The rest is the same for every backend. */
	app->topo_conf.exec.cpu = app->exec_cpu;
	app->topo_conf.exec.batch_cnt = app->conf.executor.batches;
	app->topo_conf.exec.beat_timeout_ms =
		(uint32_t)(app->conf.executor.beat_timeout_ns / 1000000);
	executor_place_threads(app);
	return 0;
}
