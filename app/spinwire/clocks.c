/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Foreign clocks: a GPU's, and those of ports that stamp frames. Each is read beside the CPU's counter again and again; the
 * line through the best pairs goes to the lcores.
 */
#include <errno.h>
#include <time.h>

#include "app.h"
#include "base/spw_err.h"
#include "base/spw_log.h"

#define NOMINAL_PPB 1000000u /* of a stated rate; pairs soon know better */
#define WANDER_PPB  100u
#define FIRST_PAIRS 8u
#define FIRST_LOOKS 5000u   /* for them, a second: a software NIC shows its clock when it has a core, every 2 ms if idle */
#define LOOK_NS     50000   /* between them */
#define REST_TURNS  4u      /* between pairs, once a window is full: what wanders 100 ppb is off by 10 ns after 100 ms */

static void pair_add(const struct app *app, struct app_clock *clock, uint64_t other, uint64_t tsc, uint64_t unc_ns)
{
	struct spw_clock_pair pair = {other, tsc, spw_tsc_from_ns(&app->tsc, unc_ns)};

	if (spw_clock_fit_add(&clock->fit, &pair))
		spw_clock_box_put(&clock->box, &clock->fit.map);
}

static int pair_exec(struct app *app)
{
	uint64_t other, tsc, unc_ns;
	int rc = spw_exec_pair_clock(app->exec, &other, &tsc, &unc_ns);

	if (rc == 0)
		pair_add(app, &app->exec_clock, other, tsc, unc_ns);
	return rc;
}

static int pair_port(struct app *app, uint32_t p)
{
	uint64_t other, tsc, unc_ns;
	int rc = spw_port_pair_clock(app->port[p], &other, &tsc, &unc_ns);

	if (rc == 0)
		pair_add(app, &app->nic_clock[p], other, tsc, unc_ns);
	return rc;
}

/* A port whose clock cannot be read after all goes on without its stamps. */
static int open_port(struct app *app, uint32_t p)
{
	const struct timespec nap = {.tv_nsec = LOOK_NS};
	struct app_clock *nic = &app->nic_clock[p];
	uint64_t hz = app->port[p]->caps.nic_clock_hz;
	int rc;

	if (!hz)
		return 0;
	if ((rc = spw_clock_fit_init(&nic->fit, hz, app->tsc.hz, NOMINAL_PPB, WANDER_PPB)) < 0)
		return rc;
	for (uint32_t look = 0; nic->fit.cnt < FIRST_PAIRS && look < FIRST_LOOKS && (rc == 0 || rc == -ETIME); look++) {
		rc = pair_port(app, p);
		if (rc < 0)
			nanosleep(&nap, NULL);
	}
	nic->on = nic->fit.valid;
	if (!nic->on)
		spw_warn("port %s: its clock cannot be read, frames go without its stamps: %s", app->port[p]->name,
			 spw_err_text());
	return 0;
}

int app_clocks_open(struct app *app)
{
	int rc = 0;

	for (uint32_t p = 0; p < app->port_cnt && rc == 0; p++)
		rc = open_port(app, p);
	if (rc < 0 || app->exec_kind < SPW_EXEC_CUDA_PERSISTENT)
		return rc;
	rc = spw_clock_fit_init(&app->exec_clock.fit, spw_exec_clock_hz(app->exec), app->tsc.hz, NOMINAL_PPB, WANDER_PPB);
	return rc < 0 ? rc : pair_exec(app);
}

/* A clock that is well known is read less often: reading it takes a bus transaction, or a core that somebody may want. */
static bool due(struct app_clock *clock)
{
	if (clock->fit.cnt < SPW_CLOCK_FIT_PAIRS || clock->rest == 0) {
		clock->rest = REST_TURNS;
		return true;
	}
	clock->rest--;
	return false;
}

void app_clocks_pair(struct app *app)
{
	for (uint32_t p = 0; p < app->port_cnt; p++)
		if (app->nic_clock[p].on && due(&app->nic_clock[p]))
			pair_port(app, p);
	if (app->exec_kind >= SPW_EXEC_CUDA_PERSISTENT && due(&app->exec_clock))
		pair_exec(app);
}
