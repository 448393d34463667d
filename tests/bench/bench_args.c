/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The command line of one benchmark: its table of options, with --help and "did you mean" as the
 * programs have them (lib/opt). Called by the benchmarks that have options.
 */
#include <stdio.h>

#include "app_opt.h"
#include "base/spw_err.h"
#include "bench.h"

int spw_bench_args(const struct spw_bench_out *out, const struct spw_opt *opt, uint32_t cnt,
		   int argc, char **argv, const struct spw_opt_take *take)
{
	static const char *const usage[] = {"[--json FILE] [options]", NULL};
	static const struct spw_opt_pair status[] = {{"0", "good"},
						     {"1", "wrong options"},
						     {"2", "the machine cannot do it"},
						     {"3", "the run is invalid"},
						     {NULL, NULL}},
					 none[] = {{NULL, NULL}};
	char name[40];
	const struct spw_opt_program program = {.name = name,
						.summary = out->what,
						.usage = usage,
						.about = out->what,
						.opt = opt,
						.opt_cnt = cnt,
						.status = status,
						.example = none};
	int rc = spw_opt_defaults(opt, cnt, take->base);

	snprintf(name, sizeof(name), "spinwire-bench %s", argv[0]);
	rc = rc ? rc : spw_opt_parse(&program, argc, argv, take);
	if (rc == SPW_OPT_RUN)
		return SPW_BENCH_RUN;
	if (rc < 0)
		fprintf(stderr, "%s: %s\n", name, spw_err_text());
	else /* of a few options all is shown */
		app_opt_answer(&program, rc == SPW_OPT_HELP ? SPW_OPT_HELP_ALL : rc);
	return rc < 0 ? 1 : 0;
}
