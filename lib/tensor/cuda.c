/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The GPU that reads a stream's objects: their memory, registered with the CUDA driver, and events
 * that show when the kernels of a stream have ended. The driver is opened at run time and never
 * closed. The context is the GPU's primary one, which CUDA's runtime, torch and CuPy use as well.
 * Source of names and numbers: CUDA driver API, cuda.h.
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
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "tensor/tensor.h"

#define CUDA_NOT_READY       600
#define CUDA_CAPTURED_EVENT  907
#define CUDA_CAPTURE_FIRST   900
#define CUDA_CAPTURE_LAST    908
#define HOST_REGISTER        3u /* portable, with an address for the GPU */
#define EVENT_DISABLE_TIMING 2u
#define CAPTURE_RELAXED      2

/* symbol, field, arguments */
#define CUDA_CALL_LIST(X)                                                                          \
	X("cuInit", init, (unsigned int flags))                                                    \
	X("cuDeviceGet", device, (int *device, int ordinal))                                       \
	X("cuDevicePrimaryCtxRetain", retain, (void **context, int device))                        \
	X("cuDevicePrimaryCtxRelease_v2", give_back, (int device))                                 \
	X("cuCtxGetCurrent", current, (void **context))                                            \
	X("cuCtxGetDevice", current_device, (int *device))                                         \
	X("cuCtxPushCurrent_v2", push, (void *context))                                            \
	X("cuCtxPopCurrent_v2", pop, (void **context))                                             \
	X("cuMemHostRegister_v2", add, (void *at, size_t bytes, unsigned int flags))               \
	X("cuMemHostUnregister", remove, (void *at))                                               \
	X("cuMemHostGetDevicePointer_v2", address, (uint64_t * out, void *at, unsigned int flags)) \
	X("cuThreadExchangeStreamCaptureMode", capture_mode, (int *mode))                          \
	X("cuStreamIsCapturing", capturing, (uintptr_t stream, int *state))                        \
	X("cuEventCreate", event, (void **event, unsigned int flags))                              \
	X("cuEventRecord", record, (void *event, uintptr_t stream))                                \
	X("cuEventQuery", query, (void *event))                                                    \
	X("cuEventDestroy_v2", destroy, (void *event))

#define CUDA_FIELD(symbol, field, args) int(*field) args;
#define CUDA_FIND(symbol, field, args)  {symbol, &cuda_calls.field},

struct tensor_cuda_calls {
	CUDA_CALL_LIST(CUDA_FIELD)
};

static struct tensor_cuda_calls cuda_calls;
static pthread_once_t cuda_once = PTHREAD_ONCE_INIT;
static int cuda_status;
static char cuda_missing[64];

/* Once a process: a driver that is missing does not come while it runs. */
static void cuda_load(void)
{
	const struct {
		const char *symbol;
		void *at;
	} wanted[] = {CUDA_CALL_LIST(CUDA_FIND)};
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(wanted); i++) {
		void *symbol = lib ? dlsym(lib, wanted[i].symbol) : NULL;

		if (!symbol) {
			strncpy(cuda_missing, wanted[i].symbol, sizeof(cuda_missing) - 1);
			return;
		}
		memcpy(wanted[i].at, &symbol, sizeof(symbol));
	}
	cuda_status = cuda_calls.init(0);
}

static int cuda_find(const struct tensor_cuda_calls **calls_out)
{
	pthread_once(&cuda_once, cuda_load);
	if (cuda_missing[0])
		return spw_err(ENOTSUP,
			       "no CUDA driver with %s: install the NVIDIA driver, or read "
			       "the objects by the CPU",
			       cuda_missing);
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

int tensor_cuda_open(struct tensor_cuda *cuda, int32_t gpu, void *memory, uint64_t bytes)
{
	int error, rc;

	*cuda = (struct tensor_cuda){.gpu = -1};
	rc = cuda_find(&cuda->calls);
	if (rc)
		return rc;
	cuda->gpu = cuda_choose(cuda->calls, gpu);
	error = cuda->calls->device(&cuda->device, cuda->gpu);
	if (!error)
		error = cuda->calls->retain(&cuda->context, cuda->device);
	rc = error ? cuda_failed("there is no such GPU, or it is not free", error)
		   : tensor_cuda_map(cuda, memory, bytes, &cuda->at);
	if (rc)
		tensor_cuda_close(cuda);
	else
		cuda->memory = memory;
	return rc;
}

void tensor_cuda_close(struct tensor_cuda *cuda)
{
	if (cuda->memory)
		tensor_cuda_unmap(cuda, cuda->memory);
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
