/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A group with SPW_COLL_CUDA, on the host's side of the CUDA module (cuda/spw_cuda.h), which has
 * the rest: cuda/. coll.c opens it here and calls the others through spw_coll.gpu; launch and
 * device are the owner's.
 */
#include <errno.h>

#include "base/spw_err.h"
#include "coll/coll.h"
#include "cuda/spw_cuda.h"

int coll_gpu_open(struct spw_coll *c)
{
	const struct spw_cuda_module *module;
	int rc = spw_cuda_open(&module);

	if (rc)
		return spw_err_ctx(rc, "no CUDA; the cpu executor (SPW_COLL_CPU) needs none");
	c->gpu = module->coll;
	return c->gpu->open(c);
}

/* A kernel looks only at flag words that some rail can write. */
static uint32_t coll_rails_of(const struct spw_coll *c)
{
	struct spw_xfer_rail_stat stat;
	uint32_t most = 0;

	for (uint32_t i = 0; i < c->rank_cnt; i++)
		for (uint32_t rail = 0; rail < SPW_XFER_RAIL_MAX && i != c->rank; rail++)
			if (spw_xfer_conn_rail_stat(c->peer[i].conn, rail, &stat))
				most = SPW_MAX(most, rail + 1);
	return most;
}

int coll_gpu_start(struct spw_coll *c)
{
	return c->gpu->start(c, coll_rails_of(c));
}

int spw_coll_launch(struct spw_coll *coll, const struct spw_coll_call *call, void *stream)
{
	int rc = coll->gpu ? coll_check_call(coll, call)
			   : spw_err(EINVAL, "this group is one of the cpu executor: spw_coll_run");
	struct spw_coll_call piece;
	uint64_t idx = 0;

	while (!rc && coll_piece_at(coll, call, idx++, &piece))
		rc = coll->gpu->launch(coll, &piece, call->count, stream);
	return rc;
}

/* For kernels of the caller's own that use a group (spwd_coll.cuh). */
int spw_coll_device(const struct spw_coll *coll, struct spw_coll_dev *dev_out)
{
	if (!coll->gpu)
		return spw_err(ENOTSUP, "this group is one of the cpu executor");
	coll->gpu->device(coll, dev_out);
	return 0;
}
