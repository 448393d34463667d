/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Opens a port, a pool and a sender for each worker lcore, runs them, and closes all (senders.h).
 * main.c calls it from the main lcore; the senders' own loop is lib/gen/run.c.
 *
 *    open    lcores ─ clock ─ port ─ memory, pools ─ queues ─ addresses ─ senders
 *    run     start ─ launch ─ (clock pairs, link, tick)* ─ wait ─ drain
 *    stop    hold ─ stop the port           close   port ─ pools ─ memory ─ senders
 *
 * Queue, pool and sender have the number of their lcore in the list, and belong to that lcore
 * alone while it runs.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <rte_launch.h>
#include <rte_lcore.h>

#include "address.h"
#include "base/spw_err.h"
#include "base/spw_log.h"
#include "senders.h"

#define TICK_US     2000
#define CLOCK_TICKS 10u /* clock pairs: 50 a second at most */
#define DRAIN_NS    5000000000u

/* Main controls and must not send: its naps would be gaps in the schedule. */
static int senders_find_lcores(struct gen_senders *senders)
{
	uint32_t id;

	RTE_LCORE_FOREACH_WORKER(id)
	{
		if (senders->cnt == GEN_SENDER_MAX)
			return spw_err(EINVAL,
				       "more than %u worker lcores: each is a sender; give fewer",
				       GEN_SENDER_MAX);
		senders->lcore_id[senders->cnt++] = id;
	}
	if (senders->cnt == 0)
		return spw_err(EINVAL, "no lcore to send from: EAL has only the main one; give two "
				       "with -l or --lcores");
	return 0;
}

/* One region for all pools, slots large enough for the largest frame and what the port puts before
 * it. */
static int senders_memory_open(struct gen_senders *senders, uint32_t slots)
{
	const struct spw_port_caps *caps = &senders->port->caps;
	size_t room =
		SPW_MAX((size_t)GEN_SIZE_MAX + caps->slot_headroom, (size_t)caps->slot_bytes_min);
	size_t slot_bytes =
		SPW_ALIGN_UP(room, SPW_MAX((size_t)caps->slot_align, (size_t)SPW_CACHE_LINE));
	struct spw_mem_req req = {.kind = SPW_MEM_HOST,
				  .bytes = slot_bytes * slots * senders->cnt,
				  .numa_node = (int)rte_lcore_to_socket_id(senders->lcore_id[0])};
	int rc = spw_region_alloc(&req, &senders->region);

	for (uint32_t s = 0; rc == 0 && s < senders->cnt; s++)
		rc = spw_pool_init(&senders->pool[s], &senders->region, slot_bytes * slots * s,
				   slot_bytes, slots);
	return rc;
}

/* A trail has the send completions of drivers that keep them. */
static int senders_sent_keep(struct gen_senders *senders, uint16_t s)
{
	int rc = spw_port_sent_keep(senders->port, s, &senders->sent[s]);

	return rc == -ENOTSUP ? 0 : rc;
}

/* With a trail, also its clock is opened: a port may lose it in queue_setup. */
static int senders_queues_open(struct gen_senders *senders, bool trail)
{
	int rc = spw_port_region_attach(senders->port, &senders->region);

	for (uint16_t s = 0; rc == 0 && s < senders->cnt; s++)
		rc = spw_port_queue_setup(
			senders->port, s,
			&(struct spw_port_queue_conf){
				.pool = &senders->pool[s],
				.profile = "latency",
				.numa_node = (int)rte_lcore_to_socket_id(senders->lcore_id[s])});
	for (uint16_t s = 0; rc == 0 && trail && s < senders->cnt; s++)
		rc = senders_sent_keep(senders, s);
	return rc || !trail
		       ? rc
		       : spw_port_clock_open(&senders->nic_clock, senders->port, &senders->tsc);
}

