/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The sender's loop (spw_gen_run.h): gen_run() at the end reads top to bottom. Between two checks
 * of the schedule lies one bounded step: a send, a poll of the port, a check of a few echoes, or
 * housekeeping. Nothing here waits for the port.
 *
 *   schedule (plan)   due ──── due ─────── due ── due ───────────> time
 *   sender            run_fill_line: the frame is built, with its due time in it, once it is due
 *                     run_send_line ─► tx_burst; what the port refuses waits in the line, still due
 *   echo              round trip = arrival - due, so the wait in the line is part of it
 *
 * A late sender (owed_cnt) alternates between sending and receiving, so that its own backlog does
 * not make echoes wait in the port and look slow.
 */
#include "gen/run_trail.h"

/* A sender that is late at the end of the plan may go on for 1/256 of the plan's time. */
#define CATCH_UP_LOG2 8u
/* From "all are ready" to the start of the plan: enough for go_tsc to reach every core. */
#define START_IN_NS 20000u

static uint64_t run_ns_at(const struct gen_run *run, uint64_t tsc)
{
	return spw_tsc_to_ns(run->tsc, tsc - run->start_tsc);
}

static uint64_t run_now_ns(const struct gen_run *run)
{
	return run_ns_at(run, spw_tsc_now());
}

/* ---- sending ---- */

/* The frame's number decides flow and sequence; the port and the sink cannot change its due time.
 */
static void run_write_frame(struct gen_run *run, uint32_t slot, struct gen_made *made,
			    uint64_t taken_tsc)
{
	const struct gen_due *due = gen_plan_peek(&run->plan);
	const struct gen_mark mark = {
		.flow = (uint16_t)(due->flow * run->sender_cnt + run->sender),
		.seq = run->next_seq[due->flow]++,
		.number = (uint32_t)run->sent.made_cnt & run->number_mask,
		.due_ns = due->due_fp >> GEN_FRAC_BITS,
	};

	made->number = run->sent.made_cnt;
	made->due_ns = mark.due_ns;
	made->flow = due->flow;
	made->desc = (struct spw_desc){
		.slot = slot, .offset = run->headroom, .len = due->bytes, .peer = run->sender};
	run->write(&run->headers, spw_pool_slot_addr(run->pool, slot) + run->headroom, due->bytes,
		   &mark);
	gen_sent_taken(&run->sent, made->number, taken_tsc);
	spw_thr_count(&run->sent.made_cnt, 1);
	gen_plan_advance(&run->plan);
}

/* Whether the next frame of the plan is due before until_ns. */
static bool run_is_due(const struct gen_run *run, uint64_t until_ns)
{
	return gen_plan_peek(&run->plan)->due_fp >> GEN_FRAC_BITS < until_ns;
}

/* The first moment counts: later calls leave it, until run_behind_trail ends the stretch. */
static SPW_COLD void run_behind_begin(uint64_t *since_tsc)
{
	if (!*since_tsc)
		*since_tsc = spw_tsc_now();
}

/* What was behind goes on the trail as a gap of its own kind, beside those of the loop. */
static void run_behind_trail(struct gen_run *run, uint8_t what, uint64_t *since_tsc, uint64_t now)
{
	if (*since_tsc && run->trail.to)
		spw_trail_gap(run->trail.to, what, *since_tsc, now);
	*since_tsc = 0;
}

static void run_behind_over(struct gen_run *run, uint64_t now)
{
	run_behind_trail(run, GEN_GAP_REFUSED, &run->refused_tsc, now);
	run_behind_trail(run, GEN_GAP_BEHIND, &run->behind_tsc, now);
}

/* A line that is not full, with slots left, was all that was due. */
static SPW_COLD void run_behind_end(struct gen_run *run, uint64_t now)
{
	if (run->line_cnt == GEN_TX_BURST || !run->empty_cnt)
		return;
	run_behind_over(run, now);
}

