/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Host mappings, of hugepages or plain pages: mapped, preferred on a NUMA node, populated and
 * locked before the data path starts, so that it never takes a page fault.
 *
 * The size of hugepages and the number of free ones come from /sys/kernel/mm/hugepages and, for a
 * given node, /sys/devices/system/node (Linux Documentation/admin-guide/mm/hugetlbpage.rst).
 *
 * Order of the steps, each of which needs the one before it:
 *
 *   map ─► prefer the node ─► no fork ─► populate (first write places the page) ─► lock ─► verify
 *
 * A page's node is decided when it is first written, so the policy must be set before it is
 * populated.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <numa.h>
#include <numaif.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "mem/mem_impl.h"
#include "plat/spw_plat.h"

#define MAP_HUGE_SHIFT_BITS 26 /* MAP_HUGE_SHIFT of <linux/mman.h> */
/* The alignment that lets plain pages become transparent hugepages. */
#define THP_BYTES (2ul << 20)
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

static bool host_read_u64(const char *path, uint64_t *value_out)
{
	FILE *f = fopen(path, "re");
	bool ok;

	if (!f)
		return false;
	ok = fscanf(f, "%" SCNu64, value_out) == 1;
	fclose(f);
	return ok;
}

/* UINT64_MAX where it cannot be read: then the kernel itself decides. */
static uint64_t host_available_bytes(void)
{
	char line[128];
	uint64_t kib = UINT64_MAX >> 10;
	FILE *f = fopen("/proc/meminfo", "re");

	if (!f)
		return UINT64_MAX;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
			break;
	fclose(f);
	return kib << 10;
}

/* Free hugepages of one size, on the node if one is wanted. Reserved ones are counted as free by
 * the kernel but belong to somebody else. */
static uint64_t host_huge_free(uint64_t page_kib, int numa_node)
{
	char path[160];
	uint64_t free_cnt, reserved = 0;

	if (numa_node >= 0) {
		snprintf(path, sizeof(path),
			 "/sys/devices/system/node/node%d/hugepages/hugepages-%" PRIu64
			 "kB/free_hugepages",
			 numa_node, page_kib);
		if (host_read_u64(path, &free_cnt))
			return free_cnt;
	}
	snprintf(path, sizeof(path),
		 "/sys/kernel/mm/hugepages/hugepages-%" PRIu64 "kB/free_hugepages", page_kib);
	if (!host_read_u64(path, &free_cnt))
		return 0;
	snprintf(path, sizeof(path),
		 "/sys/kernel/mm/hugepages/hugepages-%" PRIu64 "kB/resv_hugepages", page_kib);
	host_read_u64(path, &reserved);
	return free_cnt > reserved ? free_cnt - reserved : 0;
}

/* The largest page size that has enough free pages and wastes at most an eighth; 0 if none. */
static size_t host_huge_pick(size_t bytes, int numa_node)
{
	DIR *dir = opendir("/sys/kernel/mm/hugepages");
	struct dirent *e;
	size_t best = 0;

	if (!dir)
		return 0;
	while ((e = readdir(dir))) {
		uint64_t kib;
		size_t page, whole;

		if (sscanf(e->d_name, "hugepages-%" SCNu64 "kB", &kib) != 1 || !SPW_IS_POW2(kib))
			continue;
		page = (size_t)kib << 10;
		whole = SPW_ALIGN_UP(bytes, page);
		if (page > best && whole >= bytes &&
		    whole - bytes <= SPW_MAX(bytes / 8, THP_BYTES) &&
		    whole / page <= host_huge_free(kib, numa_node))
			best = page;
	}
	closedir(dir);
	return best;
}

static uint8_t *host_map_huge(size_t bytes, size_t page)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB |
		    (int)(spw_log2_floor64(page) << MAP_HUGE_SHIFT_BITS);
	void *va = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);

	return va == MAP_FAILED ? NULL : va;
}

/* Sealed, so that nobody who maps it makes it shorter: an access beyond its end raises SIGBUS. NULL
 * with errno. */
