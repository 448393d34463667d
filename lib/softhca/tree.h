/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The private folder that a process's emulated /sys and /dev lie in: <root>/sys/..., <root>/dev/...
 * Gone at exit; what a killed process leaves is removed by the next one that starts.
 */
#ifndef SPW_SOFTHCA_TREE_H
#define SPW_SOFTHCA_TREE_H

#include "softhca/hca_obj.h"

struct tree {
	char root[96]; /* "" while there is none */
	int lock_fd;   /* held for as long as the process lives */
};

/* Errors: -errno with a text. */
int tree_make(struct tree *t);
void tree_remove(struct tree *t);

/* path is relative to root; missing folders are made. Errors: -errno. */
int tree_file(const struct tree *t, const char *path, const char *fmt, ...) SPW_PRINTF(3, 4);
int tree_link(const struct tree *t, const char *path, const char *target);
int tree_dir(const struct tree *t, const char *path);

/* ---- contents (sysfs.c) -------------------------------------------------------------------------- */

/* Purpose: everything that libibverbs, libmlx5, DPDK, UCX and NCCL look for. Errors: -errno with a text. */
int sysfs_build(const struct tree *t, const struct hca_dev *devs, uint32_t cnt);
/* Purpose: before a file called `name` is opened: counters and the port state are written anew. */
void sysfs_refresh(const struct tree *t, const struct hca_dev *devs, uint32_t cnt, const char *name);
/* Purpose: the machine's own RDMA devices and PCI functions beside ours, as links. What has the name of one of ours stays
 *          hidden, and so do PCI functions of this vendor: DPDK would take them. */
void sysfs_link_real(const struct tree *t, const struct hca_cfg *cfg);
/* Purpose: one past the highest uverbsN of the machine; 0 if it has none. */
uint32_t sysfs_real_uverbs(void);
/* "/sys/devices/..." of the device's PCI function. */
void sysfs_pci_path(const struct hca_dev_cfg *id, char *buf, size_t bytes);

/* The number in /dev/infiniband/uverbsN: ours come after the machine's own. */
static inline uint32_t sysfs_uverbs(const struct hca_cfg *cfg, uint32_t dev_idx)
{
	return cfg->uverbs_first + dev_idx;
}

#define UVERBS_MAJOR 231u
#define UVERBS_MINOR(cfg, dev_idx) (192u + sysfs_uverbs(cfg, dev_idx))

#endif
