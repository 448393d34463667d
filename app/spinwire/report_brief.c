/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The summary for people, in about ten lines on stdout: are all frames accounted for, how long they
 * took, where slow ones were, and what shows why. Called once by main after the stop; --full prints
 * report_text.c in its place. What did not happen takes no line.
 */
#include <inttypes.h>
#include <stdio.h>

#include "app_brief.h"
#include "app_loop.h"
#include "app_port.h"
#include "app_rate.h"
#include "report_slow.h"

#define LOST_SHARE 0.01 /* of the run without a core: enough to say whose fault slow frames are */

static void brief_print_head(const struct app *app, const struct app_result *res)
{
	char names[256];

	printf("\nspinwire %s ran %.2f s on %u lcore%s: handler %s on %s (%s)\n", SPW_VERSION,
	       res->seconds, app->topo.lane_cnt, app->topo.lane_cnt == 1 ? "" : "s",
	       app_handlers_names(app, names, sizeof(names)), app->topo.backend[0].name,
	       res->topo.exec.device);
}

/* Of all ports together; --full has each. */
static void brief_print_rate(const struct app *app, const struct app_result *res)
{
	struct app_rate_count rate = {0};

	for (uint32_t p = 0; p < app->topo.port_cnt; p++)
		app_rate_add(&rate, &res->topo.port[p], app->topo.port[p]->caps.messages);
	app_rate_report("rate       ", &rate, res->seconds);
}

/* Errors, packets that reached no queue, and frames that saw no cable. */
static void brief_print_port(const struct spw_port *port, const struct spw_port_stat *stat)
{
	for (int e = 0; e < SPW_PORT_ERR_CNT; e++)
		if (stat->err[e])
			printf("  %s: %s %" PRIu64 "\n", port->name,
			       spw_port_err_name((enum spw_port_err)e), stat->err[e]);
	app_port_strays_print("  ", port, stat);
	if (app_loop_judge(stat) == APP_LOOP_INSIDE)
		app_loop_print(stdout, "  ", stat);
}

/* From the NIC's stamp where there is one. */
static void brief_print_latency(const struct app_result *res)
{
	const struct spw_rec_row *row = &res->latency[SPW_STAGE_nic_sent];
	const bool stamped = row->count;

	if (!stamped)
		row = &res->latency[SPW_STAGE_polled_sent];
	if (row->count)
		app_brief_points("latency", row->value_ns, row->answer,
				 stamped ? "from the NIC's stamp until sent or recycled"
					 : "from polled until sent or recycled");
}

/* Shares of the run, the mean of all lcores: how long their loops had no core, and for how long
 * other threads ran there, by the kernel's count. */
static void brief_lost(const struct app *app, const struct app_result *res, double *lost_out,
		       double *others_out)
{
	const double run_ns = res->seconds * 1e9 * app->topo.lane_cnt;
	uint64_t waited_ns = 0;

	for (uint32_t i = 0; i < app->topo.lane_cnt; i++)
		waited_ns += spw_who_waited_ns(&app->lcore[i].who);
	*lost_out = (double)spw_tsc_to_ns(&app->tsc, res->held.sum_tsc[SPW_HOLD_LOST] +
							     res->held.sum_tsc[SPW_HOLD_QUOTA]) /
		    run_ns;
	*others_out = (double)waited_ns / run_ns;
}

/* Cores that were lost come first: they explain every cause that is measured in time. */
static void brief_print_why(const struct app *app, const struct app_result *res,
			    const struct app_brief_cause *most)
{
	char stretch[APP_BRIEF_TIME_BYTES], quota[APP_BRIEF_TIME_BYTES];
	double lost, others;

	brief_lost(app, res, &lost, &others);
	printf(APP_BRIEF_LEAD, "because");
	if (res->has_quota && res->quota.throttled)
		printf("this machine: a CPU quota stopped all threads for %s in all "
		       "(cores-quota)\n",
		       app_brief_time(res->quota.stopped_ns, quota));
	else if (SPW_MAX(lost, others) >= LOST_SHARE)
		printf("this machine: the loop had no core for %.1f %% of the run, up to %s at a "
		       "time; other threads ran there for %.1f %%\n",
		       100 * lost,
		       app_brief_time(spw_tsc_to_ns(&app->tsc, res->held.max_tsc[SPW_HOLD_LOST]),
				      stretch),
		       100 * others);
	else
		printf("%s: %s\n", most->name, most->text);
}

static void brief_print_slow(const struct app *app, const struct app_result *res)
{
	struct app_brief_cause cause[SPW_CAUSE_CNT];

	for (int c = 0; c < SPW_CAUSE_CNT; c++)
		cause[c] = (struct app_brief_cause){spw_cause_name((enum spw_cause)c),
						    spw_cause_text((enum spw_cause)c),
						    res->causes.frames[c]};
	if (app_brief_slow(app->conf.run.slow_ns, res->topo.sum.received, cause, SPW_CAUSE_CNT))
		brief_print_why(app, res, &cause[0]);
}

void app_report_brief(const struct app *app, const struct app_result *result)
{
	brief_print_head(app, result);
	app_report_ledger_brief(result);
	brief_print_rate(app, result);
	for (uint32_t p = 0; p < app->topo.port_cnt; p++)
		brief_print_port(app->topo.port[p], &result->topo.port[p]);
	if (app->conf.run.stamps) {
		brief_print_latency(result);
		brief_print_slow(app, result);
	}
	app_objects_print(app, true);
	app_handlers_print(app, true);
	app_capture_print(app);
	app_slo_print(app);
	app_brief_end("--full: every stage, cause and the worst frames");
}