/* Every sender has the same configuration, and of it plans its own part. */
static int senders_runs_init(struct gen_senders *senders, const struct gen_conf *conf)
{
	const struct gen_run_conf run = {
		.headroom = senders->port->caps.slot_headroom,
		.messages = senders->port->caps.messages,
		.mtu = senders->port->caps.mtu,
		.frame = conf->frame,
		.plan = conf->plan,
		.tsc = &senders->tsc,
		.seconds_ns = conf->seconds_ns,
		.warm_up_ns = conf->warm_up_ns,
		.linger_ns = conf->linger_ns,
		.link_wait_ns = conf->link_wait_ns,
		.probe_ns = conf->probe_ns,
		.slow_ns = conf->slow_ns,
		.expect_echo = conf->expect_echo,
		.trail = conf->trail ? senders->trail : NULL,
		.nic_clock = senders->nic_clock.on ? &senders->nic_clock.box : NULL,
		.sent = senders->sent,
		.stop = &senders->stop};
	struct gen_run *all = aligned_alloc(_Alignof(struct gen_run), senders->cnt * sizeof(*all));
	int rc = all ? 0 : spw_err(ENOMEM, "no memory for %u senders", senders->cnt);

	for (uint32_t s = 0; rc == 0 && conf->trail && s < senders->cnt; s++)
		rc = spw_trail_open(&senders->trail[s], conf->trail_every);

	for (uint32_t s = 0; rc == 0 && s < senders->cnt; s++) {
		senders->run[s] = &all[s];
		rc = gen_run_init(&all[s], &run, &senders->port->queue[s], &senders->pool[s], s,
				  senders->run, senders->cnt);
	}
	return rc;
}

/* All senders have read the same file. */
static void senders_log_capture(const char *path, const struct gen_capture_note *note)
{
	if (note->cut)
		spw_warn("capture %s: its last record is cut and is left out", path);
	if (note->longer_cnt)
		spw_warn("capture %s: %u packets are longer than %u bytes, up to %u (merged by GRO "
			 "or TSO before they were captured?), and are sent with %u",
			 path, note->longer_cnt, GEN_SIZE_MAX, note->longest, GEN_SIZE_MAX);
	if (note->shorter_cnt)
		spw_info("capture %s: %u packets are shorter than %u bytes, which the source's own "
			 "header needs, and are sent with %u",
			 path, note->shorter_cnt, GEN_SIZE_MIN, GEN_SIZE_MIN);
}

/* The addresses are filled in after the port is open, which knows its own. */
int gen_senders_open(struct gen_senders *senders, struct gen_conf *conf)
{
	int rc;

	if ((rc = senders_find_lcores(senders)) < 0 ||
	    (rc = spw_tsc_calibrate(100, &senders->tsc)) < 0 ||
	    (rc = spw_port_open(&conf->port, 0, (uint16_t)senders->cnt, &senders->port)) < 0)
		return rc;
	if (!senders->port->caps.can_tx)
		return spw_err(ENOTSUP, "port %s cannot send", senders->port->name);
	/* A driver posts whole rings of slots. */
	if (conf->slots < senders->port->caps.slot_cnt_min)
		return spw_err(ERANGE, "--slots %u: port %s needs at least %u", conf->slots,
			       senders->port->name, senders->port->caps.slot_cnt_min);
	if ((rc = senders_memory_open(senders, conf->slots)) < 0 ||
	    (rc = senders_queues_open(senders, conf->trail)) < 0)
		return rc;
	gen_address_fill(&conf->frame, senders->port);
	rc = senders_runs_init(senders, conf);
	if (rc == 0)
		senders_log_capture(conf->plan.capture, &senders->run[0]->plan.note);
	return rc;
}

/* What EAL calls on the lcore: it returns when the sender has ended. */
static int senders_lcore_main(void *arg)
{
	gen_run(arg);
	return 0;
}

/* An lcore that was never launched is not running. */
static bool senders_any_runs(const struct gen_senders *senders)
{
	for (uint32_t s = 0; s < senders->cnt; s++)
		if (rte_eal_get_lcore_state(senders->lcore_id[s]) == RUNNING)
			return true;
	return false;
}

/* Logs each change once. A link that is up again within a tick is only counted in the report. */
static void senders_log_link(struct gen_senders *senders)
{
	for (uint32_t s = 0; s < senders->cnt; s++) {
		uint32_t down = spw_thr_load_rlx(&senders->run[s]->link_down);

		if (down == senders->link_down[s])
			continue;
		senders->link_down[s] = down;
		if (down)
			spw_warn("port %s: the link, the device or the peer went down; frames are "
				 "lost or unsent until it is up",
				 senders->port->name);
		else
			spw_info("port %s: up again", senders->port->name);
	}
}

