/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The mempool that is a view of lib/pool, and the region made known to EAL and the device.
 *
 *   slot i     lib/pool: index i of the region           payload, headroom included
 *   mbuf i     EAL memory: mbuf0 + (i << stride_log2)    header only; buf_addr = slot i, pinned
 *
 * The mempool has no list of its own: its operations are spw_pool_get and spw_pool_put, so a slot
 * that the PMD frees is in the pool at once, and the pool's count is the truth for both. got and
 * put count what passes.
 *
 *   make    elements whose stride is a power of 2 ─► operations ─► mbufs named in order ─► pinned
 *   map     region ─► registered with EAL (its first user) ─► mapped for the device's IOMMU
 *   free    the mempool's own take-down gets nothing: the slots are lib/pool's
 *
 * Thread: setup, but for the operations, which the PMD calls in the owner's bursts.
 */
#include <errno.h>
#include <inttypes.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_memory.h>
#include <rte_mempool.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "plat/spw_plat.h"
#include "port/ethdev/ethdev.h"

#define MEMPOOL_FLAGS (RTE_MEMPOOL_F_NO_SPREAD | RTE_MEMPOOL_F_SP_PUT | RTE_MEMPOOL_F_SC_GET)
#define BUF_MAX       65472u /* mbuf.buf_len has 16 bits; a whole number of cache lines */
#define OPS_BATCH     64u

/* ---- mempool operations: every slot is free in lib/pool, or out ---- */

/* The pool exists: nothing is made here. */
static int ethdev_ops_alloc(struct rte_mempool *mp)
{
	mp->pool_data = mp->pool_config;
	return 0;
}

/* The PMD allocates: all or nothing, as rte_mempool promises. */
static int ethdev_ops_dequeue(struct rte_mempool *mp, void **obj, unsigned int n)
{
	struct ethdev_queue *q = mp->pool_data;
	uint32_t slot[OPS_BATCH];

	if (spw_unlikely(n > q->pool->free_cnt || !q->mp))
		return -ENOBUFS; /* all or nothing; nothing while the mempool is taken down */
	spw_thr_count(&q->got, n);
	if (n == 1) { /* net_memif and other copying PMDs ask for one at a time */
		spw_pool_get(q->pool, slot, 1);
		obj[0] = ethdev_mbuf(q, slot[0]);
		return 0;
	}
	for (unsigned int done = 0; done < n;) {
		uint32_t k = spw_pool_get(q->pool, slot, SPW_MIN(n - done, OPS_BATCH));

		for (uint32_t i = 0; i < k; i++)
			obj[done++] = ethdev_mbuf(q, slot[i]);
	}
	return 0;
}

/* The PMD frees, in its receive or transmit call or in its clean-up; all of them on the owner's
 * thread. */
static int ethdev_ops_enqueue(struct rte_mempool *mp, void *const *obj, unsigned int n)
{
	struct ethdev_queue *q = mp->pool_data;
	uint32_t slot[OPS_BATCH];

	for (unsigned int done = 0; done < n;) {
		uint32_t k = 0;

		while (k < OPS_BATCH && done < n)
			slot[k++] = (uint32_t)ethdev_slot(q, obj[done++]);
		spw_pool_put(q->pool, slot, k);
	}
	spw_thr_count(&q->put, n);
	return 0;
}

/* Sampled: other threads may ask. */
static unsigned int ethdev_ops_count(const struct rte_mempool *mp)
{
	const struct ethdev_queue *q = mp->pool_data;

	return spw_thr_load_rlx(&q->pool->free_cnt);
}

/* Names the objects in order, so that object i is slot i; the pool already holds them all as free.
 */
static int ethdev_ops_populate(struct rte_mempool *mp, unsigned int max, void *va, rte_iova_t iova,
			       size_t len, rte_mempool_populate_obj_cb_t *name, void *arg)
{
	struct ethdev_queue *q = mp->pool_data;
	size_t stride = (size_t)mp->header_size + mp->elt_size + mp->trailer_size;
	unsigned int cnt = (unsigned int)SPW_MIN(max, len / stride);

	q->mbuf0 = (uint8_t *)va + mp->header_size;
	for (unsigned int i = 0; i < cnt; i++) {
		size_t off = i * stride + mp->header_size;

		name(mp, arg, (uint8_t *)va + off,
		     iova == RTE_BAD_IOVA ? RTE_BAD_IOVA : iova + off);
	}
	return (int)cnt;
}

static const struct rte_mempool_ops ethdev_mempool_ops = {
	.name = ETHDEV_MEMPOOL_OPS,
	.alloc = ethdev_ops_alloc,
	.enqueue = ethdev_ops_enqueue,
	.dequeue = ethdev_ops_dequeue,
	.get_count = ethdev_ops_count,
	.populate = ethdev_ops_populate,
};
RTE_MEMPOOL_REGISTER_OPS(ethdev_mempool_ops);

/* ---- making it ---- */

