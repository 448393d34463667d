/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a run of the source came to, for people and for programs.
 */
#ifndef SPW_GEN_REPORT_H
#define SPW_GEN_REPORT_H

#include "gen_sum.h"

struct gen_report {
	const char *schedule;   /* "poisson, 1000000 frames/s, 64 bytes, 16 flows", static until printed */
	const char *port;       /* as the user named it */
	double rate_fps;        /* of the plan */
	const char *distribution;
	uint64_t seed;
	uint64_t link_wait_ns, warm_up_ns;
	uint64_t tsc_hz;
	uint32_t sender_cnt;
	uint16_t run;
};

/* Purpose: tables for people. */
void gen_report_text(const struct gen_sum *sum, const struct gen_report *what);
/* Purpose: "schema": "spinwire.gen/1"; path "-" is stdout. Errors: -EIO with the path, -ENOMEM. */
int gen_report_json(const struct gen_sum *sum, const struct gen_report *what, const char *path);

#endif
