/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Set-up and tear-down of a sender: its share of the plan, and its memory. The loop is in run.c.
 * app/spinwire-gen (senders.c) calls gen_run_init for each sender on the main lcore, before any is
 * launched.
 *
 *    flow       0   1   2   3   4   5          of the whole plan
 *    sender     0   1   2   0   1   2          flow % sender_cnt
 *    own flow   0   0   0   1   1   1          flow / sender_cnt
 *
 * All memory that the loop writes is touched here, as a page fault in it would make a frame late.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "gen/spw_gen_run.h"

#define PAGE_BYTES_MIN 4096u

/* This sender's share of the plan: its flows, each as fast as any other flow. The starts of senders
 * are spread over a period. */
static int run_plan_share(struct gen_run *run, const struct gen_plan_conf *whole)
{
	struct gen_plan_conf conf = *whole;
	uint32_t own = (whole->flow_cnt + run->sender_cnt - 1 - run->sender) / run->sender_cnt;
	double share = (double)own / whole->flow_cnt;
	uint64_t period_fp = 0;
	int rc;

	if (run->sender_cnt > whole->flow_cnt)
		return spw_err(EINVAL,
			       "%u senders, but %u flows: each needs one of its own; give fewer "
			       "lcores or more --flows",
			       run->sender_cnt, whole->flow_cnt);
	if (run->sender_cnt > 1 && whole->gaps == GEN_CAPTURE)
		return spw_err(
			EINVAL,
			"a capture's timing cannot be shared by %u senders; give one worker lcore",
			run->sender_cnt);
	conf.flow_cnt = (uint16_t)own;
	conf.rate_fps *= share;
	conf.rate_end_fps *= share;
	conf.seed += run->sender;
	rc = gen_plan_init(&run->plan, &conf);
	if (rc == 0 && (whole->gaps == GEN_CONSTANT || whole->gaps == GEN_BURST)) {
		for (uint32_t i = 0; i < run->plan.gap_cnt; i++)
			period_fp += run->plan.gap_fp[i];
		run->plan.next.due_fp = period_fp / run->sender_cnt * run->sender;
	}
	return rc;
}

/* A NIC that is asked to send a frame beyond its MTU refuses it and puts its send queue in error.
 */
static int run_check_mtu(const struct gen_run *run, const struct gen_run_conf *conf)
{
	const uint32_t max = conf->mtu + ETHER_HDR_LEN;

	for (uint32_t i = 0; conf->mtu && !run->messages && i < run->plan.size_cnt; i++)
		if (run->plan.size[i] > max)
			return spw_err(
				ERANGE,
				"--size: the plan has frames of %u bytes, and the port's MTU "
				"of %u lets %u pass: give smaller ones, or raise the MTU of "
				"this interface and its peer (ip link set NAME mtu %u; of a "
				"DPDK port: mtu=%u)",
				run->plan.size[i], conf->mtu, max,
				run->plan.size[i] - ETHER_HDR_LEN,
				run->plan.size[i] - ETHER_HDR_LEN);
	return 0;
}

/* A message is the payload alone, so that of 64 bytes has room. */
static int run_check_stream(const struct gen_run *run)
{
	for (uint32_t i = 0; run->number_mask && !run->messages && i < run->plan.size_cnt; i++)
		if (run->plan.size[i] < GEN_STREAM_SIZE_MIN)
			return spw_err(EINVAL,
				       "--stream: frames of %u bytes have no room for the number; "
				       "give --size %u or more",
				       run->plan.size[i], GEN_STREAM_SIZE_MIN);
	return 0;
}

/* Writes every page of fresh, zeroed memory before the first frame: a page fault in the loop would
 * make a frame late. */
static void run_touch(void *at, size_t bytes)
{
	for (size_t off = 0; off + sizeof(uint32_t) <= bytes; off += PAGE_BYTES_MIN)
		spw_thr_store_rlx((uint32_t *)((uint8_t *)at + off), 0);
}

