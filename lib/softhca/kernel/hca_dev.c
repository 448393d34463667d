/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Devices, and tables that map numbers to objects (handles, QPNs, CQNs, keys).
 *
 *   hca_devs_open    struct hca_chip; for each device: nic_attach (cable, identity) --> GIDs
 *   hca_devs_close   for each device: contexts --> nic_detach --> tables; then the chip
 *
 * preload/proc.c opens them on first use. The devices of a process are one array, so that each can
 * find the others (hca_first); the chip has what they share: ports, PCIe links, the plug.
 *
 * What to know before changing it: the NIC looks a number up for every frame and WQE (hca_tbl_get),
 * so a table is an array by number, and grows by doubling with the device lock held.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "softhca/kernel/ctl.h"
#include "softhca/kernel/devx_events.h"
#include "softhca/nic/nic.h"

/* In Linux's order: link-local, then IPv4-mapped; of each, RoCE v1 before v2. */
static void dev_derive_gids(struct hca_dev *dev)
{
	const uint8_t *m = dev->id.mac;
	const uint8_t local[16] = {0xfe,     0x80, 0,    0,    0,    0,    0,    0,
				   m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]};
	const uint8_t *ip = dev->id.ip;
	const uint8_t mapped[16] = {0, 0, 0,    0,    0,     0,     0,     0,
				    0, 0, 0xff, 0xff, ip[0], ip[1], ip[2], ip[3]};

	for (uint32_t i = 0; i < HCA_GID_CNT; i++)
		memcpy(dev->gid[i], i < 2 ? local : mapped, 16);
}

/* An error-checking mutex: exit() from a signal handler that interrupted a command gets EDEADLK
 * instead of waiting for itself (nic_leave). */
static void dev_mutex_init(pthread_mutex_t *mutex)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(mutex, &attr);
	pthread_mutexattr_destroy(&attr);
}

/* The first function with the same PCI domain and bus: they share one link. */
static uint32_t dev_pcie(const struct hca_cfg *cfg, uint32_t idx)
{
	uint32_t i = 0;

	while (cfg->dev[i].pci_domain != cfg->dev[idx].pci_domain ||
	       cfg->dev[i].pci_bus != cfg->dev[idx].pci_bus)
		i++;
	return i;
}

/* The cable may settle the identity (MAC, IP) while it attaches, so GIDs are derived after it. */
static int dev_init(struct hca_dev *dev, const struct hca_cfg *cfg, uint32_t idx,
		    struct hca_chip *chip)
{
	int rc;

	dev->idx = idx;
	dev->chip = chip;
	dev->pcie = dev_pcie(cfg, idx);
	dev->cfg = cfg;
	dev->id = cfg->dev[idx];
	dev->mtu_bytes = cfg->mtu_bytes;
	dev->link_up = 1;
	dev_mutex_init(&dev->mutex);
	pthread_mutex_init(&dev->ev_mutex, NULL);
	rc = nic_attach(dev);
	if (rc)
		return spw_err_ctx(rc, "%s", dev->id.name);
	dev_derive_gids(dev);
	return 0;
}

/* After a failure the devices that were opened are closed again. */
int hca_devs_open(const struct hca_cfg *cfg, struct hca_dev **devs_out)
{
	struct hca_dev *devs = calloc(cfg->dev_cnt, sizeof(*devs));
	struct hca_chip *chip = calloc(1, sizeof(*chip));
	int rc;

	if (!devs || !chip) {
		free(devs);
		free(chip);
		return spw_err(ENOMEM, "no memory for %u devices", cfg->dev_cnt);
	}
	for (uint32_t i = 0; i < cfg->dev_cnt; i++) {
		rc = dev_init(&devs[i], cfg, i, chip);
		if (rc) {
			hca_devs_close(devs, i);
			return rc;
		}
	}
	*devs_out = devs;
	return 0;
}