/* Builds the frames that are due, as far as there are free slots for them. */
static void run_fill_line(struct gen_run *run, uint64_t until_ns)
{
	const uint64_t taken_tsc = spw_tsc_now();
	uint32_t n = 0;

	run->empty_cnt += spw_port_lend_burst(run->queue, run->empty + run->empty_cnt,
					      (uint16_t)(GEN_TX_BURST - run->empty_cnt));
	while (run->empty_cnt && n < GEN_TX_BURST && run_is_due(run, until_ns))
		run_write_frame(run, run->empty[--run->empty_cnt], &run->line[n++], taken_tsc);
	if (spw_unlikely(n == 0)) {
		run->count.no_slot++;
		run_behind_begin(&run->refused_tsc);
	}
	if (spw_unlikely(n == GEN_TX_BURST))
		run_behind_begin(&run->behind_tsc);
	run->line_cnt = n;
}

/* late_ns is what the sender itself was late by, before any wire. */
static void run_count_sent(struct gen_run *run, const struct gen_made *made, uint64_t sent_tsc,
			   uint64_t sent_ns)
{
	if (spw_likely(made->due_ns >= run->warm_up_ns))
		spw_hist_record(&run->late_ns, sent_ns - made->due_ns, 1);
	gen_sent_note(&run->sent, made->number, sent_tsc);
	run->count.sent_bytes += made->desc.len;
}

/* The port took some frames of the line, not always the first ones: the others close up, in order.
 */
static SPW_COLD void run_close_up(struct gen_run *run, struct spw_desc *const *taken, uint32_t cnt)
{
	bool gone[GEN_TX_BURST] = {false};
	uint32_t n = 0;

	for (uint32_t i = 0; i < cnt; i++)
		gone[spw_container_of(taken[i], struct gen_made, desc) - run->line] = true;
	for (uint32_t i = 0; i < run->line_cnt; i++)
		if (!gone[i])
			run->line[n++] = run->line[i];
	run->line_cnt = n;
	run->count.tx_refused++;
	run_behind_begin(&run->refused_tsc);
}

/* One clock reading for the burst, taken when tx_burst has returned. */
static void run_send_line(struct gen_run *run)
{
	struct spw_desc *desc[GEN_TX_BURST];
	uint64_t sent_tsc, sent_ns;
	uint32_t cnt;

	for (uint32_t i = 0; i < run->line_cnt; i++)
		desc[i] = &run->line[i].desc;
	cnt = spw_port_tx_burst(run->queue, desc, (uint16_t)run->line_cnt);
	sent_tsc = spw_tsc_now();
	sent_ns = run_ns_at(run, sent_tsc);
	for (uint32_t i = 0; i < cnt; i++)
		run_count_sent(run, spw_container_of(desc[i], struct gen_made, desc), sent_tsc,
			       sent_ns);
	spw_thr_count(&run->count.sent_frames, cnt);
	if (spw_unlikely(cnt != run->line_cnt)) {
		run_close_up(run, desc, cnt);
		return;
	}
	if (spw_unlikely(run->refused_tsc | run->behind_tsc))
		run_behind_end(run, sent_tsc);
	run->line_cnt = 0;
}

/* Each send is followed by a step of receiving and, while there is something to receive, by as many
 * steps as it takes to receive as many echoes as frames were sent: a sender that is late does not
 * starve them. */
static void run_send_due(struct gen_run *run, uint64_t until_ns)
{
	uint32_t sent;

	if (run->line_cnt == 0)
		run_fill_line(run, until_ns);
	sent = run->line_cnt;
	if (sent)
		run_send_line(run);
	run->owed_cnt = 1 + (sent - run->line_cnt) * (GEN_RX_BURST + GEN_CHECK_CNT) /
				    (GEN_RX_BURST * GEN_CHECK_CNT);
}

/* ---- receiving ---- */

/* Records a slow echo. The sender of the frame has the time of sending. */
static SPW_COLD void run_take_slow(struct gen_run *run, uint32_t flow, uint64_t seq,
				   uint64_t due_ns, const struct spw_desc *desc)
{
	const uint64_t echo_tsc = run->in_tsc;
	const struct gen_run *sender = run->all[flow % run->sender_cnt];
	uint64_t due_tsc = run->start_tsc + spw_tsc_from_ns(run->tsc, due_ns);
	uint64_t number = seq * sender->plan.flow_cnt + flow / run->sender_cnt;
	uint64_t sent_tsc = SPW_MIN(gen_sent_find(&sender->sent, number, due_tsc),
				    echo_tsc); /* tx_burst may not have returned yet */
	struct gen_worst frame = {.flow = flow,
				  .seq = seq,
				  .whole_ns = run_ns_at(run, echo_tsc) - due_ns,
				  .intended_tsc = due_tsc,
				  .sent_tsc = sent_tsc,
				  .echo_tsc = echo_tsc,
				  .drained_tsc = run->drained_tsc};

	gen_slow_note(&run->slow, &frame);
	if (run->trail.to && frame.whole_ns > run->slow.threshold_ns)
		run_trail_slow(run, &frame, sender, number, desc);
}

