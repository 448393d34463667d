/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * spinwire-gen <EAL arguments> -- --port SPEC [arguments]: start here.
 *
 *   arguments -> EAL -> port, pools, senders (senders.c) -> run: lib/gen/run.c, one lcore a sender
 *             -> report (report.c, report_json.c) -> stop the port -> all slots are back?
 *
 * All lcores but the main one are senders; the main lcore opens, logs and reports. Frames or slots
 * that are missing at the end are an error of their own, so that a run is never good by accident.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include <rte_eal.h>

#include "address.h"
#include "app_eal.h"
#include "app_file.h"
#include "app_hdr.h"
#include "app_life.h"
#include "app_lcores.h"
#include "app_limits.h"
#include "app_opt.h"
#include "app_program.h"
#include "app_rate.h"
#include "app_rights.h"
#include "base/spw_err.h"
#include "conf.h"
#include "report.h"
#include "senders.h"

#define PROGRAM "spinwire-gen"

enum { GEN_REPORTED = 1 }; /* the error has been printed */

struct gen {
	struct app_eal eal;
	bool eal_up;
	struct gen_conf conf;
	struct gen_senders senders;
	struct app_hdr hdr;
	int interrupted; /* 128 + the signal that ended the plan early; 0: none did */
	struct app_rate_period period;
};

/* ---- the log of histograms ---- */

/* While senders write: a total that is a few frames old is as good as a new one. */
static void gen_round_trip(void *arg, struct spw_hist *total_out)
{
	const struct gen_senders *senders = arg;

	for (uint32_t s = 0; s < senders->cnt; s++)
		spw_hist_merge(total_out, &senders->run[s]->round_trip_ns);
}

static void gen_late(void *arg, struct spw_hist *total_out)
{
	const struct gen_senders *senders = arg;

	for (uint32_t s = 0; s < senders->cnt; s++)
		spw_hist_merge(total_out, &senders->run[s]->late_ns);
}

/* Totals over all senders: one log for a run. */
static int gen_log_open(struct gen *gen)
{
	const struct app_hdr_series series[] = {{"round_trip", gen_round_trip, &gen->senders},
						{"schedule_error", gen_late, &gen->senders}};

	return app_hdr_open(&gen->hdr, gen->conf.hdr, series, SPW_ARRAY_CNT(series));
}

/* Every few ms while senders run. */
static void gen_tick(void *arg)
{
	struct gen *gen = arg;
	struct app_rate_count count = {0};
	struct spw_port_stat stat;

	app_hdr_tick(&gen->hdr);
	if (!app_rate_is_due(&gen->period))
		return;
	spw_port_stat(gen->senders.port, &stat);
	app_rate_add(&count, &stat, gen->senders.port->caps.messages);
	count.dropped = stat.missed_frames;
	for (int d = 0; d < SPW_PORT_DROP_CNT; d++)
		count.dropped += stat.dropped[d];
	app_rate_print(&gen->period, &count);
}

/* ---- the run ---- */

/* Frames that the port took and did not send make the run fail, unless an outage, which the report
 * names, explains them. */
static int gen_judge_sent(const struct gen_sum *sum, const struct gen_report *what)
{
	const uint64_t unsent = gen_report_flushed(sum, what), *err = what->stat.err;

	if (!unsent || sum->count.link_downs || err[SPW_PORT_ERR_link_down] ||
	    err[SPW_PORT_ERR_peer_gone] || err[SPW_PORT_ERR_rail_down])
		return 0;
	return spw_err(EIO,
		       "port %s did not send %" PRIu64 " of the %" PRIu64
		       " frames that it took, and neither its link nor a peer went down: they are "
		       "still in its queue, or the NIC or the kernel refused them (%" PRIu64
		       " error completions)",
		       what->opened->name, unsent, sum->count.sent_frames,
		       err[SPW_PORT_ERR_cqe_error]);
}

/* A plan that a signal ended early has no report, which would read like that of a whole run.
 * Otherwise it is printed before the run is judged: the figures are what explains a failure. */
static int gen_report_write(struct gen *gen)
{
	struct gen_report what = {.schedule = gen->conf.schedule,
				  .port = gen->conf.port.text,
				  .opened = gen->senders.port,
				  .stat = gen->senders.stat,
				  .distribution = gen_gaps_name(gen->conf.plan.gaps),
				  .seed = gen->conf.plan.seed,
				  .link_wait_ns = gen->conf.link_wait_ns,
				  .warm_up_ns = gen->conf.warm_up_ns,
				  .tsc_hz = gen->senders.tsc.hz,
				  .sender_cnt = gen->senders.cnt,
				  .run = gen->conf.frame.run,
				  .full = gen->conf.full};
	static struct gen_sum sum;
	int rc;

	gen_address_text(gen->conf.frame.dst_mac, what.dst_mac);
	rc = gen_sum_init(&sum, gen->senders.run, gen->senders.cnt);

	for (uint32_t s = 0; s < gen->senders.cnt; s++)
		/* Each sender has its share of the rate. */
		what.rate_fps += gen->senders.run[s]->plan.mean_fps;
	if (rc == 0 && gen->senders.stop && sum.ran_ns < gen->conf.seconds_ns)
		gen->interrupted = app_life_interrupted(PROGRAM,
							gen->senders.stop & ~APP_SIGNAL_AGAIN,
							sum.ran_ns, gen->conf.seconds_ns);
	else if (rc == 0 && !app_file_is_stdout(gen->conf.json) && !gen->conf.verbosity.quiet)
		gen_report_text(&sum, &what);
	if (rc == 0 && gen->conf.json)
		rc = gen_report_json(&sum, &what, gen->conf.json);
	if (rc == 0)
		rc = gen_judge_sent(&sum, &what);
	gen_sum_fini(&sum);
	return rc;
}

