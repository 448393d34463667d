/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The head of a CUDA module of another build; nothing behind it may be read. */
#include "cuda/spw_cuda.h"

extern const char spw_cuda_module[SPW_CUDA_BUILD_BYTES];
const char spw_cuda_module[SPW_CUDA_BUILD_BYTES] = "0.0.9 0123456789abcdef";