static void senders_pair_clock(struct gen_senders *senders, uint32_t turn)
{
	if (senders->nic_clock.on && turn % CLOCK_TICKS == 0 &&
	    spw_clock_feed_due(&senders->nic_clock))
		spw_port_clock_pair(&senders->nic_clock, senders->port, &senders->tsc);
}

/* Completions that are still under way when the last sender ends are waited for, as long as a NIC
 * may take to flush its queue; a PMD that counts late is asked again as well. */
static void senders_drain(struct gen_senders *senders)
{
	const uint64_t begin = spw_tsc_now();
	uint64_t taken = 0;

	for (uint32_t s = 0; s < senders->cnt; s++)
		taken += senders->run[s]->count.sent_frames;
	for (;;) {
		struct spw_port_event event[4];

		spw_port_stat(senders->port, &senders->stat);
		if (senders->stat.tx_frames + senders->stat.tx_flushed >= taken ||
		    spw_tsc_to_ns(&senders->tsc, spw_tsc_now() - begin) > DRAIN_NS)
			break;
		for (uint32_t s = 0; s < senders->cnt; s++)
			spw_port_events(&senders->port->queue[s], event, SPW_ARRAY_CNT(event));
		usleep(TICK_US);
	}
}

/* A launch that fails stops those that run already; they are waited for in any case. */
int gen_senders_run(struct gen_senders *senders, void (*tick)(void *arg), void *arg)
{
	int rc = spw_port_start(senders->port);

	if (rc < 0)
		return rc;
	for (uint32_t s = 0; rc == 0 && s < senders->cnt; s++)
		if (rte_eal_remote_launch(senders_lcore_main, senders->run[s],
					  senders->lcore_id[s]) < 0)
			rc = spw_err(EBUSY, "lcore %u cannot be launched", senders->lcore_id[s]);
	if (rc)
		spw_thr_store_rlx(&senders->stop, 1);
	for (uint32_t turn = 0; senders_any_runs(senders); turn++) {
		usleep(TICK_US);
		senders_pair_clock(senders, turn);
		senders_log_link(senders);
		tick(arg);
	}
	rte_eal_mp_wait_lcore();
	senders_drain(senders);
	return rc;
}

/* Names of gaps stand in the file's head in the order of their numbers. */
int gen_senders_trail(const struct gen_senders *senders, const struct gen_conf *conf)
{
	const struct spw_trail *trail[GEN_SENDER_MAX];
	char names[128];
	size_t n = 0;

	if (!conf->trail)
		return 0;
	for (uint32_t s = 0; s < senders->cnt; s++)
		trail[s] = &senders->trail[s];
	for (int d = 0; d < GEN_DOING_CNT; d++)
		n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s",
				      d ? "," : "gap=", gen_doing_name((enum gen_doing)d));
	snprintf(names + n, sizeof(names) - n, ",refused,behind"); /* GEN_GAP_REFUSED, _BEHIND */
	return spw_trail_write(trail, senders->cnt, names, conf->trail);
}

/* A signal ends the hold: the receiver is then no longer waited for. */
int gen_senders_stop(struct gen_senders *senders, uint64_t hold_ns)
{
	for (uint64_t begin = spw_tsc_now();
	     !spw_thr_load_rlx(&senders->stop) &&
	     spw_tsc_to_ns(&senders->tsc, spw_tsc_now() - begin) < hold_ns;)
		usleep(TICK_US);
	return spw_port_stop(senders->port);
}

/* The port goes first, since it returns the slots that it still has; only then pools are counted.
 */
uint32_t gen_senders_close(struct gen_senders *senders)
{
	uint32_t leaked = 0;

	spw_port_close(senders->port);
	for (uint32_t s = 0; s < senders->cnt; s++)
		leaked += spw_pool_fini(&senders->pool[s]);
	spw_region_free(&senders->region);
	for (uint32_t s = 0; s < senders->cnt && senders->run[s]; s++)
		gen_run_fini(senders->run[s]);
	for (uint32_t s = 0; s < senders->cnt; s++)
		spw_trail_close(&senders->trail[s]);
	free(senders->run[0]);
	return leaked;
}
