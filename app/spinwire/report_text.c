/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The summary for people with --full, on stdout: ports, ledger, stages, lcore time, slow frames;
 * the short one is in report_brief.c. Called once by main after the stop; every number comes from
 * struct app_result, so that text and JSON agree.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "app_loop.h"
#include "app_port.h"
#include "report_slow.h"

/* The executor's reason is printed with it: AUTO has chosen it, and a user may want another. */
static void text_print_head(const struct app *app, const struct app_result *res)
{
	char names[256];

	printf("\nspinwire %s ran %.2f s on %u lcore%s: %.3f M frames/s\n", SPW_VERSION,
	       res->seconds, app->topo.lane_cnt, app->topo.lane_cnt == 1 ? "" : "s",
	       (double)res->topo.ledger.pipe.polled_frames / res->seconds * 1e-6);
	printf("executor  %s (%s), handler %s, %" PRIu64 " frames in %" PRIu64 " batches; %s\n",
	       app->topo.backend[0].name, res->topo.exec.device,
	       app_handlers_names(app, names, sizeof(names)), res->topo.exec.frames,
	       res->topo.exec.batches, app->exec_why);
	app_objects_print(app, false);
	app_handlers_print(app, false);
	printf("memory    %s (%s); %" PRIu64 " host-to-device copies, %" PRIu64
	       " copies by the port\n",
	       spw_mem_kind_name(app->topo.region[0].kind), app->topo.region[0].why,
	       res->topo.exec.h2d_copies, res->topo.port_copies);
}

/* Not part of the ledger: the physical port counts discards for all functions that share it. */
static void text_print_discards(const struct spw_port_stat *stat)
{
	if (stat->port_discards_known)
		printf("  %-18s %14" PRIu64 " by the whole physical port\n", "port_discards",
		       stat->port_discards);
	else
		printf("  %-18s %14s\n", "port_discards", "unknown");
}

/* Errors that did not occur are left out, unlike in JSON. */
static void text_print_port(const char *lead, const struct spw_port *port,
			    const struct spw_port_stat *st)
{
	printf("%s%-*s %-8s %14" PRIu64 " %16" PRIu64 " %14" PRIu64 " %16" PRIu64 "\n", lead,
	       20 - (int)strlen(lead), port->name, port->driver->name, st->rx_frames, st->rx_bytes,
	       st->tx_frames, st->tx_bytes);
	for (int e = 0; e < SPW_PORT_ERR_CNT; e++)
		if (st->err[e])
			printf("%s  %-18s %14" PRIu64 "\n", lead,
			       spw_port_err_name((enum spw_port_err)e), st->err[e]);
	if (st->retransmits)
		printf("%s  %-18s %14" PRIu64 " by the whole device\n", lead, "retransmits",
		       st->retransmits);
}

/* Counters that usually are 0 take no line. */
static void text_print_if(const char *what, uint64_t cnt)
{
	if (cnt)
		printf("    %-16s %14" PRIu64 "\n", what, cnt);
}

/* A line for each flow rule that stands at the end; "-" where completions do not name the rule, so
 * that its frames are unknown. A port of rails has none itself: they are the rails'. */
static void text_print_rules(const char *indent, struct spw_port *port)
{
	struct spw_port_rule rule[SPW_PORT_RULE_MAX];
	const uint32_t cnt = spw_port_rules(port, rule);

	for (uint32_t i = 0; i < cnt; i++)
		if (rule[i].frames_known)
			printf("%srule %14" PRIu64 "  %s\n", indent, rule[i].frames, rule[i].text);
		else
			printf("%srule              -  %s\n", indent, rule[i].text);
}