/* --lcores auto: one sender. */
static int gen_cores_choose(struct gen *gen)
{
	struct spw_plat *plat;
	int rc;

	if (!app_lcores_are_auto(&gen->eal))
		return 0;
	rc = spw_plat_read(&(struct spw_plat_from){.cuda_lib = "", .nvml_lib = ""}, &plat);
	if (rc < 0)
		return rc;
	rc = app_lcores_choose(&gen->eal, plat, 1, gen->conf.port.device);
	spw_plat_free(plat);
	return rc;
}

/* Returns: above 0 if a question was answered, or an error. */
static int gen_args_read(struct gen *gen, int argc, char **argv)
{
	int rc = app_eal_split(&gen->eal, argc, argv);

	if (rc == 0)
		rc = app_opt_split(gen_conf_program(), argc, argv, gen->eal.split);
	if (rc == SPW_OPT_RUN)
		rc = gen_conf_args(&gen->conf, argc - gen->eal.split, argv + gen->eal.split);
	if (rc > SPW_OPT_RUN)
		app_opt_answer(gen_conf_program(), rc);
	if (rc != SPW_OPT_RUN)
		return rc;
	gen->eal.verbose = gen->conf.verbosity.verbose;
	rc = app_program_verbosity(&gen->conf.verbosity, SPW_LOG_INFO);
	if (rc == 0)
		rc = app_limits_args(&gen->eal);
	if (rc == 0)
		rc = app_file_take("--json", gen->conf.json);
	if (rc == 0)
		rc = app_file_try("--hdr", gen->conf.hdr);
	if (rc == 0)
		rc = app_file_try("--trail", gen->conf.trail);
	if (rc == 0)
		rc = gen_cores_choose(gen);
	rc = rc ? rc : app_eal_port(&gen->eal, &gen->conf.port);
	return rc == 0 && gen->conf.check ? app_opt_checked(gen_conf_program()) : rc;
}

/* The port is stopped even if the report cannot be written. */
static int gen_run_all(struct gen *gen)
{
	int rc = gen_senders_open(&gen->senders, &gen->conf), log_rc, trail_rc, stop_rc;

	if (rc == 0)
		rc = gen_log_open(gen);
	if (rc == 0) {
		app_catch_signals(&gen->senders.stop);
		if (!gen->conf.stats_period_ns)
			app_life_phase(gen->conf.seconds_ns, "sending");
		app_rate_begin(&gen->period, gen->conf.stats_period_ns, &gen->senders.tsc);
		rc = gen_senders_run(&gen->senders, gen_tick, gen);
		app_life_phase(0, "%s", "");
	}
	log_rc = app_hdr_close(&gen->hdr);
	if (rc)
		return rc;
	rc = gen_report_write(gen);
	if (rc)
		app_complain(PROGRAM, rc);
	trail_rc = gen_senders_trail(&gen->senders, &gen->conf);
	if (trail_rc)
		app_complain(PROGRAM, trail_rc);
	stop_rc = gen_senders_stop(&gen->senders, gen->conf.hold_ns);
	if (stop_rc)
		app_complain(PROGRAM, stop_rc);
	return rc || trail_rc || stop_rc || log_rc ? GEN_REPORTED : 0;
}

/* Rights are dropped before EAL makes threads, which inherit what is left. */
static int gen_main_run(struct gen *gen, int argc, char **argv)
{
	static char prefix[] =
		PROGRAM; /* it often runs beside a spinwire, whose prefix is EAL's own */
	int rc = gen_args_read(gen, argc, argv);

	if (rc > SPW_OPT_RUN)
		return APP_GOOD;
	if (!gen->conf.full && !gen->conf.verbosity.verbose)
		app_advice_hold();
	if (rc == 0) {
		app_rights_reduce(&gen->eal);
		rc = app_eal_start(&gen->eal, prefix);
	}
	gen->eal_up = rc == 0;
	if (rc == 0 && !gen->conf.verbosity.quiet)
		app_life_start(PROGRAM);
	if (rc == 0)
		rc = gen_run_all(gen);
	if (rc == GEN_REPORTED)
		return APP_MACHINE;
	return rc ? app_complain(PROGRAM, rc) : gen->interrupted;
}

/* Closing comes before the verdict: only then it is known whether every slot was returned. */
int main(int argc, char **argv)
{
	static struct gen gen;
	uint32_t leaked;
	int status;

	app_program_start(PROGRAM);
	app_life_ends(PROGRAM); /* until gen_run_all catches it */
	status = gen_main_run(&gen, argc, argv);
	leaked = gen_senders_close(&gen.senders);
	if (gen.eal_up)
		rte_eal_cleanup();
	if (leaked) {
		fprintf(stderr, PROGRAM ": %u slots were not returned to the pool\n", leaked);
		status = status ? status : APP_BALANCE;
	}
	return app_end(PROGRAM, status);
}