/* An echo before its due time counts as 0; one of a flow that nobody sends is not ours. */
static void run_take_echo(struct gen_run *run, const struct gen_seen_frame *seen,
			  const struct spw_desc *desc, uint64_t at_ns)
{
	uint64_t seq, trip_ns = at_ns > seen->due_ns ? at_ns - seen->due_ns : 0;

	if (spw_unlikely(seen->flow >= run->track.flow_cnt)) {
		run->count.bad_flow++;
		return;
	}
	seq = gen_flow_extend(&run->track.flow[seen->flow], seen->seq);
	if (gen_track_saw(&run->track, seen->flow, seq) == GEN_SEEN_DUPLICATE)
		return;
	spw_thr_count(&run->count.echoed_frames, 1);
	if (spw_unlikely(seen->due_ns < run->warm_up_ns))
		return;
	spw_hist_record(&run->round_trip_ns, trip_ns, 1);
	if (spw_unlikely(trip_ns > run->slow.floor_ns))
		run_take_slow(run, seen->flow, seq, seen->due_ns, desc);
}

/* Classified by what is inside: an echo of this run, one of an older run, a damaged one, or a
 * stranger's. */
static void run_take_frame(struct gen_run *run, const struct spw_desc *desc, uint64_t at_ns)
{
	struct gen_seen_frame seen;

	gen_frame_read(spw_pool_slot_addr(run->pool, desc->slot) + desc->offset, desc->len,
		       desc->flags & SPW_DESC_MSG, run->run, &seen);
	switch (seen.kind) {
	case GEN_KIND_ECHO:
		run_take_echo(run, &seen, desc, at_ns);
		break;
	case GEN_KIND_CORRUPTED:
		run->count.corrupted++;
		if (seen.flow < run->track.flow_cnt)
			run->track.flow[seen.flow].corrupted++;
		break;
	case GEN_KIND_OLD_RUN:
		run->count.old_run++;
		break;
	case GEN_KIND_FOREIGN:
		run->count.foreign++;
		break;
	}
}

/* Fills the inbox, which is empty. All of it gets this time of arrival, whenever it is checked. A
 * poll that found less than a burst left the port empty: what this one finds came after it. */
static uint32_t run_poll(struct gen_run *run)
{
	if (run->in_cnt < GEN_RX_BURST)
		run->drained_tsc = run->in_tsc;
	run->in_cnt = spw_port_rx_burst(run->queue, run->in, GEN_RX_BURST);
	run->in_next = 0;
	run->in_tsc = spw_tsc_now();
	return run->in_cnt;
}

/* Checks a few frames of the inbox. */
static void run_check_some(struct gen_run *run)
{
	uint32_t slot[GEN_CHECK_CNT], cnt = SPW_MIN(run->in_cnt - run->in_next, GEN_CHECK_CNT);
	uint64_t at_ns = run_ns_at(run, run->in_tsc);

	for (uint32_t i = 0; i < cnt; i++) {
		const struct spw_desc *desc = &run->in[run->in_next++];

		run_take_frame(run, desc, at_ns);
		slot[i] = desc->slot;
	}
	spw_port_release_burst(run->queue, slot, (uint16_t)cnt);
}

/* Before the end of the plan, so that no frame stays in the inbox uncounted. */
static void run_check_all(struct gen_run *run)
{
	while (run->in_next < run->in_cnt)
		run_check_some(run);
}

/* For the time after the plan, when no schedule has to be kept. */
static bool run_receive(struct gen_run *run)
{
	bool any = run_poll(run) > 0;

	run_check_all(run);
	return any;
}

/* ---- one run ---- */

