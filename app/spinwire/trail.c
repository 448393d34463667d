/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * --trail: a ring for each lane, which its pipe fills (trail/spw_trail.h), and one file for all
 * when the run is over. Called by topology.c and main.c.
 *
 * tools/run joins the file with the generator's by flow and number. Names of gaps and causes stand
 * in its head, so a reader needs no table of numbers.
 */
#include <stdio.h>

#include "app.h"

#define NAMES_BYTES 480

/* Before the topology opens: its pipes take the rings from topo_conf. */
int app_trail_open(struct app *app)
{
	int rc = 0;

	if (!app->conf.run.trail[0])
		return 0;
	for (uint32_t i = 0; rc == 0 && i < app->topo_conf.lane_cnt; i++)
		rc = spw_trail_open(&app->trail[i], app->conf.run.trail_every);
	app->topo_conf.pipe.trail = app->trail;
	return rc;
}

/* "gap=lost,port,...;cause=poll_gap,..." */
static void trail_names(char out[NAMES_BYTES])
{
	size_t n = 0;

	for (int h = 0; h < SPW_HOLD_CNT; h++)
		n += (size_t)snprintf(out + n, NAMES_BYTES - n, "%s%s",
				      h ? "," : "gap=", spw_hold_name((enum spw_hold)h));
	for (int c = 0; c < SPW_CAUSE_CNT && n < NAMES_BYTES; c++)
		n += (size_t)snprintf(out + n, NAMES_BYTES - n, "%s%s",
				      c ? "," : ";cause=", spw_cause_name((enum spw_cause)c));
}

/* After the lcores have ended: no ring is written any more. */
int app_trail_write(const struct app *app)
{
	const struct spw_trail *trail[SPW_TOPO_LANE_MAX];
	char text[NAMES_BYTES];

	if (!app->conf.run.trail[0])
		return 0;
	for (uint32_t i = 0; i < app->topo.lane_cnt; i++)
		trail[i] = &app->trail[i];
	trail_names(text);
	return spw_trail_write(trail, app->topo.lane_cnt, text, app->conf.run.trail);
}

/* Zeroed ones too: lanes without a trail. */
void app_trail_close(struct app *app)
{
	for (uint32_t i = 0; i < SPW_TOPO_LANE_MAX; i++)
		spw_trail_close(&app->trail[i]);
}
