/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Which paths are emulated, and where they are: under the private folder of the process
 * (kernel/tree.h). Whole folders are emulated where libibverbs lists devices
 * (/sys/class/infiniband, /dev/infiniband, /sys/bus/pci/devices), elsewhere only paths that lead to
 * one of our PCI functions. Any other path costs a comparison of a few bytes.
 *
 *   path                                     emulated
 *   /sys/class/infiniband, ..._verbs         all of it, as /sys/class/misc/rdma_cm
 *   /sys/class/net                           all of it, if the card brings its interfaces
 *   /sys/bus/pci/devices                     the listing, and our functions
 *   /sys/devices/pci...                      our functions; folders above them that are not real
 *   /dev/infiniband, its uverbsN, /dev/ptpN  the listing, and our devices; rdma_cm
 *
 * Every interposed function of preload.c and stat.c that takes a path asks vfs_map() first. What to
 * know before changing it: it decides by the text of the path alone. Relative paths, descriptors of
 * folders (openat) and links are not followed; a program that walks from an emulated folder stays
 * in it, since the links between emulated folders are relative (kernel/sysfs.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "softhca/hca_real.h"
#include "softhca/preload/proc.h"

#define DIR_CLASS "/sys/class/infiniband"
#define DIR_VERBS "/sys/class/infiniband_verbs"
#define DIR_PCI   "/sys/bus/pci/devices"
#define DIR_NET   "/sys/class/net"
#define DIR_DEVS  "/sys/devices/pci"
#define DIR_DEV   "/dev/infiniband"
#define CDEV      DIR_DEV "/uverbs"
#define CMA       DIR_DEV "/rdma_cm"
#define DIR_CMA   "/sys/class/misc/rdma_cm"
#define PTP       "/dev/ptp"

/* Three comparisons: the beginning of a path, the folder itself, the folder and all below it. */
static bool path_starts(const char *path, const char *with)
{
	return strncmp(path, with, strlen(with)) == 0;
}

static bool path_is(const char *path, const char *folder)
{
	const size_t n = strlen(folder);

	return path_starts(path, folder) && (!path[n] || (path[n] == '/' && !path[n + 1]));
}

static bool path_is_within(const char *path, const char *folder)
{
	const size_t n = strlen(folder);

	return path_starts(path, folder) && (!path[n] || path[n] == '/');
}

/* The path has a component that is the PCI address of one of our functions. */
static bool path_names_our_pci(const char *path, const struct hca_cfg *cfg)
{
	for (uint32_t i = 0; i < cfg->dev_cnt; i++) {
		const struct hca_dev_cfg *d = &cfg->dev[i];
		char bdf[32];
		const char *at;
		size_t n = (size_t)snprintf(bdf, sizeof(bdf), "/%04x:%02x:%02x.%x", d->pci_domain,
					    d->pci_bus, d->pci_dev, d->pci_func);

		at = strstr(path, bdf);
		if (at && (at[n] == 0 || at[n] == '/'))
			return true;
	}
	return false;
}

/* A folder above one of our PCI functions that does not exist on the machine itself. */
static bool path_is_above_our_pci(const char *path, const struct hca_cfg *cfg)
{
	size_t n = strlen(path);

	for (uint32_t i = 0; i < cfg->dev_cnt; i++) {
		char pci[128];

		sysfs_pci_path(&cfg->dev[i], pci, sizeof(pci));
		if (strncmp(pci, path, n) == 0 && pci[n] == '/')
			return !real_exists(path);
	}
	return false;
}

/* The numbers of our device files begin behind those of the real ones (uverbs_first). */
int vfs_cdev(const char *path)
{
	const struct hca_cfg *cfg = proc_cfg();
	char *end;
	unsigned long n;

	if (!path || !cfg || !path_starts(path, DIR_DEV))
		return -1;
	if (strcmp(path, CMA) == 0)
		return PROC_CMA;
	if (!path_starts(path, CDEV))
		return -1;
	n = strtoul(path + strlen(CDEV), &end, 10);
	if (end == path + strlen(CDEV) || *end || n < cfg->uverbs_first ||
	    n - cfg->uverbs_first >= cfg->dev_cnt)
		return -1;
	return (int)(n - cfg->uverbs_first);
}

static bool path_is_our_ptp(const char *path, const struct hca_cfg *cfg)
{
	char *end;
	const unsigned long n = strtoul(path + strlen(PTP), &end, 10);

	return !*end && n >= SYSFS_PTP_FIRST && n - SYSFS_PTP_FIRST < cfg->dev_cnt;
}

/* By where the descriptor leads to, since its file is a real one in the private folder. */
bool vfs_is_ptp(int fd)
{
	struct proc *p = proc_ready();
	char link[32], path[VFS_PATH_BYTES];
	size_t root;
	ssize_t n;

	if (!p)
		return false;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	path[SPW_MAX(n, 0)] = 0;
	root = strlen(p->tree.root);
	return strncmp(path, p->tree.root, root) == 0 && path_starts(path + root, PTP);
}

/* The first test is the cheap one, and nearly every path of a program ends there. */
static bool path_is_emulated(const char *path)
{
	const struct hca_cfg *cfg = proc_cfg();

	if (path[0] != '/' ||
	    !(path_starts(path, "/sys/") || path_starts(path, DIR_DEV) || path_starts(path, PTP)) ||
	    !cfg)
		return false;
	if (path_starts(path, PTP))
		return path_is_our_ptp(path, cfg);
	if (path_is_within(path, DIR_CLASS) || path_is_within(path, DIR_VERBS) ||
	    path_is_within(path, DIR_CMA) || path_is(path, DIR_DEV) || path_is(path, DIR_PCI))
		return true;
	if (path_is_within(path, DIR_NET))
		return cfg->dev[0].netdev_emulated;
	if (path_starts(path, DIR_DEV))
		return vfs_cdev(path) >= 0;
	if (!path_starts(path, DIR_PCI "/") && !path_starts(path, DIR_DEVS))
		return false;
	return path_names_our_pci(path, cfg) || path_is_above_our_pci(path, cfg);
}

/* Functions that have left the bus are not listed any more. */
static void drop_gone(const struct proc *p)
{
	for (uint32_t i = 0; i < p->cfg.dev_cnt; i++)
		if (spw_unlikely(hca_is_gone(&p->devs[i])))
			sysfs_drop(&p->tree, &p->devs[i]);
}

/* A path that would be too long passes unmapped. */
const char *vfs_map(const char *path, char buf[VFS_PATH_BYTES])
{
	struct proc *p;

	if (!path || !path_is_emulated(path))
		return path;
	p = proc_get();
	if (!p)
		return path;
	drop_gone(p);
	if ((size_t)snprintf(buf, VFS_PATH_BYTES, "%s%s", p->tree.root, path) >= VFS_PATH_BYTES)
		return path;
	return buf;
}

/* The root may be in /tmp or in /dev/shm, so the test is for the name of the folder. */
void vfs_unmap(char *path)
{
	struct proc *p = path && strstr(path, "/spw-softhca-") ? proc_ready() : NULL;
	size_t n = p ? strlen(p->tree.root) : 0;

	if (p && strncmp(path, p->tree.root, n) == 0 && path[n] == '/')
		memmove(path, path + n, strlen(path + n) + 1);
}

/* The name as a constant, or NULL. */
static const char *counter_name(const char *name)
{
	static const char *const names[] = {
#define NAME(n) #n,
		HCA_PORT_CNT(NAME) HCA_HW_CNT(NAME)
#undef NAME
			"state",
		"phys_state",
		"rate",
		"carrier",
		"operstate",
		"speed"};

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(names); i++)
		if (strcmp(name, names[i]) == 0)
			return names[i];
	return NULL;
}

