/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The judgement of a slow frame: one function per part of its time. Each divides the part's ticks
 * among causes, in the order of the table in spw_cause.h. Pure; called by slow.c, and by tests with
 * invented facts.
 *
 * How a part is divided. cause_charge() takes ticks from what is left and adds them to a cause;
 * cause_charge_rest() ends the part:
 *
 *   part     |------------------------------ left ------------------------------|
 *   charge   |-- batch_ahead --|---------------------- left ---------------------|
 *   charge   |-- batch_ahead --|- poll_gap -|---------------- left --------------|
 *   rest     |-- batch_ahead --|- poll_gap -|-------------- exec_late -----------|
 *
 * Facts may overlap, since nobody records where inside a part they were. Each cause_charge() is
 * limited to what is left, so the causes sum to the part and the parts to the frame. The order
 * decides who gets an overlap: what is certain (a lost core, work queued before) comes before what
 * is inferred.
 */
#include <string.h>

#include "rec/spw_cause.h"

static const struct spw_enum_word cause_word[] = {SPW_ENUM_WORDS(SPW_CAUSE)};

const char *spw_cause_name(enum spw_cause cause)
{
	return SPW_ENUM_NAME(cause_word, cause);
}

const char *spw_cause_text(enum spw_cause cause)
{
	return SPW_ENUM_TEXT(cause_word, cause);
}

const char *spw_hold_name(enum spw_hold hold)
{
	static const char *const name[SPW_HOLD_CNT] = {"lost", "port",   "push",
						       "tx",   "refill", "quota"};

	return name[hold];
}

/* One part of a frame's time while it is handed out. */
struct share {
	uint64_t left;
	const uint64_t *held;
	uint64_t *ticks; /* by cause */
};

/* Charges up to `ticks` of what is left to a cause. */
static void cause_charge(struct share *s, enum spw_cause cause, uint64_t ticks)
{
	uint64_t n = SPW_MIN(ticks, s->left);

	s->ticks[cause] += n;
	s->left -= n;
}

static void cause_charge_rest(struct share *s, enum spw_cause cause)
{
	cause_charge(s, cause, s->left);
}

/* The loop had no core. */
static void cause_charge_lost(struct share *s)
{
	cause_charge(s, SPW_CAUSE_cpu_quota, s->held[SPW_HOLD_QUOTA]);
	cause_charge(s, SPW_CAUSE_poll_gap, s->held[SPW_HOLD_LOST]);
}

/* A frame that waits for the loop is delayed by whatever the loop did in a long step. */
static void cause_charge_held(struct share *s, const struct spw_cause_facts *facts,
			      enum spw_cause port)
{
	cause_charge_lost(s);
	cause_charge(s, SPW_CAUSE_tx_stall, s->held[SPW_HOLD_TX]);
	cause_charge(s, SPW_CAUSE_refill_stall, s->held[SPW_HOLD_REFILL]);
	cause_charge(s,
		     facts->exec == SPW_CAUSE_EXEC_INLINE ? SPW_CAUSE_batch_ahead
							  : SPW_CAUSE_exec_late,
		     s->held[SPW_HOLD_PUSH]);
	cause_charge(s, port, s->held[SPW_HOLD_PORT]);
}

/* nic_polled: the frame lay in the port. The loop did not poll, the port had no buffer, the loop
 * polled and the port did not return the frame; what remains is queueing. */
static void split_port(struct share *s, const struct spw_cause_facts *facts)
{
	cause_charge_held(s, facts, SPW_CAUSE_poll_gap);
	cause_charge(s, SPW_CAUSE_refill_stall, facts->dry);
	cause_charge(s, SPW_CAUSE_port_late, facts->not_polled);
	cause_charge_rest(s, SPW_CAUSE_port_backlog);
}

/* polled_pushed: only the loop works here, so a long push means that it lost its core, unless push
 * calls a driver that may block. */
