/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Memory of a GPU that processes share (spw_cuda_share.h). Both sides map alike:
 *
 *   owner     create ─► export ─► fd
 *                │
 *   both      handle ─► reserve addresses ─► map ─► allow access ─► release the handle
 *                ▲
 *   consumer  import ◄─ fd
 *
 * A mapping holds the memory by itself, so no handle is kept. The owner holds the GPU's primary
 * context too, the one that the CUDA runtime uses, until the memory is free: a context that came
 * and went in between would cost a second start of it.
 *
 * Source of names, numbers and layouts: CUDA driver API, cuda.h.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "cuda/spw_cuda_library.h"
#include "cuda/spw_cuda_share.h"

#define OUT_OF_MEMORY       2 /* CUDA_ERROR_OUT_OF_MEMORY */
#define TYPE_PINNED         1 /* CU_MEM_ALLOCATION_TYPE_PINNED */
#define HANDLE_POSIX_FD     1 /* CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR */
#define LOCATION_DEVICE     1 /* CU_MEM_LOCATION_TYPE_DEVICE */
#define ACCESS_READWRITE    3 /* CU_MEM_ACCESS_FLAGS_PROT_READWRITE */
#define GRANULARITY_MINIMUM 0 /* CU_MEM_ALLOC_GRANULARITY_MINIMUM */

struct share_location {
	int type, id;
};

/* CUmemAllocationProp */
struct share_prop {
	int type, handle_types;
	struct share_location location;
	void *win32;
	uint8_t compression, rdma;
	uint16_t usage;
	uint8_t reserved[4];
};
SPW_ASSERT_SIZE(struct share_prop, 32);

/* CUmemAccessDesc */
struct share_access {
	struct share_location location;
	int flags;
};
SPW_ASSERT_SIZE(struct share_access, 12);

#define SHARE_CALLS(X)                                                                          \
	X(init, cuInit, (unsigned int flags))                                                   \
	X(count, cuDeviceGetCount, (int *cnt))                                                  \
	X(device, cuDeviceGet, (int *device, int ordinal))                                      \
	X(uuid, cuDeviceGetUuid_v2, (uint8_t * uuid, int device))                               \
	X(retain, cuDevicePrimaryCtxRetain, (void **context, int device))                       \
	X(give_back, cuDevicePrimaryCtxRelease_v2, (int device))                                \
	X(push, cuCtxPushCurrent_v2, (void *context))                                           \
	X(pop, cuCtxPopCurrent_v2, (void **context))                                            \
	X(granularity, cuMemGetAllocationGranularity,                                           \
	  (size_t * bytes, const struct share_prop *prop, int option))                          \
	X(create, cuMemCreate,                                                                  \
	  (uint64_t * handle, size_t bytes, const struct share_prop *prop, uint64_t flags))     \
	X(release, cuMemRelease, (uint64_t handle))                                             \
	X(give, cuMemExportToShareableHandle, (void *fd, uint64_t handle, int type, uint64_t))  \
	X(take, cuMemImportFromShareableHandle, (uint64_t * handle, void *fd, int type))        \
	X(reserve, cuMemAddressReserve,                                                         \
	  (uint64_t * at, size_t bytes, size_t align, uint64_t wish, uint64_t flags))           \
	X(unreserve, cuMemAddressFree, (uint64_t at, size_t bytes))                             \
	X(map, cuMemMap, (uint64_t at, size_t bytes, size_t offset, uint64_t handle, uint64_t)) \
	X(unmap, cuMemUnmap, (uint64_t at, size_t bytes))                                       \
	X(access, cuMemSetAccess,                                                               \
	  (uint64_t at, size_t bytes, const struct share_access *desc, size_t cnt))             \
	X(fill, cuMemsetD8_v2, (uint64_t at, unsigned char byte, size_t bytes))                 \
	X(wait, cuStreamSynchronize, (void *stream))

struct share_calls {
	SHARE_CALLS(SPW_CUDA_LIBRARY_MEMBER)
};

static int share_open(struct share_calls *of)
{
	const struct spw_cuda_symbol wanted[] = {SHARE_CALLS(SPW_CUDA_LIBRARY_SYMBOL)};
	int rc =
		spw_cuda_library_open("libcuda.so.1", "CUDA driver", wanted, SPW_ARRAY_CNT(wanted));

	if (rc)
		return spw_err(ENOTSUP,
			       "%s: memory of a GPU is shared by a driver of CUDA 11.4 or later",
			       spw_err_text());
	rc = of->init(0);
	return rc ? spw_err(ENOTSUP, "the CUDA driver does not start (cuInit: error %d)", rc) : 0;
}

static int share_failed(int code, const char *call, int error)
{
	return spw_err(code, "%s: CUDA error %d", call, error);
}

static void share_unmap(const struct share_calls *of, uint64_t at, size_t bytes)
{
	of->unmap(at, bytes);
	of->unreserve(at, bytes);
}

