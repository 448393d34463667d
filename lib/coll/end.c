/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * How a group ends. The first cause wins: executor, proxy, a peer's note or spw_coll_abort set
 * words->ended once, and everything else follows from it: the executor leaves, the proxy informs
 * the peers, and the owner gets one line.
 *
 *   executor, proxy, spw_coll_abort ─► coll_end ─► words->ended ─┐
 *   a kernel ─────────────────────────► words->failed ───────────┴► coll_ended: executor and proxy
 *   proxy    coll_note_of ─► a put into the note window of each peer ─► there: SPW_COLL_NOTICE
 *   owner    spw_coll_error: one line, from the word, the heads and the note
 *
 * A word has round, status and a mask of ranks (spw_coll_end_word). A group never goes on after its
 * end: slots and staging stay as they are, which is what the line is made of.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_order.h"
#include "coll/coll.h"

#define END_ROUND(word)  ((word) >> 24)
#define END_STATUS(word) ((uint32_t)((word) >> 8 & 0xffu))
#define END_MASK(word)   ((uint32_t)((word)&0xffu))

/* Several threads may end a group; only one of them succeeds. */
void coll_end(struct spw_coll *c, uint64_t end_word)
{
	uint64_t none = 0;

	(void)spw_thr_cas(&c->words->ended, &none, end_word);
}

uint64_t coll_ended(const struct spw_coll *c)
{
	/* [CO4 acquire, pairs with the kernel's release: its output is as it was] */
	const uint64_t failed = spw_gpu_load_acq64(&c->words->failed);
	const uint64_t ended = spw_thr_load_acq(&c->words->ended);

	return ended ? ended : failed;
}

/* Any thread: the one that waits in a call finds the word at its next look. */
void spw_coll_abort(struct spw_coll *coll)
{
	coll_end(coll, spw_coll_end_word(0, SPW_COLL_ABORTED, 0));
}

/* ---- the line ---- */

struct line {
	char *text;
	size_t len, max;
};

static void line_add(struct line *l, const char *fmt, ...) SPW_PRINTF(2, 3);
/* What does not fit is cut. */
static void line_add(struct line *l, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(l->text + l->len, l->max - l->len, fmt, args);
	va_end(args);
	if (n > 0)
		l->len = SPW_MIN(l->len + (size_t)n, l->max - 1);
}

static void add_ranks(struct line *l, const struct spw_coll *c, uint32_t mask)
{
	const char *comma = __builtin_popcount(mask) > 1 ? "ranks " : "rank ";

	for (uint32_t i = 0; i < c->rank_cnt; i++) {
		if (!(mask >> i & 1u))
			continue;
		line_add(l, "%s%u (%s)", comma, i, i == c->rank ? "this one" : c->peer[i].name);
		comma = ", ";
	}
}

/* h may be a peer's: numbers that name no type or op are shown as "?". */
static void add_call(struct line *l, const struct spw_coll_head *h)
{
	static const char *const type[] = {"f32", "bf16", "f16"}, *const op[] = {"sum", "max"};
	const bool reduce = h->kind == SPW_COLL_ALL_REDUCE;

	line_add(l, "%s of %llu %s%s%s", reduce ? "all-reduce" : "all-gather",
		 (unsigned long long)h->count, h->type < SPW_ARRAY_CNT(type) ? type[h->type] : "?",
		 reduce ? " by " : "",
		 !reduce                     ? ""
		 : h->op < SPW_ARRAY_CNT(op) ? op[h->op]
					     : "?");
}

/* Both heads still lie in memory: the group has ended, and no slot is used again. */
static void add_difference(struct line *l, const struct spw_coll *c, uint64_t end)
{
	const uint32_t slot = spw_coll_slot(END_ROUND(end));
	const uint32_t rank = (uint32_t)__builtin_ctz(END_MASK(end) | 1u << SPW_COLL_RANK_MAX);
	struct spw_coll_head own, theirs;

	if (rank >= c->rank_cnt || rank == c->rank)
		return;
	memcpy(&own, c->stage[slot], sizeof(own));
	memcpy(&theirs, c->peer[rank].mine[slot] + SPW_COLL_FLAG_BYTES, sizeof(theirs));
	line_add(l, " asks for an ");
	add_call(l, &theirs);
	line_add(l, ", this one for an ");
	add_call(l, &own);
	line_add(l, ": every rank makes the same calls in the same order");
}

