/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The calls of the CUDA driver by which lib/mem finds a GPU, makes memory of its own and exports
 * it, and by which lib/tensor maps it (fake_driver.h). Sizes, kinds and rights are checked as by
 * the driver; a handle is the descriptor of a memfd, plus 1.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake_driver.h"

#define BAD         1
#define NO_MEMORY   2
#define NO_CONTEXT  201
#define UNSUPPORTED 801

/* CUmemAllocationProp and CUmemAccessDesc, as far as they are looked at. */
struct fake_prop {
	int type, handle_types, location, device;
};

struct fake_access {
	int location, device, flags;
};

int cuDriverGetVersion(int *version);
int cuDeviceGetCount(int *cnt);
int cuDeviceGetName(char *name, int bytes, int device);
int cuDeviceTotalMem_v2(size_t *bytes, int device);
int cuDeviceGetAttribute(int *value, int attr, int device);
int cuDeviceGetUuid_v2(uint8_t *uuid, int device);
int cuMemGetAllocationGranularity(size_t *bytes, const struct fake_prop *prop, int option);
int cuMemCreate(uint64_t *handle, size_t bytes, const struct fake_prop *prop, uint64_t flags);
int cuMemRelease(uint64_t handle);
int cuMemExportToShareableHandle(void *out, uint64_t handle, int type, uint64_t flags);
int cuMemImportFromShareableHandle(uint64_t *handle, void *of, int type);
int cuMemAddressReserve(uint64_t *at, size_t bytes, size_t align, uint64_t wish, uint64_t flags);
int cuMemAddressFree(uint64_t at, size_t bytes);
int cuMemMap(uint64_t at, size_t bytes, size_t offset, uint64_t handle, uint64_t flags);
int cuMemUnmap(uint64_t at, size_t bytes);
int cuMemSetAccess(uint64_t at, size_t bytes, const struct fake_access *desc, size_t cnt);
int cuMemsetD8_v2(uint64_t at, unsigned char byte, size_t bytes);
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes);
int cuStreamSynchronize(void *stream);
int cuCtxGetCurrent(void **out);

static void *fake_cpu(uint64_t at)
{
	return (void *)(uintptr_t)(at - FAKE_AT);
}

/* ---- the GPU ---- */

int cuDriverGetVersion(int *version)
{
	*version = 13000;
	return 0;
}

int cuDeviceGetCount(int *cnt)
{
	*cnt = 1;
	return 0;
}

int cuDeviceGetName(char *name, int bytes, int device)
{
	strncpy(name, "fake", (size_t)bytes);
	return device == FAKE_DEVICE ? 0 : BAD;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	*bytes = 1 << 30;
	return device == FAKE_DEVICE ? 0 : BAD;
}

int cuDeviceGetAttribute(int *value, int attr, int device)
{
	*value = attr == 75    ? 9 /* compute capability */
		 : attr == 18  ? fake_driver.integrated
		 : attr == 102 ? 1
		 : attr == 103 ? fake_driver.shareable
			       : 0;
	return device == FAKE_DEVICE ? 0 : BAD;
}

int cuDeviceGetUuid_v2(uint8_t *uuid, int device)
{
	memset(uuid, fake_driver.other_gpu ? 0xee : 0xab, 16);
	return device == FAKE_DEVICE ? 0 : BAD;
}

/* ---- memory ---- */

static bool prop_is_good(const struct fake_prop *prop)
{
	return prop->type == 1 && prop->handle_types == 1 && prop->location == 1 &&
	       prop->device == FAKE_DEVICE;
}

int cuMemGetAllocationGranularity(size_t *bytes, const struct fake_prop *prop, int option)
{
	*bytes = FAKE_PAGE_BYTES;
	return prop_is_good(prop) && !option ? 0 : BAD;
}

