/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The kernels of lib/coll for cuda.c. Returns are cudaError_t as int.
 */
#ifndef SPW_COLL_CUDA_KERNELS_H
#define SPW_COLL_CUDA_KERNELS_H

#include "coll/spw_coll.h"

#ifdef __cplusplus
extern "C" {
#endif

#define COLL_CTA_THREADS 1024u

/* Loads all kernels onto the current device, so that none is loaded while another one waits.
 * early_out: whether their code may be brought to that device early. */
int coll_kernels_load(bool *early_out);
/* One kernel of cta_cnt CTAs into a stream, early if the kernel there lets it. whole: elements
 * of the call that this is a piece of. */
int coll_kernel_launch(const struct spw_coll_dev *dev, const struct spw_coll_call *call,
		       uint64_t whole, uint32_t cta_cnt, bool early, void *stream);

#ifdef __cplusplus
}
#endif
#endif
