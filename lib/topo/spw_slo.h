/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Keeping a latency objective: which executor and which burst a running topology should use, chosen
 * from what it measures. Two parts: the policy (spw_slo_next) sees one measurement after the other
 * and answers with the next setting; the watch (spw_slo_watch_turn) measures, and asks the lanes.
 *
 *   wake ─► ask ─► lanes follow ─► settle ─► rest the others ─► measure ─► choose ─► wake ...
 *
 *   wake      the executor that was chosen is started; one view later the lanes are asked
 *   rest      the others are stopped: nothing polls that is not in use
 *   settle    two views, after which nothing of the setting before is left
 *   measure   0.2 s, and on until three frames lie beyond the percentile, or one was lost, or 1 s
 *
 * Loads are separated by half powers of 2 of frames a second, and what a setting gave is
 * remembered for each. At a load that it does not know yet the policy tries every setting once,
 * except those that lost frames at a lower load or were four times slower than the best at the load
 * below. Then, and at a load that it knows after two measurements in a row, it chooses:
 *
 *   a measurement says nothing if lanes were without a core for more than the share of frames that
 *     may be late
 *   settings that lose no frame come before those that do; losses that a lane without a core
 *     explains say nothing of a setting, and others count when two measurements in a row have
 *     some
 *   a setting is good enough if its percentile is within 1.25 times the best one's
 *   of those that are good enough and keep the objective the cheapest is chosen, or, if none keeps
 *     it, the best
 *   at that load it stays while it is good enough (hysteresis: two measurements in a row must say
 *     otherwise, or two with losses)
 */
#ifndef SPW_SLO_H
#define SPW_SLO_H

#include "base/spw_types.h"
#include "hist/spw_hist.h"
#include "topo/spw_topo.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_SLO_BURST_CNT   3u
#define SPW_SLO_SETTING_MAX (SPW_PIPE_BACKEND_MAX * SPW_SLO_BURST_CNT)
#define SPW_SLO_LOAD_CNT    64u /* half powers of 2 of frames a second */

struct spw_slo_conf {
	uint64_t limit_ns; /* the objective: */
	uint32_t ppm;      /* so many frames of a million take at most limit_ns */
	uint32_t
		backend_cnt; /* executors, cheapest first, 1 .. SPW_PIPE_BACKEND_MAX; 0 is in use */
	uint16_t burst;      /* the largest, in use at first: 1 .. SPW_BURST_MAX */
};

/* What a run may choose from. */
struct spw_slo_machine {
	enum spw_exec_kind kind; /* AUTO, or CUDA_PERSISTENT: no other kind */
	bool cpu_reads;          /* the CPU can reach frames and objects */
	bool cpu_spare;          /* there is a core for the thread of each lane */
	bool gpu;                /* and handlers for it */
	uint16_t ctas;           /* of each lane, as asked for; 0: one, or the measured default */
};

/* Purpose: the executors of a run with an objective, cheapest first: what takes more cores, and
 *          then what takes more of the GPU, comes later.
 * Shape:   backend_out: room for SPW_PIPE_BACKEND_MAX.
 * Returns: how many; 0: nothing can run here.
 * Thread:  any. */
uint32_t spw_slo_backends(const struct spw_slo_machine *machine, struct spw_topo_exec *backend_out);

/* A choice of executor and burst. */
struct spw_slo_setting {
	uint32_t backend;
	uint16_t burst;
};

/* What one setting gave in one stretch of time. */
struct spw_slo_sample {
	uint64_t took_ns; /* > 0 */
	uint64_t frames;  /* that came */
	uint64_t lost;    /* of them: missed by the port, or dropped because a ring was full */
	uint64_t lost_preempted; /* likewise, but explained by preempted_ns: no setting's fault, not
				    in lost */
	uint64_t value_ns;       /* the percentile of the others */
	uint64_t preempted_ns;   /* time that lanes were without a core, summed */
};

enum spw_slo_why {
	SPW_SLO_STAY,    /* no change */
	SPW_SLO_TRY,     /* the setting is not known at this load */
	SPW_SLO_LOSES,   /* the one before lost frames */
	SPW_SLO_BETTER,  /* the one before was not good enough */
	SPW_SLO_CHEAPER, /* the one before was, and so is a cheaper one */
};

