/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The answer of the command hang for people, in at most ten lines. Texts of the answer are one line
 * each already (hang/spw_hang.h).
 */
#include <stdio.h>
#include <string.h>

#include "hang.h"

/* "rank 1 (python, pid 4711, spark2)", as much of it as is known. */
static void hang_who_put(const struct spw_hang_verdict *v)
{
	const char *between = " (";

	if (v->rank >= 0)
		printf("rank %ld", (long)v->rank);
	else if (v->pid >= 0)
		printf("a rank");
	else
		printf("the ranks");
	if (v->program[0])
		printf("%s%s", between, v->program);
	between = v->program[0] ? ", " : between;
	if (v->pid >= 0)
		printf("%spid %ld", between, (long)v->pid);
	between = v->pid >= 0 ? ", " : between;
	if (v->host[0])
		printf("%s%s", between, v->host);
	if (v->program[0] || v->pid >= 0 || v->host[0])
		printf(")");
}

/* By the clock of the rank's own host. */
static void hang_since_put(const struct spw_hang_verdict *v)
{
	printf("layer: %s", spw_hang_layer_name(v->layer));
	if (v->since.known)
		printf("; no progress for %ld s", (long)(v->since.value / 1000000000));
	printf("\n");
}

/* The first one in full; of the others, which are of the same layer, a line each. */
static void hang_culprit_put(const struct spw_hang_answer *answer)
{
	const struct spw_hang_verdict *v = &answer->verdict[0];

	hang_who_put(v);
	printf(v->rank < 0 && v->pid < 0 ? " hold each other up: %s\n"
	       : answer->moves           ? " slows the others down: %s\n"
					 : " holds the others up: %s\n",
	       v->what);
	hang_since_put(v);
	printf("evidence: %s\n", v->evidence);
	if (strcmp(v->sure, "it is"))
		printf("to be sure: %s\n", v->sure);
	printf("do: %s\n", v->todo);
	for (uint32_t i = 1; i < answer->verdict_cnt; i++) {
		printf("also ");
		hang_who_put(&answer->verdict[i]);
		printf(": %s; %s\n", answer->verdict[i].what, answer->verdict[i].evidence);
	}
}

/* What is missing first: whoever reads on knows that the names below it are guesses. */
static void hang_unknown_put(const struct spw_hang_answer *answer)
{
	printf("unknown: %s\n", answer->missing);
	for (uint32_t i = 0; i < answer->verdict_cnt; i++) {
		const struct spw_hang_verdict *v = &answer->verdict[i];

		printf("may be ");
		hang_who_put(v);
		if (v->explained)
			printf(": %s; %s\n", v->what, v->evidence);
		else
			printf(": others wait for it\n");
	}
}

void hang_print(const struct spw_hang_answer *answer)
{
	switch (answer->outcome) {
	case SPW_HANG_OUTCOME_culprit:
		hang_culprit_put(answer);
		break;
	case SPW_HANG_OUTCOME_unknown:
		hang_unknown_put(answer);
		break;
	default:
		printf("it moves: none of %u ranks stands still\n", answer->rank_cnt);
	}
	if (answer->outcome != SPW_HANG_OUTCOME_moves)
		printf("%u ranks found, %u wait for another\n", answer->rank_cnt, answer->wait_cnt);
}
