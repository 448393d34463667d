/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What must come out of a receive queue, frame by frame, and slot by slot.
 */
#ifndef SPW_TEST_MLX5_MODEL_H
#define SPW_TEST_MLX5_MODEL_H

#include "hand.h"
#include "unit_test.h"

#define QUEUE_MAX 4096

/* Frames delivered and not yet received; slots received and not yet given back. */
struct model {
	struct hand h;
	struct hand_frame frame[QUEUE_MAX];
	uint32_t head, tail;
	uint32_t lent[QUEUE_MAX], lent_cnt;
	uint64_t seed, frames;
};

/* Every burst keeps its raw completions, and their reader must come to the same descriptors. */
extern bool model_keeps_raw;

/* Room for `flags`, near a wrap of the CQ's counters (start) or the WQE counters (rq_start). */
extern const struct hand_conf model_small;
struct hand_conf model_conf(unsigned flags, uint32_t start, uint16_t rq_start);
void model_open(struct model *m, const struct hand_conf *conf);
/* One burst of at most cnt, each descriptor checked; returns what it gave. */
uint32_t model_burst(struct model *m, uint16_t cnt);
/* Gives cnt random slots back. */
void model_release(struct model *m, uint32_t cnt);
void model_drain(struct model *m);
void model_close(struct model *m);
/* The NIC delivers up to cnt frames, as far as there is room. */
void model_plain(struct model *m, uint32_t cnt);
void model_session(struct model *m, uint32_t cnt);
/* Random arrivals, bursts and releases until `frames` frames have passed. */
void model_run(struct model *m, uint64_t frames);

#endif
