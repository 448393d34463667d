/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The interposed functions of libc on files, folders and descriptors. Paths are mapped by vfs.c;
 * write() and ioctl() of a device file go to the emulated uverbs device (kernel/uverbs.h); all else
 * goes to the next definition. libc's internal calls do not pass through interposed functions (its
 * fopen does not call our open), so every public function that takes a path is here, with the names
 * that older and fortified programs use.
 *
 * These run in any thread of any program, early and late: they cost a byte comparison where nothing
 * is ours, and keep errno as libc's function leaves it.
 *
 *   the program calls                   and this library
 *   open("/sys/class/infiniband/...")   opens that path below the private folder (vfs_map)
 *   open("/dev/infiniband/uverbs0")     opens a memfd, and marks it (proc_cdev_open)
 *   write, ioctl on a marked one        runs the command (uv_write, uv_ioctl in kernel/;
 *                                       ucma_write in cm/)
 *   read on a file of DEVX events       takes one event (devx_file_read in kernel/devx/)
 *   send, recv on a netlink socket      answers for the RDMA subsystem (sock.c)
 *   anything else                       calls the next definition
 *
 * What to know before changing it: nothing here may call a function of libc that is interposed
 * itself, unless the mapping is wanted; the library uses hca_real.h. A function that programs reach
 * under several names needs each of them.
 */
#undef _FILE_OFFSET_BITS /* with it, open would be another name of open64; both are defined here \
			  */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ptp_clock.h>
#include <linux/sockios.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "softhca/cm/ucma.h"
#include "softhca/kernel/devx_events.h"
#include "softhca/kernel/events.h"
#include "softhca/kernel/uverbs.h"
#include "softhca/nic/nic.h"
#include "softhca/preload/preload.h"
#include "softhca/preload/proc.h"

/* The next definition of the function in load order; looked up once. */
void *preload_next(void **slot, const char *name)
{
	void *fn = spw_thr_load_rlx(slot);

	if (!fn) {
		fn = dlsym(RTLD_NEXT, name);
		spw_thr_store_rlx(slot, fn);
	}
	return fn;
}

/* Other constructors may have opened files by then; such calls pass, since there is no
 * configuration yet. */
__attribute__((constructor)) static void preload_load(void)
{
	proc_load();
}

__attribute__((destructor)) static void preload_unload(void)
{
	proc_exit();
}

/* As a system call reports it: -1, and errno. */
static int fail_errno(int code)
{
	errno = code;
	return -1;
}

/* ---- descriptors ---- */

/* The descriptor's number may be reused at once, so it is forgotten before it is closed. */
EXPORT int close(int fd)
{
	if (proc_fd_marked(fd))
		proc_fd_closing(fd);
	vfs_closing(fd);
	return NEXT(close)(fd);
}

static void events_put(void *file)
{
	devx_file_put(file);
}

/* A thread that waits for an event may be cancelled there. */
static int64_t events_read(struct devx_file *file, void *buf, size_t len)
{
	int64_t rc;

	pthread_cleanup_push(events_put, file);
	rc = devx_file_read(file, buf, len);
	pthread_cleanup_pop(1);
	return rc;
}

/* Events of DEVX come one for each read. Returns: false: another descriptor. */
static bool events_reading(int fd, void *buf, size_t len, ssize_t *n_out)
{
	struct devx_file *file = proc_events_get(fd);
	int64_t rc;

	if (!file)
		return false;
	rc = events_read(file, buf, len);
	*n_out = rc < 0 ? fail_errno((int)-rc) : (ssize_t)rc;
	return true;
}

/* sysfs shows the value of the moment of each read, also of a file that stays open; the emulated
 * file is written again before it is read. */
#define READING(name, params, args)     \
	EXPORT ssize_t name params      \
	{                               \
		vfs_reading(fd);        \
		return NEXT(name) args; \
	}
#define READING_EVENTS(name, params, args)            \
	EXPORT ssize_t name params                    \
	{                                             \
		ssize_t n;                            \
		if (events_reading(fd, buf, len, &n)) \
			return n;                     \
		netlink_reading(fd);                  \
		vfs_reading(fd);                      \
		return NEXT(name) args;               \
	}

