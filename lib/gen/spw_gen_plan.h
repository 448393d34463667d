/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The plan of an open-loop source: when each frame is due, its length, and its flow. It is complete
 * before the first frame is sent, so that neither a slow receiver nor a late sender changes it. (A
 * source that waits for its receiver leaves out the worst samples: "coordinated omission".) On the
 * data path a plan costs an add and a table look-up for each frame; there is no division, logarithm
 * or random number.
 *
 * Time is in units of 1/65536 ns since the start of the run, in 64 bits: 78 hours.
 */
#ifndef SPW_GEN_PLAN_H
#define SPW_GEN_PLAN_H

#include "base/spw_types.h"

#define GEN_FRAC_BITS   16
#define GEN_GAP_CNT_MAX 65536u
#define GEN_SIZE_MIN    64u /* headers, identity and CRC; without FCS */
#define GEN_SIZE_MAX    9600u

enum gen_gaps { GEN_CONSTANT, GEN_POISSON, GEN_BURST, GEN_RAMP, GEN_CAPTURE };
enum gen_sizes { GEN_SIZE_FIXED, GEN_SIZE_RANGE, GEN_SIZE_IMIX, GEN_SIZE_CAPTURE };

struct gen_plan_conf {
	enum gen_gaps gaps;
	double rate_fps;     /* mean, frames per second; RAMP: at the start. 0.01 .. 1e9 */
	double rate_end_fps; /* RAMP: at the end */
	uint64_t ramp_ns;    /* RAMP: how long it takes; then rate_end_fps holds */
	uint32_t burst_cnt;  /* BURST: frames that are due at one instant, 1 .. 65536 */
	enum gen_sizes sizes;
	uint16_t size_min, size_max; /* bytes, without FCS; FIXED: size_min */
	uint16_t flow_cnt;           /* 1 .. 65535, served in turn */
	uint64_t seed;               /* Poisson and range: the same seed is the same plan */
	const char *capture;         /* a pcap file, for GEN_CAPTURE in either */
};

/* One frame of the plan. */
struct gen_due {
	uint64_t due_fp; /* 1/65536 ns since the start */
	uint16_t bytes;
	uint16_t flow;
};

struct gen_step {
	uint64_t until_fp; /* the step holds for frames due before this */
	uint64_t gap_fp;   /* added to every gap of the table: all of it for constant steps */
};

/* What of a capture is not played as it stands there; zero: nothing. */
struct gen_capture_note {
	uint32_t longer_cnt, longest; /* packets above GEN_SIZE_MAX, sent with that, if sizes are
					 the capture's */
	uint32_t shorter_cnt;         /* below GEN_SIZE_MIN, likewise */
	bool cut;                     /* the last record is incomplete and left out */
};

struct gen_plan {
	struct gen_due next; /* what gen_plan_peek returns */
	uint32_t gap_idx, size_idx, step_idx;
	uint32_t gap_cnt, size_cnt, step_cnt;
	uint16_t flow_cnt;
	uint64_t *gap_fp;      /* [gap_cnt], used round and round */
	uint16_t *size;        /* [size_cnt], used round and round */
	struct gen_step *step; /* [step_cnt], the last holds for ever; NULL: the gap table alone */
	double mean_fps;       /* of the gap table; RAMP: of the last step */
	struct gen_capture_note note;
};

/* Purpose: refuses what no plan can be made of, before anything is opened or allocated.
 * Thread: any.
 * Errors: -EINVAL, -ERANGE (with what is allowed); of access(): the capture cannot be read.
 */
int gen_plan_check(const struct gen_plan_conf *conf);

/* Purpose: makes the plan.
 * Owner: the caller, until gen_plan_fini.
 * Thread: setup.
 * Errors: -EINVAL, -ERANGE (with what is allowed); -ENOENT, -EPROTO (capture: which packet, and
 * what is wrong with it); -ENOMEM.
 */
int gen_plan_init(struct gen_plan *plan, const struct gen_plan_conf *conf);
void gen_plan_fini(struct gen_plan *plan);

/* Purpose: the next frame of the plan; the same one until gen_plan_advance.
 * Thread: owner.
 */
SPW_INLINE const struct gen_due *gen_plan_peek(const struct gen_plan *plan)
{
	return &plan->next;
}

/* Purpose: moves on to the frame after it.
 * Thread: owner.
 */
SPW_INLINE void gen_plan_advance(struct gen_plan *plan)
{
	uint64_t gap = plan->gap_fp[plan->gap_idx];

	if (plan->step) {
		while (plan->step_idx + 1 < plan->step_cnt &&
		       plan->next.due_fp >= plan->step[plan->step_idx].until_fp)
			plan->step_idx++;
		gap += plan->step[plan->step_idx].gap_fp;
	}
	plan->next.due_fp += gap;
	plan->gap_idx = plan->gap_idx + 1 == plan->gap_cnt ? 0 : plan->gap_idx + 1;
	plan->size_idx = plan->size_idx + 1 == plan->size_cnt ? 0 : plan->size_idx + 1;
	plan->next.bytes = plan->size[plan->size_idx];
	plan->next.flow = plan->next.flow + 1 == plan->flow_cnt ? 0
								: (uint16_t)(plan->next.flow + 1);
}

/* Purpose: how many frames, from the next one on, are due before until_ns. Whole rounds of the
 *   table are counted by arithmetic. The plan does not move.
 * Thread: owner.
 */
uint64_t gen_plan_count(const struct gen_plan *plan, uint64_t until_ns);

#define GEN_CAPTURE_CNT_MAX (1u << 24) /* packets: 160 MiB of tables */

/* A capture as tables. */
struct gen_capture {
	uint64_t *gap_fp; /* gap_fp[i]: from packet i to i + 1; the last one is the mean */
	uint16_t *size;
	uint32_t cnt;
	struct gen_capture_note note;
};

/* Purpose: reads the lengths and times of a pcap or pcapng file (capture.c). A file whose last
 *   record is cut is read up to there.
 * Owner: the caller frees both tables.
 * Thread: setup.
 * Errors: -ENOENT; -EPROTO: fewer than two packets, not Ethernet, not in order of time; -ERANGE:
 *   more than GEN_CAPTURE_CNT_MAX packets, or more than 39 hours; -ENOMEM.
 */
int gen_capture_read(const char *path, struct gen_capture *out);

#endif
