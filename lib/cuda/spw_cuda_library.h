/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The functions that are taken from a library of the NVIDIA driver (libcuda, NVML), which is opened
 * at run time: a list of X(member, symbol, parameters) makes the members of a structure, all of
 * which return int, and what spw_cuda_library_open fills them from. No header of the library is
 * needed. What calls the CUDA runtime is in the CUDA module instead (spw_cuda.h).
 */
#ifndef SPW_CUDA_LIBRARY_H
#define SPW_CUDA_LIBRARY_H

#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_CUDA_LIBRARY_MEMBER(member, symbol, parameters) int(*member) parameters;
#define SPW_CUDA_LIBRARY_SYMBOL(member, symbol, parameters) {#symbol, &of->member},

struct spw_cuda_symbol {
	const char *name;
	void *at; /* of the pointer to the function */
};

/* Purpose: opens a library, and fills the pointers. It is never closed: unloading a driver that may
 *   have started threads is not safe. Opening it again is cheap.
 * Shape: symbol[cnt]; what: "CUDA driver", for error texts.
 * Thread: any.
 * Errors: -ENODEV: there is none, or it lacks a function.
 */
int spw_cuda_library_open(const char *path, const char *what, const struct spw_cuda_symbol *symbol,
			  uint32_t cnt);

#ifdef __cplusplus
}
#endif
#endif