READING_EVENTS(read, (int fd, void *buf, size_t len), (fd, buf, len));
READING_EVENTS(__read_chk, (int fd, void *buf, size_t len, size_t room), (fd, buf, len, room));
READING(pread, (int fd, void *buf, size_t len, off_t at), (fd, buf, len, at));
READING(pread64, (int fd, void *buf, size_t len, off64_t at), (fd, buf, len, at));

static void cma_put(void *file)
{
	proc_cma_put(file);
}

/* A thread that waits for an event may be cancelled there. */
static int64_t cma_write(struct ucma_file *file, const void *buf, size_t len)
{
	static const struct ucma_finder finder = {proc_cma_get, proc_cma_put};
	int64_t rc;

	pthread_cleanup_push(cma_put, file);
	rc = ucma_write(file, buf, len, &finder);
	pthread_cleanup_pop(1);
	return rc;
}

/* Device files take commands by write; every other descriptor costs one look at its mark. */
EXPORT ssize_t write(int fd, const void *buf, size_t len)
{
	const bool marked = proc_fd_marked(fd);
	struct hca_ctx *ctx = marked ? proc_ctx_get(fd) : NULL;
	struct ucma_file *cma = marked && !ctx ? proc_cma_get(fd) : NULL;
	int64_t rc;

	if (cma) {
		rc = cma_write(cma, buf, len);
	} else if (ctx) {
		rc = uv_write(ctx, buf, len);
		proc_ctx_put(ctx);
	} else if (marked && hca_mark_get(fd) == HCA_MARK_EVENTS) {
		rc = -EBADF; /* open for reading only */
	} else if (marked && hca_mark_get(fd) == HCA_MARK_NETLINK) {
		return netlink_write(fd, &(struct iovec){(void *)(uintptr_t)buf, len}, 1);
	} else {
		return NEXT(write)(fd, buf, len);
	}
	return rc < 0 ? fail_errno((int)-rc) : (ssize_t)rc;
}

/* The PTP clock of a device, between two readings of the host's. */
static int ptp_offset_ioctl(struct ptp_sys_offset_extended *off)
{
	if (off->n_samples > PTP_MAX_SAMPLES)
		return -EINVAL;
	for (uint32_t i = 0; i < off->n_samples; i++)
		for (uint32_t k = 0; k < 3; k++) {
			const uint64_t ns = nic_ptp_ns();

			off->ts[i][k] =
				(struct ptp_clock_time){.sec = (int64_t)(ns / 1000000000),
							.nsec = (uint32_t)(ns % 1000000000)};
		}
	return 0;
}

/* RDMA_VERBS_IOCTL on a uverbs file, SIOCETHTOOL for an emulated netdev, PTP_SYS_OFFSET_EXTENDED
 * on a device's clock; all else passes. */
EXPORT int ioctl(int fd, unsigned long request, ...)
{
	struct hca_ctx *ctx = proc_fd_marked(fd) ? proc_ctx_get(fd) : NULL;
	va_list ap;
	void *arg;
	int rc;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (request == SIOCETHTOOL && arg && proc_ethtool(arg, &rc))
		return rc < 0 ? fail_errno(-rc) : rc;
	if (request == PTP_SYS_OFFSET_EXTENDED && arg && vfs_is_ptp(fd)) {
		rc = ptp_offset_ioctl(arg);
		return rc < 0 ? fail_errno(-rc) : rc;
	}
	if (!ctx)
		return NEXT(ioctl)(fd, request, arg);
	rc = request == RDMA_VERBS_IOCTL ? uv_ioctl(ctx, arg) : -ENOTTY;
	proc_ctx_put(ctx);
	return rc < 0 ? fail_errno(-rc) : rc;
}

/* ---- open ---- */

static int opened_fd(int fd, const char *counter)
{
	vfs_opened(fd, counter);
	return fd;
}

/* open() has a mode only with these flags; without them there is nothing to fetch from ap. */
static mode_t mode_arg(int flags, va_list ap)
{
	return flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, mode_t) : 0;
}

/* A device file is opened by the emulated device, a counter is written first and watched from then
 * on, and any other path is mapped, if it is one of ours. */