static void split_push(struct share *s, const struct spw_cause_facts *facts)
{
	cause_charge_lost(s);
	cause_charge_rest(s, facts->exec == SPW_CAUSE_EXEC_LAUNCHED ? SPW_CAUSE_exec_late
								    : SPW_CAUSE_poll_gap);
}

static enum spw_cause pause_cause(const struct spw_cause_facts *facts)
{
	return facts->exec == SPW_CAUSE_EXEC_GPU ? SPW_CAUSE_gpu_sliced : SPW_CAUSE_exec_late;
}

/* If loop and executor stopped at the same time, the whole machine or process was stopped: that
 * counts as the loop's gap. */
static void split_wait(struct share *s, const struct spw_cause_facts *facts)
{
	cause_charge(s, SPW_CAUSE_batch_ahead, facts->ahead);
	if (facts->wait_relaunch)
		cause_charge_rest(s, SPW_CAUSE_relaunched);
	cause_charge_lost(s);
	cause_charge(s, pause_cause(facts), facts->wait_pause);
	cause_charge_rest(s, SPW_CAUSE_exec_late);
}

/* start_end: the handler runs. With the inline executor a lost core of the lcore is a lost core of
 * the handler. */
static void split_run(struct share *s, const struct spw_cause_facts *facts)
{
	if (facts->run_relaunch)
		cause_charge_rest(s, SPW_CAUSE_relaunched);
	if (facts->exec == SPW_CAUSE_EXEC_INLINE)
		cause_charge_lost(s);
	cause_charge(s, pause_cause(facts), facts->run_pause);
	cause_charge_rest(s, SPW_CAUSE_handler_slow);
}

/* An executor can be preempted between its end stamp and the store of the completion. */
static void split_reap(struct share *s, const struct spw_cause_facts *facts)
{
	cause_charge(s, SPW_CAUSE_batch_ahead, facts->reap_ahead);
	cause_charge_lost(s);
	cause_charge(s, pause_cause(facts), facts->reap_pause);
	cause_charge_held(s, facts, SPW_CAUSE_reap_late);
	cause_charge_rest(s, SPW_CAUSE_reap_late);
}

/* reaped_sent: the loop passes the slots to tx_burst or release_burst. */
static void split_send(struct share *s, const struct spw_cause_facts *facts)
{
	cause_charge_lost(s);
	cause_charge(s, SPW_CAUSE_refill_stall, s->held[SPW_HOLD_REFILL]);
	cause_charge_rest(s, facts->sent_tx ? SPW_CAUSE_tx_stall : SPW_CAUSE_refill_stall);
}

void spw_cause_split_part(const struct spw_cause_facts *facts, unsigned int part,
			  uint64_t ticks_out[SPW_CAUSE_CNT])
{
	static void (*const split[SPW_STAGE_PART_CNT])(struct share *,
						       const struct spw_cause_facts *) = {
		[SPW_STAGE_nic_polled] = split_port,   [SPW_STAGE_polled_pushed] = split_push,
		[SPW_STAGE_pushed_start] = split_wait, [SPW_STAGE_start_end] = split_run,
		[SPW_STAGE_end_reaped] = split_reap,   [SPW_STAGE_reaped_sent] = split_send,
	};
	struct share s = {.left = facts->part[part], .held = facts->held[part], .ticks = ticks_out};

	split[part](&s, facts);
}

/* The cause with the most ticks wins; of equal ones the first in the list. */
enum spw_cause spw_cause_split(const struct spw_cause_facts *facts,
			       uint64_t ticks_out[SPW_CAUSE_CNT])
{
	unsigned int most = 0;

	memset(ticks_out, 0, SPW_CAUSE_CNT * sizeof(*ticks_out));
	for (unsigned int part = 0; part < SPW_STAGE_PART_CNT; part++)
		spw_cause_split_part(facts, part, ticks_out);
	for (unsigned int c = 1; c < SPW_CAUSE_CNT; c++)
		most = ticks_out[c] > ticks_out[most] ? c : most;
	return (enum spw_cause)most;
}
