/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The answer in at most ten lines, for whoever prints them: spinwire-doctor, and the NCCL plugin to
 * NCCL's logger. Texts of the answer are one line each already (spw_hang.h).
 *
 *   rank 1 (python, pid 4711, spark2) holds the others up: WHAT      | unknown: WHY NOT
 *   layer: LAYER; no progress for 12 s                               | may be rank 1 (...): WHAT
 *   evidence: WHERE IT WAS READ                                      | may be rank 3 (...): others
 *   stack of its main thread: ...     if stacks were asked for       |     wait for it
 *   to be sure: ...                   if the evidence leaves doubt   |
 *   do: WHAT TO DO                                                   |
 *   also rank 3 (...): WHAT; EVIDENCE                                |
 *   8 ranks found, 7 wait for another
 *
 * People and scripts search logs for these words, so they are not changed without need; programs
 * read the JSON (json.c). All of it comes from struct spw_hang_answer, so a saved case prints what
 * the live one did.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "hang/spw_hang.h"

/* The line that is put together. */
struct text {
	char line[SPW_HANG_LINE_BYTES];
	size_t used;
	spw_hang_line *put;
	void *arg;
};

/* What has no room is cut: no text of an answer is as long. */
static SPW_PRINTF(2, 3) void text_add(struct text *t, const char *fmt, ...)
{
	const size_t room = sizeof(t->line) - t->used;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(t->line + t->used, room, fmt, args);
	va_end(args);
	t->used += SPW_MIN((size_t)SPW_MAX(n, 0), room - 1);
}

/* Hands the line over; the caller copies what it wants to keep. */
static void text_end(struct text *t)
{
	t->put(t->line, t->arg);
	t->used = 0;
	t->line[0] = '\0';
}

/* "rank 1 (python, pid 4711, spark2)", as much of it as is known. */
static void text_who(struct text *t, const struct spw_hang_verdict *v)
{
	const char *between = " (";

	if (v->rank >= 0)
		text_add(t, "rank %ld", (long)v->rank);
	else
		text_add(t, v->pid >= 0 ? "a rank" : "the ranks");
	if (v->program[0])
		text_add(t, "%s%s", between, v->program);
	between = v->program[0] ? ", " : between;
	if (v->pid >= 0)
		text_add(t, "%spid %ld", between, (long)v->pid);
	between = v->pid >= 0 ? ", " : between;
	if (v->host[0])
		text_add(t, "%s%s", between, v->host);
	if (v->program[0] || v->pid >= 0 || v->host[0])
		text_add(t, ")");
}

/* The first one in full; of the others, which are of the same layer, a line each. */
static void text_culprit(struct text *t, const struct spw_hang_answer *answer)
{
	const struct spw_hang_verdict *v = &answer->verdict[0];

	text_who(t, v);
	text_add(t,
		 v->rank < 0 && v->pid < 0 ? " hold each other up: %s"
		 : answer->moves           ? " slows the others down: %s"
		 : answer->bare            ? " cannot go on: %s"
					   : " holds the others up: %s",
		 v->what);
	text_end(t);
	text_add(t, "layer: %s", spw_hang_layer_name(v->layer));
	if (v->since.known) /* by the clock of the rank's own host */
		text_add(t, "; no progress for %ld s", (long)(v->since.value / 1000000000));
	text_end(t);
	text_add(t, "evidence: %s", v->evidence);
	text_end(t);
	if (v->stack[0]) {
		text_add(t, "stack of its main thread: %s", v->stack);
		text_end(t);
	}
	/* "it is" stands in the rules for: nothing else would make it surer (rules.c). */
	if (strcmp(v->sure, "it is")) {
		text_add(t, "to be sure: %s", v->sure);
		text_end(t);
	}
	text_add(t, "do: %s", v->todo);
	text_end(t);
	for (uint32_t i = 1; i < answer->verdict_cnt; i++) {
		text_add(t, "also ");
		text_who(t, &answer->verdict[i]);
		text_add(t, ": %s; %s", answer->verdict[i].what, answer->verdict[i].evidence);
		text_end(t);
	}
}

/* What is missing first: whoever reads on knows that the names below it are guesses. */
static void text_unknown(struct text *t, const struct spw_hang_answer *answer)
{
	text_add(t, "unknown: %s", answer->missing);
	text_end(t);
	for (uint32_t i = 0; i < answer->verdict_cnt; i++) {
		const struct spw_hang_verdict *v = &answer->verdict[i];

		text_add(t, "may be ");
		text_who(t, v);
		if (v->explained)
			text_add(t, ": %s; %s", v->what, v->evidence);
		else
			text_add(t, ": others wait for it");
		text_end(t);
	}
}

void spw_hang_answer_lines(const struct spw_hang_answer *answer, spw_hang_line *put, void *arg)
{
	struct text t = {.put = put, .arg = arg};

	switch (answer->outcome) {
	case SPW_HANG_OUTCOME_culprit:
		text_culprit(&t, answer);
		break;
	case SPW_HANG_OUTCOME_unknown:
		text_unknown(&t, answer);
		break;
	default:
		text_add(&t, "it moves: none of %u ranks stands still", answer->rank_cnt);
		text_end(&t);
		return;
	}
	text_add(&t, "%u ranks found, ", answer->rank_cnt);
	if (answer->bare)
		text_add(&t, "without live pages, so who waits is not known");
	else
		text_add(&t, "%u wait for another", answer->wait_cnt);
	text_end(&t);
}