/* What another process left in it is there: nobody promises zeros. */
int cuMemCreate(uint64_t *handle, size_t bytes, const struct fake_prop *prop, uint64_t flags)
{
	char *dirt;
	int fd;

	if (!prop_is_good(prop) || !bytes || bytes % FAKE_PAGE_BYTES || flags)
		return BAD;
	if (!fake_driver.shareable || fake_driver.no_memory)
		return fake_driver.no_memory ? NO_MEMORY : UNSUPPORTED;
	fd = memfd_create("gpu", MFD_CLOEXEC);
	dirt = malloc(bytes);
	if (fd < 0 || !dirt)
		return NO_MEMORY;
	memset(dirt, 0x5a, bytes);
	if (write(fd, dirt, bytes) != (ssize_t)bytes)
		return NO_MEMORY;
	free(dirt);
	*handle = (uint64_t)fd + 1;
	fake_driver.handles++;
	return 0;
}

int cuMemRelease(uint64_t handle)
{
	fake_driver.handles--;
	return close((int)handle - 1) ? BAD : 0;
}

static int socket_pass(int to, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
	struct iovec data = {&byte, 1};
	struct msghdr message = {.msg_iov = &data,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);

	*c = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	return sendmsg(to, &message, 0) == 1 ? 0 : UNSUPPORTED;
}

int cuMemExportToShareableHandle(void *out, uint64_t handle, int type, uint64_t flags)
{
	int pair[2], rc;

	if (type != 1 || flags || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return BAD;
	rc = socket_pass(pair[1], (int)handle - 1);
	close(pair[1]);
	memcpy(out, &pair[0], sizeof(int));
	return rc;
}

/* The message stays in the socket: it can be imported again. */
int cuMemImportFromShareableHandle(uint64_t *handle, void *of, int type)
{
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec data = {&byte, 1};
	struct msghdr message = {.msg_iov = &data,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control)};
	int fd;

	if (type != 1 ||
	    recvmsg((int)(intptr_t)of, &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != 1 ||
	    !CMSG_FIRSTHDR(&message))
		return BAD;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
	*handle = (uint64_t)fd + 1;
	fake_driver.handles++;
	return 0;
}

/* ---- addresses ---- */

int cuMemAddressReserve(uint64_t *at, size_t bytes, size_t align, uint64_t wish, uint64_t flags)
{
	void *cpu = MAP_FAILED;

	if (bytes && bytes % FAKE_PAGE_BYTES == 0 && !align && !wish && !flags)
		cpu = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	*at = (uint64_t)(uintptr_t)cpu + FAKE_AT;
	return cpu == MAP_FAILED ? BAD : 0;
}

int cuMemAddressFree(uint64_t at, size_t bytes)
{
	return munmap(fake_cpu(at), bytes) ? BAD : 0;
}

int cuMemMap(uint64_t at, size_t bytes, size_t offset, uint64_t handle, uint64_t flags)
{
	const int fd = (int)handle - 1;
	struct stat stat;

	if (flags || offset || bytes % FAKE_PAGE_BYTES || fstat(fd, &stat) ||
	    (uint64_t)stat.st_size < bytes ||
	    mmap(fake_cpu(at), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
		return BAD;
	fake_driver.mappings++;
	return 0;
}

int cuMemUnmap(uint64_t at, size_t bytes)
{
	fake_driver.mappings--;
	return mmap(fake_cpu(at), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		    0) == MAP_FAILED
		       ? BAD
		       : 0;
}

/* Until then a kernel that touches it faults, and so does this process. */
int cuMemSetAccess(uint64_t at, size_t bytes, const struct fake_access *desc, size_t cnt)
{
	if (cnt != 1 || desc->location != 1 || desc->device != FAKE_DEVICE || desc->flags != 3)
		return BAD;
	return mprotect(fake_cpu(at), bytes, PROT_READ | PROT_WRITE) ? BAD : 0;
}

int cuMemsetD8_v2(uint64_t at, unsigned char byte, size_t bytes)
{
	void *context;

	if (cuCtxGetCurrent(&context) || !context)
		return NO_CONTEXT;
	memset(fake_cpu(at), byte, bytes);
	return 0;
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
	void *context;

	if (cuCtxGetCurrent(&context) || !context)
		return NO_CONTEXT;
	memcpy(fake_cpu(to), from, bytes);
	return 0;
}

int cuStreamSynchronize(void *stream)
{
	(void)stream;
	return 0;
}
