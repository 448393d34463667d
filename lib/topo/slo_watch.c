/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The watch of spw_slo.h: measures what the setting in use gives, hands it to the policy (slo.c),
 * and asks the lanes for what that chose.
 *
 *    ASKED ─ settle (SETTLE_VIEWS) ─ measure ─ spw_slo_next ─┬─ stay: measure again
 *      ▲                                                     └─ change: WAKE ─ ASK ─┐
 *      └───────────────────────────────────────────────────────────────────────────┘
 *
 * app/spinwire (slo.c) calls spw_slo_watch_turn with each view of the control thread. The first
 * views after a change still hold frames of the setting before, so they are not measured.
 */
#include <errno.h>
#include <string.h>

#include "topo/spw_slo.h"

#define SETTLE_VIEWS 2u
#define LEAST_NS     200000000ull
#define MOST_NS      1000000000ull
#define BEYOND       3u /* frames beyond the percentile that make a measurement */

int spw_slo_watch_init(struct spw_slo_watch *watch, const struct spw_slo_conf *conf)
{
	memset(watch, 0, sizeof(*watch));
	watch->settle = SETTLE_VIEWS;
	watch->change = SPW_SLO_ASKED;
	return spw_slo_init(&watch->policy, conf);
}

/* From the NIC's stamp where the port has one: queueing delay is part of what a user waits. */
static const struct spw_hist *slo_watch_stage(const struct spw_rec_view *view)
{
	const struct spw_hist *nic = &view->total[SPW_STAGE_nic_sent];

	return spw_hist_total(nic) ? nic : &view->total[SPW_STAGE_polled_sent];
}

/* Costs what the ports' statistics do: system calls, on a card a question to its firmware. */
static uint64_t slo_watch_lost(struct spw_topo *topo)
{
	struct spw_topo_stat stat;
	uint64_t lost;

	spw_topo_stat(topo, &stat);
	lost = stat.ledger.missed_known ? stat.ledger.missed_frames : 0;
	return lost + stat.ledger.pipe.dropped[SPW_DROP_ring_full];
}

/* Time that lanes stood without a core, by preemption or by a quota. */
static uint64_t slo_watch_preempted(const struct spw_rec_view *view)
{
	return view->held.sum_tsc[SPW_HOLD_LOST] + view->held.sum_tsc[SPW_HOLD_QUOTA];
}

/* Notes the readings to which slo_watch_end takes the differences. */
static void slo_watch_begin(struct spw_slo_watch *watch, struct spw_topo *topo,
			    const struct spw_rec_view *view)
{
	watch->before = *slo_watch_stage(view);
	watch->begin_tsc = spw_tsc_now();
	watch->lost = slo_watch_lost(topo);
	watch->preempted_tsc = slo_watch_preempted(view);
}

/* Returns: true once the measurement is long enough to be judged. */
static bool slo_watch_end(struct spw_slo_watch *watch, struct spw_topo *topo,
			  const struct spw_rec_view *view, struct spw_slo_sample *sample)
{
	const uint64_t share = SPW_HIST_PPM - watch->policy.conf.ppm;
	const struct spw_tsc *tsc = &topo->conf.tsc;
	uint64_t settled, lost, value;

	sample->took_ns = spw_tsc_to_ns(tsc, spw_tsc_now() - watch->begin_tsc);
	if (sample->took_ns < LEAST_NS)
		return false;
	spw_hist_difference(slo_watch_stage(view), &watch->before, &watch->diff);
	settled = spw_hist_total(&watch->diff);
	sample->preempted_ns = spw_tsc_to_ns(tsc, slo_watch_preempted(view) - watch->preempted_tsc);
	lost = slo_watch_lost(topo) - watch->lost;
	sample->frames = settled + lost;
	spw_slo_lost(sample, lost);
	if (settled * share < (uint64_t)BEYOND * SPW_HIST_PPM && !sample->lost &&
	    sample->took_ns < MOST_NS)
		return false;
	if (spw_hist_percentile(&watch->diff, watch->policy.conf.ppm, 0, &value) != SPW_HIST_VALUE)
		spw_hist_percentile(&watch->diff, SPW_HIST_PPM, 0, &value);
	sample->value_ns = spw_tsc_to_ns(tsc, value);
	return true;
}

/* Wakes the executor in one turn and asks the lanes in the next: no frame waits for its start.
 * Returns: 1 once the lanes were asked. */
static int slo_watch_change(struct spw_slo_watch *watch, struct spw_topo *topo)
{
	const struct spw_slo_setting to = spw_slo_now(&watch->policy);
	int rc;

	if (watch->change == SPW_SLO_WAKE) {
		rc = spw_topo_wake(topo, to.backend);
		if (rc == 0)
			watch->change = SPW_SLO_ASK;
		return rc == -EBUSY ? 0 : rc;
	}
	if (watch->change == SPW_SLO_ASK) {
		spw_topo_ask(topo, to.backend, to.burst);
		watch->change = SPW_SLO_ASKED;
	}
	return spw_topo_uses(topo, to.backend);
}

/* The executor that was left rests only once all lanes use the new one and it has settled. */
int spw_slo_watch_turn(struct spw_slo_watch *watch, struct spw_topo *topo,
		       const struct spw_rec_view *view, struct spw_slo_sample *sample_out,
		       struct spw_slo_step *step_out)
{
	int rc = slo_watch_change(watch, topo);

	if (rc <= 0)
		return rc;
	if (watch->settle) {
		if (--watch->settle == 0) {
			spw_topo_rest(topo, spw_slo_now(&watch->policy).backend);
			slo_watch_begin(watch, topo, view);
		}
		return 0;
	}
	if (!slo_watch_end(watch, topo, view, sample_out))
		return 0;
	*step_out = spw_slo_next(&watch->policy, sample_out);
	if (step_out->why == SPW_SLO_STAY) {
		slo_watch_begin(watch, topo, view);
		return 1;
	}
	watch->settle = SETTLE_VIEWS;
	watch->change = SPW_SLO_WAKE;
	rc = slo_watch_change(watch, topo);
	return rc < 0 ? rc : 1;
}
