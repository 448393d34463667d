/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Turns a topology's counters and a recorder view into the numbers that summaries print. Called by
 * main after the stop, and by telemetry while the run is on.
 *
 * Figures that more than one output prints are computed here, once: text, JSON and telemetry show
 * the same. Reading while the run is on is safe, since each counter has one writer; the edges of
 * the ledger then differ by what is under way.
 */
#include <string.h>

#include "app.h"

/* Regimes are shares of all ticks of all lcores; a frame's cost leaves idle polls out. */
static void result_gather_times(struct app *app, const struct spw_rec_view *view,
				struct app_result *res)
{
	uint64_t sum = 0, idle = view->regime_tsc[SPW_REGIME_idle_poll];

	for (int r = 0; r < SPW_REGIME_CNT; r++)
		sum += view->regime_tsc[r];
	for (int r = 0; r < SPW_REGIME_CNT && sum; r++)
		res->regime_share[r] = (double)view->regime_tsc[r] / (double)sum;
	if (res->topo.ledger.pipe.polled_frames)
		res->cycles_per_frame =
			(double)(sum - idle) / (double)res->topo.ledger.pipe.polled_frames;
	for (int s = 0; s < SPW_STAGE_CNT; s++)
		spw_rec_row(view, (enum spw_stage)s, false, &app->tsc, 0, &res->latency[s]);
	for (int s = 0; s < SPW_STAGE_CNT; s++)
		res->spectrum_cnt[s] = spw_hist_spectrum(&view->total[s], 0, res->spectrum[s]);
	res->causes = view->causes;
	res->worst_cnt = view->worst_cnt;
	memcpy(res->worst, view->worst, view->worst_cnt * sizeof(view->worst[0]));
	res->held = view->held;
	res->away_cnt = view->away_cnt;
	res->away_known = view->away_known;
	res->turn_max_ns = spw_tsc_to_ns(&app->tsc, view->turn_max_tsc);
}

/* Since the start: the control group may have been throttled before. */
static void result_gather_quota(const struct app *app, struct app_result *res)
{
	const struct spw_plat_quota *start = &app->quota;

	res->has_quota = spw_plat_quota_read(app->quota_stat, &res->quota);
	res->quota.periods -= SPW_MIN(start->periods, res->quota.periods);
	res->quota.throttled -= SPW_MIN(start->throttled, res->quota.throttled);
	res->quota.stopped_ns -= SPW_MIN(start->stopped_ns, res->quota.stopped_ns);
}

/* Seconds end with stop, not with now: a report takes time too. */
void app_result_gather(struct app *app, const struct spw_rec_view *view,
		       struct app_result *result_out)
{
	uint64_t end = app->stop_tsc ? app->stop_tsc : spw_tsc_now();

	memset(result_out, 0, sizeof(*result_out));
	result_out->seconds = (double)spw_tsc_to_ns(&app->tsc, end - app->start_tsc) * 1e-9;
	spw_topo_stat(&app->topo, &result_out->topo);
	result_gather_quota(app, result_out);
	if (view)
		result_gather_times(app, view, result_out);
}
