/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The device side of the built-in handlers: cuda/handlers.cu, in the CUDA module. */
#ifndef EXEC_HANDLERS_BUILTIN_H
#define EXEC_HANDLERS_BUILTIN_H

#include "exec/spw_handler.h"

#define SPW_HANDLER_BUILTIN_CNT 6u

/* In the order of the table in handlers.c; then place, then the litmus's. */
struct spw_builtin_cuda {
	struct spw_handler_cuda code[SPW_HANDLER_BUILTIN_CNT];
};

#ifdef __cplusplus
extern "C" {
#endif
extern const struct spw_builtin_cuda spw_builtin_cuda;
#ifdef __cplusplus
}
#endif
#endif
