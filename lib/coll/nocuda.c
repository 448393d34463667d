/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The calls of cuda/ in a build without CUDA (meson.build chooses), so that coll.c has no #ifdef. A
 * group with SPW_COLL_CUDA fails in coll_cuda_open with the remedy, so nothing else here is reached
 * by a group that is open, except spw_coll_launch and spw_coll_device on one of the cpu executor.
 */
#include <errno.h>

#include "base/spw_err.h"
#include "coll/coll.h"

static int nocuda_error(void)
{
	return spw_err(ENOTSUP, "this build has no CUDA: use the cpu executor (SPW_COLL_CPU)");
}

int coll_cuda_open(struct spw_coll *c SPW_UNUSED, size_t bytes SPW_UNUSED, uint8_t **mem_out)
{
	*mem_out = NULL;
	return nocuda_error();
}

int coll_cuda_start(struct spw_coll *c SPW_UNUSED)
{
	return nocuda_error();
}

void coll_cuda_stop(struct spw_coll *c SPW_UNUSED) {}

void coll_cuda_close(struct spw_coll *c SPW_UNUSED) {}

int spw_coll_launch(struct spw_coll *coll SPW_UNUSED, const struct spw_coll_call *call SPW_UNUSED,
		    void *stream SPW_UNUSED)
{
	return nocuda_error();
}

int spw_coll_device(const struct spw_coll *coll SPW_UNUSED, struct spw_coll_dev *dev_out SPW_UNUSED)
{
	return nocuda_error();
}
