/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The GPU that reads a stream's objects: their memory, registered with the CUDA driver or a GPU's
 * own and mapped, and events that show when the kernels of a stream have ended. The driver is
 * opened at run time and never closed. The context is the GPU's primary one, which CUDA's runtime,
 * torch and CuPy use as well. Source of names and numbers: CUDA driver API, cuda.h.
 *
 * Calls come on any thread, so each makes the context current for its time, and allows in this
 * thread what a graph capture of another thread would forbid. A stream that is being captured is
 * left alone until that is over.
 *
 * attach.c opens and closes it, ring.c maps its own memory, tensor.c asks before it returns an
 * object. Before changing it: an object whose events have passed goes back to spinwire, which
 * writes into it. "Not ready" and errors of a capture keep it; any other error is one of a context
 * that runs nothing any more.
 */
#include <errno.h>
#include <stdio.h>

#include "base/spw_err.h"
#include "cuda/spw_cuda_library.h"
#include "cuda/spw_cuda_share.h"
#include "tensor/tensor.h"

#define CUDA_NOT_READY       600
#define CUDA_CAPTURED_EVENT  907
#define CUDA_CAPTURE_FIRST   900
#define CUDA_CAPTURE_LAST    908
#define HOST_REGISTER        3u /* portable, with an address for the GPU */
#define EVENT_DISABLE_TIMING 2u
#define CAPTURE_RELAXED      2

/* field, symbol, arguments */
#define CUDA_CALL_LIST(X)                                                                        \
	X(init, cuInit, (unsigned int flags))                                                    \
	X(device, cuDeviceGet, (int *device, int ordinal))                                       \
	X(retain, cuDevicePrimaryCtxRetain, (void **context, int device))                        \
	X(give_back, cuDevicePrimaryCtxRelease_v2, (int device))                                 \
	X(current, cuCtxGetCurrent, (void **context))                                            \
	X(current_device, cuCtxGetDevice, (int *device))                                         \
	X(push, cuCtxPushCurrent_v2, (void *context))                                            \
	X(pop, cuCtxPopCurrent_v2, (void **context))                                             \
	X(add, cuMemHostRegister_v2, (void *at, size_t bytes, unsigned int flags))               \
	X(remove, cuMemHostUnregister, (void *at))                                               \
	X(address, cuMemHostGetDevicePointer_v2, (uint64_t * out, void *at, unsigned int flags)) \
	X(capture_mode, cuThreadExchangeStreamCaptureMode, (int *mode))                          \
	X(capturing, cuStreamIsCapturing, (uintptr_t stream, int *state))                        \
	X(event, cuEventCreate, (void **event, unsigned int flags))                              \
	X(record, cuEventRecord, (void *event, uintptr_t stream))                                \
	X(query, cuEventQuery, (void *event))                                                    \
	X(destroy, cuEventDestroy_v2, (void *event))

struct tensor_cuda_calls {
	CUDA_CALL_LIST(SPW_CUDA_LIBRARY_MEMBER)
};

static struct tensor_cuda_calls cuda_calls;
static pthread_once_t cuda_once = PTHREAD_ONCE_INIT;
static int cuda_status;
static char cuda_missing[SPW_ERR_TEXT_BYTES];

/* Once a process: a driver that is missing does not come while it runs. */
static void cuda_load(void)
{
	struct tensor_cuda_calls *of = &cuda_calls;
	const struct spw_cuda_symbol wanted[] = {CUDA_CALL_LIST(SPW_CUDA_LIBRARY_SYMBOL)};

	if (spw_cuda_library_open("libcuda.so.1", "CUDA driver", wanted, SPW_ARRAY_CNT(wanted)))
		snprintf(cuda_missing, sizeof(cuda_missing), "%s", spw_err_text());
	else
		cuda_status = of->init(0);
}

static int cuda_find(const struct tensor_cuda_calls **calls_out)
{
	pthread_once(&cuda_once, cuda_load);
	if (cuda_missing[0])
		return spw_err(ENOTSUP, "%s, or read the objects by the CPU", cuda_missing);
	if (cuda_status)
		return spw_err(ENOTSUP, "the CUDA driver does not start (cuInit: error %d)",
			       cuda_status);
	*calls_out = &cuda_calls;
	return 0;
}