/* Errors: as spw_cuda_share_map; whatever was done is undone. */
static int share_map(const struct share_calls *of, int device, uint64_t handle, size_t bytes,
		     uint64_t *at_out)
{
	const struct share_access all = {{LOCATION_DEVICE, device}, ACCESS_READWRITE};
	int error = of->reserve(at_out, bytes, 0, 0, 0);

	if (error)
		return share_failed(EPROTO, "cuMemAddressReserve", error);
	error = of->map(*at_out, bytes, 0, handle, 0);
	if (error) {
		of->unreserve(*at_out, bytes);
		return share_failed(EPROTO, "cuMemMap", error);
	}
	error = of->access(*at_out, bytes, &all, 1);
	if (!error)
		return 0;
	share_unmap(of, *at_out, bytes);
	return share_failed(EPROTO, "cuMemSetAccess", error);
}

void spw_cuda_share_unmap(uint64_t at, size_t bytes)
{
	struct share_calls of;

	if (!share_open(&of))
		share_unmap(&of, at, bytes);
}

/* ---- owner ---- */

/* A fresh context is made current for the caller's thread alone, and only for this. */
static int share_zero(const struct share_calls *of, void *context,
		      const struct spw_cuda_share *share)
{
	int error = of->push(context);

	if (error)
		return share_failed(EIO, "cuCtxPushCurrent", error);
	error = of->fill(share->at, 0, share->bytes);
	error = error ? error : of->wait(NULL);
	of->pop(&context);
	return error ? share_failed(EIO, "cuMemsetD8", error) : 0;
}

/* Exported before it is mapped: what cannot be exported is of no use. */
static int share_fill(const struct share_calls *of, uint64_t handle, void *context,
		      struct spw_cuda_share *share)
{
	int rc, error = of->give(&share->fd, handle, HANDLE_POSIX_FD, 0);

	if (error)
		return share_failed(ENOTSUP, "cuMemExportToShareableHandle", error);
	rc = share_map(of, share->device, handle, share->bytes, &share->at);
	if (!rc) {
		rc = share_zero(of, context, share);
		if (rc)
			share_unmap(of, share->at, share->bytes);
	}
	if (rc)
		close(share->fd);
	return rc;
}

static int share_create(const struct share_calls *of, void *context, size_t bytes,
			struct spw_cuda_share *share)
{
	const struct share_prop prop = {.type = TYPE_PINNED,
					.handle_types = HANDLE_POSIX_FD,
					.location = {LOCATION_DEVICE, share->device}};
	int rc, error = of->granularity(&share->page_bytes, &prop, GRANULARITY_MINIMUM);
	uint64_t handle;

	if (error || !SPW_IS_POW2(share->page_bytes))
		return share_failed(ENOTSUP, "cuMemGetAllocationGranularity", error);
	share->bytes = SPW_ALIGN_UP(bytes, share->page_bytes);
	if (share->bytes < bytes)
		return spw_err(ENOMEM, "%zu bytes do not fit an address space", bytes);
	error = of->create(&handle, share->bytes, &prop, 0);
	if (error == OUT_OF_MEMORY)
		return spw_err(ENOMEM, "the GPU has not %zu MiB free: use fewer or smaller buffers",
			       share->bytes >> 20);
	if (error)
		return share_failed(ENOTSUP, "cuMemCreate", error);
	rc = share_fill(of, handle, context, share);
	of->release(handle);
	return rc;
}

int spw_cuda_share_make(int ordinal, size_t bytes, struct spw_cuda_share *share_out)
{
	struct spw_cuda_share share = {.fd = -1};
	struct share_calls of;
	void *context;
	int error, rc = share_open(&of);

	if (rc)
		return rc;
	error = of.device(&share.device, ordinal);
	error = error ? error : of.uuid(share.gpu, share.device);
	error = error ? error : of.retain(&context, share.device);
	if (error)
		return share_failed(EIO, "cuDevicePrimaryCtxRetain", error);
	rc = share_create(&of, context, bytes, &share);
	if (rc)
		of.give_back(share.device);
	else
		*share_out = share;
	return rc;
}

void spw_cuda_share_free(struct spw_cuda_share *share)
{
	struct share_calls of;

	close(share->fd);
	if (share_open(&of))
		return;
	share_unmap(&of, share->at, share->bytes);
	of.give_back(share->device);
}

/* ---- consumer ---- */

int spw_cuda_share_find(const uint8_t gpu[SPW_CUDA_UUID_BYTES], int *ordinal_out)
{
	uint8_t uuid[SPW_CUDA_UUID_BYTES];
	struct share_calls of;
	int device, cnt = 0, rc = share_open(&of);

	if (rc)
		return rc;
	of.count(&cnt);
	for (int i = 0; i < cnt; i++) {
		if (of.device(&device, i) || of.uuid(uuid, device) ||
		    memcmp(uuid, gpu, sizeof(uuid)))
			continue;
		*ordinal_out = i;
		return 0;
	}
	return spw_err(ENODEV, "none of the %d GPUs of this process is the one", cnt);
}

int spw_cuda_share_map(int ordinal, int fd, size_t bytes, uint64_t *at_out)
{
	struct share_calls of;
	uint64_t handle;
	int device, error, rc = share_open(&of);

	if (rc)
		return rc;
	error = of.device(&device, ordinal);
	if (error)
		return share_failed(ENOTSUP, "cuDeviceGet", error);
	error = of.take(&handle, (void *)(uintptr_t)fd, HANDLE_POSIX_FD);
	if (error)
		return share_failed(EPROTO, "cuMemImportFromShareableHandle", error);
	rc = share_map(&of, device, handle, bytes, at_out);
	of.release(handle);
	return rc;
}