/* A peer's note is a claim: its numbers are checked, and a notice is never passed on as one. */
struct coll_note coll_note_of(const struct spw_coll *c, uint64_t end)
{
	const uint32_t rank = (uint32_t)__builtin_ctz(END_MASK(end) | 1u << SPW_COLL_RANK_MAX);
	struct coll_note note = {.session = c->session, .end = end, .by = c->rank};

	if (END_STATUS(end) != SPW_COLL_NOTICE || rank >= c->rank_cnt || rank == c->rank)
		return note;
	memcpy(&note, c->peer[rank].mine[COLL_NOTE] + SPW_COLL_FLAG_BYTES, sizeof(note));
	note.by = note.by < c->rank_cnt ? note.by : rank;
	if (END_STATUS(note.end) == SPW_COLL_NOTICE || END_STATUS(note.end) >= SPW_COLL_STATUS_CNT)
		note.end = spw_coll_end_word(0, SPW_COLL_ABORTED, 0);
	return note;
}

/* Returns: the errno of this cause. */
static int add_cause(struct line *l, const struct spw_coll *c, uint64_t end)
{
	const uint32_t mask = END_MASK(end);

	if (END_STATUS(end) != SPW_COLL_ABORTED)
		line_add(l, "round %llu: ", (unsigned long long)END_ROUND(end));
	add_ranks(l, c, mask);
	switch (END_STATUS(end)) {
	case SPW_COLL_TIMEOUT:
		line_add(l,
			 mask ? " sent nothing for %u ms: stopped, hanging, or not calling"
			      : "this rank's puts are not acknowledged after %u ms: see its rails",
			 c->conf.timeout_ms);
		return ETIMEDOUT;
	case SPW_COLL_LOST:
		line_add(l, " ended without sending anything: see its own log");
		return ECONNRESET;
	case SPW_COLL_DIFFERS:
		add_difference(l, c, end);
		return EBADMSG;
	case SPW_COLL_ABORTED:
		line_add(l, "the group was aborted by this program");
		return ECANCELED;
	default:
		line_add(l, " sent what no rank of this group sends in this round");
		return EPROTO;
	}
}

/* What a peer wrote is shown only as far as it names causes and ranks of ours. */
static void add_notice(struct line *l, const struct spw_coll *c, uint64_t end)
{
	static const char *const why[SPW_COLL_STATUS_CNT] = {
		[SPW_COLL_TIMEOUT] = "it got nothing in time from",
		[SPW_COLL_LOST] = "it lost",
		[SPW_COLL_DIFFERS] = "something else is asked for by",
		[SPW_COLL_BREACH] = "it got what does not belong there from",
		[SPW_COLL_ABORTED] = "its program aborted it",
	};
	const struct coll_note note = coll_note_of(c, end);
	const char *reason = why[END_STATUS(note.end)];

	add_ranks(l, c, 1u << note.by);
	line_add(l, " ended the group: %s ", reason ? reason : "it does not say why");
	add_ranks(l, c, END_MASK(note.end));
}

/* The text is made once, by the owner; each later call returns the same. */
int spw_coll_error(struct spw_coll *coll)
{
	struct line l = {.text = coll->error_text, .max = sizeof(coll->error_text)};
	const uint64_t end = coll_ended(coll);

	if (!end)
		return 0;
	if (!coll->error) {
		coll_end(coll, end);
		coll->error = ECONNABORTED;
		if (END_STATUS(end) == SPW_COLL_NOTICE)
			add_notice(&l, coll, end);
		else
			coll->error = add_cause(&l, coll, end);
	}
	return spw_err(coll->error, "rank %u: %s", coll->rank, coll->error_text);
}

/* Ranks that are likely gone, and may be left out of the next group. A rank whose calls differ, or
 * whose program aborted, still runs. */
uint32_t spw_coll_lost(const struct spw_coll *coll)
{
	uint64_t end = coll_ended(coll);

	if (END_STATUS(end) == SPW_COLL_NOTICE)
		end = coll_note_of(coll, end).end;
	switch (END_STATUS(end)) {
	case SPW_COLL_TIMEOUT:
	case SPW_COLL_LOST:
	case SPW_COLL_BREACH:
		return END_MASK(end) & ((1u << coll->rank_cnt) - 1u) & ~(1u << coll->rank);
	default:
		return 0;
	}
}