/* The element size that makes the stride a power of 2. */
static uint32_t ethdev_elt_bytes(uint32_t *stride_log2_out)
{
	uint32_t elt = sizeof(struct rte_mbuf) + sizeof(struct rte_mbuf_ext_shared_info);
	struct rte_mempool_objsz sz;
	uint32_t stride = spw_pow2_ceil32(rte_mempool_calc_obj_size(elt, MEMPOOL_FLAGS, &sz));

	elt = stride - sz.header_size - (sz.total_size - sz.header_size - sz.elt_size);
	*stride_log2_out = spw_log2_floor64(rte_mempool_calc_obj_size(elt, MEMPOOL_FLAGS, &sz));
	return elt;
}

/* Called when the last clone of a pinned buffer (rte_pktmbuf_attach by a PMD) outlived the mbuf's
 * own free: only now may the slot be used again. */
static void ethdev_last_clone_freed(void *addr SPW_UNUSED, void *mbuf)
{
	struct rte_mbuf *m = mbuf;

	rte_mbuf_ext_refcnt_set(m->shinfo, 1);
	m->ol_flags = RTE_MBUF_F_EXTERNAL;
	m->next = NULL;
	m->nb_segs = 1;
	rte_mbuf_raw_free(m);
}

/* What never changes of an mbuf: the buffer it is pinned to, one reference, one segment. */
static void ethdev_init_mbuf(struct rte_mempool *mp, void *arg, void *obj, unsigned int idx)
{
	struct ethdev_queue *q = arg;
	struct rte_mbuf *m = obj;
	struct rte_mbuf_ext_shared_info *info = (void *)(m + 1);
	uint8_t *addr = spw_pool_slot_addr(q->pool, idx);

	memset(m, 0, sizeof(*m));
	m->pool = mp;
	m->buf_addr = addr;
	m->buf_len = rte_pktmbuf_data_room_size(mp);
	rte_mbuf_iova_set(m, rte_eal_iova_mode() == RTE_IOVA_VA ? (rte_iova_t)(uintptr_t)addr
								: rte_mem_virt2iova(addr));
	m->data_off = RTE_PKTMBUF_HEADROOM;
	m->nb_segs = 1;
	m->port = RTE_MBUF_PORT_INVALID;
	m->ol_flags = RTE_MBUF_F_EXTERNAL;
	rte_mbuf_refcnt_set(m, 1);
	m->shinfo = info;
	info->free_cb = ethdev_last_clone_freed;
	info->fcb_opaque = m;
	rte_mbuf_ext_refcnt_set(info, 1);
}

/* EAL calls it when the mempool is freed. */
static void ethdev_free_chunk(struct rte_mempool_memhdr *chunk, void *arg SPW_UNUSED)
{
	rte_free(chunk->addr);
}

/* The mbufs lie in EAL's memory, the payloads in the region. With no IO address at all the mempool
 * would be marked RTE_MEMPOOL_F_NON_IO, and net_mlx5 registers no memory of such a one. */
static int ethdev_populate(struct ethdev_queue *q, int socket)
{
	size_t stride = (size_t)1 << q->stride_log2;
	size_t bytes = q->slot_cnt * stride;
	void *va = rte_zmalloc_socket("spinwire mbufs", bytes, SPW_CACHE_LINE, socket);
	int cnt;

	if (!va)
		return spw_err(
			ENOMEM,
			"EAL has no %zu MiB for %u mbufs: give it more memory (-m, --socket-mem)",
			(bytes >> 20) + 1, q->slot_cnt);
	cnt = rte_mempool_populate_iova(q->mp, va, rte_malloc_virt2iova(va), bytes,
					ethdev_free_chunk, NULL);
	if (cnt == (int)q->slot_cnt)
		return 0;
	if (cnt <= 0)
		rte_free(va);
	return spw_err(EIO, "rte_mempool_populate_iova gave %d of %u mbufs", cnt, q->slot_cnt);
}

/* With physical addresses a slot must not cross into a page that lies elsewhere. */
static int ethdev_check_iova(const struct ethdev_queue *q)
{
	if (rte_eal_iova_mode() == RTE_IOVA_VA || !q->port->is_dma)
		return 0;
	for (uint32_t i = 0; i < q->slot_cnt; i++) {
		uint8_t *addr = spw_pool_slot_addr(q->pool, i);
		size_t last = q->pool->slot_bytes - 1;

		if (rte_mem_virt2iova(addr + last) - rte_mem_virt2iova(addr) != last)
			return spw_err(ENOTSUP,
				       "slot %u is not contiguous in physical memory: use an IOMMU "
				       "(vfio-pci, "
				       "--iova-mode=va) or hugepages",
				       i);
	}
	return 0;
}