struct spw_slo_step {
	enum spw_slo_why why;
	struct spw_slo_setting from, to;
	uint64_t expected_ns; /* what `to` gave at this load; 0: not known */
	bool kept;            /* the measurement keeps the objective */
};

/* What is remembered of a setting at a load. */
struct spw_slo_known {
	uint64_t value_ns; /* 0: nothing yet */
	uint32_t lost_ppm;
};

/* Private to slo.c. */
struct spw_slo {
	struct spw_slo_conf conf;
	struct spw_slo_setting setting[SPW_SLO_SETTING_MAX];
	uint32_t setting_cnt, now; /* now: the setting in use */
	uint32_t load;             /* of the measurement before */
	uint32_t chosen_load;      /* for which the setting in use was chosen */
	uint32_t elsewhere;        /* measurements in a row at other loads than that */
	uint32_t doubts;           /* measurements in a row that spoke against the setting in use */
	bool lost;                 /* the measurement before had losses, and this setting's */
	uint32_t skipped;          /* measurements in a row that said nothing */
	struct spw_slo_known known[SPW_SLO_LOAD_CNT][SPW_SLO_SETTING_MAX];
};

/* Purpose: a policy that knows nothing yet.
 * Owner:   the caller; about 16 KiB.
 * Thread:  setup.
 * Errors:  -EINVAL: a limit of 0, a share that is not 1 .. 999999 ppm, too many backends, or a
 * burst out of range. */
int spw_slo_init(struct spw_slo *slo, const struct spw_slo_conf *conf);

/* Purpose: divides losses into those that preempted cores explain, as many as came meanwhile
 *          and as many again while the lanes caught up, and the setting's own.
 * Shape:   sample has took_ns, frames and preempted_ns.
 * Thread:  any. */
void spw_slo_lost(struct spw_slo_sample *sample, uint64_t lost);

/* Returns: the setting in use. Thread: owner. */
struct spw_slo_setting spw_slo_now(const struct spw_slo *slo);

/* Purpose: takes what the setting in use gave, and chooses the next one, which is in use then.
 * Shape:   sample->frames of 0 says nothing, and changes nothing.
 * Thread:  owner. */
struct spw_slo_step spw_slo_next(struct spw_slo *slo, const struct spw_slo_sample *sample);

/* Purpose: what is known of a setting at the load of the last measurement.
 * Shape:   idx from 0: executors cheapest first, the largest burst first.
 * Returns: false: there is no such setting. A value_ns of 0: it was not tried at this load.
 * Thread:  owner. */
bool spw_slo_known(const struct spw_slo *slo, uint32_t idx, struct spw_slo_setting *setting_out,
		   struct spw_slo_known *known_out);

/* Returns: frames a second at which that load begins. Thread: owner. */
uint64_t spw_slo_load(const struct spw_slo *slo);

/* ---- the watch ---- */

/* Private to slo_watch.c, but for the policy, which may be read. */
struct spw_slo_watch {
	struct spw_slo policy;
	enum {
		SPW_SLO_WAKE, /* the executor of the setting in use may be at rest */
		SPW_SLO_ASK,  /* it is started: the lanes are to be asked for it */
		SPW_SLO_ASKED,
	} change;
	uint32_t settle;              /* views left until the measurement begins */
	struct spw_hist before, diff; /* of the stage that is measured */
	uint64_t begin_tsc;
	uint64_t lost, preempted_tsc; /* the totals at its begin */
};

/* Purpose: a watch that has measured nothing yet.
 * Owner:   the caller; about 84 KiB.
 * Thread:  setup.
 * Errors:  as spw_slo_init. */
int spw_slo_watch_init(struct spw_slo_watch *watch, const struct spw_slo_conf *conf);

/* Purpose: one look at the running topology; at the end of a measurement chooses, wakes what was
 *          chosen, asks the lanes for it, and lets the other executors rest. Latency is that from
 *          the NIC's stamp where frames have one, else from the poll.
 * Shape:   view was just collected; every 5 .. 50 ms.
 * Returns: 1: a measurement ended, sample_out and step_out describe it; 0: none did.
 * Thread:  control.
 * Errors:  those of spw_topo_wake: the lanes use what they used before. */
int spw_slo_watch_turn(struct spw_slo_watch *watch, struct spw_topo *topo,
		       const struct spw_rec_view *view, struct spw_slo_sample *sample_out,
		       struct spw_slo_step *step_out);

#ifdef __cplusplus
}
#endif
#endif
