/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The source's own command line, behind EAL's "--".
 */
#ifndef SPW_GEN_CONF_H
#define SPW_GEN_CONF_H

#include "gen_frame.h"
#include "gen_plan.h"
#include "port/spw_port.h"

struct gen_conf {
	struct spw_port_spec port;
	struct gen_plan_conf plan;
	struct gen_frame_conf frame;
	uint64_t seconds_ns, warm_up_ns, linger_ns, link_wait_ns, probe_ns, hold_ns, slow_ns;
	uint32_t slots;
	bool expect_echo;
	const char *json, *hdr; /* NULL: none */
	char schedule[192];
};

enum { GEN_CONF_HELP = 1 };

/* Purpose: defaults, then the options in order, then what they mean together. Strings stay the caller's argv.
 * Shape:   argv[0] is skipped. Returns: 0, GEN_CONF_HELP, or -EINVAL and -ERANGE "--NAME: what; what is allowed". */
int gen_conf_args(struct gen_conf *conf_out, int argc, char **argv);
void gen_conf_help(void);

/* "constant", "poisson" ... */
const char *gen_gaps_name(enum gen_gaps gaps);

#endif