/* On an error all is undone. */
int ethdev_pool_make(struct ethdev_queue *q, const struct spw_port_queue_conf *conf)
{
	struct rte_pktmbuf_pool_private priv = {
		.mbuf_data_room_size = (uint16_t)SPW_MIN(conf->pool->slot_bytes, BUF_MAX),
		.flags = RTE_PKTMBUF_POOL_F_PINNED_EXT_BUF,
	};
	int socket = conf->numa_node >= 0 && rte_socket_count() > 1 ? conf->numa_node
								    : SOCKET_ID_ANY;
	uint32_t elt = ethdev_elt_bytes(&q->stride_log2);
	char name[RTE_MEMPOOL_NAMESIZE];
	int rc;

	q->pool = conf->pool;
	q->slot_cnt = conf->pool->slot_cnt;
	rc = ethdev_check_iova(q);
	if (rc)
		return rc;
	snprintf(name, sizeof(name), "spinwire_%u_%u", q->port_id, q->queue_id);
	q->mp = rte_mempool_create_empty(name, q->slot_cnt, elt, 0, sizeof(priv), socket,
					 MEMPOOL_FLAGS);
	if (!q->mp)
		return spw_err(rte_errno, "rte_mempool_create_empty(%s): %s", name,
			       rte_strerror(rte_errno));
	rc = rte_mempool_set_ops_byname(q->mp, ETHDEV_MEMPOOL_OPS, q);
	if (rc)
		rc = spw_err(-rc, "mempool operations '%s': %s", ETHDEV_MEMPOOL_OPS,
			     rte_strerror(-rc));
	if (!rc) {
		rte_pktmbuf_pool_init(q->mp, &priv);
		rc = ethdev_populate(q, socket);
	}
	if (rc)
		ethdev_pool_free(q);
	else
		rte_mempool_obj_iter(q->mp, ethdev_init_mbuf, q);
	return rc;
}

void ethdev_pool_free(struct ethdev_queue *q)
{
	struct rte_mempool *mp = q->mp;

	q->mp = NULL; /* rte_mempool_free takes every object out: ethdev_ops_dequeue refuses */
	rte_mempool_free(mp);
}

/* ---- regions ---- */

static uint32_t
	extmem_users[SPW_REGION_MAX]; /* devices that use a registered region; setup thread */

/* A table of each page's address, because only the registrar knows them. */
static int ethdev_extmem_register(const struct spw_region *region)
{
	size_t pages = region->bytes / region->page_bytes;
	rte_iova_t *iova = malloc(pages * sizeof(*iova));
	int rc;

	if (!iova)
		return spw_err(ENOMEM, "no memory to list %zu pages", pages);
	for (size_t i = 0; i < pages; i++) {
		uint8_t *va = region->host_va + i * region->page_bytes;

		iova[i] = rte_eal_iova_mode() == RTE_IOVA_VA ? (rte_iova_t)(uintptr_t)va
							     : rte_mem_virt2iova(va);
	}
	rc = rte_extmem_register(region->host_va, region->bytes, iova, (unsigned int)pages,
				 region->page_bytes);
	free(iova);
	return rc ? spw_err(rte_errno, "rte_extmem_register of %zu MiB in pages of %zu KiB: %s",
			    region->bytes >> 20, region->page_bytes >> 10, rte_strerror(rte_errno))
		  : 0;
}

static int ethdev_map_failed(const struct spw_region *region, int code)
{
	char why[SPW_PLAT_PIN_BYTES] = "";

	if (code == ENOMEM)
		spw_plat_pin_blame(NULL, region->bytes, why, sizeof(why));
	return spw_err(code, "rte_dev_dma_map of %zu MiB: %s%s%s", region->bytes >> 20,
		       rte_strerror(code), why[0] ? ": " : "", why);
}

/* Registering is per process, mapping per device: the region is registered with its first user. */
int ethdev_region_map(struct rte_device *device, const struct spw_region *region)
{
	rte_iova_t iova = (rte_iova_t)(uintptr_t)region->host_va;
	int rc = extmem_users[region->id] ? 0 : ethdev_extmem_register(region);

	if (rc)
		return rc;
	extmem_users[region->id]++;
	if (rte_eal_iova_mode() != RTE_IOVA_VA) /* no IOMMU to program */
		return 0;
	if (rte_dev_dma_map(device, region->host_va, iova, region->bytes) == 0 ||
	    rte_errno == ENOTSUP)
		return 0; /* ENOTSUP: the bus has no mapping of its own */
	rc = ethdev_map_failed(region, rte_errno);
	if (--extmem_users[region->id] == 0)
		rte_extmem_unregister(region->host_va, region->bytes);
	return rc;
}

/* The last user ends the registration. */
void ethdev_region_unmap(struct rte_device *device, const struct spw_region *region)
{
	if (rte_eal_iova_mode() == RTE_IOVA_VA)
		rte_dev_dma_unmap(device, region->host_va, (rte_iova_t)(uintptr_t)region->host_va,
				  region->bytes);
	if (--extmem_users[region->id] == 0)
		rte_extmem_unregister(region->host_va, region->bytes);
}