static int cuda_failed(const char *what, int error)
{
	return spw_err(ENOTSUP, "the objects are not made readable by a GPU: %s: CUDA error %d",
		       what, error);
}

/* ---- a thread's state during calls ---- */

/* cuThreadExchangeStreamCaptureMode swaps: mode_out holds what to put back with cuda_leave. */
static int cuda_enter(const struct tensor_cuda *cuda, int *mode_out)
{
	int error = cuda->calls->push(cuda->context);

	*mode_out = CAPTURE_RELAXED;
	if (!error)
		cuda->calls->capture_mode(mode_out);
	return error;
}

static void cuda_leave(const struct tensor_cuda *cuda, int mode)
{
	void *context;

	cuda->calls->capture_mode(&mode);
	cuda->calls->pop(&context);
}

/* ---- memory ---- */

/* AUTO is the GPU that the caller works on: the one of its current context, else the first. */
static int32_t cuda_choose(const struct tensor_cuda_calls *calls, int32_t gpu)
{
	void *context = NULL;
	int device = 0;

	if (gpu != SPW_TENSOR_GPU_AUTO)
		return gpu;
	if (!calls->current(&context) && context)
		calls->current_device(&device);
	return device;
}

/* The address for the GPU may differ from the CPU's, so it is asked for. */
int tensor_cuda_map(const struct tensor_cuda *cuda, void *memory, uint64_t bytes, uint64_t *at_out)
{
	int mode, error = cuda_enter(cuda, &mode);

	if (error)
		return cuda_failed("cuCtxPushCurrent", error);
	error = cuda->calls->add(memory, bytes, HOST_REGISTER);
	if (!error) {
		error = cuda->calls->address(at_out, memory, 0);
		if (error)
			cuda->calls->remove(memory);
	}
	cuda_leave(cuda, mode);
	return error ? cuda_failed("cuMemHostRegister", error) : 0;
}

void tensor_cuda_unmap(const struct tensor_cuda *cuda, void *memory)
{
	int mode;

	if (cuda_enter(cuda, &mode))
		return;
	cuda->calls->remove(memory);
	cuda_leave(cuda, mode);
}

/* The context of the GPU; the memory is the caller's next step. */
static int cuda_start(struct tensor_cuda *cuda, int32_t gpu)
{
	int error;

	cuda->gpu = gpu;
	error = cuda->calls->device(&cuda->device, gpu);
	if (!error)
		error = cuda->calls->retain(&cuda->context, cuda->device);
	return error ? cuda_failed("there is no such GPU, or it is not free", error) : 0;
}

/* After an error of the second step the context is given back, and nothing is mapped. */
static int cuda_started(struct tensor_cuda *cuda, int rc, void *memory, uint64_t bytes)
{
	if (rc) {
		tensor_cuda_close(cuda);
		return rc;
	}
	cuda->memory = memory;
	cuda->bytes = bytes;
	return 0;
}

int tensor_cuda_open(struct tensor_cuda *cuda, int32_t gpu, void *memory, uint64_t bytes)
{
	int rc;

	*cuda = (struct tensor_cuda){.gpu = -1};
	rc = cuda_find(&cuda->calls);
	if (rc)
		return rc;
	rc = cuda_start(cuda, cuda_choose(cuda->calls, gpu));
	rc = rc ? rc : tensor_cuda_map(cuda, memory, bytes, &cuda->at);
	return cuda_started(cuda, rc, memory, bytes);
}

/* Which GPU it is: the one whose memory it is. Kernels of another could reach it only as a peer,
 * and slowly. */
