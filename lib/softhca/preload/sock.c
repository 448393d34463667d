/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The interposed functions of libc on sockets: those by which programs speak with the kernel's RDMA
 * subsystem over netlink (kernel/nldev/nldev.h). A socket of NETLINK_RDMA is one of
 * NETLINK_USERSOCK with a mark; what is sent to the kernel on it is answered here, before send()
 * returns, and each receive refills its buffer first. write() and read() of it are in preload.c.
 *
 * Every other socket costs one look at its mark.
 */
#include <errno.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "softhca/hca_real.h"
#include "softhca/kernel/events.h"
#include "softhca/kernel/nldev/nldev.h"
#include "softhca/preload/preload.h"
#include "softhca/preload/proc.h"

/* glibc's headers declare these for fortified programs only. */
ssize_t __recv_chk(int fd, void *buf, size_t len, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t len, size_t room, int flags, struct sockaddr *from,
		       socklen_t *from_bytes);

typedef int socket_fn(int, int, int);

/* The machine's own devices answer too, where it has any; a kernel without user sockets of netlink
 * has none for us either, and libibverbs reads /sys then. */
static int netlink_open(socket_fn *next, int type)
{
	struct proc *p = proc_get();
	int fd = p ? next(AF_NETLINK, type, NETLINK_USERSOCK) : -1, rc;

	if (fd >= 0) {
		rc = nldev_open(p->devs, p->cfg.dev_cnt, fd,
				next(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA));
		if (!rc)
			return fd;
		real_close(fd);
	}
	errno = EPROTONOSUPPORT;
	return -1;
}

EXPORT int socket(int domain, int type, int protocol)
{
	if (domain == AF_NETLINK && protocol == NETLINK_RDMA)
		return netlink_open(NEXT(socket), type);
	return NEXT(socket)(domain, type, protocol);
}

/* A send is no place at which a thread is cancelled with the lock held. */
ssize_t netlink_write(int fd, const struct iovec *iov, size_t cnt)
{
	int state;
	int64_t n;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	n = nldev_send(fd, iov, cnt);
	pthread_setcancelstate(state, &state);
	if (n >= 0)
		return (ssize_t)n;
	errno = (int)-n;
	return -1;
}

void netlink_reading(int fd)
{
	int state;

	if (spw_likely(hca_mark_get(fd) != HCA_MARK_NETLINK))
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	nldev_pump(fd);
	pthread_setcancelstate(state, &state);
}

/* What goes to another socket of user space passes. */
static bool netlink_to_kernel(int fd, const void *to, socklen_t bytes)
{
	const struct sockaddr_nl *a = to;

	if (hca_mark_get(fd) != HCA_MARK_NETLINK)
		return false;
	return !to ||
	       (bytes >= sizeof(*a) && a->nl_family == AF_NETLINK && !a->nl_pid && !a->nl_groups);
}

EXPORT ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	const struct iovec iov = {(void *)(uintptr_t)buf, len};

	if (spw_unlikely(netlink_to_kernel(fd, NULL, 0)))
		return netlink_write(fd, &iov, 1);
	return NEXT(send)(fd, buf, len, flags);
}

EXPORT ssize_t sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to,
		      socklen_t to_bytes)
{
	const struct iovec iov = {(void *)(uintptr_t)buf, len};

	if (spw_unlikely(netlink_to_kernel(fd, to, to_bytes)))
		return netlink_write(fd, &iov, 1);
	return NEXT(sendto)(fd, buf, len, flags, to, to_bytes);
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	if (spw_unlikely(m && netlink_to_kernel(fd, m->msg_name, m->msg_namelen)))
		return netlink_write(fd, m->msg_iov, m->msg_iovlen);
	return NEXT(sendmsg)(fd, m, flags);
}

/* Answers come from the kernel: programs look whether the sender's port is 0. */
static void netlink_from_kernel(int fd, void *from, socklen_t bytes)
{
	struct sockaddr_nl *a = from;

	if (from && bytes >= sizeof(*a) && hca_mark_get(fd) == HCA_MARK_NETLINK)
		a->nl_pid = 0;
}

#define RECEIVING(name, params, args)   \
	EXPORT ssize_t name params      \
	{                               \
		netlink_reading(fd);    \
		return NEXT(name) args; \
	}

RECEIVING(recv, (int fd, void *buf, size_t len, int flags), (fd, buf, len, flags));
RECEIVING(__recv_chk, (int fd, void *buf, size_t len, size_t room, int flags),
	  (fd, buf, len, room, flags));

#define RECEIVING_FROM(name, params, args)                          \
	EXPORT ssize_t name params                                  \
	{                                                           \
		ssize_t n;                                          \
                                                                    \
		netlink_reading(fd);                                \
		n = NEXT(name) args;                                \
		if (n >= 0 && from && from_bytes)                   \
			netlink_from_kernel(fd, from, *from_bytes); \
		return n;                                           \
	}

RECEIVING_FROM(recvfrom,
	       (int fd, void *buf, size_t len, int flags, struct sockaddr *from,
		socklen_t *from_bytes),
	       (fd, buf, len, flags, from, from_bytes));
RECEIVING_FROM(__recvfrom_chk,
	       (int fd, void *buf, size_t len, size_t room, int flags, struct sockaddr *from,
		socklen_t *from_bytes),
	       (fd, buf, len, room, flags, from, from_bytes));

EXPORT ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	ssize_t n;

	netlink_reading(fd);
	n = NEXT(recvmsg)(fd, m, flags);
	if (n >= 0)
		netlink_from_kernel(fd, m->msg_name, m->msg_namelen);
	return n;
}