static uint8_t *host_map_shared(size_t bytes, size_t huge_bytes, int *fd_out)
{
	const unsigned int huge =
		huge_bytes ? MFD_HUGETLB | spw_log2_floor64(huge_bytes) << MAP_HUGE_SHIFT_BITS : 0;
	int fd = memfd_create("spinwire", MFD_CLOEXEC | MFD_ALLOW_SEALING | huge), err;
	void *va = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		va = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (va != MAP_FAILED) {
		*fd_out = fd;
		return va;
	}
	err = errno;
	if (fd >= 0)
		close(fd);
	errno = err;
	return NULL;
}

int spw_mem_share(size_t bytes, void **va_out, size_t *bytes_out, int *fd_out)
{
	const size_t whole = SPW_ALIGN_UP(bytes, (size_t)sysconf(_SC_PAGESIZE));
	int rc = mem_check_room(whole);

	if (rc)
		return rc;
	*va_out = host_map_shared(whole, 0, fd_out);
	if (!*va_out)
		return spw_err(errno, "%zu KiB of shared memory: %s", whole >> 10, strerror(errno));
	*bytes_out = whole;
	return 0;
}

void spw_mem_share_free(void *va, size_t bytes, int fd)
{
	mem_unmap_host(va, bytes, fd);
}

/* Aligned so that the kernel may use transparent hugepages. */
static uint8_t *host_map_plain(size_t bytes)
{
	size_t room = bytes + THP_BYTES;
	uint8_t *va = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t head;

	if (va == MAP_FAILED)
		return NULL;
	head = (THP_BYTES - ((uintptr_t)va & (THP_BYTES - 1))) & (THP_BYTES - 1);
	if (head)
		munmap(va, head);
	munmap(va + head + bytes, THP_BYTES - head);
	madvise(va + head, bytes, MADV_HUGEPAGE);
	return va + head;
}

/* Before the pages exist: a policy set afterwards would move none. */
static void host_bind_node(const struct mem_map *map, int numa_node)
{
	struct bitmask *mask;

	if (numa_node < 0 || numa_available() < 0 || numa_node > numa_max_node())
		return;
	mask = numa_allocate_nodemask();
	numa_bitmask_setbit(mask, (unsigned)numa_node);
	/* Preferred, not bound: if the node runs short of pages, the kernel takes far memory, which
	 * is logged, instead of raising SIGBUS. */
	if (mbind(map->va, map->bytes, MPOL_PREFERRED, mask->maskp, mask->size + 1, 0))
		spw_warn("memory: cannot prefer NUMA node %d: %s", numa_node, strerror(errno));
	numa_free_nodemask(mask);
}

/* Writes every page now, so that the data path never takes a page fault. */
static int host_populate(const struct mem_map *map)
{
	if (madvise(map->va, map->bytes, MADV_POPULATE_WRITE) == 0)
		return 0;
	if (errno != EINVAL) /* EINVAL: a kernel before 5.14 */
		return spw_err(ENOMEM, "the kernel gave no pages for %zu MiB: %s", map->bytes >> 20,
			       strerror(errno));
	for (size_t i = 0; i < map->bytes; i += map->page_bytes)
		map->va[i] = 0;
	return 0;
}

/* hugetlb pages are never swapped. Plain pages are locked, with the soft limit raised to the hard
 * one if need be. */
static void host_lock_pages(const struct mem_map *map)
{
	struct rlimit lim;

	if (map->huge || mlock(map->va, map->bytes) == 0)
		return;
	if (getrlimit(RLIMIT_MEMLOCK, &lim) == 0 && lim.rlim_cur < lim.rlim_max) {
		lim.rlim_cur = lim.rlim_max;
		if (setrlimit(RLIMIT_MEMLOCK, &lim) == 0 && mlock(map->va, map->bytes) == 0)
			return;
	}
	spw_warn("memory: %zu MiB are not locked (%s): raise the memlock limit (ulimit -l), or "
		 "they may be swapped",
		 map->bytes >> 20, strerror(errno));
}

