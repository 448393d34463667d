/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * sums CONFIG OBJECTS: a kernel that takes a stream's objects itself and adds up the bytes of each.
 * It is launched once; each of its CTAs reads a part of every object. Prints an object's number,
 * state and sum.
 *
 *   nvcc -arch=native sums.cu $(pkg-config --cflags --libs spinwire-tensor)
 */
#include <stdio.h>
#include <stdlib.h>

#include "tensor/spw_tensor.h"
#include "tensor/spwd_tensor.cuh"

#define CTAS 4u

struct sum {
	unsigned long long id, sum;
	uint32_t state, silent;
};

static __global__ void sums(const __grid_constant__ struct spw_tensor_ring_dev ring, uint64_t bytes,
			    struct sum *out, uint32_t objects)
{
	struct spwd_tensor_reader reader = spwd_tensor_begin(ring, blockIdx.x);
	__shared__ struct spwd_tensor_object object;

	for (uint32_t n = 0; n < objects && spwd_tensor_next(&reader, &object); n++) {
		unsigned long long sum = 0;

		for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < bytes;
		     i += CTAS * blockDim.x)
			sum += object.data[i];
		atomicAdd(&out[n].sum, sum);
		if (blockIdx.x == 0 && threadIdx.x == 0) {
			out[n].id = object.id;
			out[n].state = object.state;
		}
		spwd_tensor_release(&reader);
	}
	if (blockIdx.x == 0 && threadIdx.x == 0)
		out[objects].silent = objects && object.silent;
}

/* Returns: objects that were added up; -1 CUDA failed. */
static int run(struct spw_tensor_stream *stream, struct spw_tensor_ring *ring, struct sum *out,
	       uint32_t objects)
{
	const size_t bytes = (objects + 1) * sizeof(*out);
	int cnt = 0;
	struct sum *at;

	if (cudaMalloc(&at, bytes) || cudaMemset(at, 0, bytes))
		return -1;
	sums<<<CTAS, 256>>>(spw_tensor_ring_device(ring), spw_tensor_page(stream)->object_bytes, at,
			    objects);
	if (cudaMemcpy(out, at, bytes, cudaMemcpyDeviceToHost)) /* waits for the kernel */
		return -1;
	for (; cnt < (int)objects && out[cnt].sum; cnt++)
		printf("%llu %s %llu\n", out[cnt].id, spw_tensor_state_name(out[cnt].state),
		       out[cnt].sum);
	if (out[objects].silent)
		printf("the host was silent\n");
	return cudaFree(at) ? -1 : cnt;
}

int main(int argc, char **argv)
{
	struct spw_tensor_conf conf = {};
	const uint32_t objects = argc == 3 ? (uint32_t)atoi(argv[2]) : 0;
	struct sum *out = (struct sum *)calloc(objects + 1, sizeof(*out));
	struct spw_tensor_stream *stream;
	struct spw_tensor_ring *ring;
	int cnt, rc;

	conf.of = argc == 3 ? argv[1] : "";
	conf.device = SPW_TENSOR_CUDA;
	conf.gpu = SPW_TENSOR_GPU_AUTO;
	if (!objects || !out || spw_tensor_open(&conf, &stream) ||
	    spw_tensor_ring_open(stream, CTAS, &ring)) {
		fprintf(stderr, "sums CONFIG OBJECTS: %s\n", spw_tensor_error());
		return 1;
	}
	cnt = run(stream, ring, out, objects);
	if (cnt < 0)
		fprintf(stderr, "sums: %s\n", cudaGetErrorString(cudaGetLastError()));
	rc = spw_tensor_ring_close(ring);
	if (rc)
		fprintf(stderr, "sums: %s\n", spw_tensor_error());
	spw_tensor_close(stream);
	free(out);
	return cnt < 0 || rc;
}
