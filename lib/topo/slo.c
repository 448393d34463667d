/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The policy of spw_slo.h. Pure: a table of what each setting gave at each load, and the rules
 * that choose from it. slo_watch.c measures and calls spw_slo_next with each sample; nothing here
 * reads a clock or a counter, so tests play whole runs.
 *
 *              load 0   load 1  ...  (a factor of 1.41 each)
 *    inline, 64  12 us    15 us        known[load][setting]: value, losses; 0: not tried
 *    inline, 16  11 us     -
 *    gpu,    64   -        9 us        settings stand in the order of their cost, cheapest first
 *
 *   sample ─ judgeable? ─ load ─ remember ─ untried: try it ─ must change or load moved: choose
 *
 * A setting is left after DOUBTS measurements that speak against it, or at once when it is known to
 * lose frames.
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "topo/spw_slo.h"

#define NEAR_NUM 5u /* good enough: within 5/4 of the best */
#define NEAR_DEN 4u
#define FAR      4u /* not worth a try: so many times slower at the load below */
#define DOUBTS   2u /* measurements in a row that make a change */
#define NO_LOAD  SPW_SLO_LOAD_CNT
#define SKIPS    8u /* measurements in a row that may say nothing */
#define LOST_PPM 1u /* a setting that loses less than this of its frames loses none */

/* Of each executor the burst that was asked for, then quarters of it. */
int spw_slo_init(struct spw_slo *slo, const struct spw_slo_conf *conf)
{
	if (!conf->limit_ns || !conf->ppm || conf->ppm >= 1000000)
		return spw_err(EINVAL, "objective: a time and a share of frames below all, such as "
				       "20us@p99.9");
	if (!conf->backend_cnt || conf->backend_cnt > SPW_PIPE_BACKEND_MAX || !conf->burst ||
	    conf->burst > SPW_BURST_MAX)
		return spw_err(EINVAL, "objective: %u executors, burst %u", conf->backend_cnt,
			       conf->burst);
	memset(slo, 0, sizeof(*slo));
	slo->conf = *conf;
	for (uint32_t w = 0; w < conf->backend_cnt; w++) {
		uint16_t burst = conf->burst;

		for (uint32_t b = 0; b < SPW_SLO_BURST_CNT && burst; b++, burst /= 4)
			slo->setting[slo->setting_cnt++] = (struct spw_slo_setting){w, burst};
	}
	return 0;
}

/* In the order of their cost: a core that polls anyway, a spare core, launches, a resident kernel.
 */
uint32_t spw_slo_backends(const struct spw_slo_machine *machine, struct spw_topo_exec *backend)
{
	const bool resident_only = machine->kind == SPW_EXEC_CUDA_PERSISTENT;
	const bool cpu = machine->cpu_reads && !resident_only;
	uint32_t cnt = 0;

	if (cpu)
		backend[cnt++] = (struct spw_topo_exec){.kind = SPW_EXEC_INLINE};
	if (cpu && machine->cpu_spare)
		backend[cnt++] = (struct spw_topo_exec){.kind = SPW_EXEC_CPU};
	if (machine->gpu && !resident_only)
		backend[cnt++] = (struct spw_topo_exec){SPW_EXEC_CUDA_GRAPH, machine->ctas};
	if (machine->gpu && !machine->ctas)
		backend[cnt++] = (struct spw_topo_exec){SPW_EXEC_CUDA_PERSISTENT, 1};
	if (machine->gpu)
		backend[cnt++] = (struct spw_topo_exec){SPW_EXEC_CUDA_PERSISTENT, machine->ctas};
	return cnt;
}

struct spw_slo_setting spw_slo_now(const struct spw_slo *slo)
{
	return slo->setting[slo->now];
}

/* As many frames as came while lanes were without a core, and as many again while they caught up,
 * are the machine's losses and not the setting's. */
void spw_slo_lost(struct spw_slo_sample *sample, uint64_t lost)
{
	const double came =
		(double)sample->frames * (double)sample->preempted_ns / (double)sample->took_ns;

	sample->lost_preempted = SPW_MIN(lost, (uint64_t)(2 * came));
	sample->lost = lost - sample->lost_preempted;
}