/* The node of the page at va; -1 where the kernel does not say. */
static int host_page_node(const void *va)
{
	int node = -1;

	if (numa_available() < 0 ||
	    get_mempolicy(&node, NULL, 0, (void *)(uintptr_t)va, MPOL_F_NODE | MPOL_F_ADDR))
		return -1;
	return node;
}

/* Asked before anything is mapped: an overcommitted map would end in the OOM killer, not in an
 * error. */
int mem_check_room(size_t bytes)
{
	uint64_t limit, left = spw_plat_memory_left(&limit), avail = host_available_bytes();

	if (bytes <= left && bytes <= avail)
		return 0;
	if (left < avail)
		return spw_err(ENOMEM,
			       "%zu MiB were asked for, and the control group leaves %" PRIu64
			       " of its %" PRIu64 " MiB: raise memory.max (docker --memory, "
			       "Kubernetes limits.memory, MemoryMax= of a unit), or use fewer or "
			       "smaller slots",
			       bytes >> 20, left >> 20, limit >> 20);
	return spw_err(ENOMEM,
		       "%zu MiB were asked for and %" PRIu64
		       " MiB are available: use fewer or smaller slots",
		       bytes >> 20, avail >> 20);
}

/* Hugepages if a fitting size has enough free ones, else plain pages with advice that names the
 * remedy. */
static int host_map_pages(size_t bytes, int numa_node, bool shared, struct mem_map *map)
{
	size_t page = host_huge_pick(bytes, numa_node);
	int rc;

	if (page) {
		map->bytes = SPW_ALIGN_UP(bytes, page);
		map->page_bytes = page;
		map->huge = true;
		map->va = shared ? host_map_shared(map->bytes, page, &map->fd)
				 : host_map_huge(map->bytes, page);
		if (map->va)
			return 0;
	}
	map->huge = false;
	map->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	/* Rounding up would overflow: refused as too much memory. */
	if (bytes > SIZE_MAX / 2)
		return mem_check_room(bytes);
	map->bytes = SPW_ALIGN_UP(bytes, map->page_bytes);
	rc = mem_check_room(map->bytes);
	if (rc)
		return rc;
	map->va = shared ? host_map_shared(map->bytes, 0, &map->fd) : host_map_plain(map->bytes);
	if (!map->va)
		return spw_err(ENOMEM, "cannot map %zu MiB: %s", map->bytes >> 20, strerror(errno));
	if (bytes >= THP_BYTES) /* what is smaller would waste most of a hugepage */
		spw_advise("hugepages-none: no free hugepages for %zu MiB, plain pages are used "
			   "(more TLB misses): echo %zu > /proc/sys/vm/nr_hugepages",
			   map->bytes >> 20, SPW_ALIGN_UP(bytes, THP_BYTES) / THP_BYTES);
	return 0;
}

/* A node that was asked for and not got is a warning: the data path works, but slower. */
int mem_map_host(size_t bytes, int numa_node, bool shared, struct mem_map *map_out)
{
	struct mem_map map = {.numa_node = -1, .fd = -1};
	int rc = host_map_pages(bytes, numa_node, shared, &map);

	if (rc)
		return rc;
	host_bind_node(&map, numa_node);
	/* After a fork, copy-on-write would give the CPU other pages than the device writes. */
	madvise(map.va, map.bytes, MADV_DONTFORK);
	rc = host_populate(&map);
	if (rc) {
		mem_unmap_host(map.va, map.bytes, map.fd);
		return rc;
	}
	host_lock_pages(&map);
	map.numa_node = host_page_node(map.va);
	if (numa_node >= 0 && map.numa_node >= 0 && map.numa_node != numa_node)
		spw_warn("memory: NUMA node %d was asked for, the pages are on node %d", numa_node,
			 map.numa_node);
	*map_out = map;
	return 0;
}

void mem_unmap_host(void *va, size_t bytes, int fd)
{
	munmap(va, bytes);
	if (fd >= 0)
		close(fd);
}
