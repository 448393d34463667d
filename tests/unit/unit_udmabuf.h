/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Memory as a GPU's, without a GPU: the NIC reaches it by a dma-buf, and the CPU not at all (the
 * address that stands for it cannot be read), but through a mapping of the test's own. A memfd
 * stands in for the dma-buf, which the software ConnectX maps; a real one is made of it by the
 * kernel's udmabuf.
 */
#ifndef UNIT_UDMABUF_H
#define UNIT_UDMABUF_H

#include <fcntl.h>
#include <linux/udmabuf.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* The first `bytes` of memfd, which is sealed against shrinking, as a dma-buf; -1: this kernel has
 * no udmabuf. */
static inline int unit_udmabuf(int memfd, uint64_t bytes)
{
	struct udmabuf_create create = {
		.memfd = (uint32_t)memfd, .flags = UDMABUF_FLAGS_CLOEXEC, .size = bytes};
	int dev = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), fd = -1;

	if (dev >= 0) {
		fd = ioctl(dev, UDMABUF_CREATE, &create);
		close(dev);
	}
	return fd;
}

struct unit_gpu {
	int memfd, dmabuf;
	uint64_t bytes;
	uint8_t *seen; /* the test's mapping */
	uint8_t *addr; /* the NIC's name for the same bytes */
};

static inline void unit_gpu_close(struct unit_gpu *g)
{
	if (g->seen)
		munmap(g->seen, g->bytes);
	if (g->addr)
		munmap(g->addr, g->bytes);
	close(g->dmabuf);
	close(g->memfd);
	*g = (struct unit_gpu){.memfd = -1, .dmabuf = -1};
}

/* real: a dma-buf of the kernel's. Returns: false: it makes none; nothing is left. */
static inline bool unit_gpu_open(struct unit_gpu *g, uint64_t bytes, bool real)
{
	*g = (struct unit_gpu){.bytes = bytes, .dmabuf = -1};
	g->memfd = memfd_create("gpu", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (!ftruncate(g->memfd, (off_t)bytes) && !fcntl(g->memfd, F_ADD_SEALS, F_SEAL_SHRINK))
		g->dmabuf = real ? unit_udmabuf(g->memfd, bytes) : dup(g->memfd);
	if (g->dmabuf < 0) {
		unit_gpu_close(g);
		return false;
	}
	g->seen = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, g->memfd, 0);
	g->addr = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return true;
}

#endif
