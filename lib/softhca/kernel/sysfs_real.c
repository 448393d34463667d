/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The machine's own devices in the emulated /sys and /dev: links to their real files. A program
 * finds them beside the emulated ones and uses them through the kernel; this library is not
 * involved.
 *
 *   real entry                    link in the private folder, at the same path, to the real file
 *   name of an emulated device    hidden: the emulated one is there
 *   PCI function of this vendor   hidden: a driver that scans the bus would probe it
 *
 * sysfs_build() calls this once; a device that appears later is not found. What to know before
 * changing it: opendir() and realpath() are interposed here too, and reach the real folders only
 * because the devices are just being made (preload/proc.c, `inside`).
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "softhca/hca_real.h"
#include "softhca/kernel/tree.h"

#define CLASS_VERBS "/sys/class/infiniband_verbs"
#define BUS_PCI     "/sys/bus/pci/devices"

/* The first word of a file; "" if there is none. */
static void real_read_word(const char *folder, const char *entry, const char *file, char *word,
			   size_t bytes)
{
	char path[300];
	ssize_t n = 0;
	int fd;

	snprintf(path, sizeof(path), "%s/%.64s/%s", folder, entry, file);
	fd = real_open(path, O_RDONLY | O_CLOEXEC, 0);
	if (fd >= 0) {
		n = read(fd, word, bytes - 1);
		real_close(fd);
	}
	word[SPW_MAX(n, (ssize_t)0)] = 0;
	word[strcspn(word, " \n")] = 0;
}

/* Is this entry of a real folder left out? */
typedef bool hide_fn(const struct hca_cfg *cfg, const char *entry);

static bool real_hide_pci(const struct hca_cfg *cfg, const char *entry)
{
	char vendor[16];

	(void)cfg;
	real_read_word(BUS_PCI, entry, "vendor", vendor, sizeof(vendor));
	return strcmp(vendor, "0x15b3") == 0;
}

static bool real_hide_class(const struct hca_cfg *cfg, const char *entry)
{
	for (uint32_t i = 0; i < cfg->dev_cnt; i++)
		if (strcmp(cfg->dev[i].name, entry) == 0)
			return true;
	return false;
}

static bool real_hide_verbs(const struct hca_cfg *cfg, const char *entry)
{
	char name[64];

	real_read_word(CLASS_VERBS, entry, "ibdev", name, sizeof(name));
	return !name[0] || real_hide_class(cfg, name); /* no name: the file abi_version */
}

static bool real_hide_net(const struct hca_cfg *cfg, const char *entry)
{
	for (uint32_t i = 0; i < cfg->dev_cnt; i++)
		if (strcmp(cfg->dev[i].netdev, entry) == 0)
			return true;
	return false;
}

static bool real_hide_nothing(const struct hca_cfg *cfg, const char *entry)
{
	(void)cfg;
	(void)entry;
	return false;
}

/* The link leads to the resolved path: a link to the class entry would lead back to itself. */
static void real_link_entry(const struct tree *t, const char *folder, const char *entry)
{
	char path[300], target[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%.64s", folder, entry);
	if (realpath(path, target))
		tree_link(t, path + 1, target);
}

/* A folder that the machine does not have is no error. */
static void real_link_folder(const struct tree *t, const struct hca_cfg *cfg, const char *folder,
			     hide_fn *hide)
{
	DIR *dir = opendir(folder);
	struct dirent *e;

	while (dir && (e = readdir(dir)))
		if (e->d_name[0] != '.' && !hide(cfg, e->d_name))
			real_link_entry(t, folder, e->d_name);
	if (dir)
		closedir(dir);
}

/* Interfaces only for a card that brings its own: else programs read the real folder. */
void sysfs_link_real(const struct tree *t, const struct hca_cfg *cfg)
{
	real_link_folder(t, cfg, BUS_PCI, real_hide_pci);
	real_link_folder(t, cfg, "/sys/class/infiniband", real_hide_class);
	real_link_folder(t, cfg, CLASS_VERBS, real_hide_verbs);
	real_link_folder(t, cfg, "/dev/infiniband", real_hide_nothing);
	if (cfg->dev[0].netdev_emulated)
		real_link_folder(t, cfg, "/sys/class/net", real_hide_net);
}

/* preload/proc.c asks before paths are mapped, so this reads the real folder. */
uint32_t sysfs_real_uverbs(void)
{
	DIR *dir = opendir(CLASS_VERBS);
	uint32_t past = 0, n;
	struct dirent *e;

	while (dir && (e = readdir(dir)))
		if (sscanf(e->d_name, "uverbs%u", &n) == 1)
			past = SPW_MAX(past, n + 1);
	if (dir)
		closedir(dir);
	return past;
}
