/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * spinwire <EAL arguments> -- <arguments>: start here. This file is the order of a run (app.h draws
 * it) and its exit status; the data path is lib/pipe/pipe.c.
 *
 * Every stage may fail; what was opened is closed by app_topology_close at the end, whichever it
 * was. Before changing the order: rights are dropped after what may need them (CUDA's first call)
 * and before EAL starts its threads, which inherit what is left.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <rte_eal.h>

#include "app.h"
#include "app_file.h"
#include "app_life.h"
#include "app_rights.h"
#include "base/spw_err.h"

#define PROGRAM "spinwire"

/* An error takes the place of a status that was good or not. */
static int spinwire_status(int rc, int status)
{
	return rc < 0 ? app_complain(PROGRAM, rc) : status;
}

/* Each of them, whatever became of the others. */
static int spinwire_files_end(struct app *app, struct app_result *result, int status)
{
	if (app->conf.run.json[0])
		status = spinwire_status(app_report_json(app, result, app->conf.run.json), status);
	status = spinwire_status(app_trail_write(app), status);
	status = spinwire_status(app_record_end(app, &result->topo), status);
	status = spinwire_status(app_receipts_end(app), status);
	if (!app_file_is_stdout(app->conf.run.json) && !app->interrupted &&
	    !app->conf.run.verbosity.quiet)
		app_record_print(app);
	if (app->hdr_rc)
		spw_err(-app->hdr_rc, "--hdr %s is incomplete", app->conf.run.hdr);
	status = spinwire_status(app->hdr_rc, status);
	return spinwire_status(app_capture_end(app), status);
}

/* In place of the summary, which would read like that of a whole run. */
static int spinwire_interrupted(const struct app *app, const struct app_result *result)
{
	return app_life_interrupted(PROGRAM, app->signals & ~APP_SIGNAL_AGAIN,
				    (uint64_t)(result->seconds * 1e9), app->conf.run.seconds_ns);
}

/* The summary is printed also after a fault: what was counted until then is what the user needs. A
 * ledger or pool that does not balance is an exit status of its own. */
static int spinwire_report(struct app *app, int status)
{
	static struct app_result result;
	struct spw_rec_view *view = app_view_final(app);

	if (!view)
		return app_complain(PROGRAM, spw_err(ENOMEM, "no memory for the summary"));
	app_result_gather(app, view, &result);
	if (status == APP_GOOD && !app->hung &&
	    (result.topo.sum.residual || result.topo.sum.leaked))
		status = APP_BALANCE;
	if (status == APP_GOOD && app->interrupted)
		status = spinwire_interrupted(app, &result);
	else if (!app_file_is_stdout(app->conf.run.json) && !app->conf.run.verbosity.quiet)
		(app->conf.run.full ? app_report_text : app_report_brief)(app, &result);
	status = spinwire_files_end(app, &result, status);
	free(view);
	return status;
}

/* The steps of app.h; each may end the run with an exit status. */
static int spinwire_run(struct app *app, int argc, char **argv)
{
	int rc, status;

	if ((rc = app_args(app, argc, argv)) > 0)
		return APP_GOOD;
	/* A run without an end is a service, whose log has the advice. */
	if (!app->conf.run.full && !app->conf.run.verbosity.verbose &&
	    (app->conf.run.seconds_ns || app->conf.run.frames))
		app_advice_hold();
	if (rc == 0) {
		app_machine_read(app);
		rc = app_machine_choose(app);
	}
	if (rc == 0) {
		app_executor_wake(app);
		app_rights_reduce(&app->eal);
		rc = app_eal_start(&app->eal, NULL);
	}
	if (rc < 0)
		return app_complain(PROGRAM, rc);
	app->eal_up = true;
	if (!app->conf.run.verbosity.quiet)
		app_life_start(PROGRAM);
	if ((rc = spw_tsc_calibrate(100, &app->tsc)) < 0 || (rc = app_topology_open(app)) < 0)
		return app_complain(PROGRAM, rc);
	app_machine_report(app);
	status = app_run(app);
	if (!app->hung)
		status = spinwire_status(spw_capture_stop(app->capture), status);
	return app->started ? spinwire_report(app, status) : app_complain(PROGRAM, -EIO);
}

int main(int argc, char **argv)
{
	static struct app app;
	int status;

	app_program_start(PROGRAM);
	app_life_ends(PROGRAM); /* until app_run catches it */
	/* By lines also into a pipe: a reader follows the run. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (app_replay_is_asked(argc, argv)) {
		status = app_replay(argc, argv);
		return app_end(PROGRAM, spinwire_status(status, status));
	}
	status = spinwire_run(&app, argc, argv);
	if (app.hung) { /* its thread or kernel may touch all that would be freed now, and no exit
			   handler may wait for it */
		fflush(NULL);
		_exit(status);
	}
	app_topology_close(&app);
	spw_plat_free(app.plat);
	if (app.eal_up)
		rte_eal_cleanup();
	return app_end(PROGRAM, status);
}