/* calloc gives pages that exist only when they are written. */
static int run_alloc(struct gen_run *run, uint32_t flow_cnt)
{
	int rc;

	run->next_seq = calloc(run->plan.flow_cnt, sizeof(*run->next_seq));
	run->sent.tsc = calloc((size_t)1 << GEN_SENT_LOG2, sizeof(*run->sent.tsc));
	run->sent.taken_tsc = calloc((size_t)1 << GEN_SENT_LOG2, sizeof(*run->sent.taken_tsc));
	if (!run->next_seq || !run->sent.tsc || !run->sent.taken_tsc)
		return spw_err(ENOMEM, "no memory for %u flows", flow_cnt);
	rc = gen_track_init(&run->track, flow_cnt);
	if (rc)
		return rc;
	run_touch(run->next_seq, run->plan.flow_cnt * sizeof(*run->next_seq));
	run_touch(run->sent.tsc, ((size_t)1 << GEN_SENT_LOG2) * sizeof(*run->sent.tsc));
	run_touch(run->sent.taken_tsc, ((size_t)1 << GEN_SENT_LOG2) * sizeof(*run->sent.taken_tsc));
	run_touch(run->track.flow, flow_cnt * sizeof(*run->track.flow));
	run_touch(run->track.missing, GEN_MISSING_MAX * sizeof(*run->track.missing));
	return 0;
}

/* Without --trail the struct stays zero, and the loop's tests for it fail. */
static void run_trail_init(struct gen_run *run, const struct gen_run_conf *conf)
{
	if (!conf->trail)
		return;
	run->trail = (struct spw_trail_sender){
		.to = &conf->trail[run->sender],
		.clock = conf->nic_clock,
		.port.sent = conf->sent ? conf->sent[run->sender] : NULL,
		.flow_cnt = run->plan.flow_cnt,
	};
	if (conf->nic_clock)
		spw_clock_box_get(conf->nic_clock, &run->trail.map);
}

/* What the plan and the port do not agree on (MTU, room for the stream's number) is an error here,
 * not in the run. */
int gen_run_init(struct gen_run *run, const struct gen_run_conf *conf, struct spw_port_queue *queue,
		 const struct spw_pool *pool, uint32_t sender, struct gen_run *const *all,
		 uint32_t sender_cnt)
{
	int rc;

	memset(run, 0, sizeof(*run));
	run->queue = queue;
	run->pool = pool;
	run->tsc = conf->tsc;
	run->stop = conf->stop;
	run->messages = conf->messages;
	run->write = conf->messages ? gen_message_write : gen_frame_write;
	run->end_ns = conf->seconds_ns;
	run->warm_up_ns = conf->warm_up_ns;
	run->linger_ns = conf->linger_ns;
	run->link_wait_ns = conf->link_wait_ns;
	run->probe_ns = conf->probe_ns;
	run->headroom = conf->headroom;
	run->run = conf->frame.run;
	run->expect_echo = conf->expect_echo;
	run->sender = sender;
	run->all = all;
	run->sender_cnt = sender_cnt;
	run->number_mask = conf->frame.stream ? UINT32_MAX : 0;
	gen_frame_template(&conf->frame, sender, &run->headers);
	gen_slow_init(&run->slow, conf->slow_ns);
	rc = run_plan_share(run, &conf->plan);
	rc = rc ? rc : run_check_stream(run);
	rc = rc ? rc : run_check_mtu(run, conf);
	if (rc == 0)
		rc = run_alloc(run, conf->plan.flow_cnt);
	run_trail_init(run, conf);
	if (rc)
		gen_run_fini(run);
	return rc;
}

/* A run that was not initialised whole is fine: what is not there is NULL. */
void gen_run_fini(struct gen_run *run)
{
	gen_plan_fini(&run->plan);
	gen_track_fini(&run->track);
	free(run->next_seq);
	free(run->sent.tsc);
	free(run->sent.taken_tsc);
	run->next_seq = NULL;
	run->sent.tsc = NULL;
	run->sent.taken_tsc = NULL;
}
