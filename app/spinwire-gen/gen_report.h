/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a run of the source came to: counts that add up, and round trips from the intended time.
 *
 *   intended = sent + unsent          sent = echoed + lost          received = echoed + duplicated + corrupted + not ours
 *
 * A frame that was due and never came back, sent or not, is longer than any: a percentile whose rank falls among those is
 * printed as "lost".
 */
#ifndef SPW_GEN_REPORT_H
#define SPW_GEN_REPORT_H

#include "gen_run.h"

struct gen_report {
	const char *schedule;   /* "poisson, 1000000 frames/s, 64 bytes, 16 flows", static until printed */
	const char *port;       /* as the user named it */
	double rate_fps;        /* of the plan */
	const char *distribution;
	bool expect_echo;
	uint64_t seed;
	uint16_t run;
};

/* Purpose: tables for people. */
void gen_report_text(const struct gen_run *run, const struct gen_report *what);
/* Purpose: "schema": "spinwire.gen/1"; path "-" is stdout. Errors: -EIO with the path, -ENOMEM. */
int gen_report_json(const struct gen_run *run, const struct gen_report *what, const char *path);

#endif