/* Whether every frame of every sender has come back. */
static bool run_all_back(const struct gen_run *run)
{
	uint64_t sent = 0, echoed = 0;

	for (uint32_t s = 0; s < run->sender_cnt; s++) {
		if (!spw_thr_load_acq(
			    &run->all[s]->sent_all)) /* [J4 acquire, pairs with J3 in gen_run] */
			return false;
		sent += spw_thr_load_rlx(&run->all[s]->count.sent_frames);
		echoed += spw_thr_load_rlx(&run->all[s]->count.echoed_frames);
	}
	return echoed >= sent;
}

/* Collects TX completions, for the trail too, and events of the port; the control thread logs link
 * changes (senders.c of spinwire-gen). */
static void run_housekeep(struct gen_run *run)
{
	struct spw_port_event event;
	const bool any = spw_port_events(run->queue, &event, 1);

	if (spw_unlikely(run->trail.clock != NULL))
		spw_trail_sender_house(&run->trail);
	if (!any)
		return;
	switch (event.kind) {
	case SPW_PORT_EVENT_LINK_DOWN:
	case SPW_PORT_EVENT_PEER_DOWN:
	case SPW_PORT_EVENT_DEVICE_GONE:
		if (!run->link_down)
			spw_thr_count(&run->count.link_downs, 1);
		spw_thr_store_rlx(&run->link_down, 1);
		break;
	case SPW_PORT_EVENT_LINK_UP:
	case SPW_PORT_EVENT_PEER_UP:
		spw_thr_store_rlx(&run->link_down, 0);
		break;
	default:
		break;
	}
}

/* After the plan: receives until every frame has come back, none of ours has for linger_ns, or a
 * signal comes: the next one, if the plan was ended by one. Each echo that prolongs the wait brings
 * the count nearer to the frames sent, so the wait ends. A sink has linger_ns in all to drain the
 * path (net_memif drops what is in a ring when its writer exits): it owes no echo, so frames that
 * circle in the path must not prolong its wait. Time is that of spw_tsc_ran: what came back while
 * this lcore stood still is read before the wait ends. */
static void run_linger(struct gen_run *run)
{
	const uint32_t stop = spw_thr_load_rlx(run->stop);
	uint64_t last_tsc = spw_tsc_now(), waited_tsc = 0, echoed = run->count.echoed_frames;

	while (!(run->expect_echo && run_all_back(run)) &&
	       spw_tsc_to_ns(run->tsc, waited_tsc) < run->linger_ns &&
	       spw_thr_load_rlx(run->stop) == stop) {
		if (!run_receive(run))
			run_housekeep(run);
		waited_tsc += spw_tsc_ran(run->tsc, &last_tsc);
		if (run->expect_echo && run->count.echoed_frames != echoed) {
			echoed = run->count.echoed_frames;
			waited_tsc = 0;
		}
	}
}

/* Frames that were built but never taken are unsent; their slots and the empty ones are returned.
 */
static void run_return_slots(struct gen_run *run)
{
	for (uint32_t i = 0; i < run->line_cnt; i++)
		spw_port_release_burst(run->queue, &run->line[i].desc.slot, 1);
	spw_port_release_burst(run->queue, run->empty, (uint16_t)run->empty_cnt);
}

/* A plan that starts before the link is up would measure the link. Ethernet ports report it on
 * queue 0, RDMA ports report each peer on its own queue. */
static void run_await_link(struct gen_run *run)
{
	enum spw_port_event_kind up = run->messages ? SPW_PORT_EVENT_PEER_UP
						    : SPW_PORT_EVENT_LINK_UP;
	struct spw_port_event event;

	run->start_tsc = spw_tsc_now();
	while (!run->link_seen && run_now_ns(run) < run->link_wait_ns &&
	       !spw_thr_load_rlx(run->stop))
		run->link_seen = spw_port_events(run->queue, &event, 1) && event.kind == up;
}

/* All senders are ready before any starts. The plan starts for all at the same tick, shortly after
 * that. */
