/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What libspinwire-cuda.so exports (spw_cuda.h), and the calls of lib/base that its code makes,
 * passed on to the program: lib/base itself is not linked in. No symbol of the program is used, for
 * libspinwire-coll.so is opened by programs that have none.
 */
#include <stdarg.h>
#include <stdio.h>

#include "cuda/spw_cuda.h"
#include "cuda_build.h"

extern const struct spw_exec_ops spw_exec_cuda_ops;
extern const struct spw_builtin_cuda spw_builtin_cuda;
extern const struct mem_cuda_ops spw_mem_cuda_ops;
extern const struct coll_cuda_ops spw_coll_cuda_ops __attribute__((weak));
extern const struct perf_gpu_ops perf_gpu_cuda_ops __attribute__((weak));

static const struct spw_cuda_host *module_host;

static void module_adopt(const struct spw_cuda_host *host)
{
	module_host = host;
}

extern const struct spw_cuda_module spw_cuda_module;
const struct spw_cuda_module spw_cuda_module = {
	.build = SPW_CUDA_BUILD,
	.adopt = module_adopt,
	.exec = &spw_exec_cuda_ops,
	.builtin = &spw_builtin_cuda,
	.mem = &spw_mem_cuda_ops,
	.coll = &spw_coll_cuda_ops,
	.perf = &perf_gpu_cuda_ops,
};

/* Formatted here: the program's calls take no va_list. */
#define MODULE_TEXT(fmt)                        \
	char text[SPW_ERR_TEXT_BYTES];          \
	va_list ap;                             \
                                                \
	va_start(ap, fmt);                      \
	vsnprintf(text, sizeof(text), fmt, ap); \
	va_end(ap)

int spw_err(int code, const char *fmt, ...)
{
	MODULE_TEXT(fmt);
	return module_host->error(code, "%s", text);
}

int spw_err_ctx(int rc, const char *fmt, ...)
{
	MODULE_TEXT(fmt);
	return module_host->error_context(rc, "%s", text);
}

const char *spw_err_text(void)
{
	return module_host->error_text();
}

void spw_log(enum spw_log_level level, const char *fmt, ...)
{
	MODULE_TEXT(fmt);
	module_host->log(level, "%s", text);
}