/* Contexts first: their objects refer to the NIC's part of the device. */
void hca_devs_close(struct hca_dev *devs, uint32_t cnt)
{
	struct hca_chip *chip = devs[0].chip;

	for (uint32_t i = 0; i < cnt; i++) {
		struct hca_dev *d = &devs[i];
		struct hca_tbl *t[] = {&d->qps, &d->cqs,  &d->srqs,  &d->wqs,
				       &d->mrs, &d->uars, &d->q_cnts};

		while (d->ctxs)
			hca_ctx_close(d->ctxs);
		nic_detach(d);
		for (uint32_t k = 0; k < SPW_ARRAY_CNT(t); k++)
			hca_tbl_free(t[k]);
		devx_files_free(d);
		pthread_mutex_destroy(&d->ev_mutex);
		pthread_mutex_destroy(&d->mutex);
	}
	free(devs);
	free(chip);
}

/* At exit, perhaps in a signal handler: nothing is freed. */
void hca_devs_leave(struct hca_dev *devs, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++)
		nic_leave(&devs[i]);
}

/* The layout in which query_device reports it. */
uint64_t hca_fw_ver(const struct hca_dev *dev)
{
	const struct hca_card *card = dev->cfg->card;

	return (uint64_t)card->fw_major << 32 | (uint64_t)card->fw_minor << 16 | card->fw_sub;
}

/* The MAC with ff:fe in its middle. Unlike in a GID the bit of local addresses is not flipped. */
void hca_node_guid(const struct hca_dev *dev, uint8_t guid_out[8])
{
	const uint8_t *m = dev->id.mac;
	const uint8_t g[8] = {m[0], m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]};

	memcpy(guid_out, g, sizeof(g));
}

/* A card with fixed functions has one, its first function's, by which programs find out that they
 * belong together. */
void hca_system_guid(const struct hca_dev *dev, uint8_t guid_out[8])
{
	hca_node_guid(dev->cfg->card->func_cnt ? hca_first(dev) : dev, guid_out);
}

/* Of the port, which two functions may share; a fault can lower it while programs run. */
uint32_t hca_speed_mbps(const struct hca_dev *dev)
{
	return spw_thr_load_rlx(&dev->chip->port[dev->id.port].speed_mbps);
}

/* A failure leaves the table as it was: one array may be longer than cap says. */
static int tbl_grow(struct hca_tbl *t, uint32_t cap)
{
	void **slot = realloc(t->slot, cap * sizeof(*slot));
	uint8_t *tag;

	if (!slot)
		return -ENOMEM;
	t->slot = slot;
	tag = realloc(t->tag, cap);
	if (!tag)
		return -ENOMEM;
	t->tag = tag;
	memset(slot + t->cap, 0, (cap - t->cap) * sizeof(*slot));
	memset(tag + t->cap, 0, cap - t->cap);
	t->cap = cap;
	return 0;
}

/* Numbers below `first` are reserved: 0, or what the specification gives a meaning. */
int hca_tbl_add(struct hca_tbl *t, void *obj, uint32_t first, uint32_t max_log2, uint32_t *idx_out)
{
	uint32_t idx;

	/* At least half of the table is free: the search below is short, and a number is not
	 * reused at once. */
	if (t->used + first >= t->cap / 2 && t->cap < 1u << max_log2 &&
	    tbl_grow(t, SPW_MAX(t->cap * 2, 256u)))
		return -ENOMEM;
	if (t->used + first >= t->cap)
		return -ENOMEM;
	for (idx = t->cursor; idx < first || t->slot[idx]; idx = (idx + 1) & (t->cap - 1))
		;
	t->cursor = (idx + 1) & (t->cap - 1);
	t->slot[idx] = obj;
	t->used++;
	*idx_out = idx;
	return 0;
}

/* The tag stays, so that the next key of this index differs from the last one. */
void hca_tbl_del(struct hca_tbl *t, uint32_t idx)
{
	if (hca_tbl_get(t, idx)) {
		t->slot[idx] = NULL;
		t->used--;
	}
}

void hca_tbl_free(struct hca_tbl *t)
{
	free(t->slot);
	free(t->tag);
	memset(t, 0, sizeof(*t));
}
