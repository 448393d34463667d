/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A stream's objects in the program that uses them: this library finds the spinwire that publishes
 * the stream, maps its page and its objects, and hands them over one by one, in order, without a
 * copy: to C as addresses, to everything that speaks DLPack as tensors.
 *
 *   spw_tensor_open ─► spw_tensor_next ─► data, receipt ─────────────────► spw_tensor_release
 *                              │          spw_tensor_dlpack ─► consumer ─► its deleter  │
 *                              │          spw_tensor_record: a CUDA stream reads it     │
 *                              └◄──── the owner uses the buffer again: all of these ◄───┘
 *                                     are done, and all kernels in the noted streams
 *
 * One process at a time consumes a stream. The objects that it holds keep their buffers, so one
 * that holds all of them sees no new ones; if it dies, the owner takes the buffers back.
 *
 * CUDA. A deleter knows no stream, and its caller drops a tensor while kernels still read it. So
 * spw_tensor_dlpack notes the stream that the consumer named, and spw_tensor_record others; an
 * event is recorded in each after the last reference is gone, and the buffer goes back once all
 * events have passed. Both happen in spw_tensor_next and spw_tensor_close: a deleter only pushes
 * the object onto a list. It may run on any thread, with or without Python's lock, and calls
 * neither CUDA nor the system unless the stream is closed. A noted stream must exist until then.
 * libcuda is opened at run time, and only for objects that a GPU is to read.
 *
 * Errors are -errno with a text, spw_tensor_error. A child of fork() can use none of its parent's
 * streams: -ECHILD, and deleters do nothing there.
 *
 * Formats: DLPack 1.0, dlpack.h; the page, obj/spw_obj_page.h.
 */
#ifndef SPW_TENSOR_H
#define SPW_TENSOR_H

#include "obj/spw_obj_page.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spw_tensor_stream; /* opaque */

enum spw_tensor_device {
	/* CUDA for objects in a GPU's own memory, and in memory of kind cuda-reg if there is a GPU,
	 * else CPU */
	SPW_TENSOR_AUTO,
	SPW_TENSOR_CPU,
	SPW_TENSOR_CUDA,
};

#define SPW_TENSOR_GPU_AUTO (-1) /* the thread's current one, else 0 */

/* All zero but for gpu: the only stream that this user's spinwires publish. */
struct spw_tensor_conf {
	const char *of;     /* a spinwire's --config, a description, or a stream's name; or NULL */
	const char *stream; /* the stream's name, where several are of that; or NULL */
	const char *prefix; /* EAL's file prefix of that spinwire; NULL: any */
	enum spw_tensor_device device;
	int32_t gpu; /* ordinal of the GPU that reads the objects, or SPW_TENSOR_GPU_AUTO */
};

/* An object that was taken. Copies of it are the same object. */
struct spw_tensor {
	void *data;    /* page->object_bytes, aligned to 256; NULL: in a GPU's own memory */
	uint64_t cuda; /* its address for CUDA; 0 without a GPU */
	const struct spw_obj_receipt *receipt;
	uint64_t generation;
	uint32_t buffer;
};

/* ---- stream ---- */

/* Purpose: attaches to a stream that runs, and becomes its consumer.
 * Owner:   the caller, until spw_tensor_close.
 * Thread:  any; blocks for up to 2 s per running DPDK program of this user.
 * Errors:  -ENOENT nobody publishes it; -EINVAL several are meant, or it has no such stream; -EBUSY
 * another process consumes it (named); -EACCES /proc/PID/fd may not be opened; -EPROTO the page is
 * of another version, or the memory is not what was reported; -ENOTSUP no CUDA where it was asked
 * for or needed; of objects in a GPU's own memory: -ENODEV, -EINVAL it is another GPU, -ETIMEDOUT.
 */
int spw_tensor_open(const struct spw_tensor_conf *conf, struct spw_tensor_stream **stream_out);

/* Purpose:  takes no more. Waits up to 5 s for kernels in noted streams.
 * Lifetime: objects that are held or exported stay valid, and the stream with them, until they are
 *           released; the process is the stream's consumer until then.
 * Shape:    NULL is fine.
 * Thread:   any, once, beside no spw_tensor_next. */
