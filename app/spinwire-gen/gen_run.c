/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "gen_run.h"

static uint64_t now_ns(const struct gen_run *run)
{
	return spw_tsc_to_ns(run->tsc, spw_tsc_now() - run->start_tsc);
}

static void write_frame(struct gen_run *run, uint32_t slot, uint32_t i)
{
	const struct gen_due *due = gen_plan_peek(&run->plan);
	struct spw_desc *desc = &run->line[i];

	run->line_due_ns[i] = due->due_fp >> GEN_FRAC_BITS;
	run->line_flow[i] = due->flow;
	*desc = (struct spw_desc){.slot = slot, .offset = run->headroom, .len = due->bytes};
	gen_frame_write(&run->headers, spw_pool_slot_addr(run->pool, slot) + run->headroom, due->bytes, due->flow,
			run->next_seq[due->flow]++, run->line_due_ns[i]);
	gen_plan_advance(&run->plan);
}

static bool is_due(const struct gen_run *run, uint64_t until_ns)
{
	return gen_plan_peek(&run->plan)->due_fp >> GEN_FRAC_BITS < until_ns;
}

/* Makes what is due, as far as there are empty slots for it. */
static void fill_line(struct gen_run *run, uint64_t until_ns)
{
	uint32_t n = 0;

	run->empty_cnt += spw_port_lend_burst(run->queue, run->empty + run->empty_cnt,
					      (uint16_t)(GEN_TX_BURST - run->empty_cnt));
	while (run->empty_cnt && n < GEN_TX_BURST && is_due(run, until_ns))
		write_frame(run, run->empty[--run->empty_cnt], n++);
	run->count.no_slot += n == 0;
	run->line_first = 0;
	run->line_cnt = n;
}

static void count_sent(struct gen_run *run, uint32_t cnt, uint64_t sent_ns)
{
	for (uint32_t i = run->line_first; i < run->line_first + cnt; i++) {
		spw_hist_record(&run->late_ns, sent_ns - run->line_due_ns[i], 1);
		run->count.sent_bytes += run->line[i].len;
	}
	spw_thr_count(&run->count.sent_frames, cnt);
}

static void send_line(struct gen_run *run)
{
	struct spw_desc *desc[GEN_TX_BURST];
	uint32_t sent;

	for (uint32_t i = 0; i < run->line_cnt; i++)
		desc[i] = &run->line[run->line_first + i];
	sent = spw_port_tx_burst(run->queue, desc, (uint16_t)run->line_cnt);
	count_sent(run, sent, now_ns(run));
	run->line_first += sent;
	run->line_cnt -= sent;
	run->count.tx_refused += run->line_cnt != 0;
}

static void send_due(struct gen_run *run)
{
	uint64_t now = now_ns(run);

	if (run->line_cnt == 0 && is_due(run, SPW_MIN(now, run->end_ns)))
		fill_line(run, SPW_MIN(now, run->end_ns));
	if (run->line_cnt)
		send_line(run);
}

static void take_echo(struct gen_run *run, const struct gen_seen_frame *seen, uint64_t at_ns)
{
	struct gen_flow *flow;
	enum gen_seen how;

	if (spw_unlikely(seen->flow >= run->track.flow_cnt)) {
		run->count.bad_flow++;
		return;
	}
	flow = &run->track.flow[seen->flow];
	how = gen_flow_saw(flow, gen_flow_extend(flow, seen->seq));
	if (how == GEN_SEEN_DUPLICATE)
		return;
	spw_thr_count(&run->count.echoed_frames, 1);
	spw_hist_record(&run->round_trip_ns, at_ns > seen->due_ns ? at_ns - seen->due_ns : 0, 1);
}

