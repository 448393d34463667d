/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The process that the library was loaded into: its devices, made when something first looks for one,
 * its open device files, and what stays of them in a forked child (nothing).
 */
#ifndef SPW_SOFTHCA_PROC_H
#define SPW_SOFTHCA_PROC_H

#include "softhca/hca_obj.h"
#include "softhca/tree.h"

struct proc {
	struct hca_cfg cfg;
	struct hca_dev *devs;
	struct tree tree;
};

/* Purpose: the devices; made on the first call. NULL: they cannot be (said on stderr, once), or the library is
 *          asking itself while it makes them. Thread: any. */
struct proc *proc_get(void);
/* The devices if something has looked for them already. */
struct proc *proc_ready(void);
/* The configuration alone; NULL if it is wrong. */
const struct hca_cfg *proc_cfg(void);

void proc_load(void); /* when the library is loaded */
void proc_exit(void); /* at exit; a no-op in a forked child */

/* ---- device files -------------------------------------------------------------------------------- */

/* A descriptor may be one of ours: false is certain. */
bool proc_fd_marked(int fd);
int proc_cdev_open(uint32_t dev_idx);
/* The context behind a descriptor, or NULL; it stays until proc_ctx_put. */
struct hca_ctx *proc_ctx_get(int fd);
void proc_ctx_put(struct hca_ctx *ctx);
/* Before the descriptor is closed. */
void proc_fd_closing(int fd);

/* ---- paths (vfs.c) ------------------------------------------------------------------------------- */

#define VFS_PATH_BYTES 4096u

/* Purpose: where a path of the emulated part really lies; others come back as they are. */
const char *vfs_map(const char *path, char buf[VFS_PATH_BYTES]);
/* Purpose: the reverse, in place, for what realpath and readlink give. */
void vfs_unmap(char *path);
/* The number of the device whose character device this is, or -1. */
int vfs_cdev(const char *path);
/* Purpose: before a file is opened, by whatever name: a counter is brought up to date. Returns: its name if it is one, for
 *          vfs_opened. */
const char *vfs_opening(const char *path);
/* Purpose: a counter that stays open is brought up to date before each read of it, as the kernel does. fd -1 or counter
 *          NULL: nothing happens. Thread: any. */
void vfs_opened(int fd, const char *counter);
void vfs_reading(int fd);
void vfs_closing(int fd);

#endif
