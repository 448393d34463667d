/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The CUDA module, libspinwire-cuda.so: all code that calls CUDA, and all device code, so that
 * programs are the same with and without it. It is opened at run time, by the first part that has
 * found a GPU (spw_plat_gpu_open):
 *
 *   program, libspinwire-coll.so                libspinwire-cuda.so
 *     lib/exec   gpu.c ────── exec, builtin ──>   exec/cuda/
 *     lib/mem    mem.c ────── mem ────────────>   mem/mem_cuda.c
 *     lib/coll   coll.c ───── coll ───────────>   coll/cuda/
 *     spinwire-perf, gpu.c ── perf ───────────>   measure/gpu.cu
 *     lib/base  <──────────── adopt ───────────   module/module.c: error texts, log
 *
 * Both sides share the structs of these parts as they are, so a module fits the programs of its own
 * build alone (SPW_CUDA_BUILD); any other is refused. The parts have their own tables, declared in
 * their private headers.
 */
#ifndef SPW_CUDA_H
#define SPW_CUDA_H

#include "base/spw_err.h"
#include "base/spw_log.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_CUDA_BUILD_BYTES 64u
#define SPW_CUDA_SYMBOL      "spw_cuda_module"

struct spw_exec_ops;
struct spw_builtin_cuda;
struct mem_cuda_ops;
struct coll_cuda_ops;
struct perf_gpu_ops;

/* The program's own, for the module: each thread has one error text, and there is one log. */
struct spw_cuda_host {
	int (*error)(int code, const char *fmt, ...);
	int (*error_context)(int rc, const char *fmt, ...);
	const char *(*error_text)(void);
	void (*log)(enum spw_log_level level, const char *fmt, ...);
};

struct spw_cuda_module {
	char build[SPW_CUDA_BUILD_BYTES]; /* first in every version: SPW_CUDA_BUILD */
	void (*adopt)(const struct spw_cuda_host *host);
	const struct spw_exec_ops *exec;
	const struct spw_builtin_cuda *builtin; /* exec/handlers/builtin.h */
	const struct mem_cuda_ops *mem;
	const struct coll_cuda_ops *coll; /* NULL, as perf: a build without RDMA */
	const struct perf_gpu_ops *perf;
};

/* Purpose: opens the module; the first that is there of the file that SPW_CUDA_MODULE names, one
 *   beside the program or in its build folder, and the installed one. A program with rights that
 *   its caller does not have takes the installed one alone.
 * Lifetime: the process.
 * Errors: -ENOTSUP there is none, or it does not fit; the text says what to do.
 * Thread: setup; several at a time may call it.
 */
int spw_cuda_open(const struct spw_cuda_module **module_out);

#ifdef __cplusplus
}
#endif
#endif