void spw_tensor_close(struct spw_tensor_stream *stream);

/* Purpose:  the page: shape, name, sizes, tsc_hz, and counters to sample.
 * Lifetime: the stream's.
 * Thread:   any. */
const struct spw_obj_page *spw_tensor_page(const struct spw_tensor_stream *stream);

/* Purpose: process that publishes the stream; whether CUDA is in use, and for which GPU (else -1).
 * Thread:  any. */
int32_t spw_tensor_pid(const struct spw_tensor_stream *stream);
int32_t spw_tensor_gpu(const struct spw_tensor_stream *stream);

/* ---- objects ---- */

/* Purpose: takes the next object, in the order of publication. While there is none it spins for
 *          20 us, then sleeps and looks every 0.1 ms.
 * Shape:   timeout_ns: 0 returns at once, below 0 waits for ever.
 * Errors:  -ETIMEDOUT; -EPIPE the stream has ended and all its objects were taken; -EOWNERDEAD its
 *          owner died.
 * Order:   what the executor wrote into the object is visible (OB1, OB3 of obj/spw_obj_page.h).
 * Thread:  any, one at a time. */
int spw_tensor_next(struct spw_tensor_stream *stream, int64_t timeout_ns,
		    struct spw_tensor *tensor_out);

/* Purpose: the caller itself uses the object no more; tensors made of it stay valid.
 * Errors:  -EALREADY it was released before.
 * Thread:  any. */
int spw_tensor_release(struct spw_tensor_stream *stream, const struct spw_tensor *tensor);

/* Purpose: notes a CUDA stream whose kernels read the object, up to 8 of them.
 * Shape:   cuda_stream: a CUstream, or DLPack's numbers: 0 and 1 the legacy stream, 2 the thread's.
 * Errors:  -EALREADY the object was released; -ENOSPC; -ENOTSUP there is no GPU here.
 * Thread:  any. */
int spw_tensor_record(struct spw_tensor_stream *stream, const struct spw_tensor *tensor,
		      uintptr_t cuda_stream);

/* What an export is to be. */
struct spw_tensor_export {
	bool versioned;        /* DLManagedTensorVersioned, else DLManagedTensor */
	bool cuda;             /* kDLCUDA by its address for CUDA, else kDLCPU */
	uintptr_t cuda_stream; /* as of spw_tensor_record; noted if cuda */
};

/* Purpose: a tensor of the object's shape.
 * Owner:   who calls its deleter; the object stays as it is until then.
 * Errors:  -EALREADY, -ENOSPC, -ENOTSUP, -ENOMEM.
 * Thread:  any; the deleter too. */
int spw_tensor_dlpack(struct spw_tensor_stream *stream, const struct spw_tensor *tensor,
		      const struct spw_tensor_export *how, void **managed_out);

/* ---- words, and Python's capsules ---- */

/* Purpose: the text of this thread's last error. Thread: any. */
const char *spw_tensor_error(void);

/* Purpose: names of enum spw_obj_state and enum spw_obj_cause, "?" beyond. Thread: any. */
const char *spw_tensor_state_name(uint32_t state);
const char *spw_tensor_cause_name(uint32_t cause);

/* Purpose: the name of a PyCapsule with such a tensor. Lifetime: the process. Thread: any. */
const char *spw_tensor_capsule_name(bool versioned);

/* Purpose: PyCapsule_IsValid and PyCapsule_GetPointer, for spw_tensor_capsule_free: this library is
 *          not linked with Python. Thread: any. */
void spw_tensor_capsule_calls(int (*is_valid)(void *capsule, const char *name),
			      void *(*pointer)(void *capsule, const char *name));

/* Purpose: a PyCapsule's destructor: calls the deleter if nobody took the tensor out.
 * Thread:  any, with Python's lock, as the interpreter calls it. */
void spw_tensor_capsule_free(void *capsule);

#ifdef __cplusplus
}
#endif
#endif
