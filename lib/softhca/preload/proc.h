/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The state of the process that the library was loaded into: its devices, created when it first
 * looks for one, and its open device files. A forked child starts without any: it has no NIC
 * thread, no cable port and no device file, and creates its own devices on first use.
 *
 *   preload.c, stat.c   interposed libc functions     sig.c    sigaction, signal
 *   sock.c              netlink sockets
 *   vfs.c               which paths are emulated      verbs.c  order of ibv_get_device_list
 *   proc.c              this header
 */
#ifndef SPW_SOFTHCA_PROC_H
#define SPW_SOFTHCA_PROC_H

#include <sys/sysmacros.h>

#include "softhca/hca_obj.h"
#include "softhca/kernel/tree.h"

struct ucma_file;
struct devx_file;

struct proc {
	struct hca_cfg cfg;
	struct hca_dev *devs;
	struct tree tree;
};

/* Purpose: the devices; the first call creates them.
 * Returns: NULL: they cannot be created (reported on stderr, once), or this call comes from the
 *          library itself while it creates them, and means the real system.
 * Thread:  any. */
struct proc *proc_get(void);
/* Returns: the devices if they exist already, else NULL. Thread: any. */
struct proc *proc_ready(void);
/* Returns: the configuration; NULL if it is invalid. Thread: any. */
const struct hca_cfg *proc_cfg(void);

void proc_load(void); /* when the library is loaded */
void proc_exit(void); /* at exit, in a signal handler too; a no-op in a forked child */

/* ---- device files ---- */

/* Returns: false: certainly none of ours; true: ask proc_ctx_get. Takes no lock. */
bool proc_fd_marked(int fd);
/* In place of a device's index: /dev/infiniband/rdma_cm. */
#define PROC_CMA HCA_DEV_MAX
/* Purpose: open() of a device file, of rdma_cm with O_NONBLOCK or not.
 * Returns: a descriptor, or -1 and errno. */
int proc_cdev_open(uint32_t dev_idx, int flags);
/* Returns: index of the device that a descriptor has open, PROC_CMA, or -1. Thread: any. */
int proc_fd_dev(int fd);
/* Returns: the context of a descriptor, or NULL. It stays valid until proc_ctx_put, also if another
 * thread closes the descriptor meanwhile. Thread: any. */
struct hca_ctx *proc_ctx_get(int fd);
void proc_ctx_put(struct hca_ctx *ctx);
struct ucma_file *proc_cma_get(int fd);
void proc_cma_put(struct ucma_file *cma);
/* Returns: the file of DEVX events that the descriptor is, for devx_file_put; NULL: none of those.
 */
struct devx_file *proc_events_get(int fd);
/* Purpose: the application closes a device file or a channel; called before the real close. */
void proc_fd_closing(int fd);

/* ---- network interfaces of the devices (--netdev) ---- */

struct ifreq;
/* Purpose: ioctl(SIOCETHTOOL). Returns: true: answered, *rc_out is 0 or -errno; false: not a
 * device's interface, or a command that is not emulated: the kernel answers. */
bool proc_ethtool(const struct ifreq *ifr, int *rc_out);

/* ---- paths (vfs.c) ---- */

#define VFS_PATH_BYTES 4096u

/* Purpose: the real location of an emulated path.
 * Returns: buf, or path itself if it is not emulated. */
const char *vfs_map(const char *path, char buf[VFS_PATH_BYTES]);
/* Purpose: the reverse, in place, for results of realpath. NULL: no-op. */
void vfs_unmap(char *path);
/* Returns: the index of the device whose character device this path names, PROC_CMA, or -1. */
int vfs_cdev(const char *path);
/* Returns: whether this descriptor is the PTP clock of one of our devices. Thread: any. */
bool vfs_is_ptp(int fd);
/* Purpose: called before a file is opened: refreshes it if it is a counter or the port state.
 * Returns: the counter's name, for vfs_opened; else NULL. */
const char *vfs_opening(const char *path);
/* Purpose: from now on vfs_reading(fd) refreshes the counter, as each read of a sysfs file does.
 *          fd -1 or counter NULL: no-op. At most WATCH_CNT files; further ones are not refreshed.
 * Thread:  any. */
void vfs_opened(int fd, const char *counter);
void vfs_reading(int fd);
void vfs_closing(int fd);

#endif
