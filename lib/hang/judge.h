/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the judge of jobs with live pages (judge.c) and of those without (bare.c) share: verdicts.
 * Thread: any; pure.
 */
#ifndef HANG_JUDGE_H
#define HANG_JUDGE_H

#include "hang/rules.h"

struct hang_judge {
	struct hang_graph g;
	struct spw_hang_answer *answer;
	uint32_t sink_cnt; /* also those that have no room in the answer */
	bool unexplained;  /* of one of them the rule is not known */
	bool unlike;       /* two of them are of unlike layers */
};

/* What a rule is asked about: a rank, and a connection or HANG_NONE; evidence is written to. */
struct hang_sink hang_sink_of(const struct hang_graph *g, uint32_t rank, uint32_t conn,
			      char *evidence, size_t room);

/* A verdict on a rank, not explained yet. What has no room replaces the last one. */
struct spw_hang_verdict *hang_verdict_add(struct hang_judge *j, uint32_t rank);
/* at: the index of the rule that explains it. */
void hang_verdict_explain(struct hang_judge *j, struct spw_hang_verdict *v, uint32_t at,
			  const char *evidence);
/* Whether a verdict by that rule on that rank was given; two on the two ends of one thing are one.
 */
bool hang_verdict_is_there(const struct hang_judge *j, uint32_t rank, uint32_t rule);

/* bare.c: what stands for itself is said although a host is silent, or hides processes. */
void hang_judge_bare(struct hang_judge *j);

#endif
