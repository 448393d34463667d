/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * --hdr: writes every stage as an HdrHistogram log, in ns, one interval a second. Opened by
 * control.c before the start; app_hdr_tick in the control loop writes the intervals
 * (app/common/app_hdr.h).
 */
#include <errno.h>

#include "app.h"
#include "base/spw_err.h"

struct stage_log {
	const struct app *app;
	const struct spw_hist *total; /* ticks, of the view that the control loop collects */
};

/* Converts ticks to ns bucket by bucket, each at its lowest value: a value read from the log is off
 * by at most 1/128 either way. */
static void hdr_stage_total(void *arg, struct spw_hist *total_out)
{
	const struct stage_log *stage = arg;

	for (uint32_t b = 0; b < SPW_HIST_BUCKET_CNT; b++)
		if (stage->total->count[b])
			spw_hist_record(total_out,
					spw_tsc_to_ns(&stage->app->tsc, spw_hist_bucket_low(b)),
					stage->total->count[b]);
	total_out->overflow = stage->total->overflow;
	total_out->max_value = spw_tsc_to_ns(&stage->app->tsc, stage->total->max_value);
}

int app_hdr_log_open(struct app *app, const struct spw_rec_view *view)
{
	static struct stage_log stage[SPW_STAGE_CNT]; /* one log in a process */
	struct app_hdr_series series[SPW_STAGE_CNT];

	if (!app->conf.run.hdr[0])
		return 0;
	if (!view)
		return spw_err(EINVAL, "--hdr %s: there are no stages with --stamps no",
			       app->conf.run.hdr);
	for (int s = 0; s < SPW_STAGE_CNT; s++) {
		stage[s] = (struct stage_log){app, &view->total[s]};
		series[s] = (struct app_hdr_series){spw_stage_name((enum spw_stage)s),
						    hdr_stage_total, &stage[s]};
	}
	return app_hdr_open(&app->hdr, app->conf.run.hdr, series, SPW_STAGE_CNT);
}
