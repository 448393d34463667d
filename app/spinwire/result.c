/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Gathers the numbers, each from who counted it: ports, pipes, executor, pools.
 */
#include <string.h>

#include "app.h"

static void gather_ports(struct app *app, struct app_result *res)
{
	static const char *name[SPW_PORT_DROP_CNT];
	struct spw_ledger *ledger = &res->ledger;

	for (int i = 0; i < SPW_PORT_DROP_CNT; i++)
		name[i] = spw_port_drop_name((enum spw_port_drop)i);
	ledger->missed_known = true;
	for (uint32_t p = 0; p < app->port_cnt; p++) {
		struct spw_port_stat *stat = &res->port[p];

		spw_port_stat(app->port[p], stat);
		ledger->wire_frames += stat->wire_frames;
		ledger->missed_frames += stat->missed_frames;
		ledger->missed_known &= stat->missed_known;
		ledger->lent_frames += stat->rx_frames;
		ledger->sent_frames += stat->tx_frames;
		ledger->flushed_frames += stat->tx_flushed;
		res->port_copies += stat->port_copies;
		spw_ledger_add_reasons(&ledger->port_dropped, name, stat->dropped, SPW_PORT_DROP_CNT);
	}
}

static void gather_executor(struct app *app, struct app_result *res)
{
	spw_exec_stat(app->exec, &res->exec);
	res->ledger.executed_frames = res->exec.frames;
	res->h2d_copies = res->exec.h2d_copies;
}

static void gather_lcores(struct app *app, struct app_result *res)
{
	static const char *name[SPW_BAD_CNT];

	for (int i = 0; i < SPW_BAD_CNT; i++)
		name[i] = spw_bad_name((enum spw_bad)i);
	for (uint32_t i = 0; i < app->lcore_cnt; i++) {
		struct app_lcore *lc = app->lcore[i];
		uint64_t bad[SPW_BAD_CNT];

		for (int r = 0; r < SPW_BAD_CNT; r++)
			bad[r] = spw_thr_load_rlx(&lc->pipe.bad[r]);
		spw_ledger_add_reasons(&res->ledger.bad, name, bad, SPW_BAD_CNT);
		spw_ledger_add_lcore(&res->ledger, &lc->pipe.ledger);
		res->ledger.pool_slots += lc->slots;
		res->ledger.pool_free += spw_thr_load_rlx(&lc->pool.free_cnt);
	}
}

static void gather_times(struct app *app, const struct spw_rec_view *view, struct app_result *res)
{
	uint64_t sum = 0, idle = view->regime_tsc[SPW_REGIME_idle_poll];

	for (int r = 0; r < SPW_REGIME_CNT; r++)
		sum += view->regime_tsc[r];
	for (int r = 0; r < SPW_REGIME_CNT && sum; r++)
		res->regime_share[r] = (double)view->regime_tsc[r] / (double)sum;
	if (res->ledger.pipe.polled_frames)
		res->cycles_per_frame = (double)(sum - idle) / (double)res->ledger.pipe.polled_frames;
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

void app_result_gather(struct app *app, const struct spw_rec_view *view, struct app_result *result_out)
{
	uint64_t end = app->stop_tsc ? app->stop_tsc : spw_tsc_now();

	memset(result_out, 0, sizeof(*result_out));
	result_out->seconds = (double)spw_tsc_to_ns(&app->tsc, end - app->start_tsc) * 1e-9;
	gather_ports(app, result_out);
	gather_executor(app, result_out);
	gather_lcores(app, result_out);
	if (view)
		gather_times(app, view, result_out);
	spw_ledger_balance(&result_out->ledger, &result_out->sum);
}
