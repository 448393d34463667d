/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The program's own part of the command line, after EAL's "--".
 */
#ifndef SPW_GEN_CONF_H
#define SPW_GEN_CONF_H

#include "gen/spw_gen_frame.h"
#include "gen/spw_gen_plan.h"
#include "opt/spw_opt.h"
#include "port/spw_port.h"

struct gen_conf {
	struct spw_port_spec port;
	struct gen_plan_conf plan;
	struct gen_frame_conf frame;
	uint64_t seconds_ns, warm_up_ns, linger_ns, link_wait_ns, probe_ns, hold_ns, slow_ns;
	uint32_t slots;
	bool expect_echo, full, check;
	struct spw_opt_verbosity verbosity;
	uint64_t stats_period_ns;       /* 0: no line while it runs */
	const char *json, *hdr, *trail; /* NULL: none */
	uint32_t trail_every;
	char schedule[192];
};

/* Purpose: the program's options, and what help prints of it.
 * Returns: static.
 * Thread: setup.
 */
const struct spw_opt_program *gen_conf_program(void);

/* Purpose: sets the defaults, then each option in order, then checks them together.
 * Shape: argv[0] is skipped.
 * Lifetime: strings remain the caller's argv.
 * Returns: an enum spw_opt_ask.
 * Thread: setup.
 * Errors: -EINVAL, -ERANGE: "--NAME: what is wrong; what is allowed".
 */
int gen_conf_args(struct gen_conf *conf_out, int argc, char **argv);

/* Purpose: the name of a schedule: "constant", "poisson" ...
 * Returns: static text.
 * Thread: any.
 */
const char *gen_gaps_name(enum gen_gaps gaps);

#endif
