/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The calls of the CUDA driver that lib/tensor makes (fake_driver.h). A call that needs a current
 * context and has none fails, as the driver's does.
 */
#include <stdbool.h>
#include <stddef.h>

#include "fake_driver.h"

#define DEVICE     FAKE_DEVICE
#define NO_CONTEXT 201
#define NOT_READY  600
#define CAPTURED   907

struct fake_driver fake_driver = {.shareable = 1};

static _Thread_local int depth;
static _Thread_local int mode;
static char context, event;

int cuInit(unsigned int flags);
int cuDeviceGet(int *device, int ordinal);
int cuDevicePrimaryCtxRetain(void **out, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuCtxGetCurrent(void **out);
int cuCtxGetDevice(int *device);
int cuCtxPushCurrent_v2(void *in);
int cuCtxPopCurrent_v2(void **out);
int cuMemHostRegister_v2(void *at, size_t bytes, unsigned int flags);
int cuMemHostUnregister(void *at);
int cuMemHostGetDevicePointer_v2(uint64_t *out, void *at, unsigned int flags);
int cuThreadExchangeStreamCaptureMode(int *inout);
int cuStreamIsCapturing(uintptr_t stream, int *state);
int cuEventCreate(void **out, unsigned int flags);
int cuEventRecord(void *in, uintptr_t stream);
int cuEventQuery(void *in);
int cuEventDestroy_v2(void *in);

int cuInit(unsigned int flags)
{
	return (int)flags;
}

int cuDeviceGet(int *device, int ordinal)
{
	*device = DEVICE;
	return ordinal == 0 ? 0 : 101;
}

int cuDevicePrimaryCtxRetain(void **out, int device)
{
	*out = &context;
	__atomic_fetch_add(&fake_driver.contexts, 1, __ATOMIC_RELAXED);
	return device == DEVICE ? 0 : 101;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
	__atomic_fetch_add(&fake_driver.contexts, -1, __ATOMIC_RELAXED);
	return device == DEVICE ? 0 : 101;
}

int cuCtxGetCurrent(void **out)
{
	*out = depth ? &context : NULL;
	return 0;
}

int cuCtxGetDevice(int *device)
{
	*device = DEVICE;
	return depth ? 0 : NO_CONTEXT;
}

int cuCtxPushCurrent_v2(void *in)
{
	depth++;
	return in == &context ? 0 : NO_CONTEXT;
}

int cuCtxPopCurrent_v2(void **out)
{
	*out = &context;
	return depth-- > 0 ? 0 : NO_CONTEXT;
}

int cuMemHostRegister_v2(void *at, size_t bytes, unsigned int flags)
{
	__atomic_fetch_add(&fake_driver.registered, 1, __ATOMIC_RELAXED);
	return depth && at && bytes && flags == 3 ? 0 : NO_CONTEXT;
}

int cuMemHostUnregister(void *at)
{
	__atomic_fetch_add(&fake_driver.registered, -1, __ATOMIC_RELAXED);
	return depth && at ? 0 : NO_CONTEXT;
}

int cuMemHostGetDevicePointer_v2(uint64_t *out, void *at, unsigned int flags)
{
	*out = (uint64_t)(uintptr_t)at + FAKE_AT;
	return depth && !flags ? 0 : NO_CONTEXT;
}

int cuThreadExchangeStreamCaptureMode(int *inout)
{
	const int old = mode;

	mode = *inout;
	*inout = old;
	return 0;
}

/* Outside a relaxed mode, another thread's capture forbids all of these. */
static bool is_allowed(void)
{
	return depth && mode == 2;
}

int cuStreamIsCapturing(uintptr_t stream, int *state)
{
	(void)stream;
	*state = __atomic_load_n(&fake_driver.capturing, __ATOMIC_RELAXED);
	return is_allowed() ? 0 : NO_CONTEXT;
}

int cuEventCreate(void **out, unsigned int flags)
{
	*out = &event;
	__atomic_fetch_add(&fake_driver.events, 1, __ATOMIC_RELAXED);
	return is_allowed() && flags == 2 ? 0 : NO_CONTEXT;
}

int cuEventRecord(void *in, uintptr_t stream)
{
	if (!is_allowed() || in != &event || fake_driver.record_error)
		return fake_driver.record_error ? fake_driver.record_error : NO_CONTEXT;
	__atomic_fetch_add(&fake_driver.records, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&fake_driver.recorded, stream, __ATOMIC_RELAXED);
	return 0;
}

int cuEventQuery(void *in)
{
	if (!is_allowed() || in != &event)
		return NO_CONTEXT;
	if (__atomic_exchange_n(&fake_driver.captured_once, 0, __ATOMIC_RELAXED))
		return CAPTURED;
	return __atomic_load_n(&fake_driver.running, __ATOMIC_RELAXED) ? NOT_READY : 0;
}

int cuEventDestroy_v2(void *in)
{
	__atomic_fetch_add(&fake_driver.events, -1, __ATOMIC_RELAXED);
	return in == &event ? 0 : NO_CONTEXT;
}