static int cuda_owner(int32_t gpu, const struct spw_mem_handed *handed, int *ordinal_out)
{
	const uint8_t *u = handed->gpu;
	int rc = spw_cuda_share_find(u, ordinal_out);

	if (rc == -ENODEV)
		return spw_err(ENODEV,
			       "the objects lie in the memory of GPU-%02x%02x%02x%02x-..., which "
			       "this process does not have: nvidia-smi -L lists GPUs, "
			       "CUDA_VISIBLE_DEVICES may hide it",
			       u[0], u[1], u[2], u[3]);
	if (!rc && gpu != SPW_TENSOR_GPU_AUTO && gpu != *ordinal_out)
		return spw_err(EINVAL,
			       "the objects lie in the memory of GPU %d, not %d: open it for that "
			       "one",
			       *ordinal_out, gpu);
	return rc;
}

int tensor_cuda_open_own(struct tensor_cuda *cuda, int32_t gpu, const struct spw_mem_handed *handed,
			 int fd, uint64_t bytes)
{
	int ordinal, mode, rc;

	*cuda = (struct tensor_cuda){.gpu = -1};
	rc = cuda_find(&cuda->calls);
	rc = rc ? rc : cuda_owner(gpu, handed, &ordinal);
	if (rc)
		return rc;
	rc = cuda_start(cuda, ordinal);
	if (!rc) {
		rc = cuda_enter(cuda, &mode);
		rc = rc ? cuda_failed("cuCtxPushCurrent", rc) : 0;
	}
	if (!rc) {
		rc = spw_cuda_share_map(ordinal, fd, bytes, &cuda->at);
		cuda_leave(cuda, mode);
	}
	return cuda_started(cuda, rc, NULL, bytes);
}

void tensor_cuda_close(struct tensor_cuda *cuda)
{
	if (cuda->memory)
		tensor_cuda_unmap(cuda, cuda->memory);
	else if (cuda->bytes)
		spw_cuda_share_unmap(cuda->at, cuda->bytes);
	if (cuda->context)
		cuda->calls->give_back(cuda->device);
	*cuda = (struct tensor_cuda){.gpu = -1};
}

/* ---- events ---- */

/* Whether an event has to be waited for: a context that failed runs nothing any more, and what a
 * capture is in the way of is done later. */
static bool cuda_is_later(int error)
{
	return error == CUDA_NOT_READY ||
	       spw_in_range(error, CUDA_CAPTURE_FIRST, CUDA_CAPTURE_LAST);
}

static int cuda_record(const struct tensor_cuda *cuda, struct tensor_noted *noted, uint32_t i)
{
	int state = 0, error = cuda->calls->capturing(noted->stream[i], &state);

	if (!error && state)
		return CUDA_NOT_READY;
	if (!error && !noted->event[i])
		error = cuda->calls->event(&noted->event[i], EVENT_DISABLE_TIMING);
	return error ? error : cuda->calls->record(noted->event[i], noted->stream[i]);
}

/* An event that became part of a capture says nothing about what ran before: it is recorded again.
 */
static int cuda_look(const struct tensor_cuda *cuda, struct tensor_noted *noted, uint32_t i)
{
	int error = noted->recorded >> i & 1 ? 0 : cuda_record(cuda, noted, i);

	if (error)
		return error;
	noted->recorded |= 1u << i;
	error = cuda->calls->query(noted->event[i]);
	if (error == CUDA_CAPTURED_EVENT)
		noted->recorded &= ~(1u << i);
	return error;
}

bool tensor_cuda_passed(const struct tensor_cuda *cuda, struct tensor_noted *noted)
{
	bool passed = true;
	int mode;

	if (cuda_enter(cuda, &mode)) /* the process is at its end */
		return true;
	for (uint32_t i = 0; i < SPW_MIN(noted->cnt, TENSOR_NOTED_MAX); i++)
		if (cuda_is_later(cuda_look(cuda, noted, i)))
			passed = false;
	cuda_leave(cuda, mode);
	return passed;
}

void tensor_cuda_forget(const struct tensor_cuda *cuda, struct tensor_noted *noted)
{
	int mode;

	if (cuda_enter(cuda, &mode))
		return;
	for (uint32_t i = 0; i < TENSOR_NOTED_MAX; i++)
		if (noted->event[i])
			cuda->calls->destroy(noted->event[i]);
	cuda_leave(cuda, mode);
}
