/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The private folder of a process that holds its emulated /sys and /dev: <root>/sys/...,
 * <root>/dev/... It is removed at exit; the folder of a killed process is removed by the next
 * process that starts. A lock on <root>/.lock shows that its process is alive.
 */
#ifndef SPW_SOFTHCA_TREE_H
#define SPW_SOFTHCA_TREE_H

#include "softhca/hca_obj.h"

struct tree {
	char root[96]; /* "" while there is none */
	int lock_fd;   /* locked for as long as the process lives */
};

/* Purpose: creates the folder, in /dev/shm or /tmp, after a sweep there.
 * Errors:  -errno with a text. */
int tree_make(struct tree *t);
/* Purpose: deletes the folder and all in it. No-op without one.
 * Thread:  any; async-signal-safe. */
void tree_remove(struct tree *t);
/* Purpose: deletes the folders that killed processes of this user left in `base`. Follows no
 * symbolic link, and touches only folders that this user owns, with mode 0700. */
void tree_sweep(const char *base);

/* Purpose: what the names of this user's folders begin with. */
void tree_prefix(char *buf, size_t bytes);

/* Create a file (content and a newline), a symbolic link, a folder. path is relative to the root;
 * missing parents are created. A file that exists is overwritten in place: a reader never finds it
 * empty. Errors: -errno. */
int tree_file(const struct tree *t, const char *path, const char *fmt, ...) SPW_PRINTF(3, 4);
int tree_link(const struct tree *t, const char *path, const char *target);
int tree_dir(const struct tree *t, const char *path);
/* No-op if there is no such file or link. */
void tree_unlink(const struct tree *t, const char *path);

/* ---- contents (sysfs.c) ---- */

/* Purpose: writes all files that libibverbs, libmlx5, DPDK, UCX and NCCL read about the devices.
 * Errors:  -errno with a text. */
int sysfs_build(const struct tree *t, const struct hca_dev *devs, uint32_t cnt);
/* Purpose: writes the current value of a counter, or of the port state, into its file; called
 *          before the application reads it. name: the file's name, of all devices. */
void sysfs_refresh(const struct tree *t, const struct hca_dev *devs, uint32_t cnt,
		   const char *name);
/* Purpose: the device has left the bus: its entries in classes, buses and /dev go. Idempotent. */
void sysfs_drop(const struct tree *t, const struct hca_dev *dev);
/* Purpose: links to the machine's own RDMA devices and PCI functions, beside the emulated ones.
 *          Hidden are devices that have the name of an emulated one, and PCI functions of this
 *          vendor, which DPDK would probe. */
void sysfs_link_real(const struct tree *t, const struct hca_cfg *cfg);
/* Purpose: one past the highest uverbsN of the machine; 0 if it has none. */
uint32_t sysfs_real_uverbs(void);
/* Purpose: the path of the device's PCI function, "/sys/devices/...". */
/* The PTP clocks of the devices are /dev/ptpN from here on: above those of real cards. */
#define SYSFS_PTP_FIRST 64u
void sysfs_pci_path(const struct hca_dev_cfg *id, char *buf, size_t bytes);

/* N of the device's /dev/infiniband/uverbsN; the emulated ones follow the machine's own. */
static inline uint32_t sysfs_uverbs(const struct hca_cfg *cfg, uint32_t dev_idx)
{
	return cfg->uverbs_first + dev_idx;
}

#define RDMA_CM_MAJOR              10u /* a miscellaneous device */
#define RDMA_CM_MINOR              124u
#define UVERBS_MAJOR               231u
#define UVERBS_MINOR(cfg, dev_idx) (192u + sysfs_uverbs(cfg, dev_idx))

#endif
