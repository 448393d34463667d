/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A real dma-buf without a GPU: the kernel's udmabuf makes one of a memfd.
 */
#ifndef UNIT_UDMABUF_H
#define UNIT_UDMABUF_H

#include <fcntl.h>
#include <linux/udmabuf.h>
#include <stdint.h>
#include <sys/ioctl.h>
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

#endif
