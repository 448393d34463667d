/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The litmus of a run (topo/spw_topo_litmus.h): run by topology.c once the topology is open, before
 * a capture could see its frames; its outcome goes into the JSON summary.
 */
#include <errno.h>

#include "app.h"
#include "app_life.h"
#include "app_text.h"
#include "exec/spw_litmus.h"

/* An executor that does not end keeps its memory: main then ends by _exit. */
int app_litmus_run(struct app *app)
{
	static const enum spw_litmus_level level[] = {
		[SPW_CONF_LITMUS_OFF] = SPW_LITMUS_OFF,
		[SPW_CONF_LITMUS_QUICK] = SPW_LITMUS_QUICK,
		[SPW_CONF_LITMUS_LONG] = SPW_LITMUS_LONG,
	};
	int rc;

	app_life_phase(0, "litmus, before traffic is let in");
	rc = spw_topo_litmus(&app->topo, level[app->conf.run.litmus], &spw_litmus_handler,
			     &app->litmus);
	app_life_phase(0, "%s", "");
	app->hung = rc == -EBUSY;
	return rc;
}

/* why_not is null where the NIC took part. */
static json_t *litmus_nics_json(const struct app *app)
{
	const struct spw_litmus *litmus = &app->litmus;
	json_t *nics = json_array();

	for (uint32_t p = 0; litmus->level != SPW_LITMUS_OFF && p < app->topo.port_cnt; p++)
		json_array_append_new(
			nics, json_pack("{s:o,s:o}", "port", app_json_text(app->topo.port[p]->name),
					"why_not",
					litmus->nic[p] ? json_null()
						       : app_json_text(litmus->why_not[p])));
	return nics;
}

/* A run that was not let in has no summary, so the result is passed or not_run. */
json_t *app_litmus_json(const struct app *app)
{
	static const char *const name[] = {
		[SPW_LITMUS_OFF] = "off", [SPW_LITMUS_QUICK] = "quick", [SPW_LITMUS_LONG] = "long"};
	const struct spw_litmus *litmus = &app->litmus;
	json_t *frames = json_object();

	for (int i = 0; i < SPW_LITMUS_CNT; i++)
		json_object_set_new(frames, spw_litmus_pattern_name((enum spw_litmus_pattern)i),
				    json_integer((json_int_t)litmus->frames[i]));
	return json_pack("{s:s,s:s,s:o,s:I,s:I,s:f,s:o}", "level", name[litmus->level], "result",
			 litmus->round_trips ? "passed" : "not_run", "frames", frames,
			 "round_trips", (json_int_t)litmus->round_trips, "bytes",
			 (json_int_t)litmus->bytes, "seconds", (double)litmus->ns * 1e-9, "nics",
			 litmus_nics_json(app));
}