/* ---- what is known ---- */

/* Frames a second at which a load begins. */
static double slo_load_begin(uint32_t load)
{
	return (double)(1ull << load / 2) * (load & 1 ? 1.41421356 : 1);
}

/* Near its edge a load stays the one of the measurement before, so that one rate there is not two
 * loads in turn. */
static uint32_t slo_load_of(const struct spw_slo *slo, const struct spw_slo_sample *sample)
{
	const double pps = (double)sample->frames * 1e9 / (double)sample->took_ns;
	uint32_t load = 0;

	if (slo->load && pps >= slo_load_begin(slo->load) * 0.9 &&
	    pps < slo_load_begin(slo->load + 1) * 1.1)
		return slo->load;
	while (load + 1 < SPW_SLO_LOAD_CNT && slo_load_begin(load + 1) <= pps)
		load++;
	return load;
}

/* A quarter of what is remembered is the newest measurement; losses count as they come. */
static void slo_remember(struct spw_slo_known *known, const struct spw_slo_sample *sample)
{
	const uint64_t value = SPW_MAX(sample->value_ns, (uint64_t)1);

	known->value_ns = known->value_ns ? (3 * known->value_ns + value) / 4 : value;
	known->lost_ppm = (uint32_t)(sample->lost * 1000000 / sample->frames);
}

static bool slo_loses(const struct spw_slo_known *known)
{
	return known->lost_ppm >= LOST_PPM;
}

/* Losses outweigh time: a setting that loses less is better, however slow. */
static bool slo_is_better(const struct spw_slo_known *a, const struct spw_slo_known *b)
{
	if (slo_loses(a) || slo_loses(b))
		return a->lost_ppm < b->lost_ppm;
	return a->value_ns < b->value_ns;
}

/* The best setting of those that were tried at that load; setting_cnt: none was. */
static uint32_t slo_best_at(const struct spw_slo *slo, uint32_t load)
{
	const struct spw_slo_known *known = slo->known[load];
	uint32_t best = slo->setting_cnt;

	for (uint32_t i = 0; i < slo->setting_cnt; i++)
		if (known[i].value_ns &&
		    (best == slo->setting_cnt || slo_is_better(&known[i], &known[best])))
			best = i;
	return best;
}

/* ---- the rules ---- */

/* Less load can only have made it look better than it will be at this one. */
static bool slo_is_ruled_out(const struct spw_slo *slo, uint32_t idx)
{
	const uint32_t below = slo->load ? slo->load - 1 : 0, best = slo_best_at(slo, below);

	for (uint32_t l = 0; l < slo->load; l++)
		if (slo->known[l][idx].value_ns && slo_loses(&slo->known[l][idx]))
			return true;
	return best < slo->setting_cnt &&
	       slo->known[below][idx].value_ns > FAR * slo->known[below][best].value_ns;
}

/* The first setting that is worth a try at this load; setting_cnt: none. */
static uint32_t slo_find_untried(const struct spw_slo *slo)
{
	for (uint32_t i = 0; i < slo->setting_cnt; i++)
		if (!slo->known[slo->load][i].value_ns && !slo_is_ruled_out(slo, i))
			return i;
	return slo->setting_cnt;
}

/* Within NEAR_NUM / NEAR_DEN of the best: differences below that are noise. */
static bool slo_good_enough(const struct spw_slo_known *known, const struct spw_slo_known *best)
{
	if (!known->value_ns || slo_loses(known) != slo_loses(best))
		return false;
	if (slo_loses(known))
		return known->lost_ppm <= best->lost_ppm + best->lost_ppm / NEAR_DEN;
	return known->value_ns * NEAR_DEN <= best->value_ns * NEAR_NUM;
}

/* The cheapest that is good enough and keeps the objective, else the best. */
static uint32_t slo_choose(const struct spw_slo *slo)
{
	const struct spw_slo_known *known = slo->known[slo->load];
	const uint32_t best = slo_best_at(slo, slo->load);

	for (uint32_t i = 0; i < slo->setting_cnt; i++)
		if (slo_good_enough(&known[i], &known[best]) && !slo_loses(&known[i]) &&
		    known[i].value_ns <= slo->conf.limit_ns)
			return i;
	return best;
}

