/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The recorder of messages. Called by lib/ncclnet for each request that is done.
 */
#include <string.h>

#include "rec/spw_stamps.h"

const char *spw_stamps_stage_name(enum spw_stamps_stage stage)
{
	static const struct spw_enum_word word[] = {SPW_ENUM_WORDS(SPW_STAMPS_STAGE)};

	return SPW_ENUM_NAME(word, stage);
}

const char *spw_stamps_cause_name(enum spw_stamps_cause cause)
{
	static const struct spw_enum_word word[] = {SPW_ENUM_WORDS(SPW_STAMPS_CAUSE)};

	return SPW_ENUM_NAME(word, cause);
}

/* ---- causes ---- */

/* What is left of the time in which nobody asked. Where it lay is not known: the later parts have
 * it first, since a thread that is elsewhere delays the end above all. */
static void stamps_charge(uint64_t part, enum spw_stamps_cause cause, uint64_t *not_polled,
			  uint64_t *ticks)
{
	const uint64_t away = SPW_MIN(part, *not_polled);

	*not_polled -= away;
	ticks[SPW_STAMPS_CAUSE_not_polled] += away;
	ticks[cause] += part - away;
}

/* Backwards, from the last part: see stamps_charge for why. */
enum spw_stamps_cause spw_stamps_split(const struct spw_stamps_send *s,
				       uint64_t ticks_out[SPW_STAMPS_CAUSE_CNT])
{
	uint64_t away = s->not_polled, none = 0;
	uint64_t *rest = s->rail_failed ? &none : &away;
	unsigned int most = 0;

	memset(ticks_out, 0, SPW_STAMPS_CAUSE_CNT * sizeof(*ticks_out));
	stamps_charge(s->taken - s->acked, SPW_STAMPS_CAUSE_not_polled, &away, ticks_out);
	stamps_charge(s->acked - s->posted,
		      s->rail_failed ? SPW_STAMPS_CAUSE_rail_failed : SPW_STAMPS_CAUSE_network,
		      rest, ticks_out);
	stamps_charge(s->posted - s->granted,
		      s->rail_failed ? SPW_STAMPS_CAUSE_rail_failed : SPW_STAMPS_CAUSE_rails_busy,
		      rest, ticks_out);
	stamps_charge(s->granted - s->started, SPW_STAMPS_CAUSE_peer_late, &away, ticks_out);
	for (unsigned int c = 1; c < SPW_STAMPS_CAUSE_CNT; c++)
		most = ticks_out[c] > ticks_out[most] ? c : most;
	return (enum spw_stamps_cause)most;
}

/* ---- slow sends ---- */

static uint64_t stamps_whole(const struct spw_stamps_slow *slow)
{
	return slow->send.taken - slow->send.started;
}

/* Sorted by insertion: few are kept, and few come. */
static void stamps_keep(struct spw_stamps_rec *rec, const struct spw_stamps_slow *slow)
{
	uint32_t at = rec->worst_cnt;

	while (at && stamps_whole(&rec->worst[at - 1]) < stamps_whole(slow))
		at--;
	if (at == SPW_STAMPS_WORST_CNT)
		return;
	rec->worst_cnt = SPW_MIN(rec->worst_cnt + 1, SPW_STAMPS_WORST_CNT);
	memmove(&rec->worst[at + 1], &rec->worst[at],
		(rec->worst_cnt - at - 1) * sizeof(rec->worst[0]));
	rec->worst[at] = *slow;
}

static SPW_COLD void stamps_judge(struct spw_stamps_rec *rec, const struct spw_stamps_send *send)
{
	struct spw_stamps_slow slow = {.send = *send};

	slow.cause = spw_stamps_split(send, slow.blame);
	rec->cause_cnt[slow.cause]++;
	rec->cause_max[slow.cause] = SPW_MAX(rec->cause_max[slow.cause], stamps_whole(&slow));
	stamps_keep(rec, &slow);
}

/* A message may take the time of its bytes twice over: a long one is not slow for being long. */
static bool stamps_is_slow(const struct spw_stamps_rec *rec, const struct spw_stamps_send *send)
{
	const uint64_t took = send->taken - send->started;

	return took > rec->slow_tsc &&
	       (double)(took - rec->slow_tsc) > 2 * (double)send->bytes * rec->ticks_per_byte;
}

/* ---- recording ---- */

/* A few adds for each message; only slow ones are looked at more closely. */
void spw_stamps_send(struct spw_stamps_rec *rec, const struct spw_stamps_send *s)
{
	spw_hist_record(&rec->stage[SPW_STAMPS_send_granted], s->granted - s->started, 1);
	spw_hist_record(&rec->stage[SPW_STAMPS_granted_posted], s->posted - s->granted, 1);
	spw_hist_record(&rec->stage[SPW_STAMPS_posted_acked], s->acked - s->posted, 1);
	spw_hist_record(&rec->stage[SPW_STAMPS_acked_taken], s->taken - s->acked, 1);
	spw_hist_record(&rec->stage[SPW_STAMPS_send_taken], s->taken - s->started, 1);
	rec->send_cnt++;
	rec->send_bytes += s->bytes;
	if (spw_unlikely(stamps_is_slow(rec, s)))
		stamps_judge(rec, s);
}

void spw_stamps_recv(struct spw_stamps_rec *rec, uint64_t started, uint64_t arrived, uint64_t taken,
		     uint64_t bytes)
{
	spw_hist_record(&rec->stage[SPW_STAMPS_recv_arrived], arrived - started, 1);
	spw_hist_record(&rec->stage[SPW_STAMPS_arrived_taken], taken - arrived, 1);
	spw_hist_record(&rec->stage[SPW_STAMPS_recv_taken], taken - started, 1);
	rec->recv_cnt++;
	rec->recv_bytes += bytes;
}
