/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Access to the application's memory as a kernel has it: a wrong address is -EFAULT, not a crash.
 *
 * process_vm_readv(2) on the own process does what copy_from_user does: it fails instead of
 * faulting. Containers that forbid it get a plain copy, and a wrong address is then a crash, as in
 * a program without a kernel between.
 *
 *   hca_umem_read, hca_umem_write   one copy, now: requests and answers     uverbs.c, ioctl.c
 *   hca_umem_check                  a range that the NIC will access later   cmd_*.c
 *
 * What to know before changing it: a range that was checked may be unmapped later; the NIC's guard
 * (nic/host/guard.c) is for that. The fuzz targets replace this file (tests/fuzz/fuzz_umem.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "softhca/hca_real.h"
#include "softhca/kernel/ctl.h"

int hca_umem_read(void *dst, uint64_t src, size_t len)
{
	struct iovec to = {dst, len}, from = {(void *)(uintptr_t)src, len};
	ssize_t n;

	if (len == 0)
		return 0;
	n = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
	if (n < 0 && (errno == ENOSYS || errno == EPERM)) { /* forbidden in some containers */
		memcpy(dst, (const void *)(uintptr_t)src, len);
		return 0;
	}
	return n == (ssize_t)len ? 0 : -EFAULT;
}

int hca_umem_write(uint64_t dst, const void *src, size_t len)
{
	struct iovec from = {(void *)(uintptr_t)src, len}, to = {(void *)(uintptr_t)dst, len};
	ssize_t n;

	if (len == 0)
		return 0;
	n = process_vm_writev(getpid(), &from, 1, &to, 1, 0);
	if (n < 0 && (errno == ENOSYS || errno == EPERM)) {
		memcpy((void *)(uintptr_t)dst, src, len);
		return 0;
	}
	return n == (ssize_t)len ? 0 : -EFAULT;
}

/* ---- /proc/self/maps, line by line, without stdio or malloc ---- */

struct maps {
	int fd;
	char buf[4096];
	size_t at, end;
};

/* -1: the end of the file. */
static int maps_next_char(struct maps *m)
{
	if (m->at == m->end) {
		ssize_t n = read(m->fd, m->buf, sizeof(m->buf));

		if (n <= 0)
			return -1;
		m->at = 0;
		m->end = (size_t)n;
	}
	return (unsigned char)m->buf[m->at++];
}

/* Reads hexadecimal digits, and consumes the character after them (*stop_out). */
static uint64_t maps_next_hex(struct maps *m, int *stop_out)
{
	uint64_t v = 0;
	int c;

	while ((c = maps_next_char(m)) >= 0) {
		if (c >= '0' && c <= '9')
			v = v << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			v = v << 4 | (uint64_t)(c - 'a' + 10);
		else
			break;
	}
	*stop_out = c;
	return v;
}

struct vma {
	uint64_t start, end;
	bool rd, wr;
};

/* One line: START-END, then rwxp, then what is not needed here. Source: proc(5). */
static bool maps_next_vma(struct maps *m, struct vma *v)
{
	int c;

	v->start = maps_next_hex(m, &c);
	if (c != '-')
		return false;
	v->end = maps_next_hex(m, &c);
	v->rd = maps_next_char(m) == 'r';
	v->wr = maps_next_char(m) == 'w';
	while (c >= 0 && c != '\n')
		c = maps_next_char(m);
	return true;
}

/* What pinning would find out: every page is mapped, readable, and writable where that is asked
 * for. */
int hca_umem_check(uint64_t addr, uint64_t len, bool write)
{
	struct maps m = {.fd = real_open("/proc/self/maps", O_RDONLY | O_CLOEXEC, 0)};
	uint64_t at = addr, end = addr + len;
	struct vma v;

	if (end < addr || addr == 0) {
		if (m.fd >= 0)
			real_close(m.fd);
		return -EFAULT;
	}
	if (m.fd < 0) /* without /proc nothing can be checked: accept */
		return 0;
	while (at < end && maps_next_vma(&m, &v)) {
		if (v.end <= at)
			continue;
		/* Not mapped, or without the right. The lines are in the order of addresses. */
		if (v.start > at || !v.rd || (write && !v.wr))
			break;
		at = v.end;
	}
	real_close(m.fd);
	return at >= end ? 0 : -EFAULT;
}
