/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A little of all device code, which tests/gpu/check_arch compiles for every GPU: a handler's
 * kernels, one of a collective, which may overlap the one before it, and one that takes objects.
 */
#include "coll/spwd_coll.cuh"
#include "exec/handlers/null.h"
#include "tensor/spwd_tensor.cuh"

SPWD_HANDLER_FUNCTOR(null)

extern "C" {
extern const struct spw_handler_cuda arch_handler;
}

const struct spw_handler_cuda arch_handler = SPWD_HANDLER_LAUNCH_TABLE(null, 0);

__global__ void arch_coll(const __grid_constant__ struct spw_coll_dev dev, void *out,
			  const void *in, uint64_t count)
{
	__shared__ struct spwd_coll coll;

	spwd_grid_wait();
	spwd_grid_let_next();
	spwd_coll_begin(&coll, dev, blockIdx.x, gridDim.x);
	spwd_coll_all_gather<SPW_COLL_F32>(&coll, dev, out, in, count);
	spwd_coll_end(&coll, dev);
}

__global__ void arch_tensor(const __grid_constant__ struct spw_tensor_ring_dev ring, uint8_t *out)
{
	struct spwd_tensor_reader reader = spwd_tensor_begin(ring, blockIdx.x);
	__shared__ struct spwd_tensor_object object;

	while (spwd_tensor_next(&reader, &object)) {
		out[threadIdx.x] = object.data[threadIdx.x];
		spwd_tensor_release(&reader);
	}
}
