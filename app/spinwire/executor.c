/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Which executor, on which cores.
 */
#include <stdio.h>

#include "app.h"
#include "base/spw_log.h"

int app_executor_choose(struct app *app)
{
	uint32_t rings = app->lcore_cnt, threads = app->conf.executor.cores.cnt;
	uint32_t spare = threads ? threads : app->spare_cnt;

	app->exec_kind = app->conf.executor.kind;
	snprintf(app->exec_why, sizeof(app->exec_why), "as asked for");
	if (app->exec_kind == SPW_EXEC_AUTO)
		app->exec_kind = spw_exec_choose(spare >= rings ? spare : 0, app->exec_why, sizeof(app->exec_why));
	spw_info("executor %s: %s", spw_exec_kind_name(app->exec_kind), app->exec_why);
	return spw_handler_open(app->conf.executor.handler, &app->handler);
}

/* The cpu backend's threads: where the user said, else on spare worker lcores, else wherever there is room. */
static void place_threads(struct app *app)
{
	const struct spw_conf_cores *cores = &app->conf.executor.cores;

	for (uint32_t i = 0; i < app->lcore_cnt; i++) {
		if (i < cores->cnt)
			app->exec_cpu[i] = (int)cores->core[i];
		else
			app->exec_cpu[i] = i < app->spare_cnt ? app->spare_cpu[i] : -1;
	}
	if (app->exec_kind == SPW_EXEC_CPU && app->lcore_cnt > SPW_MAX(cores->cnt, app->spare_cnt))
		spw_warn("%u cpu executor threads share %u spare cores: latency will show it; give EAL more lcores",
			 app->lcore_cnt, SPW_MAX(cores->cnt, app->spare_cnt));
}

int app_executor_open(struct app *app)
{
	struct spw_exec_conf ec = {
		.kind = app->exec_kind,
		.handler = app->handler,
		.ring_cnt = (uint16_t)app->lcore_cnt,
		.batch_cnt = app->conf.executor.batches,
		.region = app->region,
		.region_cnt = (uint16_t)app->region_cnt,
		.cpu = app->exec_cpu,
		.cta_per_ring = (uint16_t)app->conf.executor.ctas,
		.beat_timeout_ms = (uint32_t)(app->conf.executor.beat_timeout_ns / 1000000),
		.numa_node = app->lcore[0]->numa_node,
	};

	place_threads(app);
	return spw_exec_open(&ec, &app->exec);
}