static void take_frame(struct gen_run *run, const struct spw_desc *desc, uint64_t at_ns)
{
	struct gen_seen_frame seen;

	gen_frame_read(spw_pool_slot_addr(run->pool, desc->slot) + desc->offset, desc->len, run->run, &seen);
	switch (seen.kind) {
	case GEN_KIND_ECHO:
		take_echo(run, &seen, at_ns);
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

static uint32_t receive(struct gen_run *run)
{
	struct spw_desc desc[GEN_RX_BURST];
	uint32_t slot[GEN_RX_BURST];
	uint16_t cnt = spw_port_rx_burst(run->queue, desc, GEN_RX_BURST);
	uint64_t at_ns;

	if (cnt == 0)
		return 0;
	at_ns = now_ns(run);
	for (uint16_t i = 0; i < cnt; i++) {
		take_frame(run, &desc[i], at_ns);
		slot[i] = desc[i].slot;
	}
	spw_port_release_burst(run->queue, slot, cnt);
	return cnt;
}

/* After the plan: until every frame has come back, or nothing has for linger_ns. */
static void linger(struct gen_run *run)
{
	uint64_t last_ns = now_ns(run);

	while (run->count.echoed_frames < run->count.sent_frames && now_ns(run) - last_ns < run->linger_ns) {
		struct spw_port_event event;

		if (receive(run))
			last_ns = now_ns(run);
		else
			(void)spw_port_events(run->queue, &event, 1); /* TX completions come home */
	}
}

/* Frames that were made but never taken are unsent; their slots and the empty ones go home. */
static void give_back(struct gen_run *run)
{
	for (uint32_t i = 0; i < run->line_cnt; i++)
		spw_port_release_burst(run->queue, &run->line[run->line_first + i].slot, 1);
	spw_port_release_burst(run->queue, run->empty, (uint16_t)run->empty_cnt);
}

/* A plan that starts on a link that is still coming up measures the link. */
static void wait_for_link(struct gen_run *run)
{
	struct spw_port_event event;

	run->start_tsc = spw_tsc_now();
	while (!run->link_seen && now_ns(run) < run->link_wait_ns && !spw_thr_load_rlx(run->stop))
		run->link_seen = spw_port_events(run->queue, &event, 1) && event.kind == SPW_PORT_EVENT_LINK_UP;
}

void gen_run(struct gen_run *run)
{
	uint32_t turns = 0;

	wait_for_link(run);
	run->start_tsc = spw_tsc_now();
	while (now_ns(run) < run->end_ns && !spw_thr_load_rlx(run->stop)) {
		struct spw_port_event event;

		send_due(run);
		receive(run);
		if ((++turns & 255) == 0)
			(void)spw_port_events(run->queue, &event, 1);
	}
	run->ran_ns = SPW_MIN(now_ns(run), run->end_ns);
	run->end_ns = run->ran_ns;
	run->intended_frames = run->count.sent_frames + run->line_cnt + gen_plan_count(&run->plan, run->ran_ns);
	if (run->line_cnt)
		send_line(run);
	give_back(run);
	if (run->expect_echo)
		linger(run);
}

int gen_run_init(struct gen_run *run, const struct gen_run_conf *conf)
{
	int rc;

	memset(run, 0, sizeof(*run));
	run->queue = conf->queue;
	run->pool = conf->pool;
	run->tsc = conf->tsc;
	run->stop = conf->stop;
	run->end_ns = conf->seconds_ns;
	run->linger_ns = conf->linger_ns;
	run->link_wait_ns = conf->link_wait_ns;
	run->headroom = conf->headroom;
	run->run = conf->frame.run;
	run->expect_echo = conf->expect_echo;
	gen_frame_template(&conf->frame, &run->headers);
	rc = gen_plan_init(&run->plan, &conf->plan);
	if (rc == 0)
		rc = gen_track_init(&run->track, conf->plan.flow_cnt);
	if (rc == 0) {
		run->next_seq = calloc(conf->plan.flow_cnt, sizeof(*run->next_seq));
		if (!run->next_seq)
			rc = spw_err(ENOMEM, "no memory for %u flows", conf->plan.flow_cnt);
	}
	if (rc)
		gen_run_fini(run);
	return rc;
}

void gen_run_fini(struct gen_run *run)
{
	gen_plan_fini(&run->plan);
	gen_track_fini(&run->track);
	free(run->next_seq);
	run->next_seq = NULL;
}
