/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the files of this part share: where a stream is (find.c), an attached one (tensor.c), and
 * its GPU (cuda.c). What passes its objects on to a kernel (ring.c) is its user, as others are.
 */
#ifndef TENSOR_H
#define TENSOR_H

#include <pthread.h>

#include "mem/spw_mem.h"
#include "tensor/spw_tensor.h"

#define TENSOR_NOTED_MAX 8u /* CUDA streams of one object */
#define TENSOR_NS_PER_S  1000000000ll

void tensor_sleep_ns(int64_t ns);

/* A row of telemetry's /spinwire/objects: a process, and descriptors of it. */
struct tensor_place {
	int32_t pid, page_fd, memory_fd;
	uint64_t page_bytes, memory_bytes;
	char name[SPW_OBJ_NAME_BYTES];
	char kind[16];
};

/* Purpose: asks the spinwires of this user; exactly one stream fits.
 * Errors:  those of spw_tensor_open. */
int tensor_find(const struct spw_tensor_conf *conf, struct tensor_place *place_out);

/* Purpose: maps the stream, checks it, and claims it. */
int tensor_attach(const struct tensor_place *place, enum spw_tensor_device device, int32_t gpu,
		  struct spw_tensor_stream **stream_out);

/* ---- CUDA ---- */

struct tensor_cuda_calls;

struct tensor_cuda {
	const struct tensor_cuda_calls *calls; /* NULL: no CUDA */
	void *context;
	void *memory;   /* registered; NULL: the GPU's own is mapped */
	uint64_t bytes; /* of either; 0: none */
	uint64_t at;    /* its address for the GPU */
	int32_t gpu;    /* -1: none */
	int device;     /* CUDA's handle of it */
};

/* Purpose: makes the objects' memory readable by a GPU.
 * Errors:  -ENOTSUP with the reason. */
int tensor_cuda_open(struct tensor_cuda *cuda, int32_t gpu, void *memory, uint64_t bytes);

/* Purpose: the same of a GPU's own memory, for which fd stands (cuda/spw_cuda_share.h).
 * Shape:   gpu: as the caller asked for, and refused if it is another one; fd stays the caller's.
 * Errors:  -ENODEV the process has no such GPU; -EINVAL another was asked for; -ENOTSUP, -EPROTO.
 */
int tensor_cuda_open_own(struct tensor_cuda *cuda, int32_t gpu, const struct spw_mem_handed *handed,
			 int fd, uint64_t bytes);
void tensor_cuda_close(struct tensor_cuda *cuda);

/* Purpose: registers more memory of this process: pages of its own.
 * Errors:  -ENOTSUP with the reason. */
int tensor_cuda_map(const struct tensor_cuda *cuda, void *memory, uint64_t bytes, uint64_t *at_out);
void tensor_cuda_unmap(const struct tensor_cuda *cuda, void *memory);

/* An event in each noted stream of an object: made once, recorded after each use. */
struct tensor_noted {
	uintptr_t stream[TENSOR_NOTED_MAX];
	void *event[TENSOR_NOTED_MAX];
	uint32_t cnt;      /* noted; several threads add */
	uint32_t recorded; /* bit of each whose event was recorded after the last reference */
};

/* Returns: whether all kernels that were in the noted streams have ended. Records what is not yet
 * recorded. Never waits; not inside a capture of the calling thread. */
bool tensor_cuda_passed(const struct tensor_cuda *cuda, struct tensor_noted *noted);
void tensor_cuda_forget(const struct tensor_cuda *cuda, struct tensor_noted *noted);

/* ---- an attached stream (tensor.c) ---- */

struct tensor_slot {
	uint64_t word;
	uint64_t generation;
	struct tensor_noted noted;
	uint32_t next; /* on a list: buffer + 1, 0: the last */
};

struct spw_tensor_stream {
	struct spw_obj_page *page;
	uint8_t *memory; /* NULL: it is a GPU's own */
	uint64_t page_bytes, memory_bytes;
	struct tensor_cuda cuda;
	uint32_t forks;
	int32_t owner_pid;
	int owner_fd; /* pidfd */
	uint32_t refs, closed;
	uint32_t dropped; /* list: pushed by any thread */
	pthread_mutex_t reap_lock;
	uint32_t waiting; /* list: its events are recorded, or will be */
	struct tensor_slot slot[];
};

/* Purpose: one more reference to an object that is held or exported.
 * Errors:  -EALREADY, -ENOSPC. */
int tensor_keep(struct spw_tensor_stream *stream, const struct spw_tensor *tensor);
void tensor_drop(struct spw_tensor_stream *stream, uint32_t buffer);

#endif
