/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A lane over a hand-made queue: an inline executor and a pipe.
 */
#ifndef MLX5_HAND_PIPE_H
#define MLX5_HAND_PIPE_H

#include <stdlib.h>

#include "exec/spw_exec.h"
#include "hand.h"
#include "pipe/spw_pipe.h"
#include "unit_test.h"

/* Opens and starts an inline executor that reads the slots of h. */
static inline struct spw_exec *hand_exec(const struct hand *h, const struct spw_handler *handler)
{
	const struct spw_exec_conf conf = {.kind = SPW_EXEC_INLINE,
					   .handler = handler,
					   .ring_cnt = 1,
					   .region = &h->region,
					   .region_cnt = 1,
					   .numa_node = -1};
	struct spw_exec *exec;

	assert_int_equal(spw_exec_open(&conf, &exec), 0);
	assert_int_equal(spw_exec_start(exec), 0);
	return exec;
}

/* A pipe from h to exec; conf has what is the test's own. Owner: the caller, free. */
static inline struct spw_pipe *hand_pipe(struct hand *h, struct spw_exec *exec,
					 struct spw_pipe_conf conf)
{
	struct spw_pipe *pipe = aligned_alloc(128, SPW_ALIGN_UP(sizeof(*pipe), 128ul));

	conf.queue = &h->pq;
	conf.pool = &h->pool;
	conf.backend_cnt = 1;
	conf.backend[0] = (struct spw_pipe_backend){
		.ring = spw_exec_ring(exec, 0), .exec = exec, .learns = SPW_CAUSE_EXEC_INLINE};
	conf.drain_tsc = 20000000000ull;
	assert_non_null(pipe);
	assert_int_equal(spw_pipe_init(pipe, &conf), 0);
	return pipe;
}

#endif