/* The rails of a port that is made of several, under the line with their sum. */
static void text_print_rails(struct spw_port *port)
{
	struct spw_port_rail rail[SPW_PORT_RAIL_MAX];
	const uint32_t cnt = spw_port_rails(port, rail);

	for (uint32_t r = 0; r < cnt; r++) {
		text_print_port("  ", rail[r].port, &rail[r].stat);
		text_print_if("missed", rail[r].stat.missed_frames);
		text_print_if("late", rail[r].late);
		text_print_if("duplicate", rail[r].duplicate);
		text_print_if("flushed", rail[r].flushed);
		text_print_if("moved here", rail[r].moved);
		text_print_if("outages", rail[r].outages);
		text_print_if("tx_flushed", rail[r].stat.tx_flushed);
		text_print_if("residual", rail[r].residual);
		app_loop_print(stdout, "    ", &rail[r].stat);
		app_port_strays_print("    ", rail[r].port, &rail[r].stat);
		text_print_rules("    ", rail[r].port);
	}
}

/* The sum of a port first, its rails below it. */
static void text_print_ports(const struct app *app, const struct app_result *res)
{
	printf("\n%-20s %-8s %14s %16s %14s %16s\n", "port", "driver", "rx frames", "rx bytes",
	       "tx frames", "tx bytes");
	for (uint32_t p = 0; p < app->topo.port_cnt; p++) {
		const struct spw_port_stat *st = &res->topo.port[p];
		struct app_rate_count rate = {0};

		text_print_port("", app->topo.port[p], st);
		app_rate_add(&rate, st, app->topo.port[p]->caps.messages);
		app_rate_report("  rate               ", &rate, res->seconds);
		text_print_discards(st);
		app_loop_print(stdout, "  ", st);
		app_port_strays_print("  ", app->topo.port[p], st);
		text_print_rules("  ", app->topo.port[p]);
		text_print_rails(app->topo.port[p]);
	}
}

/* "-": too few samples for that percentile; "over": beyond the histogram. */
static void text_print_stages(const struct app_result *res)
{
	printf("\n%-14s %12s", "stage [ns]", "frames");
	for (int p = 0; p < SPW_HIST_POINT_CNT; p++)
		printf(" %9s", spw_hist_point_text((enum spw_hist_point)p));
	printf("   +-\n");
	for (int s = 0; s < SPW_STAGE_CNT; s++) {
		const struct spw_rec_row *row = &res->latency[s];

		if (!row->count)
			continue;
		printf("%-14s %12" PRIu64, row->stage, row->count);
		for (int p = 0; p < SPW_HIST_POINT_CNT; p++)
			if (row->answer[p] == SPW_HIST_VALUE)
				printf(" %9" PRIu64, row->value_ns[p]);
			else
				printf(" %9s", row->answer[p] == SPW_HIST_TOO_FEW ? "-" : "over");
		printf(" %4" PRIu64 "\n", row->uncertainty_ns);
	}
	for (int s = 0; s < SPW_STAGE_CNT; s++)
		if (res->latency[s].defects)
			printf("%s came out negative by more than its uncertainty %" PRIu64
			       " times: a defect of its clocks\n",
			       res->latency[s].stage, res->latency[s].defects);
}

/* Busy is all but idle poll, as docs/020 defines it. */
static void text_print_regimes(const struct app_result *res)
{
	printf("\nlcore time ");
	for (int r = 0; r < SPW_REGIME_CNT; r++)
		printf(" %s %.1f %%%s", spw_regime_name((enum spw_regime)r),
		       100 * res->regime_share[r], r + 1 < SPW_REGIME_CNT ? "," : "\n");
	printf("busy       %.1f %%, %.1f ticks per frame; longest turn %" PRIu64 " ns\n",
	       100 * (1 - res->regime_share[SPW_REGIME_idle_poll]), res->cycles_per_frame,
	       res->turn_max_ns);
}

/* Without stamps there are no stages, regimes or causes. */
void app_report_text(const struct app *app, const struct app_result *result)
{
	text_print_head(app, result);
	text_print_ports(app, result);
	app_report_ledger(result);
	app_capture_print(app);
	app_slo_print(app);
	if (!app->conf.run.stamps) {
		printf("\nstages and lcore time were not measured (--stamps no)\n");
		return;
	}
	text_print_stages(result);
	text_print_regimes(result);
	app_report_slow(app, result);
}