static void run_start_together(struct gen_run *run)
{
	struct gen_run *first = run->all[0];

	if (run == first || run->messages)
		run_await_link(run);
	spw_thr_store_rel(&run->ready, 1); /* [J1 release, pairs with J2] */
	if (run == first) {
		for (uint32_t s = 1; s < run->sender_cnt; s++)
			while (!spw_thr_load_acq(&run->all[s]->ready) &&
			       !spw_thr_load_rlx(run->stop)) /* [J2 acquire] */
				spw_cpu_relax();
		spw_thr_store_rel(&first->go_tsc, /* [J5 release, pairs with J6] */
				  spw_tsc_now() + spw_tsc_from_ns(run->tsc, START_IN_NS));
	}
	do
		run->start_tsc = spw_thr_load_acq(&first->go_tsc); /* [J6 acquire, pairs with J5] */
	while (run->start_tsc == 0 && !spw_thr_load_rlx(run->stop));
	if (run->start_tsc == 0)
		run->start_tsc = spw_tsc_now();
	while ((int64_t)(spw_tsc_now() - run->start_tsc) < 0 && !spw_thr_load_rlx(run->stop))
		spw_cpu_relax();
	run->in_tsc = run->start_tsc;
}

/* Until the plan's end, and a little longer for frames that were due before it and are not sent. */
static bool run_goes_on(const struct gen_run *run, uint64_t now)
{
	if (spw_thr_load_rlx(run->stop))
		return false;
	return now < run->end_ns || ((run->line_cnt || run_is_due(run, run->end_ns)) &&
				     now < run->end_ns + (run->end_ns >> CATCH_UP_LOG2));
}

/* The bounded step of work between two checks of the schedule. */
static enum gen_doing run_step(struct gen_run *run, uint64_t now)
{
	uint64_t until_ns = SPW_MIN(now, run->end_ns);

	if (run->owed_cnt == 0 && (run->line_cnt || run_is_due(run, until_ns))) {
		run_send_due(run, until_ns);
		return GEN_DOING_send;
	}
	if (run->in_next < run->in_cnt) {
		run_check_some(run);
		run->owed_cnt -= run->owed_cnt > 0;
		return GEN_DOING_check;
	}
	if ((++run->poll_cnt & 255) == 0) {
		run_housekeep(run);
		return GEN_DOING_events;
	}
	if (!run_poll(run)) {
		run->owed_cnt = 0;
		return GEN_DOING_poll;
	}
	run->owed_cnt -= run->owed_cnt > 0;
	return GEN_DOING_receive;
}

/* Each step is timed by what the loop did in it, so a gap has a culprit. */
static void run_plan(struct gen_run *run)
{
	uint64_t now = 0, last; /* the plan's first moment */

	while (run_goes_on(run, now)) {
		enum gen_doing doing = run_step(run, now);

		last = now;
		now = run_now_ns(run);
		if (spw_likely(last >= run->warm_up_ns))
			gen_gap_note(&run->gap, doing, now - last);
		if (spw_unlikely(now - last > GEN_GAP_LONG_NS))
			run_trail_gap(run, doing, last, now);
	}
	run->ran_ns = SPW_MIN(now, run->end_ns);
	run->end_ns = run->ran_ns;
}

/* probe the core ─► all ready, same tick ─► the plan ─► what is left of the line ─► return slots ─►
 * wait for the last echoes. */
void gen_run(struct gen_run *run)
{
	gen_gap_probe(&run->alone, run->tsc, run->probe_ns, run->stop);
	run_start_together(run);
	run_plan(run);
	run_check_all(run);
	if (run->line_cnt)
		run_send_line(run);
	run_behind_over(run, spw_tsc_now());
	run->intended_frames =
		run->count.sent_frames + run->line_cnt + gen_plan_count(&run->plan, run->ran_ns);
	spw_thr_store_rel(&run->sent_all, 1); /* [J3 release, pairs with J4 in run_all_back] */
	run_return_slots(run);
	run_linger(run);
	run_housekeep(run); /* the completions of the last frames */
}

/* Frames are made in turn over the flows, so the count of one follows from the total; those still
 * in the line were not sent. */
uint64_t gen_run_flow_sent(const struct gen_run *run, uint32_t own)
{
	uint64_t made = run->sent.made_cnt,
		 cnt = made / run->plan.flow_cnt + (own < made % run->plan.flow_cnt);

	for (uint32_t i = 0; i < run->line_cnt; i++)
		cnt -= run->line[i].flow == own;
	return cnt;
}