/* All devices are written: the name of the file does not say whose it is. */
static void vfs_refresh(const char *counter)
{
	struct proc *p = proc_ready();

	if (p)
		sysfs_refresh(&p->tree, p->devs, p->cfg.dev_cnt, counter);
}

/* By the last part of the path only. A file of that name elsewhere costs a write of ours. */
const char *vfs_opening(const char *path)
{
	const char *name = path ? strrchr(path, '/') : NULL;

	name = name ? name + 1 : path;
	name = name ? counter_name(name) : NULL;
	if (name)
		vfs_refresh(name);
	return name;
}

/* ---- counters that stay open: each read returns the value of that moment ---- */

#define WATCH_CNT 64u

/* fd1: fd + 1; 0: free entry, -1: being filled in. */
static struct {
	int32_t fd1;
	const char *counter;
} watched[WATCH_CNT];
static uint32_t watched_cnt;

void vfs_opened(int fd, const char *counter)
{
	for (uint32_t i = 0; fd >= 0 && counter && i < WATCH_CNT; i++) {
		int32_t none = 0;

		if (!spw_thr_cas(&watched[i].fd1, &none, -1))
			continue;
		watched[i].counter = counter;
		spw_thr_fetch_add(&watched_cnt, 1u);
		/* [W1 release, pairs with W2: the counter's name is valid] */
		spw_thr_store_rel(&watched[i].fd1, fd + 1);
		return;
	}
}

/* A program that watches no counter pays one load here for each read. */
void vfs_reading(int fd)
{
	if (spw_likely(!spw_thr_load_rlx(&watched_cnt)))
		return;
	for (uint32_t i = 0; i < WATCH_CNT; i++)
		if (spw_thr_load_acq(&watched[i].fd1) == fd + 1) /* [W2 acquire, pairs with W1] */
			vfs_refresh(watched[i].counter);
}

void vfs_closing(int fd)
{
	if (spw_likely(!spw_thr_load_rlx(&watched_cnt)))
		return;
	for (uint32_t i = 0; i < WATCH_CNT; i++) {
		int32_t mine = fd + 1;

		if (spw_thr_cas(&watched[i].fd1, &mine, 0))
			spw_thr_fetch_add(&watched_cnt, -1u);
	}
}