/* Whether the setting in use has to go now. */
static bool slo_must_change(struct spw_slo *slo)
{
	const struct spw_slo_known *known = slo->known[slo->load], *now = &known[slo->now];

	if (slo_good_enough(now, &known[slo_best_at(slo, slo->load)])) {
		slo->doubts = 0;
		return false;
	}
	return ++slo->doubts >= DOUBTS || slo_loses(now);
}

/* Whether the setting in use was chosen for another load than this, or is but a try. */
static bool slo_load_has_moved(struct spw_slo *slo)
{
	slo->elsewhere = slo->load == slo->chosen_load ? 0 : slo->elsewhere + 1;
	return slo->elsewhere >= DOUBTS;
}

/* Nothing of the setting that is left is forgotten: it may be chosen again without a try. */
static struct spw_slo_step slo_change_to(struct spw_slo *slo, struct spw_slo_step step, uint32_t to,
					 enum spw_slo_why why)
{
	slo->now = to;
	slo->doubts = 0;
	slo->lost = false;
	step.why = why;
	step.to = slo->setting[to];
	step.expected_ns = slo->known[slo->load][to].value_ns;
	return step;
}

/* For the log, in the order of what weighs most. */
static enum spw_slo_why slo_why_leave(const struct spw_slo *slo)
{
	const struct spw_slo_known *known = slo->known[slo->load];

	if (slo_loses(&known[slo->now]))
		return SPW_SLO_LOSES;
	return slo_good_enough(&known[slo->now], &known[slo_best_at(slo, slo->load)])
		       ? SPW_SLO_CHEAPER
		       : SPW_SLO_BETTER;
}

/* Lanes were without a core for more than the share of the time that may be slow: the percentile is
 * the machine's. Where that is always so, every ninth measurement has to do. */
static bool slo_is_unjudgeable(struct spw_slo *slo, const struct spw_slo_sample *sample)
{
	const uint64_t share = 1000000 - slo->conf.ppm;

	if (!sample->frames)
		return true;
	if (sample->lost || sample->preempted_ns < sample->took_ns / 1000000 * share ||
	    slo->skipped == SKIPS)
		slo->skipped = 0;
	else
		slo->skipped++;
	return slo->skipped != 0;
}

/* One sample, at most one change. Losses are remembered only if two samples in a row have
 * them. */
struct spw_slo_step spw_slo_next(struct spw_slo *slo, const struct spw_slo_sample *sample)
{
	struct spw_slo_step step = {.from = spw_slo_now(slo), .to = spw_slo_now(slo)};
	bool must, arrived;
	uint32_t to;

	step.kept = sample->frames && sample->value_ns <= slo->conf.limit_ns && !sample->lost;
	if (slo_is_unjudgeable(slo, sample))
		return step;
	slo->load = slo_load_of(slo, sample);
	if (sample->lost && !slo->lost) { /* a stall of the machine loses frames once */
		slo->lost = true;
		return step;
	}
	slo->lost = false;
	slo_remember(&slo->known[slo->load][slo->now], sample);
	if ((to = slo_find_untried(slo)) < slo->setting_cnt) {
		slo->chosen_load = NO_LOAD;
		slo->elsewhere = DOUBTS;
		return slo_change_to(slo, step, to, SPW_SLO_TRY);
	}
	must = slo_must_change(slo);
	arrived = slo_load_has_moved(slo);
	if (!must && !arrived)
		return step;
	slo->chosen_load = slo->load;
	to = slo_choose(slo);
	return to == slo->now ? step : slo_change_to(slo, step, to, slo_why_leave(slo));
}

/* ---- reading ---- */

/* What is known at the load of the last measurement, which the summary names. */
bool spw_slo_known(const struct spw_slo *slo, uint32_t idx, struct spw_slo_setting *setting_out,
		   struct spw_slo_known *known_out)
{
	if (idx >= slo->setting_cnt)
		return false;
	*setting_out = slo->setting[idx];
	*known_out = slo->known[slo->load][idx];
	return true;
}

uint64_t spw_slo_load(const struct spw_slo *slo)
{
	return (uint64_t)slo_load_begin(slo->load);
}