#define OPENING(name, params, ...)                                               \
	EXPORT int name params                                                   \
	{                                                                        \
		char buf[VFS_PATH_BYTES];                                        \
		const char *counter, *real;                                      \
		int dev = vfs_cdev(path);                                        \
		mode_t mode;                                                     \
		va_list ap;                                                      \
		va_start(ap, flags);                                             \
		mode = mode_arg(flags, ap);                                      \
		va_end(ap);                                                      \
		if (dev >= 0)                                                    \
			return proc_cdev_open((uint32_t)dev, flags);             \
		counter = vfs_opening(path);                                     \
		real = vfs_map(path, buf);                                       \
		return opened_fd(NEXT(name)(__VA_ARGS__, flags, mode), counter); \
	}

OPENING(open, (const char *path, int flags, ...), real);
OPENING(open64, (const char *path, int flags, ...), real);
OPENING(openat, (int dirfd, const char *path, int flags, ...), dirfd, real);
OPENING(openat64, (int dirfd, const char *path, int flags, ...), dirfd, real);

/* open in fortified programs, where no mode argument is passed. */
EXPORT int __open_2(const char *path, int flags)
{
	return open(path, flags);
}

EXPORT int __open64_2(const char *path, int flags)
{
	return open64(path, flags);
}

EXPORT int __openat_2(int dirfd, const char *path, int flags)
{
	return openat(dirfd, path, flags);
}

EXPORT int __openat64_2(int dirfd, const char *path, int flags)
{
	return openat64(dirfd, path, flags);
}

/* ---- paths ---- */

/* A function that maps its path and passes; a path that is not emulated is not copied. A listing of
 * an emulated folder shows ours and links to the real entries (kernel/sysfs_real.c). ls asks for
 * attributes (ACL, SELinux) of the paths that it lists. */
#define MAPPED(ret, name, params, args)                \
	EXPORT ret name params                         \
	{                                              \
		char buf[VFS_PATH_BYTES];              \
		const char *real = vfs_map(path, buf); \
		return NEXT(name) args;                \
	}

typedef int filter_fn(const struct dirent *);
typedef int compare_fn(const struct dirent **, const struct dirent **);
typedef int filter64_fn(const struct dirent64 *);
typedef int compare64_fn(const struct dirent64 **, const struct dirent64 **);

MAPPED(DIR *, opendir, (const char *path), (real));
MAPPED(int, chdir, (const char *path), (real));
MAPPED(int, scandir,
       (const char *path, struct dirent ***list, filter_fn *filter, compare_fn *compare),
       (real, list, filter, compare));
MAPPED(int, scandir64,
       (const char *path, struct dirent64 ***list, filter64_fn *filter, compare64_fn *compare),
       (real, list, filter, compare));
MAPPED(int, access, (const char *path, int mode), (real, mode));
MAPPED(int, faccessat, (int dirfd, const char *path, int mode, int flags),
       (dirfd, real, mode, flags));
MAPPED(ssize_t, readlink, (const char *path, char *out, size_t bytes), (real, out, bytes));
MAPPED(ssize_t, readlinkat, (int dirfd, const char *path, char *out, size_t bytes),
       (dirfd, real, out, bytes));
MAPPED(ssize_t, getxattr, (const char *path, const char *name, void *value, size_t bytes),
       (real, name, value, bytes));
MAPPED(ssize_t, lgetxattr, (const char *path, const char *name, void *value, size_t bytes),
       (real, name, value, bytes));

/* libc's own fopen calls an internal open, so it needs an entry of its own. */
#define FOPENING(name)                                        \
	EXPORT FILE *name(const char *path, const char *mode) \
	{                                                     \
		char buf[VFS_PATH_BYTES];                     \
		vfs_opening(path);                            \
		return NEXT(name)(vfs_map(path, buf), mode);  \
	}

FOPENING(fopen);
FOPENING(fopen64);

/* A result that lies in the private folder is reported as the path that the program knows. */
#define RESOLVING(name, params, ...)                                   \
	EXPORT char *name params                                       \
	{                                                              \
		char buf[VFS_PATH_BYTES];                              \
		char *r = NEXT(name)(vfs_map(path, buf), __VA_ARGS__); \
		vfs_unmap(r);                                          \
		return r;                                              \
	}

RESOLVING(realpath, (const char *path, char *out), out);
RESOLVING(__realpath_chk, (const char *path, char *out, size_t bytes), out, bytes);

EXPORT char *canonicalize_file_name(const char *path)
{
	return realpath(path, NULL);
}
