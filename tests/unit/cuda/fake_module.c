/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A CUDA module without CUDA: the real lib/cuda/module/module.c, over parts that only report. */
#include "cuda/spw_cuda.h"
#include "fake.h"

static int fake_refuse(int code)
{
	return spw_err_ctx(spw_err(code, "error %d of %s", code, "a device"), "of %s",
			   "the module");
}

static void fake_warn(void)
{
	spw_warn("%s, after: %s", "a line of the module", spw_err_text());
}

extern const struct spw_exec_ops spw_exec_cuda_ops;
extern const int spw_builtin_cuda, spw_mem_cuda_ops;
const struct spw_exec_ops spw_exec_cuda_ops = {fake_refuse, fake_warn};
const int spw_builtin_cuda, spw_mem_cuda_ops;
